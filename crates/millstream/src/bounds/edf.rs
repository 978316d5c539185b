//! Whether EDF keeps every deadline: the demand criterion of non-preemptive EDF, as
//! [`Bounds::edf`](super::Bounds::edf) states it.

use core::cmp::Ordering;

use super::StreamLimits;
use super::exact::{Sum, ratio_up, sum_fractions};
use crate::link::Link;

/// The most points of the demand, times streams, that [`verdict`] evaluates.
const MOST_STEPS: u64 = 1 << 24;

/// The verdict of the demand criterion: whether EDF keeps every deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdfVerdict {
    /// Every packet's service starts before its deadline.
    Feasible {
        /// ΣC/T in 10⁻⁶, rounded up.
        utilisation_ppm: u64,
    },
    /// Some packet may miss its deadline.
    Infeasible {
        /// ΣC/T in 10⁻⁶, rounded up.
        utilisation_ppm: u64,
        /// The shortest time from the first arrival of a burst to a deadline in it that can be
        /// missed, ns; `None` if the limit of points was reached before (but ΣC/T > 1).
        at_ns: Option<u64>,
    },
    /// There are too many deadlines, or 128 bits cannot compare ΣC/T with 1.
    TooLong {
        /// ΣC/T in 10⁻⁶, rounded up.
        utilisation_ppm: u64,
    },
}

/// Returns whether EDF on `link` keeps every deadline of `streams`; `None` if a period is 0 or the
/// link has no rate.
pub(super) fn verdict(link: Link, streams: &[StreamLimits]) -> Option<EdfVerdict> {
    if link.rate_bps == 0 || streams.iter().any(|stream| stream.period_ns == 0) {
        return None;
    }
    let demand = Demand { link, streams };
    let Sum { against_one, ppm: utilisation_ppm } = demand.utilisation();
    let overload = against_one == Some(Ordering::Greater);
    let enough_ns = demand.enough_ns(utilisation_ppm);
    let mut steps = 0;
    let mut at_ns = 0u64;
    while let Some(next) = demand.next_deadline_ns(at_ns) {
        at_ns = next;
        if at_ns >= enough_ns && !overload {
            break;
        }
        steps += streams.len() as u64;
        if steps > MOST_STEPS {
            if overload {
                break;
            }
            return Some(EdfVerdict::TooLong { utilisation_ppm });
        }
        if demand.by(at_ns) > u128::from(at_ns) {
            return Some(EdfVerdict::Infeasible { utilisation_ppm, at_ns: Some(at_ns) });
        }
    }
    Some(match against_one {
        Some(Ordering::Greater) => EdfVerdict::Infeasible { utilisation_ppm, at_ns: None },
        Some(_) => EdfVerdict::Feasible { utilisation_ppm },
        None => EdfVerdict::TooLong { utilisation_ppm },
    })
}

/// The link time that streams with periods of more than 0 can demand.
struct Demand<'a> {
    link: Link,
    streams: &'a [StreamLimits],
}

impl Demand<'_> {
    /// Returns the transmission time C of the stream's largest packet, ns.
    fn cost_ns(&self, stream: &StreamLimits) -> u64 {
        self.link.transmission_ns(stream.largest_bytes).max(1)
    }

    /// Returns ΣC/T.
    fn utilisation(&self) -> Sum {
        let share = |of: &StreamLimits| (self.cost_ns(of).into(), of.period_ns.into());
        sum_fractions(self.streams.iter().map(share))
    }

    /// Returns the x from which the criterion holds if ΣC/T ≤ 1. Its left side is at most x·ΣC/T +
    /// max C − min C. Where no period is longer than x, it is at most x·ΣC/T.
    fn enough_ns(&self, utilisation_ppm: u64) -> u64 {
        let longest = self.streams.iter().map(|stream| stream.period_ns).max().unwrap_or(0);
        let costs = || self.streams.iter().map(|stream| self.cost_ns(stream));
        let (most, least) = (costs().max().unwrap_or(0), costs().min().unwrap_or(0));
        let free_ppm = 1_000_000u64.saturating_sub(utilisation_ppm);
        longest.min(ratio_up(u128::from(most - least) * 1_000_000, free_ppm.into()))
    }

    /// Returns the first multiple of any period after `at_ns`.
    fn next_deadline_ns(&self, at_ns: u64) -> Option<u64> {
        let next = |of: &StreamLimits| (at_ns / of.period_ns + 1).checked_mul(of.period_ns);
        self.streams.iter().filter_map(next).min()
    }

    /// Returns the left side of the criterion for x = `at_ns`.
    fn by(&self, at_ns: u64) -> u128 {
        let (mut demand, mut own, mut blocking) = (0u128, u64::MAX, 1);
        for stream in self.streams {
            let cost_ns = self.cost_ns(stream);
            if stream.period_ns <= at_ns {
                let packets = u128::from(at_ns / stream.period_ns);
                demand = demand.saturating_add(packets * u128::from(cost_ns));
                own = own.min(cost_ns);
            } else {
                blocking = blocking.max(cost_ns);
            }
        }
        demand.saturating_sub(own.into()).saturating_add(blocking.into())
    }
}
