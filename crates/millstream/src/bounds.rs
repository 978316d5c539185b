//! Guarantees by theory: delays, backlogs, rates and feasibility, computed from contracts.
//!
//! All arithmetic is exact in integers and rounded to the safe side: delays, latencies and backlogs
//! up, guaranteed rates down. A delay or backlog beyond the range saturates; other values beyond it
//! give no guarantee. No computation overflows or panics.
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
//! advances at r. It gains each transmission's rounding on the link. Packets behind the clock are
//! served before later arrivals, so the delay of later arrivals grows by the gain.
//! [`Bounds::busy_ns`] limits the gain; without that limit such a link has no guarantee.
//!
//! **Premises.** One level (no tree, except [`Channel`] for MinBW), no closed gates, a
//! work-conserving link that decides when it is free, no [`charge`](crate::Scheduler::charge).
//! A bound that names no source lets the other streams send without limit. Lengths include the
//! link's overhead.

mod admission;
mod arrivals;
mod channel;
mod delay;
mod edf;
mod exact;
pub(crate) mod fair;
mod flows;
mod gate;
mod guarantee;
mod latency_rate;
mod path;
mod proof;
pub(crate) mod round_robin;
mod service;
pub(crate) mod strict;
mod windows;

use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};

use crate::contract::{Contract, Late, MaxRate, Window};
use crate::link::Link;
use exact::BITS_NS;
use windows::UnitJobs;

pub use admission::{EdfAdmission, EdfRefusal};
pub use arrivals::ArrivalPattern;
pub use channel::Channel;
pub use edf::EdfVerdict;
pub use fair::FairDiscipline;
pub use flows::{FlowTurns, SparseFlow};
pub use gate::{CreditWindow, Gated};
pub use guarantee::{
    DeadlineGuarantee, DelayGuarantee, Fairness, Guarantee, Lead, RateGuarantee, SettingCheck,
    Share, UnprovedSetting,
};
pub use latency_rate::{LatencyRate, NoPromise};
pub use path::SharedLink;
pub use proof::{Checked, Condition, Failing, Theorem};
pub use service::ServiceCurve;
pub use strict::StrictShare;
pub use windows::{Premise, WindowVerdict, Windows};

/// A token bucket that a stream's packets conform to: in any closed interval of t seconds at most
/// `burst_bytes` + `rate_bps`·t/8 bytes arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// ρ_s, bits/s.
    pub rate_bps: u64,
    /// σ, bytes on the wire; at least the largest packet.
    pub burst_bytes: u64,
}

impl Source {
    /// Returns the most bytes that arrive in `ns`, rounded up and saturating.
    #[must_use]
    pub fn bytes_in(self, ns: u64) -> u64 {
        let more = exact::ratio_up(u128::from(self.rate_bps) * u128::from(ns), BITS_NS);
        self.burst_bytes.saturating_add(more)
    }

    /// Returns the token bucket of both streams together, saturating.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rate_bps: self.rate_bps.saturating_add(other.rate_bps),
            burst_bytes: self.burst_bytes.saturating_add(other.burst_bytes),
        }
    }
}

