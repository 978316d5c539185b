//! Splices two TCP connections: rewrites sequence numbers and windows, so that the ends see one
//! connection.
//!
//! Each end counts from the initial sequence number that the handshake gave it. The router gave the
//! client its own number in place of the server's. The server got the client's number unchanged.
//! Therefore:
//!
//! | packets to the | change |
//! |---|---|
//! | server | subtract the offset from the acknowledgement and SACK blocks |
//! | client | add the offset to the sequence number |
//!
//! Window scales are negotiated separately with each end. Checksums are updated incrementally (RFC
//! 1624).
//!
//! Source: the Router paper, Table 1; RFC 9293, RFC 7323 section 2 (windows), RFC 2018.

use super::segment::{ACK, SYN, Segment};
use crate::net::header::updated_checksum;

/// The window scale that the router announces to clients.
pub(super) const ROUTER_SHIFT: u8 = 7;

const SEQUENCE: usize = 4;
const ACKNOWLEDGEMENT: usize = 8;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;
const OPTIONS: usize = 20;

/// TCP option kinds.
const END: u8 = 0;
const NOP: u8 = 1;
pub(super) const MSS: u8 = 2;
pub(super) const WINDOW_SCALE: u8 = 3;
pub(super) const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;

/// Differences between the two connections of a spliced flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SplicedFlow {
    /// The client's view of the server's sequence numbers minus the server's.
    pub(super) seq_offset: u32,
    /// The client's window scale. If present, the router has announced [`ROUTER_SHIFT`].
    pub(super) client_shift: Option<u8>,
    /// The server's window scale.
    pub(super) server_shift: Option<u8>,
}

/// Iterates over kind and value range of the options of a segment; stops at a malformed one.
pub(super) fn options<'a>(
    frame: &'a [u8],
    segment: &Segment,
) -> impl Iterator<Item = (u8, std::ops::Range<usize>)> + use<'a> {
    let (mut at, end) = (segment.ip.start + OPTIONS, segment.data);
    std::iter::from_fn(move || {
        loop {
            let kind = *frame.get(at).filter(|_| at < end)?;
            match kind {
                END => return None,
                NOP => at += 1,
                _ => {
                    let length = usize::from(*frame.get(at + 1)?);
                    if length < 2 || at + length > end {
                        return None;
                    }
                    at += length;
                    return Some((kind, at - length + 2..at));
                }
            }
        }
    })
}

/// Reads four bytes in network order.
pub(super) fn read_u32(frame: &[u8], at: usize) -> u32 {
    frame.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |of| u32::from_be_bytes(*of))
}

fn read_u16(frame: &[u8], at: usize) -> u16 {
    frame.get(at..).and_then(|rest| rest.first_chunk::<2>()).map_or(0, |of| u16::from_be_bytes(*of))
}

impl Segment {
    /// Returns the sequence number.
    pub(super) fn sequence(&self, frame: &[u8]) -> u32 {
        read_u32(frame, self.ip.start + SEQUENCE)
    }

    /// Returns the acknowledgement number.
    pub(super) fn acknowledgement(&self, frame: &[u8]) -> u32 {
        read_u32(frame, self.ip.start + ACKNOWLEDGEMENT)
    }

    /// Returns the advertised window, unscaled.
    pub(super) fn window(&self, frame: &[u8]) -> u16 {
        read_u16(frame, self.ip.start + WINDOW)
    }
}

impl SplicedFlow {
    /// Rewrites a client's packet for the server.
    pub(super) fn rewrite_to_server(&self, frame: &mut [u8], segment: &Segment) {
        if segment.flags & ACK != 0 {
            let less = |of: u32| of.wrapping_sub(self.seq_offset);
            replace_u32(frame, segment, segment.ip.start + ACKNOWLEDGEMENT, less);
            if segment.data > segment.ip.start + OPTIONS {
                self.rewrite_sack(frame, segment);
            }
        }
        if let (Some(shift), None) = (self.client_shift, self.server_shift) {
            set_window(frame, segment, |window| window << shift);
        }
    }

