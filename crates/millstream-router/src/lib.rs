//! The programmable router: CPU cycles and links scheduled together.
//!
//! A packet follows a switching path. Every arrow into a bounded queue is a process, and the CPU
//! scheduler decides which process runs next:
//!
//! ```text
//! port ─ input process ─> [ ] ─ forwarding process ─> [ ] ─ output process ─> port
//!        read, classify    │    the path's function    │    select by the port's
//!                          one queue a path            one queue a path    discipline
//! ```
//!
//! A process is *eligible* while its input is not empty and its output not full. Among eligible
//! processes WF²Q+ chooses by their reservations of cycles, and charges each run with its duration.
//! The same code runs on two kinds of [`Machine`]. On [`model::ModelMachine`] time is the sum of
//! costs. [`live::LiveMachine`] has real ports and reads the CPU's time stamp counter.
//!
//! Source: Bavier, Karlin, Peterson and Qie, *Scheduling Computations on a Programmable Router*.

mod error;
mod ids;
mod io;
pub mod live;
pub mod model;
mod net;
mod proxy;
mod renamed_keys;
mod router;

pub use ids::{CoreId, Id, IdVec, InputId, OutputId, PacketHandle, PathId, PortId, ProcessId};
pub use router::counters::{InputCounters, PathCounters, ProcessCounters};
pub use router::cpu::Cpu;
pub use router::cpu_bound::{CpuBound, ProcessLimits};
pub use router::machine::{
    Accounting, Deferral, Flows, Machine, MultiCore, PacedLinks, QueueId, Verdict,
};
pub use router::plan::{Batch, InputPlan, OutputPlan, PathPlan, Plan, ReadMode, Stages, WhenFull};
pub use router::throttle::{Estimator, Throttle, ThrottlePlan};
pub use router::{Process, RemoteOwnership, Router, Step};

/// Deprecated alias of [`RemoteOwnership`].
#[deprecated(note = "renamed to `RemoteOwnership`")]
pub type Elsewhere = RemoteOwnership;
/// Deprecated alias of [`ReadMode`].
#[deprecated(note = "renamed to `ReadMode`")]
pub type Reading = ReadMode;
/// Deprecated alias of [`QueueId`].
#[deprecated(note = "renamed to `QueueId`")]
pub type Place = QueueId;

/// Returns the number of random cases of a test: `PROPTEST_CASES`, or the default.
#[cfg(test)]
fn test_cases(default: u32) -> u32 {
    let cases = std::env::var("PROPTEST_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(default)
}
