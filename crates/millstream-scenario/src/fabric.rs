//! The validated fabric of a scenario, as plain data.

/// An end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CableEnd {
    /// An end-point.
    EndPoint(u32),
    /// A switch and one of its ports.
    Switch(u32, u16),
}

/// The topology of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricTopology {
    /// A k-ary n-tree.
    FoldedShuffle {
        /// The number of down ports of each switch, and of its up ports.
        arity: u32,
        /// The number of levels of switches.
        levels: u32,
    },
    /// A unidirectional perfect shuffle.
    Shuffle {
        /// The number of inputs of each switch, and of its outputs.
        radix: u32,
        /// The number of stages of switches.
        stages: u32,
    },
    /// A three-level fat tree.
    FatTree {
        /// The number of ports of each switch.
        ports: u32,
    },
    /// A mesh, or a torus if it is `wrapped`.
    Grid {
        /// The number of switches in each dimension.
        sizes: Vec<u32>,
        /// The number of end-points of each switch.
        concentration: u32,
        /// Whether links join the ends of each dimension: a torus.
        wrapped: bool,
    },
    /// A dragonfly: fully connected groups of switches.
    Dragonfly {
        /// The number of end-points of each switch.
        end_points: u32,
        /// The number of switches of each group.
        switches: u32,
        /// The number of links from each switch to other groups.
        globals: u32,
    },
    /// A topology defined by its cables.
    Custom {
        /// The number of end-points.
        end_points: u32,
        /// The number of ports of each switch.
        switches: Vec<u16>,
        /// The two ends of each bidirectional cable.
        cables: Vec<(CableEnd, CableEnd)>,
    },
}

/// The crossbar of every switch, with credits on every link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricCrossbar {
    /// The rate of each port of the crossbar, bits/s.
    pub rate_bps: u64,
    /// The buffer of each stream at each input, in credits of 64 bytes.
    pub input_credits: u32,
    /// The buffer of each stream at each output, in credits of 64 bytes.
    pub output_credits: u32,
    /// Whether an input has a single queue instead of one queue per output.
    pub fifo: bool,
    /// Whether the arbiter is iSLIP instead of plain round robin.
    pub islip: bool,
}

/// A fabric of switches.
///
/// Each link has the scenario's rate. Each stream is a service class of all end-points, with its
/// own virtual channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// The topology.
    pub topology: FabricTopology,
    /// The propagation delay of a link, ns.
    pub delay_ns: u64,
    /// The delay from a bit's arrival at a switch to its earliest departure, ns.
    pub latency_ns: u64,
    /// Whether a switch forwards a packet before it has received all of it.
    pub cut_through: bool,
    /// The crossbar; `None` for unlimited output queues.
    pub crossbar: Option<FabricCrossbar>,
    /// The largest packet, bytes.
    pub largest_bytes: u32,
    /// The time at the start of the run that statistics exclude, ns.
    pub warm_up_ns: u64,
}
