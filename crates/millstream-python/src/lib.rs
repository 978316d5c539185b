//! The native module of the Python package `millstream`.
//!
//! ```text
//! python/millstream (names, units, Arrow, NumPy) ── millstream._millstream (this) ── the crates
//! ```
//!
//! The module is only a binding: the command's crates parse, run and summarise scenarios, and a
//! scheduler is the engine's. Two rules apply. Long operations run detached from the interpreter,
//! so that other Python threads continue. Only single-packet calls create Python objects per
//! packet.

mod arguments;
mod departures;
mod errors;
mod periodic;
mod prototype;
mod run;
mod scenario;
mod scheduler;

use millstream::catalogue::DISCIPLINES;
use millstream_scenario::{parse_duration_ns, parse_rate_bps, parse_size_bytes};
use millstream_sweep::{Interval, Kind, Simulated, columns};
use pyo3::prelude::*;

use self::errors::ContractError;

/// The native module of the package `millstream`; private.
#[pymodule]
mod _millstream {
    #[pymodule_export]
    use super::departures::{DepartureColumns, Departures};
    #[pymodule_export]
    use super::errors::{ContractError, MillstreamError, ScenarioError, TrafficError};
    #[pymodule_export]
    use super::prototype::Head;
    #[pymodule_export]
    use super::run::RunResult;
    #[pymodule_export]
    use super::scenario::Scenario;
    #[pymodule_export]
    use super::scheduler::{Departure, Scheduler};
    #[pymodule_export]
    use super::{disciplines, duration_ns, interval, metrics, rate_bps, size_bytes};

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    /// The confidence level of every interval.
    #[pymodule_export]
    const CONFIDENCE: f64 = millstream_sweep::CONFIDENCE;
}

/// Returns the mean of values over runs and half of its interval, as `millstream sweep` computes
/// them. None without values; None as half of a single value.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn interval(values: Vec<f64>) -> Option<(f64, Option<f64>)> {
    Interval::of(&values).map(|interval| (interval.mean, interval.half_width))
}

/// Returns the numeric columns of a sweep's dataset, of links and networks, or of fabrics.
#[pyfunction]
fn metrics(fabric: bool) -> Vec<&'static str> {
    let of = if fabric { Simulated::Fabric } else { Simulated::Network };
    columns(of).iter().filter(|column| column.kind != Kind::Text).map(|c| c.name).collect()
}

/// Parses a duration such as `"40 ms"`; returns ns.
#[pyfunction]
fn duration_ns(text: &str) -> PyResult<u64> {
    parse_duration_ns(text).map_err(ContractError::new_err)
}

/// Parses a rate such as `"10 Mbit/s"`; returns bits/s.
#[pyfunction]
fn rate_bps(text: &str) -> PyResult<u64> {
    parse_rate_bps(text).map_err(ContractError::new_err)
}

/// Parses a size such as `"16 kB"`; returns bytes.
#[pyfunction]
fn size_bytes(text: &str) -> PyResult<u64> {
    parse_size_bytes(text).map_err(ContractError::new_err)
}

/// Returns every discipline of the engine: its name and summary.
#[pyfunction]
fn disciplines() -> Vec<(&'static str, &'static str)> {
    DISCIPLINES.iter().map(|row| (row.name, row.summary)).collect()
}
