//! The Co-processor paper: Figures 6 to 10 on a model of its server and on the live server, and
//! Tables 1 to 5 on today's machine.
//!
//! Measurements are in `coprocessor/measured`; the page is generated from them and the model.

mod figures;
mod floating;
mod host;
mod live;
mod paths;
mod statements;
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
    let statements = statements::statements(&runs);
    let live = live::Live::read(folder)?;
    let mut claims = statements.claims;
    let live_claims = live.claims();
    let mut text = String::from(include_str!("coprocessor/page.md"));
    let table = |text: &mut String, claims: &[Claim]| {
        *text += HEAD;
        *text += &rows(claims, "Co-processor, ");
    };
    text += "\n## The model and the paper\n\n";
    table(&mut text, &claims);
    text += "\nWhere the model differs:\n\n| | the paper | the model | why |\n|---|---|---|---|\n";
    text += &statements.differences;
    let mut files = Vec::new();
    for (file, title, svg) in runs.draw()? {
        let _ = writeln!(text, "\n![{title}]({file})");
        files.push((file, svg));
    }
    text += include_str!("coprocessor/live.md");
    table(&mut text, &live_claims);
    text += &live.summary();
    for (file, title, svg) in live.draw()? {
        let _ = writeln!(text, "\n![{title}]({file})");
        files.push((file, svg));
    }
    text += &statements::tables(folder)?;
    claims.extend(live_claims);
    files.push(("README.md".to_owned(), text));
    Ok(Page { files, claims })
}
