//! Figures 7 to 9 of the live router and the model, from the points of `measured/costs.csv`.
//!
//! `make paper-router` writes the file. Each flow's rate is a fraction of its offered load, so both
//! share an axis.

use millstream_report::chart::Line;
use std::path::Path;

use super::figures::Curves;
use crate::experiment::{figure, measured};

/// The flows, and their offered loads in the paper, Kpps.
const FLOWS: [(&str, f64); 3] = [("A", 50.0), ("B", 90.0), ("C", 90.0)];
/// Columns after the batching mode: the cost of A's packets, µs of the paper's, and the first
/// flow's rate.
const COST: usize = 0;
const FIRST: usize = 1;
/// Figures 7, 8 and 9: their titles, and their names in the file.
const FIGURES: [(&str, &str); 3] = [
    ("Fig 7, live: simple batching", "simple batching"),
    ("Fig 8, live: no batching", "no batching"),
    ("Fig 9, live: batches of 30 µs", "batches of 30 µs"),
];

/// Returns the figures: file names, titles and drawings.
pub(super) fn draw(
    folder: &Path,
    curves: &Curves,
) -> miette::Result<Vec<(String, String, String)>> {
    let rows = measured(folder, "costs.csv", 1)?;
    let mut drawn = Vec::new();
    for (at, (title, batching)) in FIGURES.into_iter().enumerate() {
        let of_batching = || rows.iter().filter(|(name, _)| name == batching).map(|(_, row)| row);
        let mut lines = Vec::new();
        for (flow, (name, offered)) in FLOWS.into_iter().enumerate() {
            let model = curves.costs[at][flow].iter().map(|(us, kpps)| (*us, kpps / offered));
            let live = of_batching().map(|row| (row[COST], row[FIRST + flow]));
            lines.push(Line { name: format!("{name}, live"), points: live.collect() });
            lines.push(Line { name: format!("{name}, model"), points: model.collect() });
        }
        let axis = ("forwarded / offered", false);
        let svg = figure(title, ("cost of A's packets (µs of the paper's)", false), axis, &lines)?;
        drawn.push((format!("live-fig{}.svg", at + 7), title.to_owned(), svg));
    }
    Ok(drawn)
}
