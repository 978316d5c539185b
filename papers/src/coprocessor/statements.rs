//! The paper's statements about Figures 6 to 10, judged on the model.
//!
//! The paper prints rates as multiples of 10 kb/s and delays as multiples of 1,000 ms. A criterion
//! allows half of that unit, and 10 % where the paper says "around". The model requests 260 kb/s on
//! host and NI, so rates under load are judged relative to the rate without load.

use super::figures::{Runs, SEEDS, bandwidth, delay};
use super::host::Outcome;
use super::judge::{deviation, interval, median};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, Test};

/// Loads by number: none, 45 %, 60 %, above 90 %.
const NONE: usize = 0;
const FORTY_FIVE: usize = 1;
const SIXTY: usize = 2;

/// Half of the unit of the paper's rates, kb/s, and of its delays, ms.
const HALF_RATE: f64 = 5.0;
const HALF_DELAY: f64 = 500.0;

/// Returns the range of `part / whole` where each is known within `half`.
fn ratio(part: f64, whole: f64, half: f64) -> (f64, f64) {
    ((part - half) / (whole + half), (part + half) / (whole - half))
}

/// Returns the mean of s1's bandwidth between two times in s, kbit/s.
fn mean(run: &Outcome, from: f64, to: f64) -> f64 {
    let inside: Vec<f64> = bandwidth(run, 0)
        .into_iter()
        .filter_map(|(at, rate)| (from..to).contains(&at).then_some(rate))
        .collect();
    inside.iter().sum::<f64>() / inside.len() as f64
}

/// Returns the lowest of s1's bandwidths between two times in s, kbit/s.
fn least(run: &Outcome, from: f64, to: f64) -> f64 {
    let inside = bandwidth(run, 0).into_iter().filter(|(at, _)| (from..to).contains(at));
    inside.map(|(_, rate)| rate).fold(f64::MAX, f64::min)
}

/// Returns the longest delay of s1's frames, ms.
fn longest(run: &Outcome) -> f64 {
    delay(run, 0).into_iter().map(|(_, wait)| wait).fold(0.0, f64::max)
}

/// Returns the mean utilisation of the host, %.
fn used(run: &Outcome) -> f64 {
    100.0 * run.used.iter().sum::<f64>() / run.used.len() as f64
}

/// The model's runs of all seeds.
struct Model<'a>(&'a [Runs]);

impl Model<'_> {
    /// Returns a quantity's median over the seeds with its interval.
    fn of(&self, quantity: impl Fn(&Runs) -> f64) -> Estimate {
        median(&self.0.iter().map(quantity).collect::<Vec<_>>())
    }

    /// Returns a number without a verdict.
    fn given(&self, what: &str, paper: &str, ours: (Estimate, &str), kind: Given) -> Claim {
        let ours = interval(ours.0, 0, ours.1, false);
        Claim::given(format!("Co-processor, {what}"), paper, ours, kind)
    }

    /// Judges a quantity by the paper's `value`.
    fn judged(
        &self,
        what: &str,
        (paper, value): (&str, f64),
        (criterion, allowed): (String, Allowed),
        ours: Estimate,
        (decimals, unit): (usize, &str),
    ) -> Claim {
        let shown = interval(ours, decimals, unit, false);
        let effect =
            format!("{} against the paper; median of {SEEDS} seeds", deviation(ours, value));
        Test::new(format!("Co-processor, {what}"), paper, criterion, allowed).by(
            Evidence::Simulated,
            shown,
            ours,
            effect,
        )
    }

    /// Judges s1's bandwidth at 45 % relative to that without load, which the paper gives as 250
    /// kb/s.
    fn part(&self, what: &str, paper_kbps: f64, quantity: impl Fn(&Outcome) -> f64) -> Claim {
        self.part_of(what, paper_kbps, ratio(paper_kbps, 250.0, HALF_RATE), "", |runs| {
            quantity(&runs.host[FORTY_FIVE])
        })
    }

    fn part_of(
        &self,
        what: &str,
        paper_kbps: f64,
        (low, high): (f64, f64),
        note: &str,
        quantity: impl Fn(&Runs) -> f64,
    ) -> Claim {
        let ours = self.of(|runs| quantity(runs) / mean(&runs.host[NONE], 20.0, 100.0));
        let why = if note.is_empty() { "rates to half a unit, 5 kb/s" } else { note };
        self.judged(
            what,
            (&format!("{paper_kbps:.0} of 250 kb/s"), paper_kbps / 250.0),
            (format!("ratio {low:.3} to {high:.3}: {why}"), Allowed::Between(low, high)),
            ours,
            (3, "of no load"),
        )
    }
}

