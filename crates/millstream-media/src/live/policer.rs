//! Policing of publishers: frame times with a tolerance, and a token bucket of link time.
//!
//! A frame's *slot* is its arrival, but at least one period less [`FASTER`] after its predecessor's
//! slot. That tolerates a publisher clock that is slightly fast. A frame is released on arrival,
//! but at most as long before its slot as the bucket's depth lasts, or half of a client's queue,
//! and not before the bucket has link time for it. So a publisher that was late catches up at once,
//! and longer bursts are spread. A frame is dropped as *beyond* if its slot is later than
//! [`AHEAD_NS`], or if the bucket lacks link time for it at its slot. In any interval, the released
//! link time is at most the bucket's. Admission relies on this bound (the generic cell rate
//! algorithm of ITU-T I.371, applied twice).

use crate::scheduler::demand::Demand;
use millstream_scenario::Link;

/// The tolerance for a fast publisher: 1/100 of its period.
const FASTER: u64 = 100;

/// The longest time a frame may arrive before its slot, ns.
pub(crate) const AHEAD_NS: u64 = 1_000_000_000;

/// The limits of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// The least time between two slots, ns.
    pub(crate) spacing_ns: u64,
    /// The rate on the link, bits/s.
    pub(crate) rate_bps: u64,
    /// The link's rate, bits/s.
    link_bps: u64,
    /// The bucket's depth, ns of link time.
    burst_ns: u64,
    /// The longest time between a frame's release and its slot, ns.
    pub(crate) early_ns: u64,
}

impl Allowance {
    /// Creates the limits of a stream with a frame each `period_ns`, at most `rate_bps`, and bursts
    /// of `burst_bytes`, on `link`.
    pub(crate) fn new(period_ns: u64, rate_bps: u64, burst_bytes: u32, link: Link) -> Self {
        // The burst is bytes on the wire.
        let bare = Link::of(millstream::Link::new(link.rate_bps, 0));
        let allowance = Self {
            spacing_ns: (period_ns - period_ns / FASTER).max(1),
            rate_bps: rate_bps.max(1),
            link_bps: link.rate_bps.max(1),
            burst_ns: bare.transmission_ns(burst_bytes),
            early_ns: 0,
        };
        let early_ns = allowance.refilled_ns(allowance.burst_ns).min(AHEAD_NS);
        Self { early_ns, ..allowance }
    }

    /// Limits early frames to half of a client's queue of `frames`, which they join at once.
    pub(crate) fn queued(self, frames: u32) -> Self {
        let early_ns = self.spacing_ns.saturating_mul(u64::from(frames / 2));
        Self { early_ns: self.early_ns.min(early_ns), ..self }
    }

    /// Returns the link time added to the bucket in `time_ns`, ns, rounded up.
    fn filled_ns(&self, time_ns: u64) -> u64 {
        let filled = u128::from(time_ns) * u128::from(self.rate_bps);
        u64::try_from(filled.div_ceil(u128::from(self.link_bps))).unwrap_or(u64::MAX)
    }

    /// Returns the time that the bucket needs for a frame of `work_ns` of link time, ns.
    fn refilled_ns(&self, work_ns: u64) -> u64 {
        let time = u128::from(work_ns) * u128::from(self.link_bps);
        u64::try_from(time.div_ceil(u128::from(self.rate_bps))).unwrap_or(u64::MAX)
    }

    /// Returns the link demand that a client of the stream can cause.
    pub(crate) fn demand(&self, deadline_ns: u64) -> Demand {
        // An interval shorter than n spacings has the bucket's depth and what is added meanwhile.
        let of = |frames: u64| {
            let time_ns = frames.saturating_mul(self.spacing_ns);
            self.burst_ns.saturating_add(self.filled_ns(time_ns))
        };
        Demand::bounded(of, self.burst_ns, self.spacing_ns, deadline_ns)
    }
}

/// The policing state of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policer {
    allowance: Allowance,
    /// The slot of the last frame, ns.
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
        let Allowance { spacing_ns, burst_ns, .. } = self.allowance;
        let takes_ns = self.allowance.refilled_ns(work_ns);
        let depth_ns = self.allowance.refilled_ns(burst_ns);
        let slot_ns = now_ns.max(self.last_ns.saturating_add(spacing_ns));
        // When the bucket has link time for the frame.
        let ready_ns = self.full_ns.saturating_add(takes_ns).saturating_sub(depth_ns);
        if slot_ns - now_ns > AHEAD_NS || takes_ns > depth_ns || ready_ns > slot_ns {
            return None;
        }
        let early_ns = slot_ns.saturating_sub(self.allowance.early_ns);
        let release_ns = now_ns.max(early_ns).max(ready_ns);
        self.last_ns = slot_ns;
        self.full_ns = self.full_ns.max(release_ns).saturating_add(takes_ns);
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
        // The bucket lasts 80 ms: two more frames may be early.
        assert_eq!(release(1_040 * MS), Some(1_040 * MS));
        assert_eq!(release(1_041 * MS), Some(1_041 * MS));
        assert_eq!(release(1_041 * MS), Some(960 * MS + 3 * 39_600_000));
        // Slots are at most one second ahead.
        let taken = (0..100).filter(|_| release(1_041 * MS).is_some()).count();
        assert_eq!(taken, 22);
    }

    #[test]
    fn a_publisher_that_was_late_catches_up_at_once() {
        let mut policer = Policer::new(allowance());
        let mut waits = |late_ms: &[u64]| {
            let frames = late_ms.iter().zip(25..);
            let wait = |(late_ms, number): (&u64, u64)| {
                let now_ns = (number * 40 + late_ms) * MS;
                policer.release_ns(MS / 10, now_ns).unwrap() - now_ns
            };
            frames.map(wait).collect::<Vec<u64>>()
        };
        assert_eq!(waits(&[0, 0, 70, 30, 0, 10, 0, 0]), [0; 8]);
    }

    #[test]
    fn early_frames_take_half_of_a_queue() {
        let mut policer = Policer::new(allowance().queued(3));
        let mut release = |now_ns| policer.release_ns(MS / 10, now_ns);
        assert_eq!([1_000 * MS; 2].map(&mut release), [Some(1_000 * MS); 2]);
        assert_eq!(release(1_000 * MS), Some(1_000 * MS + 39_600_000));
    }

    #[test]
    fn early_frames_wait_for_the_bucket() {
        let mut policer = Policer::new(allowance());
        let mut release = |work_us: u64| policer.release_ns(work_us * 1_000, 1_000 * MS);
        assert_eq!(release(6_000), Some(1_000 * MS));
        // 4 ms are left, and 1 ms takes 8 ms.
        assert_eq!(release(4_000), Some(1_000 * MS));
        assert_eq!(release(1_000), Some(1_008 * MS));
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
