//! Guarantees by theory: delays, backlogs, rates and feasibility, computed from contracts.
//!
//! All arithmetic is exact in integers and rounded to the safe side: delays, latencies and backlogs
//! up, guaranteed rates down. A delay or backlog beyond the range saturates; other values beyond it
//! give no guarantee. Nothing overflows or panics.
//!
//! ```text
//! delay, arrival to end of service  ≤  σ/ρ + α        ρ guaranteed rate, α error term
//! backlog                           ≤  σ + ρ_s·θ      θ latency; σ, ρ_s: the stream's token bucket
//! ```
//!
//! **Whole nanoseconds.** A transmission takes ⌈bits·10⁹/r⌉ ns, so a link of rate r sends less than
//! r. Short packets lose most; a rate that divides 8·10⁹ loses nothing. The least rate for packets
//! of these streams is [`Bounds::effective_rate_bps`]. The bounds of round robins, SCFQ, SFQ, FIFO
//! and static priority use it instead of r. WFQ, WF²Q, WF²Q+ and virtual clock have a clock that
//! advances at r. It gains each transmission's rounding on the link, and packets behind the clock
//! go before later arrivals, whose delay grows by the gain. [`Bounds::busy_ns`] limits the gain;
//! without that such a link has no guarantee.
//!
//! **Premises.** One level (no tree, except [`Channel`] for MinBW), no closed gates, a
//! work-conserving link that decides when it is free, no [`charge`](crate::Scheduler::charge).
//! Where no source is mentioned, the other streams may send without limit. Lengths include the
//! link's overhead.

mod arrivals;
mod channel;
mod exact;
mod fair;
mod feasible;
mod guarantee;
mod proof;

use core::num::{NonZeroU32, NonZeroU64};

use crate::contract::{Contract, Late, Window};
use crate::link::Link;
use exact::{BITS_NS, ceil_ns, ratio_up};

pub use arrivals::ArrivalPattern;
pub use channel::Channel;
pub use fair::{FairDiscipline, LatencyRate, NoPromise};
pub use feasible::{EdfVerdict, Premise, WindowVerdict, Windows};
pub use guarantee::{
    DeadlineGuarantee, DelayGuarantee, Fairness, Guarantee, RateGuarantee, SettingCheck, Share,
    UnprovedSetting,
};
pub use proof::{Checked, Condition, Failing, Theorem};

/// A token bucket that a stream's packets conform to: in any closed interval of t seconds at most
/// `burst_bytes` + `rate_bps`·t/8 bytes arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// ρ_s, bits/s.
    pub rate_bps: u64,
    /// σ, bytes on the wire; at least the largest packet.
    pub burst_bytes: u64,
}

/// The attributes of a stream that bounds use; each bound states what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The smallest packet, bytes without the link's overhead. 0 if unknown.
    pub smallest_bytes: u32,
    /// The largest packet, bytes without the link's overhead.
    pub largest_bytes: u32,
    /// φ of fair queueing, packets a round of WRR and WIRR.
    pub weight: u32,
    /// Q of DRR, bytes on the wire.
    pub quantum_bytes: u32,
    /// The static priority; 0 is served first.
    pub priority: u32,
    /// The request period T of EDF, DWCS and VDS, ns.
    pub period_ns: u64,
    /// x/y of DWCS and VDS.
    pub window: Window,
    /// The contract's deadline of the first packet, ns.
    pub first_deadline_ns: Option<u64>,
    /// The treatment of late packets.
    pub late: Late,
    /// How many packets may wait; `None` if unbounded.
    pub queue: Option<u32>,
    /// Whether a rate cap or a lack of credits can make the stream ineligible.
    pub gated: bool,
    /// The token bucket; `None` if the stream may send without limit.
    pub source: Option<Source>,
    /// Its arrival times; `None` if packets may arrive at any time.
    pub arrivals: Option<ArrivalPattern>,
}

