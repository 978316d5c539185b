//! The Co-processor paper: Figures 6 to 10 on a model of its server and on the live server, and
//! Tables 1 to 5 on today's machine.
//!
//! Measurements are in `coprocessor/measured`; the page is generated from them and the model.

mod figures;
mod floating;
mod host;
mod judge;
mod live;
mod paths;
mod statements;
mod table_text;
mod tables;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use miette::{IntoDiagnostic, WrapErr};

use self::figures::Runs;
use crate::claim::{Claim, HEAD, rows};
use crate::experiment::Page;

/// Measures Tables 1 to 5 on this machine into `measured/`.
pub(crate) fn measure(folder: &Path) -> miette::Result<()> {
    let film = folder.join("../../examples/data/clip.mpg");
    let scheduler = tables::scheduler().into_diagnostic().wrap_err("the scheduler's cost")?;
    let paths = paths::paths(&film).into_diagnostic().wrap_err("paths from the disk")?;
    let measured = folder.join("measured");
    fs::write(measured.join("scheduler.csv"), scheduler).into_diagnostic()?;
    fs::write(measured.join("paths.csv"), paths).into_diagnostic()
}

/// Returns the time since `since`, ns.
fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the page with its figures and the paper's statements.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let runs = Runs::compute();
    let live = live::Live::read(folder)?;
    let tables = table_text::Tables::read(folder)?;
    let mut text = String::from(include_str!("coprocessor/page.md"));
    let mut claims = Vec::new();
    let mut files = Vec::new();
    let mut judged = |text: &mut String, of: Vec<Claim>| {
        *text += HEAD;
        *text += &rows(&of, "Co-processor, ");
        claims.extend(of);
    };
    let mut drawn = |text: &mut String, figures: Vec<(String, String, String)>| {
        for (file, title, svg) in figures {
            let _ = writeln!(text, "\n![{title}]({file})");
            files.push((file, svg));
        }
    };
    text += "\n## The model and the paper\n\n";
    judged(&mut text, statements::statements(&runs));
    drawn(&mut text, runs[0].draw()?);
    text += include_str!("coprocessor/live.md");
    text += &live.summary();
    text += &live.effects();
    text.push('\n');
    judged(&mut text, live.claims());
    drawn(&mut text, live.draw()?);
    text += &tables.text()?;
    text += "\n## Statements about the tables\n\n";
    judged(&mut text, tables.claims()?);
    files.push(("README.md".to_owned(), text));
    Ok(Page { files, claims })
}
