//! Counters of paths, inputs and processes.

use millstream::Event;

/// The packet counters of a path.
///
/// Conservation: `received` + `made` is the sum of all other packet counters and of the packets in
/// the path's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Packets classified to the path.
    pub received: u64,
    /// Packets dropped on classification, because the path drops.
    pub dropped_by_action: u64,
    /// Packets dropped because the path's input queue was full.
    pub dropped_full: u64,
    /// Packets made by the forwarding function itself.
    pub made: u64,
    /// Packets consumed by the forwarding function.
    pub consumed: u64,
    /// Packets dropped by the forwarding function.
    pub dropped_by_function: u64,
    /// Packets dropped because the function chose an output at which the path has no queue.
    pub dropped_wrong_output: u64,
    /// Packets dropped by the link's discipline because their deadline had passed.
    pub dropped_late: u64,
    /// Packets dropped by queue management, so that their senders slow down.
    pub dropped_by_aqm: u64,
    /// Packets dropped from the longest flow, because the path's output queue was full.
    pub dropped_from_longest: u64,
    /// Packets dropped by a reload that removed their path, or their output from the path.
    pub dropped_by_reload: u64,
    /// Packets passed to an output port.
    pub sent: u64,
    /// The bytes of the packets in `sent`.
    pub sent_bytes: u64,
    /// Packets marked as having met congestion (ECN).
    pub marked: u64,
}

impl PathCounters {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.dropped_by_action += other.dropped_by_action;
        self.dropped_full += other.dropped_full;
        self.made += other.made;
        self.consumed += other.consumed;
        self.dropped_by_function += other.dropped_by_function;
        self.dropped_wrong_output += other.dropped_wrong_output;
        self.dropped_late += other.dropped_late;
        self.dropped_by_aqm += other.dropped_by_aqm;
        self.dropped_from_longest += other.dropped_from_longest;
        self.dropped_by_reload += other.dropped_by_reload;
        self.marked += other.marked;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
    }

    /// Counts a packet that the scheduler of a link dropped.
    pub(super) fn count_link_drop(&mut self, event: Event) {
        match event {
            Event::DroppedByAqm => self.dropped_by_aqm += 1,
            Event::DroppedFull => self.dropped_from_longest += 1,
            Event::DroppedLate | Event::Sent => self.dropped_late += 1,
        }
    }

    /// Returns the number of packets that have left the path in any way.
    #[must_use]
    pub fn departed(&self) -> u64 {
        self.dropped_by_action
            + self.dropped_full
            + self.consumed
            + self.dropped_by_function
            + self.dropped_wrong_output
            + self.dropped_late
            + self.dropped_by_aqm
            + self.dropped_from_longest
            + self.dropped_by_reload
            + self.sent
    }
}

/// The packet counters of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounters {
    /// Packets read from the port.
    pub read: u64,
    /// Packets read and dropped because no path is for them.
    pub unclassified: u64,
}

/// The counters of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounters {
    /// The number of runs.
    pub runs: u64,
    /// The number of packets moved.
    pub packets: u64,
    /// The CPU time used, ns.
    pub busy_ns: u64,
}
