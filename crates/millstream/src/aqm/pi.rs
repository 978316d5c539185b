//! The controller of PIE and DualPI2 in integers: proportional and integral (PI).

/// The most updates made at once, which bounds the time of an event: 7.7 s at 15 ms.
pub(super) const MOST_UPDATES: u64 = 512;
/// The longest delay that is measured, ns: 18 minutes.
const LONGEST_NS: u64 = 1 << 40;
/// The largest sum that counts, in 10^−12: 18,014. A larger one changes a probability as much, also
/// if it is divided by 2,048: to 0 or 1.
const LARGEST: i128 = 1 << 54;
/// 10^12 is 2^12 times this, and [`CERTAIN`](super::CERTAIN) is 2^48.
const FIVES: u64 = 244_140_625;

/// The parameters of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gains {
    /// The delay that the controller aims at, ns.
    pub target_ns: u64,
    /// α: the weight of the delay's deviation from the target, thousandths of 1/s.
    pub alpha_milli: u32,
    /// β: the weight of the delay's change, thousandths of 1/s.
    pub beta_milli: u32,
}

impl Gains {
    /// Returns `(α · (delay − target) + β · (delay − before)) / 2^shift`, of
    /// [`CERTAIN`](super::CERTAIN), rounded towards 0. `shift` is at most 11.
    pub(super) fn step(self, delay_ns: u64, before_ns: u64, shift: u32) -> i64 {
        let [delay, before, target] =
            [delay_ns, before_ns, self.target_ns].map(|ns| i128::from(ns.min(LONGEST_NS)));
        let sum = i128::from(self.alpha_milli) * (delay - target)
            + i128::from(self.beta_milli) * (delay - before);
        // A division of 64 bits by a constant is a multiplication; of 128 bits, a call.
        #[allow(clippy::cast_possible_truncation)]
        let size = sum.unsigned_abs().min(LARGEST.unsigned_abs()) as u64;
        // The remainder is below 2^28, the whole below 2^63.
        let step = ((size / FIVES) << 36) + ((size % FIVES) << 36) / FIVES;
        let step = (step >> shift).cast_signed();
        if sum < 0 { -step } else { step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::CERTAIN;
    use proptest::prelude::*;

    proptest! {
        /// The step equals the quotient in 128 bits, or both change a probability to 0 or 1.
        #[test]
        fn a_step_is_the_quotient_rounded_towards_zero(
            (alpha_milli, beta_milli) in (any::<u32>(), 0..100_000u32),
            times in [0..100_000_000u64, 0..100_000_000, 0..LONGEST_NS],
            shift in 0..=11u32,
        ) {
            for alpha_milli in [alpha_milli, alpha_milli % 10_000] {
                let [target_ns, before_ns, delay_ns] = times;
                let gains = Gains { target_ns, alpha_milli, beta_milli };
                let step = i128::from(gains.step(delay_ns, before_ns, shift));
                let difference = |from: u64| i128::from(delay_ns) - i128::from(from);
                let sum = i128::from(alpha_milli) * difference(target_ns)
                    + i128::from(beta_milli) * difference(before_ns);
                let exact = sum * i128::from(CERTAIN) / (1_000_000_000_000 << shift);
                if sum.abs() <= LARGEST {
                    prop_assert_eq!(step, exact);
                } else {
                    prop_assert_eq!(step.signum(), exact.signum());
                    prop_assert!(step.abs() > i128::from(CERTAIN));
                }
            }
        }
    }
}
