//! The `[fabric]` table.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::units::{Duration, Size};

/// End-points and switches in place of one link.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FabricTable {
    /// Who is joined with whom.
    #[schemars(with = "TopologyTable")]
    pub(crate) topology: Spanned<TopologyTable>,
    /// How long a bit is on its way on each link, and credits on their way back; default 0.
    pub(crate) delay: Option<Duration>,
    /// From a bit's arrival at a switch until it can leave; default "145 ns".
    pub(crate) latency: Option<Duration>,
    /// When a switch may send a packet on; default "cut-through".
    pub(crate) forwarding: Option<ForwardingName>,
    /// Where packets wait in a switch; default "crossbar".
    pub(crate) buffering: Option<BufferingName>,
    /// Crossbar: its rate over the links', at least 1; default 1.5.
    #[schemars(with = "Option<f64>", range(min = 1))]
    pub(crate) speed_up: Option<Spanned<f64>>,
    /// Crossbar: the buffer of each stream at each input; default: four of the largest packets.
    #[schemars(with = "Option<Size>")]
    pub(crate) input_buffer: Option<Spanned<Size>>,
    /// Crossbar: the buffer of each stream at each output; default: four of the largest packets.
    #[schemars(with = "Option<Size>")]
    pub(crate) output_buffer: Option<Spanned<Size>>,
    /// Crossbar: how packets wait at an input; default "virtual-output".
    pub(crate) queueing: Option<QueueingName>,
    /// Crossbar: who may use it; default "round-robin".
    pub(crate) arbiter: Option<ArbiterName>,
    /// The largest packet, bytes; default 2176.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65535))]
    pub(crate) largest_packet: Option<Spanned<u32>>,
    /// What is left out of the statistics at the start of the run; default 0.
    #[schemars(with = "Option<Duration>")]
    pub(crate) warm_up: Option<Spanned<Duration>>,
}

/// Who is joined with whom.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    deny_unknown_fields,
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub(crate) enum TopologyTable {
    /// k-ary n-tree: `levels` of switches with 2 × `arity` ports, `arity` ^ `levels` end-points.
    FoldedShuffle {
        /// Ports down, and as many up.
        arity: u32,
        /// Levels of switches.
        levels: u32,
    },
    /// One-way perfect shuffle: `stages` of switches with `radix` inputs and outputs.
    Shuffle {
        /// Inputs, and as many outputs.
        radix: u32,
        /// Stages of switches.
        stages: u32,
    },
    /// Three-level fat tree of switches with `ports` ports.
    FatTree {
        /// Ports of each switch; even.
        ports: u32,
    },
    /// Grid of switches.
    Mesh {
        /// Switches in each dimension.
        sizes: Vec<u32>,
        /// End-points of each switch; default 1.
        concentration: Option<u32>,
    },
    /// Grid whose ends are joined.
    Torus {
        /// Switches in each dimension.
        sizes: Vec<u32>,
        /// End-points of each switch; default 1.
        concentration: Option<u32>,
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
        /// How many end-points there are: "e0", "e1" and so on.
        end_points: u32,
        /// How many ports each switch has; the switches are "s0", "s1" and so on.
        switches: Vec<u16>,
        /// What each two-way cable joins, for example ["e0", "s0:3"]; a switch with its port.
        cables: Vec<[String; 2]>,
    },
}

/// When a switch may send a packet on.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ForwardingName {
    /// As soon as its head has come through.
    CutThrough,
    /// When all of it has come.
    StoreAndForward,
}

/// Where packets wait in a switch.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BufferingName {
    /// At inputs and outputs, with credits on every link.
    Crossbar,
    /// At the outputs only, without limit and without credits.
    Output,
}

/// How packets wait at an input.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum QueueingName {
    /// In a queue for each output.
    VirtualOutput,
    /// In one queue.
    Fifo,
}

/// Who may use the crossbar.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ArbiterName {
    /// Everybody in turn.
    RoundRobin,
    /// In turn, a turn passing on only if it was accepted (McKeown 1999).
    Islip,
}
