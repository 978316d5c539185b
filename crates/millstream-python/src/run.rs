//! Runs a scenario on its simulated link or fabric, and holds the results.

use arrow_schema::ArrowError;
use millstream::{Departure, StreamId};
use millstream_report::{
    FabricSummary, Recorder, RecorderOptions, ReportInput, Results, fabric_table,
};
use millstream_scenario::Scenario;
use millstream_sim::network::NetworkReport;
use millstream_sim::{Listener, RunError, link};
use millstream_sweep::RunFailure;
use millstream_sweep::fabric::{FabricPageRecorder, FabricRun};
use millstream_traffic::{FrameBytes, OutputFile, write_file};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::departures::{Collector, Departures, arrow};
use crate::errors;
use crate::periodic::PeriodicTask;

/// Requested results beside the summary.
#[derive(Clone, Copy)]
pub(crate) struct Requested {
    /// Every departure.
    pub(crate) departures: bool,
    /// Time series, for the report.
    pub(crate) series: bool,
}

/// Records the events of a run.
struct Recording {
    recorder: Recorder,
    network: Option<NetworkReport>,
    departures: Option<Collector>,
    periodic: PeriodicTask,
}

impl Listener for Recording {
    #[inline]
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        self.recorder.arrived(stream, time_ns, bytes);
    }

    #[inline]
    fn departed(&mut self, departure: &Departure, _: Option<&FrameBytes>) -> io::Result<()> {
        self.recorder.departed(departure);
        match &mut self.departures {
            Some(departures) => departures.push(departure).map_err(io::Error::other),
            None => Ok(()),
        }
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
    }

    fn network(&mut self, report: NetworkReport) {
        self.network = Some(report);
    }

    #[inline]
    fn stop(&mut self, now_ns: u64) -> bool {
        self.periodic.count_decision(now_ns)
    }
}

/// The result of a run.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct RunResult {
    scenario: Arc<Scenario>,
    outcome: RunOutcome,
    notes: Vec<String>,
    departures: Option<Py<Departures>>,
}

/// The numbers of a run.
enum RunOutcome {
    Link(Results),
    Fabric { summary: Box<FabricSummary>, links: Links, page: Option<Vec<u8>> },
}

/// The links of a fabric: from, to, time transmitting in ns, its share of the run.
type Links = (Vec<String>, Vec<String>, Vec<u64>, Vec<f64>);

/// The reason a run has no result.
enum Failed {
    Traffic(millstream_traffic::TrafficError),
    Run(RunError),
    Fabric(RunFailure),
    Arrow(ArrowError),
    /// Ctrl-C, or an exception of the callback.
    Raised(PyErr),
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Traffic(error) => errors::traffic(error),
            Failed::Run(error) => errors::run(error),
            Failed::Fabric(error) => errors::fabric(error),
            Failed::Arrow(error) => arrow(error),
            Failed::Raised(error) => error,
        }
    }
}

/// Runs `scenario` to its end, detached from the interpreter.
pub(crate) fn run(
    py: Python<'_>,
    scenario: Arc<Scenario>,
    requested: Requested,
    progress: Option<Py<PyAny>>,
) -> PyResult<RunResult> {
    if scenario.fabric.is_some() {
        if requested.departures {
            let message =
                format!("departures=True is for a single link; {} has a fabric", scenario.name);
            return Err(PyValueError::new_err(message));
        }
        let outcome = py.detach(|| fabric(&scenario, requested.series, progress))?;
        let notes = scenario.notes.clone();
        return Ok(RunResult { scenario, outcome, notes, departures: None });
    }
    let (results, notes, departures) = py.detach(|| run_link(&scenario, requested, progress))?;
    let departures = departures.map(|departures| Py::new(py, departures)).transpose()?;
    Ok(RunResult { scenario, outcome: RunOutcome::Link(results), notes, departures })
}

fn fabric(
    scenario: &Scenario,
    series: bool,
    progress: Option<Py<PyAny>>,
) -> Result<RunOutcome, Failed> {
    let mut periodic = PeriodicTask::new(progress);
    let mut run = FabricRun::new(scenario).map_err(|error| Failed::Fabric(error.into()))?;
    let mut recorder = series.then(|| FabricPageRecorder::new(&run));
    loop {
        let stepped = match &mut recorder {
            Some(recorder) => run.step_for(recorder),
            None => run.step(),
        };
        let more = stepped.map_err(|error| Failed::Fabric(error.into()))?;
        if !more || periodic.poll(run.reached_ns) {
            break;
        }
    }
    if let Some(raised) = periodic.raised {
        return Err(Failed::Raised(raised));
    }
    let page = recorder.map(|recorder| {
        let mut page = Vec::new();
        let written = recorder.write_page(&mut page, &run, scenario);
        written.map(|()| page).map_err(|error| Failed::Run(RunError::Output(error)))
    });
    let page = page.transpose()?;
    let topology = run.simulation.topology();
    let links = (
        topology.links().iter().map(|link| link.from.to_string()).collect(),
        topology.links().iter().map(|link| link.to.to_string()).collect(),
        run.simulation.busy_ns().collect(),
        run.utilisation(),
    );
    Ok(RunOutcome::Fabric { summary: Box::new(run.summary(scenario)), links, page })
}

