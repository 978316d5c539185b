//! The program of a context: a list of operations for each packet.

/// A memory or unit that operations access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Off-chip SRAM: the scheduler's structures, and push and pop of the free lists.
    Sram,
    /// Off-chip SDRAM: the packets' bytes.
    Sdram,
    /// On-chip scratchpad.
    Scratch,
    /// The hash unit.
    Hash,
}

/// The number of a queue between stages, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueId(pub usize);

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Computes for this number of cycles; the context keeps its engine.
    Compute(u64),
    /// Sends a command to a unit; the context yields its engine until the answer.
    Access(Unit),
    /// Puts the packet into a queue; the context yields its engine until there is room.
    ///
    /// This takes no cycles except waiting; separate operations before it model its cost.
    Enqueue(QueueId),
    /// Puts the packet on the wire; the context yields its engine until the packet has left.
    Transmit,
}

/// The trigger of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Packets of a queue, with the maximum batch size.
    ///
    /// The context waits for a packet and runs the prologue once. Then it runs the body for each
    /// packet that waited when the prologue began, up to the maximum.
    Queue(QueueId, usize),
    /// A packet produced on the spot, whenever the previous one is done.
    Generated,
    /// A timer with this period in cycles; there is no packet.
    Timer(u64),
}

/// The endless program of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The trigger of a run.
    pub source: Source,
    /// Operations executed once per batch of packets.
    pub prologue: Vec<Operation>,
    /// Operations executed once per packet.
    pub body: Vec<Operation>,
}

impl Program {
    /// Creates a program without a prologue that takes packets from `queue` one at a time.
    #[must_use]
    pub fn for_each(queue: QueueId, body: Vec<Operation>) -> Self {
        Self { source: Source::Queue(queue, 1), prologue: Vec::new(), body }
    }
}
