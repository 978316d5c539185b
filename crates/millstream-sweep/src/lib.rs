//! Runs one scenario, or a grid of settings and seeds over threads, and writes one dataset.
//!
//! ```text
//! scenario file + settings ─ Grid ─> points × seeds ─ run ─> threads ─ single::run ─> rows
//!                                                      ├ Journal: each completed run
//!                                                      └ StopRule: enough seeds of a point?
//! rows in grid order ─ SweepResult ─> CSV, Parquet, table with confidence intervals, JSON
//! ```
//!
//! The dataset's bytes do not depend on thread scheduling or on interruptions of the sweep. Rows
//! are in the order of points, seeds and streams. The stop rules examine a point's seeds in order.

mod dataset;
mod digest;
mod error;
pub mod fabric;
#[doc(hidden)]
pub mod fuzzing;
mod grid;
mod interval;
mod journal;
mod network;
mod outcome;
mod page;
#[cfg(feature = "parquet")]
mod parquet_file;
mod place;
mod run;
mod seeds;
mod setting;
mod single;
mod state;
mod stop_rule;
mod table;

pub use dataset::Output;
pub use error::SweepError;
pub use grid::Grid;
pub use interval::{CONFIDENCE, Interval};
pub use network::network_summary;
pub use outcome::{Cell, Column, Kind, Outcome, Simulated, columns};
pub use run::{Failure, Plan, SweepResult, run};
pub use seeds::parse_seeds;
pub use setting::Setting;
pub use single::{RunFailure, run as run_one};
pub use state::Progress;
pub use stop_rule::StopRule;

/// Deprecated alias of [`StopRule`].
#[deprecated(note = "renamed to `StopRule`")]
pub type Until = StopRule;

/// Deprecated alias of [`SweepResult`].
#[deprecated(note = "renamed to `SweepResult`")]
pub type Swept = SweepResult;