fn run_link(
    scenario: &Scenario,
    requested: Requested,
    progress: Option<Py<PyAny>>,
) -> Result<(Results, Vec<String>, Option<Departures>), Failed> {
    let names: Vec<String> = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
    let mut input = millstream_scenario::open(scenario, false).map_err(Failed::Traffic)?;
    let mut recording = Recording {
        departures: requested.departures.then(|| Collector::new(&names)),
        recorder: Recorder::new(names, RecorderOptions { series: requested.series }),
        network: None,
        periodic: PeriodicTask::new(progress),
    };
    let end = link::run(scenario, input.feed.as_mut(), &mut recording).map_err(Failed::Run)?;
    if let Some(raised) = recording.periodic.raised {
        return Err(Failed::Raised(raised));
    }
    let departures = recording.departures.map(Collector::finish).transpose();
    let waiting = (end.waiting > 0).then(|| {
        format!(
            "{} packets are queued at the end: they need more credits than are ever returned",
            end.waiting
        )
    });
    let notes = scenario.notes.iter().cloned().chain(input.notes()).chain(waiting).collect();
    let mut results = recording.recorder.finish(end.end_ns);
    results.network =
        recording.network.map(|report| millstream_sweep::network_summary(&report, end.end_ns));
    Ok((results, notes, departures.map_err(Failed::Arrow)?))
}

#[pymethods]
impl RunResult {
    /// The scenario's name.
    #[getter]
    fn name(&self) -> &str {
        &self.scenario.name
    }

    /// The random seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.seed
    }

    /// The root's discipline.
    #[getter]
    fn discipline(&self) -> &'static str {
        self.scenario.scheduler.discipline.name
    }

    /// The root's structure.
    #[getter]
    fn structure(&self) -> &'static str {
        self.scenario.structure_name()
    }

    /// Remarks on the numbers.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// The departures, if requested.
    #[getter]
    fn departures(&self, py: Python<'_>) -> Option<Py<Departures>> {
        self.departures.as_ref().map(|departures| departures.clone_ref(py))
    }

    /// The summary as `--summary` writes it.
    fn summary_json(&self) -> String {
        let json = match &self.outcome {
            RunOutcome::Link(results) => {
                serde_json::to_string_pretty(&results.summary(&self.scenario.name))
            }
            RunOutcome::Fabric { summary, .. } => serde_json::to_string_pretty(summary),
        };
        json.unwrap_or_default() + "\n"
    }

    /// The table as the command prints it.
    fn table(&self) -> String {
        match &self.outcome {
            RunOutcome::Link(results) => millstream_report::table(results, None),
            RunOutcome::Fabric { summary, .. } => fabric_table(summary, None),
        }
    }

    /// Whether the run is of a fabric.
    #[getter]
    fn is_fabric(&self) -> bool {
        matches!(self.outcome, RunOutcome::Fabric { .. })
    }

    /// A fabric's links as columns: from, to, `busy_ns`, utilisation. None for a single link.
    fn links(&self) -> Option<Links> {
        match &self.outcome {
            RunOutcome::Link(_) => None,
            RunOutcome::Fabric { links, .. } => Some(links.clone()),
        }
    }

    /// Writes the report, which requires the time series.
    fn write_report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let results = match &self.outcome {
                RunOutcome::Link(results) => results,
                RunOutcome::Fabric { page, .. } => {
                    return write_file(&path, page.as_deref().unwrap_or_default());
                }
            };
            let mut file = OutputFile::create(&path)?;
            let input = ReportInput {
                results,
                scenario_name: &self.scenario.name,
                scenario_text: &self.scenario.text,
                discipline: self.discipline(),
                structure: self.structure(),
                link_rate_bps: self.scenario.link.rate_bps,
                notes: &self.notes,
            };
            millstream_report::write_report(&mut file, &input)?;
            file.finish()
        })
        .map_err(PyErr::from)
    }

    /// Whether time series were recorded.
    #[getter]
    fn has_series(&self) -> bool {
        match &self.outcome {
            RunOutcome::Link(results) => results.series.is_some(),
            RunOutcome::Fabric { page, .. } => page.is_some(),
        }
    }
}
