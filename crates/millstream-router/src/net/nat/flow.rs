//! What translation knows of one flow.

use std::net::Ipv4Addr;

use super::packet::{ICMP, TCP, UDP};

const SECOND_NS: u64 = 1_000_000_000;

/// How long a flow may be silent, ns.
const UDP_NS: u64 = 300 * SECOND_NS;
/// Of UDP before it is answered. RFC 4787, REQ-5, asks for two minutes; the kernel has 30 s, too.
const UNANSWERED_UDP_NS: u64 = 30 * SECOND_NS;
const ICMP_NS: u64 = 60 * SECOND_NS;
const ESTABLISHED_NS: u64 = 7_440 * SECOND_NS;
/// Of TCP before it is established, and after it was ended.
const TRANSITORY_NS: u64 = 240 * SECOND_NS;
/// Of UDP that was begun outside, and of such TCP before both ends have spoken: the next packet begins it anew.
const BRIEF_NS: u64 = 10 * SECOND_NS;

/// One end of a flow. Of ICMP echo the port is its identifier.
pub(super) type End = (Ipv4Addr, u16);

/// How a flow is found: the protocol, its end here (inside: the host, outside: our port), its other end.
pub(super) type Inside = (u8, End, End);
pub(super) type Outside = (u8, u16, End);

/// A protocol and both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) protocol: u8,
    pub(super) host: End,
    pub(super) port: u16,
    pub(super) other: End,
    /// Whether the other end began it, by a port that is forwarded.
    pub(super) from_outside: bool,
    pub(super) last_ns: u64,
    /// Whether the host has.
    pub(super) spoken: bool,
    /// Whether who did not begin it has spoken; of TCP that was begun outside, whether it heard the host's answer, so
    /// that its address is not made up.
    pub(super) answered: bool,
    /// Of TCP: whether who began it has acknowledged the answer, and none has reset it since.
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

    /// Whether it keeps its place whatever comes: its other end is there.
    pub(super) fn is_settled(&self) -> bool {
        match self.protocol {
            TCP => self.established,
            _ => self.answered && !self.from_outside,
        }
    }

    /// Whether it was silent for too long.
    pub(super) fn is_expired(&self, now_ns: u64) -> bool {
        let patience_ns = match self.protocol {
            UDP if self.from_outside => BRIEF_NS,
            TCP if self.from_outside && !self.answered => BRIEF_NS,
            UDP if !self.answered => UNANSWERED_UDP_NS,
            UDP => UDP_NS,
            ICMP => ICMP_NS,
            _ if self.established && !self.ended => ESTABLISHED_NS,
            _ => TRANSITORY_NS,
        };
        now_ns.saturating_sub(self.last_ns) > patience_ns
    }
}
