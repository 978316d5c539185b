//! Random numbers for sources: one independent, reproducible sequence per stream.
//!
//! Sequences are ChaCha8 with the scenario's seed as key and the stream's number as ChaCha stream.
//! Adding a stream to a file therefore changes no other stream's traffic. Logarithms and powers use
//! `libm`, so results do not depend on the platform.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The random sequence of a stream.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// Creates the sequence of `stream` for `seed`; sequences of different streams are independent.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// Draws a uniform number in the open interval (0, 1): a midpoint of 2^52 equal parts.
    #[allow(clippy::cast_precision_loss)]
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) * f64::EPSILON
    }

    /// Draws a uniform integer below `limit` (not 0), with a bias below `limit`/2^64.
    #[allow(clippy::cast_possible_truncation)]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Draws from the exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }

    /// Draws from the standard normal distribution (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Draws from the lognormal distribution with mean 1 and this coefficient of variation.
    pub(crate) fn lognormal(&mut self, variation: f64) -> f64 {
        let variance = libm::log(1.0 + variation * variation);
        libm::exp(self.normal() * libm::sqrt(variance) - variance / 2.0)
    }
}

/// A Pareto distribution bounded at both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BoundedPareto {
    shape: f64,
    least: f64,
    most: f64,
    /// (least/most)^shape: the probability that the unbounded distribution exceeds `most`.
    tail_probability: f64,
}

/// The ratio of longest to shortest period: three decades keep the tail heavy and a run's mean near
/// the distribution's.
const SPAN: f64 = 1000.0;

impl BoundedPareto {
    /// Creates a distribution of this shape (above 1) and mean; its bounds have the ratio [`SPAN`].
    pub(crate) fn with_mean(shape: f64, mean: f64) -> Self {
        let least = mean / Self::between(shape, 1.0, SPAN).mean();
        Self::between(shape, least, least * SPAN)
    }

    /// Creates a distribution of this shape (above 0) from `least` (above 0) to `most` (greater).
    pub(crate) fn between(shape: f64, least: f64, most: f64) -> Self {
        Self { shape, least, most, tail_probability: libm::pow(least / most, shape) }
    }

    /// Returns the upper bound.
    pub(crate) fn largest(&self) -> f64 {
        self.most
    }

    pub(crate) fn mean(&self) -> f64 {
        let (a, l, h) = (self.shape, self.least, self.most);
        if (a - 1.0).abs() < 1e-9 {
            // The limit of the formula below for shape 1.
            return libm::log(h / l) / (1.0 / l - 1.0 / h);
        }
        libm::pow(l, a) / (1.0 - self.tail_probability)
            * (a / (a - 1.0))
            * (libm::pow(l, 1.0 - a) - libm::pow(h, 1.0 - a))
    }

    pub(crate) fn sample(&self, random: &mut Random) -> f64 {
        let u = random.uniform();
        self.least * libm::pow(1.0 - u * (1.0 - self.tail_probability), -1.0 / self.shape)
    }

    /// Draws the rest of the period in progress at a random instant: a length-biased period, found
    /// by rejection, times a uniform share.
    pub(crate) fn residual(&self, random: &mut Random) -> f64 {
        loop {
            let tail = 1.0 - random.uniform() * (1.0 - self.tail_probability);
            let threshold = random.uniform() * self.most;
            if let Some(period) = quantile_above(threshold, self.least, self.shape, tail) {
                return period * random.uniform();
            }
        }
    }
}

/// Returns `least`·`tail`^(−1/`shape`), which an unbounded Pareto distribution exceeds with
/// probability `tail`, if it is above `threshold`.
///
/// Rejection ends hundreds of draws here, and powers are slow: for shapes from 1, most are rejected
/// by `least`/`tail`, which is no less.
pub(crate) fn quantile_above(threshold: f64, least: f64, shape: f64, tail: f64) -> Option<f64> {
    // The margin is above all errors of rounding.
    if shape >= 1.0 && threshold * tail > least * (1.0 + 1e-9) {
        return None;
    }
    let quantile = least * libm::pow(tail, -1.0 / shape);
    (threshold < quantile).then_some(quantile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_the_requested_moments() {
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
    fn the_mean_for_shape_1_is_the_limit_of_nearby_shapes() {
        let mean = |shape| BoundedPareto::between(shape, 64.0, 2176.0).mean();
        assert!((mean(1.0) / mean(1.000_1) - 1.0).abs() < 1e-3);
        assert!((mean(1.0) / mean(0.999_9) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn quantiles_are_rejected_as_by_their_powers() {
        let mut random = Random::new(1, 0);
        let mut above = 0;
        for draw in 0..200_000 {
            let shape = [0.5, 1.0, 1.000_1, 1.4, 1.9, 8.0][draw % 6];
            // Half of the thresholds differ from the quantile by rounding only.
            let (tail, least) = (random.uniform(), 0.1 + random.uniform());
            let quantile = least * libm::pow(tail, -1.0 / shape);
            let threshold = match draw % 4 {
                0 => quantile,
                1 => quantile * (1.0 - f64::EPSILON),
                _ => least / random.uniform(),
            };
            let expected = (threshold < quantile).then_some(quantile);
            assert_eq!(quantile_above(threshold, least, shape, tail), expected);
            above += u32::from(expected.is_some());
        }
        assert!((80_000..120_000).contains(&above), "{above}");
    }

    #[test]
    fn integers_are_uniform_below_their_limit() {
        let mut random = Random::new(1, 0);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[usize::try_from(random.below(7)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
    }

    #[test]
    fn a_streams_sequence_depends_only_on_seed_and_number() {
        let first = |seed, stream| Random::new(seed, stream).uniform().to_bits();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }
}
