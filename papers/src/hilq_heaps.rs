//! The heap-based DWCS of the HILQ paper's comparison, with its memory accesses counted.
//!
//! Two binary heaps of all active streams are in SRAM, by deadline and by loss-tolerance. An access
//! is one reference to one record, as in [`millstream::Memory`]. A step down costs six accesses:
//! the numbers and records of two children, and the new heap position and back-reference of the
//! child that moves up.

use millstream::{Accesses, Memory};
use std::cmp::Ordering;

/// A stream's record: deadline and current window, read or written in one access.
#[derive(Clone, Copy, Debug)]
struct Record {
    deadline_ns: u64,
    lost: u32,
    of: u32,
}

/// The order of a heap.
#[derive(Clone, Copy, Debug)]
enum HeapOrder {
    /// Earliest deadline, then lowest window.
    Deadline,
    /// Lowest window.
    Window,
}

impl HeapOrder {
    fn compare(self, a: &Record, b: &Record) -> Ordering {
        let cross = |a: &Record, b: &Record| u64::from(a.lost) * u64::from(b.of.max(1));
        let window = cross(a, b).cmp(&cross(b, a)).then(a.lost.cmp(&b.lost));
        match self {
            HeapOrder::Deadline => a.deadline_ns.cmp(&b.deadline_ns).then(window),
            HeapOrder::Window => window,
        }
    }
}

/// A heap of streams with each stream's position.
#[derive(Debug)]
struct Heap {
    order: HeapOrder,
    streams: Vec<usize>,
    positions: Vec<usize>,
}

impl Heap {
    fn write(&mut self, position: usize, stream: usize, memory: &mut Accesses) {
        self.streams[position] = stream;
        self.positions[stream] = position;
        memory.sram(2);
    }

    /// Returns the stream at `position` and its record.
    fn read(&self, position: usize, records: &[Record], memory: &mut Accesses) -> (usize, Record) {
        let stream = self.streams[position];
        memory.sram(2);
        (stream, records[stream])
    }

    /// Restores the heap order for the stream at `position`, whose record is now `record`.
    fn restore_order(
        &mut self,
        mut position: usize,
        record: &Record,
        records: &[Record],
        memory: &mut Accesses,
    ) {
        let (start, stream) = (position, self.streams[position]);
        while position > 0 {
            let parent = (position - 1) / 2;
            let (above, above_record) = self.read(parent, records, memory);
            if self.order.compare(record, &above_record).is_ge() {
                break;
            }
            self.write(position, above, memory);
            position = parent;
        }
        while position >= start && 2 * position + 1 < self.streams.len() {
            let mut child = 2 * position + 1;
            let (mut below, mut below_record) = self.read(child, records, memory);
            if child + 1 < self.streams.len() {
                let (right, right_record) = self.read(child + 1, records, memory);
                if self.order.compare(&right_record, &below_record).is_lt() {
                    (child, below, below_record) = (child + 1, right, right_record);
                }
            }
            if self.order.compare(record, &below_record).is_le() {
                break;
            }
            self.write(position, below, memory);
            position = child;
        }
        self.write(position, stream, memory);
    }
}

/// The two heaps of a set of backlogged streams.
#[derive(Debug)]
pub(crate) struct Heaps {
    windows: Vec<(u32, u32)>,
    period_ns: u64,
    records: Vec<Record>,
    heaps: [Heap; 2],
    pub(crate) memory: Accesses,
}

impl Heaps {
    pub(crate) fn new(windows: &[(u32, u32)], period_ns: u64) -> Self {
        let records = windows.iter().map(|(lost, of)| Record {
            deadline_ns: period_ns,
            lost: *lost,
            of: *of,
        });
        let records: Vec<Record> = records.collect();
        let heap = |order| {
            let positions = (0..records.len()).collect();
            let mut heap = Heap { order, streams: (0..records.len()).collect(), positions };
            for position in 0..records.len() {
                // Built by insertion: all entries before `position` are in heap order.
                let mut at = position;
                while at > 0 {
                    let parent = (at - 1) / 2;
                    let (a, b) = (heap.streams[at], heap.streams[parent]);
                    if order.compare(&records[a], &records[b]).is_ge() {
                        break;
                    }
                    heap.streams.swap(at, parent);
                    at = parent;
                }
            }
            for (position, stream) in heap.streams.iter().enumerate() {
                heap.positions[*stream] = position;
            }
            heap
        };
        let heaps = [heap(HeapOrder::Deadline), heap(HeapOrder::Window)];
        Self { windows: windows.to_vec(), period_ns, records, heaps, memory: Accesses::default() }
    }

    /// Serves the first stream on time and returns it.
    ///
    /// Applies rule A, sets the next packet's deadline, and reorders both heaps.
    pub(crate) fn serve(&mut self) -> usize {
        let stream = self.heaps[0].streams[0];
        let mut record = self.records[stream];
        self.memory.sram(2);
        record.deadline_ns += self.period_ns;
        if record.of > record.lost {
            record.of -= 1;
        } else if record.lost > 0 {
            record.lost -= 1;
            record.of -= 1;
        }
        if record.of == 0 {
            (record.lost, record.of) = self.windows[stream];
            self.memory.sram(1);
        }
        self.records[stream] = record;
        self.memory.sram(1);
        for heap in &mut self.heaps {
            let position = heap.positions[stream];
            // The first heap's root is already known.
            self.memory.sram(u64::from(position > 0));
            heap.restore_order(position, &record, &self.records, &mut self.memory);
        }
        stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hilq_violations::{random, windows};

    #[test]
    fn the_heaps_stay_heaps_and_serve_every_stream_once_a_period() {
        for streams in [1, 2, 3, 10, 57] {
            let mut heaps = Heaps::new(&windows(streams, &mut random(3)), 10);
            for _ in 0..50 {
                let mut served: Vec<usize> = (0..streams).map(|_| heaps.serve()).collect();
                served.sort_unstable();
                assert!(served.into_iter().eq(0..streams));
                for heap in &heaps.heaps {
                    for (position, stream) in heap.streams.iter().enumerate() {
                        assert_eq!(heap.positions[*stream], position);
                        let above = heap.streams[position.saturating_sub(1) / 2];
                        let (above, own) = (&heaps.records[above], &heaps.records[*stream]);
                        assert!(heap.order.compare(above, own).is_le());
                    }
                }
            }
        }
    }
}
