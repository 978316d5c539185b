//! Reads and rewrites the addresses, ports and checksums of IPv4 packets.

use etherparse::checksum::Sum16BitWords;
use std::net::Ipv4Addr;

use super::flow::End;
use super::fragments::FragmentKey;
use crate::net::header::{Transport, updated_checksum};

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// The SYN flag of TCP.
pub(super) const SYN: u8 = 2;

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: End,
    pub(super) destination: End,
}

/// The end to rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Source,
    Destination,
}

/// The fragment that a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FragmentKind {
    Whole,
    First,
    Later,
}

pub(super) fn fragment_kind(frame: &[u8], ip: Transport) -> FragmentKind {
    match word(frame, ip.header + 6) & 0x1fff {
        0 if ip.fragment => FragmentKind::First,
        0 => FragmentKind::Whole,
        _ => FragmentKind::Later,
    }
}

/// Returns the key that all fragments of the packet share.
pub(super) fn fragment_key(frame: &[u8], ip: Transport) -> FragmentKey {
    let (source, destination) = addresses(frame, ip);
    (source, destination, ip.protocol, word(frame, ip.header + 4))
}

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// Returns source and destination address.
pub(super) fn addresses(frame: &[u8], ip: Transport) -> (Ipv4Addr, Ipv4Addr) {
    let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
    (address(ip.header + 12), address(ip.header + 16))
}

/// Returns the ends of a translatable packet: complete, or the first fragment.
pub(super) fn ends(frame: &[u8], ip: Transport) -> Option<Ends> {
    let least = match ip.protocol {
        TCP => 20,
        UDP | ICMP => 8,
        _ => return None,
    };
    if fragment_kind(frame, ip) == FragmentKind::Later || ip.end - ip.start < least {
        return None;
    }
    quoted_ends(frame, ip)
}

/// Returns the ends of a packet with at least eight payload bytes in `frame`.
pub(super) fn quoted_ends(frame: &[u8], ip: Transport) -> Option<Ends> {
    let (source, destination) = match (ip.protocol, frame[ip.start]) {
        (TCP | UDP, _) => (word(frame, ip.start), word(frame, ip.start + 2)),
        // The identifier of an echo belongs to the requester.
        (ICMP, 8) => (word(frame, ip.start + 4), 0),
        (ICMP, 0) => (0, word(frame, ip.start + 4)),
        _ => return None,
    };
    let (from, to) = addresses(frame, ip);
    Some(Ends { source: (from, source), destination: (to, destination) })
}

/// Returns the packet that an ICMP error quotes; `None` if `ip` is no valid error.
pub(super) fn quoted(frame: &[u8], ip: Transport) -> Option<Transport> {
    let message = frame.get(ip.start..ip.end)?;
    let is_error = ip.protocol == ICMP && matches!(message.first(), Some(3 | 4 | 11 | 12));
    if !is_error || ip.fragment || sum(message) != 0 {
        return None;
    }
    let quoted_at = ip.start + 8;
    let quoted = frame.get(quoted_at..ip.end)?;
    let header = usize::from(quoted.first()? & 15) * 4;
    let is_first = quoted.first()? >> 4 == 4 && header >= 20 && quoted.get(6)? & 0x1f == 0;
    let start = quoted_at + header;
    // An error quotes at least eight bytes of the payload.
    if !is_first || *quoted.get(7)? != 0 || start + 8 > ip.end {
        return None;
    }
    Some(Transport { protocol: quoted[9], header: quoted_at, start, end: ip.end, fragment: false })
}

/// Returns whether the packet is an echo request (`asks`) or an echo reply.
pub(super) fn is_echo(frame: &[u8], ip: Transport, asks: bool) -> bool {
    let kind = if asks { 8 } else { 0 };
    ip.protocol == ICMP && frame.get(ip.start) == Some(&kind)
}

/// Returns whether a TCP segment acknowledges the other end, and is no SYN.
pub(super) fn acknowledges(frame: &[u8], ip: Transport) -> bool {
    const ACK: u8 = 16;
    ip.protocol == TCP && flags(frame, ip) & (ACK | SYN) == ACK
}

/// Returns the flags of a TCP segment.
pub(super) fn flags(frame: &[u8], ip: Transport) -> u8 {
    frame[ip.start + 13]
}

/// Returns the checksum of `bytes`; 0 if they contain a correct one.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    Sum16BitWords::new().add_slice(bytes).ones_complement().to_be()
}

/// Recomputes the checksum of a changed ICMP message.
pub(super) fn refresh_icmp_checksum(frame: &mut [u8], ip: Transport) {
    frame[ip.start + 2..ip.start + 4].fill(0);
    let sum = sum(&frame[ip.start..ip.end]);
    frame[ip.start + 2..ip.start + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Replaces one end of a packet and updates its checksums.
pub(super) fn replace(frame: &mut [u8], ip: Transport, field: Field, (to, port): End) {
    // A quoted TCP header may be truncated before its checksum.
    let checksum_at = match ip.protocol {
        TCP => ip.start + 16,
        UDP => ip.start + 6,
        _ => ip.start + 2,
    };
    let there = checksum_at + 2 <= ip.end;
    let none = ip.protocol == UDP && there && word(frame, checksum_at) == 0;
    let checksum = (there && !none).then_some(checksum_at);
    // The ICMP checksum does not cover addresses.
    replace_address(frame, ip, field, to, checksum.filter(|_| ip.protocol != ICMP));
    let port_at = match (ip.protocol, field) {
        (ICMP, _) => ip.start + 4,
        (_, Field::Source) => ip.start,
        (_, Field::Destination) => ip.start + 2,
    };
    replace_word(frame, port_at, port, checksum);
    // In UDP, 0 means no checksum.
    if let Some(at) = checksum.filter(|at| ip.protocol == UDP && word(frame, *at) == 0) {
        frame[at..at + 2].fill(0xff);
    }
}

/// Replaces the address of one end; `checksum` is the offset of a transport checksum that covers
/// it.
pub(super) fn replace_address(
    frame: &mut [u8],
    ip: Transport,
    field: Field,
    to: Ipv4Addr,
    checksum: Option<usize>,
) {
    let at = ip.header + if field == Field::Source { 12 } else { 16 };
    let [a, b, c, d] = to.octets();
    for (at, new) in [(at, [a, b]), (at + 2, [c, d])] {
        let new = u16::from_be_bytes(new);
        let old = word(frame, at);
        replace_word(frame, at, new, Some(ip.header + 10));
        if let Some(checksum) = checksum {
            update(frame, checksum, old, new);
        }
    }
}

pub(super) fn replace_identification(frame: &mut [u8], ip: Transport, identification: u16) {
    replace_word(frame, ip.header + 4, identification, Some(ip.header + 10));
}

fn replace_word(frame: &mut [u8], at: usize, new: u16, checksum: Option<usize>) {
    let old = word(frame, at);
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    if let Some(checksum) = checksum {
        update(frame, checksum, old, new);
    }
}

/// Updates the checksum at offset `checksum` for one changed word.
fn update(frame: &mut [u8], checksum: usize, old: u16, new: u16) {
    let after = updated_checksum(word(frame, checksum), old, new);
    frame[checksum..checksum + 2].copy_from_slice(&after.to_be_bytes());
}
