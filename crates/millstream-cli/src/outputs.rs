//! The files that a run writes: opened before it starts, so that a wrong path costs no run.

use millstream::{Departure, StreamId};
use millstream_report::{DeparturesWriter, Recorder};
use millstream_scenario::Scenario;
use millstream_sim::Listener;
use millstream_traffic::{CaptureWriter, FrameBytes};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use crate::progress::Progress;

/// Opens `path` for writing, `-` being standard output; refuses to overwrite one of `inputs`.
pub(crate) fn create(path: &Path, inputs: &[PathBuf]) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    refuse_input(path, inputs)?;
    let file = File::create(path)
        .map_err(|error| Failure::Input(miette::miette!("{}: {error}", path.display())))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 16, file)))
}

/// An output that is also an input would destroy it.
pub(crate) fn refuse_input(path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let same = |input: &PathBuf| matches!((input.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if inputs.iter().any(same) {
        let path = path.display();
        return Err(Failure::Input(miette::miette!(
            help = "give the output another name",
            "{path} is an input of this run and would be overwritten"
        )));
    }
    Ok(())
}

/// Collects what happens and writes what was asked for.
pub(crate) struct Outputs<'a> {
    pub(crate) recorder: Recorder,
    pub(crate) departures: Option<DeparturesWriter<Box<dyn Write>>>,
    pub(crate) capture: Option<CaptureWriter>,
    pub(crate) progress: Progress,
    pub(crate) interrupted: &'a AtomicBool,
    /// The output that failed, for the message.
    pub(crate) failed: Option<&'static str>,
}

impl Outputs<'_> {
    /// Flushes everything that was written so far.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if let Some(departures) = &mut self.departures {
            departures.flush().map_err(|error| Failure::output("--departures", &error))?;
        }
        if let Some(capture) = &mut self.capture {
            capture.flush()?;
        }
        Ok(())
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
