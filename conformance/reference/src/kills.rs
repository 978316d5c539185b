//! The kill matrix: the faults that each conformance trace detects.
//!
//! A trace kills a mutant if the mutant changes its departures CSV.

use std::fmt::Write as _;

use crate::link::run;
use crate::mutant::Mutant;
use crate::traces::{Trace, departures_csv};

/// The line before the summary in `conformance/README.md`.
pub const BEGIN: &str = "<!-- kill matrix: begin (written by make-traces) -->\n";
/// The line after it.
pub const END: &str = "<!-- kill matrix: end -->\n";

/// Returns the mutants that `trace` kills.
#[must_use]
pub fn killed_by(trace: &Trace) -> Vec<Mutant> {
    let departures = |mutant| departures_csv(&run(&trace.spec, &trace.arrivals, mutant));
    let expected = departures(None);
    let killed = |mutant: &Mutant| departures(Some(*mutant)) != expected;
    Mutant::ALL.iter().copied().filter(killed).collect()
}

/// Returns a summary of the matrix as Markdown: the number of mutants that each trace kills, and
/// the number of traces that kill each mutant with the first of them.
#[must_use]
pub fn summary(traces: &[Trace]) -> String {
    let kills: Vec<_> = traces.iter().map(killed_by).collect();
    let mut text = format!("| trace | kills of {} mutants |\n|---|---|\n", Mutant::ALL.len());
    for (trace, killed) in traces.iter().zip(&kills) {
        let _ = writeln!(text, "| `{}` | {} |", trace.name, killed.len());
    }
    let _ = writeln!(text, "\n| mutant | killed by, of {} traces | first |", traces.len());
    text.push_str("|---|---|---|\n");
    for mutant in Mutant::ALL {
        let killers: Vec<_> =
            traces.iter().zip(&kills).filter(|(_, killed)| killed.contains(mutant)).collect();
        let first = killers.first().map_or("none", |(trace, _)| trace.name.as_str());
        let _ = writeln!(text, "| {} | {} | `{first}` |", mutant.description(), killers.len());
    }
    text
}

/// Returns `readme` with the summary between [`BEGIN`] and [`END`] replaced; `None` without those
/// lines.
#[must_use]
pub fn replace_summary(readme: &str, summary: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, summary, END, after].concat())
}
