//! Output files of a run. They open before the run, so that a wrong path fails early, and get their
//! names when they are complete.

use millstream::{Departure, Event, Link, StreamId};
use millstream_report::{DelayBound, DeparturesWriter, FlentRecorder, Recorder};
use millstream_scenario::Scenario;
use millstream_sim::Listener;
use millstream_sim::network::NetworkReport;
use millstream_traffic::{CaptureWriter, FrameBytes, OutputFile, is_same_file};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use crate::progress::Progress;

/// The destination of an output flag.
pub(crate) enum Output {
    /// `-`.
    Standard(BufWriter<Stdout>),
    File(OutputFile),
}

impl Output {
    /// Opens `path` for writing; `-` is standard output.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Standard(BufWriter::new(io::stdout())));
        }
        file(path).map(Self::File)
    }

    /// Syncs the complete result and renames it.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Standard(mut stdout) => stdout.flush(),
            Self::File(file) => file.finish(),
        }
    }

    /// Keeps the incomplete result of a failed run as `FILE.partial`.
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

/// Opens the temporary file of `path`.
pub(crate) fn file(path: &Path) -> Result<OutputFile, Failure> {
    OutputFile::create(path).map_err(|error| Failure::file(path, &error))
}

/// Writes `text` to `path` atomically; errors name the flag `name`.
pub(crate) fn write(output: Output, name: &str, text: &str) -> Result<(), Failure> {
    let mut output = output;
    let written = output.write_all(text.as_bytes()).and_then(|()| output.finish());
    written.map_err(|error| Failure::output(name, &error))
}

/// Rejects outputs that are the same file as each other or as one of `inputs`.
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
                help = "give each output its own name",
                "{other} {} and {flag} {} are the same file",
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

/// Records a run and writes the requested outputs.
pub(crate) struct Outputs<'a> {
    pub(crate) recorder: Recorder,
    /// The bounds of the streams with their longest delays so far; empty without `--bounds`.
    pub(crate) bounds: Vec<Option<DelayBound>>,
    /// The last link that each stream passes.
    pub(crate) last_links: Vec<Link>,
    /// The links and sources of a network, at its end.
    pub(crate) network: Option<NetworkReport>,
    pub(crate) flent: Option<FlentRecorder>,
    pub(crate) departures: Option<DeparturesWriter<Output>>,
    pub(crate) capture: Option<CaptureWriter>,
    pub(crate) progress: Progress,
    pub(crate) interrupted: &'a AtomicBool,
    /// The flag of the output that failed, for the error message.
    pub(crate) failed: Option<&'static str>,
}

impl Outputs<'_> {
    /// Renames the files of a finished run. Returns the recorder.
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

    /// Keeps the events before a failure, as partial files.
    pub(crate) fn keep_partial(self) {
        // The failure of the run is reported instead.
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
        let at = departure.stream.index();
        if departure.event == Event::Sent
            && let Some(Some(bound)) = self.bounds.get_mut(at)
        {
            let end_ns = departure.time_ns + self.last_links[at].transmission_ns(departure.bytes);
            bound.longest_ns = bound.longest_ns.max(end_ns - departure.arrival_ns);
        }
        self.progress.packet(departure.time_ns);
        if let Some(departures) = &mut self.departures {
            departures.write(departure).inspect_err(|_| self.failed = Some("--departures"))?;
        }
        if let (Some(capture), Some(frame)) = (&mut self.capture, frame)
            && departure.event == Event::Sent
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
    fn round_trip(&mut self, stream: StreamId, now_ns: u64, rtt_ns: u64) {
        self.recorder.round_trip(stream, now_ns, rtt_ns);
        if let Some(flent) = &mut self.flent {
            flent.round_trip(stream, now_ns, rtt_ns);
        }
    }

    #[inline]
    fn delivered(&mut self, stream: StreamId, member: u32, now_ns: u64, bytes: u64) {
        if let Some(flent) = &mut self.flent {
            flent.delivered(stream, member, now_ns, bytes);
        }
    }

    fn network(&mut self, report: NetworkReport) {
        self.network = Some(report);
    }

    #[inline]
    fn stop(&mut self, _: u64) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Returns the scenario file and every file that its sources read.
pub(crate) fn inputs(scenario_file: &Path, scenario: &Scenario) -> Vec<PathBuf> {
    std::iter::once(scenario_file.to_path_buf()).chain(scenario.input_files()).collect()
}
