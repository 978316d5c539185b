//! The tables of flows and queue management, which paths of a router and streams of a link share.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::router::FlowBy;
use crate::units::{Duration, Size};

/// The flows of a path or a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FlowsTable {
    /// What a flow is; default "5-tuple".
    #[serde(default)]
    pub(crate) by: FlowBy,
    /// The number of flows with a queue of their own; further ones share queues. Default 1024.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) buckets: Option<Spanned<u32>>,
    /// The bytes that a flow sends in a turn; default 1,514 bytes.
    #[schemars(with = "Option<Size>")]
    pub(crate) quantum: Option<Spanned<Size>>,
}

/// Queue management: a name, or CoDel's parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "\"codel\", \"none\", or a table such as { target = \"5 ms\" }")]
pub(crate) enum AqmText {
    /// A name.
    Name(AqmName),
    /// CoDel with these parameters.
    Codel(CodelTable),
}

/// The name of a queue management.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AqmName {
    /// Drops or marks some packets while they wait longer than `target` (CoDel, RFC 8289).
    Codel,
    /// Drops packets at a full queue only.
    None,
}

/// The parameters of CoDel (RFC 8289).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CodelTable {
    /// The wait that a standing queue may have; default "5 ms".
    pub(crate) target: Option<Duration>,
    /// About the longest round-trip time of the senders; default "100 ms".
    pub(crate) interval: Option<Duration>,
    /// Whether packets of ECN-capable senders are marked instead of dropped; default true.
    pub(crate) ecn: Option<bool>,
}
