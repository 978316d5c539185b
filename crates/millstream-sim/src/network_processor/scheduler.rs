//! Cost models of schedulers: HILQ, the heap, a fixed number of cycles, or counted commands.

use super::constants::{
    HEAP_ACCESSES, HEAP_ACCESSES_PER_LEVEL, HILQ_ACCESSES, HILQ_SWEEP_ACCESSES,
};
use super::program::{Commands, Operation, Program, QueueId, Source, Trace, Unit};

/// The cost of a scheduler: a formula, or commands counted on its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A formula.
    Formula(Scheduler),
    /// Counted commands.
    Counted(Counted),
}

/// The commands of a scheduler, counted packet by packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Active streams; each has a packet waiting.
    pub streams: usize,
    /// Commands of successive arrivals; the list repeats.
    pub arrivals: Vec<Commands>,
    /// Commands of successive decisions; the list repeats.
    pub decisions: Vec<Commands>,
}

impl From<Scheduler> for Cost {
    fn from(scheduler: Scheduler) -> Self {
        Self::Formula(scheduler)
    }
}

impl Cost {
    /// Returns the number of active streams, if the cost depends on it.
    #[must_use]
    pub fn streams(&self) -> Option<usize> {
        match self {
            Self::Formula(scheduler) => scheduler.streams(),
            Self::Counted(counted) => Some(counted.streams),
        }
    }

    /// Returns the scheduler's program: takes packets from `input`, schedules, then runs `after`
    /// for each. Each access includes `compute` cycles of computation.
    pub(super) fn program(&self, input: QueueId, after: &[Operation], compute: u64) -> Program {
        match self {
            Self::Formula(scheduler) => scheduler.program(input, after, compute),
            Self::Counted(counted) => Program {
                trace: Trace { compute, packets: counted.decisions.clone() },
                ..Program::for_each(input, after.to_vec())
            },
        }
    }

    /// Returns the counted commands that insert the packets of one of `contexts` contexts; `None`
    /// if they are not counted. Contexts begin at different entries of the list.
    pub(super) fn insertion(&self, context: usize, contexts: usize, compute: u64) -> Option<Trace> {
        let Self::Counted(counted) = self else { return None };
        let mut packets = counted.arrivals.clone();
        let first = context * packets.len() / contexts;
        packets.rotate_left(first);
        Some(Trace { compute, packets })
    }
}

/// A scheduler, described by its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// HILQ with this number of active streams: a sweep over the index, then each packet found.
    Hilq(usize),
    /// The two heaps of DWCS with this number of active streams.
    Heap(usize),
    /// A fixed number of cycles of computation per packet (HILQ paper, Figure 7).
    FixedCycles(u64),
}

impl Scheduler {
    /// Returns the number of active streams, if the cost depends on it.
    #[must_use]
    pub fn streams(self) -> Option<usize> {
        match self {
            Self::Hilq(streams) | Self::Heap(streams) => Some(streams),
            Self::FixedCycles(_) => None,
        }
    }

    /// Returns the memory accesses per packet when every active stream has a packet waiting.
    ///
    /// They are 13 + 68/n for HILQ and 12·log₂ n + 6 for the heap (HILQ paper, Table 3).
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn accesses_per_packet(self) -> f64 {
        match self {
            Self::Hilq(streams) => {
                HILQ_ACCESSES as f64 + HILQ_SWEEP_ACCESSES as f64 / streams as f64
            }
            Self::Heap(streams) => {
                HEAP_ACCESSES_PER_LEVEL * (streams as f64).log2() + HEAP_ACCESSES
            }
            Self::FixedCycles(_) => 0.0,
        }
    }

    /// Returns the scheduler's program: takes packets from `input`, schedules, then runs `after`
    /// for each.
    ///
    /// The heap's number of accesses is rounded to a whole number.
    fn program(self, input: QueueId, after: &[Operation], compute: u64) -> Program {
        let accesses = |count| accesses(count, compute);
        let (most, prologue, mut body) = match self {
            Self::Hilq(streams) => {
                (streams, accesses(HILQ_SWEEP_ACCESSES), accesses(HILQ_ACCESSES))
            }
            Self::Heap(_) => (1, Vec::new(), accesses(rounded(self.accesses_per_packet()))),
            Self::FixedCycles(cycles) => (1, Vec::new(), vec![Operation::Compute(cycles)]),
        };
        body.extend_from_slice(after);
        Program { source: Source::Queue(input, most), prologue, ..Program::for_each(input, body) }
    }
}

/// Returns `count` sequential SRAM accesses, each with `compute` cycles of computation.
pub(super) fn accesses(count: usize, compute: u64) -> Vec<Operation> {
    [Operation::Compute(compute), Operation::Access(Unit::Sram)].repeat(count)
}

/// Rounds a small positive number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rounded(value: f64) -> usize {
    value.round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_match_table_3() {
        let table = [
            (10, 45.86, 19.8),
            (50, 73.73, 14.36),
            (100, 85.73, 13.68),
            (200, 97.73, 13.34),
            (500, 113.59, 13.135),
            (1000, 125.59, 13.068),
            (2000, 137.58, 13.034),
        ];
        for (streams, heap, hilq) in table {
            // The paper truncates instead of rounding.
            let near = |ours: f64, paper: f64| (ours - paper).abs() < 0.01;
            assert!(near(Scheduler::Heap(streams).accesses_per_packet(), heap), "{streams}");
            assert!(near(Scheduler::Hilq(streams).accesses_per_packet(), hilq), "{streams}");
        }
    }
}