impl StreamLimits {
    /// Returns limits with packets of `smallest_bytes` to `largest_bytes` and weight 1; all else is
    /// 0 or `None`.
    #[must_use]
    pub fn new(smallest_bytes: u32, largest_bytes: u32) -> Self {
        Self {
            smallest_bytes,
            largest_bytes,
            weight: 1,
            quantum_bytes: 0,
            priority: 0,
            period_ns: 0,
            window: Window::default(),
            first_deadline_ns: None,
            late: Late::Send,
            queue: None,
            gated: false,
            source: None,
            arrivals: None,
        }
    }

    /// Returns the limits of a stream with `contract` and packets of these lengths, without source
    /// and arrivals. Attributes that the contract lacks are 0.
    #[must_use]
    pub fn of(contract: &Contract, smallest_bytes: u32, largest_bytes: u32) -> Self {
        Self {
            smallest_bytes,
            largest_bytes,
            weight: contract.weight,
            quantum_bytes: contract.quantum_bytes.map_or(0, NonZeroU32::get),
            priority: contract.priority,
            period_ns: contract.period_ns.map_or(0, NonZeroU64::get),
            window: contract.window,
            first_deadline_ns: contract.first_deadline_ns,
            late: contract.late,
            queue: contract.queue,
            gated: contract.is_limited(),
            source: None,
            arrivals: None,
        }
    }
}

/// A link and all streams that share it.
///
/// ```
/// use millstream::Link;
/// use millstream::bounds::{Bounds, FairDiscipline, Source, StreamLimits};
///
/// let voice = StreamLimits { weight: 3, ..StreamLimits::new(200, 200) };
/// let bulk = StreamLimits::new(64, 1500);
/// let link = Link { rate_bps: 100_000_000, overhead_bytes: 0 };
/// let streams = [voice, bulk];
/// let bounds = Bounds::new(link, &streams);
/// let promise = bounds.latency_rate(FairDiscipline::Wfq, 0)?;
/// assert_eq!(promise.rate_bps, 75_000_000);
/// // Its own 200 bytes at 75 Mb/s behind 1,500 at 100 Mb/s, and 1 ns for fixed-point tags.
/// assert_eq!(promise.latency_ns, 21_334 + 120_000 + 1);
/// let source = Source { rate_bps: 64_000, burst_bytes: 200 };
/// assert_eq!(promise.delay_ns(source), Some(141_335));
/// # Ok::<(), millstream::bounds::NoPromise>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// The link.
    pub link: Link,
    /// All streams, idle ones too.
    pub streams: &'a [StreamLimits],
    /// The longest busy period of the link, ns; `None` if unbounded.
    pub busy_ns: Option<u64>,
}

impl<'a> Bounds<'a> {
    /// Returns bounds of `streams` on `link`, whose busy periods are unbounded.
    #[must_use]
    pub fn new(link: Link, streams: &'a [StreamLimits]) -> Self {
        Self { link, streams, busy_ns: None }
    }

    /// Returns the least rate at which the link sends these streams' packets, bits/s, rounded down:
    /// the link's rate less the rounding of transmissions to whole nanoseconds.
    ///
    /// A packet of ℓ bytes on the wire takes at most (8·10⁹ℓ + r − 1)/r ns, exactly 8·10⁹ℓ/r if r
    /// divides 8·10⁹, and its own transmission time if all of a stream's packets are equally long.
    /// Reads the packets' lengths.
    #[must_use]
    pub fn effective_rate_bps(&self) -> u64 {
        let rate = self.rate();
        if rate == 0 || BITS_NS.is_multiple_of(rate) {
            return exact::narrow(rate);
        }
        let effective = |stream: &StreamLimits| {
            let (least, most) = (self.wire(stream.smallest_bytes), self.wire(stream.largest_bytes));
            // The transmission of an empty packet takes no time and has no rounding.
            let bits_ns = least.max(1) * BITS_NS;
            if least == most {
                bits_ns / bits_ns.div_ceil(rate)
            } else {
                bits_ns * rate / (bits_ns + rate - 1)
            }
        };
        exact::narrow(self.streams.iter().map(effective).min().unwrap_or(rate))
    }

