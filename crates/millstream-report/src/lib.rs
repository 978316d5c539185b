//! Recording of a run, and its output as tables, JSON, CSV, charts and HTML pages.
//!
//! ```text
//! arrivals, departures, misses ──> Recorder ──> Results ──> table, Summary (JSON), HTML page
//!                         └──> DeparturesWriter (CSV)
//! ```
//!
//! The feature `http` adds the HTTP server for the dashboard and other pages of a running program.
//!
//! The [`Recorder`] gets every packet and allocates nothing in the steady state; its memory grows
//! with the number of streams, not of packets. The output is deterministic: equal runs give equal
//! bytes.

pub mod chart;
mod delay;
mod departures;
mod fabric;
mod fabric_page;
mod figures;
mod flent;
mod html;
#[cfg(feature = "http")]
pub mod http;
pub mod human;
mod network;
mod recorder;
mod series;
mod summary;
mod sweep_page;
mod table;
mod trace_events;

pub use departures::DeparturesWriter;
pub use fabric::{FabricNumbers, FabricStream, FabricSummary, fabric_table};
pub use fabric_page::{
    DrawnLink, DrawnNode, FabricCurve, FabricReportInput, FullBuffer, write_fabric_report,
};
pub use flent::{FlentRecorder, FlentStream};
pub use html::{ReportInput, write_report};
pub use network::{
    NetworkLinkSummary, NetworkSummary, PagesSummary, SizeClassSummary, SourceSummary,
    TimesSummary, TransfersSummary, network_tables,
};
pub use recorder::{DelayBound, Recorder, RecorderOptions, Results, StreamResults};
pub use series::{Bin, Series};
pub use summary::{
    DelaySummary, EndSystemSummary, JitterSummary, LinkSummary, StreamSummary, Summary,
    TransferSummary, share,
};
pub use sweep_page::{SweepChart, SweepEstimate, SweepReportInput, write_sweep_report};
pub use table::{print_safe, table, text_table, whole_table};
pub use trace_events::{ArrowPart, TraceEventsWriter, TraceRow};
