//! Runs one scenario, link or fabric, and returns its summary.

use millstream::{Departure, StreamId};
use millstream_report::{Recorder, RecorderOptions};
use millstream_scenario::{Scenario, ScenarioError};
use millstream_sim::fabric::{FabricError, PrepareError};
use millstream_sim::network::NetworkReport;
use millstream_sim::{Listener, RunError, link};
use millstream_traffic::{FrameBytes, TrafficError};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fabric::FabricRun;
use crate::network::network_summary;
use crate::outcome::Outcome;

/// The reason a run failed, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunFailure(String);

impl RunFailure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<TrafficError> for RunFailure {
    fn from(error: TrafficError) -> Self {
        match &error.help {
            Some(help) => Self(format!("{error}; {help}")),
            None => Self(error.to_string()),
        }
    }
}

impl From<RunError> for RunFailure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Traffic(error) => error.into(),
            RunError::Output(_) | RunError::Hardware => Self(error.to_string()),
        }
    }
}

impl From<PrepareError> for RunFailure {
    fn from(error: PrepareError) -> Self {
        Self(error.to_string())
    }
}

impl From<FabricError> for RunFailure {
    fn from(error: FabricError) -> Self {
        Self(error.to_string())
    }
}

impl From<ScenarioError> for RunFailure {
    fn from(error: ScenarioError) -> Self {
        let problems = error.problems.iter().map(|problem| match &problem.help {
            Some(help) => format!("{} ({help})", problem.message),
            None => problem.message.clone(),
        });
        Self(problems.collect::<Vec<_>>().join("; "))
    }
}

/// A listener that records a run and stops it on request.
struct Recording<'a> {
    recorder: Recorder,
    network: Option<NetworkReport>,
    stop: &'a AtomicBool,
}

impl Listener for Recording<'_> {
    #[inline]
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        self.recorder.arrived(stream, time_ns, bytes);
    }

    #[inline]
    fn departed(&mut self, departure: &Departure, _: Option<&FrameBytes>) -> io::Result<()> {
        self.recorder.departed(departure);
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

    fn network(&mut self, report: NetworkReport) {
        self.network = Some(report);
    }

    #[inline]
    fn stop(&mut self, _: u64) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs `scenario` to its end; returns `None` if `stop` was set before that.
///
/// # Errors
/// Fails if an input cannot be read or the fabric cannot be simulated.
pub fn run(scenario: &Scenario, stop: &AtomicBool) -> Result<Option<Outcome>, RunFailure> {
    let outcome = if scenario.fabric.is_some() {
        let mut run = FabricRun::new(scenario)?;
        while !stop.load(Ordering::Relaxed) && run.step()? {}
        Outcome::Fabric(run.summary(scenario))
    } else {
        let names = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
        let mut input = millstream_scenario::open(scenario, false)?;
        let recorder = Recorder::new(names, RecorderOptions { series: false });
        let mut recording = Recording { recorder, network: None, stop };
        let end = link::run(scenario, input.feed.as_mut(), &mut recording)?;
        let mut results = recording.recorder.finish(end.end_ns);
        results.network = recording.network.map(|report| network_summary(&report, end.end_ns));
        Outcome::Link(results.summary(&scenario.name))
    };
    Ok((!stop.load(Ordering::Relaxed)).then_some(outcome))
}
