//! The grid of a sweep: every combination of settings, each a scenario.

use millstream_scenario::{Scenario, ScenarioError};
use millstream_sim::fabric::topology_of;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

use crate::digest::{self, Inputs};
use crate::error::SweepError;
use crate::outcome::{Column, Simulated, columns};
use crate::place;
use crate::setting::{Setting, display_value};
use crate::single::RunFailure;

/// The maximum number of points.
const MAX_POINTS: usize = 100_000;

/// Column names that settings cannot use.
const RESERVED_COLUMNS: [&str; 3] = ["point", "seed", "scenario"];

/// A scenario with varied settings.
///
/// Its points are all combinations of values; the last setting varies fastest. Every point is a
/// valid scenario.
#[derive(Debug)]
pub struct Grid {
    name: String,
    folder: PathBuf,
    /// Text of the scenario file.
    text: String,
    table: Table,
    settings: Vec<Setting>,
    points: usize,
    /// Scenario of the first point, for all fields that do not vary.
    first: Scenario,
    simulated: Simulated,
    columns: Vec<Column>,
    scenario_digest: String,
    inputs: Inputs,
    inputs_digests: Vec<String>,
}

impl Grid {
    /// Loads a scenario file and builds its grid of settings; without settings it has one point.
    ///
    /// # Errors
    /// Fails if the file or some combination cannot be run; the error names the faulty settings.
    pub fn load(file: &Path, settings: Vec<Setting>) -> Result<Self, SweepError> {
        let base = Scenario::load(file)?;
        let table: Table =
            toml::from_str(&base.text).map_err(|error| SweepError::InvalidArgument {
                message: format!("{}: {error}", file.display()),
                help: None,
            })?;
        for (at, setting) in settings.iter().enumerate() {
            if settings[..at].iter().any(|other| other.place == setting.place) {
                return Err(SweepError::invalid_argument(
                    format!("`--set {setting}`: {} is set twice", setting.place),
                    format!("give all its values at once: --set {}=VALUE,VALUE", setting.place),
                ));
            }
        }
        let points = settings
            .iter()
            .try_fold(1usize, |points, setting| points.checked_mul(setting.values.len()))
            .filter(|points| *points <= MAX_POINTS)
            .ok_or_else(|| {
                SweepError::invalid_argument("more than 100,000 combinations", "give fewer values")
            })?;
        let scenario_digest = digest::scenario_digest(&base, &table);
        let mut grid = Self {
            name: file.display().to_string(),
            folder: base.folder.clone(),
            text: base.text.clone(),
            table,
            settings,
            points,
            columns: columns(Simulated::of(&base)),
            simulated: Simulated::of(&base),
            first: base,
            scenario_digest,
            inputs: Inputs::default(),
            inputs_digests: Vec::with_capacity(points),
        };
        grid.check()?;
        Ok(grid)
    }

    /// Checks that every point can be run, and records the digests of its input files.
    fn check(&mut self) -> Result<(), SweepError> {
        for setting in &self.settings {
            let mut table = self.table.clone();
            for value in &setting.values {
                place::set(&mut table, &setting.place, value).map_err(|error| match error {
                    SweepError::InvalidArgument { message, help } => SweepError::InvalidArgument {
                        message: format!("`--set {setting}`: {message}"),
                        help,
                    },
                    other => other,
                })?;
            }
            if RESERVED_COLUMNS.contains(&setting.place.as_str()) {
                return Err(SweepError::invalid_argument(
                    format!("`--set {setting}`: the dataset has a column of this name"),
                    "a place has at least two parts",
                ));
            }
        }
        for point in 0..self.points {
            let values = self.indices(point);
            let scenario =
                self.scenario(point).map_err(|why| self.name_faulty_settings(&values, &why))?;
            if point == 0 {
                self.simulated = Simulated::of(&scenario);
                self.first = scenario.clone();
            }
            if scenario.network.is_some() {
                self.simulated = Simulated::Network;
            }
            let digest = self.inputs.digest(scenario.input_files());
            self.inputs_digests.push(digest);
        }
        self.columns = columns(self.simulated);
        Ok(())
    }

