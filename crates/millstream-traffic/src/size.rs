//! Sizes of transfers: distributions with a given mean, and empirical ones.
//!
//! A size is a whole number of bytes, at least 1. A distribution with an upper limit is the
//! unlimited one under the condition that the limit is not exceeded, scaled so that its mean is the
//! given one. An offered load is therefore the mean size times the rate of arrivals, with and
//! without a limit.

use std::f64::consts::SQRT_2;

use crate::random::{BoundedPareto, Random};

/// A distribution of sizes, bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution(Law);

#[derive(Clone, Debug, PartialEq)]
enum Law {
    Fixed(u64),
    /// Of mean `scale`, below a limit; `within` is the probability of a size below it.
    Exponential {
        scale: f64,
        within: f64,
    },
    Pareto(BoundedPareto),
    /// Of this median, not above `largest`; infinite without a limit.
    Lognormal {
        median: f64,
        sigma: f64,
        largest: f64,
    },
    /// Sizes and their cumulative probabilities.
    Table(Vec<(u64, f64)>),
}

/// The sizes of a web search cluster: figure 4 of "Data Center TCP (DCTCP)", SIGCOMM 2010, as the
/// authors of pFabric (SIGCOMM 2013) published it in `empirical-traffic-gen`.
const WEB_SEARCH: [(u64, f64); 12] = [
    (0, 0.0),
    (10_000, 0.15),
    (20_000, 0.2),
    (30_000, 0.3),
    (50_000, 0.4),
    (80_000, 0.53),
    (200_000, 0.6),
    (1_000_000, 0.7),
    (2_000_000, 0.8),
    (5_000_000, 0.9),
    (10_000_000, 0.97),
    (30_000_000, 1.0),
];

/// The sizes of a data mining cluster: figure 2 of "VL2", SIGCOMM 2009, from the same publication.
const DATA_MINING: [(u64, f64); 13] = [
    (0, 0.0),
    (180, 0.1),
    (216, 0.2),
    (560, 0.3),
    (900, 0.4),
    (1_100, 0.5),
    (1_870, 0.6),
    (3_160, 0.7),
    (10_000, 0.8),
    (400_000, 0.9),
    (3_160_000, 0.95),
    (100_000_000, 0.98),
    (1_000_000_000, 1.0),
];

/// The largest that [`Random::exponential`] returns, rounded up: −ln 2^−53.
const LARGEST_EXPONENTIAL: f64 = 36.8;
/// The largest absolute value of a normal number of [`Random`], rounded up: √(2 × 36.8).
const LARGEST_NORMAL: f64 = 8.6;

impl SizeDistribution {
    /// The least ratio of a limit to the mean.
    pub const LEAST_LIMIT: u64 = 4;

    /// Returns the distribution of one size, bytes.
    #[must_use]
    pub fn fixed(bytes: u64) -> Self {
        Self(Law::Fixed(bytes.max(1)))
    }

    /// Returns the exponential distribution of this mean and limit, bytes. A limit must be at least
    /// [`LEAST_LIMIT`](Self::LEAST_LIMIT) times the mean.
    #[must_use]
    pub fn exponential(mean: u64, largest: Option<u64>) -> Self {
        let mean = float(mean);
        let Some(largest) = largest.map(float) else {
            return Self(Law::Exponential { scale: mean, within: 1.0 });
        };
        let mean_of = |scale: f64| scale - largest / libm::expm1(largest / scale);
        let scale = solve(mean, mean, largest, mean_of);
        Self(Law::Exponential { scale, within: -libm::expm1(-largest / scale) })
    }

    /// Returns the Pareto distribution of this mean, shape (1.01 to 10) and limit, bytes. Without a
    /// limit, the largest size is 1,000 times the smallest. A limit must be at least
    /// [`LEAST_LIMIT`](Self::LEAST_LIMIT) times the mean.
    #[must_use]
    pub fn pareto(mean: u64, shape: f64, largest: Option<u64>) -> Self {
        let mean = float(mean);
        let Some(largest) = largest.map(float) else {
            return Self(Law::Pareto(BoundedPareto::with_mean(shape, mean)));
        };
        let law = |least| BoundedPareto::between(shape, least, largest);
        let least = solve(mean, mean * (shape - 1.0) / shape, mean, |least| law(least).mean());
        Self(Law::Pareto(law(least)))
    }

