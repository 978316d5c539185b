//! The book's page of all claims: one row a claim of the five papers.

use std::fmt::Write as _;

use crate::claim::{Claim, HEAD, Verdict, rows};

/// The papers in the order of the page: folder, name.
const PAPERS: [(&str, &str); 5] = [
    ("sharestreams", "ShareStreams"),
    ("minbw", "MinBW"),
    ("hilq", "HILQ"),
    ("router", "Router"),
    ("coprocessor", "Co-processor"),
];

/// Returns the page; `by_page` holds the claims of each page with its paper's folder.
pub(crate) fn page<'a>(by_page: impl Iterator<Item = (&'static str, &'a [Claim])>) -> String {
    let by_page: Vec<_> = by_page.collect();
    let of = |folder: &str| {
        let pages = by_page.iter().filter(|(paper, _)| *paper == folder);
        pages.flat_map(|(_, claims)| claims.iter()).collect::<Vec<_>>()
    };
    let mut text = String::from(
        "# Every claim of the five papers, judged\n\n\
         A claim is **reproduced** if all of our interval meets its criterion, **differs** if none \
         of it does, and **cannot tell** otherwise. The criterion is written down before the run, \
         from the paper's own figure and its precision. *Measured* numbers depend on a machine, \
         *simulated* and *computed* ones do not. **Fitted** numbers were chosen to meet the paper \
         and **inputs** are settings: they have no verdict. `make test` compares the values, never \
         the verdicts.\n\n\
         | paper | reproduced | differs | cannot tell | fitted or input | command |\n\
         |---|---:|---:|---:|---:|---|\n",
    );
    for (folder, name) in PAPERS {
        let claims = of(folder);
        let count = |verdict| claims.iter().filter(|claim| claim.verdict() == verdict).count();
        let _ = writeln!(
            text,
            "| [{name}](../../papers/{folder}/README.md) | {} | {} | {} | {} | `make figures \
             PAPER={folder}` |",
            count(Some(Verdict::Reproduced)),
            count(Some(Verdict::Differs)),
            count(Some(Verdict::CannotTell)),
            count(None),
        );
    }
    for (folder, name) in PAPERS {
        let _ = write!(text, "\n## {name}\n\n{HEAD}");
        text += &rows(of(folder), &format!("{name}, "));
    }
    text
}
