//! RED: random early detection (Floyd and Jacobson, "Random early detection gateways for congestion
//! avoidance", IEEE/ACM Transactions on Networking 1(4), 1993), in integers.
//!
//! An arriving packet is dropped, or marked, with a probability that grows with the average length
//! of the queue:
//!
//! ```text
//! 1      |                        ┌──────
//!        |                    ╱   ·          gentle RED: from max_p to 1 between max and 2 max
//! max_p  |                ╱       ·          (Floyd, "Recommendation on using the gentle variant
//!        |          ╱             ·          of RED", 2000); otherwise 1 from max
//! 0      └────────┴───────┴───────┴──────
//!                min     max    2 max     average bytes
//! ```
//!
//! The probability of the paper's p_a grows with the packets since the last drop, so that drops are
//! spread evenly.

use super::{Action, Backlog, Candidate, Manager, Random};

/// The bits of fraction of an average.
const AVERAGE_BITS: u32 = 16;
/// The longest queue that is averaged, bytes.
const LONGEST_BYTES: u64 = 1 << 40;
/// Probability 1: p_b has 32 bits of fraction.
const ONE: u64 = 1 << 32;

/// The parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedOptions {
    /// min_th: the average length, bytes, up to which no packet is dropped.
    pub min_bytes: u32,
    /// max_th, bytes: above `min_bytes`.
    pub max_bytes: u32,
    /// max_p: the probability p_b at `max_bytes`, percent; at most 100.
    pub max_percent: u32,
    /// The weight w_q of a new length in the average is 2^−this; at most 16.
    pub weight_log2: u32,
    /// s: about the transmission time of a packet, ns, by which the average of an empty queue
    /// decays; at least 1.
    pub packet_ns: u64,
    /// Whether the probability grows from `max_percent` to 1 up to twice `max_bytes`.
    pub gentle: bool,
    /// Whether packets of ECN-capable senders are marked instead of dropped, where the probability
    /// is below 1 (RFC 3168, section 7).
    pub ecn: bool,
}

impl Default for RedOptions {
    /// 30 kB, 90 kB, 10 %, 1/512, 120 µs (1,500 bytes at 100 Mbit/s), gentle, ECN. Floyd's
    /// recommendations of 1997: max_th is three times min_th, max_p 0.1, w_q 0.002.
    fn default() -> Self {
        Self {
            min_bytes: 30_000,
            max_bytes: 90_000,
            max_percent: 10,
            weight_log2: 9,
            packet_ns: 120_000,
            gentle: true,
            ecn: true,
        }
    }
}

/// The state of RED for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Red {
    /// avg: the average length, in 2^−16 bytes.
    average: u64,
    /// count: packets since the last drop while the average is at least the minimum; −1 below.
    count: i32,
    /// q_time: when the queue became empty, ns; later by the time for which the average decayed.
    empty_since_ns: u64,
}

impl Default for Red {
    fn default() -> Self {
        Self { average: 0, count: -1, empty_since_ns: 0 }
    }
}

impl Manager for Red {
    type Options = RedOptions;
    type Round = ();

    #[inline]
    fn arrive(
        &mut self,
        options: &RedOptions,
        now_ns: u64,
        backlog: Backlog,
        can_mark: bool,
        random: &mut Random,
    ) -> Action {
        self.measure(options, now_ns, backlog);
        let average_bytes = self.average >> AVERAGE_BITS;
        if average_bytes < u64::from(options.min_bytes) {
            self.count = -1;
            return Action::Deliver;
        }
        let Some(probability) = probability(options, average_bytes) else {
            self.count = 0;
            return Action::Drop;
        };
        self.count = self.count.saturating_add(1);
        // p_a = p_b / (1 − count · p_b), compared without a division.
        let counted = u64::from(self.count.unsigned_abs()).saturating_mul(probability);
        let drawn = random.next_bits() >> 32;
        if drawn * ONE.saturating_sub(counted) >= probability * (ONE - 1) {
            return Action::Deliver;
        }
        self.count = 0;
        if options.ecn && can_mark { Action::Mark } else { Action::Drop }
    }

