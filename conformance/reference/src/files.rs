//! The files of the conformance traces, committed or generated on demand.
//!
//! `traces/` holds the traces for readers. The `dwcs-options-*` traces are the same streams under
//! every combination of options, so the repository holds only the digests of their files
//! (`conformance/DIGESTS`). Tests generate them in memory; `make traces` writes them to
//! `target/traces`.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::{run, shares, traces};

/// The files of one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFiles {
    /// The name of the trace and of its folder.
    pub name: String,
    /// Names and contents of the files.
    pub files: [(&'static str, String); 3],
}

impl TraceFiles {
    /// Returns whether the repository holds only the digests of this trace.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.name.starts_with("dwcs-options-")
    }

    /// Writes the files to `folder`/NAME.
    ///
    /// # Errors
    /// If the folder or a file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let folder = folder.join(&self.name);
        fs::create_dir_all(&folder)?;
        self.files.iter().try_for_each(|(file, text)| fs::write(folder.join(file), text))
    }
}

/// Returns the files of all traces.
#[must_use]
pub fn all() -> Vec<TraceFiles> {
    let single = traces::all().into_iter().map(|trace| {
        let outcome = run(&trace.spec, &trace.arrivals, None);
        let (scenario, arrivals) = (trace.scenario(), trace.arrivals_csv());
        trace_files(trace.name, scenario, arrivals, traces::departures_csv(&outcome))
    });
    let shared = shares::all().into_iter().map(|trace| {
        let (scenario, arrivals) = (trace.scenario(), trace.arrivals_csv());
        let departures = trace.departures_csv();
        trace_files(trace.name, scenario, arrivals, departures)
    });
    single.chain(shared).collect()
}

/// Returns the files of the traces that the repository does not hold.
#[must_use]
pub fn generated() -> Vec<TraceFiles> {
    all().into_iter().filter(TraceFiles::is_generated).collect()
}

/// Returns the digests of these files, one per line, in the format of `sha256sum`.
#[must_use]
pub fn digests(traces: &[TraceFiles]) -> String {
    let mut lines = Vec::new();
    for trace in traces {
        for (file, text) in &trace.files {
            let mut line = String::new();
            for byte in Sha256::digest(text) {
                let _ = write!(line, "{byte:02x}");
            }
            lines.push((format!("{}/{file}", trace.name), line));
        }
    }
    lines.sort();
    lines
        .into_iter()
        .fold(String::new(), |text, (path, digest)| text + &format!("{digest}  {path}\n"))
}

fn trace_files(
    name: impl Into<String>,
    scenario: String,
    arrivals: String,
    departures: String,
) -> TraceFiles {
    let files =
        [("scenario.toml", scenario), ("arrivals.csv", arrivals), ("departures.csv", departures)];
    TraceFiles { name: name.into(), files }
}
