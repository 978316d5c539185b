//! The fabric of a scenario: plain data, checked.

/// A place that a cable joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CableEnd {
    /// An end-point.
    EndPoint(u32),
    /// A switch and one of its ports.
    Switch(u32, u16),
}

/// Who is joined with whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricTopology {
    /// k-ary n-tree.
    FoldedShuffle {
        /// Ports down, and as many up.
        arity: u32,
        /// Levels of switches.
        levels: u32,
    },
    /// One-way perfect shuffle.
    Shuffle {
        /// Inputs, and as many outputs.
        radix: u32,
        /// Stages of switches.
        stages: u32,
    },
    /// Three-level fat tree.
    FatTree {
        /// Ports of each switch.
        ports: u32,
    },
    /// A grid, whose ends are joined if it is `wrapped`.
    Grid {
        /// Switches in each dimension.
        sizes: Vec<u32>,
        /// End-points of each switch.
        concentration: u32,
        /// A torus, not a mesh.
        wrapped: bool,
    },
    /// Groups of switches, all joined to all.
    Dragonfly {
        /// End-points of each switch.
        end_points: u32,
        /// Switches of each group.
        switches: u32,
        /// Links of each switch to other groups.
        globals: u32,
    },
    /// What the cables say.
    Custom {
        /// How many end-points there are.
        end_points: u32,
        /// How many ports each switch has.
        switches: Vec<u16>,
        /// What each two-way cable joins.
        cables: Vec<(CableEnd, CableEnd)>,
    },
}

/// A crossbar in every switch, and credits on every link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricCrossbar {
    /// Rate of each of its ports, bits/s.
    pub rate_bps: u64,
    /// Buffer of each stream at each input, credits of 64 bytes.
    pub input_credits: u32,
    /// The same at each output.
    pub output_credits: u32,
    /// One queue at an input, not one for each output.
    pub fifo: bool,
    /// iSLIP, not plain round robin.
    pub islip: bool,
}

/// A fabric. Each of its links has the scenario's rate; each stream is a service class of all
/// end-points, with a virtual channel of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// Who is joined with whom.
    pub topology: FabricTopology,
    /// How long a bit is on its way on a link, ns.
    pub delay_ns: u64,
    /// From a bit's arrival at a switch until it can leave, ns.
    pub latency_ns: u64,
    /// A switch may send a packet on before all of it has come.
    pub cut_through: bool,
    /// `None` for unlimited output queues.
    pub crossbar: Option<FabricCrossbar>,
    /// The largest packet, bytes.
    pub largest_bytes: u32,
    /// What statistics leave out, ns.
    pub warm_up_ns: u64,
}
