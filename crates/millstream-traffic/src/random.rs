//! Randomness for sources: one independent, reproducible sequence a stream.
//!
//! Sequences are ChaCha8 keyed by the scenario's seed, with the stream's number as the ChaCha
//! stream, so that adding a stream to a file changes no other stream's traffic. Logarithms and
//! powers come from `libm`, whose results do not depend on the platform.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A stream's random numbers.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The sequence of `stream` under `seed`; other streams' sequences are independent of it.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// Uniform in the open interval (0, 1): the middles of 2^52 equal parts.
    #[allow(clippy::cast_precision_loss)]
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) * f64::EPSILON
    }

    /// A whole number below `limit` (not 0), all alike but for a bias below `limit`/2^64.
    #[allow(clippy::cast_possible_truncation)]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }

    /// Standard normal (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Lognormal with mean 1 and the given coefficient of variation.
    pub(crate) fn lognormal(&mut self, variation: f64) -> f64 {
        let variance = libm::log(1.0 + variation * variation);
        libm::exp(self.normal() * libm::sqrt(variance) - variance / 2.0)
    }
}

/// A Pareto law cut at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundedPareto {
    shape: f64,
    least: f64,
    most: f64,
    /// (least/most)^shape: the chance that the uncut law goes beyond the cut.
    beyond: f64,
}

/// The longest period, in multiples of the shortest: three decades keep the tail heavy and the
/// mean of a run near the law's.
const SPAN: f64 = 1000.0;

impl BoundedPareto {
    /// The law of the given shape (above 1) and mean, from its least value to [`SPAN`] times it.
    pub(crate) fn with_mean(shape: f64, mean: f64) -> Self {
        let least = mean / Self::between(shape, 1.0, SPAN).mean();
        Self::between(shape, least, least * SPAN)
    }

    /// The law of the given shape (above 0) from `least` (above 0) to `most` (above `least`).
    pub(crate) fn between(shape: f64, least: f64, most: f64) -> Self {
        Self { shape, least, most, beyond: libm::pow(least / most, shape) }
    }

    pub(crate) fn mean(&self) -> f64 {
        let (a, l, h) = (self.shape, self.least, self.most);
        if (a - 1.0).abs() < 1e-9 {
            // The limit of the formula below.
            return libm::log(h / l) / (1.0 / l - 1.0 / h);
        }
        libm::pow(l, a) / (1.0 - self.beyond)
            * (a / (a - 1.0))
            * (libm::pow(l, 1.0 - a) - libm::pow(h, 1.0 - a))
    }

    pub(crate) fn sample(&self, random: &mut Random) -> f64 {
        let u = random.uniform();
        self.least * libm::pow(1.0 - u * (1.0 - self.beyond), -1.0 / self.shape)
    }

    /// What is left of the period that is running at a random instant: a length-biased period,
    /// found by rejection, times a uniform share.
    pub(crate) fn residual(&self, random: &mut Random) -> f64 {
        loop {
            let period = self.sample(random);
            if random.uniform() * self.most < period {
                return period * random.uniform();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_have_the_moments_they_are_asked_for() {
        let mut random = Random::new(1, 0);
        let n = 200_000;
        let law = BoundedPareto::with_mean(1.4, 3.0);
        let mean = (0..n).map(|_| law.sample(&mut random)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.15, "{mean}");
        let samples: Vec<f64> = (0..n).map(|_| random.lognormal(0.5)).collect();
        let mean = samples.iter().sum::<f64>() / f64::from(n);
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.01 && (variance.sqrt() - 0.5).abs() < 0.02);
    }

    #[test]
    fn the_mean_of_a_law_of_shape_1_is_the_limit_of_its_neighbours() {
        let mean = |shape| BoundedPareto::between(shape, 64.0, 2176.0).mean();
        assert!((mean(1.0) / mean(1.000_1) - 1.0).abs() < 1e-3);
        assert!((mean(1.0) / mean(0.999_9) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn whole_numbers_are_below_their_limit_and_all_alike() {
        let mut random = Random::new(1, 0);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[usize::try_from(random.below(7)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
    }

    #[test]
    fn a_streams_sequence_depends_on_seed_and_number_alone() {
        let first = |seed, stream| Random::new(seed, stream).uniform().to_bits();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }
}
