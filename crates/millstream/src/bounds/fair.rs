//! Guaranteed rates and latencies of fair queueing and round robins.
//!
//! All proofs have one form. Let s be the time at which the stream's queue began to fill (for fair
//! queueing: at which a packet's start tag last came from the clock, not from the packet before
//! it), and W the bytes of the stream that arrived since, up to and including packet k of length L.
//! Then
//!
//! ```text
//! end of service of k  ≤  s + W/ρ + α        for every L, so α is the worst over lengths
//!                      ≤  s + (W − L)/ρ + θ
//! ```
//!
//! and a token bucket bounds W. L_j, Q_j, φ_j are the other streams' greatest lengths, quanta and
//! weights, ℓ the stream's own smallest length, F = ΣQ, X = Σ_{j≠i} φ_j·L_j.
//!
//! ```text
//!               ρ                α                                         θ
//! WFQ, WF²Q, VC  r·φ/Σφ           max L_j/r + drift                         α + L/ρ
//! WF²Q+         r·φ/Σφ           max(L_j, L)/r + drift                     α + L/ρ
//! SCFQ          r·φ/Σφ           ΣL_j/r                                    α + L/ρ
//! SFQ           r·φ/Σφ           ΣL_j/r − ℓ/ρ + ℓ/r                        ΣL_j/r + L/r
//! DRR           r·Q/F            [Σ(Q_j + L_j − 1) − (F − Q)/Q + L]/r      α + L/ρ
//! WRR           r·φℓ/(φℓ + X)    [X − X/φ + max(L_j, L)]/r                 [X + max(L_j, L) + L]/r
//! WIRR          as WRR           [E − X/φ + L]/r                           [E + 2L]/r
//!               E = Σ L_j·(φ_j ≥ φ: φ_j − φ + 1;  else φ_j·(φ − φ_j + 1)/φ)
//! ```
//!
//! **Fair queueing** adds the packets that rounding tags to 2⁻⁴⁰ bytes can put before a packet.
//! **Round robins**: a queue empties when its last packet starts, and an arrival during that
//! transmission joins at the tail. So the packet in service when the stream joins may be its own
//! (L), or that of a stream that has rejoined ahead of it, with a whole turn to come. **DRR**: a
//! turn that leaves the stream waiting leaves less than the head, so the p turns before packet k's
//! satisfy p·Q ≤ W − 1. Each other stream has at most p + 1 turns, and L_j − 1 saved or (one of
//! them) L_j in service. **WRR** serves φ packets a turn, so p ≤ (k − 1)/φ and packets k − 1 ≤ (W −
//! L)/ℓ. The guarantee in bytes depends on the smallest packet, and is nothing if that is unknown.
//! **WIRR**: between two turns of the stream each other stream has one, or φ_j − φ + 1 where the
//! round ends; the packet in service is one of these.

use core::fmt;

use super::exact::{
    BITS_NS, ceil_ns, ceil_signed_ns, narrow, plus_error, ratio_up, signed_product,
};
use super::{Bounds, RateGuarantee, StreamLimits};
use crate::discipline::{interleaved, round_robin, self_clocked, virtual_clock, wf2q_plus, wfq};

/// A discipline that guarantees rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FairDiscipline {
    /// Weighted fair queueing. Source: Parekh and Gallager 1993.
    Wfq,
    /// Worst-case fair weighted fair queueing. Source: Bennett and Zhang 1996.
    Wf2q,
    /// WF²Q+. Source: Bennett and Zhang 1997.
    Wf2qPlus,
    /// Virtual clock. Source: Figueira and Pasquale 1995.
    VirtualClock,
    /// Self-clocked fair queueing. Source: Golestani 1995.
    Scfq,
    /// Start-time fair queueing. Source: Goyal, Vin and Cheng 1996.
    Sfq,
    /// Deficit round robin. Source: Boyer, Stea and Sofack 2012, by the packet.
    Drr,
    /// Weighted round robin.
    Wrr,
    /// Weighted interleaved round robin.
    Wirr,
}

impl FairDiscipline {
    /// The guarantee that the discipline's catalogue row states.
    #[must_use]
    pub fn guarantee(self) -> RateGuarantee {
        match self {
            Self::Wfq => wfq::WFQ_RATE,
            Self::Wf2q => wfq::WF2Q_RATE,
            Self::Wf2qPlus => wf2q_plus::RATE,
            Self::VirtualClock => virtual_clock::RATE,
            Self::Scfq => self_clocked::SCFQ_RATE,
            Self::Sfq => self_clocked::SFQ_RATE,
            Self::Drr => round_robin::DRR_RATE,
            Self::Wrr => round_robin::WRR_RATE,
            Self::Wirr => interleaved::RATE,
        }
    }
}