    #[inline]
    fn begin(&self) {}

    #[inline]
    fn next(
        &mut self,
        (): &mut (),
        _: &RedOptions,
        now_ns: u64,
        head: Option<&Candidate>,
        _: &mut Random,
    ) -> Action {
        if head.is_some_and(|head| head.is_last) {
            self.empty_since_ns = now_ns;
        }
        Action::Deliver
    }

    fn overflowed(&mut self, _: &RedOptions, now_ns: u64, is_empty: bool) {
        if is_empty {
            self.empty_since_ns = now_ns;
        }
    }
}

impl Red {
    /// Updates the average at an arrival.
    #[inline]
    fn measure(&mut self, options: &RedOptions, now_ns: u64, backlog: Backlog) {
        let weight = options.weight_log2.min(16);
        if backlog.packets == 0 {
            let packet_ns = options.packet_ns.max(1);
            let packets = (now_ns - self.empty_since_ns) / packet_ns;
            self.decay(weight, packets);
            // If this packet is dropped, the next arrival finds the queue empty too. The time
            // counts once, and its rest counts then: otherwise the average would never decay while
            // arrivals are closer than `packet_ns`, and all of them could be dropped.
            self.empty_since_ns += packets * packet_ns;
            return;
        }
        let bytes = backlog.bytes.min(LONGEST_BYTES) << AVERAGE_BITS;
        // The average moves by a fraction of the difference, rounded towards it.
        if bytes >= self.average {
            self.average += (bytes - self.average) >> weight;
        } else {
            self.average -= (self.average - bytes) >> weight;
        }
    }

    /// Multiplies the average by `(1 − w_q)^packets`.
    fn decay(&mut self, weight: u32, packets: u64) {
        if self.average == 0 {
            return;
        }
        let mut factor = ONE - (ONE >> weight);
        let (mut power, mut left) = (ONE, packets);
        while left > 0 && power > 0 {
            if left & 1 == 1 {
                power = product(power, factor);
            }
            factor = product(factor, factor);
            left >>= 1;
        }
        self.average = product(self.average, power);
    }
}