    /// Returns an error that names the settings that fail on their own, or else all settings.
    fn name_faulty_settings(&self, indices: &[usize], why: &RunFailure) -> SweepError {
        let alone = |axis: &usize| {
            let mut table = self.table.clone();
            let setting = &self.settings[*axis];
            place::set(&mut table, &setting.place, &setting.values[indices[*axis]]).is_ok()
                && self.parse(&table.to_string()).is_err_and(|error| error == *why)
        };
        let guilty: Vec<usize> = (0..indices.len()).filter(alone).collect();
        let named = if guilty.is_empty() { (0..indices.len()).collect() } else { guilty };
        let named: Vec<String> = named
            .into_iter()
            .map(|axis| {
                let setting = &self.settings[axis];
                format!(
                    "`--set {}={}`",
                    setting.place,
                    display_value(&setting.values[indices[axis]])
                )
            })
            .collect();
        let message = format!("{}: {why}", named.join(" with "));
        SweepError::InvalidArgument { message, help: None }
    }

    /// Returns the scenario of the first point.
    #[must_use]
    pub fn into_first(self) -> Scenario {
        self.first
    }

    /// Returns the number of points.
    #[must_use]
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Returns the value of each setting at `point`.
    #[must_use]
    pub fn values(&self, point: usize) -> Vec<&Value> {
        self.settings
            .iter()
            .zip(self.indices(point))
            .map(|(setting, index)| &setting.values[index])
            .collect()
    }

    fn indices(&self, mut point: usize) -> Vec<usize> {
        let mut indices: Vec<usize> = Vec::with_capacity(self.settings.len());
        for setting in self.settings.iter().rev() {
            indices.push(point % setting.values.len());
            point /= setting.values.len();
        }
        indices.reverse();
        indices
    }

    /// Returns the scenario of `point`.
    ///
    /// # Errors
    /// Fails if its input files have disappeared since the grid was loaded.
    pub(crate) fn scenario(&self, point: usize) -> Result<Scenario, RunFailure> {
        if self.settings.is_empty() {
            // Errors then have the lines of the file.
            return self.parse(&self.text);
        }
        let mut table = self.table.clone();
        for (setting, value) in self.settings.iter().zip(self.values(point)) {
            place::set(&mut table, &setting.place, value)
                .map_err(|error| RunFailure::new(error.to_string()))?;
        }
        self.parse(&table.to_string())
    }

    fn parse(&self, text: &str) -> Result<Scenario, RunFailure> {
        let scenario = Scenario::parse(&self.name, text, &self.folder)
            .map_err(|error: ScenarioError| RunFailure::from(error))?;
        if let Some(fabric) = &scenario.fabric {
            topology_of(fabric)
                .map_err(|error| RunFailure::new(format!("fabric.topology: {error}")))?;
        }
        Ok(scenario)
    }

    /// Returns the name of the scenario.
    pub(crate) fn scenario_name(&self) -> &str {
        &self.first.name
    }

    /// Returns the text of the scenario file, before any setting.
    pub(crate) fn scenario_text(&self) -> &str {
        &self.text
    }

    /// Returns the seed of the scenario file.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.first.seed
    }

    /// Returns the names of the first point's streams.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &str> {
        self.first.streams.iter().map(|stream| stream.name.as_str())
    }

    /// Returns the dataset's columns after point, settings and seed.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns what its points run.
    pub(crate) fn simulated(&self) -> Simulated {
        self.simulated
    }

    /// Returns whether the scenario is a fabric.
    #[must_use]
    pub fn is_fabric(&self) -> bool {
        self.first.fabric.is_some()
    }

    /// Returns the scenario file and all files that the sources of any point read.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(Path::new(&self.name)).chain(self.inputs.files())
    }

    pub(crate) fn scenario_digest(&self) -> &str {
        &self.scenario_digest
    }

    /// Returns the digest of the files that the sources of `point` read.
    pub(crate) fn inputs_digest(&self, point: usize) -> &str {
        &self.inputs_digests[point]
    }
}
