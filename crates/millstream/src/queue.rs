//! Bounded FIFO queues of all streams over one packet slab.
//!
//! ```text
//! queues:  [head tail waiting limit]  one per stream
//!             |     |
//! slab:    [packet next] -> [packet next] -> …      free list through `next`
//! ```
//!
//! One allocation serves all streams: a flooding stream uses memory only up to its limit, an idle
//! one uses none. Every operation is O(1). The slab grows to the largest backlog and is then
//! reused, so the steady state does not allocate.

use alloc::vec::Vec;

use crate::discipline::{Head, Waiting};
use crate::link::Link;
use crate::packet::{Departure, Event, Packet, StreamId};
use crate::prefetch::prefetch;

/// End of a list of slab entries.
const END: u32 = u32::MAX;

/// A waiting packet and its stamp. Aligned, so that none without a stamp spans two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Entry<P> {
    arrival_ns: u64,
    packet: u64,
    tag: u64,
    bytes: u32,
    next: u32,
    stamp: P,
}

/// One stream's queue. Aligned, so that none spans two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Queue {
    head: u32,
    tail: u32,
    waiting: u32,
    limit: u32,
    arrivals: u64,
    bytes: u64,
}

/// The queues of all streams; packets carry stamps `P`.
#[derive(Debug)]
pub(crate) struct Queues<P> {
    slab: Vec<Entry<P>>,
    free: u32,
    packet_limit: u32,
    waiting: u64,
    queues: Vec<Queue>,
    link: Link,
    /// What the link's framing adds to the waiting packets of each stream, bytes. Empty without
    /// framing, since most links have none.
    framing: Vec<u64>,
}

impl<P: Copy + Default> Queues<P> {
    /// Returns queues without streams; all queues together hold at most `packet_limit` packets.
    pub(crate) fn new(packet_limit: u32, link: Link) -> Self {
        let (slab, queues, framing) = (Vec::new(), Vec::new(), Vec::new());
        Self { slab, free: END, packet_limit, waiting: 0, queues, link, framing }
    }

    /// Sets the link. Call before the first stream is added.
    pub(crate) fn set_link(&mut self, link: Link) {
        self.link = link;
    }

    /// Limits all queues together to `packets` packets.
    pub(crate) fn set_packet_limit(&mut self, packets: u32) {
        self.packet_limit = packets;
    }

    /// Limits all queues together to `packets` admitted packets. Allocates memory for them and for
    /// `more` packets, which are pushed without admission.
    pub(crate) fn preallocate(&mut self, packets: u32, more: usize) {
        self.packet_limit = packets.min(u32::MAX - 1);
        self.slab.reserve((packets as usize + more).saturating_sub(self.slab.len()));
    }

    /// Adds a stream whose queue holds `limit` packets; unbounded if `None`.
    pub(crate) fn add_stream(&mut self, limit: Option<u32>) {
        let limit = limit.unwrap_or(u32::MAX);
        self.queues.push(Queue { head: END, tail: END, waiting: 0, limit, arrivals: 0, bytes: 0 });
        if !self.link.is_linear() {
            self.framing.push(0);
        }
    }

    /// Returns the backlog of one stream.
    #[inline]
    pub(crate) fn waiting(&self, stream: StreamId) -> Waiting {
        let queue = &self.queues[stream.index()];
        let framing_bytes = self.framing.get(stream.index()).copied().unwrap_or(0);
        Waiting { packets: queue.waiting, bytes: queue.bytes, framing_bytes }
    }

    /// Prefetches the stream's queue.
    #[inline]
    pub(crate) fn prefetch(&self, stream: StreamId) {
        prefetch(&self.queues, stream.index());
    }

    /// Prefetches the stream's head-of-line packet.
    #[inline]
    pub(crate) fn prefetch_head(&self, stream: StreamId) {
        prefetch(&self.slab, self.queues[stream.index()].head as usize);
    }

