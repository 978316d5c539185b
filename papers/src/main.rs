//! Regenerates the papers' tables and figures (`make figures`), and checks them (`--check`).
//!
//! Each paper has a folder of scenarios and a module that says what the paper claims and how it is
//! measured; the book's comparison of disciplines is made here, too. A run writes the folder's `README.md` and figures; with `--check` it compares instead,
//! and fails if a claim does not hold or a committed file is not what the code makes.

mod disciplines;
mod experiment;
mod hilq;
mod sharestreams;

use miette::{IntoDiagnostic, miette};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> miette::Result<ExitCode> {
    let check = match env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => return Err(miette!("unknown argument `{other}`; only --check is known")),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sharestreams = root.join("sharestreams");
    let hilq = root.join("hilq");
    let book = root.join("../docs/src");
    let pages = [
        (sharestreams::page(&sharestreams)?, &sharestreams),
        (hilq::page()?, &hilq),
        (disciplines::page(&root.join("../examples/compare/scenario.toml"))?, &book),
    ];
    let mut stale = Vec::new();
    for (name, contents, folder) in
        pages.iter().flat_map(|(page, at)| page.files.iter().map(move |(n, c)| (n, c, at)))
    {
        let path = folder.join(name);
        if !check {
            fs::write(&path, contents).into_diagnostic()?;
        } else if fs::read_to_string(&path).unwrap_or_default() != *contents {
            stale.push(name.as_str());
        }
    }
    let claims = || pages.iter().flat_map(|(page, _)| &page.claims);
    for claim in claims() {
        let verdict = if claim.holds { "holds" } else { "DIFFERS" };
        println!("{verdict:8} {}: paper {}, ours {}", claim.what, claim.paper, claim.ours);
    }
    if !stale.is_empty() {
        println!("out of date, run make figures: {}", stale.join(" "));
    }
    let passed = stale.is_empty() && claims().all(|claim| claim.holds);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