    /// Returns the worst delay of every stream under FIFO, arrival to end of service, ns: Σσ/r.
    ///
    /// `None` if a stream has no source or their rates together exceed the link's. Reads sources.
    /// Source: Cruz 1991.
    #[must_use]
    pub fn fifo_delay_ns(&self) -> Option<u64> {
        let all = self.sum_sources(|_| true)?;
        let rate = u128::from(self.effective_rate_bps());
        (all.rate_bps <= rate).then(|| ceil_ns(all.burst_bytes.checked_mul(BITS_NS), rate))
    }

    /// Returns the worst delay of `stream` under static priority, arrival to end of service, ns:
    /// (Σσ of its priority and higher ones + the largest lower packet) / (r − Σρ of higher ones).
    ///
    /// Streams of one priority are served in the order of arrival. `None` if there is no such
    /// stream, one of its priority or a higher one has no source, or their rates together exceed
    /// the link's. Reads priorities, the sources of those streams and the largest packets of lower
    /// ones. Source: Cruz 1991; only higher packets overtake a waiting packet.
    #[must_use]
    pub fn static_priority_delay_ns(&self, stream: usize) -> Option<u64> {
        let priority = self.streams.get(stream)?.priority;
        let level = self.sum_sources(|other| other.priority <= priority)?;
        let higher = self.sum_sources(|other| other.priority < priority)?;
        let lower = self.streams.iter().filter(|other| other.priority > priority);
        let blocking = lower.map(|other| self.wire(other.largest_bytes)).max().unwrap_or(0);
        let rate = u128::from(self.effective_rate_bps());
        if level.rate_bps > rate || higher.rate_bps == rate {
            return None;
        }
        let work = level.burst_bytes + blocking;
        Some(ceil_ns(work.checked_mul(BITS_NS), rate - higher.rate_bps))
    }

    /// Returns the bound on the start of service, ns, that follows from a bound on its end: less
    /// the transmission of the stream's smallest packet. 0 for an unknown stream.
    ///
    /// Millstream's deadlines and traces refer to the start of service.
    #[must_use]
    pub fn start_ns(&self, delay_ns: u64, stream: usize) -> u64 {
        let Some(stream) = self.streams.get(stream).filter(|_| self.link.rate_bps > 0) else {
            return 0;
        };
        delay_ns.saturating_sub(self.link.transmission_ns(stream.smallest_bytes))
    }

    /// Returns the latency of DRR as first published, ns: (3F − 2Q)/r, F = ΣQ, where every quantum
    /// is at least the stream's largest packet.
    ///
    /// For comparison with papers only: see [`drr_latency_ns`](Self::drr_latency_ns).
    /// `None` if there is no such stream. Reads quanta. Source: Stiliadis and Varma 1998.
    #[must_use]
    pub fn drr_classic_latency_ns(&self, stream: usize) -> Option<u64> {
        let own = u128::from(self.streams.get(stream)?.quantum_bytes);
        let frame: u128 = self.streams.iter().map(|other| u128::from(other.quantum_bytes)).sum();
        Some(ceil_ns((3 * frame - 2 * own).checked_mul(BITS_NS), self.effective().max(1)))
    }

