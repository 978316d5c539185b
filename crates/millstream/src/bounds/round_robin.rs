//! Guaranteed rates and latencies of DRR, WRR and WIRR; `fair.rs` has their table.

use super::exact::{
    BITS_NS, SIGNED_BITS_NS, ceil_ns, ceil_signed_ns, narrow, plus_error, signed_product,
};
use super::{Bounds, LatencyRate, NoPromise, StreamLimits};

/// Returns the guarantee of DRR.
pub(crate) fn deficit(bounds: &Bounds<'_>, stream: usize) -> Result<LatencyRate, NoPromise> {
    let own = bounds.own(stream)?;
    let (quantum, length) = (u128::from(own.quantum_bytes), bounds.wire(own.largest_bytes));
    if quantum == 0 {
        return Err(NoPromise::NoShare);
    }
    // The packet in service is the stream's own, or adds the byte that another stream's L − 1
    // lacks.
    let (mut quanta, mut before) = (0, length.max(1));
    for (_, other) in bounds.others(stream) {
        quanta += u128::from(other.quantum_bytes);
        before += u128::from(other.quantum_bytes);
        before += bounds.wire(other.largest_bytes).saturating_sub(1);
    }
    let share = (quantum, quantum + quanta);
    Ok(by_turns(bounds, own, share, (quantum, quanta), before))
}

/// Returns the guarantee of WRR and, `interleaved`, of WIRR.
pub(crate) fn by_packets(
    bounds: &Bounds<'_>,
    stream: usize,
    interleaved: bool,
) -> Result<LatencyRate, NoPromise> {
    let own = bounds.own(stream)?;
    let weight = u128::from(own.weight);
    let (least, length) = (bounds.wire(own.smallest_bytes), bounds.wire(own.largest_bytes));
    if weight * least == 0 {
        return Err(NoPromise::NoShare);
    }
    let others = bounds.others(stream).map(|(_, other)| bounds.wire(other.largest_bytes)).max();
    let serving = if interleaved { length } else { length.max(others.unwrap_or(0)) };
    let (mut round, mut before) = (0u128, serving);
    for (_, other) in bounds.others(stream) {
        let (packets, largest) = (u128::from(other.weight), bounds.wire(other.largest_bytes));
        round = round.saturating_add(packets * largest);
        before = before.saturating_add(match interleaved {
            true if packets >= weight => (packets - weight + 1) * largest,
            true => (packets * (weight - packets + 1) * largest).div_ceil(weight),
            false => packets * largest,
        });
    }
    let share = (weight * least, (weight * least).saturating_add(round));
    let mut promise = by_turns(bounds, own, share, (weight, round), before);
    let work = before.checked_add(length).and_then(|work| work.checked_mul(BITS_NS));
    promise.latency_ns = ceil_ns(work, bounds.effective());
    Ok(promise)
}

/// Returns ρ = r·`share`, α = (`before` − `less`)/r, θ = α + L/ρ; `share` and `less` are
/// fractions.
fn by_turns(
    bounds: &Bounds<'_>,
    own: &StreamLimits,
    share: (u128, u128),
    (part, less): (u128, u128),
    before: u128,
) -> LatencyRate {
    let (rate, length) = (bounds.effective(), bounds.wire(own.largest_bytes));
    let error = signed_product(part, before)
        .zip(i128::try_from(less).ok())
        .and_then(|(before, less)| before.checked_sub(less)?.checked_mul(SIGNED_BITS_NS));
    // Below 2⁷⁹.
    let error_ns = ceil_signed_ns(error, (part * rate).cast_signed());
    let own_ns = length.checked_mul(share.1).and_then(|work| work.checked_mul(BITS_NS));
    let own_ns = ceil_ns(own_ns, share.0.saturating_mul(rate));
    LatencyRate {
        rate_bps: narrow(share.0 * rate / share.1),
        latency_ns: plus_error(own_ns, error_ns),
        error_ns,
        carried_bytes: narrow(length),
    }
}

/// Returns the latency of DRR as first published: see [`Bounds::drr_classic_latency_ns`].
pub(super) fn drr_classic_latency_ns(bounds: &Bounds<'_>, stream: usize) -> Option<u64> {
    let own = u128::from(bounds.streams.get(stream)?.quantum_bytes);
    let frame: u128 = bounds.streams.iter().map(|other| u128::from(other.quantum_bytes)).sum();
    Some(ceil_ns((3 * frame - 2 * own).checked_mul(BITS_NS), bounds.effective()))
}

/// Returns the tighter latency of DRR: see [`Bounds::drr_latency_ns`].
pub(super) fn drr_latency_ns(bounds: &Bounds<'_>, stream: usize) -> Option<u64> {
    let own = bounds.streams.get(stream).filter(|own| own.quantum_bytes > 0)?;
    let quantum = u128::from(own.quantum_bytes);
    let left = |stream: &StreamLimits| bounds.wire(stream.largest_bytes).saturating_sub(1);
    let (mut quanta, mut deficits) = (0, 0);
    for (_, other) in bounds.others(stream) {
        quanta += u128::from(other.quantum_bytes);
        deficits += left(other);
    }
    let work: u128 = (quantum + left(own)) * quanta + quantum * deficits;
    Some(ceil_ns(work.checked_mul(BITS_NS), quantum * bounds.effective()))
}
