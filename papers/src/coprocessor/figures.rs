//! Figures 6 to 10 of the Co-processor paper, on the model.

use millstream_report::chart::Line;

use super::host::{Clock, LOADS, Outcome, Placement, SECONDS, run};
use crate::experiment::figure;

/// Averaging time of bandwidth, s.
const WINDOW: u64 = 5;

/// Averaging time of utilisation, s.
const SHORT: usize = 2;

/// Seeds of the web requests. The figures show the first.
pub(super) const SEEDS: u64 = 20;

/// The runs of all experiments with one seed, each with one run for each load of [`LOADS`].
pub(super) struct Runs {
    pub(super) host: Vec<Outcome>,
    pub(super) ni: Vec<Outcome>,
    /// On the host, with absolute frame times ([`Clock::Absolute`]).
    pub(super) absolute: Vec<Outcome>,
}

impl Runs {
    /// Runs all experiments with each seed.
    pub(super) fn compute() -> Vec<Self> {
        let with = |seed| {
            let all = |at, clock| LOADS.map(|load| run(load, at, clock, seed)).into();
            Self {
                host: all(Placement::Host, Clock::SinceLast),
                ni: all(Placement::Ni, Clock::SinceLast),
                absolute: all(Placement::Host, Clock::Absolute),
            }
        };
        (1..=SEEDS).map(with).collect()
    }

    /// Returns the figures: file, title, drawing.
    pub(super) fn draw(&self) -> miette::Result<Vec<(String, String, String)>> {
        let time = ("time (s)", false);
        let rate = ("bandwidth (kb/s)", false);
        let waits = ("queueing delay (ms)", false);
        let of_s1 = |runs: &[Outcome], line: fn(&Outcome, usize) -> Vec<(f64, f64)>| {
            let line = |(run, load): (&Outcome, &super::host::Load)| Line {
                name: format!("s1, {}", load.name),
                points: line(run, 0),
            };
            runs.iter().zip(&LOADS).map(line).collect::<Vec<_>>()
        };
        let with_s2 = |runs: &[Outcome], line: fn(&Outcome, usize) -> Vec<(f64, f64)>| {
            let mut lines = of_s1(runs, line);
            lines.push(Line { name: "s2, 60 %".to_owned(), points: line(&runs[2], 1) });
            lines
        };
        let used = self
            .host
            .iter()
            .zip(&LOADS)
            .map(|(run, load)| Line { name: load.name.to_owned(), points: utilisation(run) });
        let used: Vec<_> = used.collect();
        [
            ("fig6", "Fig 6: utilisation of the host", ("utilisation (%)", false), used),
            (
                "fig7",
                "Fig 7: bandwidth, scheduler on the host",
                rate,
                with_s2(&self.host, bandwidth),
            ),
            (
                "fig8",
                "Fig 8: queueing delay, scheduler on the host",
                waits,
                with_s2(&self.host, delay),
            ),
            ("fig9", "Fig 9: bandwidth, scheduler on the NI", rate, with_s2(&self.ni, bandwidth)),
            (
                "fig10",
                "Fig 10: queueing delay, scheduler on the NI",
                waits,
                with_s2(&self.ni, delay),
            ),
            (
                "clock",
                "Bandwidth, scheduler on the host with absolute frame times",
                rate,
                of_s1(&self.absolute, bandwidth),
            ),
        ]
        .into_iter()
        .map(|(file, title, axis, lines)| {
            let svg = figure(title, time, axis, &lines)?;
            Ok((format!("{file}.svg"), title.to_owned(), svg))
        })
        .collect()
    }
}

/// Returns the utilisation over time, %.
#[allow(clippy::cast_precision_loss)]
fn utilisation(run: &Outcome) -> Vec<(f64, f64)> {
    let mean = |(at, part): (usize, &[f64])| {
        let middle = at * SHORT + SHORT / 2;
        (middle as f64, 100.0 * part.iter().sum::<f64>() / part.len() as f64)
    };
    run.used.chunks(SHORT).enumerate().map(mean).collect()
}

/// Returns a film's bandwidth over time, kbit/s.
#[allow(clippy::cast_precision_loss)]
pub(super) fn bandwidth(run: &Outcome, film: usize) -> Vec<(f64, f64)> {
    let rate = |from: u64| {
        let inside = (from * 1_000_000_000)..((from + WINDOW) * 1_000_000_000);
        let frames = run.films[film].iter().filter(|sent| inside.contains(&sent.at_ns)).count();
        (from as f64 + WINDOW as f64 / 2.0, frames as f64 * 8.0 / WINDOW as f64)
    };
    (0..=SECONDS - WINDOW).map(rate).collect()
}

/// Returns the queueing delay of every tenth frame of a film over time, ms.
#[allow(clippy::cast_precision_loss)]
pub(super) fn delay(run: &Outcome, film: usize) -> Vec<(f64, f64)> {
    let frames = run.films[film].iter().step_by(10);
    frames.map(|sent| (sent.at_ns as f64 / 1e9, sent.delay_ns as f64 / 1e6)).collect()
}
