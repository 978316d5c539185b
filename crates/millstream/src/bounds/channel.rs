//! Guarantees below a channel that goes first within its token bucket: MinBW.
//!
//! In any t the channel takes at most b + ρ_c·t bytes of its bucket and what is left of one of its
//! packets at the start, L_c. All bounds here count work, so the others have a link of rate
//! C = r − ρ_c that comes (b + L_c)/C late:
//!
//! ```text
//! end of service of packet k  ≤  s + W/ρ + α + (b + L_c)/C        ρ, α as on a link of rate C
//! ```
//!
//! The channel's time is left out of WFQ's clock, so that its tags are those of a link without the
//! channel; stretched by r/C they are those of a link of rate C. Source: fluctuation-constrained
//! servers, Goyal, Vin and Cheng 1996; MinBW paper, section IV.

use super::exact::{BITS_NS, ceil_ns};
use super::{Bounds, FairDiscipline, LatencyRate, NoPromise, RateGuarantee, Source, StreamLimits};
use crate::contract::{Contract, MaxRate};
use crate::link::Link;

/// A channel that goes before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The smallest packet, bytes without the link's overhead. 0 if unknown.
    pub smallest_bytes: u32,
    /// The largest packet, bytes without the link's overhead.
    pub largest_bytes: u32,
    /// The bucket that it is held to, on the wire.
    pub bucket: Source,
}

impl Channel {
    /// What `contract` says of a channel whose packets are as long as given; `None` if no bucket
    /// holds it, so that it may take the whole link.
    #[must_use]
    pub fn of(contract: &Contract, smallest_bytes: u32, largest_bytes: u32) -> Option<Self> {
        let MaxRate { rate_bps, burst_bytes } = contract.max_rate?;
        let bucket = Source { rate_bps: rate_bps.get(), burst_bytes };
        Some(Self { smallest_bytes, largest_bytes, bucket })
    }
}

impl Bounds<'_> {
    /// What `stream` is guaranteed by `discipline` below `channel`. Reads what
    /// [`latency_rate`](Self::latency_rate) reads; `streams` are those below.
    ///
    /// # Errors
    /// If it is guaranteed nothing: also if the channel may take the whole link.
    pub fn latency_rate_below(
        &self,
        discipline: FairDiscipline,
        stream: usize,
        channel: &Channel,
    ) -> Result<LatencyRate, NoPromise> {
        discipline.guarantee().latency_rate_below(self, stream, channel)
    }

    /// What a discipline with this `guarantee` guarantees `stream` below `channel`.
    fn below_channel(
        &self,
        guarantee: &RateGuarantee,
        stream: usize,
        channel: &Channel,
    ) -> Result<LatencyRate, NoPromise> {
        let alone = [StreamLimits::new(channel.smallest_bytes, channel.largest_bytes)];
        let of_channel = Bounds::new(self.link, &alone).effective_rate_bps();
        let effective = self.effective_rate_bps().min(of_channel);
        let left = effective.checked_sub(channel.bucket.rate_bps).filter(|left| *left > 0);
        let rate_bps = left.ok_or(NoPromise::NoShare)?;
        let below = Bounds { link: Link { rate_bps, ..self.link }, ..*self };
        let promise = (guarantee.latency_rate)(&below, stream)?;
        let largest = self.wire(channel.largest_bytes);
        // A packet larger than the burst conforms in the end, and is sent whole.
        let late = u128::from(channel.bucket.burst_bytes).max(largest) + largest;
        let late_ns = ceil_ns(late.checked_mul(BITS_NS), u128::from(rate_bps));
        // A clock at the link's rate runs ahead of what the link does, as without the channel.
        let lost = u128::from(self.link.rate_bps.saturating_sub(effective));
        let drift_ns = match self.busy_ns {
            Some(busy_ns) => ceil_ns(Some(u128::from(busy_ns) * lost), u128::from(rate_bps)),
            None if lost == 0 || !guarantee.clocked => 0,
            None => return Err(NoPromise::ClockDrifts),
        };
        let extra_ns = late_ns.saturating_add(if guarantee.clocked { drift_ns } else { 0 });
        Ok(LatencyRate {
            latency_ns: promise.latency_ns.saturating_add(extra_ns),
            error_ns: promise.error_ns.saturating_add_unsigned(extra_ns),
            ..promise
        })
    }
}

impl RateGuarantee {
    /// What `stream` is guaranteed below `channel`: see [`Bounds::latency_rate_below`].
    ///
    /// # Errors
    /// If it is guaranteed nothing, or the channel may take the whole link.
    pub fn latency_rate_below(
        &self,
        bounds: &Bounds<'_>,
        stream: usize,
        channel: &Channel,
    ) -> Result<LatencyRate, NoPromise> {
        bounds.below_channel(self, stream, channel)
    }
}
