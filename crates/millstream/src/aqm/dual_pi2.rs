//! DualPI2: two coupled queues for low latency (RFC 9332, appendix A), in integers.
//!
//! Packets of senders that react to frequent marks (ECT(1) and CE) wait in the L queue, others in
//! the C queue. A PI controller derives a base probability p' from the delay of the longer queue
//! (appendix A.2; appendix A.1 uses the C queue alone):
//!
//! ```text
//! p' += α · (delay − target) + β · (delay − delay before)      every update
//! C queue:  p_C  = p'²                     drop, or mark ECT(0)
//! L queue:  p_L  = max(step or ramp, p_CL) mark,   p_CL = k · p'
//! ```
//!
//! Flows of both kinds with equal round-trip times then get about the same rate (section 2.1). If
//! p_CL reaches 1, the L queue drops with p_C too; if p_C reaches 1/k², the C queue drops ECT(0)
//! packets (appendix A.2). While the queues hold less than two packets of the largest size, p_C
//! and p_CL do not act, as in Linux (appendix A.1): otherwise a slow link, on which one packet
//! takes longer than the target, would lose or mark nearly all.
//!
//! Probabilities are not drawn: sums of them act when they reach a whole, so that actions are
//! spread evenly. `recur` in the RFC acts just above a whole: its actions come up to a packet
//! later. It has one sum a queue, and here the L queue has two: with one, p_CL above 1 would drop
//! more than p_C in overload, since an action takes only 1 from a sum.

use super::pi::{Gains, MOST_UPDATES};
use super::{Action, CERTAIN};

/// The parameters of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualPi2Options {
    /// The delay of the C queue that the controller aims at, ns.
    pub target_ns: u64,
    /// Tupdate: the interval of updates, ns; at least 1.
    pub update_ns: u64,
    /// α: the weight of the delay's deviation from the target, thousandths of 1/s.
    pub alpha_milli: u32,
    /// β: the weight of the delay's change, thousandths of 1/s.
    pub beta_milli: u32,
    /// k: the coupling factor; at least 1.
    pub coupling: u32,
    /// minTh: the delay of the L queue above which its packets are marked, ns.
    pub ramp_start_ns: u64,
    /// The range of delays in which the probability of these marks grows to 1, ns; 0 is a step,
    /// which marks from `ramp_start_ns` on.
    pub ramp_ns: u64,
    /// Th_len: the packets of the L queue, with the first, up to which the ramp does not mark.
    pub unmarked_packets: u32,
    /// The scheduler of the two queues.
    pub schedule: DualSchedule,
}

impl DualPi2Options {
    /// RTT_max of the defaults, ns (RFC 9332, appendix A.1).
    pub const RTT_NS: u64 = 100_000_000;

    /// Returns the defaults with the gains and the interval of updates for this target and longest
    /// round-trip time of the senders, ns: `Tupdate = min(target, RTT_max / 3)`,
    /// `α = 0.1 · Tupdate / RTT_max²`, `β = 0.3 / RTT_max` (RFC 9332, appendix A.1).
    #[must_use]
    pub fn for_rtt(target_ns: u64, rtt_ns: u64) -> Self {
        let update_ns = target_ns.min(rtt_ns / 3).max(1);
        let rtt = u128::from(rtt_ns.max(1));
        let milli = |gain: u128| u32::try_from(gain).unwrap_or(u32::MAX);
        Self {
            target_ns,
            update_ns,
            alpha_milli: milli(100 * u128::from(update_ns) * 1_000_000_000 / (rtt * rtt)),
            beta_milli: milli(300 * 1_000_000_000 / rtt),
            ..Self::default()
        }
    }
}

/// The scheduler of the two queues (RFC 9332, section 4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DualSchedule {
    /// While both have packets, the C queue gets this part of the bytes, percent; 1 to 99.
    Weighted {
        /// The part of the C queue, percent.
        classic_percent: u32,
    },
    /// First in, first out, as if packets of the L queue had arrived earlier by this time.
    TimeShift {
        /// The time, ns.
        shift_ns: u64,
    },
}

