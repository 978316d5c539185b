//! COBALT: CoDel and BLUE together (Høiland-Jørgensen, Täht and Morton, "Piece of CAKE: a
//! comprehensive queue management solution for home gateways", LANMAN 2018), in integers.
//!
//! Three changes to CoDel: after the delay has been below the target, `count` decreases by the
//! control law instead of being forgotten; the first signal comes one interval after the delay
//! exceeds the target, at the rate of the remaining `count`; the last packet of a queue is never
//! dropped. BLUE (Feng et al., 1999) drops packets of senders that do not react: its probability
//! grows when the queue overflows and shrinks while the queue is empty, at most once a target.
//!
//! CAKE visits empty queues until `count` and the probability are 0. Here the next packet makes the
//! decreases that were due while the queue was empty.

use super::codel::control_law;
use super::{Action, Backlog, CERTAIN, Candidate, Manager, Random};

/// The increase of BLUE's probability, of [`CERTAIN`].
const INCREASE: u64 = CERTAIN / 256;
/// The decrease of BLUE's probability, of [`CERTAIN`].
const DECREASE: u64 = CERTAIN / 4_096;

/// The parameters of COBALT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobaltOptions {
    /// The sojourn time that a standing queue may have, ns.
    pub target_ns: u64,
    /// About the longest round-trip time of the senders, ns.
    pub interval_ns: u64,
    /// Whether CoDel marks packets of ECN-capable senders. BLUE drops them: its senders do not
    /// react to marks.
    pub ecn: bool,
}

impl Default for CobaltOptions {
    /// 5 ms, 100 ms, with ECN: as CAKE at `rtt 100ms`.
    fn default() -> Self {
        Self { target_ns: 5_000_000, interval_ns: 100_000_000, ecn: true }
    }
}

/// The state of COBALT for one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cobalt {
    /// When to signal next, ns. With `count` 0: the end of the interval that a standing queue must
    /// last.
    signal_next_ns: u64,
    /// When BLUE's probability changed last, ns.
    changed_ns: u64,
    /// BLUE's probability of dropping, of [`CERTAIN`].
    probability: u64,
    /// The signals of the standing queue, decreasing without one.
    count: u32,
    /// Whether the last packet had waited longer than the target.
    is_above: bool,
    /// Whether the queue was found empty, and no packet has arrived since.
    is_idle: bool,
}

impl Manager for Cobalt {
    type Options = CobaltOptions;
    type Round = ();

    #[inline]
    fn arrive(
        &mut self,
        options: &CobaltOptions,
        now_ns: u64,
        _: Backlog,
        _: bool,
        _: &mut Random,
    ) -> Action {
        if self.is_idle {
            self.is_idle = false;
            self.decay(options, now_ns);
        }
        Action::Deliver
    }

    #[inline]
    fn begin(&self) {}

    #[inline]
    fn next(
        &mut self,
        (): &mut (),
        options: &CobaltOptions,
        now_ns: u64,
        head: Option<&Candidate>,
        random: &mut Random,
    ) -> Action {
        let Some(head) = head else {
            self.emptied(options, now_ns);
            return Action::Deliver;
        };
        let is_due = self.is_due(now_ns);
        // CAKE knows the link's rate and compares the wait with four packet times.
        let is_short = head.backlog_bytes <= u64::from(head.largest_bytes);
        if head.sojourn_ns > options.target_ns && !is_short {
            if !self.is_above {
                self.is_above = true;
                self.signal_next_ns = self.after(now_ns, options);
            }
            self.count = self.count.max(1);
        } else {
            self.is_above = false;
        }
        let mut action = Action::Deliver;
        if is_due && self.is_above {
            action = if options.ecn && head.can_mark { Action::Mark } else { Action::Drop };
            self.count = self.count.saturating_add(1);
            self.signal_next_ns = self.after(self.signal_next_ns, options);
        } else if !self.is_above {
            self.decay_count(options, now_ns);
        }
        if self.probability > 0 && random.is_drawn(self.probability) {
            action = Action::Drop;
        }
        if self.count == 0 {
            self.signal_next_ns = now_ns.saturating_add(options.interval_ns);
        } else if action != Action::Drop && self.signal_next_ns < now_ns {
            // Does not catch up with signals that were due while no packet left.
            self.signal_next_ns = now_ns;
        }
        if head.is_last && action == Action::Drop { Action::Deliver } else { action }
    }