    /// Returns the number of packets waiting in all streams.
    #[inline]
    pub(crate) fn total_waiting(&self) -> u64 {
        self.waiting
    }

    /// Returns the number of arrivals of one stream so far, including dropped ones.
    #[inline]
    pub(crate) fn arrivals(&self, stream: StreamId) -> u64 {
        self.queues[stream.index()].arrivals
    }

    /// Checks that the queue can hold an arrival, and all queues together; counts it if not.
    ///
    /// # Errors
    /// Returns the departure of the dropped packet.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        stream: StreamId,
        packet: Packet,
        now_ns: u64,
    ) -> Result<(), Departure> {
        let queue = &mut self.queues[stream.index()];
        let all_full = self.waiting >= u64::from(self.packet_limit);
        if queue.waiting >= queue.limit || all_full {
            let number = queue.arrivals;
            queue.arrivals += 1;
            return Err(Departure {
                time_ns: now_ns,
                stream,
                packet: number,
                bytes: packet.bytes,
                arrival_ns: now_ns,
                deadline_ns: None,
                event: Event::DroppedFull,
                tag: packet.tag,
            });
        }
        Ok(())
    }

    /// Counts an arrival and returns its number.
    #[inline]
    pub(crate) fn count_arrival(&mut self, stream: StreamId) -> u64 {
        let queue = &mut self.queues[stream.index()];
        queue.arrivals += 1;
        queue.arrivals - 1
    }

    /// Appends an admitted arrival; returns whether its queue was empty.
    #[inline]
    pub(crate) fn push(&mut self, stream: StreamId, packet: Packet, now_ns: u64) -> bool {
        self.append(stream, packet, now_ns, None)
    }

    /// Appends the packet that [`count_arrival`](Self::count_arrival) numbered; returns whether its
    /// queue was empty.
    #[inline(always)]
    pub(crate) fn push_numbered(
        &mut self,
        stream: StreamId,
        packet: Packet,
        arrival_ns: u64,
        number: u64,
    ) -> bool {
        self.append(stream, packet, arrival_ns, Some(number))
    }

    /// Appends a packet, which is counted as an arrival unless it has a number; returns whether its
    /// queue was empty.
    #[inline(always)]
    fn append(
        &mut self,
        stream: StreamId,
        packet: Packet,
        arrival_ns: u64,
        number: Option<u64>,
    ) -> bool {
        let queue = &mut self.queues[stream.index()];
        let number = number.unwrap_or_else(|| {
            queue.arrivals += 1;
            queue.arrivals - 1
        });
        let entry = Entry {
            arrival_ns,
            packet: number,
            tag: packet.tag,
            bytes: packet.bytes,
            next: END,
            stamp: P::default(),
        };
        // END is beyond the slab.
        let at = if let Some(free) = self.slab.get_mut(self.free as usize) {
            let next = core::mem::replace(free, entry).next;
            core::mem::replace(&mut self.free, next)
        } else {
            // Below `packet_limit`, which is a u32 below END.
            #[allow(clippy::cast_possible_truncation)]
            let at = self.slab.len() as u32;
            self.slab.push(entry);
            at
        };
        let was_empty = queue.head == END;
        if was_empty {
            queue.head = at;
        } else {
            self.slab[queue.tail as usize].next = at;
        }
        queue.tail = at;
        queue.waiting += 1;
        queue.bytes += u64::from(packet.bytes);
        self.waiting += 1;
        if let Some(framing_bytes) = self.framing.get_mut(stream.index()) {
            *framing_bytes += self.link.framing_bytes(packet.bytes);
        }
        was_empty
    }

    /// Stamps the last packet of the queue.
    #[inline]
    pub(crate) fn stamp_last(&mut self, stream: StreamId, stamp: P) {
        let tail = self.queues[stream.index()].tail;
        if size_of::<P>() > 0 {
            self.slab[tail as usize].stamp = stamp;
        }
    }

    /// Removes the head-of-line packet and returns it as a departure, with the next head.
    // Inlined always: a result of this size would be written to memory and read at once.
    #[inline(always)]
    pub(crate) fn pop(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        event: Event,
    ) -> Option<(Departure, Option<(Head, P)>)> {
        let queue = &mut self.queues[stream.index()];
        let at = queue.head;
        // END is beyond the slab.
        let popped = self.slab.get_mut(at as usize)?;
        let entry = *popped;
        popped.next = core::mem::replace(&mut self.free, at);
        queue.head = entry.next;
        queue.waiting -= 1;
        queue.bytes -= u64::from(entry.bytes);
        self.waiting -= 1;
        if let Some(framing_bytes) = self.framing.get_mut(stream.index()) {
            *framing_bytes -= self.link.framing_bytes(entry.bytes);
        }
        let departure = Departure {
            time_ns: now_ns,
            stream,
            packet: entry.packet,
            bytes: entry.bytes,
            arrival_ns: entry.arrival_ns,
            deadline_ns,
            event,
            tag: entry.tag,
        };
        let next = self.slab.get(entry.next as usize).map(|next| {
            let Entry { arrival_ns, bytes, stamp, .. } = *next;
            (Head { arrival_ns, bytes }, stamp)
        });
        Some((departure, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(limit: Option<u32>, packet_limit: u32) -> Queues<()> {
        let mut queues = Queues::new(packet_limit, Link::default());
        queues.add_stream(limit);
        queues.add_stream(None);
        queues
    }

    const A: StreamId = StreamId(0);
    const B: StreamId = StreamId(1);

    #[test]
    fn packets_leave_in_arrival_order_and_entries_are_reused() {
        let mut queues = queues(None, 100);
        for round in 0..3 {
            for bytes in 0..10 {
                queues.push(A, Packet { bytes, tag: 7 }, round);
                queues.push(B, Packet::new(100 + bytes), round);
            }
            for bytes in 0..10 {
                let (departure, next) = queues.pop(A, 50, None, Event::Sent).unwrap();
                assert_eq!((departure.bytes, departure.tag), (bytes, 7));
                assert_eq!(departure.packet, round * 10 + u64::from(bytes));
                assert_eq!(next.is_some(), bytes < 9);
                assert_eq!(queues.pop(B, 50, None, Event::Sent).unwrap().0.bytes, 100 + bytes);
            }
            assert!(queues.pop(A, 50, None, Event::Sent).is_none());
        }
        assert_eq!(queues.slab.len(), 20);
        assert_eq!(queues.total_waiting(), 0);
    }

    #[test]
    fn a_full_queue_drops_and_counts_the_arrival() {
        let mut queues = queues(Some(2), 100);
        for empty in [true, false] {
            assert_eq!(queues.admit(A, Packet::new(1), 0), Ok(()));
            assert_eq!(queues.push(A, Packet::new(1), 0), empty);
        }
        let dropped = queues.admit(A, Packet::new(9), 3).unwrap_err();
        assert_eq!((dropped.event, dropped.packet, dropped.bytes), (Event::DroppedFull, 2, 9));
        assert_eq!(
            (queues.waiting(A), queues.arrivals(A)),
            (Waiting { packets: 2, bytes: 2, framing_bytes: 0 }, 3)
        );
        assert_eq!(queues.admit(B, Packet::new(1), 0), Ok(()), "another stream is not affected");
    }

    #[test]
    fn the_slab_limit_bounds_all_queues_together() {
        let mut queues = queues(None, 3);
        for _ in 0..3 {
            queues.push(A, Packet::new(1), 0);
        }
        assert!(queues.admit(B, Packet::new(1), 0).is_err());
        queues.pop(A, 0, None, Event::Sent).unwrap();
        assert!(queues.admit(B, Packet::new(1), 0).is_ok());
    }
}
