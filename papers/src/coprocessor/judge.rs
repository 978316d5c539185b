//! Estimates over repeated runs, and their texts.

use crate::claim::Estimate;

/// Runs below which no median has an interval of 95 %.
const MIN_RUNS: usize = 6;

/// Returns the median with its interval of 95 % (order statistics); below [`MIN_RUNS`] runs the
/// interval is unbounded, so that no criterion is met or missed.
pub(super) fn median(runs: &[f64]) -> Estimate {
    if runs.is_empty() {
        return Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };
    }
    let estimate = Estimate::median(runs);
    if runs.len() < MIN_RUNS {
        return Estimate { low: f64::NEG_INFINITY, high: f64::INFINITY, ..estimate };
    }
    estimate
}

/// Returns a number, or a dash if there are no runs.
pub(super) fn number(value: f64, decimals: usize) -> String {
    if value.is_nan() { "–".to_owned() } else { format!("{value:.decimals$}") }
}

/// Returns "value [low, high] unit", signed if it is a difference.
pub(super) fn interval(of: Estimate, decimals: usize, unit: &str, signed: bool) -> String {
    let number = |value: f64| {
        let text =
            if signed { format!("{value:+.decimals$}") } else { format!("{value:.decimals$}") };
        text.replace('-', "−")
    };
    if of.value.is_nan() {
        return "no runs".to_owned();
    }
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let value = number(of.value);
    if of.low.is_infinite() || of.high.is_infinite() {
        return format!("{value}{unit} (fewer than {MIN_RUNS} runs)");
    }
    format!("{value} [{}, {}]{unit}", number(of.low), number(of.high))
}

/// Returns the deviation of `ours` from the paper's value in per cent, with its interval.
pub(super) fn deviation(ours: Estimate, paper: f64) -> String {
    let percent = |value: f64| (value / paper - 1.0) * 100.0;
    let of =
        Estimate { value: percent(ours.value), low: percent(ours.low), high: percent(ours.high) };
    interval(of, 0, "%", true)
}

#[cfg(test)]
mod tests {
    use super::{deviation, interval, median};
    use crate::claim::Estimate;

    #[test]
    fn few_runs_have_no_interval() {
        let five = median(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!((five.value, five.low, five.high), (3.0, f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(interval(five, 1, "ms", false), "3.0 ms (fewer than 6 runs)");
        let six = median(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!((six.value, six.low, six.high), (3.5, 1.0, 6.0));
        assert_eq!(interval(median(&[]), 1, "ms", false), "no runs");
    }

    #[test]
    fn effects_show_value_and_interval() {
        let ours = Estimate { value: 0.9, low: 0.8, high: 1.05 };
        assert_eq!(deviation(ours, 1.0), "−10 [−20, +5] %");
        assert_eq!(interval(ours, 2, "ms", false), "0.90 [0.80, 1.05] ms");
    }
}
