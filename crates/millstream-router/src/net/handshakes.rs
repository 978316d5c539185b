//! Round-trip times of TCP handshakes: from the reception of a SYN to that of its SYN-ACK.
//!
//! A table of fixed size keeps recent SYNs, without locks: the answer may arrive on another core. A
//! SYN that falls on the place of another replaces it, so a flood costs samples, not memory.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::net::header::{Header, any_transport};

/// The number of places.
const PLACES: usize = 1 << 14;
/// IP protocol number of TCP.
const TCP: u8 = 6;
/// Flags of TCP (RFC 9293, section 3.1).
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// The longest round-trip time that is counted, µs. A later SYN-ACK belongs to another SYN.
const LONGEST_US: u32 = 60_000_000;

/// The recent SYNs. A place holds 16 bits of the flow's hash, the path's slot (16 bits) and the
/// time in µs (32 bits), which wraps after 71 minutes; 0 is empty.
#[derive(Debug)]
pub(crate) struct Handshakes {
    places: Box<[AtomicU64]>,
    /// Hosts must not choose the places of their flows.
    hasher: RandomState,
}

impl Default for Handshakes {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { places, hasher: RandomState::new() }
    }
}

impl Handshakes {
    /// Notes a SYN, which the path of `slot` forwards. For a SYN-ACK, returns the slot of its SYN
    /// and the round-trip time, ns. Other packets are ignored.
    #[inline]
    pub(crate) fn received<A: Hash + Copy>(
        &self,
        header: &Header<A>,
        frame: &[u8],
        slot: u16,
        now_ns: u64,
    ) -> Option<(u16, u64)> {
        if header.protocol != TCP {
            return None;
        }
        let flags = flags(frame)? & (SYN | ACK);
        let ports = header.ports?;
        // The low 32 bits.
        #[allow(clippy::cast_possible_truncation)]
        let now_us = (now_ns / 1_000) as u32;
        if flags == SYN {
            let (place, tag) = self.place((header.source, ports.0), (header.destination, ports.1));
            let word = tag | u64::from(slot) << 32 | u64::from(now_us);
            self.places[place].store(word, Ordering::Relaxed);
        }
        if flags != SYN | ACK {
            return None;
        }
        let (place, tag) = self.place((header.destination, ports.1), (header.source, ports.0));
        let word = self.places[place].load(Ordering::Relaxed);
        let [then_us, slot] = [word, word >> 32].map(|bits| bits & 0xffff_ffff);
        if word == 0 || word & 0xffff << 48 != tag {
            return None;
        }
        // A second SYN-ACK is a retransmission.
        let taken =
            self.places[place].compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
        let then_us = u32::try_from(then_us).ok()?;
        let took_us = now_us.wrapping_sub(then_us);
        let slot = u16::try_from(slot & 0xffff).ok()?;
        (taken.is_ok() && took_us <= LONGEST_US).then_some((slot, u64::from(took_us) * 1_000))
    }

    /// Returns the place of a connection from `client` to `server`, and its tag.
    fn place<A: Hash>(&self, client: (A, u16), server: (A, u16)) -> (usize, u64) {
        let hash = self.hasher.hash_one((client, server));
        let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        (place, hash & 0xffff << 48)
    }
}

/// Returns the flags of a TCP packet; `None` for fragments and truncated headers.
fn flags(frame: &[u8]) -> Option<u8> {
    let transport = any_transport(frame).filter(|of| of.protocol == TCP && !of.fragment)?;
    frame.get(transport.start..transport.end)?.get(13).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const CLIENT: ([u8; 4], u16) = ([10, 1, 0, 5], 40_000);
    const SERVER: ([u8; 4], u16) = ([10, 2, 0, 9], 80);

    fn packet(from: ([u8; 4], u16), to: ([u8; 4], u16), syn: bool, ack: bool) -> Vec<u8> {
        let packet = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from.0, to.0, 64);
        let mut packet = packet.tcp(from.1, to.1, 7, 1_000);
        if syn {
            packet = packet.syn();
        }
        if ack {
            packet = packet.ack(8);
        }
        let mut frame = Vec::new();
        packet.write(&mut frame, &[]).unwrap();
        frame
    }

    fn received(of: &Handshakes, frame: &[u8], slot: u16, now_ns: u64) -> Option<(u16, u64)> {
        of.received(&Header::parse(frame).unwrap(), frame, slot, now_ns)
    }

    #[test]
    fn a_syn_ack_has_the_time_since_its_syn_once() {
        let handshakes = Handshakes::default();
        let syn = packet(CLIENT, SERVER, true, false);
        let syn_ack = packet(SERVER, CLIENT, true, true);
        assert_eq!(received(&handshakes, &syn_ack, 9, 1_000_000), None);
        // The time of the table wraps between the two.
        let began_ns = (1 << 32) * 1_000 - 5_000_000;
        assert_eq!(received(&handshakes, &syn, 3, began_ns), None);
        let data = packet(CLIENT, SERVER, false, true);
        assert_eq!(received(&handshakes, &data, 3, began_ns + 1), None);
        let other = packet(SERVER, (CLIENT.0, 40_001), true, true);
        assert_eq!(received(&handshakes, &other, 9, began_ns + 2), None);
        assert_eq!(
            received(&handshakes, &syn_ack, 9, began_ns + 12_000_000),
            Some((3, 12_000_000))
        );
        assert_eq!(received(&handshakes, &syn_ack, 9, began_ns + 13_000_000), None);
    }

    #[test]
    fn an_answer_after_a_minute_is_not_counted() {
        let handshakes = Handshakes::default();
        received(&handshakes, &packet(CLIENT, SERVER, true, false), 3, 0);
        let syn_ack = packet(SERVER, CLIENT, true, true);
        assert_eq!(received(&handshakes, &syn_ack, 9, 60_000_001_000), None);
    }

    #[test]
    fn packets_of_other_protocols_and_fragments_are_ignored() {
        let handshakes = Handshakes::default();
        let mut fragment = packet(CLIENT, SERVER, true, false);
        fragment[20] = 0x20;
        received(&handshakes, &fragment, 3, 1_000);
        let mut frame = Vec::new();
        let udp = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(CLIENT.0, SERVER.0, 64);
        udp.udp(CLIENT.1, SERVER.1).write(&mut frame, &[2; 60]).unwrap();
        received(&handshakes, &frame, 3, 1_000);
        assert!(handshakes.places.iter().all(|place| place.load(Ordering::Relaxed) == 0));
    }
}
