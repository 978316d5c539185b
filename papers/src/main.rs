//! Regenerates the papers' tables and figures (`make figures`), and checks them (`--check`).
//!
//! Each paper has a folder of scenarios and a module that says what the paper claims and how it is
//! measured; the book's comparison of disciplines is made here, too. A run writes the folder's
//! `README.md` and figures; with `--check` it compares instead, and fails if a claim does not hold or
//! a committed file is not what the code makes. Experiments that take minutes keep their runs in a
//! file: `--check` repeats a few of them, and `--redraw` writes pages from the file. After either,
//! `hardware`, `cards`, `block`, `router` or `coprocessor` means that page alone.
//!
//! `--cards` measures ShareStreams' cards, which needs Verilator, into `sharestreams/hardware`; with
//! `--check` it compares with what is there.
//!
//! `--coprocessor` measures the Co-processor paper's tables on this machine into `coprocessor/measured`.
//!
//! `--minbw-cycles SCHEDULER COUNT` runs so many decisions of one of MinBW's schedulers and prints
//! what each took; `scripts/minbw-cost.py` makes a table of it.

mod coprocessor;
mod disciplines;
mod experiment;
mod hilq;
mod hilq_accesses;
mod hilq_heaps;
mod hilq_order;
mod hilq_violations;
mod minbw;
mod router;
mod sharestreams;
mod sharestreams_block;
mod sharestreams_cards;
mod sharestreams_hardware;

use miette::{IntoDiagnostic, miette};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// Run everything, write everything.
    Measure,
    /// Write everything, but take long experiments' runs from their files.
    Redraw,
    /// Compare with what is there; likewise.
    Check,
}

fn main() -> miette::Result<ExitCode> {
    let job = match env::args().nth(1).as_deref() {
        Some("--minbw-cycles") => {
            let ns = minbw::cycles(env::args().nth(2).as_deref(), env::args().nth(3).as_deref())?;
            println!("{ns:.2}");
            return Ok(ExitCode::SUCCESS);
        }
        Some("--probe") => {
            return Ok(ExitCode::SUCCESS);
        }
        Some("--cards") => {
            let check = env::args().nth(2).as_deref() == Some("--check");
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sharestreams");
            let same = sharestreams_cards::measure(&folder, check)?;
            return Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Some("--coprocessor") => {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("coprocessor");
            coprocessor::measure(&folder)?;
            return Ok(ExitCode::SUCCESS);
        }
        None => Job::Measure,
        Some("--redraw") => Job::Redraw,
        Some("--check") => Job::Check,
        Some(other) => {
            return Err(miette!(
                "unknown argument `{other}`; --check, --redraw, --cards, --coprocessor and --minbw-cycles are known"
            ));
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sharestreams = root.join("sharestreams");
    let hilq = root.join("hilq");
    let minbw = root.join("minbw");
    let router = root.join("router");
    let coprocessor = root.join("coprocessor");
    let book = root.join("../docs/src");
    let hardware =
        || Ok::<_, miette::Report>((sharestreams_hardware::page(&sharestreams)?, &sharestreams));
    let pages = match env::args().nth(2).as_deref() {
        Some("hardware") => vec![hardware()?],
        Some("cards") => vec![(sharestreams_cards::page(&sharestreams)?, &sharestreams)],
        Some("block") => vec![(sharestreams_block::page()?, &sharestreams)],
        Some("router") => vec![(router::page(&router)?, &router)],
        Some("coprocessor") => vec![(coprocessor::page(&coprocessor)?, &coprocessor)],
        Some(other) => {
            return Err(miette!(
                "unknown page `{other}`; `hardware`, `cards`, `block`, `router` and `coprocessor` are known"
            ));
        }
        None => vec![
            (sharestreams::page(&sharestreams)?, &sharestreams),
            (sharestreams_cards::page(&sharestreams)?, &sharestreams),
            hardware()?,
            (sharestreams_block::page()?, &sharestreams),
            (hilq::page()?, &hilq),
            (hilq_accesses::page(), &hilq),
            (hilq_violations::page()?, &hilq),
            (minbw::page(&minbw, job)?, &minbw),
            (router::page(&router)?, &router),
            (coprocessor::page(&coprocessor)?, &coprocessor),
            (disciplines::page(&root.join("../examples/compare/scenario.toml"))?, &book),
        ],
    };
    let mut stale = Vec::new();
    for (name, contents, folder) in
        pages.iter().flat_map(|(page, at)| page.files.iter().map(move |(n, c)| (n, c, at)))
    {
        let path = folder.join(name);
        if job != Job::Check {
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