/// The attributes of a stream that bounds use; each bound states what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The smallest packet, bytes without the link's overhead. 0 if unknown.
    pub smallest_bytes: u32,
    /// The largest packet, bytes without the link's overhead.
    pub largest_bytes: u32,
    /// φ of fair queueing, packets per round of WRR and WIRR.
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
    /// The maximum number of waiting packets; `None` if unbounded.
    pub queue: Option<u32>,
    /// `true` if a rate cap or a lack of credits can make the stream ineligible.
    pub gated: bool,
    /// The rate cap of the contract, bytes on the wire; `None` without one.
    pub cap: Option<Source>,
    /// `true` for a class: the length of its head is an estimate.
    pub is_class: bool,
    /// The token bucket; `None` if the stream may send without limit.
    pub source: Option<Source>,
    /// The stream's arrival times; `None` if packets may arrive at any time.
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
            cap: None,
            is_class: false,
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
            cap: contract.max_rate.map(|MaxRate { rate_bps, burst_bytes }| Source {
                rate_bps: rate_bps.get(),
                burst_bytes,
            }),
            is_class: false,
            source: None,
            arrivals: None,
        }
    }

    /// Returns a token bucket for the packets that start service, in bytes on the wire of `link`;
    /// `None` without a rate cap. A packet larger than the burst starts alone.
    #[must_use]
    pub fn starts(&self, link: Link) -> Option<Source> {
        let largest = link.wire_bytes(self.largest_bytes);
        self.cap.map(|cap| Source { burst_bytes: cap.burst_bytes.max(largest), ..cap })
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
/// let link = Link::new(100_000_000, 0);
/// let streams = [voice, bulk];
/// let bounds = Bounds::new(link, &streams);
/// let guarantee = bounds.latency_rate(FairDiscipline::Wfq, 0)?;
/// assert_eq!(guarantee.rate_bps, 75_000_000);
/// // Its own 200 bytes at 75 Mbit/s after 1,500 at 100 Mbit/s, and 1 ns for fixed-point tags.
/// assert_eq!(guarantee.latency_ns, 21_334 + 120_000 + 1);
/// let source = Source { rate_bps: 64_000, burst_bytes: 200 };
/// assert_eq!(guarantee.delay_ns(source), Some(141_335));
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
    /// Returns bounds of `streams` on `link` with busy periods of unbounded length.
    #[must_use]
    pub fn new(link: Link, streams: &'a [StreamLimits]) -> Self {
        Self { link, streams, busy_ns: None }
    }

    /// Returns the least rate at which the link sends these streams' packets, bits/s, rounded down:
    /// the link's rate less the rounding of transmissions to whole nanoseconds.
    ///
    /// A packet of ℓ bytes on the wire takes at most (8·10⁹ℓ + r − 1)/r ns, exactly 8·10⁹ℓ/r if r
    /// divides 8·10⁹. If all of a stream's packets are equally long, a packet takes their
    /// transmission time. Reads the packets' lengths.
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
        delay::fifo_ns(self)
    }

    /// Returns the worst delay of `stream` under static priority, arrival to end of service, ns:
    /// (Σσ of its priority and higher ones + the largest lower packet) / (r − Σρ of higher ones).
    ///
    /// Streams of one priority are served in the order of arrival. `None` if `stream` is out of
    /// range, a stream of its priority or a higher one has no source, or the rates of these streams
    /// together exceed the link's. Reads priorities, the sources of those streams and the largest
    /// packets of lower ones. Source: Cruz 1991; only higher packets overtake a waiting packet.
    #[must_use]
    pub fn static_priority_delay_ns(&self, stream: usize) -> Option<u64> {
        delay::static_priority_ns(self, stream)
    }

    /// Returns a bound on the start of service, ns: a bound on its end less the transmission of the
    /// stream's smallest packet. 0 for an unknown stream.
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
    /// `None` if `stream` is out of range. Reads quanta. Source: Stiliadis and Varma 1998.
    #[must_use]
    pub fn drr_classic_latency_ns(&self, stream: usize) -> Option<u64> {
        round_robin::drr_classic_latency_ns(self, stream)
    }

    /// Returns the tighter latency of DRR, ns: \[(1 + d_i/Q_i)·Σ_{j≠i}Q_j + Σ_{j≠i}d_j\]/r, d = L −
    /// 1.
    ///
    /// It counts service by the bit, and a stream counts as backlogged while its last packet is
    /// sent. Millstream follows the original rule: that stream has left the ring, and an arrival
    /// joins at the tail without deficit. Its wait then includes the rest of its own stream's
    /// packet; [`latency_rate`](Self::latency_rate) accounts for this. `None` if `stream` is out of
    /// range or its quantum is 0. Reads quanta and largest packets. Source: Boyer, Stea and Sofack
    /// 2012.
    #[must_use]
    pub fn drr_latency_ns(&self, stream: usize) -> Option<u64> {
        round_robin::drr_latency_ns(self, stream)
    }

    /// Returns the guarantee of `stream` under `discipline`. Reads lengths, weights, quanta and
    /// [`busy_ns`](Self::busy_ns); latencies saturate.
    ///
    /// # Errors
    /// Returns the reason why the stream has no guarantee.
    pub fn latency_rate(
        &self,
        discipline: FairDiscipline,
        stream: usize,
    ) -> Result<LatencyRate, NoPromise> {
        (discipline.guarantee().latency_rate)(self, stream)
    }

    /// Returns the guarantee of `stream` under `discipline` below `channel`. Reads the attributes
    /// of [`latency_rate`](Self::latency_rate); `streams` are those below the channel.
    ///
    /// # Errors
    /// Returns the reason why the stream has no guarantee, for example a channel that may take the
    /// whole link.
    pub fn latency_rate_below(
        &self,
        discipline: FairDiscipline,
        stream: usize,
        channel: &Channel,
    ) -> Result<LatencyRate, NoPromise> {
        discipline.guarantee().latency_rate_below(self, stream, channel)
    }

    /// Returns whether EDF on this link keeps every deadline, for any arrivals. The deadline of an
    /// early packet is one period after its predecessor's, so bursts do not harm other streams.
    ///
    /// In Millstream a deadline is kept if service *starts* strictly before it, and a packet in
    /// service is finished. Let a burst begin 1 ns after a packet with a later deadline started,
    /// and let a packet of stream p have its deadline x ns later. The packet in service and all
    /// other packets with deadlines up to then are served before it. All deadlines are kept if
    ///
    /// ```text
    /// for every x = n·T_i:  Σ_i ⌊x/T_i⌋·C_i − min{C_p : T_p ≤ x} + max(1, max{C_m : T_m > x}) ≤ x
    /// ```
    ///
    /// where C is the transmission time of the stream's largest packet, whole ns. For x ≥ max T
    /// this is ΣC/T ≤ 1, so only shorter x are evaluated, and none where the slack exceeds max C.
    /// The criterion is also necessary if packets can have their greatest length and arrive at the
    /// worst times. Reads largest packets and periods; [`prove`](Self::prove) also checks first
    /// deadlines and gates. Source: the criterion of Jeffay, Stanat and Martel 1991, for the start
    /// of service instead of its end.
    ///
    /// `None` if a period is 0 or the link has no rate.
    #[must_use]
    pub fn edf(&self) -> Option<EdfVerdict> {
        edf::verdict(self.link, self.streams)
    }

    /// Returns whether VDS keeps every window-constraint: Σ m·C/(k·T) ≤ 1 with m = y − x, k = y,
    /// where streams that require several of their requests, but not all, count with C/T. Streams
    /// with window 0/0 require none.
    ///
    /// This holds for unit jobs: all packets are equally long, and every period is a multiple of
    /// their transmission time C. Periods begin together at the end of a transmission. The rule is
    /// then EDF of unit jobs by virtual deadlines. The sum with m·C/(k·T) of every stream is
    /// necessary while all streams are backlogged. Reads lengths, periods and windows.
    ///
    /// Zhang, West and Qi 2004 claim that sum for all windows. 5/6, 5/6 and 5/15 with T = C are a
    /// counterexample: the sum is 1. The third stream's virtual deadlines are first for five slots
    /// although it could wait, and the other two streams then both need the sixth. A sum of 0.57 is
    /// not safe either: 98/99 twice and 450/1000.
    ///
    /// Arrival times are ignored; [`prove`](Self::prove) checks them.
    ///
    /// # Errors
    /// Returns the premise that fails.
    pub fn vds(&self) -> Result<WindowVerdict, Premise> {
        self.unit_jobs().vds()
    }

    /// Returns whether DWCS (EDF first, standard rules) keeps every window-constraint, windows
    /// being consecutive blocks of y requests. The conditions are those of [`vds`](Self::vds), and
    /// all periods are equal; otherwise windows are violated far below a sum of 1, too. Streams
    /// with window 0/0 count as requiring every request, since they may precede streams with the
    /// same deadline.
    ///
    /// Lowest x'/y' first is earliest virtual deadline first if periods are equal, so VDS's
    /// counterexample applies; West and Schwan 1999 claim the sum for all windows. Arrival times
    /// are ignored; [`prove`](Self::prove) checks them.
    ///
    /// # Errors
    /// Returns the premise that fails.
    pub fn dwcs(&self) -> Result<WindowVerdict, Premise> {
        self.unit_jobs().dwcs()
    }

    /// Returns whether PD² keeps every window-constraint: Σ m·C/(k·T) ≤ 1. The premises are those
    /// of [`vds`](Self::vds), but if all periods are equal, any windows are allowed.
    /// Source: Anderson and Srinivasan 2001; a period is a slot in which T/C tasks are served.
    /// Arrival times are ignored; [`prove`](Self::prove) checks them.
    ///
    /// # Errors
    /// Returns the premise that fails.
    pub fn pd2(&self) -> Result<WindowVerdict, Premise> {
        self.unit_jobs().pd2()
    }

    /// Evaluates every premise of `theorem` for these streams; the theorem holds if none fails.
    ///
    /// Reads lengths, periods, windows, first deadlines, queues, gates and arrival patterns.
    /// Without a pattern ([`StreamLimits::arrivals`]) packets may arrive at any time.
    #[must_use]
    pub fn prove(&self, theorem: Theorem) -> Vec<Checked> {
        proof::prove(self, theorem)
    }

    /// Returns the window of `stream` over as many requests that allows the fewest losses with
    /// which `theorem` holds; the other windows stay as they are.
    ///
    /// `None` if the theorem holds with none, or the stream has window 0/0 or is out of range. It
    /// evaluates [`prove`](Self::prove) O(log y) times: with more losses, a premise of windows
    /// fails no sooner, except that x = 0 is not *some* of its requests.
    #[must_use]
    pub fn tightest_window(&self, theorem: Theorem, stream: usize) -> Option<Window> {
        proof::tightest_window(self, theorem, stream)
    }

    /// Returns the most packets of `stream` that wait at once, where `theorem` holds; `None` if
    /// there is no bound, or the stream is out of range. Reads windows, late packets and arrivals.
    #[must_use]
    pub fn most_waiting(&self, theorem: Theorem, stream: usize) -> Option<u64> {
        proof::most_waiting(theorem, self.streams.get(stream)?)
    }

    /// Returns Σ m·C/(k·T) of streams that require m = y − x of every y requests, in 10⁻⁶ rounded
    /// up, and whether it is more than 1.
    ///
    /// C is the transmission time of the smallest packet if `smallest`, otherwise of the largest.
    /// With the smallest, a sum of more than 1 proves that no scheduler keeps all contracts while
    /// every stream is backlogged. If `every_request`, windows are ignored (EDF). Reads lengths,
    /// periods and windows; streams without a period require nothing.
    #[must_use]
    pub fn need(&self, every_request: bool, smallest: bool) -> (u64, bool) {
        windows::need(self.link, self.streams, every_request, smallest)
    }

    /// Returns the stream of this number if the link has a rate.
    fn own(&self, stream: usize) -> Result<&StreamLimits, NoPromise> {
        let own = self.streams.get(stream).ok_or(NoPromise::UnknownStream)?;
        if self.rate() == 0 { Err(NoPromise::NoShare) } else { Ok(own) }
    }

    /// Returns these streams as unit jobs.
    fn unit_jobs(&self) -> UnitJobs<'a> {
        UnitJobs { link: self.link, streams: self.streams }
    }

    /// Returns the size on the wire of a packet of `bytes`.
    fn wire(&self, bytes: u32) -> u128 {
        u128::from(self.link.wire_bytes(bytes))
    }

    /// Returns the link's rate, at most 2⁴⁷ bits/s, which is the limit of the disciplines' clocks.
    fn rate(&self) -> u128 {
        u128::from(self.link.rate_bps.min(1 << 47))
    }

    fn effective(&self) -> u128 {
        u128::from(self.effective_rate_bps())
    }

    fn others(&self, stream: usize) -> impl Iterator<Item = (usize, &'a StreamLimits)> {
        self.streams.iter().enumerate().filter(move |(other, _)| *other != stream)
    }
}

#[cfg(test)]
mod tests;