    /// Rewrites a server's packet for the client.
    pub(super) fn rewrite_to_client(&self, frame: &mut [u8], segment: &Segment) {
        let more = |of: u32| of.wrapping_add(self.seq_offset);
        replace_u32(frame, segment, segment.ip.start + SEQUENCE, more);
        // The window of a SYN is never scaled.
        if self.client_shift.is_some() && segment.flags & SYN == 0 {
            let shift = self.server_shift.unwrap_or(0);
            set_window(frame, segment, |window| window << shift >> ROUTER_SHIFT);
        }
    }

    fn rewrite_sack(&self, frame: &mut [u8], segment: &Segment) {
        // The 40 bytes of options hold at most four SACK blocks. Only the first SACK option counts.
        let list = options(frame, segment).find(|(kind, _)| *kind == SACK);
        let Some((_, list)) = list else { return };
        for at in list.clone().step_by(4).filter(|at| at + 4 <= list.end) {
            replace_u32(frame, segment, at, |of| of.wrapping_sub(self.seq_offset));
        }
    }
}

/// Replaces the four bytes at `at` and updates the checksum.
fn replace_u32(frame: &mut [u8], segment: &Segment, at: usize, to: impl FnOnce(u32) -> u32) {
    let start = segment.ip.start;
    // Checksum words are aligned to the segment; options may start at odd offsets.
    let first = start + ((at - start) & !1);
    let old = [read_u16(frame, first), read_u16(frame, first + 2), read_u16(frame, first + 4)];
    let new = to(read_u32(frame, at)).to_be_bytes();
    let Some(field) = frame.get_mut(at..at + 4) else { return };
    field.copy_from_slice(&new);
    let words = if first == at { 2 } else { 3 };
    let mut checksum = read_u16(frame, start + CHECKSUM);
    for (nth, old) in old.into_iter().enumerate().take(words) {
        checksum = updated_checksum(checksum, old, read_u16(frame, first + 2 * nth));
    }
    frame[start + CHECKSUM..start + CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Replaces the window, saturating, and updates the checksum.
fn set_window(frame: &mut [u8], segment: &Segment, to: impl FnOnce(u32) -> u32) {
    let start = segment.ip.start;
    let old = read_u16(frame, start + WINDOW);
    let new = u16::try_from(to(u32::from(old))).unwrap_or(u16::MAX);
    let checksum = updated_checksum(read_u16(frame, start + CHECKSUM), old, new);
    frame[start + WINDOW..start + WINDOW + 2].copy_from_slice(&new.to_be_bytes());
    frame[start + CHECKSUM..start + CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The header fields as etherparse reads them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct SegmentMeta {
        sequence: u32,
        acknowledgement: u32,
        window: u16,
        sack: Vec<(u32, u32)>,
        rest: Vec<u8>,
    }

    fn read(frame: &[u8]) -> SegmentMeta {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("{packet:?}") };
        let expected = match packet.net.as_ref().unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
            }
            etherparse::NetSlice::Ipv6(ip) => {
                tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
            }
            net => panic!("{net:?}"),
        };
        assert_eq!(tcp.checksum(), expected.unwrap(), "a wrong checksum");
        let mut sack = Vec::new();
        for option in tcp.options_iterator().map_while(Result::ok) {
            if let TcpOptionElement::SelectiveAcknowledgement(first, more) = option {
                sack.extend([Some(first)].into_iter().chain(more).flatten());
            }
        }
        SegmentMeta {
            sequence: tcp.sequence_number(),
            acknowledgement: tcp.acknowledgment_number(),
            window: tcp.window_size(),
            sack,
            rest: tcp.payload().to_vec(),
        }
    }

    fn segment(meta: &SegmentMeta, v6: bool, padding: usize, syn: bool) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let builder = if v6 {
            builder.ipv6([1; 16], [2; 16], 9)
        } else {
            builder.ipv4([10, 1, 0, 1], [10, 2, 0, 1], 9)
        };
        let mut options = vec![NOP; padding];
        if !meta.sack.is_empty() {
            options.extend([SACK, u8::try_from(2 + 8 * meta.sack.len()).unwrap()]);
            for (from, to) in &meta.sack {
                options.extend(from.to_be_bytes());
                options.extend(to.to_be_bytes());
            }
        }
        options.resize(options.len().next_multiple_of(4), END);
        let tcp = builder.tcp(1, 2, meta.sequence, meta.window).ack(meta.acknowledgement);
        let tcp = if syn { tcp.syn() } else { tcp };
        let mut frame = Vec::new();
        tcp.options_raw(&options).unwrap().write(&mut frame, &meta.rest).unwrap();
        frame
    }

    proptest! {
        /// Compares with headers written from scratch.
        #[test]
        fn rewritten_segments_equal_segments_built_from_scratch(
            sequence in any::<u32>(), acknowledgement in any::<u32>(), window in any::<u16>(),
            sack in vec(any::<(u32, u32)>(), 0..4), rest in vec(any::<u8>(), 0..40),
            v6 in any::<bool>(), padding in 0..6usize, syn in any::<bool>(),
            seq_offset in any::<u32>(),
            client_shift in proptest::option::of(0..15u8),
            server_shift in proptest::option::of(0..15u8),
        ) {
            let meta = SegmentMeta { sequence, acknowledgement, window, sack, rest };
            let server_shift = client_shift.and(server_shift);
            let spliced = SplicedFlow { seq_offset, client_shift, server_shift };
            let before = segment(&meta, v6, padding, syn);
            let parsed = Segment::parse(&before).unwrap();
            prop_assert_eq!(parsed.sequence(&before), sequence);

            let mut frame = before.clone();
            spliced.rewrite_to_server(&mut frame, &parsed);
            let less = |of: u32| of.wrapping_sub(seq_offset);
            let bytes = match (spliced.client_shift, spliced.server_shift) {
                (Some(shift), None) => u64::from(window) << shift,
                _ => u64::from(window),
            };
            let expected = SegmentMeta {
                acknowledgement: less(acknowledgement),
                window: u16::try_from(bytes).unwrap_or(u16::MAX),
                sack: meta.sack.iter().map(|(from, to)| (less(*from), less(*to))).collect(),
                ..meta.clone()
            };
            prop_assert_eq!(read(&frame), expected);

            let mut frame = before.clone();
            spliced.rewrite_to_client(&mut frame, &parsed);
            let bytes = (u64::from(window) << spliced.server_shift.unwrap_or(0)) >> ROUTER_SHIFT;
            let scaled = spliced.client_shift.is_some() && !syn;
            let bytes = if scaled { bytes } else { u64::from(window) };
            let expected = SegmentMeta {
                sequence: sequence.wrapping_add(seq_offset),
                window: u16::try_from(bytes).unwrap_or(u16::MAX),
                ..meta
            };
            prop_assert_eq!(read(&frame), expected);
        }

        #[test]
        fn no_frame_makes_it_panic(
            mut bytes in vec(any::<u8>(), 0..120), kind in 0..3u8, seq_offset in any::<u32>()
        ) {
            if bytes.len() > 34 && kind > 0 {
                let total = u16::try_from(bytes.len() - 14).unwrap().to_be_bytes();
                if kind == 1 {
                    bytes[12..18].copy_from_slice(&[8, 0, 0x45, 0, total[0], total[1]]);
                    (bytes[20], bytes[21], bytes[23]) = (0, 0, 6);
                } else {
                    let total = u16::try_from(bytes.len().saturating_sub(54)).unwrap();
                    let total = total.to_be_bytes();
                    bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                    (bytes[18], bytes[19], bytes[20]) = (total[0], total[1], 6);
                }
            }
            if let Some(parsed) = Segment::parse(&bytes) {
                let client_shift = Some(14);
                let spliced = SplicedFlow { seq_offset, client_shift, server_shift: None };
                let _ = options(&bytes, &parsed).count();
                spliced.rewrite_to_server(&mut bytes, &parsed);
                spliced.rewrite_to_client(&mut bytes, &parsed);
            }
        }
    }
}
