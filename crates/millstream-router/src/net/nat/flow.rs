//! One translated flow and its timeouts.

use std::net::Ipv4Addr;

use super::packet::{ICMP, TCP, UDP};

const SECOND_NS: u64 = 1_000_000_000;

/// Idle timeout of an answered UDP flow, ns.
const UDP_NS: u64 = 300 * SECOND_NS;
/// Idle timeout of an unanswered UDP flow, ns. RFC 4787, REQ-5, asks for two minutes; Linux has 30
/// s.
const UNANSWERED_UDP_NS: u64 = 30 * SECOND_NS;
const ICMP_NS: u64 = 60 * SECOND_NS;
const ESTABLISHED_NS: u64 = 7_440 * SECOND_NS;
/// Idle timeout of TCP before it is established and after it ends, ns.
const TRANSITORY_NS: u64 = 240 * SECOND_NS;
/// Idle timeout of a flow opened from outside, ns: all UDP, and TCP until both ends have sent. The
/// next packet opens it again.
const FROM_OUTSIDE_NS: u64 = 10 * SECOND_NS;

/// Address and port of one end; the identifier for ICMP echo.
pub(super) type End = (Ipv4Addr, u16);

/// Lookup keys of a flow: the protocol, the near end (the host's, or the external port), the other
/// end.
pub(super) type Inside = (u8, End, End);
pub(super) type Outside = (u8, u16, End);

/// A flow: its protocol, both ends and its state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) protocol: u8,
    pub(super) host: End,
    pub(super) port: u16,
    pub(super) other: End,
    /// Whether the other end opened it, by a forwarded port.
    pub(super) from_outside: bool,
    pub(super) last_ns: u64,
    /// Whether the host has sent.
    pub(super) host_has_sent: bool,
    /// Whether the end that did not open it has sent. For TCP from outside: whether the opener
    /// acknowledged the host, which proves its address.
    pub(super) answered: bool,
    /// TCP: whether the opener has acknowledged the answer and no reset followed.
    pub(super) established: bool,
    pub(super) ended: bool,
}

impl Flow {
    pub(super) fn inside(&self) -> Inside {
        (self.protocol, self.host, self.other)
    }

    pub(super) fn outside(&self) -> Outside {
        (self.protocol, self.port, self.other)
    }

    /// Returns whether the flow is exempt from eviction because its other end has answered.
    pub(super) fn is_settled(&self) -> bool {
        match self.protocol {
            TCP => self.established,
            _ => self.answered && !self.from_outside,
        }
    }

    /// Returns whether the idle timeout has passed.
    pub(super) fn is_expired(&self, now_ns: u64) -> bool {
        let timeout_ns = match self.protocol {
            UDP if self.from_outside => FROM_OUTSIDE_NS,
            TCP if self.from_outside && !self.answered => FROM_OUTSIDE_NS,
            UDP if !self.answered => UNANSWERED_UDP_NS,
            UDP => UDP_NS,
            ICMP => ICMP_NS,
            _ if self.established && !self.ended => ESTABLISHED_NS,
            _ => TRANSITORY_NS,
        };
        now_ns.saturating_sub(self.last_ns) > timeout_ns
    }
}
