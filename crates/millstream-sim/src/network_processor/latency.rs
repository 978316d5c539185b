//! Latency models of a memory.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The latency of a memory command in cycles, drawn from a table.
#[derive(Clone, Debug)]
pub struct Latency {
    entries: Vec<(u64, u32)>,
    total: u32,
    random: ChaCha8Rng,
}

impl Latency {
    /// Creates a constant latency of `cycles`.
    #[must_use]
    pub fn fixed(cycles: u64) -> Self {
        Self::from_table(&[(cycles, 1)], 0)
    }

    /// Deprecated alias of [`from_table`](Self::from_table).
    #[deprecated(note = "renamed to `from_table`")]
    #[must_use]
    pub fn drawn(entries: &[(u64, u32)], seed: u64) -> Self {
        Self::from_table(entries, seed)
    }

    /// Creates a latency drawn from `entries`, each a latency in cycles and its weight.
    ///
    /// `seed` seeds the random generator. The weights may have any sum (HILQ paper, Table 2: 99.4
    /// %).
    #[must_use]
    pub fn from_table(entries: &[(u64, u32)], seed: u64) -> Self {
        let total = entries.iter().map(|entry| entry.1).sum();
        Self { entries: entries.to_vec(), total, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Returns the next command's latency in cycles.
    pub(super) fn next(&mut self) -> u64 {
        let mut left = (u64::from(self.random.next_u32()) * u64::from(self.total)) >> 32;
        for (cycles, weight) in &self.entries {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return *cycles,
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::constants::SRAM_LATENCY;
    use super::*;

    #[test]
    fn frequencies_match_table_2() {
        let mut latency = Latency::from_table(&SRAM_LATENCY, 1);
        let draws = 1_000_000u32;
        let mut counts = [0u32; SRAM_LATENCY.len()];
        for _ in 0..draws {
            let drawn = latency.next();
            counts[SRAM_LATENCY.iter().position(|entry| entry.0 == drawn).unwrap()] += 1;
        }
        for ((cycles, weight), count) in SRAM_LATENCY.iter().zip(counts) {
            let (expected, share) =
                (f64::from(*weight) / 994.0, f64::from(count) / f64::from(draws));
            // Five standard deviations of the share in a million draws.
            let tolerance = 5.0 * (expected * (1.0 - expected) / f64::from(draws)).sqrt();
            assert!((share - expected).abs() < tolerance, "{cycles}: {share} for {expected}");
        }
    }

    #[test]
    fn draws_depend_only_on_the_seed() {
        let draws = |seed| {
            let mut latency = Latency::from_table(&SRAM_LATENCY, seed);
            (0..100).map(|_| latency.next()).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
