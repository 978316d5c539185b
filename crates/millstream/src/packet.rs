//! Packets as the engine receives and returns them.
//!
//! A packet arrives as a [`Packet`]: its length and the caller's `tag`, which is returned
//! unchanged. It leaves as a [`Departure`]: sent, or dropped for a reason. Every arrival ends in
//! exactly one departure or is still queued; the tests check this conservation.

use core::fmt;

/// The number of a stream: how many streams were added before it by [`add_stream`].
///
/// A lower number wins the last tie.
///
/// [`add_stream`]: crate::Scheduler::add_stream
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl StreamId {
    /// Returns the number as an index into per-stream arrays.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A packet offered to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Length in bytes, without the link's overhead. 0 is allowed.
    pub bytes: u32,
    /// The caller's value, returned with the departure.
    pub tag: u64,
}

impl Packet {
    /// Returns a packet of `bytes` bytes with tag 0.
    #[must_use]
    pub fn new(bytes: u32) -> Self {
        Self { bytes, tag: 0 }
    }
}

/// The reason for a packet's departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The packet's service started.
    Sent,
    /// The deadline passed while the packet waited, and the stream drops late packets.
    DroppedLate,
    /// The packet arrived at a full queue; or its flow was the longest when the limit of a stream
    /// with flows was exceeded.
    DroppedFull,
    /// Queue management dropped the packet, so that its sender slows down.
    DroppedByAqm,
}

impl Event {
    /// Returns the event's name in the departures CSV: `sent`, `dropped-late`, `dropped-full` or
    /// `dropped-aqm`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Event::Sent => "sent",
            Event::DroppedLate => "dropped-late",
            Event::DroppedFull => "dropped-full",
            Event::DroppedByAqm => "dropped-aqm",
        }
    }
}

/// The arrivals and the backlog of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// The packets that arrived, dropped ones included.
    pub arrived: u64,
    /// The packets that wait.
    pub waiting: u32,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// A packet that leaves the scheduler: one row of the departures CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The time of the start of service or of the drop, ns.
    pub time_ns: u64,
    /// The packet's stream.
    pub stream: StreamId,
    /// The packet's number among the stream's arrivals, from 0.
    pub packet: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// The arrival time, ns.
    pub arrival_ns: u64,
    /// The deadline at the time of service or drop, ns; `None` without deadlines.
    pub deadline_ns: Option<u64>,
    /// The reason for the departure.
    pub event: Event,
    /// The caller's value from [`Packet::tag`].
    pub tag: u64,
}
