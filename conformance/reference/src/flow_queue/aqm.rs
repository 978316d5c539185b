//! Queue management of one queue, from RFC 8033 (PIE), the paper of Floyd and Jacobson (RED) and
//! the paper of CAKE (COBALT). CoDel is part of the removal in the parent module.
//!
//! Probabilities and averages are rationals. The engine states a precision for each, to which they
//! are rounded here too: 2^−48 for PIE, COBALT and DualPI2, 2^−32 for p_b and 2^−16 bytes for the
//! average of RED.

use num_rational::BigRational;

/// Returns `of / parts`.
pub(super) fn ratio(of: u128, parts: u128) -> BigRational {
    BigRational::new(of.into(), parts.into())
}

/// Returns a signed difference.
pub(super) fn difference(of: u64, from: u64) -> BigRational {
    ratio(of.into(), 1) - ratio(from.into(), 1)
}

/// Rounds to `bits` of fraction, towards 0.
pub(super) fn rounded(of: &BigRational, bits: u32) -> BigRational {
    let unit = ratio(1 << bits, 1);
    (of * &unit).trunc() / unit
}

/// Keeps a probability between 0 and 1.
pub(super) fn bounded(of: BigRational) -> BigRational {
    of.max(ratio(0, 1)).min(ratio(1, 1))
}

/// SplitMix64, from its paper (figure 17): add the golden gamma, then mix.
#[derive(Clone, Debug)]
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let rounds = [(30, 0xbf58_476d_1ce4_e5b9u64), (27, 0x94d0_49bb_1331_11eb)];
        let mixed = rounds
            .iter()
            .fold(self.0, |of, (shift, factor)| (of ^ of >> shift).wrapping_mul(*factor));
        mixed ^ mixed >> 31
    }

    /// A number of at least 0 and below 1, with 48 bits.
    fn below_one(&mut self) -> BigRational {
        ratio(u128::from(self.next() >> 16), 1 << 48)
    }

    /// A number from 0 to 1, with 32 bits.
    fn at_most_one(&mut self) -> BigRational {
        ratio(u128::from(self.next() >> 32), (1 << 32) - 1)
    }
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Pass,
    Mark,
    Drop,
}

/// The parameters of PIE, with the names of RFC 8033; times in ns.
#[derive(Clone, Copy, Debug)]
pub struct PieSpec {
    /// QDELAY_REF.
    pub qdelay_ref: u64,
    /// T_UPDATE.
    pub t_update: u64,
    /// alpha, thousandths of 1/s.
    pub alpha_milli: u32,
    /// beta, thousandths of 1/s.
    pub beta_milli: u32,
    /// MAX_BURST.
    pub max_burst: u64,
    /// Whether packets are marked.
    pub marks: bool,
    /// mark_ecnth, percent.
    pub mark_ecnth: u32,
    /// Whether drops are derandomized.
    pub derandomize: bool,
}

/// PIE.
#[derive(Clone, Debug)]
pub(super) struct Pie {
    drop_prob: BigRational,
    accu_prob: BigRational,
    qdelay: u64,
    qdelay_old: u64,
    burst_allowance: u64,
    next_update: u64,
}

impl Pie {
    pub(super) fn new() -> Self {
        Self {
            drop_prob: ratio(0, 1),
            accu_prob: ratio(0, 1),
            qdelay: 0,
            qdelay_old: 0,
            burst_allowance: 0,
            next_update: 0,
        }
    }

    /// Fires the timer as often as it is due.
    fn run_timer(&mut self, of: &PieSpec, now: u64) {
        while self.next_update <= now {
            self.next_update += of.t_update;
            self.calculate_drop_prob(of);
        }
    }

    fn calculate_drop_prob(&mut self, of: &PieSpec) {
        let per_ns = |milli: u32| ratio(milli.into(), 1_000_000_000_000);
        let mut p = per_ns(of.alpha_milli) * difference(self.qdelay, of.qdelay_ref)
            + per_ns(of.beta_milli) * difference(self.qdelay, self.qdelay_old);
        let table =
            [(1_000_000, 2_048), (100_000, 512), (10_000, 128), (1_000, 32), (100, 8), (10, 2)];
        // "Below one part in 1,000,000" is below ⌊2^48 / 1,000,000⌋ / 2^48.
        let part = |parts: u128| rounded(&ratio(1, parts), 48);
        if let Some((_, scale)) = table.iter().find(|(parts, _)| self.drop_prob < part(*parts)) {
            p /= ratio(*scale, 1);
        }
        p = rounded(&p, 48);
        if self.drop_prob >= part(10) {
            p = p.min(rounded(&ratio(2, 100), 48));
        }
        self.drop_prob += p;
        if self.qdelay == 0 && self.qdelay_old == 0 {
            self.drop_prob = rounded(&(&self.drop_prob * ratio(98, 100)), 48);
        }
        self.drop_prob = bounded(self.drop_prob.clone());
        self.qdelay_old = self.qdelay;
        self.burst_allowance = self.burst_allowance.saturating_sub(of.t_update);
    }

