//! What a scheduler costs: HILQ, the heap, or a given number of cycles.

use super::constants::{
    COMPUTE_PER_ACCESS, HEAP_ACCESSES, HEAP_ACCESSES_PER_LEVEL, HILQ_ACCESSES, HILQ_SWEEP_ACCESSES,
};
use super::program::{Operation, Program, QueueId, Source, Unit};

/// A scheduler, by its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// HILQ at so many active streams: a sweep over the index, then each packet found.
    Hilq(usize),
    /// The two heaps of DWCS at so many active streams.
    Heap(usize),
    /// So many cycles of computation a packet (HILQ paper, Figure 7).
    Given(u64),
}

impl Scheduler {
    /// The active streams that its cost depends on.
    #[must_use]
    pub fn streams(self) -> Option<usize> {
        match self {
            Self::Hilq(streams) | Self::Heap(streams) => Some(streams),
            Self::Given(_) => None,
        }
    }

    /// Memory accesses a packet when every active stream has a packet waiting: 13 + 68/n for HILQ,
    /// 12·log₂ n + 6 for the heap (HILQ paper, Table 3).
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
            Self::Given(_) => 0.0,
        }
    }

    /// Its program: takes packets from `input`, does its work, and then `after` for each. The heap
    /// makes whole accesses, so its number is rounded.
    pub(super) fn program(self, input: QueueId, after: &[Operation]) -> Program {
        let (most, prologue, mut body) = match self {
            Self::Hilq(streams) => {
                (streams, accesses(HILQ_SWEEP_ACCESSES), accesses(HILQ_ACCESSES))
            }
            Self::Heap(_) => (1, Vec::new(), accesses(rounded(self.accesses_per_packet()))),
            Self::Given(cycles) => (1, Vec::new(), vec![Operation::Compute(cycles)]),
        };
        body.extend_from_slice(after);
        Program { source: Source::Queue(input, most), prologue, body }
    }
}

/// So many accesses of SRAM, one after the other, each with the computation that goes with it.
pub(super) fn accesses(count: usize) -> Vec<Operation> {
    [Operation::Compute(COMPUTE_PER_ACCESS), Operation::Access(Unit::Sram)].repeat(count)
}

/// A small positive number, rounded.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rounded(value: f64) -> usize {
    value.round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_those_of_table_3() {
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
            // The paper cuts rather than rounds.
            let near = |ours: f64, paper: f64| (ours - paper).abs() < 0.01;
            assert!(near(Scheduler::Heap(streams).accesses_per_packet(), heap), "{streams}");
            assert!(near(Scheduler::Hilq(streams).accesses_per_packet(), hilq), "{streams}");
        }
    }
}