    fn overflowed(&mut self, options: &CobaltOptions, now_ns: u64, _: bool) {
        if now_ns.saturating_sub(self.changed_ns) > options.target_ns {
            self.probability = (self.probability + INCREASE).min(CERTAIN);
            self.changed_ns = now_ns;
        }
        self.is_above = true;
        self.signal_next_ns = now_ns;
        self.count = self.count.max(1);
    }
}

impl Cobalt {
    /// Returns BLUE's probability of dropping, of [`CERTAIN`].
    #[must_use]
    pub fn probability(&self) -> u64 {
        self.probability
    }

    /// Returns whether a signal is due.
    #[inline]
    fn is_due(&self, now_ns: u64) -> bool {
        self.count > 0 && now_ns >= self.signal_next_ns
    }

    /// Returns the time of the signal after one at `from_ns`.
    #[inline]
    fn after(&self, from_ns: u64, options: &CobaltOptions) -> u64 {
        control_law(from_ns, options.interval_ns, self.count.max(1))
    }

    /// Makes the decreases of `count` that are due.
    fn decay_count(&mut self, options: &CobaltOptions, now_ns: u64) {
        while self.is_due(now_ns) {
            self.count -= 1;
            self.signal_next_ns = self.after(self.signal_next_ns, options);
        }
    }

    /// Makes the decreases that were due while the queue was empty.
    #[cold]
    fn decay(&mut self, options: &CobaltOptions, now_ns: u64) {
        self.decay_count(options, now_ns);
        // The probability is a multiple of a decrease.
        let wait_ns = options.target_ns.saturating_add(1);
        let due = now_ns.saturating_sub(self.changed_ns) / wait_ns;
        let made = due.min(self.probability / DECREASE);
        self.probability -= made * DECREASE;
        self.changed_ns += made * wait_ns;
    }

