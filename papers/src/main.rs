//! Regenerates the papers' tables and figures (`make figures`), and checks them (`--check`).
//!
//! Each paper has a folder of scenarios and a module with the paper's claims and their measurement.
//! The book's comparison of disciplines is generated here, too. A run writes each folder's pages
//! and figures. `--check` compares instead, pages with the committed files and figures with
//! `DIGESTS`, and fails if a claim does not hold or a page or figure differs. Long experiments keep
//! their runs in a file: `--check` repeats a few of them, and `--redraw` writes pages and figures
//! from the file. After either, `hardware`, `cards`, `block`, `router` or `coprocessor` selects one
//! page.
//!
//! `--cards` measures ShareStreams' cards into `sharestreams/hardware` and needs Verilator. With
//! `--check` it compares with the committed measurements.
//!
//! `--coprocessor` measures the Co-processor paper's tables on this machine into
//! `coprocessor/measured`.
//!
//! `--minbw-cycles SCHEDULER COUNT` runs COUNT decisions of a MinBW scheduler and prints the time
//! of one; `scripts/minbw-cost.py` makes a table of these times.

mod coprocessor;
mod digests;
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
mod wrap;

use miette::{IntoDiagnostic, miette};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use crate::digests::Digests;
use crate::experiment::Page;
use crate::wrap::wrapped;

/// What a run does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// Runs all experiments; writes pages and figures.
    Measure,
    /// Writes pages and figures; reads the runs of long experiments from their files.
    Redraw,
    /// Compares pages and figures; reads the runs of long experiments from their files.
    Check,
}

fn main() -> miette::Result<ExitCode> {
    let job = match env::args().nth(1).as_deref() {
        Some("--minbw-cycles") => {
            let ns = minbw::cycles(env::args().nth(2).as_deref(), env::args().nth(3).as_deref())?;
            println!("{ns:.2}");
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
                "unknown argument `{other}`; use --check, --redraw, --cards, --coprocessor or \
                 --minbw-cycles"
            ));
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sharestreams = root.join("sharestreams");
    let hilq = root.join("hilq");
    let minbw = root.join("minbw");
    let router = root.join("router");
    let coprocessor = root.join("coprocessor");
    let book = root.with_file_name("docs").join("src");
    let hardware =
        || Ok::<_, miette::Report>((sharestreams_hardware::page(&sharestreams)?, &sharestreams));
    let only = env::args().nth(2);
    let pages = match only.as_deref() {
        Some("hardware") => vec![hardware()?],
        Some("cards") => vec![(sharestreams_cards::page(&sharestreams)?, &sharestreams)],
        Some("block") => vec![(sharestreams_block::page()?, &sharestreams)],
        Some("router") => vec![(router::page(&router)?, &router)],
        Some("coprocessor") => vec![(coprocessor::page(&coprocessor)?, &coprocessor)],
        Some(other) => {
            return Err(miette!(
                "unknown page `{other}`; use `hardware`, `cards`, `block`, `router` or \
                 `coprocessor`"
            ));
        }
        None => {
            let compare = root.join("../examples/compare/scenario.toml");
            in_parallel(&[
                (&|| minbw::page(&minbw, job), &minbw),
                (&hilq::page, &hilq),
                (&|| sharestreams::page(&sharestreams), &sharestreams),
                (&|| sharestreams_cards::page(&sharestreams), &sharestreams),
                (&|| sharestreams_hardware::page(&sharestreams), &sharestreams),
                (&sharestreams_block::page, &sharestreams),
                (&|| Ok(hilq_accesses::page()), &hilq),
                (&hilq_violations::page, &hilq),
                (&|| router::page(&router), &router),
                (&|| coprocessor::page(&coprocessor), &coprocessor),
                (&|| disciplines::page(&compare), &book),
            ])?
        }
    };
    // A full run records all figures again, which removes the digests of removed figures.
    let keep = job == Job::Check || only.is_some();
    let mut digests = if keep { Digests::read(root)? } else { Digests::default() };
    let mut stale = Vec::new();
    let mut figures = BTreeSet::new();
    for (name, contents, folder) in
        pages.iter().flat_map(|(page, at)| page.files.iter().map(move |(n, c)| (n, c, at)))
    {
        let path = folder.join(name);
        let contents = &if name.ends_with(".md") { wrapped(contents) } else { contents.clone() };
        let figure = figure_path(root, &path);
        let matches = match &figure {
            Some(figure) => digests.matches(figure, contents),
            None => fs::read_to_string(&path).unwrap_or_default() == *contents,
        };
        if job != Job::Check {
            fs::write(&path, contents).into_diagnostic()?;
            if let Some(figure) = figure {
                digests.set(figure, contents);
            }
            continue;
        }
        if !matches {
            stale.push(name.as_str());
        }
        figures.extend(figure);
    }
    if job != Job::Check {
        digests.write(root)?;
    } else if only.is_none() {
        stale.extend(digests.paths().filter(|path| !figures.contains(*path)));
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

/// The computation of a page, and its folder.
type PageJob<'a, 'p> = (&'a (dyn Fn() -> miette::Result<Page> + Sync), &'p PathBuf);

/// Computes pages on every core; returns them in the order of `jobs`.
///
/// # Errors
/// If a page fails.
fn in_parallel<'p>(jobs: &[PageJob<'_, 'p>]) -> miette::Result<Vec<(Page, &'p PathBuf)>> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((page, _)) = jobs.get(at) else { return done };
            done.push((at, page()));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut done = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            done.extend(worker.join().map_err(|_| miette!("a page panicked"))?);
        }
        Ok::<_, miette::Report>(())
    })?;
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(at, page)| Ok((page?, jobs[at].1))).collect()
}

/// The path of a figure in the folder of the papers; `None` for every other file.
fn figure_path(papers: &Path, file: &Path) -> Option<String> {
    let path = file.strip_prefix(papers).ok()?;
    let is_figure = path.extension().is_some_and(|extension| extension == "svg");
    is_figure.then(|| path.to_string_lossy().into_owned())
}
