//! What a router is made of: inputs, paths, outputs, and their limits.

use millstream::Contract;
use millstream::catalogue::{DisciplineRow, Options, StructureName};

use crate::router::throttle::ThrottlePlan;

/// How many processes a packet passes (Router paper, Table 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stages {
    /// One: input, function and output together.
    One,
    /// Two: input; function and output. Links are not scheduled.
    Two,
    /// Three, with queues between.
    #[default]
    Three,
}

/// How long a process runs before another is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The most packets per run, at least 1.
    pub packets: u32,
    /// No packet is begun after so long, ns. It limits forwarding processes, whose packets may take
    /// any time; what input and output do is bounded by the number of packets.
    pub time_ns: u64,
    /// The longest wait of a forwarding process for a whole batch while others have work, ns. 0:
    /// none.
    pub gather_ns: u64,
}

/// What an input process does while a path's input queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It reads on, and packets of that path are dropped: other paths do not suffer.
    #[default]
    Drop,
    /// It is not eligible: packets are dropped by the device, at no cost.
    Wait,
}

/// How inputs are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// By input processes that are scheduled as all others are.
    #[default]
    Polled,
    /// By interrupts: before any process, whatever the cost, and charged to none.
    Interrupt {
        /// The longest interval between polls of an idle router, ns; `None` if the machine signals
        /// arrivals.
        longest_sleep_ns: Option<u64>,
    },
}

/// An input process.
#[derive(Clone, Copy, Debug)]
pub struct InputPlan {
    /// Its share of the CPU, in a unit common to all processes.
    pub reservation: u32,
    /// Its throttle, if it has one.
    pub throttle: Option<ThrottlePlan>,
    /// What it does while a queue is full.
    pub when_full: WhenFull,
}

/// A switching path.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// Its forwarding process' share of the CPU.
    pub reservation: u32,
    /// Drops packets on classification: the path has no queues and its process never runs.
    pub drops: bool,
    /// How many packets its input queue holds, at least 1 unless it drops.
    pub input_queue: u32,
    /// How many packets each of its output queues holds, at least 1 unless it drops.
    pub output_queue: u32,
    /// The outputs at which it has a queue, and its contract with the link's discipline there.
    pub outputs: Vec<(usize, Contract)>,
}

/// An output process.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    /// Its share of the CPU.
    pub reservation: u32,
    /// Its throttle, if it has one.
    pub throttle: Option<ThrottlePlan>,
    /// How its link is shared among paths.
    pub discipline: &'static DisciplineRow,
    /// The discipline's settings, the link's rate among them.
    pub options: Options,
    /// How the first path in that order is found.
    pub structure: StructureName,
}

/// A router.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many processes a packet passes.
    pub stages: Stages,
    /// How long each process runs.
    pub batch: Batch,
    /// Input processes, one a port.
    pub inputs: Vec<InputPlan>,
    /// Switching paths.
    pub paths: Vec<PathPlan>,
    /// Output processes, one a port.
    pub outputs: Vec<OutputPlan>,
}