/// Judges every statement on the runs.
pub(super) fn statements(runs: &[Runs]) -> Vec<Claim> {
    let model = Model(runs);
    let mut claims = utilisation(&model);
    claims.extend(rates(&model));
    claims.extend(delays(&model));
    claims.extend(network_interface(&model));
    claims
}

/// Judges the statements about Figure 6.
fn utilisation(model: &Model<'_>) -> Vec<Claim> {
    let host = |load: usize| model.of(move |runs| used(&runs.host[load]));
    let peak = model.of(|runs| 100.0 * runs.host[NONE].used.iter().copied().fold(0.0, f64::max));
    vec![
        model.given("Fig 6: no load, mean utilisation", "15 %", (host(NONE), "%"), Given::Fitted),
        model.judged(
            "Fig 6: no load, peak utilisation",
            ("around 35 %", 35.0),
            ("within 10 %: \"around\"".to_owned(), Allowed::near(35.0, 10.0)),
            peak,
            (1, "%"),
        ),
        model.given("Fig 6: 45 %, utilisation", "45 %", (host(FORTY_FIVE), "%"), Given::Input),
        model.given("Fig 6: 60 %, utilisation", "60 %", (host(SIXTY), "%"), Given::Input),
    ]
}

/// Judges the statements about Figure 7.
fn rates(model: &Model<'_>) -> Vec<Claim> {
    let whole = |run: &Outcome| mean(run, 20.0, 100.0);
    let (low, high) = ratio(250.0, 260.0, HALF_RATE);
    let (heavy_low, heavy_high) = (0.9 * 100.0 / 250.0, 1.1 * 100.0 / 250.0);
    vec![
        model.given(
            "Fig 7: no load, s1: the requested rate",
            "250 kb/s",
            (model.of(|runs| whole(&runs.host[NONE])), "kb/s"),
            Given::Input,
        ),
        model.judged(
            "Figs 7 and 9: host without load, relative to the NI",
            ("250 of 260 kb/s, \"similar\"", 250.0 / 260.0),
            (
                format!("ratio {low:.3} to {high:.3}: rates to half a unit, 5 kb/s"),
                Allowed::Between(low, high),
            ),
            model.of(|runs| whole(&runs.host[NONE]) / whole(&runs.ni[NONE])),
            (3, "of the NI"),
        ),
        model.part("Fig 7: 45 %, s1 from 15 to 20 s", 200.0, |run| least(run, 12.5, 22.5)),
        model.part("Fig 7: 45 %, s1 settles at", 230.0, |run| mean(run, 25.0, 100.0)),
        model.given(
            "Fig 7: 60 %, s1 falls to",
            "100 kb/s",
            (model.of(|runs| least(&runs.host[SIXTY], 0.0, 100.0)), "kb/s"),
            Given::Fitted,
        ),
        model.part_of(
            "Fig 7: 60 %, s1 from 40 to 80 s",
            100.0,
            (heavy_low, heavy_high),
            "\"around\", within 10 %",
            |runs| mean(&runs.host[SIXTY], 42.5, 77.5),
        ),
        model.part_of(
            "Fig 7: 60 %, s1 settles below",
            125.0,
            (0.0, 0.5),
            "\"less than\" half of no load",
            |runs| mean(&runs.host[SIXTY], 85.0, 100.0),
        ),
        Test::new(
            "Co-processor, Fig 7: 60 %, 40 to 80 s, frames due at absolute times",
            "not tried",
            "none: the paper gives no number",
            Allowed::Unstated,
        )
        .by(
            Evidence::Simulated,
            interval(
                model.of(|runs| mean(&runs.absolute[SIXTY], 42.5, 77.5) / whole(&runs.host[NONE])),
                3,
                "of no load",
                false,
            ),
            model.of(|runs| mean(&runs.absolute[SIXTY], 42.5, 77.5)),
            format!(
                "{} against the scheduler above",
                interval(
                    model.of(|runs| {
                        mean(&runs.absolute[SIXTY], 42.5, 77.5)
                            - mean(&runs.host[SIXTY], 42.5, 77.5)
                    }),
                    0,
                    "kb/s",
                    true
                )
            ),
        ),
    ]
}

