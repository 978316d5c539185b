//! PIE: proportional integral controller enhanced (RFC 8033), in integers.
//!
//! Every `update_ns`, the drop probability changes by `α · (delay − target) + β · (delay − delay
//! before)`, scaled down while it is small (section 4.2). Arriving packets are dropped, or marked,
//! with that probability (section 4.1). After an uncongested time, none is dropped for `burst_ns`
//! (section 4.4).
//!
//! The delay is the sojourn time of the last packet that left (section 4.3 and appendix A); 0 if
//! the queue is empty, as in Linux: appendix A would keep the last sample. Updates are due at
//! multiples of `update_ns` and are made at the next event of the queue. Between events nothing
//! that they read changes, so the result is that of a timer.

use super::pi::{Gains, MOST_UPDATES};
use super::{Action, Backlog, CERTAIN, Candidate, Manager, Random};

/// MEAN_PKTSIZE, bytes: a queue of at most two such packets is not congested (RFC 8033, section
/// 4.1, which has no value; RFC 8034, section 4.6, has this one).
const MEAN_PACKET_BYTES: u64 = 1_024;

/// The parameters of PIE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieOptions {
    /// QDELAY_REF: the delay that PIE aims at, ns.
    pub target_ns: u64,
    /// T_UPDATE: the interval of updates, ns; at least 1.
    pub update_ns: u64,
    /// α: the weight of the delay's deviation from the target, thousandths of 1/s.
    pub alpha_milli: u32,
    /// β: the weight of the delay's change, thousandths of 1/s.
    pub beta_milli: u32,
    /// MAX_BURST: the time without drops after an uncongested time, ns.
    pub burst_ns: u64,
    /// Whether packets of ECN-capable senders are marked instead of dropped (section 5.1).
    pub ecn: bool,
    /// mark_ecnth: the drop probability from which capable packets are dropped too, percent.
    pub mark_below_percent: u32,
    /// Whether drops are spread evenly (section 5.4).
    pub derandomize: bool,
}

impl Default for PieOptions {
    /// 15 ms, 15 ms, 1/8, 5/4, 150 ms, ECN below 10 %, without derandomization (RFC 8033,
    /// sections 4.2, 4.4 and 5.1).
    fn default() -> Self {
        Self {
            target_ns: 15_000_000,
            update_ns: 15_000_000,
            alpha_milli: 125,
            beta_milli: 1_250,
            burst_ns: 150_000_000,
            ecn: true,
            mark_below_percent: 10,
            derandomize: false,
        }
    }
}

/// The state of PIE for one queue (RFC 8033, appendix A).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pie {
    /// drop_prob_, of [`CERTAIN`].
    probability: u64,
    /// accu_prob_: the sum of probabilities since the last drop, of [`CERTAIN`].
    accumulated: u64,
    /// qdelay_: the last sample, ns.
    delay_ns: u64,
    /// qdelay_old_: the sample of the last update, ns.
    delay_before_ns: u64,
    /// burst_allowance_: the time left without drops, ns.
    burst_left_ns: u64,
    /// The time of the next update, ns.
    update_due_ns: u64,
}

impl Manager for Pie {
    type Options = PieOptions;
    type Round = ();

    #[inline]
    fn arrive(
        &mut self,
        options: &PieOptions,
        now_ns: u64,
        backlog: Backlog,
        can_mark: bool,
        random: &mut Random,
    ) -> Action {
        self.advance(options, now_ns);
        let half_ns = options.target_ns / 2;
        if self.probability == 0 && self.delay_ns < half_ns && self.delay_before_ns < half_ns {
            self.burst_left_ns = options.burst_ns;
        }
        if self.burst_left_ns > 0 || !self.drops_early(options, backlog, random) {
            return Action::Deliver;
        }
        let marks = u128::from(self.probability) * 100
            < u128::from(CERTAIN) * u128::from(options.mark_below_percent);
        if options.ecn && can_mark && marks { Action::Mark } else { Action::Drop }
    }

    #[inline]
    fn begin(&self) {}

    #[inline]
    fn next(
        &mut self,
        (): &mut (),
        options: &PieOptions,
        now_ns: u64,
        head: Option<&Candidate>,
        _: &mut Random,
    ) -> Action {
        self.advance(options, now_ns);
        self.delay_ns = head.filter(|head| !head.is_last).map_or(0, |head| head.sojourn_ns);
        Action::Deliver
    }