    /// Notes that the queue was found empty.
    fn emptied(&mut self, options: &CobaltOptions, now_ns: u64) {
        if self.probability > 0 && now_ns.saturating_sub(self.changed_ns) > options.target_ns {
            self.probability = self.probability.saturating_sub(DECREASE);
            self.changed_ns = now_ns;
        }
        self.is_above = false;
        self.is_idle = true;
        if self.is_due(now_ns) {
            self.count -= 1;
            self.signal_next_ns = self.after(self.signal_next_ns, options);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MS: u64 = 1_000_000;
    const OPTIONS: CobaltOptions =
        CobaltOptions { target_ns: 5 * MS, interval_ns: 100 * MS, ecn: false };

    /// Returns the action on one packet, which has waited `sojourn_ms`.
    fn next(cobalt: &mut Cobalt, now_ms: u64, sojourn_ms: u64, can_mark: bool) -> Action {
        let options = CobaltOptions { ecn: can_mark, ..OPTIONS };
        let head = Candidate {
            sojourn_ns: sojourn_ms * MS,
            backlog_bytes: 100_000,
            is_last: false,
            can_mark,
            largest_bytes: 1_500,
        };
        cobalt.next(&mut (), &options, now_ms * MS, Some(&head), &mut Random::new(1))
    }

    /// As CoDel: the first interval only measures; then 100 ms/√2, /√3, … between drops.
    #[test]
    fn a_standing_queue_is_dropped_from_at_growing_rates() {
        for (can_mark, action) in [(false, Action::Drop), (true, Action::Mark)] {
            let mut cobalt = Cobalt::default();
            let signals: Vec<u64> =
                (0..=400).filter(|now| next(&mut cobalt, *now, 20, can_mark) == action).collect();
            assert_eq!(signals, [100, 171, 229, 279, 324, 364]);
        }
    }

    /// `count` is 6 after 364 ms; without a standing queue it decreases at the same pace, and the
    /// next standing queue starts at the rate of the rest.
    #[test]
    fn the_rate_decreases_gradually() {
        let mut cobalt = Cobalt::default();
        for now in 0..=364 {
            next(&mut cobalt, now, 20, false);
        }
        assert_eq!(cobalt.count, 7);
        let counts: Vec<u32> = (365..800)
            .map(|now| {
                assert_eq!(next(&mut cobalt, now, 1, false), Action::Deliver);
                cobalt.count
            })
            .collect();
        assert!(counts.windows(2).all(|pair| pair[1] == pair[0] || pair[1] + 1 == pair[0]));
        assert_eq!(counts.first().zip(counts.last()), Some((&7, &0)));
        // At 364 + 37.8 ms (100/√7), then 40.8, 44.7, 50, 57.7, 70.7 and 100 ms.
        let pairs = (366..).zip(counts.windows(2));
        let changes: Vec<u64> =
            pairs.filter(|(_, pair)| pair[0] != pair[1]).map(|(now, _)| now).collect();
        assert_eq!(changes.len(), 7);
        assert!(changes[0].abs_diff(402) <= 1 && changes[6].abs_diff(766) <= 2, "{changes:?}");
    }

    #[test]
    fn blue_grows_by_overflows_and_shrinks_when_empty() {
        let mut cobalt = Cobalt::default();
        for now in 1..=100 {
            // Twice in 5 ms counts once.
            cobalt.overflowed(&OPTIONS, now * 3 * MS, false);
        }
        assert_eq!(cobalt.probability(), 50 * INCREASE);
        let mut random = Random::new(4);
        for now in 1..=100 {
            cobalt.next(&mut (), &OPTIONS, (300 + now * 3) * MS, None, &mut random);
        }
        assert_eq!(cobalt.probability(), 50 * INCREASE - 50 * DECREASE);
        assert_eq!(cobalt.count, 0);
        // BLUE drops capable packets too, about 49.2/256 of them.
        let drops = (0..1_000).filter(|_| {
            let head = Candidate {
                sojourn_ns: 0,
                backlog_bytes: 9_000,
                is_last: false,
                can_mark: true,
                largest_bytes: 1_500,
            };
            cobalt.next(&mut (), &OPTIONS, 700 * MS, Some(&head), &mut random) == Action::Drop
        });
        assert!((150..240).contains(&drops.count()));
    }

    /// While the queue is empty, the state decays as if it were visited all the time. By hand, from
    /// count 2 with a signal due at 10 ms: count is 1 at 10 ms and 0 one interval later. BLUE is at
    /// 16/4096 since 10 ms and decreases each 5 ms and 1 ns: 9 times in 50 ms, and 16 times in 81.
    #[test]
    fn the_state_decays_while_the_queue_is_empty() {
        let mut random = Random::new(1);
        let mut cobalt = Cobalt { count: 2, signal_next_ns: 20 * MS, ..Cobalt::default() };
        cobalt.overflowed(&OPTIONS, 10 * MS, true);
        assert_eq!((cobalt.probability(), cobalt.count), (16 * DECREASE, 2));
        cobalt.next(&mut (), &OPTIONS, 10 * MS, None, &mut random);
        assert_eq!((cobalt.probability(), cobalt.count), (16 * DECREASE, 1));
        let arrive = |now_ms: u64| {
            let mut cobalt = cobalt;
            let action = cobalt.arrive(
                &OPTIONS,
                now_ms * MS,
                Backlog::default(),
                false,
                &mut Random::new(1),
            );
            assert_eq!(action, Action::Deliver);
            (cobalt.probability() / DECREASE, cobalt.count)
        };
        assert_eq!([14, 60, 91, 109, 110].map(arrive), [(16, 1), (7, 1), (0, 1), (0, 1), (0, 0)]);
    }

    /// After a long idle time, a standing queue waits for an interval before the first signal,
    /// whatever `count` was.
    #[test]
    fn an_idle_queue_forgets_its_rate() {
        let mut cobalt = Cobalt::default();
        for now in 0..=364 {
            next(&mut cobalt, now, 20, false);
        }
        assert_eq!(cobalt.count, 7);
        let mut random = Random::new(1);
        cobalt.next(&mut (), &OPTIONS, 365 * MS, None, &mut random);
        cobalt.arrive(&OPTIONS, 5_000 * MS, Backlog::default(), false, &mut random);
        assert_eq!(cobalt.count, 0);
        assert!((5_020..5_120).all(|now| next(&mut cobalt, now, 20, false) == Action::Deliver));
        assert_eq!(next(&mut cobalt, 5_120, 20, false), Action::Drop);
    }

    #[test]
    fn the_last_packet_is_delivered() {
        let mut cobalt = Cobalt { probability: CERTAIN, ..Cobalt::default() };
        let head = Candidate {
            sojourn_ns: 900 * MS,
            backlog_bytes: 0,
            is_last: true,
            can_mark: false,
            largest_bytes: 1_500,
        };
        let mut random = Random::new(1);
        let action = cobalt.next(&mut (), &OPTIONS, 0, Some(&head), &mut random);
        assert_eq!(action, Action::Deliver);
        assert_eq!(next(&mut cobalt, 1, 0, true), Action::Drop);
    }
}
