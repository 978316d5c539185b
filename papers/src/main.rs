//! Regenerates the papers' tables and figures (`make figures`), and checks them (`--check`).
//!
//! Each paper has a folder of scenarios and a module with the paper's claims, their criteria and
//! their measurement. The book's comparison of disciplines is generated here, too, and its page of
//! all claims. A run writes each folder's pages and figures as they are done. `--check` compares
//! instead, pages with the committed files and figures with `DIGESTS`, and fails if one differs. A
//! verdict never fails it: the values are compared, and a verdict follows from them. Long
//! experiments keep their runs in a file: `--check` repeats a few of them, and `--redraw` writes
//! pages and figures from the file.
//!
//! Usage: `millstream-papers [--only | --redraw | --check [NAME]]`. NAME is a paper or one of its
//! pages; `--only NAME` measures it.
//!
//! `--cards` measures ShareStreams' cards into `sharestreams/hardware` and needs Verilator. With
//! `--check` it compares with the committed measurements.
//!
//! `--coprocessor` measures the Co-processor paper's tables on this machine into
//! `coprocessor/measured`.
//!
//! `--router-costs` measures the Router paper's Table 1 on this machine into
//! `router/measured/functions.csv`.
//!
//! `--minbw-cycles SCHEDULER COUNT` runs COUNT decisions of a MinBW scheduler and prints the time
//! of one; `scripts/minbw-cost.py` makes a table of these times.

mod claim;
mod claims;
mod coprocessor;
mod digests;
mod disciplines;
mod experiment;
mod hilq;
mod hilq_accesses;
mod hilq_heaps;
mod hilq_order;
mod hilq_violations;
mod items;
mod minbw;
mod router;
mod sharestreams;
mod sharestreams_block;
mod sharestreams_cards;
mod sharestreams_delay;
mod sharestreams_hardware;
mod sharestreams_structures;
mod wrap;

use miette::{IntoDiagnostic, miette};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;
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
        Some("--router-costs") => {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("router");
            router::measure(&folder)?;
            return Ok(ExitCode::SUCCESS);
        }
        None | Some("--only") => Job::Measure,
        Some("--redraw") => Job::Redraw,
        Some("--check") => Job::Check,
        Some(other) => {
            return Err(miette!(
                "unknown argument `{other}`; use --only, --check, --redraw, --cards, \
                 --coprocessor, --router-costs or --minbw-cycles"
            ));
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let selected = env::args().nth(2);
    generate(root, job, selected.as_deref())
}

/// Computes a page; the argument is its folder.
type Computation = Box<dyn Fn(&Path) -> miette::Result<Page> + Sync>;

/// A generated page: its paper, its name, its folder and its computation.
struct PageJob {
    paper: &'static str,
    name: &'static str,
    folder: PathBuf,
    compute: Computation,
}

/// Returns the pages, the longest computations first.
fn page_jobs(root: &Path, job: Job) -> Vec<PageJob> {
    let page = |paper, name, compute: Computation| {
        let folder = match paper {
            "book" => root.with_file_name("docs").join("src"),
            _ => root.join(paper),
        };
        PageJob { paper, name, folder, compute }
    };
    vec![
        page("minbw", "minbw", Box::new(move |at| minbw::page(at, job))),
        page("router", "router", Box::new(router::page)),
        page("coprocessor", "coprocessor", Box::new(coprocessor::page)),
        page("hilq", "violations", Box::new(|_| hilq_violations::page())),
        page("hilq", "hilq", Box::new(|_| hilq::page())),
        page("hilq", "accesses", Box::new(|_| Ok(hilq_accesses::page()))),
        page("sharestreams", "sharestreams", Box::new(sharestreams::page)),
        page("sharestreams", "cards", Box::new(sharestreams_cards::page)),
        page("sharestreams", "hardware", Box::new(sharestreams_hardware::page)),
        page("sharestreams", "block", Box::new(|_| sharestreams_block::page())),
        page("sharestreams", "structures", Box::new(sharestreams_structures::page)),
        page(
            "book",
            "disciplines",
            Box::new(|at| disciplines::page(&at.join("../../examples/compare/scenario.toml"))),
        ),
    ]
}

