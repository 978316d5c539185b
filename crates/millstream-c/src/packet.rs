//! Packets in, decisions out, and counters.

use millstream::aqm::Ecn;
use millstream::flow_queue::Flow;
use millstream::{Departure, Event, StreamCounters};

use crate::status::{MS_ERROR_RANGE, Status};

/// No deadline, no time, no limit of credits.
pub const MS_NONE: u64 = u64::MAX;

/// The ECN field of a sender that does not react to marks (Not-ECT).
pub const MS_ECN_NOT_CAPABLE: u32 = 0;
/// ECT(1): the sender expects marks from a shallow queue (L4S).
pub const MS_ECN_SCALABLE: u32 = 1;
/// ECT(0): the sender reacts to a mark as to a loss.
pub const MS_ECN_CAPABLE: u32 = 2;
/// Congestion was experienced on the way (CE).
pub const MS_ECN_CONGESTED: u32 = 3;

/// A packet that arrives.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The caller's value, for example a pointer. It comes back unchanged.
    pub handle: u64,
    /// The number of its stream.
    pub stream: u32,
    /// Length, bytes, without the link's overhead. 0 is allowed.
    pub bytes: u32,
    /// The hash of its flow, for streams with flows.
    pub flow_hash: u32,
    /// The hash of its host, for streams whose hosts share equally.
    pub host_hash: u32,
    /// The ECN field, MS_ECN_...: the low two bits of the traffic class.
    pub ecn: u32,
    /// 0.
    pub reserved: u32,
}

impl Packet {
    /// Returns whether its fields are valid for a scheduler of this number of streams.
    #[inline]
    pub(crate) fn is_valid(&self, streams: usize) -> bool {
        ((self.stream as usize) < streams) & (self.ecn < 4)
    }

    /// Returns the packet's flow.
    pub(crate) fn flow(&self) -> Result<Flow, Status> {
        let byte = u8::try_from(self.ecn).ok().filter(|byte| *byte < 4).ok_or(MS_ERROR_RANGE)?;
        let ecn = Ecn::of_traffic_class(byte);
        Ok(Flow { hash: self.flow_hash, host: self.host_hash, ecn })
    }
}

/// The packet's service starts.
pub const MS_EVENT_SENT: u32 = 0;
/// The deadline passed while the packet waited, and the stream drops late packets.
pub const MS_EVENT_LATE: u32 = 1;
/// The packet's flow was the longest when a limit of its stream was exceeded.
pub const MS_EVENT_FULL: u32 = 2;
/// Queue management dropped the packet.
pub const MS_EVENT_AQM: u32 = 3;

/// A packet that is sent or dropped.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The caller's value.
    pub handle: u64,
    /// The time of the start of service or of the drop, ns.
    pub time_ns: u64,
    /// The arrival time, ns.
    pub arrival_ns: u64,
    /// The deadline at the time of service or drop, ns; `MS_NONE` without deadlines.
    pub deadline_ns: u64,
    /// The packet's number among the stream's arrivals, from 0; dropped arrivals count.
    pub packet: u64,
    /// The number of its stream.
    pub stream: u32,
    /// Length, bytes.
    pub bytes: u32,
    /// `MS_EVENT_SENT`, or the reason of a drop: `MS_EVENT_LATE`, `MS_EVENT_FULL`,
    /// `MS_EVENT_AQM`.
    pub event: u32,
    /// 1 if the ECN field must be set to CE, otherwise 0.
    pub mark: u32,
}

impl Decision {
    /// Returns the decision of a packet that is sent, without a mark.
    #[inline(always)]
    pub(crate) fn sent(departure: &Departure) -> Self {
        Self { event: MS_EVENT_SENT, ..Self::new(departure) }
    }

    /// Returns the decision, without a mark.
    #[inline(always)]
    pub(crate) fn new(departure: &Departure) -> Self {
        Self {
            handle: departure.tag,
            time_ns: departure.time_ns,
            arrival_ns: departure.arrival_ns,
            deadline_ns: departure.deadline_ns.unwrap_or(MS_NONE),
            packet: departure.packet,
            stream: departure.stream.0,
            bytes: departure.bytes,
            event: match departure.event {
                Event::Sent => MS_EVENT_SENT,
                Event::DroppedLate => MS_EVENT_LATE,
                Event::DroppedFull => MS_EVENT_FULL,
                Event::DroppedByAqm => MS_EVENT_AQM,
            },
            mark: 0,
        }
    }
}

/// The counters of a stream since it was made. `arrived` is the sum of `sent`, the three counters
/// of drops and `waiting`; the same holds for bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived, dropped ones included.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets dropped because their deadline passed.
    pub dropped_late: u64,
    /// Packets dropped at limits.
    pub dropped_full: u64,
    /// Packets dropped by queue management.
    pub dropped_aqm: u64,
    /// Bytes of all dropped packets.
    pub dropped_bytes: u64,
    /// Deadlines missed: request periods that ended while a packet waited, and packets sent late.
    pub missed: u64,
    /// Misses beyond the losses that the window allows.
    pub violations: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// The losses of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    late: u64,
    full: u64,
    aqm: u64,
    bytes: u64,
    missed: u64,
    violations: u64,
}

impl Losses {
    pub(crate) fn drop(&mut self, dropped: &Departure) {
        match dropped.event {
            Event::DroppedLate => self.late += 1,
            Event::DroppedByAqm => self.aqm += 1,
            Event::DroppedFull | Event::Sent => self.full += 1,
        }
        self.bytes += u64::from(dropped.bytes);
    }

    pub(crate) fn miss(&mut self, missed: u64, violations: u64) {
        self.missed += missed;
        self.violations += violations;
    }
}

impl Counters {
    /// Returns the counters of a stream that has sent `sent_bytes` bytes.
    pub(crate) fn of(counters: StreamCounters, sent_bytes: u64, losses: Losses) -> Self {
        let StreamCounters { arrived, waiting, waiting_bytes } = counters;
        let Losses { late, full, aqm, bytes, missed, violations } = losses;
        let waiting = u64::from(waiting);
        Self {
            arrived,
            arrived_bytes: sent_bytes + waiting_bytes + bytes,
            sent: arrived - waiting - late - full - aqm,
            sent_bytes,
            dropped_late: late,
            dropped_full: full,
            dropped_aqm: aqm,
            dropped_bytes: bytes,
            missed,
            violations,
            waiting,
            waiting_bytes,
        }
    }
}
