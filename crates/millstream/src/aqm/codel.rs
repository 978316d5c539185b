//! CoDel: controlled delay (RFC 8289), in integers.
//!
//! While packets have waited longer than `target_ns` for at least `interval_ns`, CoDel drops one,
//! and then more, at intervals of `interval_ns / √count`. A packet of an ECN-capable sender is
//! marked instead and delivered at once (RFC 8290, section 5.2.6, and Linux).
//!
//! A packet stays if the stream's queues hold at most one packet besides it, of the largest size
//! seen (RFC 8289, sections 4.1 and 4.4).

use super::{Action, Candidate, Manager, Random};

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelOptions {
    /// TARGET: the sojourn time that a standing queue may have, ns.
    pub target_ns: u64,
    /// INTERVAL: about the longest round-trip time of the senders, ns.
    pub interval_ns: u64,
    /// Whether packets of ECN-capable senders are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelOptions {
    /// 5 ms, 100 ms, with ECN (RFC 8289, section 4; RFC 8290, section 5.2).
    fn default() -> Self {
        Self { target_ns: 5_000_000, interval_ns: 100_000_000, ecn: true }
    }
}

/// The state of CoDel for one queue (RFC 8289, section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codel {
    /// When the sojourn time will have been above the target for an interval, ns; 0 while it is
    /// below.
    first_above_ns: u64,
    /// When to drop next, ns.
    drop_next_ns: u64,
    /// Packets dropped since the queue entered drop state.
    count: u32,
    /// `count` at the last entry into drop state.
    last_count: u32,
    dropping: bool,
}

/// The decision on one packet after another at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Whether the round began in drop state, and is in its loop.
    in_loop: bool,
    /// Whether the loop has just dropped a packet. The time of the next drop is then not set yet.
    dropped: bool,
    /// Whether the queue entered drop state in this round: the next packet is delivered.
    entered: bool,
}

impl Manager for Codel {
    type Options = CodelOptions;
    type Round = Round;

    #[inline]
    fn begin(&self) -> Round {
        Round { in_loop: self.dropping, dropped: false, entered: false }
    }

    #[inline]
    fn next(
        &mut self,
        round: &mut Round,
        options: &CodelOptions,
        now_ns: u64,
        head: Option<&Candidate>,
        _: &mut Random,
    ) -> Action {
        let Some(head) = head else {
            self.first_above_ns = 0;
            self.dropping = false;
            return Action::Deliver;
        };
        let is_standing = self.is_standing(options, now_ns, head);
        if round.entered {
            return Action::Deliver;
        }
        if round.in_loop {
            if !is_standing {
                self.dropping = false;
                return Action::Deliver;
            }
            if round.dropped {
                self.drop_next_ns = control_law(self.drop_next_ns, options.interval_ns, self.count);
            }
            if now_ns < self.drop_next_ns {
                return Action::Deliver;
            }
            self.count = self.count.saturating_add(1);
            let action = signal(options, head);
            round.dropped = action == Action::Drop;
            if action == Action::Mark {
                self.drop_next_ns = control_law(self.drop_next_ns, options.interval_ns, self.count);
            }
            return action;
        }
        if !is_standing {
            return Action::Deliver;
        }
        // Enters drop state: soon after the last time, at the rate that worked then.
        round.entered = true;
        self.dropping = true;
        let recent =
            now_ns.saturating_sub(self.drop_next_ns) < options.interval_ns.saturating_mul(16);
        let dropped = self.count.wrapping_sub(self.last_count);
        self.count = if recent && dropped > 1 { dropped } else { 1 };
        self.drop_next_ns = control_law(now_ns, options.interval_ns, self.count);
        self.last_count = self.count;
        signal(options, head)
    }
}