    pub(super) fn enque(
        &mut self,
        of: &PieSpec,
        now: u64,
        queue_bytes: u64,
        capable: bool,
        random: &mut SplitMix,
    ) -> Signal {
        self.run_timer(of, now);
        let zero = ratio(0, 1);
        let half = of.qdelay_ref / 2;
        if self.drop_prob == zero && self.qdelay < half && self.qdelay_old < half {
            self.burst_allowance = of.max_burst;
        }
        if self.burst_allowance > 0 || !self.drop_early(of, queue_bytes, random) {
            return Signal::Pass;
        }
        let below = self.drop_prob < ratio(of.mark_ecnth.into(), 100);
        if of.marks && capable && below { Signal::Mark } else { Signal::Drop }
    }

    fn drop_early(&mut self, of: &PieSpec, queue_bytes: u64, random: &mut SplitMix) -> bool {
        let fifth = rounded(&ratio(1, 5), 48);
        if self.qdelay_old < of.qdelay_ref / 2 && self.drop_prob < fifth {
            return false;
        }
        if queue_bytes <= 2 * 1_024 {
            return false;
        }
        if !of.derandomize {
            return random.below_one() < self.drop_prob;
        }
        if self.drop_prob == ratio(0, 1) {
            self.accu_prob = ratio(0, 1);
        }
        self.accu_prob += &self.drop_prob;
        let at = |parts: u128| rounded(&ratio(parts, 100), 48);
        let drops = if self.accu_prob < at(85) {
            false
        } else if self.accu_prob >= at(850) {
            true
        } else {
            random.below_one() < self.drop_prob
        };
        if drops {
            self.accu_prob = ratio(0, 1);
        }
        drops
    }

    /// Notes that a packet of this delay left.
    pub(super) fn deque(&mut self, of: &PieSpec, now: u64, delay: u64, is_empty: bool) {
        self.run_timer(of, now);
        self.qdelay = if is_empty { 0 } else { delay };
    }

    /// Notes that packets were dropped at a limit.
    pub(super) fn cut(&mut self, of: &PieSpec, now: u64, is_empty: bool) {
        self.run_timer(of, now);
        self.accu_prob = ratio(0, 1);
        if is_empty {
            self.qdelay = 0;
        }
    }
}

/// The parameters of RED, with the names of the paper.
#[derive(Clone, Copy, Debug)]
pub struct RedSpec {
    /// min_th, bytes.
    pub min_th: u32,
    /// max_th, bytes.
    pub max_th: u32,
    /// max_p, percent.
    pub max_p: u32,
    /// w_q is 2 to the power of minus this.
    pub w_q_log2: u32,
    /// s, ns.
    pub s: u64,
    /// Whether RED is gentle.
    pub gentle: bool,
    /// Whether packets are marked.
    pub marks: bool,
}

/// RED.
#[derive(Clone, Debug)]
pub(super) struct Red {
    avg: BigRational,
    count: i64,
    q_time: u64,
}

impl Red {
    pub(super) fn new() -> Self {
        Self { avg: ratio(0, 1), count: -1, q_time: 0 }
    }

    pub(super) fn arrival(
        &mut self,
        of: &RedSpec,
        now: u64,
        queue: &[u32],
        capable: bool,
        random: &mut SplitMix,
    ) -> Signal {
        let one = ratio(1, 1);
        let w_q = ratio(1, 1 << of.w_q_log2);
        if queue.is_empty() {
            let m = (now - self.q_time) / of.s;
            self.q_time += m * of.s;
            self.avg = rounded(&(&self.avg * power(&(&one - &w_q), m)), 16);
        } else {
            let q = ratio(queue.iter().map(|bytes| u128::from(*bytes)).sum(), 1);
            // Rounding is towards the old average: away from 0 if it falls.
            self.avg += rounded(&(w_q * (q - &self.avg)), 16);
        }
        let [min, max] = [of.min_th, of.max_th].map(|bytes| ratio(bytes.into(), 1));
        let max_p = rounded(&ratio(of.max_p.into(), 100), 32);
        let avg = self.avg.trunc();
        if avg < min {
            self.count = -1;
            return Signal::Pass;
        }
        let is_certain = avg >= max && !of.gentle || avg >= ratio(2, 1) * &max;
        if is_certain {
            self.count = 0;
            return Signal::Drop;
        }
        let p_b = if avg < max {
            rounded(&(&max_p * (&avg - &min) / (&max - &min)), 32)
        } else {
            &max_p + rounded(&((&one - &max_p) * (&avg - &max) / &max), 32)
        };
        self.count += 1;
        let rest = &one - ratio(self.count.unsigned_abs().into(), 1) * &p_b;
        let drawn = random.at_most_one();
        // p_a = p_b / rest; a rest of 0 or less makes it certain.
        let hits = if rest > ratio(0, 1) { drawn * rest < p_b } else { p_b > ratio(0, 1) };
        if !hits {
            return Signal::Pass;
        }
        self.count = 0;
        if of.marks && capable { Signal::Mark } else { Signal::Drop }
    }

