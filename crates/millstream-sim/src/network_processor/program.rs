//! What a context does: a list of operations for each packet.

/// A memory or unit that operations name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Off-chip SRAM: the scheduler's structures, and the free lists' push and pop.
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
    /// Computes for so many cycles; the context keeps its engine.
    Compute(u64),
    /// Sends a command to a unit; the context gives up its engine until the answer.
    Access(Unit),
    /// Puts the packet into a queue; the context gives up its engine until there is room. What
    /// that costs beyond waiting is operations before this one.
    Enqueue(QueueId),
    /// Puts the packet on the wire; the context gives up its engine until it has left.
    Transmit,
}

/// What starts a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Packets of a queue: the context waits for one, runs the prologue once, and then the body for
    /// each packet that waited when the prologue began, `most` at most.
    Queue(QueueId, usize),
    /// A packet made on the spot, whenever the one before is done.
    Made,
    /// A timer, every so many cycles; there is no packet.
    Every(u64),
}

/// What a context does, for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What starts it.
    pub source: Source,
    /// Done once for every batch of packets.
    pub prologue: Vec<Operation>,
    /// Done for every packet.
    pub body: Vec<Operation>,
}

impl Program {
    /// A program without a prologue that takes packets from `queue` one at a time.
    #[must_use]
    pub fn for_each(queue: QueueId, body: Vec<Operation>) -> Self {
        Self { source: Source::Queue(queue, 1), prologue: Vec::new(), body }
    }
}
