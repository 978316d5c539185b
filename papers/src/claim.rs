//! Claims of a paper, and how a run judges them.
//!
//! A criterion is a range that the paper's own figure and its precision allow; it is written before
//! the run. The verdict follows from the criterion and our interval:
//!
//! ```text
//! interval inside the range   reproduced
//! interval outside the range  differs
//! otherwise                   cannot tell
//! ```
//!
//! Only evidence carries a verdict. Inputs of an experiment and numbers fitted to the paper are
//! shown with their kind, and [`Claim::given`] takes no criterion for them. The tests compare the
//! values of pages, never verdicts.

use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt;

/// How a number that can be judged came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Read off a machine: depends on it and on the day.
    Measured,
    /// The result of a deterministic simulation, hardware simulation included.
    Simulated,
    /// The result of arithmetic, counting or synthesis.
    Computed,
}

/// What a number is that cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// Chosen so that the result meets the paper's.
    Fitted,
    /// A setting of the experiment.
    Input,
}

/// The result of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The whole interval meets the criterion.
    Reproduced,
    /// No value of the interval meets the criterion.
    Differs,
    /// Part of the interval meets the criterion, or the paper gives no number to compare with.
    CannotTell,
}

impl fmt::Display for Evidence {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
            Self::Computed => "computed",
        })
    }
}

impl fmt::Display for Given {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Fitted => "**fitted**",
            Self::Input => "**input**",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Reproduced => "reproduced",
            Self::Differs => "differs",
            Self::CannotTell => "cannot tell",
        })
    }
}

/// A quantity of ours and the interval that holds its true value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    /// Returns a value without uncertainty: a deterministic result or a count.
    pub(crate) fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Returns the mean of `runs` with the interval of Student's t that covers the true mean with
    /// the probability `confidence`. One run has no finite interval.
    ///
    /// # Panics
    /// Panics if there are no runs.
    pub(crate) fn mean(runs: &[f64], confidence: f64) -> Self {
        assert!(!runs.is_empty(), "a mean needs a run");
        #[allow(clippy::cast_precision_loss)]
        let count = runs.len() as f64;
        let value = runs.iter().sum::<f64>() / count;
        let half_width = if runs.len() == 1 {
            f64::INFINITY
        } else {
            let squares: f64 = runs.iter().map(|run| (run - value).powi(2)).sum();
            let student = StudentsT::new(0.0, 1.0, count - 1.0).expect("a degree of freedom");
            let quantile = student.inverse_cdf(f64::midpoint(1.0, confidence));
            quantile * (squares / (count - 1.0) / count).sqrt()
        };
        Self { value, low: value - half_width, high: value + half_width }
    }

    /// Returns the median of `runs` with the narrowest interval of order statistics that covers the
    /// true median with a probability of 95 %. Below six runs, the interval is the whole range.
    ///
    /// Distribution-free: with n runs the interval from the k-th to the (n + 1 − k)-th value covers
    /// it with probability 1 − 2·P(B < k), B binomial (n, ½).
    ///
    /// # Panics
    /// Panics if there are no runs.
    pub(crate) fn median(runs: &[f64]) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        // P(B < k) by terms; the largest k with at most 2.5 % on each side.
        let (mut k, mut term, mut below) =
            (0, 0.5_f64.powi(i32::try_from(n).unwrap_or(1_000)), 0.0);
        while below + term <= 0.025 {
            below += term;
            #[allow(clippy::cast_precision_loss)]
            let next = (n - k) as f64 / (k + 1) as f64;
            term *= next;
            k += 1;
        }
        let first = k.saturating_sub(1);
        Self { value, low: sorted[first], high: sorted[n - 1 - first] }
    }
}

/// The values that agree with the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Allowed {
    /// A value from the first to the second, both included.
    Between(f64, f64),
    /// This value or more.
    AtLeast(f64),
    /// This value or less.
    AtMost(f64),
    /// More than this value.
    Above(f64),
    /// Less than this value.
    Below(f64),
    /// Exactly this value.
    Equal(f64),
    /// The paper gives nothing to compare with: always [`Verdict::CannotTell`].
    Unstated,
}