    fn overflowed(&mut self, options: &PieOptions, now_ns: u64, is_empty: bool) {
        self.advance(options, now_ns);
        self.accumulated = 0;
        if is_empty {
            self.delay_ns = 0;
        }
    }
}

impl Pie {
    /// Returns the drop probability, of [`CERTAIN`].
    #[must_use]
    pub fn probability(&self) -> u64 {
        self.probability
    }

    /// Makes the updates that are due at `now_ns`.
    #[inline]
    fn advance(&mut self, options: &PieOptions, now_ns: u64) {
        if now_ns >= self.update_due_ns {
            self.update_until(options, now_ns);
        }
    }

    #[cold]
    fn update_until(&mut self, options: &PieOptions, now_ns: u64) {
        let interval_ns = options.update_ns.max(1);
        let due = (now_ns - self.update_due_ns) / interval_ns + 1;
        self.update_due_ns = self.update_due_ns.saturating_add(due.saturating_mul(interval_ns));
        for made in 0..due.min(MOST_UPDATES) {
            if self.probability == 0 && self.delay_ns == 0 && self.delay_before_ns == 0 {
                // Further updates change the burst allowance only.
                let left_ns = (due - made).saturating_mul(interval_ns);
                self.burst_left_ns = self.burst_left_ns.saturating_sub(left_ns);
                break;
            }
            self.update(options);
        }
    }

    /// Updates the drop probability (RFC 8033, sections 4.2 and 5.5).
    fn update(&mut self, options: &PieOptions) {
        let (now, before) = (self.delay_ns, self.delay_before_ns);
        let gains = Gains {
            target_ns: options.target_ns,
            alpha_milli: options.alpha_milli,
            beta_milli: options.beta_milli,
        };
        let mut step = gains.step(now, before, scale_log2(self.probability));
        if self.probability >= CERTAIN / 10 {
            step = step.min((CERTAIN * 2 / 100).cast_signed());
        }
        let mut probability = self.probability.saturating_add_signed(step).min(CERTAIN);
        if now == 0 && before == 0 {
            probability = probability * 98 / 100;
        }
        self.probability = probability;
        self.delay_before_ns = now;
        self.burst_left_ns = self.burst_left_ns.saturating_sub(options.update_ns.max(1));
    }

    /// Returns whether an arriving packet is dropped or marked (RFC 8033, sections 4.1 and 5.4).
    #[inline]
    fn drops_early(&mut self, options: &PieOptions, backlog: Backlog, random: &mut Random) -> bool {
        let is_low = self.delay_before_ns < options.target_ns / 2 && self.probability < CERTAIN / 5;
        if is_low || backlog.bytes <= 2 * MEAN_PACKET_BYTES {
            return false;
        }
        if options.derandomize {
            let sum = if self.probability == 0 { 0 } else { self.accumulated + self.probability };
            self.accumulated = sum;
            if sum < CERTAIN * 85 / 100 {
                return false;
            }
            if sum < CERTAIN * 85 / 10 && !random.is_drawn(self.probability) {
                return false;
            }
            self.accumulated = 0;
            return true;
        }
        random.is_drawn(self.probability)
    }
}

