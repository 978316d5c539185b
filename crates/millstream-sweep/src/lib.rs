//! Runs of a scenario: one, or a grid of settings and seeds over threads, to one dataset.
//!
//! ```text
//! scenario file + settings ─ Grid ─> points × seeds ─ run ─> threads ─ single::run ─> rows
//!                                                      ├ Journal: each run as it ends
//!                                                      └ Until: enough seeds of a point?
//! rows in grid order ─ Swept ─> CSV, Parquet, table with confidence intervals, JSON
//! ```
//!
//! The dataset is the same bytes whatever ran in which thread and however often the sweep was
//! interrupted: rows stand in the order of points, seeds and streams, and whether a point has
//! enough seeds is decided by its seeds in their order.

mod dataset;
mod digest;
mod error;
pub mod fabric;
#[doc(hidden)]
pub mod fuzzing;
mod grid;
mod interval;
mod journal;
mod outcome;
#[cfg(feature = "parquet")]
mod parquet_file;
mod place;
mod run;
mod seeds;
mod setting;
mod single;
mod state;
mod table;
mod until;

pub use dataset::Output;
pub use error::SweepError;
pub use grid::Grid;
pub use interval::{CONFIDENCE, Interval};
pub use outcome::{Cell, Column, Kind, Outcome, columns};
pub use run::{Failure, Plan, Swept, run};
pub use seeds::parse_seeds;
pub use setting::Setting;
pub use single::{RunFailure, run as run_one};
pub use state::Progress;
pub use until::Until;