/// Computes the selected pages on every core, and writes or compares each as it is done.
///
/// `selected` is a paper, a page, or PAPER/PAGE. `None` selects all pages and the page of all
/// claims.
fn generate(root: &Path, job: Job, selected: Option<&str>) -> miette::Result<ExitCode> {
    let all = page_jobs(root, job);
    let names = || all.iter().flat_map(|page| [page.paper, page.name]).collect::<BTreeSet<_>>();
    let is_selected = |page: &&PageJob| {
        selected.is_none_or(|of| match of.split_once('/') {
            Some(names) => names == (page.paper, page.name),
            None => of == page.paper || of == page.name,
        })
    };
    let jobs: Vec<&PageJob> = all.iter().filter(is_selected).collect();
    if jobs.is_empty() {
        let (name, names) = (selected.unwrap_or_default(), names());
        let names: Vec<&str> = names.into_iter().collect();
        return Err(miette!("unknown page `{name}`; use one of: {}", names.join(", ")));
    }
    // A full run records all figures again, which removes the digests of removed figures.
    let keep = job == Job::Check || selected.is_some();
    let digests = if keep { Digests::read(root)? } else { Digests::default() };
    let mut output = Output { root, job, digests, figures: BTreeSet::new(), stale: Vec::new() };
    let started = Instant::now();
    let mut claims = vec![Vec::new(); jobs.len()];
    in_parallel(&jobs, |at, page| {
        let PageJob { paper, name, folder, .. } = jobs[at];
        for (file, contents) in &page.files {
            output.put(folder, file, contents)?;
        }
        eprintln!("{paper}: {name} ({} s)", started.elapsed().as_secs());
        claims[at] = page.claims;
        Ok(())
    })?;
    let by_page = || jobs.iter().zip(&claims);
    if selected.is_none() {
        let folder = root.with_file_name("docs").join("src");
        let text = claims::page(by_page().map(|(of, claims)| (of.paper, claims.as_slice())));
        output.put(&folder, "claims.md", &text)?;
    }
    for claim in by_page().flat_map(|(_, claims)| claims) {
        let [what, paper, ours, kind, .., verdict] = claim.cells();
        println!("{verdict:12} {what}: paper {paper}, ours {ours} ({kind})");
    }
    output.finish(selected.is_none())
}

/// The folders and digests that pages are written to, or compared with.
struct Output<'a> {
    root: &'a Path,
    job: Job,
    digests: Digests,
    /// Figures of this run.
    figures: BTreeSet<String>,
    /// Files that differ from the committed ones.
    stale: Vec<String>,
}

impl Output<'_> {
    /// Writes a file, or compares it with the committed one.
    fn put(&mut self, folder: &Path, name: &str, contents: &str) -> miette::Result<()> {
        let path = folder.join(name);
        let contents = &if name.ends_with(".md") { wrapped(contents) } else { contents.to_owned() };
        let figure = figure_path(self.root, &path);
        if self.job == Job::Check {
            let matches = match &figure {
                Some(figure) => self.digests.matches(figure, contents),
                None => fs::read_to_string(&path).unwrap_or_default() == *contents,
            };
            if !matches {
                self.stale.push(name.to_owned());
            }
            self.figures.extend(figure);
            return Ok(());
        }
        fs::write(&path, contents).into_diagnostic()?;
        if let Some(figure) = figure {
            self.digests.set(figure, contents);
        }
        Ok(())
    }

    /// Writes the digests, or reports the files that differ. `all`: every page was computed.
    fn finish(mut self, all: bool) -> miette::Result<ExitCode> {
        if self.job != Job::Check {
            self.digests.write(self.root)?;
            return Ok(ExitCode::SUCCESS);
        }
        if all {
            let removed = self.digests.paths().filter(|path| !self.figures.contains(*path));
            self.stale.extend(removed.map(str::to_owned));
        }
        if self.stale.is_empty() {
            println!("every compared page and figure is up to date");
            return Ok(ExitCode::SUCCESS);
        }
        println!("out of date, run make figures: {}", self.stale.join(" "));
        Ok(ExitCode::FAILURE)
    }
}

/// Computes pages on every core; calls `done` on this thread with the number of each as it ends.
///
/// # Errors
/// Fails if a page or `done` fails.
fn in_parallel(
    jobs: &[&PageJob],
    mut done: impl FnMut(usize, Page) -> miette::Result<()>,
) -> miette::Result<()> {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    let worker = |send: mpsc::Sender<_>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { return };
            // The receiver is gone once a page has failed.
            if send.send((at, (job.compute)(&job.folder))).is_err() {
                return;
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            let send = send.clone();
            scope.spawn(|| worker(send));
        }
        drop(send);
        for (at, page) in receive {
            done(at, page?)?;
        }
        Ok(())
    })
}

/// Returns the path of a figure in the folder of the papers; `None` for every other file.
fn figure_path(papers: &Path, file: &Path) -> Option<String> {
    let path = file.strip_prefix(papers).ok()?;
    let is_figure = path.extension().is_some_and(|extension| extension == "svg");
    is_figure.then(|| path.to_string_lossy().into_owned())
}
