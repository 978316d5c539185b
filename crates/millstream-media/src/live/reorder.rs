//! Reorder buffer for a publisher's packets (RFC 3550, appendix A.1). A packet that arrives early
//! is held until its predecessors arrive or are given up as lost. Bounded in packets, bytes and
//! time.

use std::collections::BTreeMap;

/// How long a packet waits for its predecessors, ns.
const HOLD_NS: u64 = 100_000_000;

/// The most packets held, and the most bytes held.
const MAX_HELD: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// A sequence number further ahead or behind than this restarts the sequence.
const FAR_AHEAD: i16 = 3_000;
const FAR_BEHIND: i16 = -300;

/// The parts of an RTP packet that later stages need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    pub(crate) payload: &'a [u8],
}

#[derive(Debug)]
struct Buffered {
    since_ns: u64,
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

/// Counters of packet order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// Packets that never arrived or arrived too late.
    pub(crate) lost: u64,
    /// Packets that arrived before a predecessor and were delivered in order.
    pub(crate) reordered: u64,
    /// Packets that arrived twice, or after they were given up.
    pub(crate) late: u64,
}

/// The reorder buffer of one source.
#[derive(Debug, Default)]
pub(crate) struct Reorder {
    /// The next sequence number, extended beyond 16 bits.
    next: Option<u64>,
    held: BTreeMap<u64, Buffered>,
    bytes: usize,
    pub(crate) order: Order,
}

impl Reorder {
    /// Adds packet `number`. Calls `deliver` with each packet that is next in order and whether
    /// packets before it are missing.
    pub(crate) fn push(
        &mut self,
        number: u16,
        packet: Packet<'_>,
        now_ns: u64,
        deliver: &mut impl FnMut(Packet<'_>, bool),
    ) {
        let Some(next) = self.next else {
            // Far from 0, so that packets behind have positive extended numbers.
            self.next = Some((1 << 32) + u64::from(number) + 1);
            return deliver(packet, false);
        };
        let expected = u16::try_from(next & 0xffff).unwrap_or(0);
        let ahead = number.wrapping_sub(expected).cast_signed();
        match ahead {
            0 => {
                self.next = Some(next + 1);
                deliver(packet, false);
                self.follow(deliver);
            }
            1..FAR_AHEAD => {
                let at = next + u64::from(ahead.unsigned_abs());
                let Packet { timestamp, marker, payload } = packet;
                let held =
                    Buffered { since_ns: now_ns, timestamp, marker, payload: payload.to_vec() };
                if self.held.contains_key(&at) {
                    self.order.late += 1;
                } else {
                    self.bytes += payload.len();
                    self.held.insert(at, held);
                }
            }
            FAR_BEHIND..0 => self.order.late += 1,
            _ => {
                while !self.held.is_empty() {
                    self.give_up(deliver);
                }
                self.next = Some((next | 0xffff) + 1 + u64::from(number) + 1);
                return deliver(packet, true);
            }
        }
        self.expire(now_ns, deliver);
    }

    /// Skips missing packets after their timeout, or when the buffer is full.
    pub(crate) fn expire(&mut self, now_ns: u64, deliver: &mut impl FnMut(Packet<'_>, bool)) {
        let old = |held: &Buffered| now_ns.saturating_sub(held.since_ns) > HOLD_NS;
        while self.held.len() > MAX_HELD || self.bytes > MAX_BYTES || self.held.values().any(old) {
            self.give_up(deliver);
        }
    }

    /// Skips the first gap.
    fn give_up(&mut self, deliver: &mut impl FnMut(Packet<'_>, bool)) {
        let Some((at, held)) = self.held.pop_first() else { return };
        self.order.lost += at.saturating_sub(self.next.unwrap_or(at));
        self.next = Some(at + 1);
        self.bytes -= held.payload.len();
        deliver(held.packet(), true);
        self.follow(deliver);
    }

    /// Delivers held packets that are next in sequence.
    fn follow(&mut self, deliver: &mut impl FnMut(Packet<'_>, bool)) {
        while let Some(next) = self.next
            && let Some(held) = self.held.remove(&next)
        {
            self.order.reordered += 1;
            self.next = Some(next + 1);
            self.bytes -= held.payload.len();
            deliver(held.packet(), false);
        }
    }
}

impl Buffered {
    fn packet(&self) -> Packet<'_> {
        let Self { timestamp, marker, payload, .. } = self;
        Packet { timestamp: *timestamp, marker: *marker, payload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes numbers 1 ms apart. Returns the numbers delivered and whether a gap preceded each.
    fn out(reorder: &mut Reorder, numbers: &[u16]) -> Vec<(u8, bool)> {
        let mut out = Vec::new();
        for (now_ms, number) in (0..).zip(numbers) {
            let payload = [u8::try_from(number & 255).unwrap()];
            let packet = Packet { timestamp: 0, marker: false, payload: &payload };
            let mut deliver = |packet: Packet<'_>, gap| out.push((packet.payload[0], gap));
            reorder.push(*number, packet, now_ms * 1_000_000, &mut deliver);
        }
        out
    }

    fn fine(numbers: &[u8]) -> Vec<(u8, bool)> {
        numbers.iter().map(|number| (*number, false)).collect()
    }

    #[test]
    fn packets_are_reordered_across_the_sequence_wrap() {
        let mut reorder = Reorder::default();
        let found = out(&mut reorder, &[65_533, 65_535, 65_534, 1, 0, 2, 2, 0]);
        assert_eq!(found, fine(&[253, 254, 255, 0, 1, 2]));
        assert_eq!(reorder.order, Order { lost: 0, reordered: 2, late: 2 });
    }

    #[test]
    fn missing_packets_are_given_up_after_a_bounded_wait() {
        let mut reorder = Reorder::default();
        assert_eq!(out(&mut reorder, &[1, 2, 5, 6]), fine(&[1, 2]));
        let mut late = Vec::new();
        reorder.expire(HOLD_NS + 9_000_000, &mut |packet, gap| late.push((packet.payload[0], gap)));
        assert_eq!(late, [(5, true), (6, false)]);
        assert_eq!((reorder.order.lost, reorder.held.len(), reorder.bytes), (2, 0, 0));
        // More packets wait than the buffer holds.
        let many: Vec<u16> = (8..8 + 300).collect();
        let found = out(&mut reorder, &many);
        assert_eq!((found[0], found.len()), ((8, true), 300));
    }

    #[test]
    fn a_jump_restarts_the_sequence() {
        let mut reorder = Reorder::default();
        let found = out(&mut reorder, &[10, 11, 13, 20_000, 20_001, 40]);
        let expected = [(10, false), (11, false), (13, true), (32, true), (33, false), (40, true)];
        assert_eq!(found, expected);
    }

    proptest::proptest! {
        #[test]
        fn every_packet_is_delivered_at_most_once_and_few_are_held(
            numbers in proptest::collection::vec(
                proptest::prop_oneof![0u16..600, 0u16..=65_535], 0..800),
        ) {
            let mut reorder = Reorder::default();
            let found = out(&mut reorder, &numbers).len() as u64;
            let held = reorder.held.len();
            proptest::prop_assert!(held <= MAX_HELD);
            let counted = found + held as u64 + reorder.order.late;
            proptest::prop_assert_eq!(counted, numbers.len() as u64);
        }
    }
}