/// A guaranteed rate and latency, whatever other streams send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyRate {
    /// ρ, bits/s on the wire, rounded down.
    pub rate_bps: u64,
    /// θ, ns, rounded up: a backlogged stream gets ρ·(t − θ) in t, whole packets counted at their
    /// end. The latency of a path is the sum of those of its links. Source: Stiliadis and Varma
    /// 1998.
    pub latency_ns: u64,
    /// α, ns, rounded up: how much later than on a link of its own of rate ρ a packet may end.
    /// Negative where short packets always end sooner than that (SFQ). Source: Goyal, Lam and Vin
    /// 1997.
    pub error_ns: i64,
    /// Bytes of the stream that may be in service when θ begins to count; see
    /// [`backlog_bytes`](Self::backlog_bytes).
    pub carried_bytes: u64,
}

/// The reason why a stream has no guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPromise {
    /// There is no stream of this number.
    UnknownStream,
    /// The link has no rate, or the stream no weight, no quantum, or (WRR, WIRR) no smallest
    /// packet.
    NoShare,
    /// The discipline's clock runs ahead of a link of this rate, and [`Bounds::busy_ns`] does not
    /// limit the link's busy periods.
    ClockDrifts,
}

impl fmt::Display for NoPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownStream => "there is no such stream",
            Self::NoShare => "nothing says what part of the link is the stream's",
            Self::ClockDrifts => {
                "transmissions at this rate are not whole nanoseconds, so the discipline's clock \
                 runs ahead as long as the link is busy, which may be for ever"
            }
        })
    }
}

impl core::error::Error for NoPromise {}

