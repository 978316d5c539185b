//! A guaranteed rate with its latency, and the delays and backlogs that follow from it.

use core::fmt;

use super::Source;
use super::exact::{BITS_NS, ceil_ns, plus_error};

/// A guaranteed rate and latency, whatever other streams send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyRate {
    /// ρ, bits/s on the wire, rounded down.
    pub rate_bps: u64,
    /// θ, ns, rounded up: a backlogged stream gets ρ·(t − θ) in t, whole packets counted at their
    /// end. The latency of a path is the sum of those of its links. Source: Stiliadis and Varma
    /// 1998.
    pub latency_ns: u64,
    /// α, ns, rounded up: how much later a packet may end than on a dedicated link of rate ρ.
    /// Negative where short packets always end sooner than that (SFQ). Source: Goyal, Lam and Vin
    /// 1997.
    pub error_ns: i64,
    /// Bytes of the stream that may be in service when θ begins to count; see
    /// [`backlog_bytes`](Self::backlog_bytes).
    pub carried_bytes: u64,
}

impl LatencyRate {
    /// Returns the worst delay of a stream that conforms to `source`, arrival to end of service,
    /// ns: σ/ρ + α. [`Bounds::start_ns`](super::Bounds::start_ns) gives that of the start of
    /// service.
    ///
    /// `None` if the source's rate exceeds the guaranteed one. Source: Goyal, Lam and Vin 1997,
    /// of guaranteed-rate servers; it is L/ρ less than σ/ρ + θ of latency-rate servers where
    /// θ = α + L/ρ, and never more.
    #[must_use]
    pub fn delay_ns(&self, source: Source) -> Option<u64> {
        let rate = self.usable_rate(source)?;
        let fluid = ceil_ns(u128::from(source.burst_bytes).checked_mul(BITS_NS), rate);
        Some(plus_error(fluid, self.error_ns))
    }

    /// Returns the greatest backlog of a stream that conforms to `source`, bytes on the wire, the
    /// packet in service included. It is the lesser of σ + ρ_s·delay and σ + ρ_s·θ. For round
    /// robins, the second adds one packet that was in service when the queue began to fill.
    ///
    /// `None` if the source's rate exceeds the guaranteed one. Source: Stiliadis and Varma 1998.
    #[must_use]
    pub fn backlog_bytes(&self, source: Source) -> Option<u64> {
        let delay_ns = self.delay_ns(source)?;
        let by_latency = source.bytes_in(self.latency_ns).saturating_add(self.carried_bytes);
        Some(source.bytes_in(delay_ns).min(by_latency))
    }

    /// Returns the guarantee of a stream that starts `bytes` ahead of the clock.
    #[must_use]
    pub fn behind(self, bytes: u64) -> Self {
        let ns = ceil_ns(u128::from(bytes).checked_mul(BITS_NS), u128::from(self.rate_bps));
        Self {
            latency_ns: self.latency_ns.saturating_add(ns),
            error_ns: self.error_ns.saturating_add_unsigned(ns),
            ..self
        }
    }

    fn usable_rate(&self, source: Source) -> Option<u128> {
        (source.rate_bps <= self.rate_bps && self.rate_bps > 0).then_some(u128::from(self.rate_bps))
    }
}

/// The reason why a stream has no guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPromise {
    /// There is no stream of this number.
    UnknownStream,
    /// The link has no rate, or the stream no weight, no quantum, or (WRR, WIRR) no smallest
    /// packet.
    NoShare,
    /// The discipline's clock runs ahead of a link of this rate, and
    /// [`Bounds::busy_ns`](super::Bounds::busy_ns) does not limit the link's busy periods.
    ClockDrifts,
}

impl fmt::Display for NoPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownStream => "the stream is out of range",
            Self::NoShare => "the stream has no share of the link's rate",
            Self::ClockDrifts => {
                "transmissions at this rate are not whole nanoseconds, so the discipline's clock \
                 runs ahead while the link is busy, and busy periods are unbounded"
            }
        })
    }
}

impl core::error::Error for NoPromise {}
