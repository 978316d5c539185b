//! Types that describe the guarantees of a discipline.
//!
//! Each discipline states its guarantee in its own file, as part of its catalogue row: the theorem,
//! how its bound is computed, and the premises that only this discipline has.

use super::{Bounds, LatencyRate, NoPromise, StreamLimits, StrictShare, Theorem};
use crate::catalogue::{Options, StructureName};

/// A discipline's guarantee to its streams.
#[derive(Clone, Copy, Debug)]
pub enum Guarantee {
    /// No guarantee.
    None,
    /// A rate and a latency, whatever other streams send.
    Rate(RateGuarantee),
    /// A delay, while every stream that may be served first conforms to a token bucket.
    Delay(DelayGuarantee),
    /// Deadlines or windows of deadlines.
    Deadlines(DeadlineGuarantee),
    /// The guarantee of the discipline that shares what management channels leave.
    BelowManagement,
}

/// The guarantee of a discipline that shares the link.
#[derive(Clone, Copy, Debug)]
pub struct RateGuarantee {
    /// The theorem and its source.
    pub theorem: &'static str,
    /// `true` if gates of other streams break the guarantee, too. WFQ, WF²Q: a stream can be served
    /// ahead of the fluid and then meet a closed gate; the fluid skips it and runs ahead of the
    /// link. SFQ: while the link idles and closed gates hold packets, the clock stops.
    pub others_ungated: bool,
    /// `true` if the discipline has a clock that advances with time rather than with service.
    pub clocked: bool,
    /// Computes the bound of one stream.
    pub latency_rate: fn(&Bounds<'_>, usize) -> Result<LatencyRate, NoPromise>,
    /// How far a stream that becomes backlogged may be ahead of the clock.
    pub lead: Lead,
    /// Computes the share of a child from any instant, for trees of classes; `None` if no proof is
    /// known.
    pub strict: Option<fn(&Bounds<'_>, usize) -> Option<StrictShare>>,
}

/// How far the tag of a stream that becomes backlogged may be ahead of the clock. On a link, time
/// passes while the stream waits for the clock; the clock of a class stops while the class is
/// empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// Not at all: the stream starts anew.
    None,
    /// By its last packet.
    Packet,
    /// Without a limit.
    Unbounded,
}

/// The guarantee of a discipline that serves a common queue, or several by precedence.
#[derive(Clone, Copy, Debug)]
pub struct DelayGuarantee {
    /// The theorem and its source.
    pub theorem: &'static str,
    /// Computes the worst delay of one stream, ns; `None` if there is no bound.
    pub delay_ns: fn(&Bounds<'_>, usize) -> Option<u64>,
    /// Returns whether packets of the second stream may precede later packets of the first.
    pub may_precede: fn(&StreamLimits, &StreamLimits) -> bool,
}

/// The guarantee of a discipline that orders by deadlines.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineGuarantee {
    /// The theorems that may apply; the last is preferred where several have as few failing
    /// premises.
    pub theorems: &'static [Theorem],
    /// `true` if every request counts: the discipline has no loss windows.
    pub every_request: bool,
    /// Finds the setting that a theorem does not cover; `None` if the discipline has no settings.
    pub settings: Option<SettingCheck>,
}

/// Finds the setting of a discipline that a theorem does not cover.
pub type SettingCheck = fn(&Options, StructureName, Theorem) -> Option<UnprovedSetting>;

/// A setting that no theorem covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovedSetting {
    /// The setting that is not covered, as a clause.
    pub detail: &'static str,
    /// The line of the scenario file that is covered.
    pub change: &'static str,
}

/// How streams share the link, and in which unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Streams have no shares.
    None,
    /// Bytes in proportion to weights.
    Weight,
    /// Bytes in proportion to quanta.
    Quantum,
    /// Packets in proportion to weights.
    Packets,
    /// Packets in proportion to entries of a table, which may omit streams.
    Entries,
}

/// The greatest difference between the service per weight of two backlogged streams i and j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// L_i/φ_i + L_j/φ_j. Source: Golestani 1994; Goyal, Vin and Cheng 1996.
    SelfClocked,
    /// (L_i + L_max)/φ_i + (L_j + L_max)/φ_j, from the distance to the fluid. Source: Bennett and
    /// Zhang 1996.
    WorstCaseFair,
    /// C_j + L_max/φ_i + L_j/φ_j or the value with i and j exchanged, where
    /// C_i = min((n − 1)·L_max/φ_i, max L_n/φ_n). Source: Stiliadis and Varma 1998.
    Fluid,
    /// q + L_i/φ_i + L_j/φ_j, a turn being q·φ bytes. Source: Shreedhar and Varghese 1995.
    Deficit,
    /// Unbounded, for this reason.
    Unbounded(&'static str),
}

impl Guarantee {
    /// Returns the guarantee of a rate, if it is one.
    #[must_use]
    pub fn rate(self) -> Option<RateGuarantee> {
        match self {
            Self::Rate(rate) => Some(rate),
            _ => None,
        }
    }

    /// Returns the guarantee of deadlines, if it is one.
    #[must_use]
    pub fn deadlines(self) -> Option<DeadlineGuarantee> {
        match self {
            Self::Deadlines(deadlines) => Some(deadlines),
            _ => None,
        }
    }
}