impl Allowed {
    /// Returns the values within `percent` % of `paper`.
    pub(crate) fn near(paper: f64, percent: f64) -> Self {
        let part = paper.abs() * percent / 100.0;
        Self::Between(paper - part, paper + part)
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::Between(low, high) => (low..=high).contains(&value),
            Self::AtLeast(low) => value >= low,
            Self::AtMost(high) => value <= high,
            Self::Above(low) => value > low,
            Self::Below(high) => value < high,
            Self::Equal(only) => value.to_bits() == only.to_bits(),
            Self::Unstated => false,
        }
    }

    /// Returns the verdict on `ours`.
    pub(crate) fn judge(self, ours: Estimate) -> Verdict {
        if self == Self::Unstated || !ours.low.is_finite() || !ours.high.is_finite() {
            return Verdict::CannotTell;
        }
        // The allowed values are one range, so both ends inside means all inside.
        let (low, high) = (self.holds(ours.low), self.holds(ours.high));
        let contains_range = match self {
            Self::Between(from, to) => ours.low < from && ours.high > to,
            Self::Equal(only) => ours.low < only && ours.high > only,
            _ => false,
        };
        match (low, high) {
            (true, true) => Verdict::Reproduced,
            (false, false) if !contains_range => Verdict::Differs,
            _ => Verdict::CannotTell,
        }
    }
}

/// What a claim's number is, and what it shows.
#[derive(Clone, Debug, PartialEq)]
enum Judgement {
    Judged { evidence: Evidence, criterion: String, effect: String, verdict: Verdict },
    Given(Given),
}

/// A statement of a paper and our result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    what: String,
    paper: String,
    ours: String,
    judgement: Judgement,
}

/// A statement of a paper with its criterion, to be judged by a result.
pub(crate) struct Test {
    what: String,
    paper: String,
    criterion: String,
    allowed: Allowed,
}

impl Test {
    /// Returns a test: the item and statement, the paper's value, the criterion with its source in
    /// words, and the allowed values of the tested quantity.
    pub(crate) fn new(
        what: impl Into<String>,
        paper: impl Into<String>,
        criterion: impl Into<String>,
        allowed: Allowed,
    ) -> Self {
        Self { what: what.into(), paper: paper.into(), criterion: criterion.into(), allowed }
    }

    /// Judges `tested`. `ours` shows our result, `effect` its size and interval: a ratio to or a
    /// difference from the paper's value, or from the system that the paper compares with.
    pub(crate) fn by(
        self,
        evidence: Evidence,
        ours: impl Into<String>,
        tested: Estimate,
        effect: impl Into<String>,
    ) -> Claim {
        let Self { what, paper, criterion, allowed } = self;
        let (ours, effect, verdict) = (ours.into(), effect.into(), allowed.judge(tested));
        let judgement = Judgement::Judged { evidence, criterion, effect, verdict };
        Claim { what, paper, ours, judgement }
    }
}

impl Claim {
    /// Returns a number that proves nothing: an input, or fitted to the paper.
    pub(crate) fn given(
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
        kind: Given,
    ) -> Self {
        let judgement = Judgement::Given(kind);
        Self { what: what.into(), paper: paper.into(), ours: ours.into(), judgement }
    }

    /// Returns a statement that either is true of our exact result or is not.
    pub(crate) fn exactly(
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
        evidence: Evidence,
        is_true: bool,
    ) -> Self {
        let test = Test::new(what, paper, "true, exactly", Allowed::Equal(1.0));
        let effect = if is_true { "none" } else { "as shown" };
        test.by(evidence, ours, Estimate::exact(f64::from(u8::from(is_true))), effect)
    }

    /// Returns the verdict; `None` for inputs and fitted numbers.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        match self.judgement {
            Judgement::Judged { verdict, .. } => Some(verdict),
            Judgement::Given(_) => None,
        }
    }

    /// Returns the cells of the claim: what, paper, ours, kind, criterion, effect, verdict.
    pub(crate) fn cells(&self) -> [String; 7] {
        let Self { what, paper, ours, judgement } = self;
        let (kind, criterion, effect, verdict) = match judgement {
            Judgement::Judged { evidence, criterion, effect, verdict } => {
                (evidence.to_string(), criterion.clone(), effect.clone(), verdict.to_string())
            }
            Judgement::Given(given) => (given.to_string(), "–".into(), "–".into(), "–".into()),
        };
        [what.clone(), paper.clone(), ours.clone(), kind, criterion, effect, verdict]
    }
}

/// The head of a table of claims.
pub(crate) const HEAD: &str = "| claim | paper | ours | kind | criterion | effect, interval | \
                               verdict |\n|---|---|---|---|---|---|---|\n";

