//! The heap-based DWCS of the HILQ paper's comparison, with its memory accesses counted.
//!
//! Two binary heaps of all active streams are in SRAM, by deadline and by loss-tolerance. An access
//! is one reference to one record, as in [`millstream::Memory`]. A step down costs six: the numbers
//! and records of two children, and the new heap position and back-reference of the one that moves
//! up.

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
enum By {
    /// Earliest deadline, then lowest window.
    Deadline,
    /// Lowest window.
    Window,
}

impl By {
    fn compare(self, a: &Record, b: &Record) -> Ordering {
        let cross = |a: &Record, b: &Record| u64::from(a.lost) * u64::from(b.of.max(1));
        let window = cross(a, b).cmp(&cross(b, a)).then(a.lost.cmp(&b.lost));
        match self {
            By::Deadline => a.deadline_ns.cmp(&b.deadline_ns).then(window),
            By::Window => window,
        }
    }
}

/// A heap of streams with each stream's position.
#[derive(Debug)]
struct Heap {
    by: By,
    streams: Vec<usize>,
    places: Vec<usize>,
}

impl Heap {
    fn write(&mut self, place: usize, stream: usize, memory: &mut Accesses) {
        self.streams[place] = stream;
        self.places[stream] = place;
        memory.sram(2);
    }

    /// The stream at `place` and its record.
    fn read(&self, place: usize, records: &[Record], memory: &mut Accesses) -> (usize, Record) {
        let stream = self.streams[place];
        memory.sram(2);
        (stream, records[stream])
    }

    /// Restores the heap order for the stream at `place`, whose record is now `record`.
    fn settle(
        &mut self,
        mut place: usize,
        record: &Record,
        records: &[Record],
        memory: &mut Accesses,
    ) {
        let (start, stream) = (place, self.streams[place]);
        while place > 0 {
            let parent = (place - 1) / 2;
            let (above, above_record) = self.read(parent, records, memory);
            if self.by.compare(record, &above_record).is_ge() {
                break;
            }
            self.write(place, above, memory);
            place = parent;
        }
        while place >= start && 2 * place + 1 < self.streams.len() {
            let mut child = 2 * place + 1;
            let (mut below, mut below_record) = self.read(child, records, memory);
            if child + 1 < self.streams.len() {
                let (right, right_record) = self.read(child + 1, records, memory);
                if self.by.compare(&right_record, &below_record).is_lt() {
                    (child, below, below_record) = (child + 1, right, right_record);
                }
            }
            if self.by.compare(record, &below_record).is_le() {
                break;
            }
            self.write(place, below, memory);
            place = child;
        }
        self.write(place, stream, memory);
    }
}

/// Backlogged streams.
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
        let heap = |by| {
            let places = (0..records.len()).collect();
            let mut heap = Heap { by, streams: (0..records.len()).collect(), places };
            for place in 0..records.len() {
                // Built by insertion: all before `place` are in order.
                let mut at = place;
                while at > 0 {
                    let parent = (at - 1) / 2;
                    let (a, b) = (heap.streams[at], heap.streams[parent]);
                    if by.compare(&records[a], &records[b]).is_ge() {
                        break;
                    }
                    heap.streams.swap(at, parent);
                    at = parent;
                }
            }
            for (place, stream) in heap.streams.iter().enumerate() {
                heap.places[*stream] = place;
            }
            heap
        };
        let heaps = [heap(By::Deadline), heap(By::Window)];
        Self { windows: windows.to_vec(), period_ns, records, heaps, memory: Accesses::default() }
    }

    /// Serves the first stream, on time: rule A, the next packet's deadline, both heaps reordered.
    /// Returns the stream.
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
            let place = heap.places[stream];
            // The first heap's root is already known.
            self.memory.sram(u64::from(place > 0));
            heap.settle(place, &record, &self.records, &mut self.memory);
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
                    for (place, stream) in heap.streams.iter().enumerate() {
                        assert_eq!(heap.places[*stream], place);
                        let above = heap.streams[place.saturating_sub(1) / 2];
                        let (above, own) = (&heaps.records[above], &heaps.records[*stream]);
                        assert!(heap.by.compare(above, own).is_le());
                    }
                }
            }
        }
    }
}
