//! Random decisions in integers, the same in every run with the same seed.

/// Probability 1, in units of [`Random::is_drawn`]: a probability has 48 bits of fraction.
pub const CERTAIN: u64 = 1 << 48;

/// A generator of pseudo-random numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014). Not for cryptography.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns a generator; equal seeds give equal numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns true with `probability` of [`CERTAIN`].
    #[inline]
    pub fn is_drawn(&mut self, probability: u64) -> bool {
        self.next_bits() >> 16 < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of seed 1234567, as other implementations of SplitMix64 print them.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let first = [(); 3].map(|()| random.next_bits());
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_have_their_probability() {
        let mut random = Random::new(7);
        assert!(!(0..1_000).any(|_| random.is_drawn(0)));
        assert!((0..1_000).all(|_| random.is_drawn(CERTAIN)));
        let count = (0..100_000).filter(|_| random.is_drawn(CERTAIN / 10)).count();
        // The standard deviation is 95.
        assert!(count.abs_diff(10_000) < 400, "{count}");
    }
}
