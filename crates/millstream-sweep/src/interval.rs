//! Confidence intervals over runs with different seeds.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence level of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// A mean over runs with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Number of runs that have a value.
    pub runs: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Half-width of the interval that contains the true mean with [`CONFIDENCE`], by Student's t.
    /// `None` for fewer than two runs.
    pub half_width: Option<f64>,
}

impl Interval {
    /// Returns the interval of these values; `None` if there are none.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        if runs == 0 {
            return None;
        }
        let count = runs as f64;
        let mean = values.iter().sum::<f64>() / count;
        let half_width = (runs > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / (count - 1.0)).sqrt();
            student_t_quantile(count - 1.0) * deviation / count.sqrt()
        });
        Some(Self { runs, mean, half_width })
    }
}

/// Returns the two-sided quantile of Student's t for [`CONFIDENCE`].
fn student_t_quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .expect("at least one degree of freedom")
        .inverse_cdf(f64::midpoint(1.0, CONFIDENCE))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_printed_tables() {
        // Two-sided 95 %, as printed in statistics books.
        let table =
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (29.0, 2.045), (1e6, 1.960)];
        for (freedom, expected) in table {
            assert!(
                (student_t_quantile(freedom) - expected).abs() < 5e-4,
                "{freedom}: {}",
                student_t_quantile(freedom)
            );
        }
    }

    #[test]
    fn mean_and_half_width_match_a_calculation_by_hand() {
        // Mean 4, deviation 2, so the half-width is 4.303 × 2 / √3.
        let found = Interval::of(&[2.0, 4.0, 6.0]).unwrap();
        assert_eq!((found.runs, found.mean), (3, 4.0));
        assert!((found.half_width.unwrap() - 4.968_3).abs() < 1e-3);
        assert_eq!(Interval::of(&[5.0]).unwrap().half_width, None);
        assert_eq!(Interval::of(&[5.0, 5.0, 5.0]).unwrap().half_width, Some(0.0));
        assert_eq!(Interval::of(&[]), None);
    }
}