impl Codel {
    /// Returns whether packets have waited too long for at least an interval.
    fn is_standing(&mut self, options: &CodelOptions, now_ns: u64, head: &Candidate) -> bool {
        let is_short = head.backlog_bytes <= u64::from(head.largest_bytes);
        if head.sojourn_ns < options.target_ns || is_short {
            self.first_above_ns = 0;
            return false;
        }
        if self.first_above_ns == 0 {
            self.first_above_ns = now_ns.saturating_add(options.interval_ns);
            return false;
        }
        now_ns >= self.first_above_ns
    }
}

/// Returns how the sender of the packet at the head is told.
fn signal(options: &CodelOptions, head: &Candidate) -> Action {
    if options.ecn && head.can_mark { Action::Mark } else { Action::Drop }
}

/// Returns the time of the next drop after one at `from_ns`: later by `interval_ns / √count`.
pub(super) fn control_law(from_ns: u64, interval_ns: u64, count: u32) -> u64 {
    // 16 bits of the root's fraction.
    let root = (u64::from(count) << 32).isqrt();
    let step = u128::from(interval_ns) << 16;
    from_ns.saturating_add(u64::try_from(step / u128::from(root.max(1))).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const MS: u64 = 1_000_000;
    const OPTIONS: CodelOptions =
        CodelOptions { target_ns: 5 * MS, interval_ns: 100 * MS, ecn: false };
    const HEAD: Candidate = Candidate {
        sojourn_ns: 0,
        backlog_bytes: 100_000,
        is_last: false,
        can_mark: false,
        largest_bytes: 1_500,
    };

    /// Returns the action on each packet of one dequeue; every packet has waited `sojourn_ns`.
    fn dequeue(codel: &mut Codel, now_ns: u64, sojourn_ns: u64, can_mark: bool) -> Vec<Action> {
        let options = CodelOptions { ecn: can_mark, ..OPTIONS };
        let mut round = codel.begin();
        let head = Candidate { sojourn_ns, can_mark, ..HEAD };
        let mut actions = Vec::new();
        loop {
            let action = codel.next(&mut round, &options, now_ns, Some(&head), &mut Random::new(0));
            actions.push(action);
            if action != Action::Drop {
                return actions;
            }
        }
    }

    #[test]
    fn the_control_law_divides_the_interval_by_the_root_of_the_count() {
        let after = |count| control_law(0, OPTIONS.interval_ns, count);
        assert_eq!([1, 4, 9, 10_000].map(after), [100 * MS, 50 * MS, 33_333_333, MS]);
        // 100 ms / √2 is 70.710678… ms; 16 bits of the root's fraction are exact to 1/100,000.
        assert!(after(2).abs_diff(70_710_678) < 1_000, "{}", after(2));
        assert_eq!(after(u32::MAX), 1_525);
    }

    /// Packets of a standing queue leave every millisecond. The first interval only measures; then
    /// the drops follow each other at 100 ms/√n.
    #[test]
    fn a_standing_queue_is_dropped_from_at_growing_rates() {
        let mut codel = Codel::default();
        let mut drops = Vec::new();
        for now in 0..=500 {
            let actions = dequeue(&mut codel, now * MS, 20 * MS, false);
            drops.extend(actions.iter().filter(|action| **action == Action::Drop).map(|_| now));
        }
        // 100; then + 100, 70.7, 57.7, 50, 44.7 and 40.8 ms, each at the next departure.
        assert_eq!(drops, [100, 200, 271, 329, 379, 424, 464]);
    }

    /// RFC 8289, section 5.6: `drop_next` is 100 ms / √count after the one before. By hand: 200
    /// ms, then + 70.711, 57.735, 50, 44.721, 40.825, 37.796 and 35.355 ms.
    #[test]
    fn the_times_of_drops_follow_the_control_law() {
        let mut codel = Codel::default();
        dequeue(&mut codel, 0, 20 * MS, false);
        dequeue(&mut codel, 100 * MS, 20 * MS, false);
        let mut times_us = vec![codel.drop_next_ns / 1_000];
        for count in 2..=8 {
            let now_ns = codel.drop_next_ns;
            assert_eq!(dequeue(&mut codel, now_ns - 1, 20 * MS, false), [Action::Deliver]);
            let actions = dequeue(&mut codel, now_ns, 20 * MS, false);
            assert_eq!((actions, codel.count), (vec![Action::Drop, Action::Deliver], count));
            times_us.push(codel.drop_next_ns / 1_000);
        }
        let by_hand = [200_000, 270_711, 328_446, 378_446, 423_167, 463_992, 501_788, 537_144u64];
        assert!(times_us.iter().zip(by_hand).all(|(of, by_hand)| of.abs_diff(by_hand) <= 2));
    }

    #[test]
    fn packets_of_capable_senders_are_marked_at_the_same_times() {
        let mut codel = Codel::default();
        let mut marks = Vec::new();
        for now in 0..=400 {
            let actions = dequeue(&mut codel, now * MS, 20 * MS, true);
            assert_eq!(actions.len(), 1, "nothing is dropped");
            marks.extend((actions[0] == Action::Mark).then_some(now));
        }
        assert_eq!(marks, [100, 200, 271, 329, 379]);
    }

    #[test]
    fn a_short_wait_ends_drop_state_and_a_soon_return_resumes_its_rate() {
        let mut codel = Codel::default();
        for now in 0..=400 {
            dequeue(&mut codel, now * MS, 20 * MS, false);
        }
        assert_eq!((codel.count, codel.dropping), (5, true));
        assert_eq!(dequeue(&mut codel, 401 * MS, 4 * MS, false), [Action::Deliver]);
        assert!(!codel.dropping);
        for now in 402..502 {
            assert_eq!(dequeue(&mut codel, now * MS, 20 * MS, false), [Action::Deliver]);
        }
        // It resumes with the 4 drops since the last entry, not with one.
        assert_eq!(dequeue(&mut codel, 502 * MS, 20 * MS, false), [Action::Drop, Action::Deliver]);
        assert_eq!((codel.count, codel.drop_next_ns), (4, 552 * MS));
        // After sixteen intervals it begins anew.
        assert_eq!(dequeue(&mut codel, 503 * MS, 0, false), [Action::Deliver]);
        dequeue(&mut codel, 5_000 * MS, 20 * MS, false);
        dequeue(&mut codel, 5_100 * MS, 20 * MS, false);
        assert_eq!((codel.count, codel.drop_next_ns), (1, 5_200 * MS));
    }

    /// The last instant is after every interval.
    #[test]
    fn an_interval_that_ends_after_the_last_instant_ends_there() {
        for interval_ns in [OPTIONS.interval_ns, u64::MAX] {
            let options = CodelOptions { interval_ns, ..OPTIONS };
            let mut codel = Codel::default();
            let head = Candidate { sojourn_ns: 20 * MS, ..HEAD };
            let actions = [u64::MAX - MS, u64::MAX - 1, u64::MAX, u64::MAX].map(|now_ns| {
                let random = &mut Random::new(0);
                codel.next(&mut codel.begin(), &options, now_ns, Some(&head), random)
            });
            use Action::{Deliver, Drop};
            assert_eq!(actions, [Deliver, Deliver, Drop, Drop]);
        }
    }

    #[test]
    fn a_queue_of_one_packet_is_not_standing() {
        let mut codel = Codel::default();
        let head = Candidate { sojourn_ns: 900 * MS, backlog_bytes: 1_500, ..HEAD };
        let random = &mut Random::new(0);
        for now in 0..1_000 {
            let mut round = codel.begin();
            let action = codel.next(&mut round, &OPTIONS, now * MS, Some(&head), random);
            assert_eq!(action, Action::Deliver);
        }
        let mut round = codel.begin();
        assert_eq!(codel.next(&mut round, &OPTIONS, 0, None, random), Action::Deliver);
    }
}