    /// Returns the tighter latency of DRR, ns: \[(1 + d_i/Q_i)·Σ_{j≠i}Q_j + Σ_{j≠i}d_j\]/r, d = L −
    /// 1.
    ///
    /// It counts service by the bit, and a stream counts as backlogged while its last packet is
    /// sent. Millstream follows the original rule: that stream has left the ring, and an arrival
    /// joins at the tail without deficit. Its wait then includes the rest of its own stream's
    /// packet; [`latency_rate`](Self::latency_rate) accounts for this. `None` if there is no such
    /// stream or its quantum is 0. Reads quanta and largest packets. Source: Boyer, Stea and Sofack
    /// 2012.
    #[must_use]
    pub fn drr_latency_ns(&self, stream: usize) -> Option<u64> {
        let own = self.streams.get(stream).filter(|own| own.quantum_bytes > 0)?;
        let quantum = u128::from(own.quantum_bytes);
        let left = |stream: &StreamLimits| self.wire(stream.largest_bytes).saturating_sub(1);
        let (mut quanta, mut deficits) = (0, 0);
        for (_, other) in self.others(stream) {
            quanta += u128::from(other.quantum_bytes);
            deficits += left(other);
        }
        let work: u128 = (quantum + left(own)) * quanta + quantum * deficits;
        Some(ceil_ns(work.checked_mul(BITS_NS), (quantum * self.effective()).max(1)))
    }

    /// Bytes on the wire.
    fn wire(&self, bytes: u32) -> u128 {
        u128::from(self.link.wire_bytes(bytes))
    }

    /// The link's rate, at most 2⁴⁷ bits/s, which is the limit of the disciplines' clocks.
    fn rate(&self) -> u128 {
        u128::from(self.link.rate_bps.min(1 << 47))
    }

    fn effective(&self) -> u128 {
        u128::from(self.effective_rate_bps())
    }

    fn others(&self, stream: usize) -> impl Iterator<Item = (usize, &'a StreamLimits)> {
        self.streams.iter().enumerate().filter(move |(other, _)| *other != stream)
    }

    fn sum_sources(&self, of: impl Fn(&StreamLimits) -> bool) -> Option<SourceSum> {
        let mut sum = SourceSum { rate_bps: 0, burst_bytes: 0 };
        for stream in self.streams.iter().filter(|stream| of(stream)) {
            let source = stream.source?;
            sum.rate_bps += u128::from(source.rate_bps);
            sum.burst_bytes += u128::from(source.burst_bytes);
        }
        Some(sum)
    }
}

/// The sum of several sources.
struct SourceSum {
    rate_bps: u128,
    burst_bytes: u128,
}

impl LatencyRate {
    /// Returns the worst delay of a stream that conforms to `source`, arrival to end of service,
    /// ns: σ/ρ + α. [`Bounds::start_ns`] gives that of the start of service.
    ///
    /// `None` if the source's rate exceeds the guaranteed one. Source: Goyal, Lam and Vin 1997,
    /// of guaranteed-rate servers; it is L/ρ less than σ/ρ + θ of latency-rate servers where
    /// θ = α + L/ρ, and never more.
    #[must_use]
    pub fn delay_ns(&self, source: Source) -> Option<u64> {
        let rate = self.usable_rate(source)?;
        let fluid = ceil_ns(u128::from(source.burst_bytes).checked_mul(BITS_NS), rate);
        Some(exact::plus_error(fluid, self.error_ns))
    }

    /// Returns the greatest backlog of a stream that conforms to `source`, bytes on the wire, the
    /// packet in service included: σ + ρ_s·θ, for round robins plus one packet that was in service
    /// when the queue began to fill; σ + ρ_s·delay if that is less.
    ///
    /// `None` if the source's rate exceeds the guaranteed one. Source: Stiliadis and Varma 1998.
    #[must_use]
    pub fn backlog_bytes(&self, source: Source) -> Option<u64> {
        let delay_ns = self.delay_ns(source)?;
        let after = |ns: u64| {
            let more = ratio_up(u128::from(source.rate_bps) * u128::from(ns), BITS_NS);
            source.burst_bytes.saturating_add(more)
        };
        Some(after(delay_ns).min(after(self.latency_ns).saturating_add(self.carried_bytes)))
    }

    fn usable_rate(&self, source: Source) -> Option<u128> {
        (source.rate_bps <= self.rate_bps && self.rate_bps > 0).then_some(u128::from(self.rate_bps))
    }
}

#[cfg(test)]
mod tests;
