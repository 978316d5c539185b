//! Summary of a stream's arrival times for the premises of theorems.
//!
//! Window theorems hold for arrivals on a grid. A packet that starts between two slots delays every
//! later decision by a part of a slot. A stream with periods that begin between those of other
//! streams wins by its earlier deadline. [`ArrivalPattern`] summarises the arrivals of one stream
//! in constant space, so that such premises can be checked.
//!
//! ```text
//! d_1 = first deadline, or a_1 + T        d_n = max(d_{n−1}, a_n) + T
//! ```
//!
//! d_n is the latest deadline under which packet n leaves where every request is served or dropped
//! in its period.

use core::num::NonZeroU64;

use super::exact::{greatest_common_divisor, narrow};

/// The arrival times of one stream in terms of its request period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalPattern {
    period_ns: u64,
    packets: u64,
    first_ns: u64,
    first_deadline_ns: u64,
    /// d_n.
    deadline_ns: u64,
    /// Packets since the deadlines last restarted from an arrival.
    run: u64,
    step_ns: u64,
    restart_step_ns: u64,
    pauses: bool,
    most_waiting: u64,
    /// The end of the period of the last arrival, counting periods from the first arrival; of no
    /// use once a period was skipped.
    period_end_ns: u64,
    skips_period: bool,
}

impl ArrivalPattern {
    /// Returns an empty pattern of a stream with request period `period_ns`, if it has one, and the
    /// contract's deadline of the first packet, ns.
    #[must_use]
    pub fn new(period_ns: Option<NonZeroU64>, first_deadline_ns: Option<u64>) -> Self {
        Self {
            period_ns: period_ns.map_or(0, NonZeroU64::get),
            packets: 0,
            first_ns: 0,
            first_deadline_ns: first_deadline_ns.unwrap_or(u64::MAX),
            deadline_ns: 0,
            run: 0,
            step_ns: 0,
            restart_step_ns: 0,
            pauses: false,
            most_waiting: 0,
            period_end_ns: 0,
            skips_period: false,
        }
    }

    /// Adds an arrival at `time_ns`, no earlier than the one before.
    pub fn record(&mut self, time_ns: u64) {
        let after_ns = time_ns.saturating_add(self.period_ns);
        self.packets += 1;
        if self.packets == 1 {
            self.first_ns = time_ns;
            if self.first_deadline_ns == u64::MAX {
                self.first_deadline_ns = after_ns;
            }
            self.deadline_ns = self.first_deadline_ns;
            self.period_end_ns = after_ns;
            self.run = 1;
        } else {
            self.step_ns = common_step_ns(self.step_ns, time_ns - self.first_ns);
            if time_ns > self.deadline_ns {
                self.pauses = true;
                self.deadline_ns = after_ns;
                let shift_ns = after_ns.abs_diff(self.first_deadline_ns);
                self.restart_step_ns = common_step_ns(self.restart_step_ns, shift_ns);
                self.run = 1;
            } else {
                self.deadline_ns = self.deadline_ns.saturating_add(self.period_ns);
                self.run += 1;
            }
            if time_ns >= self.period_end_ns && self.period_ns > 0 {
                self.skips_period |= time_ns > self.period_end_ns;
                self.period_end_ns = after_ns;
            }
        }
        let ahead_ns = self.deadline_ns.saturating_sub(time_ns);
        let waiting = if self.period_ns == 0 { 1 } else { ahead_ns.div_ceil(self.period_ns) };
        self.most_waiting = self.most_waiting.max(waiting.min(self.run));
    }

    /// Returns the number of packets that arrived.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the first arrival, ns; 0 if there is none.
    #[must_use]
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// Returns the deadline of the first packet, ns: the contract's, or its arrival + T.
    #[must_use]
    pub fn first_deadline_ns(&self) -> u64 {
        self.first_deadline_ns
    }

    /// Returns whether every arrival is a multiple of `slot_ns` after `origin_ns` (or before it).
    #[must_use]
    pub fn is_on_grid(&self, origin_ns: u64, slot_ns: u64) -> bool {
        self.packets == 0
            || self.step_ns.is_multiple_of(slot_ns)
                && self.first_ns.abs_diff(origin_ns).is_multiple_of(slot_ns)
    }

    /// Returns how much later than a multiple of T after `origin_ns` the first deadline is, ns,
    /// below T.
    ///
    /// `None` if later deadlines are not multiples of T after the first.
    #[must_use]
    pub fn phase_ns(&self, origin_ns: u64) -> Option<u64> {
        if self.packets == 0 || self.period_ns == 0 {
            return Some(0);
        }
        let whole = self.restart_step_ns.is_multiple_of(self.period_ns);
        let (first, origin) = (self.first_deadline_ns, origin_ns);
        let behind_ns = first.abs_diff(origin) % self.period_ns;
        let ahead = first >= origin || behind_ns == 0;
        whole.then_some(if ahead { behind_ns } else { self.period_ns - behind_ns })
    }

    /// Returns whether a packet arrived after its predecessor's deadline: a request period passed
    /// without a request.
    #[must_use]
    pub fn pauses(&self) -> bool {
        self.pauses
    }