    /// Notes that the queue became empty.
    pub(super) fn emptied(&mut self, now: u64) {
        self.q_time = now;
    }
}

/// Returns a power by repeated squares, each product rounded to 32 bits of fraction.
fn power(of: &BigRational, exponent: u64) -> BigRational {
    let (mut result, mut square) = (ratio(1, 1), of.clone());
    for bit in 0..64 - exponent.leading_zeros() {
        if exponent >> bit & 1 == 1 {
            result = rounded(&(result * &square), 32);
        }
        square = rounded(&(&square * &square), 32);
    }
    result
}

/// COBALT: CoDel's part in signed times, BLUE's in 1/4096.
#[derive(Clone, Debug, Default)]
pub(super) struct Cobalt {
    next: u64,
    count: u64,
    above: bool,
    blue: u32,
    blue_time: u64,
    /// Whether the queue is empty and was visited since.
    idle: bool,
}

/// 1/256 in 1/4096.
const BLUE_UP: u32 = 16;

impl Cobalt {
    /// Makes up for the visits of an empty queue until a packet arrives.
    pub(super) fn arrival(&mut self, (target, interval, _): (u64, u64, bool), now: u64) {
        if !std::mem::take(&mut self.idle) {
            return;
        }
        while self.count > 0 && self.next <= now {
            self.count -= 1;
            self.next = self.later(self.next, interval);
        }
        // A visit decreases when more than a target has passed.
        while self.blue > 0 && now > self.blue_time + target {
            self.blue -= 1;
            self.blue_time += target + 1;
        }
    }

    /// The signal at a packet at the head; `rest` are the bytes behind it.
    pub(super) fn head(
        &mut self,
        (target, interval, marks): (u64, u64, bool),
        now: u64,
        (sojourn, rest, largest, is_last): (u64, u64, u64, bool),
        capable: bool,
        random: &mut SplitMix,
    ) -> Signal {
        let late = |of: &Self| of.count > 0 && of.next <= now;
        let due = late(self);
        let was_above = self.above;
        self.above = sojourn > target && rest > largest;
        if self.above && !was_above {
            self.next = self.later(now, interval);
        }
        if self.above && self.count == 0 {
            self.count = 1;
        }
        let mut signal = Signal::Pass;
        if self.above && due {
            signal = if marks && capable { Signal::Mark } else { Signal::Drop };
            self.count += 1;
            self.next = self.later(self.next, interval);
        }
        while !self.above && late(self) {
            self.count -= 1;
            self.next = self.later(self.next, interval);
        }
        if self.blue > 0 && random.below_one() < ratio(self.blue.into(), 4_096) {
            signal = Signal::Drop;
        }
        if self.count == 0 {
            self.next = now + interval;
        } else if signal != Signal::Drop {
            self.next = self.next.max(now);
        }
        if is_last && signal == Signal::Drop { Signal::Pass } else { signal }
    }

    pub(super) fn empty(&mut self, (target, interval, _): (u64, u64, bool), now: u64) {
        if self.blue > 0 && now > self.blue_time + target {
            self.blue -= 1;
            self.blue_time = now;
        }
        self.above = false;
        self.idle = true;
        if self.count > 0 && self.next <= now {
            self.count -= 1;
            self.next = self.later(self.next, interval);
        }
    }

    pub(super) fn full(&mut self, (target, ..): (u64, u64, bool), now: u64) {
        if now > self.blue_time + target {
            self.blue = (self.blue + BLUE_UP).min(4_096);
            self.blue_time = now;
        }
        self.above = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    fn later(&self, from: u64, interval: u64) -> u64 {
        super::control_law(from, interval, u32::try_from(self.count.max(1)).unwrap_or(u32::MAX))
    }
}
