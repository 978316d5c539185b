//! Disciplines with a fixed cycle of slots: WIRR and tables.
//!
//! A decision serves one packet of the first slot with an active stream. The search is cyclic and
//! starts after the slot served last.

use super::rule::{FairDiscipline, Packet, Queue, Tags, contenders};

/// WIRR: in each of a round's cycles, from 1, every stream of at least that weight has a slot.
#[derive(Default)]
pub struct Interleaved {
    /// Cycle and stream of the slot last served; `None` before the first.
    cursor: Option<(u64, usize)>,
}

impl FairDiscipline for Interleaved {
    fn activated(&mut self, _stream: usize, _queues: &[Queue]) {}

    fn choose(&mut self, queues: &[Queue]) -> Option<usize> {
        contenders(queues).next()?;
        let shared = queues.iter().filter(|queue| !queue.fmc);
        let cycles = shared.map(|queue| queue.weight).max()?;
        let (mut cycle, mut next) = self.cursor.map_or((1, 0), |(cycle, at)| (cycle, at + 1));
        loop {
            if next == queues.len() {
                next = 0;
                cycle = if cycle == cycles { 1 } else { cycle + 1 };
            }
            let queue = &queues[next];
            if !queue.fmc && queue.active && cycle <= queue.weight {
                self.cursor = Some((cycle, next));
                return Some(next);
            }
            next += 1;
        }
    }

    fn service_started(&mut self, _stream: usize, _packet: &Packet, _queues: &[Queue]) -> Tags {
        Tags::default()
    }
}

/// A table of streams.
pub struct Table {
    entries: Vec<usize>,
    /// The entry last served; `None` before the first.
    cursor: Option<usize>,
}

impl Table {
    /// Returns the table before its first entry.
    #[must_use]
    pub fn new(entries: &[u32]) -> Self {
        Self { entries: entries.iter().map(|entry| *entry as usize).collect(), cursor: None }
    }
}

impl FairDiscipline for Table {
    fn activated(&mut self, _stream: usize, _queues: &[Queue]) {}

    fn choose(&mut self, queues: &[Queue]) -> Option<usize> {
        let first = self.cursor.map_or(0, |at| at + 1);
        for step in 0..self.entries.len() {
            let at = (first + step) % self.entries.len();
            let stream = self.entries[at];
            if queues[stream].active && !queues[stream].fmc {
                self.cursor = Some(at);
                return Some(stream);
            }
        }
        None
    }

    fn service_started(&mut self, _stream: usize, _packet: &Packet, _queues: &[Queue]) -> Tags {
        Tags::default()
    }
}
