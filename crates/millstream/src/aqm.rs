//! Active queue management: drops or marks packets before a queue is full, so that senders slow
//! down.
//!
//! A stream with [`FlowOptions`](crate::flow_queue::FlowOptions) manages each of its flows.
//!
//! | management | decides | on | source |
//! |---|---|---|---|
//! | [`codel`] | at departure | sojourn time | RFC 8289 |
//! | [`pie`] | at arrival | sojourn time and its trend | RFC 8033 |
//! | [`red`] | at arrival | average length | Floyd and Jacobson, 1993 |
//! | [`cobalt`] | at departure | sojourn time, overflows | CAKE, LANMAN 2018 |
//! | [`dual_pi2`] | at departure | sojourn times of two queues | RFC 9332 |
//!
//! [`Manager`] is the state of one queue. DualPI2 couples two queues and is not one.

pub mod cobalt;
pub mod codel;
pub mod dual_pi2;
mod pi;
pub mod pie;
mod random;
pub mod red;

pub use random::{CERTAIN, Random};

/// The ECN field of a packet (RFC 3168, section 5; RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The sender does not react to marks (Not-ECT): the packet is dropped instead.
    #[default]
    NotCapable,
    /// ECT(0): the sender reacts to a mark as to a loss.
    Capable,
    /// ECT(1): the sender expects marks from a shallow queue (L4S).
    Scalable,
    /// Congestion was experienced on the way (CE).
    Congested,
}

impl Ecn {
    /// Returns the ECN field of a traffic class or type-of-service byte.
    #[must_use]
    pub fn of_traffic_class(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotCapable,
            1 => Self::Scalable,
            2 => Self::Capable,
            _ => Self::Congested,
        }
    }

    /// Returns whether the packet can be marked instead of dropped.
    #[must_use]
    pub fn is_capable(self) -> bool {
        self != Self::NotCapable
    }

    /// Returns whether the packet belongs in the low-latency queue: ECT(1) or CE (RFC 9331,
    /// section 5.1).
    #[must_use]
    pub fn is_low_latency(self) -> bool {
        matches!(self, Self::Scalable | Self::Congested)
    }
}

/// The queue management of each flow of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aqm {
    /// None: packets are dropped at the limits only.
    #[default]
    None,
    /// CoDel (RFC 8289).
    Codel(codel::CodelOptions),
    /// PIE (RFC 8033).
    Pie(pie::PieOptions),
    /// RED (Floyd and Jacobson, 1993).
    Red(red::RedOptions),
    /// COBALT: CoDel with BLUE (CAKE, LANMAN 2018).
    Cobalt(cobalt::CobaltOptions),
    /// DualPI2 (RFC 9332): the stream has two queues instead of flows.
    DualPi2(dual_pi2::DualPi2Options),
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Deliver it.
    Deliver,
    /// Mark it and deliver it.
    Mark,
    /// Drop it. At departure, ask again about the next packet.
    Drop,
}

/// A packet at the head of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The packet's time in the queue, ns.
    pub sojourn_ns: u64,
    /// The bytes that wait besides it, in all queues of the stream.
    pub backlog_bytes: u64,
    /// Whether no packet waits behind it in its queue.
    pub is_last: bool,
    /// Whether the packet can be marked.
    pub can_mark: bool,
    /// The largest packet seen by the queues of the stream, bytes.
    pub largest_bytes: u32,
}

/// The queue management of one queue.
///
/// A queue calls [`arrive`](Self::arrive) for every packet that arrives, and a round of
/// [`begin`](Self::begin) and [`next`](Self::next) to remove a packet. Time does not go backwards.
pub trait Manager: Clone + Default {
    /// The parameters, which the queues of a stream share.
    type Options: Copy;
    /// The state of one removal, in which several packets may be dropped.
    type Round;

    /// Decides on a packet that arrives while `backlog` waits. `Deliver` and `Mark` append it.
    #[inline]
    fn arrive(
        &mut self,
        options: &Self::Options,
        now_ns: u64,
        backlog: Backlog,
        can_mark: bool,
        random: &mut Random,
    ) -> Action {
        let _ = (options, now_ns, backlog, can_mark, random);
        Action::Deliver
    }

    /// Begins a removal.
    fn begin(&self) -> Self::Round;

    /// Decides on the packet at the head; `None`: the queue is empty. Call it in a round until it
    /// does not drop.
    fn next(
        &mut self,
        round: &mut Self::Round,
        options: &Self::Options,
        now_ns: u64,
        head: Option<&Candidate>,
        random: &mut Random,
    ) -> Action;

    /// Notes that packets of the queue were dropped at a limit of the stream; `is_empty`: none is
    /// left.
    #[inline]
    fn overflowed(&mut self, options: &Self::Options, now_ns: u64, is_empty: bool) {
        let _ = (options, now_ns, is_empty);
    }
}

/// The packets that wait in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u32,
    /// Bytes.
    pub bytes: u64,
}
