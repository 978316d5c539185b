//! Policing of publishers: a minimum frame spacing and a token bucket of link time.
//!
//! A frame is released on arrival, but at least one period less [`FASTER`] after its predecessor.
//! That spreads bursts and tolerates a publisher clock that is slightly fast. A frame is dropped as
//! *beyond* if it would wait longer than [`AHEAD_NS`], or if the bucket lacks link time for it at
//! its release. So in any interval, the released link time is at most the bucket's. Admission
//! relies on this bound (the generic cell rate algorithm of ITU-T I.371, applied twice).

use crate::scheduler::demand::Demand;
use millstream_scenario::Link;

/// The tolerance for a fast publisher: 1/100 of its period.
const FASTER: u64 = 100;

/// The longest time a frame may arrive before its release, ns.
pub(crate) const AHEAD_NS: u64 = 1_000_000_000;

/// The limits of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// The least time between two releases, ns.
    pub(crate) spacing_ns: u64,
    /// The rate on the link, bits/s.
    pub(crate) rate_bps: u64,
    /// The link's rate, bits/s.
    link_bps: u64,
    /// The bucket's depth, ns of link time.
    burst_ns: u64,
}

impl Allowance {
    /// Creates the limits of a stream with a frame each `period_ns`, at most `rate_bps`, and bursts
    /// of `burst_bytes`, on `link`.
    pub(crate) fn new(period_ns: u64, rate_bps: u64, burst_bytes: u32, link: Link) -> Self {
        // The burst is bytes on the wire.
        let bare = Link::of(millstream::Link::new(link.rate_bps, 0));
        Self {
            spacing_ns: (period_ns - period_ns / FASTER).max(1),
            rate_bps: rate_bps.max(1),
            link_bps: link.rate_bps.max(1),
            burst_ns: bare.transmission_ns(burst_bytes),
        }
    }

    /// Returns the link time added to the bucket in `time_ns`, ns, rounded up.
    fn filled_ns(&self, time_ns: u64) -> u64 {
        let filled = u128::from(time_ns) * u128::from(self.rate_bps);
        u64::try_from(filled.div_ceil(u128::from(self.link_bps))).unwrap_or(u64::MAX)
    }

    /// Returns the link demand that a client of the stream can cause.
    pub(crate) fn demand(&self, deadline_ns: u64) -> Demand {
        let of = |frames: u64| {
            let bucket = self
                .burst_ns
                .saturating_add(self.filled_ns(frames.saturating_mul(self.spacing_ns)));
            bucket.min(self.burst_ns.saturating_mul(frames))
        };
        Demand::bounded(of, self.burst_ns, self.spacing_ns, deadline_ns)
    }
}

/// The policing state of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policer {
    allowance: Allowance,
    /// When the last frame was released, ns.
    last_ns: u64,
    /// When the bucket will be full, ns.
    full_ns: u64,
}

impl Policer {
    pub(crate) fn new(allowance: Allowance) -> Self {
        Self { allowance, last_ns: 0, full_ns: 0 }
    }

    /// Returns the release time of a frame that arrives at `now_ns` and needs `work_ns` of link
    /// time, ns; `None` if it exceeds the limits.
    pub(crate) fn release_ns(&mut self, work_ns: u64, now_ns: u64) -> Option<u64> {
        let Allowance { spacing_ns, rate_bps, link_bps, burst_ns } = self.allowance;
        let release_ns = now_ns.max(self.last_ns.saturating_add(spacing_ns));
        // The time the bucket needs to refill `work_ns`, ns.
        let takes = |work_ns: u64| {
            let time = u128::from(work_ns) * u128::from(link_bps);
            u64::try_from(time.div_ceil(u128::from(rate_bps))).unwrap_or(u64::MAX)
        };
        let full_ns = self.full_ns.max(release_ns).saturating_add(takes(work_ns));
        if release_ns - now_ns > AHEAD_NS || full_ns - release_ns > takes(burst_ns) {
            return None;
        }
        (self.last_ns, self.full_ns) = (release_ns, full_ns);
        Some(release_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Frames each 40 ms on a link of 8 Mbit/s: 1 µs a byte; 1 Mbit/s, bursts of 10 kB.
    fn allowance() -> Allowance {
        let link = Link::of(millstream::Link::new(8_000_000, 0));
        Allowance::new(40 * MS, 1_000_000, 10_000, link)
    }

    #[test]
    fn frames_in_time_are_released_on_arrival_and_bursts_are_spread() {
        let mut policer = Policer::new(allowance());
        let mut release = |now_ns| policer.release_ns(MS / 10, now_ns);
        assert_eq!(release(1_000 * MS), Some(1_000 * MS));
        assert_eq!(release(1_040 * MS), Some(1_040 * MS));
        assert_eq!(release(1_040 * MS), Some(1_040 * MS + 39_600_000));
        assert_eq!(release(1_041 * MS), Some(1_040 * MS + 2 * 39_600_000));
        // Frames are released at most one second ahead.
        let taken = (0..100).filter(|_| release(1_041 * MS).is_some()).count();
        assert_eq!(taken, 23);
    }

    #[test]
    fn frames_beyond_the_bucket_are_dropped() {
        let mut policer = Policer::new(allowance());
        assert_eq!(policer.release_ns(10 * MS + 1, 0), None, "larger than the bucket");
        assert!(policer.release_ns(10 * MS, 1_000 * MS).is_some());
        // The bucket refills at an eighth of the time: 5 ms in 40.
        assert_eq!(policer.release_ns(6 * MS, 1_040 * MS), None);
        assert!(policer.release_ns(5 * MS, 1_040 * MS).is_some());
        assert!(policer.release_ns(10 * MS, 1_120 * MS).is_some(), "the bucket is full again");
    }

    #[test]
    fn every_client_reserves_the_largest_demand() {
        let link = Link::of(millstream::Link::new(20_000_000, 28));
        let room = |burst, deadline_ms| {
            let demand = Allowance::new(40 * MS, 2_000_000, burst, link).demand(deadline_ms * MS);
            crate::scheduler::admission::Admission::new(1).room(&[&demand], 0, 100)
        };
        // Nine clients of ten fit the full rate: one frame may have begun, and the dispatcher may
        // wake late.
        assert_eq!(room(10_000, 2_000), 9);
        // 50 kB take 20 ms. 80 ms hold three bursts beside the refill; one of them has begun.
        assert_eq!((room(50_000, 80), room(50_000, 20)), (2, 0));
    }

    proptest::proptest! {
        #[test]
        fn released_frames_stay_within_the_demand(
            frames in proptest::collection::vec((0u64..60 * MS, 0u64..12 * MS), 1..80),
        ) {
            let demand = allowance().demand(0);
            let (mut policer, mut now_ns) = (Policer::new(allowance()), 0);
            let mut released: Vec<(u64, u64)> = Vec::new();
            for (after_ns, work_ns) in frames {
                now_ns += after_ns;
                released.extend(policer.release_ns(work_ns, now_ns).map(|at| (at, work_ns)));
            }
            for first in 0..released.len() {
                for last in first..released.len() {
                    let time_ns = released[last].0 - released[first].0;
                    let work: u64 = released[first..=last].iter().map(|(_, work)| work).sum();
                    proptest::prop_assert!(work <= demand.within_ns(time_ns), "{first}..={last}");
                }
            }
        }
    }
}
