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

use std::fmt::Write as _;
use std::path::Path;

use self::figures::Curves;
use self::live::Live;
use self::statements::statements;
use crate::claim::{Claim, HEAD, Verdict, rows};
use crate::experiment::Page;

/// Measures Table 1 on this machine into `measured/functions.csv`.
pub(crate) fn measure(folder: &Path) -> miette::Result<()> {
    functions::measure(folder)
}

/// Returns the figures and the paper's statements; `folder` holds the measurements.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let curves = Curves::compute();
    let mut statements = statements(&curves);
    let live = Live::read(folder)?;
    let live_claims = live.claims(&curves);
    let (costs, cost_claims) = functions::section(folder)?;
    let mut text = String::from(include_str!("router/page.md"));
    let judged = [&statements.claims, &cost_claims, &live_claims];
    text += &counts(judged.into_iter().flatten());
    text += include_str!("router/conclusions.md");
    text += include_str!("router/criteria.md");
    text += HEAD;
    text += &rows(&statements.claims, "Router, ");
    text += "\n## Why the model differs\n\n| claim | reason |\n|---|---|\n";
    text += &statements.reasons;
    text += include_str!("router/overload.md");
    text += &curves.overload_rows();
    text += include_str!("router/functions.md");
    text += &costs;
    text += "\n";
    text += HEAD;
    text += &rows(&cost_claims, "Router, ");
    text += include_str!("router/live.md");
    text += HEAD;
    text += &rows(&live_claims, "Router, ");
    text += &live.tables(folder)?;
    text += "\n## Figures\n";
    statements.claims.extend(cost_claims);
    statements.claims.extend(live_claims);
    let mut page = Page { files: Vec::new(), claims: statements.claims };
    page.files.push(("model.csv".to_owned(), live::model(&curves)));
    let drawn = curves.draw()?.into_iter().chain(live::draw(folder, &curves)?);
    for (file, title, svg) in drawn {
        let _ = writeln!(text, "\n![{title}]({file})");
        page.files.push((file, svg));
    }
    page.files.push(("README.md".to_owned(), text));
    Ok(page)
}

/// Returns the heading of the conclusions and the numbers of verdicts.
fn counts<'a>(claims: impl Iterator<Item = &'a Claim>) -> String {
    let verdicts: Vec<_> = claims.map(Claim::verdict).collect();
    let of = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    format!(
        "\n## What follows\n\nOf {} numbers, {} are inputs or fitted. Of the others {} are \
         reproduced, {} differ, and {} cannot be decided.\n",
        verdicts.len(),
        of(None),
        of(Some(Verdict::Reproduced)),
        of(Some(Verdict::Differs)),
        of(Some(Verdict::CannotTell)),
    )
}