impl Bounds<'_> {
    /// Returns the guarantee of `stream` under `discipline`. Reads lengths, weights, quanta and
    /// [`busy_ns`](Self::busy_ns); latencies saturate.
    ///
    /// # Errors
    /// The reason why the stream has no guarantee.
    pub fn latency_rate(
        &self,
        discipline: FairDiscipline,
        stream: usize,
    ) -> Result<LatencyRate, NoPromise> {
        (discipline.guarantee().latency_rate)(self, stream)
    }

    /// Returns the stream of this number if the link has a rate.
    fn own(&self, stream: usize) -> Result<&StreamLimits, NoPromise> {
        let own = self.streams.get(stream).ok_or(NoPromise::UnknownStream)?;
        if self.rate() == 0 { Err(NoPromise::NoShare) } else { Ok(own) }
    }

    /// Returns the guarantee of WFQ, WF²Q, WF²Q+ and virtual clock, whose clock advances at the
    /// link's nominal rate.
    ///
    /// Only packets of other streams with later tags go first. The clock of WF²Q+ `leaps`, also
    /// while a packet of the stream itself is sent, and the next packet starts there.
    pub(crate) fn clocked(&self, stream: usize, leaps: bool) -> Result<LatencyRate, NoPromise> {
        let own = self.own(stream)?;
        let (weight, weights, tags_ns) = self.weights(own)?;
        let (rate, effective) = (self.rate(), self.effective());
        let drift_ns = match self.busy_ns {
            _ if effective == rate => 0,
            Some(busy_ns) => ratio_up(u128::from(busy_ns) * (rate - effective), rate),
            None => return Err(NoPromise::ClockDrifts),
        };
        let others = self.others(stream).map(|(_, other)| self.wire(other.largest_bytes)).max();
        let leapt = if leaps { self.wire(own.largest_bytes) } else { 0 };
        let before = others.unwrap_or(0).max(leapt);
        let extra_ns = drift_ns.saturating_add(tags_ns);
        Ok(self.weighted(own, (weight, weights), rate, before, extra_ns))
    }

    /// Returns the guarantee of SCFQ and, `by_start`, of SFQ, whose clock is the service itself.
    pub(crate) fn self_clocked(
        &self,
        stream: usize,
        by_start: bool,
    ) -> Result<LatencyRate, NoPromise> {
        let own = self.own(stream)?;
        let (weight, weights, tags_ns) = self.weights(own)?;
        let rate = self.effective();
        let before = self.others(stream).map(|(_, other)| self.wire(other.largest_bytes)).sum();
        let promise = self.weighted(own, (weight, weights), rate, before, tags_ns);
        if !by_start {
            return Ok(promise);
        }
        let least = self.wire(own.smallest_bytes);
        let work = signed_product(weight, before + least)
            .zip(signed_product(least, weights))
            .and_then(|(behind, own)| behind.checked_sub(own)?.checked_mul(SIGNED_BITS_NS));
        let under = signed_product(weight, rate).ok_or(NoPromise::NoShare)?;
        let all = before + self.wire(own.largest_bytes);
        Ok(LatencyRate {
            latency_ns: ceil_ns(all.checked_mul(BITS_NS), rate).saturating_add(tags_ns),
            error_ns: ceil_signed_ns(work, under).saturating_add_unsigned(tags_ns),
            ..promise
        })
    }

    /// Returns ρ = `rate`·φ/Σφ, α = `before`/`rate` + `extra_ns`, θ = α + L/ρ.
    fn weighted(
        &self,
        own: &StreamLimits,
        (weight, weights): (u128, u128),
        rate: u128,
        before: u128,
        extra_ns: u64,
    ) -> LatencyRate {
        let error_ns = ceil_ns(before.checked_mul(BITS_NS), rate).saturating_add(extra_ns);
        let own_share = self.wire(own.largest_bytes).checked_mul(weights);
        let both = own_share.and_then(|own| own.checked_add(weight.checked_mul(before)?));
        let latency_ns = ceil_ns(both.and_then(|both| both.checked_mul(BITS_NS)), weight * rate);
        LatencyRate {
            rate_bps: narrow(weight * rate / weights),
            latency_ns: latency_ns.saturating_add(extra_ns),
            error_ns: i64::try_from(error_ns).unwrap_or(i64::MAX),
            carried_bytes: 0,
        }
    }

    /// Returns φ, Σφ, and the transmission time of packets that go first because tags are rounded,
    /// ns.
    fn weights(&self, own: &StreamLimits) -> Result<(u128, u128, u64), NoPromise> {
        let weights: u128 = self.streams.iter().map(|stream| u128::from(stream.weight)).sum();
        if own.weight == 0 || self.effective() == 0 {
            return Err(NoPromise::NoShare);
        }
        // A grain of 2⁻⁴⁰ bytes per weight, and as much for the clock's own steps.
        let grains = weights.checked_mul(BITS_NS);
        let tags_ns = ceil_ns(grains, self.effective() << 39);
        Ok((u128::from(own.weight), weights, tags_ns))
    }

    /// Returns the guarantee of DRR.
    pub(crate) fn deficit(&self, stream: usize) -> Result<LatencyRate, NoPromise> {
        let own = self.own(stream)?;
        let (quantum, length) = (u128::from(own.quantum_bytes), self.wire(own.largest_bytes));
        let rate = self.effective();
        if quantum == 0 || rate == 0 {
            return Err(NoPromise::NoShare);
        }
        // In service: its own packet, or the byte that another stream's L − 1 lacks.
        let (mut quanta, mut before) = (0, length.max(1));
        for (_, other) in self.others(stream) {
            quanta += u128::from(other.quantum_bytes);
            before += u128::from(other.quantum_bytes);
            before += self.wire(other.largest_bytes).saturating_sub(1);
        }
        let share = (quantum, quantum + quanta);
        Ok(self.round_robin(own, share, (quantum, quanta), before))
    }

    /// Returns the guarantee of WRR and, `interleaved`, of WIRR.
    pub(crate) fn by_packets(
        &self,
        stream: usize,
        interleaved: bool,
    ) -> Result<LatencyRate, NoPromise> {
        let own = self.own(stream)?;
        let weight = u128::from(own.weight);
        let (least, length) = (self.wire(own.smallest_bytes), self.wire(own.largest_bytes));
        if weight * least == 0 || self.effective() == 0 {
            return Err(NoPromise::NoShare);
        }
        let others = self.others(stream).map(|(_, other)| self.wire(other.largest_bytes)).max();
        let serving = if interleaved { length } else { length.max(others.unwrap_or(0)) };
        let (mut round, mut before) = (0u128, serving);
        for (_, other) in self.others(stream) {
            let (packets, largest) = (u128::from(other.weight), self.wire(other.largest_bytes));
            round = round.saturating_add(packets * largest);
            before = before.saturating_add(match interleaved {
                true if packets >= weight => (packets - weight + 1) * largest,
                true => (packets * (weight - packets + 1))
                    .checked_mul(largest)
                    .map_or(packets * largest, |bytes| bytes.div_ceil(weight)),
                false => packets * largest,
            });
        }
        let share = (weight * least, (weight * least).saturating_add(round));
        let mut promise = self.round_robin(own, share, (weight, round), before);
        let work = before.checked_add(length).and_then(|work| work.checked_mul(BITS_NS));
        promise.latency_ns = ceil_ns(work, self.effective());
        Ok(promise)
    }

    /// Returns ρ = r·`share`, α = (`before` − `less`)/r, θ = α + L/ρ; `share` and `less` are
    /// fractions.
    fn round_robin(
        &self,
        own: &StreamLimits,
        share: (u128, u128),
        (part, less): (u128, u128),
        before: u128,
    ) -> LatencyRate {
        let (rate, length) = (self.effective(), self.wire(own.largest_bytes));
        let error = signed_product(part, before)
            .zip(i128::try_from(less).ok())
            .and_then(|(before, less)| before.checked_sub(less)?.checked_mul(SIGNED_BITS_NS));
        // Below 2⁷⁹.
        let error_ns = ceil_signed_ns(error, (part * rate).cast_signed());
        let own_ns = length.checked_mul(share.1).and_then(|work| work.checked_mul(BITS_NS));
        let own_ns = ceil_ns(own_ns, share.0.saturating_mul(rate));
        LatencyRate {
            rate_bps: narrow(share.0.checked_mul(rate).map_or(0, |rate| rate / share.1)),
            latency_ns: plus_error(own_ns, error_ns),
            error_ns,
            carried_bytes: narrow(length),
        }
    }
}

const SIGNED_BITS_NS: i128 = BITS_NS.cast_signed();