    /// Returns whether a period, counted from the first arrival, began without an arrival at that
    /// instant, the last period excepted. Disciplines that serve more than one packet in a period
    /// then find no request in the next.
    #[must_use]
    pub fn skips_period(&self) -> bool {
        self.skips_period
    }

    /// Returns the maximum number of packets that wait at once if each leaves just before d_n.
    #[must_use]
    pub fn most_waiting(&self) -> u64 {
        self.most_waiting
    }
}

fn common_step_ns(one_ns: u64, other_ns: u64) -> u64 {
    narrow(greatest_common_divisor(one_ns.into(), other_ns.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(period_ns: u64, first: Option<u64>, arrivals: &[u64]) -> ArrivalPattern {
        let mut pattern = ArrivalPattern::new(NonZeroU64::new(period_ns), first);
        arrivals.iter().for_each(|time_ns| pattern.record(*time_ns));
        pattern
    }

    #[test]
    fn a_steady_stream_is_on_its_grid_and_never_pauses() {
        let steady = pattern(10, None, &[3, 13, 23, 33]);
        assert_eq!((steady.first_ns(), steady.first_deadline_ns()), (3, 13));
        assert!(steady.is_on_grid(3, 10) && steady.is_on_grid(103, 5));
        assert!(!steady.is_on_grid(0, 10) && !steady.is_on_grid(3, 20));
        assert!(!steady.pauses() && !steady.skips_period());
        assert_eq!(
            (steady.most_waiting(), steady.phase_ns(13), steady.phase_ns(15)),
            (1, Some(0), Some(8))
        );
    }

    #[test]
    fn a_pause_restarts_the_deadlines_from_the_arrival() {
        // Deadlines 10, 20; the third arrives at 25, after 20.
        let paused = pattern(10, None, &[0, 0, 25]);
        assert!(paused.pauses() && paused.skips_period());
        assert_eq!(paused.phase_ns(0), None);
        assert_eq!(pattern(10, None, &[0, 0, 30]).phase_ns(0), Some(0));
        assert!(!paused.is_on_grid(0, 10) && paused.is_on_grid(0, 5));
        // An arrival exactly at its predecessor's deadline is not a pause.
        assert!(!pattern(10, None, &[0, 0, 20]).pauses());
        // Both packets of the first period may be served in it, so the second may be empty.
        assert!(pattern(10, None, &[0, 0, 20]).skips_period());
        assert!(!pattern(10, None, &[0, 0, 10, 20]).skips_period());
    }

    #[test]
    fn early_packets_wait_and_a_given_first_deadline_lets_more_of_them_wait() {
        assert_eq!(pattern(10, None, &[0, 0, 0, 10]).most_waiting(), 3);
        assert_eq!(pattern(10, None, &[0, 0, 10, 20]).most_waiting(), 2);
        let late_start = pattern(10, Some(100), &[0, 10, 20, 30]);
        assert_eq!((late_start.most_waiting(), late_start.pauses()), (4, false));
        assert_eq!(late_start.first_deadline_ns(), 100);
    }

    #[test]
    fn a_skipped_period_is_remembered() {
        assert!(pattern(10, None, &[0, 10, 30]).skips_period());
        assert!(pattern(10, None, &[0, 20, 40]).skips_period());
        assert!(pattern(1, None, &[0, 1, 3]).skips_period());
        assert!(!pattern(10, None, &[0, 5, 10, 20, 29, 30]).skips_period());
    }

    #[test]
    fn a_phase_is_the_distance_behind_the_grid_of_deadlines() {
        let steady = pattern(10, None, &[3, 13]);
        assert_eq!([10, 3, 23, 25].map(|origin| steady.phase_ns(origin)), [3, 0, 0, 8].map(Some));
        // A pause restarts the deadlines at 40, on the grid of the first; so it is at 31.
        let paused = pattern(10, None, &[0, 30, 31]);
        assert_eq!((paused.pauses(), paused.phase_ns(0)), (true, Some(0)));
    }

    #[test]
    fn packets_wait_until_just_before_their_deadlines() {
        // At 9, all of the deadlines 10, 20 and 30 are ahead.
        assert_eq!(pattern(10, None, &[0, 5, 9]).most_waiting(), 3);
        assert_eq!(pattern(10, None, &[0, 0, 0, 30]).most_waiting(), 3);
        assert_eq!(pattern(10, Some(1_000), &[0]).most_waiting(), 1);
    }

    #[test]
    fn a_pattern_without_packets_or_period_is_on_every_grid() {
        let empty = pattern(10, None, &[]);
        assert_eq!((empty.packets(), empty.first_ns(), empty.most_waiting()), (0, 0, 0));
        assert!(empty.is_on_grid(3, 10) && !pattern(10, None, &[5]).is_on_grid(0, 10));
        assert!(!empty.pauses() && !empty.skips_period());
        assert_eq!(empty.phase_ns(0), Some(0));
        assert_eq!(pattern(10, Some(7), &[]).first_deadline_ns(), 7);
        let free = pattern(0, None, &[1, 1, 6]);
        assert_eq!((free.packets(), free.first_ns(), free.first_deadline_ns()), (3, 1, 1));
        assert_eq!((free.most_waiting(), free.phase_ns(0)), (1, Some(0)));
        assert!(free.pauses() && !free.skips_period());
    }
}
