//! A valid scenario.

use millstream_scenario::explain;
use millstream_sweep::fabric::FabricExplanation;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

use crate::errors;
use crate::run::{Requested, RunResult, run};

/// Arrivals read to measure the sources' load, as in `millstream check`.
const MAX_ARRIVALS: u64 = 5_000_000;

/// A valid scenario.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct Scenario(Arc<millstream_scenario::Scenario>);

impl Scenario {
    /// Returns the parsed scenario.
    pub(crate) fn parsed(&self) -> &millstream_scenario::Scenario {
        &self.0
    }
}

#[pymethods]
impl Scenario {
    /// Reads and validates a scenario file.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let loaded = py.detach(|| millstream_scenario::Scenario::load(&path));
        loaded.map(|scenario| Self(Arc::new(scenario))).map_err(errors::scenario)
    }

    /// Validates the text of a file called `name` whose inputs are relative to `folder`.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn parse(py: Python<'_>, name: &str, text: &str, folder: PathBuf) -> PyResult<Self> {
        let parsed = py.detach(|| millstream_scenario::Scenario::parse(name, text, &folder));
        parsed.map(|scenario| Self(Arc::new(scenario))).map_err(errors::scenario)
    }

    /// The scenario's name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The random seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    /// When sources stop, ns; None if they all end by themselves.
    #[getter]
    fn duration_ns(&self) -> Option<u64> {
        self.0.duration_ns
    }

    /// Whether the scenario has a fabric rather than a single link.
    #[getter]
    fn is_fabric(&self) -> bool {
        self.0.fabric.is_some()
    }

    /// The scenario as TOML.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// The streams' names, in the order of their numbers.
    #[getter]
    fn stream_names(&self) -> Vec<String> {
        self.0.streams.iter().map(|stream| stream.name.clone()).collect()
    }

    /// All files that the sources read.
    #[getter]
    fn input_files(&self) -> Vec<PathBuf> {
        self.0.input_files().into_iter().collect()
    }

    /// Returns the output of `millstream check --json`.
    fn explain_json(&self, py: Python<'_>) -> PyResult<String> {
        let text = if self.0.fabric.is_some() {
            let explained = py.detach(|| FabricExplanation::of(&self.0));
            serde_json::to_string_pretty(&explained.map_err(|e| errors::fabric(e.into()))?)
        } else {
            let explained =
                py.detach(|| explain(&self.0, MAX_ARRIVALS)).map_err(errors::traffic)?;
            serde_json::to_string_pretty(&explained)
        };
        Ok(text.unwrap_or_default() + "\n")
    }

    /// Runs the scenario on a simulated link or fabric.
    #[pyo3(signature = (*, seed, departures, series, progress))]
    fn run(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = crate::arguments::seed)] seed: Option<u64>,
        departures: bool,
        series: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<RunResult> {
        let scenario = match seed {
            Some(seed) if seed != self.0.seed => {
                Arc::new(millstream_scenario::Scenario { seed, ..(*self.0).clone() })
            }
            _ => Arc::clone(&self.0),
        };
        run(py, scenario, Requested { departures, series }, progress)
    }
}
