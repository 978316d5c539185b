//! The Router paper's experiments on the router's model machine.

mod experiments;
mod figures;
mod machine;
mod statements;

use std::fmt::Write as _;

use self::figures::Curves;
use self::statements::statements;
use crate::experiment::{Page, rows};

/// Figures and the paper's statements.
pub(crate) fn page() -> miette::Result<Page> {
    let curves = Curves::compute();
    let of = statements(&curves);
    let mut text = String::from(include_str!("router/page.md"));
    text += "\n## What the paper says\n\nRates hold if they are within 5 %.\n\n\
             | | the paper | here | |\n|---|---|---|---|\n";
    text += &rows(&of.claims, "Router, ");
    text += "\n## Where the model differs\n\n| | the paper | here | why |\n|---|---|---|---|\n";
    text += &of.differences;
    text += "\n## Figures\n";
    let mut page = Page { files: Vec::new(), claims: of.claims };
    for (file, title, svg) in curves.draw()? {
        let _ = writeln!(text, "\n![{title}]({file})");
        page.files.push((file, svg));
    }
    page.files.push(("README.md".to_owned(), text));
    Ok(page)
}
