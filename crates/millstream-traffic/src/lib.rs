//! Traffic sources: generators, models and readers of packet arrivals.
//!
//! Every source is a [`Feed`]: it yields [`Arrival`]s in time order until it ends. One feed may
//! serve many streams (a capture matched by filters, a CSV trace). [`Merge`] joins feeds into one;
//! [`Threaded`] reads ahead in its own thread.
//!
//! | source | packets |
//! |---|---|
//! | [`Cbr`] | equal packets at equal intervals |
//! | [`ParetoOnOff`] | self-similar traffic |
//! | [`Poisson`] | equal packets at random times |
//! | [`Backlog`] | packets that all arrive at the start |
//! | [`Generator`] | packets of random sizes at equal intervals, with a pause |
//! | [`CsvTrace`] | rows of an arrivals CSV |
//! | [`CaptureFeed`] | packets of a pcap or pcapng file, matched by pcap-filter expressions |
//! | [`mpeg`] | video frames of a file or a model |
//!
//! All commands and dependent crates write their files, including captures, with [`OutputFile`].
//!
//! [`OnOff`], [`mpeg::Mpeg4Model`], [`SizeDistribution`] and [`Random`] are the building blocks of
//! sources. Backends with packets outside streams use them directly.

mod arrival;
mod backlog;
mod capture;
mod cbr;
mod csv_trace;
mod generator;
mod merge;
pub mod mpeg;
mod on_off;
mod output_file;
mod pareto;
mod poisson;
mod random;
mod read_progress;
mod size;
mod threaded;

pub use arrival::{Arrival, Feed, FrameBytes, TrafficError};
pub use backlog::Backlog;
pub use capture::{
    CaptureCounts, CaptureFeed, CaptureWriter, Filter, FilterError, FilterInstruction, FlowOf,
    Linktype, validate_filter,
};
pub use cbr::Cbr;
pub use csv_trace::CsvTrace;
pub use generator::Generator;
pub use merge::Merge;
pub use on_off::{OnOff, OnOffPacket, PacketBytes};
pub use output_file::{OutputFile, is_same_file, sync_folder, write_file};
pub use pareto::ParetoOnOff;
pub use poisson::{Poisson, PoissonTimes};
pub use random::Random;
pub use read_progress::{ReadProgress, TrackedFile};
pub use size::SizeDistribution;
pub use threaded::Threaded;

/// Deprecated alias of [`TrackedFile`].
#[deprecated(note = "renamed to `TrackedFile`")]
pub type FollowedFile = TrackedFile;

/// Deprecated alias of [`ReadProgress`].
#[deprecated(note = "renamed to `ReadProgress`")]
pub type Reading = ReadProgress;
