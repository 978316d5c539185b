//! Estimates of the model's results, and the words for their effects.

use super::machine::{PaperMachine, machines};
use crate::claim::Estimate;

/// Runs of an experiment with random costs, each with its own seed.
pub(super) const RUNS: usize = 10;
/// Two-sided 95 % quantile of Student's t with `RUNS` - 1 degrees of freedom.
const T_95: f64 = 2.262_157;

/// Returns the result on the printed machine. Its interval spans the results on all machines that
/// the rounding of the paper's numbers permits.
pub(super) fn on_machines(result: impl Fn(&PaperMachine) -> f64) -> Estimate {
    let [value, low, high] = machines().map(|machine| result(&machine));
    Estimate { value, low: value.min(low).min(high), high: value.max(low).max(high) }
}

/// Returns one result for each of the seeds from 1.
pub(super) fn over_seeds<T>(result: impl Fn(u64) -> T) -> [T; RUNS] {
    std::array::from_fn(|seed| result(seed as u64 + 1))
}

/// Returns the mean with its 95 % interval by Student's t.
#[allow(clippy::cast_precision_loss)]
pub(super) fn mean(results: &[f64; RUNS]) -> Estimate {
    let count = RUNS as f64;
    let value = results.iter().sum::<f64>() / count;
    let squares: f64 = results.iter().map(|result| (result - value).powi(2)).sum();
    let half = T_95 * (squares / (count - 1.0) / count).sqrt();
    Estimate { value, low: value - half, high: value + half }
}

/// Returns an estimate transformed by an increasing function.
pub(super) fn increasing(of: Estimate, by: impl Fn(f64) -> f64) -> Estimate {
    Estimate { value: by(of.value), low: by(of.low), high: by(of.high) }
}

/// Formats the relative deviation from the paper's value with its interval, if it has one.
pub(super) fn deviation(ours: Estimate, paper: f64, kind: &str) -> String {
    interval(increasing(ours, |value| (value / paper - 1.0) * 100.0), " %", kind)
}

/// Formats a difference with its interval: `+1.2 Kpps [+1.0, +1.4], kind`.
///
/// An interval that rounds to its value is not shown.
pub(super) fn interval(of: Estimate, unit: &str, kind: &str) -> String {
    // Adding 0 turns -0 into 0.
    let [value, low, high] = [of.value, of.low, of.high].map(|value| {
        let rounded = (value * 10.0).round() / 10.0 + 0.0;
        format!("{rounded:+.1}")
    });
    let exact = low == value && high == value;
    if exact {
        format!("{value}{unit}, {kind}")
    } else {
        format!("{value}{unit} [{low}, {high}], {kind}")
    }
}

#[cfg(test)]
mod tests {
    use super::{deviation, interval, mean, on_machines, over_seeds};
    use crate::claim::Estimate;

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn the_interval_of_seeds_is_students_t() {
        let of = mean(&over_seeds(|seed| seed as f64));
        // The deviation of 1 to 10 is 3.028; t is 2.262.
        assert!((of.value - 5.5).abs() < 1e-12 && (of.high - 7.666).abs() < 1e-3, "{of:?}");
        assert!((of.low - 3.334).abs() < 1e-3, "{of:?}");
    }

    #[test]
    fn the_interval_of_machines_spans_their_results() {
        let of = on_machines(|machine| machine.costs.input_ns as f64);
        assert_eq!(of, Estimate { value: 1_685.0, low: 1_579.0, high: 1_791.0 });
    }

    #[test]
    fn effects_show_sign_and_interval() {
        let of = Estimate { value: 101.0, low: 99.5, high: 102.04 };
        assert_eq!(deviation(of, 100.0, "rounding"), "+1.0 % [-0.5, +2.0], rounding");
        assert_eq!(interval(Estimate::exact(-0.04), " Kpps", "exact"), "+0.0 Kpps, exact");
    }
}