/// Returns the product of a number and a fraction of [`ONE`], rounded down.
fn product(number: u64, fraction: u64) -> u64 {
    let product = u128::from(number) * u128::from(fraction) / u128::from(ONE);
    // At most `number`.
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// Returns p_b at an average of at least `min_bytes`, of [`ONE`]; `None`: every packet is dropped.
#[inline]
fn probability(options: &RedOptions, average_bytes: u64) -> Option<u64> {
    let (min, max) = (u64::from(options.min_bytes), u64::from(options.max_bytes));
    let at_max = ONE * u64::from(options.max_percent.min(100)) / 100;
    if average_bytes < max {
        // At most 2^32 · 2^32 / 100; `min` is below `max` here.
        return Some(at_max * (average_bytes - min) / (max - min));
    }
    if !options.gentle || average_bytes >= 2 * max {
        return None;
    }
    Some(at_max + (ONE - at_max) * (average_bytes - max) / max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: RedOptions = RedOptions {
        min_bytes: 10_000,
        max_bytes: 30_000,
        max_percent: 10,
        weight_log2: 9,
        packet_ns: 1_000,
        gentle: true,
        ecn: false,
    };

    fn at(average_bytes: u64) -> Red {
        Red { average: average_bytes << AVERAGE_BITS, ..Red::default() }
    }

    /// Returns the number of each action on `packets` arrivals while the average stays.
    fn actions(options: &RedOptions, average_bytes: u64, packets: u32) -> [u32; 3] {
        let (mut red, mut random) = (at(average_bytes), Random::new(9));
        let mut counts = [0; 3];
        for _ in 0..packets {
            let backlog = Backlog { packets: 1, bytes: average_bytes };
            counts[red.arrive(options, 0, backlog, true, &mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_probability_grows_linearly_and_gently() {
        let of = |bytes| probability(&OPTIONS, bytes).map(|of| of * 1_000 / ONE);
        // A tenth of the way from min to max is a hundredth; rounded down.
        assert_eq!(
            [10_000, 12_000, 20_000, 30_000, 45_000, 59_999, 60_000].map(of),
            [Some(0), Some(9), Some(49), Some(99), Some(549), Some(999), None]
        );
        let steep = RedOptions { gentle: false, ..OPTIONS };
        assert_eq!(probability(&steep, 30_000), None);
    }

    /// With p_b constant, the gap between drops is uniform (section 7 of the paper): on 1 … 19 for
    /// p_b = 1/20, as `count` is 1 at the first packet after a drop. Its mean is 10.
    #[test]
    fn gaps_between_drops_are_uniform() {
        let [delivered, _, dropped] = actions(&OPTIONS, 20_000, 100_000);
        assert!((9_800..10_200).contains(&dropped), "{delivered} {dropped}");
        let (mut red, mut random) = (at(20_000), Random::new(2));
        let mut gap = 0;
        for _ in 0..100_000 {
            gap += 1;
            let backlog = Backlog { packets: 1, bytes: 20_000 };
            if red.arrive(&OPTIONS, 0, backlog, true, &mut random) == Action::Drop {
                assert!(gap <= 20, "{gap}");
                gap = 0;
            }
        }
    }

    #[test]
    fn packets_are_marked_where_the_probability_is_below_one() {
        let options = RedOptions { ecn: true, ..OPTIONS };
        assert_eq!(actions(&options, 9_999, 1_000), [1_000, 0, 0]);
        let [_, marked, dropped] = actions(&options, 50_000, 1_000);
        assert!(marked > 700 && dropped == 0);
        assert_eq!(actions(&options, 60_000, 1_000), [0, 0, 1_000]);
    }

    /// Section 4 of the paper: from an empty average, 512 arrivals at a length of 10,000 bytes
    /// reach 1 − (1 − 1/512)^512 = 63.2 % of it.
    #[test]
    fn the_average_follows_the_length_and_decays_while_idle() {
        let mut red = Red::default();
        for _ in 0..512 {
            red.measure(&OPTIONS, 0, Backlog { packets: 1, bytes: 10_000 });
        }
        assert_eq!(red.average >> AVERAGE_BITS, 6_324);
        // 512 packet times without a packet: another factor of (1 − 1/512)^512 = 0.3675.
        let mut idle = red;
        idle.measure(&OPTIONS, 512_000, Backlog::default());
        assert_eq!(idle.average >> AVERAGE_BITS, 2_324);
        // Decay in two steps equals decay in one, to the rounding.
        let mut twice = red;
        twice.measure(&OPTIONS, 256_000, Backlog::default());
        twice.measure(&OPTIONS, 512_000, Backlog::default());
        assert!(twice.average.abs_diff(idle.average) <= 1 << 8);
        red.measure(&OPTIONS, u64::MAX, Backlog::default());
        assert_eq!(red.average, 0);
    }

    /// The average of an empty queue decays by the time that passes, also while every arrival is
    /// dropped and they are 0.3 packet times apart. By hand: 61,000 · 511/512 is 60,880 at the
    /// fifth arrival and 60,761 at the eighth. After eight packet times it is 60,053; after nine
    /// 59,936, where not all are dropped.
    #[test]
    fn the_average_decays_while_all_arrivals_are_dropped() {
        let (mut red, mut random) = (at(61_000), Random::new(3));
        let mut arrive = |number: u64| {
            let action = red.arrive(&OPTIONS, number * 300, Backlog::default(), true, &mut random);
            (action, red.average >> AVERAGE_BITS)
        };
        assert!((0..4).all(|number| arrive(number) == (Action::Drop, 61_000)));
        assert!((4..7).all(|number| arrive(number) == (Action::Drop, 60_880)));
        assert_eq!(arrive(7), (Action::Drop, 60_761));
        assert_eq!(arrive(29), (Action::Drop, 60_053));
        assert_eq!(arrive(30).1, 59_936);
    }
}
