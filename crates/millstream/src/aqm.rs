//! Active queue management: drops or marks packets before a queue is full, so that senders slow
//! down.
//!
//! A stream with [`FlowOptions`](crate::flow_queue::FlowOptions) manages each of its flows.

pub mod codel;

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
}

/// The queue management of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aqm {
    /// None: packets are dropped at the limits only.
    #[default]
    None,
    /// CoDel (RFC 8289).
    Codel(codel::CodelOptions),
}
