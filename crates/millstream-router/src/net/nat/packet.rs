//! Where a packet's ends stand, and other ones in their place.

use etherparse::checksum::Sum16BitWords;
use std::net::Ipv4Addr;

use super::flow::End;
use super::fragments::FragmentKey;
use crate::net::header::{Transport, updated};

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// Among TCP's flags.
pub(super) const SYN: u8 = 2;

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: End,
    pub(super) destination: End,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Source,
    Destination,
}

/// Which part of a packet a frame holds.
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

/// What its fragments have in common.
pub(super) fn fragment_key(frame: &[u8], ip: Transport) -> FragmentKey {
    let (source, destination) = addresses(frame, ip);
    (source, destination, ip.protocol, word(frame, ip.header + 4))
}

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// Where a packet is from, and to.
pub(super) fn addresses(frame: &[u8], ip: Transport) -> (Ipv4Addr, Ipv4Addr) {
    let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
    (address(ip.header + 12), address(ip.header + 16))
}

/// The ends of a packet that can be translated as it is; of fragments only the first can.
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

/// The same of a packet of which eight bytes after the header are there.
pub(super) fn quoted_ends(frame: &[u8], ip: Transport) -> Option<Ends> {
    let (source, destination) = match (ip.protocol, frame[ip.start]) {
        (TCP | UDP, _) => (word(frame, ip.start), word(frame, ip.start + 2)),
        // The identifier of an echo is that of who asks.
        (ICMP, 8) => (word(frame, ip.start + 4), 0),
        (ICMP, 0) => (0, word(frame, ip.start + 4)),
        _ => return None,
    };
    let (from, to) = addresses(frame, ip);
    Some(Ends { source: (from, source), destination: (to, destination) })
}

/// The packet that an ICMP error is about, which it quotes; `None` if `ip` is no such error, or broken.
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
    // Eight bytes of the payload are quoted always.
    if !is_first || *quoted.get(7)? != 0 || start + 8 > ip.end {
        return None;
    }
    Some(Transport { protocol: quoted[9], header: quoted_at, start, end: ip.end, fragment: false })
}

/// Whether it is an echo request, if so `asks`, or a reply.
pub(super) fn is_echo(frame: &[u8], ip: Transport, asks: bool) -> bool {
    let kind = if asks { 8 } else { 0 };
    ip.protocol == ICMP && frame.get(ip.start) == Some(&kind)
}

/// Whether a segment of TCP says that its sender has heard the other end.
pub(super) fn acknowledges(frame: &[u8], ip: Transport) -> bool {
    const ACK: u8 = 16;
    ip.protocol == TCP && flags(frame, ip) & (ACK | SYN) == ACK
}

/// The flags of a segment of TCP.
pub(super) fn flags(frame: &[u8], ip: Transport) -> u8 {
    frame[ip.start + 13]
}

/// The checksum of `bytes`; 0 if theirs is right.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    Sum16BitWords::new().add_slice(bytes).ones_complement().to_be()
}

/// The checksum of an ICMP message that has changed.
pub(super) fn refresh_icmp_checksum(frame: &mut [u8], ip: Transport) {
    frame[ip.start + 2..ip.start + 4].fill(0);
    let sum = sum(&frame[ip.start..ip.end]);
    frame[ip.start + 2..ip.start + 4].copy_from_slice(&sum.to_be_bytes());
}

/// One end of a packet becomes another, its checksums with it.
pub(super) fn replace(frame: &mut [u8], ip: Transport, field: Field, (to, port): End) {
    // Within the first eight bytes but for TCP, of which a quoted packet may have less.
    let checksum_at = match ip.protocol {
        TCP => ip.start + 16,
        UDP => ip.start + 6,
        _ => ip.start + 2,
    };
    let there = checksum_at + 2 <= ip.end;
    let none = ip.protocol == UDP && there && word(frame, checksum_at) == 0;
    let checksum = (there && !none).then_some(checksum_at);
    // ICMP's checksum does not cover addresses.
    replace_address(frame, ip, field, to, checksum.filter(|_| ip.protocol != ICMP));
    let port_at = match (ip.protocol, field) {
        (ICMP, _) => ip.start + 4,
        (_, Field::Source) => ip.start,
        (_, Field::Destination) => ip.start + 2,
    };
    replace_word(frame, port_at, port, checksum);
    // Of UDP, 0 says that there is no checksum.
    if let Some(at) = checksum.filter(|at| ip.protocol == UDP && word(frame, *at) == 0) {
        frame[at..at + 2].fill(0xff);
    }
}

/// The address of one end becomes another; `checksum` is where one stands that covers it, beside the header's.
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

/// The checksum that stands there, for a word that has changed.
fn update(frame: &mut [u8], checksum: usize, old: u16, new: u16) {
    let after = updated(word(frame, checksum), old, new);
    frame[checksum..checksum + 2].copy_from_slice(&after.to_be_bytes());
}
