//! One router per core: other cores own some inputs, paths and outputs of the plan.
//!
//! ```text
//!  core 0                core 1                      core 2
//!  input ──classify──> │ path's queue ──function──> │ output queue ──link──> port
//!                      └─ checked: its occupancy     └─ checked: its occupancy
//! ```
//!
//! Every router has the whole plan, and exactly one runs each process. The machine hands packets
//! for remote queues over. The sender checks the occupancy of the remote queue, in-flight packets
//! included, so queues stay bounded and arrivals have room. Traffic to one queue therefore never
//! delays another, and taking arrivals is bounded work.

use crate::ids::{IdVec, InputId, OutputId, PathId};

/// The parts of a plan that other routers own, by the plan's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteOwnership {
    /// Whether another router owns each input.
    pub inputs: IdVec<InputId, bool>,
    /// Whether another router owns each path: its input queue and function.
    pub paths: IdVec<PathId, bool>,
    /// Whether another router owns each output, with all queues there.
    pub outputs: IdVec<OutputId, bool>,
}
