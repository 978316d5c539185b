//! From what happens in a run to what a person reads.
//!
//! ```text
//! arrivals, departures, misses ──> Recorder ──> Results ──> table, Summary (JSON), HTML page
//!                         └──> DeparturesWriter (CSV)
//! ```
//!
//! With the feature `http`, also the dashboard of a program that runs, and its other pages.
//!
//! The [`Recorder`] is told of every packet and allocates nothing in the steady state; memory grows
//! with streams, not with packets. Everything is deterministic: same run, same bytes.

pub mod chart;
mod delay;
mod departures;
mod fabric;
mod fabric_page;
mod figures;
mod html;
#[cfg(feature = "http")]
pub mod http;
pub mod human;
mod recorder;
mod series;
mod summary;
mod table;
mod trace_events;

pub use departures::DeparturesWriter;
pub use fabric::{FabricNumbers, FabricStream, FabricSummary, fabric_table};
pub use fabric_page::{
    DrawnLink, DrawnNode, FabricCurve, FabricReportInput, FullBuffer, write_fabric_report,
};
pub use html::{ReportInput, write_report};
pub use recorder::{Recorder, RecorderOptions, Results, StreamResults};
pub use series::{Bin, Series};
pub use summary::{
    DelaySummary, EndSystemSummary, JitterSummary, LinkSummary, StreamSummary, Summary,
    TransferSummary,
};
pub use table::{table, text_table, whole_table};
pub use trace_events::{ArrowPart, TraceEventsWriter, TraceRow};