/// Judges the statements about Figure 8.
fn delays(model: &Model<'_>) -> Vec<Claim> {
    let added = |load: usize| {
        model.of(move |runs| (longest(&runs.host[load]) - longest(&runs.host[NONE])) / 1e3)
    };
    let (low, high) = ratio(30_000.0, 10_000.0, HALF_DELAY);
    let alike = model.of(|runs| {
        let [first, second] = [0, 1].map(|film| runs.host[SIXTY].films[film].len() as f64);
        first / second
    });
    vec![
        model.given(
            "Fig 8: no load, longest delay: the length of the buffer",
            "10,000 ms",
            (model.of(|runs| longest(&runs.host[NONE])), "ms"),
            Given::Fitted,
        ),
        model.judged(
            "Fig 8: 45 %, delay added by the load",
            ("around 2 s", 2.0),
            ("within 10 %: \"around\"".to_owned(), Allowed::near(2.0, 10.0)),
            added(FORTY_FIVE),
            (2, "s"),
        ),
        model.judged(
            "Fig 8: 60 %, longest delay relative to no load",
            ("30,000 of 10,000 ms, \"three times\"", 3.0),
            (
                format!("ratio {low:.2} to {high:.2}: delays to half a unit, 500 ms"),
                Allowed::Between(low, high),
            ),
            model.of(|runs| longest(&runs.host[SIXTY]) / longest(&runs.host[NONE])),
            (2, "of no load"),
        ),
        Test::new(
            "Co-processor, Figs 7 and 8: s1 and s2 at 60 %, frames",
            "two curves, no number",
            "none: the paper gives no number",
            Allowed::Unstated,
        )
        .by(
            Evidence::Simulated,
            interval(alike, 3, "s1 of s2", false),
            alike,
            format!("{} against equal", deviation(alike, 1.0)),
        ),
    ]
}

/// Figures 9 and 10.
fn network_interface(model: &Model<'_>) -> Vec<Claim> {
    let same = model.0.iter().all(|runs| {
        let times = |run: &Outcome| {
            run.films.each_ref().map(|film| film.iter().map(|sent| sent.at_ns).collect::<Vec<_>>())
        };
        runs.ni.iter().all(|run| times(run) == times(&runs.ni[NONE]))
    });
    vec![
        model.given(
            "Fig 9: NI, s1: the requested rate",
            "260 kb/s",
            (model.of(|runs| mean(&runs.ni[SIXTY], 20.0, 100.0)), "kb/s"),
            Given::Input,
        ),
        Claim::given(
            "Co-processor, Figs 9 and 10: the NI's schedule under load",
            "unaffected",
            if same { "identical: the model shares nothing with the host" } else { "changes" },
            Given::Input,
        ),
        model.judged(
            "Fig 10: NI, s1, longest delay",
            ("11,000 ms", 11_000.0),
            (
                "10,500 to 11,500 ms: delays to half a unit".to_owned(),
                Allowed::Between(11_000.0 - HALF_DELAY, 11_000.0 + HALF_DELAY),
            ),
            model.of(|runs| longest(&runs.ni[SIXTY])),
            (0, "ms"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{HALF_RATE, ratio, statements};
    use crate::claim::{Claim, Verdict};
    use crate::coprocessor::figures::Runs;

    #[test]
    fn ranges_of_ratios_follow_from_the_papers_precision() {
        let (low, high) = ratio(230.0, 250.0, HALF_RATE);
        assert!((low - 225.0 / 255.0).abs() < 1e-12 && (high - 235.0 / 245.0).abs() < 1e-12);
    }

    #[test]
    fn inputs_and_fitted_numbers_carry_no_verdict() {
        let claims = statements(&Runs::compute()[..6]);
        let given = claims.iter().filter(|claim| claim.verdict().is_none()).count();
        assert_eq!(given, 8);
        let added = |claim: &&Claim| claim.cells()[0].contains("45 %, delay added");
        let verdict = claims.iter().find(added).and_then(Claim::verdict);
        assert_eq!(verdict, Some(Verdict::Differs));
    }
}
