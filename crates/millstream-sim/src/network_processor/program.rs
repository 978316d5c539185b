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

/// The number of memory commands of one step of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Commands to the SRAM.
    pub sram: u32,
    /// Commands to the scratchpad.
    pub scratch: u32,
}

/// Commands that differ between packets, for example those counted on a scheduler's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Cycles of computation before each command.
    pub compute: u64,
    /// Commands of each packet; the list repeats.
    pub packets: Vec<Commands>,
}

impl Trace {
    /// Returns operation `at` of packet `packet`, or the number of its operations if it has fewer.
    ///
    /// The scratchpad's commands precede the SRAM's, as a search precedes the accesses to its
    /// result.
    fn operation(&self, packet: u64, at: usize) -> Result<Operation, usize> {
        let length = self.packets.len().max(1) as u64;
        // Below the length of a list.
        #[allow(clippy::cast_possible_truncation)]
        let entry = (packet % length) as usize;
        let Commands { sram, scratch } = self.packets.get(entry).copied().unwrap_or_default();
        let commands = (sram + scratch) as usize;
        match at {
            at if at >= 2 * commands => Err(2 * commands),
            at if at % 2 == 0 => Ok(Operation::Compute(self.compute)),
            at if at / 2 < scratch as usize => Ok(Operation::Access(Unit::Scratch)),
            _ => Ok(Operation::Access(Unit::Sram)),
        }
    }
}

/// The endless program of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The trigger of a run.
    pub source: Source,
    /// Operations executed once per batch of packets.
    pub prologue: Vec<Operation>,
    /// Commands executed per packet, before the body.
    pub trace: Trace,
    /// Operations executed once per packet.
    pub body: Vec<Operation>,
}

impl Program {
    /// Creates a program without a prologue that takes packets from `queue` one at a time.
    #[must_use]
    pub fn for_each(queue: QueueId, body: Vec<Operation>) -> Self {
        let (prologue, trace) = (Vec::new(), Trace::default());
        Self { source: Source::Queue(queue, 1), prologue, trace, body }
    }

    /// Returns operation `at` of the trace and the body for packet `packet` of the context.
    pub(super) fn operation(&self, packet: u64, at: usize) -> Option<Operation> {
        match self.trace.operation(packet, at) {
            Ok(operation) => Some(operation),
            Err(length) => self.body.get(at - length).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_the_commands_of_its_trace_and_then_the_body() {
        let packets = vec![Commands { sram: 1, scratch: 1 }, Commands { sram: 0, scratch: 0 }];
        let body = vec![Operation::Transmit];
        let program = Program {
            trace: Trace { compute: 5, packets },
            ..Program::for_each(QueueId(0), body.clone())
        };
        let of = |packet| (0..).map_while(|at| program.operation(packet, at)).collect::<Vec<_>>();
        let compute = Operation::Compute(5);
        let access = Operation::Access;
        let first =
            [compute, access(Unit::Scratch), compute, access(Unit::Sram), Operation::Transmit];
        assert_eq!((of(0), of(1), of(2)), (first.to_vec(), body, first.to_vec()));
        let without = Program::for_each(QueueId(0), vec![compute]);
        assert_eq!((without.operation(9, 0), without.operation(9, 1)), (Some(compute), None));
    }
}
