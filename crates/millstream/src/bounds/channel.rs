//! Guarantees of MinBW: below a channel that is served first within its token bucket.
//!
//! In any t the channel takes at most b + ρ_c·t bytes of its bucket and the rest of one of its
//! packets at the start, L_c. All bounds count work, so the other streams see a link of rate C = r
//! − ρ_c with an extra latency of (b + L_c)/C:
//!
//! ```text
//! end of service of packet k  ≤  s + W/ρ + α + (b + L_c)/C        ρ, α as on a link of rate C
//! ```
//!
//! WFQ's clock stops while the channel is served, so its tags are those of a link without the
//! channel. Scaled by r/C, they are those of a link of rate C. Source: fluctuation-constrained
//! servers, Goyal, Vin and Cheng 1996; MinBW paper, section IV.

use super::exact::{BITS_NS, ceil_ns};
use super::{Bounds, LatencyRate, NoPromise, RateGuarantee, Source, StreamLimits};
use crate::contract::{Contract, MaxRate};
use crate::link::Link;

/// A channel that is served before all other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The smallest packet, bytes without the link's overhead. 0 if unknown.
    pub smallest_bytes: u32,
    /// The largest packet, bytes without the link's overhead.
    pub largest_bytes: u32,
    /// The token bucket that limits it, bytes on the wire.
    pub bucket: Source,
}

impl Channel {
    /// Returns the channel of a `contract` with packets of these lengths; `None` if no bucket
    /// limits it, so that it may take the whole link.
    #[must_use]
    pub fn of(contract: &Contract, smallest_bytes: u32, largest_bytes: u32) -> Option<Self> {
        let MaxRate { rate_bps, burst_bytes } = contract.max_rate?;
        let bucket = Source { rate_bps: rate_bps.get(), burst_bytes };
        Some(Self { smallest_bytes, largest_bytes, bucket })
    }
}

impl RateGuarantee {
    /// Returns the guarantee of `stream` below `channel`: see [`Bounds::latency_rate_below`].
    ///
    /// # Errors
    /// Returns the reason why the stream has no guarantee.
    pub fn latency_rate_below(
        &self,
        bounds: &Bounds<'_>,
        stream: usize,
        channel: &Channel,
    ) -> Result<LatencyRate, NoPromise> {
        let alone = [StreamLimits::new(channel.smallest_bytes, channel.largest_bytes)];
        let of_channel = Bounds::new(bounds.link, &alone).effective_rate_bps();
        let effective = bounds.effective_rate_bps().min(of_channel);
        let left = effective.checked_sub(channel.bucket.rate_bps).filter(|left| *left > 0);
        let rate_bps = left.ok_or(NoPromise::NoShare)?;
        let below = Bounds { link: Link { rate_bps, ..bounds.link }, ..*bounds };
        let promise = (self.latency_rate)(&below, stream)?;
        let largest = bounds.wire(channel.largest_bytes);
        // A packet larger than the burst conforms eventually, and is sent whole.
        let late = u128::from(channel.bucket.burst_bytes).max(largest) + largest;
        let late_ns = ceil_ns(late.checked_mul(BITS_NS), u128::from(rate_bps));
        // A clock at the link's rate runs ahead of the link, as without the channel.
        let lost = u128::from(bounds.link.rate_bps.saturating_sub(effective));
        let drift_ns = match bounds.busy_ns {
            Some(busy_ns) => ceil_ns(Some(u128::from(busy_ns) * lost), u128::from(rate_bps)),
            None if lost == 0 || !self.clocked => 0,
            None => return Err(NoPromise::ClockDrifts),
        };
        let extra_ns = late_ns.saturating_add(if self.clocked { drift_ns } else { 0 });
        Ok(LatencyRate {
            latency_ns: promise.latency_ns.saturating_add(extra_ns),
            error_ns: promise.error_ns.saturating_add_unsigned(extra_ns),
            ..promise
        })
    }
}
