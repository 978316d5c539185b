//! The files that a run writes: opened before it starts, so that a wrong path costs no run, and
//! named when they are whole.

use millstream::{Departure, StreamId};
use millstream_report::{DeparturesWriter, Recorder};
use millstream_scenario::Scenario;
use millstream_sim::Listener;
use millstream_traffic::{CaptureWriter, FrameBytes, OutputFile, is_same_file};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use crate::progress::Progress;

/// What a flag writes to.
pub(crate) enum Output {
    /// `-`.
    Standard(BufWriter<Stdout>),
    File(OutputFile),
}

impl Output {
    /// Opens `path` for writing, `-` being standard output.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Standard(BufWriter::new(io::stdout())));
        }
        file(path).map(Self::File)
    }

    /// The whole result is there: syncs it and gives it its name.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Standard(mut stdout) => stdout.flush(),
            Self::File(file) => file.finish(),
        }
    }

    /// The run failed: keeps what there is as `FILE.partial`.
    pub(crate) fn keep_partial(self) -> io::Result<()> {
        match self {
            Self::Standard(mut stdout) => stdout.flush(),
            Self::File(file) => file.keep_partial(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(stdout) => stdout.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Standard(stdout) => stdout.write_all(bytes),
            Self::File(file) => file.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(stdout) => stdout.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

/// Opens the file that becomes `path`.
pub(crate) fn file(path: &Path) -> Result<OutputFile, Failure> {
    OutputFile::create(path).map_err(|error| Failure::file(path, &error))
}

/// Writes `text` to `path` whole, `name` being the flag for the message.
pub(crate) fn write(output: Output, name: &str, text: &str) -> Result<(), Failure> {
    let mut output = output;
    let written = output.write_all(text.as_bytes()).and_then(|()| output.finish());
    written.map_err(|error| Failure::output(name, &error))
}

/// Refuses outputs, each with its flag, that would overwrite each other or one of `inputs`.
pub(crate) fn refuse_collisions(
    outputs: &[(&str, Option<&Path>)],
    inputs: &[PathBuf],
) -> Result<(), Failure> {
    let given: Vec<_> =
        outputs.iter().filter_map(|(flag, path)| path.map(|path| (*flag, path))).collect();
    for (at, (flag, path)) in given.iter().enumerate() {
        if inputs.iter().any(|input| is_same_file(input, path)) {
            return Err(Failure::Input(miette::miette!(
                help = "give the output another name",
                "{flag} {} is an input of this run and would be overwritten",
                path.display()
            )));
        }
        if let Some((other, earlier)) =
            given[..at].iter().find(|(_, earlier)| collide(earlier, path))
        {
            return Err(Failure::Input(miette::miette!(
                help = "give each output a name of its own",
                "{other} {} and {flag} {} are one file",
                earlier.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

fn collide(a: &Path, b: &Path) -> bool {
    let standard = Path::new("-");
    let named = |path| if path == standard { Path::new("/dev/stdout") } else { path };
    (a == standard && b == standard) || is_same_file(named(a), named(b))
}

/// Collects what happens and writes what was asked for.
pub(crate) struct Outputs<'a> {
    pub(crate) recorder: Recorder,
    pub(crate) departures: Option<DeparturesWriter<Output>>,
    pub(crate) capture: Option<CaptureWriter>,
    pub(crate) progress: Progress,
    pub(crate) interrupted: &'a AtomicBool,
    /// The output that failed, for the message.
    pub(crate) failed: Option<&'static str>,
}

impl Outputs<'_> {
    /// The run has ended: gives its files their names. Returns the recorder.
    pub(crate) fn finish(self) -> Result<Recorder, Failure> {
        if let Some(departures) = self.departures {
            let finished = departures.into_inner().finish();
            finished.map_err(|error| Failure::output("--departures", &error))?;
        }
        if let Some(capture) = self.capture {
            capture.finish().map_err(|error| Failure::output("--pcap", &error))?;
        }
        Ok(self.recorder)
    }

    /// The run failed: what happened before is still worth having, under a name that says that it is
    /// not all.
    pub(crate) fn keep_partial(self) {
        // The failure of the run is what is told.
        let _ = self.departures.map(|departures| departures.into_inner().keep_partial());
        let _ = self.capture.map(CaptureWriter::keep_partial);
    }
}

impl Listener for Outputs<'_> {
    #[inline]
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        self.recorder.arrived(stream, time_ns, bytes);
    }

    #[inline]
    fn departed(&mut self, departure: &Departure, frame: Option<&FrameBytes>) -> io::Result<()> {
        self.recorder.departed(departure);
        self.progress.packet(departure.time_ns);
        if let Some(departures) = &mut self.departures {
            departures.write(departure).inspect_err(|_| self.failed = Some("--departures"))?;
        }
        if let (Some(capture), Some(frame)) = (&mut self.capture, frame)
            && departure.event == millstream::Event::Sent
        {
            capture.write(departure.time_ns, frame);
        }
        Ok(())
    }

    #[inline]
    fn missed(&mut self, stream: StreamId, time_ns: u64, missed: u64, violations: u64) {
        self.recorder.missed(stream, time_ns, missed, violations);
    }

    #[inline]
    fn busy(&mut self, from_ns: u64, to_ns: u64) {
        self.recorder.busy(from_ns, to_ns);
    }

    #[inline]
    fn stop(&mut self, _: u64) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// The scenario file and every file that its sources read.
pub(crate) fn inputs(scenario_file: &Path, scenario: &Scenario) -> Vec<PathBuf> {
    std::iter::once(scenario_file.to_path_buf()).chain(scenario.input_files()).collect()
}
