//! The `[fabric]` table.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::units::{Duration, Size};

/// A fabric: end-points and switches instead of a single link.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FabricTable {
    /// The topology: the links between end-points and switches.
    #[schemars(with = "TopologyTable")]
    pub(crate) topology: Spanned<TopologyTable>,
    /// The propagation delay of each link, for packets and for returned credits; default 0.
    pub(crate) delay: Option<Duration>,
    /// The latency of a switch, from a bit's arrival to its earliest departure; default "145 ns".
    pub(crate) latency: Option<Duration>,
    /// When a switch may forward a packet; default "cut-through".
    pub(crate) forwarding: Option<ForwardingName>,
    /// Where packets wait in a switch; default "crossbar".
    pub(crate) buffering: Option<BufferingName>,
    /// Crossbar: the ratio of its rate to the link rate, from 1 to 1000; default 1.5.
    #[schemars(with = "Option<f64>", range(min = 1))]
    pub(crate) speed_up: Option<Spanned<f64>>,
    /// Crossbar: the buffer of each stream at each input; default: four largest packets.
    #[schemars(with = "Option<Size>")]
    pub(crate) input_buffer: Option<Spanned<Size>>,
    /// Crossbar: the buffer of each stream at each output; default: four largest packets.
    #[schemars(with = "Option<Size>")]
    pub(crate) output_buffer: Option<Spanned<Size>>,
    /// Crossbar: the queues at each input; default "virtual-output".
    pub(crate) queueing: Option<QueueingName>,
    /// Crossbar: the algorithm that matches inputs with outputs; default "round-robin".
    pub(crate) arbiter: Option<ArbiterName>,
    /// The largest packet, bytes; default 2176.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65535))]
    pub(crate) largest_packet: Option<Spanned<u32>>,
    /// The time at the start of the run that statistics exclude; default 0.
    #[schemars(with = "Option<Duration>")]
    pub(crate) warm_up: Option<Spanned<Duration>>,
}

/// The topology of a fabric.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    deny_unknown_fields,
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub(crate) enum TopologyTable {
    /// A k-ary n-tree: `levels` levels of switches with 2 × `arity` ports, and `arity` ^ `levels`
    /// end-points.
    FoldedShuffle {
        /// The number of down ports of each switch, and of its up ports.
        arity: u32,
        /// The number of levels of switches.
        levels: u32,
    },
    /// A one-way perfect shuffle: `stages` stages of switches with `radix` inputs and `radix`
    /// outputs.
    Shuffle {
        /// The number of inputs of each switch, and of its outputs.
        radix: u32,
        /// The number of stages of switches.
        stages: u32,
    },
    /// A three-level fat tree of switches with `ports` ports.
    FatTree {
        /// The number of ports of each switch; even.
        ports: u32,
    },
    /// A grid of switches.
    Mesh {
        /// The number of switches in each dimension.
        sizes: Vec<u32>,
        /// The number of end-points of each switch; default 1.
        concentration: Option<u32>,
    },
    /// A grid of switches whose opposite ends are joined.
    Torus {
        /// The number of switches in each dimension.
        sizes: Vec<u32>,
        /// The number of end-points of each switch; default 1.
        concentration: Option<u32>,
    },
    /// Fully connected groups of switches, with a link between any two groups.
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
        /// The number of end-points, which are named "e0", "e1" and so on.
        end_points: u32,
        /// The number of ports of each switch; the switches are named "s0", "s1" and so on.
        switches: Vec<u16>,
        /// The two ends of each bidirectional cable, for example ["e0", "s0:3"]: an end-point, or a
        /// switch with its port.
        cables: Vec<[String; 2]>,
    },
}

/// When a switch may forward a packet.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ForwardingName {
    /// As soon as its head has arrived.
    CutThrough,
    /// After all of it has arrived.
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

/// The queues at each input of a crossbar.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum QueueingName {
    /// One queue per output.
    VirtualOutput,
    /// A single queue.
    Fifo,
}

/// The algorithm that matches the inputs of a crossbar with its outputs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ArbiterName {
    /// Plain round robin.
    RoundRobin,
    /// Round robin in which a turn advances only on an accepted grant (iSLIP, McKeown 1999).
    Islip,
}
