//! The `[[hop]]` tables.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::network::Direction;
use crate::overhead::{FramingName, Overhead};
use crate::units::{Duration, Rate};

/// Another link of a network, which packets pass after `[link]`, or on the way back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct HopTable {
    /// The hop's name, unique among hops; "link" is the name of `[link]`.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The direction of the packets that pass it; default "forward", after `[link]`.
    #[serde(default)]
    pub(crate) direction: Direction,
    /// The line speed, for example "100 Mbit/s".
    pub(crate) rate: Rate,
    /// Bytes on the wire per packet in addition to its length, or a name as in `[link]`. Default 0.
    #[serde(default)]
    pub(crate) overhead: Overhead,
    /// The division of packets on the wire: "atm" (cells of 53 bytes for every 48), "ptm" (65 for
    /// 64) or "none". Default: that of the name in `overhead`, or "none".
    #[schemars(with = "Option<FramingName>")]
    pub(crate) framing: Option<Spanned<FramingName>>,
    /// The propagation delay; default 0.
    pub(crate) delay: Option<Duration>,
    /// The probability that it loses a packet, from 0 to below 1; default 0.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub(crate) loss: Option<Spanned<f64>>,
    /// The limit of waiting packets of all streams together; further arrivals are dropped.
    /// Default: unlimited.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) queue: Option<Spanned<u32>>,
    /// The discipline; default: that of `[scheduler]`, with its options.
    #[schemars(with = "Option<String>", extend("enum" = super::discipline_names()))]
    pub(crate) discipline: Option<Spanned<String>>,
}

impl HopTable {
    pub(crate) fn wire(&self) -> millstream::Link {
        self.overhead.link(self.rate, self.framing.as_ref())
    }
}
