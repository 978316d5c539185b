//! Intervals of means over runs, and the members that decide a statement about all of many.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::claim::Estimate;

/// Returns the mean of `values` and its two-sided interval by Student's t at `confidence`.
///
/// Below two values the interval is infinite.
#[allow(clippy::cast_precision_loss)]
pub(super) fn mean(values: &[f64], confidence: f64) -> Estimate {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    let Ok(student) = StudentsT::new(0.0, 1.0, count - 1.0) else {
        return Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY };
    };
    let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let half = student.inverse_cdf(f64::midpoint(1.0, confidence)) * error;
    Estimate { value, low: value - half, high: value + half }
}

/// Returns the estimate of the absolute value of `of`.
pub(super) fn absolute(of: Estimate) -> Estimate {
    let (one, other) = (of.low.abs(), of.high.abs());
    let low = if of.low <= 0.0 && of.high >= 0.0 { 0.0 } else { one.min(other) };
    Estimate { value: of.value.abs(), low, high: one.max(other) }
}

/// Returns the estimate of the least of several quantities.
pub(super) fn least(of: impl IntoIterator<Item = Estimate>) -> Estimate {
    let infinite = Estimate::exact(f64::INFINITY);
    of.into_iter().fold(infinite, |least, one| Estimate {
        value: least.value.min(one.value),
        low: least.low.min(one.low),
        high: least.high.min(one.high),
    })
}

/// Returns the estimate of the greatest of several quantities.
pub(super) fn greatest(of: impl IntoIterator<Item = Estimate>) -> Estimate {
    let infinite = Estimate::exact(f64::NEG_INFINITY);
    of.into_iter().fold(infinite, |greatest, one| Estimate {
        value: greatest.value.max(one.value),
        low: greatest.low.max(one.low),
        high: greatest.high.max(one.high),
    })
}

/// Returns the confidence of each of `count` intervals that gives 95 % for all together
/// (Bonferroni).
#[allow(clippy::cast_precision_loss)]
pub(super) fn confidence_of_each(count: usize) -> f64 {
    1.0 - 0.05 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{absolute, confidence_of_each, greatest, least, mean};
    use crate::claim::Estimate;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-3
    }

    #[test]
    fn means_match_a_calculation_by_hand() {
        // Mean 4, deviation 2: the half-widths are t × 2 / √3, t = 4.303 and 2.920.
        let wide = mean(&[2.0, 4.0, 6.0], 0.95);
        assert!(near(wide.low, 4.0 - 4.968) && near(wide.high, 4.0 + 4.968), "{wide:?}");
        let narrow = mean(&[2.0, 4.0, 6.0], 0.9);
        assert!(near(narrow.high - narrow.value, 3.372), "{narrow:?}");
        assert_eq!(mean(&[5.0, 5.0], 0.95), Estimate::exact(5.0));
        assert_eq!(mean(&[5.0], 0.95), estimate(5.0, f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn absolute_values_cover_zero_if_the_interval_does() {
        assert_eq!(absolute(estimate(-2.0, -3.0, -1.0)), estimate(2.0, 1.0, 3.0));
        assert_eq!(absolute(estimate(1.0, -2.0, 4.0)), estimate(1.0, 0.0, 4.0));
        assert_eq!(absolute(estimate(2.0, 1.0, 3.0)), estimate(2.0, 1.0, 3.0));
    }

    #[test]
    fn extremes_take_each_bound_from_its_extreme() {
        let of = [estimate(1.0, -5.0, 7.0), estimate(2.0, 1.0, 3.0)];
        assert_eq!(least(of), estimate(1.0, -5.0, 3.0));
        assert_eq!(greatest(of), estimate(2.0, 1.0, 7.0));
    }

    #[test]
    fn five_comparisons_have_99_percent_each() {
        assert!(near(confidence_of_each(5), 0.99));
        assert!(near(confidence_of_each(1), 0.95));
    }
}