impl Default for DualPi2Options {
    /// Target 15 ms, RTT_max 100 ms, so α = 0.1 · 15 ms / RTT_max² = 0.15/s and β = 0.3 / RTT_max =
    /// 3/s; k = 2; marks from 800 µs to 1.2 ms and not of one packet (RFC 9332, appendix A.1). The
    /// C queue has 10 % (tc-dualpi2).
    fn default() -> Self {
        Self {
            target_ns: 15_000_000,
            update_ns: 15_000_000,
            alpha_milli: 150,
            beta_milli: 3_000,
            coupling: 2,
            ramp_start_ns: 800_000,
            ramp_ns: 400_000,
            unmarked_packets: 1,
            schedule: DualSchedule::Weighted { classic_percent: 10 },
        }
    }
}

/// The controller of the two queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DualPi2 {
    /// p', of [`CERTAIN`].
    base: u64,
    /// prevq: the delay at the last update, ns.
    delay_before_ns: u64,
    /// The time of the next update, ns.
    update_due_ns: u64,
    /// The sums of probabilities: drops and marks of the C queue, marks of the L queue, drops of
    /// the L queue; of [`CERTAIN`].
    sums: [u64; 3],
}

const CLASSIC: usize = 0;
const LOW_LATENCY: usize = 1;
const OVERLOAD: usize = 2;

/// A packet at the head of the L queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowLatencyHead {
    /// The packet's time in the queue, ns.
    pub sojourn_ns: u64,
    /// The packets of the queue, with it.
    pub packets: u32,
    /// Whether both queues are too short for the coupled probability.
    pub is_short: bool,
}

impl DualPi2 {
    /// Returns the base probability p', of [`CERTAIN`].
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns p_C = p'², of [`CERTAIN`].
    #[must_use]
    pub fn classic(&self) -> u64 {
        let square = u128::from(self.base) * u128::from(self.base) / u128::from(CERTAIN);
        // At most CERTAIN.
        u64::try_from(square).unwrap_or(CERTAIN)
    }

    /// Returns p_CL = k · p', of [`CERTAIN`], at most 1.
    #[must_use]
    pub fn coupled(&self, options: &DualPi2Options) -> u64 {
        (self.base.saturating_mul(u64::from(options.coupling))).min(CERTAIN)
    }

    /// Returns whether an update is due at `now_ns`.
    #[must_use]
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.update_due_ns
    }

    /// Makes the updates that are due at `now_ns`. `oldest_ns` is the arrival of the oldest packet
    /// in both queues; `None`: both are empty. Call it before every change of the queues: the
    /// result is then that of a timer.
    #[inline]
    pub fn advance(&mut self, options: &DualPi2Options, now_ns: u64, oldest_ns: Option<u64>) {
        if self.is_due(now_ns) {
            self.update_until(options, now_ns, oldest_ns);
        }
    }

    #[cold]
    fn update_until(&mut self, options: &DualPi2Options, now_ns: u64, oldest_ns: Option<u64>) {
        let interval_ns = options.update_ns.max(1);
        let due = (now_ns - self.update_due_ns) / interval_ns + 1;
        if oldest_ns.is_none() && self.base == 0 && self.delay_before_ns == 0 {
            // Updates change nothing.
            self.update_due_ns = self.update_due_ns.saturating_add(due.saturating_mul(interval_ns));
            return;
        }
        // Skips the first of the due updates, if there are more than are made.
        self.update_due_ns += due.saturating_sub(MOST_UPDATES).saturating_mul(interval_ns);
        for _ in 0..due.min(MOST_UPDATES) {
            let at_ns = self.update_due_ns;
            let delay_ns = oldest_ns.map_or(0, |oldest_ns| at_ns.saturating_sub(oldest_ns));
            self.update(options, delay_ns);
            self.update_due_ns = at_ns.saturating_add(interval_ns);
        }
    }

    /// Updates p' from the delay of the longer queue (`dualpi2_update`).
    fn update(&mut self, options: &DualPi2Options, delay_ns: u64) {
        let gains = Gains {
            target_ns: options.target_ns,
            alpha_milli: options.alpha_milli,
            beta_milli: options.beta_milli,
        };
        let step = gains.step(delay_ns, self.delay_before_ns, 0);
        self.base = self.base.saturating_add_signed(step).min(CERTAIN);
        self.delay_before_ns = delay_ns;
    }

    /// Decides on the packet at the head of the C queue.
    #[inline]
    pub fn decide_classic(&mut self, options: &DualPi2Options, can_mark: bool) -> Action {
        let probability = self.classic();
        if !self.recurs(CLASSIC, probability) {
            return Action::Deliver;
        }
        let coupling = u64::from(options.coupling);
        let is_overloaded = probability >= CERTAIN / (coupling * coupling).max(1);
        if can_mark && !is_overloaded { Action::Mark } else { Action::Drop }
    }

    /// Decides on the packet at the head of the L queue.
    #[inline]
    pub fn decide_low_latency(&mut self, options: &DualPi2Options, head: LowLatencyHead) -> Action {
        let coupled = if head.is_short { 0 } else { self.coupled(options) };
        let marks = if coupled < CERTAIN {
            let native = native(options, head);
            self.recurs(LOW_LATENCY, native.max(coupled))
        } else {
            if self.recurs(OVERLOAD, self.classic()) {
                return Action::Drop;
            }
            self.recurs(LOW_LATENCY, coupled)
        };
        if marks { Action::Mark } else { Action::Deliver }
    }

    /// Adds a probability to a sum; returns whether it has reached another whole (`recur`).
    #[inline]
    fn recurs(&mut self, sum: usize, probability: u64) -> bool {
        self.sums[sum] += probability;
        let is_whole = self.sums[sum] >= CERTAIN;
        if is_whole {
            self.sums[sum] -= CERTAIN;
        }
        is_whole
    }
}

