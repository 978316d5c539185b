//! Guaranteed rates and latencies of fair queueing and round robins.
//!
//! All proofs have one form. Let s be the time at which the stream's queue began to fill. For fair
//! queueing, s is the time at which a packet's start tag last came from the clock, not from the
//! packet before it. Let W be the bytes of the stream that arrived since s, up to and including
//! packet k of length L. Then
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
//! (L). It may also be that of a stream that has rejoined ahead of it, with a whole turn ahead.
//! **DRR**: a turn that leaves the stream backlogged leaves a deficit below the head's length, so
//! the p turns before packet k's satisfy p·Q ≤ W − 1. Each other stream has at most p + 1 turns,
//! and L_j − 1 saved or (one of them) L_j in service. **WRR** serves φ packets a turn, so p ≤ (k −
//! 1)/φ and packets k − 1 ≤ (W − L)/ℓ. The guarantee in bytes depends on the smallest packet; if
//! that is unknown, there is none. **WIRR**: between two turns of the stream, each other stream has
//! one turn, or φ_j − φ + 1 turns where the round ends. The packet in service is one of these.

use super::exact::{
    BITS_NS, SIGNED_BITS_NS, ceil_ns, ceil_signed_ns, narrow, ratio_up, signed_product,
};
use super::{Bounds, LatencyRate, NoPromise, RateGuarantee, StreamLimits};
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
    /// Returns the guarantee that the discipline's catalogue row states.
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

/// Returns the guarantee of WFQ, WF²Q, WF²Q+ and virtual clock, whose clock advances at the
/// link's nominal rate.
///
/// At most one packet of another stream with a later tag is served first. If the clock `leaps`
/// (WF²Q+), it can jump while a packet of the stream itself is sent, and the stream's next
/// packet starts at the new time.
pub(crate) fn clocked(
    bounds: &Bounds<'_>,
    stream: usize,
    leaps: bool,
) -> Result<LatencyRate, NoPromise> {
    let own = bounds.own(stream)?;
    let (weight, weights, tags_ns) = weights(bounds, own)?;
    let (rate, effective) = (bounds.rate(), bounds.effective());
    let drift_ns = match bounds.busy_ns {
        _ if effective == rate => 0,
        Some(busy_ns) => ratio_up(u128::from(busy_ns) * (rate - effective), rate),
        None => return Err(NoPromise::ClockDrifts),
    };
    let others = bounds.others(stream).map(|(_, other)| bounds.wire(other.largest_bytes)).max();
    let leapt = if leaps { bounds.wire(own.largest_bytes) } else { 0 };
    let before = others.unwrap_or(0).max(leapt);
    let extra_ns = drift_ns.saturating_add(tags_ns);
    Ok(weighted(bounds, own, (weight, weights), rate, before, extra_ns))
}

/// Returns the guarantee of SCFQ or, if `by_start`, of SFQ. Their clock is the service itself.
pub(crate) fn self_clocked(
    bounds: &Bounds<'_>,
    stream: usize,
    by_start: bool,
) -> Result<LatencyRate, NoPromise> {
    let own = bounds.own(stream)?;
    let (weight, weights, tags_ns) = weights(bounds, own)?;
    let rate = bounds.effective();
    let before = bounds.others(stream).map(|(_, other)| bounds.wire(other.largest_bytes)).sum();
    let promise = weighted(bounds, own, (weight, weights), rate, before, tags_ns);
    if !by_start {
        return Ok(promise);
    }
    let least = bounds.wire(own.smallest_bytes);
    let work = signed_product(weight, before + least)
        .zip(signed_product(least, weights))
        .and_then(|(behind, own)| behind.checked_sub(own)?.checked_mul(SIGNED_BITS_NS));
    let under = signed_product(weight, rate).ok_or(NoPromise::NoShare)?;
    let all = before + bounds.wire(own.largest_bytes);
    Ok(LatencyRate {
        latency_ns: ceil_ns(all.checked_mul(BITS_NS), rate).saturating_add(tags_ns),
        error_ns: ceil_signed_ns(work, under).saturating_add_unsigned(tags_ns),
        ..promise
    })
}

/// Returns ρ = `rate`·φ/Σφ, α = `before`/`rate` + `extra_ns`, θ = α + L/ρ.
fn weighted(
    bounds: &Bounds<'_>,
    own: &StreamLimits,
    (weight, weights): (u128, u128),
    rate: u128,
    before: u128,
    extra_ns: u64,
) -> LatencyRate {
    let error_ns = ceil_ns(before.checked_mul(BITS_NS), rate).saturating_add(extra_ns);
    let own_share = bounds.wire(own.largest_bytes).checked_mul(weights);
    let both = own_share.and_then(|own| own.checked_add(weight.checked_mul(before)?));
    let latency_ns = ceil_ns(both.and_then(|both| both.checked_mul(BITS_NS)), weight * rate);
    LatencyRate {
        rate_bps: narrow(weight * rate / weights),
        latency_ns: latency_ns.saturating_add(extra_ns),
        error_ns: i64::try_from(error_ns).unwrap_or(i64::MAX),
        carried_bytes: 0,
    }
}

/// Returns φ, Σφ, and the transmission time of packets that are served first because tags are
/// rounded, ns.
fn weights(bounds: &Bounds<'_>, own: &StreamLimits) -> Result<(u128, u128, u64), NoPromise> {
    let weights: u128 = bounds.streams.iter().map(|stream| u128::from(stream.weight)).sum();
    if own.weight == 0 {
        return Err(NoPromise::NoShare);
    }
    // A grain of 2⁻⁴⁰ bytes per weight, and as much for the clock's own steps.
    let grains = weights.checked_mul(BITS_NS);
    let tags_ns = ceil_ns(grains, bounds.effective() << 39);
    Ok((u128::from(own.weight), weights, tags_ns))
}
