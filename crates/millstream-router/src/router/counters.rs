//! What is counted: where every packet went, and what every process used.

/// Where the packets of one path went.
///
/// Conservation: `received` + `made` is the sum of all others and of the path's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Packets classified to the path.
    pub received: u64,
    /// Dropped as they were classified, because the path drops.
    pub dropped_by_action: u64,
    /// Dropped because the path's input queue was full.
    pub dropped_full: u64,
    /// Made by the forwarding function itself.
    pub made: u64,
    /// Not forwarded because they were for the function itself.
    pub consumed: u64,
    /// Dropped by the forwarding function.
    pub dropped_by_function: u64,
    /// Dropped because the function chose a port that the path has no queue at.
    pub dropped_elsewhere: u64,
    /// Dropped by the link's discipline, their deadline passed.
    pub dropped_late: u64,
    /// Dropped because a new plan had no place for them.
    pub dropped_by_reload: u64,
    /// Handed to an output port.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
}

impl PathCounters {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.dropped_by_action += other.dropped_by_action;
        self.dropped_full += other.dropped_full;
        self.made += other.made;
        self.consumed += other.consumed;
        self.dropped_by_function += other.dropped_by_function;
        self.dropped_elsewhere += other.dropped_elsewhere;
        self.dropped_late += other.dropped_late;
        self.dropped_by_reload += other.dropped_by_reload;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
    }

    /// Packets that have left the path in any way.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.dropped_by_action
            + self.dropped_full
            + self.consumed
            + self.dropped_by_function
            + self.dropped_elsewhere
            + self.dropped_late
            + self.dropped_by_reload
            + self.sent
    }
}

/// What an input process read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounters {
    /// Packets read from the port.
    pub read: u64,
    /// Of them, those that no path is for; dropped.
    pub unclassified: u64,
}

/// What a process used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounters {
    /// Times it ran.
    pub runs: u64,
    /// Packets it moved.
    pub packets: u64,
    /// CPU time, ns.
    pub busy_ns: u64,
}