/// Returns p'_L: the probability of a mark by the delay of the L queue alone, of [`CERTAIN`].
#[inline]
fn native(options: &DualPi2Options, head: LowLatencyHead) -> u64 {
    if head.sojourn_ns < options.ramp_start_ns || head.packets <= options.unmarked_packets {
        return 0;
    }
    let above_ns = head.sojourn_ns - options.ramp_start_ns;
    if above_ns >= options.ramp_ns {
        return CERTAIN;
    }
    let part = u128::from(above_ns) * u128::from(CERTAIN) / u128::from(options.ramp_ns);
    u64::try_from(part).unwrap_or(CERTAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const HEAD: LowLatencyHead = LowLatencyHead { sojourn_ns: 0, packets: 9, is_short: false };

    fn options() -> DualPi2Options {
        DualPi2Options::default()
    }

    fn with_base(base: u64) -> DualPi2 {
        DualPi2 { base, ..DualPi2::default() }
    }

    #[test]
    fn the_defaults_are_those_of_the_appendix() {
        let (update_ms, rtt_ms) = (15, 100);
        // α = 0.1 · Tupdate / RTT_max² and β = 0.3 / RTT_max.
        assert_eq!(u64::from(options().alpha_milli), 100 * update_ms * 1_000 / (rtt_ms * rtt_ms));
        assert_eq!(u64::from(options().beta_milli), 300 * 1_000 / rtt_ms);
        assert_eq!(DualPi2Options::for_rtt(15 * MS, DualPi2Options::RTT_NS), options());
        let short = DualPi2Options::for_rtt(15 * MS, 12 * MS);
        assert_eq!((short.update_ns, short.alpha_milli, short.beta_milli), (4 * MS, 2_777, 25_000));
    }

    /// By hand: 0.15 · 0.010 + 3 · 0.025 = 0.0765; then 0.15 · (−0.005) + 3 · (−0.015) = −0.04575.
    #[test]
    fn steps_follow_the_deviation_and_the_change() {
        let mut dual = DualPi2::default();
        dual.update(&options(), 25 * MS);
        assert!(dual.base().abs_diff(CERTAIN * 765 / 10_000) <= 1);
        dual.update(&options(), 10 * MS);
        assert!(dual.base().abs_diff(CERTAIN * 3_075 / 100_000) <= 2);
        dual.update(&options(), 0);
        assert_eq!(dual.base(), 0, "0.03075 − 0.00225 − 0.03 is below 0");
    }

    #[test]
    fn the_probabilities_are_coupled() {
        for parts in [2, 3, 7, 10, 100] {
            let dual = with_base(CERTAIN / parts);
            assert!(dual.classic().abs_diff(CERTAIN / (parts * parts)) <= 1);
            assert_eq!(dual.coupled(&options()), (CERTAIN / parts * 2).min(CERTAIN));
        }
        assert_eq!(with_base(CERTAIN).classic(), CERTAIN);
    }

    #[test]
    fn actions_have_their_probability_exactly() {
        let mut dual = with_base(CERTAIN / 10);
        let count = |actions: [Action; 1_000], of| actions.iter().filter(|at| **at == of).count();
        let classic = [(); 1_000].map(|()| dual.decide_classic(&options(), false));
        assert_eq!(count(classic, Action::Drop), 9, "1/100, rounded down");
        let capable = [(); 1_000].map(|()| dual.decide_classic(&options(), true));
        assert_eq!(count(capable, Action::Mark), 10);
        let low = [(); 1_000].map(|()| dual.decide_low_latency(&options(), HEAD));
        assert_eq!(count(low, Action::Mark), 199, "2/10, rounded down");
    }

    /// The ramp from 800 µs to 1.2 ms; one packet is never marked by it.
    #[test]
    fn the_ramp_marks_by_the_delay_of_the_low_latency_queue() {
        let at = |sojourn_us: u64, packets| {
            let head = LowLatencyHead { sojourn_ns: sojourn_us * 1_000, packets, ..HEAD };
            native(&options(), head)
        };
        assert_eq!([at(800, 9), at(1_000, 9), at(1_200, 9)], [0, CERTAIN / 2, CERTAIN]);
        assert_eq!([at(9_000, 1), at(9_000, 2)], [0, CERTAIN]);
        let step = DualPi2Options { ramp_start_ns: MS, ramp_ns: 0, ..options() };
        // `laqm` in figure 5 of the RFC tests for at least maxTh first, which is minTh here.
        let at = |sojourn_ns| native(&step, LowLatencyHead { sojourn_ns, ..HEAD });
        assert_eq!([at(MS - 1), at(MS)], [0, CERTAIN]);
    }

    /// In a short queue, the ramp acts and the coupled probability does not.
    #[test]
    fn short_queues_are_marked_by_their_own_delay_only() {
        let mut dual = with_base(CERTAIN);
        let short = LowLatencyHead { is_short: true, ..HEAD };
        let decided = [(); 100].map(|()| dual.decide_low_latency(&options(), short));
        assert_eq!(decided, [Action::Deliver; 100]);
        let late = LowLatencyHead { sojourn_ns: 2 * MS, ..short };
        assert_eq!(dual.decide_low_latency(&options(), late), Action::Mark);
    }

    /// At p' = 1/k, both queues are overloaded: they drop with p_C = 1/k², whatever the ECN field,
    /// and the rest of the L queue is marked.
    #[test]
    fn overload_drops_from_both_queues() {
        let mut dual = with_base(CERTAIN / 2);
        let classic = [(); 100].map(|()| dual.decide_classic(&options(), true));
        assert_eq!(classic.iter().filter(|at| **at == Action::Drop).count(), 25);
        assert!(!classic.contains(&Action::Mark));
        let low = [(); 100].map(|()| dual.decide_low_latency(&options(), HEAD));
        assert_eq!(low.iter().filter(|at| **at == Action::Drop).count(), 25);
        assert!(!low.contains(&Action::Deliver));
    }

    #[test]
    fn updates_that_were_due_are_made_at_the_next_event() {
        let mut often = DualPi2::default();
        let mut once = often;
        for now_ms in 1..=300 {
            often.advance(&options(), now_ms * MS, Some(10 * MS));
        }
        once.advance(&options(), 300 * MS, Some(10 * MS));
        assert_eq!(often, once);
        assert_eq!(once.base(), CERTAIN, "the packet has waited 290 ms");
        once.advance(&options(), u64::MAX, None);
        assert_eq!(once.base(), 0);
    }
}