/// Returns log2 of the divisor of a step at a drop probability (RFC 8033, section 4.2).
fn scale_log2(probability: u64) -> u32 {
    // Below one part in 1,000,000, 100,000, …
    let is_below = |parts: u64| probability < CERTAIN / parts;
    match () {
        () if is_below(1_000_000) => 11,
        () if is_below(100_000) => 9,
        () if is_below(10_000) => 7,
        () if is_below(1_000) => 5,
        () if is_below(100) => 3,
        () if is_below(10) => 1,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const OPTIONS: PieOptions = PieOptions {
        target_ns: 15 * MS,
        update_ns: 15 * MS,
        alpha_milli: 125,
        beta_milli: 1_250,
        burst_ns: 150 * MS,
        ecn: false,
        mark_below_percent: 10,
        derandomize: false,
    };
    const LONG: Backlog = Backlog { packets: 100, bytes: 100_000 };

    /// Returns the state after one update with these delays, ms.
    fn updated(probability: u64, before_ms: u64, now_ms: u64) -> Pie {
        let mut pie = Pie {
            probability,
            delay_ns: now_ms * MS,
            delay_before_ns: before_ms * MS,
            ..Pie::default()
        };
        pie.update(&OPTIONS);
        pie
    }

    /// By hand: delay 35 ms after 25 ms is 1/8 · 0.020 + 5/4 · 0.010 = 0.015; the table divides it.
    #[test]
    fn a_step_is_the_sum_of_the_deviation_and_the_trend_by_the_table() {
        let step = |probability: u64| updated(probability, 25, 35).probability - probability;
        let expected = |divisor: u64| CERTAIN * 15 / 1_000 / divisor;
        for (parts, divisor) in [
            (2_000_000, 2_048),
            (200_000, 512),
            (20_000, 128),
            (2_000, 32),
            (200, 8),
            (20, 2),
            (5, 1),
        ] {
            assert!(step(CERTAIN / parts).abs_diff(expected(divisor)) <= 1, "1/{parts}");
        }
        assert_eq!(step(0), expected(2_048));
    }

    #[test]
    fn steps_are_capped_decay_and_stay_probabilities() {
        // 1/8 · 0.985 + 5/4 · 1 = 1.373 is capped to 0.02 from 10 % (section 5.5).
        let capped = updated(CERTAIN / 10, 0, 1_000).probability;
        assert!(capped.abs_diff(CERTAIN * 12 / 100) <= 1);
        let uncapped = updated(CERTAIN / 11, 0, 1_000).probability;
        assert!(uncapped > CERTAIN / 2);
        assert_eq!(updated(CERTAIN - 1, 1_000, 1_000).probability, CERTAIN);
        // Without delay: 98 % of 0.5 − 1/8 · 0.015 is 0.4881625.
        let decayed = updated(CERTAIN / 2, 0, 0).probability;
        assert!(decayed.abs_diff(CERTAIN / 10_000_000 * 4_881_625) < CERTAIN / 10_000_000);
        assert_eq!(updated(CERTAIN / 2_000_000, 10, 0).probability, 0);
    }

    /// Packets that have waited 30 ms leave every millisecond. 150 ms pass without a drop.
    #[test]
    fn the_burst_allowance_passes_before_the_first_drop() {
        let (mut pie, mut random) = (Pie::default(), Random::new(1));
        let head = Candidate {
            sojourn_ns: 30 * MS,
            backlog_bytes: 100_000,
            is_last: false,
            can_mark: false,
            largest_bytes: 1_500,
        };
        let mut first = None;
        for now in 1..10_000 {
            let action = pie.arrive(&OPTIONS, now * MS, LONG, false, &mut random);
            if action == Action::Drop {
                first = first.or(Some(now));
            }
            pie.next(&mut (), &OPTIONS, now * MS, Some(&head), &mut random);
            if now == 149 {
                assert!(pie.probability() > 0 && pie.burst_left_ns > 0);
            }
        }
        assert!(first.is_some_and(|first| first > 150), "{first:?}");
    }

    #[test]
    fn low_delays_and_short_queues_are_spared() {
        let congested = Pie {
            probability: CERTAIN,
            delay_ns: 30 * MS,
            delay_before_ns: 30 * MS,
            update_due_ns: u64::MAX,
            ..Pie::default()
        };
        let arrive = |mut pie: Pie, bytes: u64| {
            let backlog = Backlog { packets: 9, bytes };
            pie.arrive(&OPTIONS, 0, backlog, false, &mut Random::new(0))
        };
        assert_eq!(arrive(congested, 2_048), Action::Deliver);
        assert_eq!(arrive(congested, 2_049), Action::Drop);
        let low = Pie { probability: CERTAIN / 5 - 1, delay_before_ns: 7 * MS, ..congested };
        assert!((0..100).all(|_| arrive(low, 100_000) == Action::Deliver));
        let bursty = Pie { burst_left_ns: 1, ..congested };
        assert_eq!(arrive(bursty, 100_000), Action::Deliver);
    }

    #[test]
    fn capable_packets_are_marked_below_ten_percent() {
        let options = PieOptions { ecn: true, ..OPTIONS };
        let actions = |probability, can_mark| {
            let mut random = Random::new(3);
            let mut pie = Pie {
                probability,
                delay_ns: 30 * MS,
                delay_before_ns: 30 * MS,
                update_due_ns: u64::MAX,
                ..Pie::default()
            };
            let mut counts = [0; 3];
            for _ in 0..10_000 {
                counts[pie.arrive(&options, 0, LONG, can_mark, &mut random) as usize] += 1;
            }
            counts
        };
        let below = actions(CERTAIN / 100 * 9, true);
        assert!(below[2] == 0 && (800..1_000).contains(&below[1]), "{below:?}");
        let above = actions(CERTAIN / 10 + 1, true);
        assert!(above[1] == 0 && (900..1_100).contains(&above[2]), "{above:?}");
        assert_eq!(actions(CERTAIN / 100 * 9, false)[1], 0);
    }

    /// The pseudocode of appendix A from probability 0, by hand: α = 1/8, β = 5/4, in ms.
    ///
    /// | delay | α · (delay − 15) + β · change | divisor | probability |
    /// |---|---|---|---|
    /// | 30 | 0.001875 + 0.0375 | 2048 | 0.0000192261 |
    /// | 45 | 0.00375 + 0.01875 | 128 | 0.0001950073 |
    /// | 60 | 0.005625 + 0.01875 | 32 | 0.0009567261 |
    /// | 60 | 0.005625 | 32 | 0.0011325073 |
    /// | 60 | 0.005625 | 8 | 0.0018356323 |
    /// | 200 | 0.023125 + 0.175 | 8 | 0.0266012573 |
    /// | 200 | 0.023125 | 2 | 0.0381637573 |
    /// | 500 | 0.060625 + 0.375 | 2 | 0.2559762573 |
    /// | 500 | 0.060625, capped to 0.02 | 1 | 0.2759762573 |
    /// | 400 | 0.048125 − 0.125 | 1 | 0.1991012573 |
    /// | 350 | 0.041875 − 0.0625 | 1 | 0.1784762573 |
    /// | 0 | −0.001875 − 0.4375 | 1 | 0 |
    #[test]
    fn probabilities_follow_a_series_of_delays() {
        let mut pie = Pie::default();
        for (delay_ms, by_hand) in [
            (30, 192_261),
            (45, 1_950_073),
            (60, 9_567_261),
            (60, 11_325_073),
            (60, 18_356_323),
            (200, 266_012_573),
            (200, 381_637_573),
            (500, 2_559_762_573),
            (500, 2_759_762_573),
            (400, 1_991_012_573),
            (350, 1_784_762_573),
            (0, 0),
        ] {
            pie.delay_ns = delay_ms * MS;
            pie.update(&OPTIONS);
            let parts = u128::from(pie.probability) * 10_000_000_000 / u128::from(CERTAIN);
            assert!(parts.abs_diff(by_hand) <= 1, "{delay_ms} ms: {parts}");
        }
    }

    /// A drop at a limit restarts the sum of probabilities too (RFC 8033, section 5.4 and `enque`
    /// in appendix B): at 5 %, the 17th packet is the first at 0.85.
    #[test]
    fn drops_at_a_limit_count_as_drops() {
        let options = PieOptions { derandomize: true, ..OPTIONS };
        let mut pie = Pie {
            probability: CERTAIN / 20,
            delay_before_ns: 30 * MS,
            update_due_ns: u64::MAX,
            ..Pie::default()
        };
        let random = &mut Random::new(1);
        for _ in 0..16 {
            assert_eq!(pie.arrive(&options, 0, LONG, false, random), Action::Deliver);
        }
        pie.overflowed(&options, 0, false);
        for _ in 0..16 {
            assert_eq!(pie.arrive(&options, 0, LONG, false, random), Action::Deliver);
        }
        assert_eq!(pie.accumulated, CERTAIN / 20 * 16);
    }

    /// With derandomization, the sum of probabilities between drops is 0.85 to 8.5.
    #[test]
    fn derandomized_drops_are_apart() {
        let options = PieOptions { derandomize: true, ..OPTIONS };
        let mut random = Random::new(5);
        let mut pie = Pie {
            probability: CERTAIN / 20,
            delay_ns: 30 * MS,
            delay_before_ns: 30 * MS,
            update_due_ns: u64::MAX,
            ..Pie::default()
        };
        let (mut since, mut drops) = (0, 0);
        for _ in 0..20_000 {
            since += 1;
            if pie.arrive(&options, 0, LONG, false, &mut random) == Action::Drop {
                assert!((17..=171).contains(&since), "{since}");
                (since, drops) = (0, drops + 1);
            }
        }
        assert!(drops > 400, "{drops}");
    }
}
