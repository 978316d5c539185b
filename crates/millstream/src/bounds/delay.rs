//! Worst delays of disciplines that serve a common queue, or several by precedence.
//!
//! ```text
//! FIFO             Σσ / r
//! static priority  (Σσ of its priority and higher + L of lower) / (r − Σρ of higher)
//! ```
//!
//! Only higher packets overtake a waiting packet, and one lower packet may be in service. Source:
//! Cruz 1991.

use super::exact::{BITS_NS, ceil_ns};
use super::{Bounds, StreamLimits};

/// The sum of several token buckets.
struct Aggregate {
    rate_bps: u128,
    burst_bytes: u128,
}

impl Aggregate {
    /// Returns the sum of the sources of `streams`; `None` if one of them has none.
    fn of<'a>(streams: impl Iterator<Item = &'a StreamLimits>) -> Option<Self> {
        let mut sum = Self { rate_bps: 0, burst_bytes: 0 };
        for stream in streams {
            let source = stream.source?;
            sum.rate_bps += u128::from(source.rate_bps);
            sum.burst_bytes += u128::from(source.burst_bytes);
        }
        Some(sum)
    }
}

/// Returns the worst delay of every stream under FIFO: see [`Bounds::fifo_delay_ns`].
pub(super) fn fifo_ns(bounds: &Bounds<'_>) -> Option<u64> {
    let all = Aggregate::of(bounds.streams.iter())?;
    let rate = bounds.effective();
    (all.rate_bps <= rate).then(|| ceil_ns(all.burst_bytes.checked_mul(BITS_NS), rate))
}

/// Returns the worst delay under static priority: see [`Bounds::static_priority_delay_ns`].
pub(super) fn static_priority_ns(bounds: &Bounds<'_>, stream: usize) -> Option<u64> {
    let streams = bounds.streams;
    let priority = streams.get(stream)?.priority;
    let level = Aggregate::of(streams.iter().filter(|other| other.priority <= priority))?;
    let higher = Aggregate::of(streams.iter().filter(|other| other.priority < priority))?;
    let lower = streams.iter().filter(|other| other.priority > priority);
    let blocking = lower.map(|other| bounds.wire(other.largest_bytes)).max().unwrap_or(0);
    let rate = bounds.effective();
    if level.rate_bps > rate || higher.rate_bps == rate {
        return None;
    }
    let work = level.burst_bytes + blocking;
    Some(ceil_ns(work.checked_mul(BITS_NS), rate - higher.rate_bps))
}