/// Returns the table rows of claims, without the prefix that names the paper.
pub(crate) fn rows<'a>(claims: impl IntoIterator<Item = &'a Claim>, prefix: &str) -> String {
    let row = |claim: &Claim| {
        let mut cells = claim.cells();
        if let Some(rest) = cells[0].strip_prefix(prefix) {
            cells[0] = rest.to_owned();
        }
        format!("| {} |\n", cells.join(" | "))
    };
    claims.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{Allowed, Claim, Estimate, Evidence, Given, Test, Verdict};

    fn judged(allowed: Allowed, low: f64, high: f64) -> Verdict {
        allowed.judge(Estimate { value: f64::midpoint(low, high), low, high })
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let range = Allowed::Between(1.0, 2.0);
        assert_eq!(judged(range, 1.0, 2.0), Verdict::Reproduced);
        assert_eq!(judged(range, 0.9, 1.5), Verdict::CannotTell);
        assert_eq!(judged(range, 1.5, 2.1), Verdict::CannotTell);
        assert_eq!(judged(range, 0.5, 2.5), Verdict::CannotTell);
        assert_eq!(judged(range, 2.1, 3.0), Verdict::Differs);
        assert_eq!(judged(range, 0.1, 0.9), Verdict::Differs);
        assert_eq!(judged(Allowed::Above(0.0), 0.0, 1.0), Verdict::CannotTell);
        assert_eq!(judged(Allowed::AtLeast(0.0), 0.0, 1.0), Verdict::Reproduced);
        assert_eq!(judged(Allowed::Below(0.0), 0.0, 0.0), Verdict::Differs);
        assert_eq!(judged(Allowed::AtMost(0.0), 0.0, 0.0), Verdict::Reproduced);
        assert_eq!(judged(Allowed::Equal(3.0), 2.0, 4.0), Verdict::CannotTell);
        assert_eq!(judged(Allowed::near(100.0, 5.0), 95.0, 105.0), Verdict::Reproduced);
    }

    #[test]
    fn without_a_number_there_is_no_verdict_for_or_against() {
        assert_eq!(judged(Allowed::Unstated, 1.0, 1.0), Verdict::CannotTell);
        assert_eq!(judged(Allowed::AtLeast(0.0), 1.0, f64::INFINITY), Verdict::CannotTell);
        assert_eq!(judged(Allowed::AtLeast(0.0), f64::NAN, f64::NAN), Verdict::CannotTell);
    }

    #[test]
    fn inputs_and_fitted_numbers_have_no_verdict() {
        for kind in [Given::Fitted, Given::Input] {
            let claim = Claim::given("a", "1", "1", kind);
            assert_eq!(claim.verdict(), None);
            assert_eq!(claim.cells()[6], "–");
        }
        let test = Test::new("a", "1", "within 1 %", Allowed::near(1.0, 1.0));
        let claim = test.by(Evidence::Simulated, "2", Estimate::exact(2.0), "+100 %");
        assert_eq!(claim.verdict(), Some(Verdict::Differs));
    }

    #[test]
    fn the_mean_has_students_interval() {
        // Deviation 2; two-sided 95 % with 2 degrees of freedom: 4.3027 × 2 / √3.
        let three = Estimate::mean(&[2.0, 4.0, 6.0], 0.95);
        assert!((three.value - 4.0).abs() < 1e-12 && (three.high - 8.9683).abs() < 1e-3);
        assert!((three.low + three.high - 8.0).abs() < 1e-9);
        assert_eq!(Estimate::mean(&[5.0, 5.0], 0.95), Estimate::exact(5.0));
        assert_eq!(Estimate::mean(&[5.0], 0.95).high, f64::INFINITY);
    }

    #[test]
    fn the_median_has_an_interval_of_order_statistics() {
        let runs: Vec<f64> = (1..=10).map(f64::from).collect();
        // n = 10: ranks 2 and 9 cover with 97.9 %, ranks 3 and 8 with 89.1 %.
        let ten = Estimate::median(&runs);
        assert_eq!(ten, Estimate { value: 5.5, low: 2.0, high: 9.0 });
        let six = Estimate::median(&runs[..6]);
        assert_eq!(six, Estimate { value: 3.5, low: 1.0, high: 6.0 });
        let one = Estimate::median(&[7.0]);
        assert_eq!(one, Estimate::exact(7.0));
        // n = 20: ranks 6 and 15 cover with 95.9 %.
        let runs: Vec<f64> = (1..=20).map(f64::from).collect();
        let twenty = Estimate::median(&runs);
        assert_eq!((twenty.low, twenty.high), (6.0, 15.0));
    }
}
