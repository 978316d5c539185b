//! The table of flows, which paths of a router and streams of a link share.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::router::{FlowBy, HostBy};
use crate::units::Size;

/// The flows of a path or a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FlowsTable {
    /// What a flow is; default "5-tuple".
    #[serde(default)]
    pub(crate) by: FlowBy,
    /// The hosts that share equally, whatever the number of their flows, as CAKE's `dual-srchost`
    /// and `dual-dsthost`; default: flows share equally.
    pub(crate) hosts: Option<HostBy>,
    /// The number of flows with a queue of their own; further ones share queues. Default 1024.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) buckets: Option<Spanned<u32>>,
    /// The bytes that a flow sends in a turn; default 1,514 bytes.
    #[schemars(with = "Option<Size>")]
    pub(crate) quantum: Option<Spanned<Size>>,
}
