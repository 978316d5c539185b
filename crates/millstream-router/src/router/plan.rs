//! The plan of a router: inputs, paths, outputs, and their limits.

use millstream::Contract;
use millstream::catalogue::{DisciplineRow, Options, StructureName};

use crate::ids::OutputId;
use crate::router::throttle::ThrottlePlan;

/// The number of processes that a packet passes (Router paper, Table 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stages {
    /// One: input, function and output together.
    One,
    /// Two: input; function and output. Links are not scheduled.
    Two,
    /// Three: input, function and output, with queues between them.
    #[default]
    Three,
}

/// The limits of a run of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The most packets per run, at least 1.
    pub packets: u32,
    /// The time after which a forwarding process begins no packet, ns. The time per packet of input
    /// and output is bounded, so `packets` limits them.
    pub time_ns: u64,
    /// The longest wait of a forwarding process for a full batch while other processes have work,
    /// ns. 0: it does not wait.
    pub batch_wait_ns: u64,
}

/// The behaviour of an input process while a path's input queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The process keeps reading and drops packets of that path: other paths are not affected.
    #[default]
    Drop,
    /// The process is not eligible: the device drops packets, at no cost.
    Wait,
}

/// The way in which inputs are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// Input processes poll the devices; they are scheduled like all other processes.
    #[default]
    Polled,
    /// Interrupts read packets before any process runs, at any cost, and charged to no process.
    Interrupt {
        /// The longest interval between polls of an idle router, ns; `None` if the machine signals
        /// arrivals.
        longest_sleep_ns: Option<u64>,
    },
}

/// The plan of an input process.
#[derive(Clone, Copy, Debug)]
pub struct InputPlan {
    /// The process' share of the CPU, in a unit common to all processes.
    pub reservation: u32,
    /// The process' throttle, if it has one.
    pub throttle: Option<ThrottlePlan>,
    /// The behaviour while a path's input queue is full.
    pub when_full: WhenFull,
}

/// The plan of a switching path.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// The forwarding process' share of the CPU, in a unit common to all processes.
    pub reservation: u32,
    /// Whether packets are dropped on classification: the path has no queues and never runs.
    pub drops: bool,
    /// The capacity of the input queue, packets; at least 1 unless the path drops.
    pub input_queue: u32,
    /// The capacity of each output queue, packets; at least 1 unless the path drops.
    pub output_queue: u32,
    /// The outputs at which the path has a queue, and its contract with the discipline there.
    pub outputs: Vec<(OutputId, Contract)>,
}

/// The plan of an output process.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    /// The process' share of the CPU, in a unit common to all processes.
    pub reservation: u32,
    /// The process' throttle, if it has one.
    pub throttle: Option<ThrottlePlan>,
    /// The discipline that shares the link among paths.
    pub discipline: &'static DisciplineRow,
    /// The discipline's options, including the link's rate.
    pub options: Options,
    /// The queue structure that finds the next path.
    pub structure: StructureName,
    /// Whether packets go on to another output: it is the link of an input's packets.
    pub is_ingress: bool,
}

/// The plan of a router.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of processes that a packet passes.
    pub stages: Stages,
    /// The limits of a run of a process.
    pub batch: Batch,
    /// The input processes, one per port.
    pub inputs: Vec<InputPlan>,
    /// The switching paths.
    pub paths: Vec<PathPlan>,
    /// The output processes, one per port.
    pub outputs: Vec<OutputPlan>,
}