    /// Returns the lognormal distribution of this mean, standard deviation `sigma` of the logarithm
    /// (above 0, at most 4) and limit, bytes. A limit must be at least
    /// [`LEAST_LIMIT`](Self::LEAST_LIMIT) times the mean.
    #[must_use]
    pub fn lognormal(mean: u64, sigma: f64, largest: Option<u64>) -> Self {
        let mean = float(mean);
        let median = mean * libm::exp(-sigma * sigma / 2.0);
        let Some(largest) = largest.map(float) else {
            return Self(Law::Lognormal { median, sigma, largest: f64::INFINITY });
        };
        let mean_of = |median: f64| {
            let limit = libm::log(largest / median) / sigma;
            let unlimited = median * libm::exp(sigma * sigma / 2.0);
            unlimited * normal_below(limit - sigma) / normal_below(limit)
        };
        let most = largest * libm::exp(sigma * sigma);
        Self(Law::Lognormal { median: solve(mean, median, most, mean_of), sigma, largest })
    }

    /// Returns the distribution of a table of sizes, bytes, and cumulative probabilities, both in
    /// increasing order; the last probability must be 1. Sizes between two rows are equally likely;
    /// the first size has its probability.
    #[must_use]
    pub fn table(rows: Vec<(u64, f64)>) -> Self {
        Self(Law::Table(rows))
    }

    /// Returns the sizes of a web search cluster (DCTCP, SIGCOMM 2010, figure 4).
    #[must_use]
    pub fn web_search() -> Self {
        Self::table(WEB_SEARCH.to_vec())
    }

    /// Returns the sizes of a data mining cluster (VL2, SIGCOMM 2009, figure 2).
    #[must_use]
    pub fn data_mining() -> Self {
        Self::table(DATA_MINING.to_vec())
    }

    /// Returns the mean, bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match &self.0 {
            Law::Fixed(bytes) => float(*bytes),
            Law::Exponential { scale, within } if *within == 1.0 => *scale,
            Law::Exponential { scale, within } => {
                let largest = -scale * libm::log1p(-within);
                scale - largest / libm::expm1(largest / scale)
            }
            Law::Pareto(law) => law.mean(),
            Law::Lognormal { median, sigma, largest } => {
                let unlimited = median * libm::exp(sigma * sigma / 2.0);
                if largest.is_infinite() {
                    return unlimited;
                }
                let limit = libm::log(largest / median) / sigma;
                unlimited * normal_below(limit - sigma) / normal_below(limit)
            }
            Law::Table(rows) => {
                let first = rows.first().map_or(0.0, |row| float(row.0) * row.1);
                let pairs = rows.windows(2);
                let part = |pair: &[(u64, f64)]| {
                    (pair[1].1 - pair[0].1) * (float(pair[0].0) + float(pair[1].0)) / 2.0
                };
                first + pairs.map(part).sum::<f64>()
            }
        }
    }

    /// Returns an upper bound of the sizes that can be drawn, bytes.
    #[must_use]
    pub fn largest(&self) -> u64 {
        match &self.0 {
            Law::Fixed(bytes) => *bytes,
            Law::Exponential { scale, within } if *within == 1.0 => {
                integer(scale * LARGEST_EXPONENTIAL)
            }
            Law::Exponential { scale, within } => integer(-scale * libm::log1p(-within)),
            Law::Pareto(law) => integer(law.largest()),
            Law::Lognormal { median, sigma, largest } => {
                integer(largest.min(median * libm::exp(sigma * LARGEST_NORMAL)))
            }
            Law::Table(rows) => rows.last().map_or(1, |row| row.0.max(1)),
        }
    }

    /// Draws a size, bytes, at least 1.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.0 {
            Law::Fixed(bytes) => *bytes,
            Law::Exponential { scale, within } => {
                integer(-scale * libm::log1p(-within * random.uniform()))
            }
            Law::Pareto(law) => integer(law.sample(random)),
            // At least 9 % of the draws are within the limit, since it is 4 times the mean.
            Law::Lognormal { median, sigma, largest } => loop {
                let size = median * libm::exp(sigma * random.normal());
                if size <= *largest {
                    return integer(size);
                }
            },
            Law::Table(rows) => {
                let uniform = random.uniform();
                let above = rows.partition_point(|row| row.1 < uniform);
                let Some(to) = rows.get(above) else {
                    return self.largest();
                };
                let Some(from) = above.checked_sub(1).map(|below| rows[below]) else {
                    return to.0.max(1);
                };
                let share = (uniform - from.1) / (to.1 - from.1);
                integer(float(from.0) + share * float(to.0 - from.0))
            }
        }
    }
}

