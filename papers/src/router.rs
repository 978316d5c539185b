//! The Router paper's experiments on a model of its machine and on the live router.
//!
//! `make paper-router` measures the live router.

mod estimates;
mod experiments;
mod figures;
mod functions;
mod live;
mod machine;
mod statements;

use miette::IntoDiagnostic as _;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use self::figures::Curves;
use self::statements::statements;
use crate::claim::{HEAD, rows};
use crate::experiment::Page;

/// Measures Table 1 on this machine into `measured/functions.csv`.
pub(crate) fn measure(folder: &Path) -> miette::Result<()> {
    functions::measure(folder)
}

/// Returns the figures and the paper's statements; `folder` holds the measurements.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let curves = Curves::compute();
    let statements = statements(&curves);
    let mut text = String::from(include_str!("router/page.md"));
    text += include_str!("router/criteria.md");
    text += HEAD;
    text += &rows(&statements.claims, "Router, ");
    text += "\n## Why the model differs\n\n| claim | reason |\n|---|---|\n";
    text += &statements.reasons;
    text += include_str!("router/overload.md");
    text += &curves.overload_rows();
    text += include_str!("router/live.md");
    text += &fs::read_to_string(folder.join("measured/live.txt")).into_diagnostic()?;
    text += "\n## Figures\n";
    let mut page = Page { files: Vec::new(), claims: statements.claims };
    let drawn = curves.draw()?.into_iter().chain(live::draw(folder, &curves)?);
    for (file, title, svg) in drawn {
        let _ = writeln!(text, "\n![{title}]({file})");
        page.files.push((file, svg));
    }
    page.files.push(("README.md".to_owned(), text));
    Ok(page)
}