/// Returns the argument between `low` and `high` (both above 0) for which an increasing function
/// returns `value`.
fn solve(value: f64, low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    // Each step halves the logarithm of the ratio of the bounds: enough for the precision of f64.
    for _ in 0..100 {
        let middle = libm::sqrt(low) * libm::sqrt(high);
        if function(middle) < value { low = middle } else { high = middle }
    }
    high
}

/// Returns the probability that a standard normal number is below `limit`.
fn normal_below(limit: f64) -> f64 {
    libm::erfc(-limit / SQRT_2) / 2.0
}

#[allow(clippy::cast_precision_loss)]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// Returns the nearest whole number of bytes, at least 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn integer(bytes: f64) -> u64 {
    libm::round(bytes).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u32 = 200_000;

    fn sizes(law: &SizeDistribution, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed, 0);
        (0..N).map(|_| law.draw(&mut random)).collect()
    }

    /// Checks that the mean of n sizes is within four standard errors, s/√n, of `expected`.
    fn has_mean(law: &SizeDistribution, expected: f64) {
        assert!((law.mean() / expected - 1.0).abs() < 1e-6, "{law:?}: {}", law.mean());
        let sizes = sizes(law, 1);
        let n = f64::from(N);
        let mean = sizes.iter().map(|size| float(*size)).sum::<f64>() / n;
        let variance = sizes.iter().map(|size| (float(*size) - mean).powi(2)).sum::<f64>() / n;
        let error = (variance / n).sqrt();
        assert!((mean - expected).abs() < 4.0 * error + 0.5, "{law:?}: {mean} ± {error}");
        assert!(sizes.iter().all(|size| (1..=law.largest()).contains(size)), "{law:?}");
    }

    #[test]
    fn drawn_sizes_have_the_given_mean_with_and_without_a_limit() {
        for limit in [None, Some(120_000), Some(10_000_000)] {
            has_mean(&SizeDistribution::exponential(30_000, limit), 30_000.0);
            for shape in [1.05, 1.2, 2.5] {
                has_mean(&SizeDistribution::pareto(30_000, shape, limit), 30_000.0);
            }
        }
        for (sigma, limit) in [(0.5, None), (1.3, None), (1.3, Some(120_000)), (4.0, Some(1 << 20))]
        {
            has_mean(&SizeDistribution::lognormal(30_000, sigma, limit), 30_000.0);
        }
        has_mean(&SizeDistribution::fixed(7), 7.0);
    }

    /// The means by hand: the sum of each row's probability times the middle of its range.
    #[test]
    fn published_tables_have_their_mean_and_quantiles() {
        has_mean(&SizeDistribution::web_search(), 1_711_250.0);
        has_mean(&SizeDistribution::data_mining(), 12_658_198.6);
        let mut drawn = sizes(&SizeDistribution::web_search(), 3);
        drawn.sort_unstable();
        for (bytes, probability) in WEB_SEARCH {
            let below = drawn.partition_point(|size| *size <= bytes) as f64 / f64::from(N);
            // Four standard errors of a share of n draws: at most 4 × √(1/4n).
            assert!((below - probability).abs() < 2.0 / f64::from(N).sqrt(), "{bytes}: {below}");
        }
    }

    #[test]
    fn the_first_row_of_a_table_has_its_probability() {
        let law = SizeDistribution::table(vec![(100, 0.25), (300, 1.0)]);
        has_mean(&law, 0.25 * 100.0 + 0.75 * 200.0);
        let least = sizes(&law, 2).iter().filter(|size| **size == 100).count() as f64;
        assert!((least / f64::from(N) - 0.25).abs() < 2.0 / f64::from(N).sqrt() + 0.002);
    }

    #[test]
    fn sizes_depend_on_their_seed_only() {
        for law in [
            SizeDistribution::exponential(1_000, Some(9_000)),
            SizeDistribution::lognormal(1_000, 2.0, Some(9_000)),
            SizeDistribution::data_mining(),
        ] {
            assert_eq!(sizes(&law, 5), sizes(&law, 5));
            assert_ne!(sizes(&law, 5), sizes(&law, 6));
        }
    }
}
