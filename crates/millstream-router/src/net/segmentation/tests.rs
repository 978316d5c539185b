//! Laws of segmentation: segments are valid, and coalescing restores the original.

use super::*;
use crate::ids::PacketHandle;
use crate::net::pool::{BUFFER_BYTES, Pool};
use crate::net::vlan_tag::Tag;
use etherparse::checksum::Sum16BitWords;
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::io::IoSlice;

const HOST: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const OTHER: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const SEQUENCE: u32 = u32::MAX - 9_000;

/// Builds a large segment whose checksum field holds the pseudo-header sum.
fn large(v6: bool, tcp: bool, flags: u8, payload: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..payload).map(|k| (k * k / 7).to_le_bytes()[0]).collect();
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let ip = if v6 {
        ethernet.ipv6(HOST, OTHER, 64)
    } else {
        ethernet.ipv4([10, 1, 0, 2], [10, 2, 0, 2], 64)
    };
    let mut frame = Vec::new();
    if tcp {
        ip.tcp(80, 4_000, SEQUENCE, 100).ack(7).write(&mut frame, &payload).expect("it fits");
    } else {
        ip.udp(80, 4_000).write(&mut frame, &payload).expect("it fits");
    }
    let (start, addresses) = if v6 { (54, 22..54) } else { (34, 26..34) };
    if tcp {
        frame[start + 13] |= flags;
    }
    if !v6 {
        frame[18..20].copy_from_slice(&0xfffe_u16.to_be_bytes());
        frame[24..26].copy_from_slice(&[0, 0]);
        let sum = Sum16BitWords::new().add_slice(&frame[14..34]).ones_complement();
        frame[24..26].copy_from_slice(&sum.to_ne_bytes());
    }
    let length = u16::try_from(frame.len() - start).expect("within 64 KiB");
    let (protocol, at) = if tcp { (6, 16) } else { (17, 6) };
    let pseudo = Sum16BitWords::new().add_slice(&frame[addresses]);
    let pseudo = pseudo.add_2bytes([0, protocol]).add_2bytes(length.to_be_bytes());
    frame[start + at..start + at + 2].copy_from_slice(&(!pseudo.ones_complement()).to_ne_bytes());
    frame
}

fn begin(segmenter: &mut Segmenter, frame: &[u8], size: usize) -> bool {
    segmenter.room()[..frame.len()].copy_from_slice(frame);
    segmenter.begin(frame.len(), size)
}

fn cut(pool: &mut Pool, frame: &[u8], size: usize) -> Vec<PacketHandle> {
    let mut segmenter = Segmenter::default();
    assert!(begin(&mut segmenter, frame, size));
    let packets: Vec<PacketHandle> = std::iter::from_fn(|| segmenter.next(pool)).collect();
    assert!(segmenter.is_empty());
    packets
}

/// Returns headers and payload after verifying all checksums.
fn check(frame: &[u8]) -> (SlicedPacket<'_>, &[u8]) {
    let packet = SlicedPacket::from_ethernet(frame).expect("a packet");
    let transport = packet.transport.clone().expect("TCP or UDP");
    let payload = match (packet.net.clone().expect("IP"), transport) {
        (NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            let sum = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination());
            assert_eq!(tcp.checksum(), sum.expect("short enough"));
            tcp.payload()
        }
        (NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
            let sum = tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination());
            assert_eq!(tcp.checksum(), sum.expect("short enough"));
            tcp.payload()
        }
        (net, TransportSlice::Udp(udp)) => {
            let header = udp.to_header();
            let sum = match net {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4_raw(
                    ip.header().source(),
                    ip.header().destination(),
                    udp.payload(),
                ),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6_raw(
                    ip.header().source(),
                    ip.header().destination(),
                    udp.payload(),
                ),
                NetSlice::Arp(_) => unreachable!("it is IP"),
            };
            assert_eq!(udp.checksum(), sum.expect("short enough"));
            udp.payload()
        }
        (_, other) => panic!("{other:?}"),
    };
    (packet, payload)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn segments_carry_the_whole_payload_with_valid_headers(
        v6: bool, tcp: bool, payload in 1_usize..65_000, size in 500_usize..1_960,
        flags in 0_u8..=255,
    ) {
        // SYN, RST and URG do not occur in large segments.
        let flags = flags & 0xd9;
        let frame = large(v6, tcp, flags, payload);
        let mut pool = Pool::new(256);
        let packets = cut(&mut pool, &frame, size);
        prop_assert_eq!(packets.len(), payload.div_ceil(size));
        let mut all = Vec::new();
        for (k, packet) in packets.iter().enumerate() {
            let (is_first, is_last) = (k == 0, k + 1 == packets.len());
            let (headers, payload) = check(pool.frame(*packet));
            prop_assert!(payload.len() == size || is_last);
            if let Some(NetSlice::Ipv4(ip)) = headers.net {
                let count = u16::try_from(k).expect("few");
                prop_assert_eq!(ip.header().identification(), 0xfffe_u16.wrapping_add(count));
            }
            if let Some(TransportSlice::Tcp(tcp)) = headers.transport {
                let before = u32::try_from(all.len()).expect("64 KiB");
                prop_assert_eq!(tcp.sequence_number(), SEQUENCE.wrapping_add(before));
                prop_assert_eq!(tcp.fin(), is_last && flags & 1 != 0);
                prop_assert_eq!(tcp.psh(), is_last && flags & 8 != 0);
                prop_assert_eq!(tcp.cwr(), is_first && flags & 0x80 != 0);
                prop_assert_eq!(tcp.ece(), flags & 0x40 != 0);
                prop_assert!(tcp.ack());
            }
            all.extend_from_slice(payload);
        }
        let start = frame.len() - payload;
        prop_assert_eq!(&all[..], &frame[start..]);
    }

    #[test]
    fn coalescing_restores_the_segmented_frame(
        v6: bool, payload in 1_001_usize..60_000, size in 1_000_usize..1_960, flags in 0_u8..=255,
    ) {
        let flags = flags & 0xd9;
        let frame = large(v6, true, flags, payload);
        let mut pool = Pool::new(256);
        let packets = cut(&mut pool, &frame, size);
        prop_assume!(packets.len() > 1);
        let mut coalescer = Coalescer::default();
        prop_assert_eq!(coalescer.begin(&pool, &packets), packets.len());
        let sent = coalescer.slices(&pool, &packets, |slices: &[IoSlice<'_>]| {
            slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>()
        });
        let (header, whole) = sent.split_first_chunk().expect("a header");
        prop_assert_eq!(whole, &frame[..]);
        let header = Virtio::read(*header);
        prop_assert_eq!(header.size(), Some(size));
        prop_assert_eq!(&header.bytes()[..], &sent[..VIRTIO_BYTES]);
        // The kernel completes the checksum as for its own packets.
        let mut finished = whole.to_vec();
        header.finish(&mut finished);
        check(&finished);
    }

    #[test]
    fn malformed_frames_are_refused_or_segmented(
        mut bytes in prop::collection::vec(any::<u8>(), 0..4_000), v6: bool, tcp: bool,
        size in 0_usize..3_000,
        changes in prop::collection::vec((0_usize..100, any::<u8>()), 0..4),
    ) {
        let mut pool = Pool::new(4_096);
        let mut segmenter = Segmenter::default();
        let mut frame = large(v6, tcp, 0, 2_500);
        changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
        frame.truncate(3_000 - bytes.len().min(2_990));
        bytes.splice(0..0, frame.clone());
        for frame in [frame, bytes] {
            let payload = frame.len();
            if begin(&mut segmenter, &frame, size) {
                let packets = std::iter::from_fn(|| segmenter.next(&mut pool));
                let packets: Vec<PacketHandle> = packets.collect();
                let most = packets.iter().map(|packet| pool.frame(*packet).len()).max();
                prop_assert!(most.is_some_and(|most| most <= BUFFER_BYTES));
                Coalescer::default().begin(&pool, &packets);
                prop_assert!(packets.len() <= payload);
                packets.iter().for_each(|packet| pool.release(*packet));
            }
            prop_assert!(segmenter.is_empty());
            prop_assert_eq!(pool.free(), 4_096);
            let mut header = [0; VIRTIO_BYTES];
            header.iter_mut().zip(&frame).for_each(|(to, from)| *to = *from);
            Virtio::read(header).finish(&mut frame.clone());
        }
    }
}

#[test]
fn every_segment_has_the_tag_of_its_frame() {
    let mut frame = large(false, true, 0, 3_000);
    frame.splice(12..12, [0x81, 0, 0x60, 7]);
    let mut pool = Pool::new(8);
    let packets = cut(&mut pool, &frame, 1_448);
    assert_eq!(packets.len(), 3);
    for packet in &packets {
        assert_eq!(Pool::tag(*packet), Some(Tag::new(0x6007)));
        check(pool.frame(*packet));
    }
    assert_eq!(Coalescer::default().begin(&pool, &packets), 1, "tagged segments are not coalesced");
}

#[test]
fn segmentation_continues_when_buffers_are_free() {
    let frame = large(false, true, 8, 3_000);
    let (mut pool, mut segmenter) = (Pool::new(2), Segmenter::default());
    assert!(begin(&mut segmenter, &frame, 1_448));
    let packets = [segmenter.next(&mut pool).unwrap(), segmenter.next(&mut pool).unwrap()];
    assert_eq!(segmenter.next(&mut pool), None);
    assert!(!segmenter.is_empty());
    pool.release(packets[0]);
    let last = segmenter.next(&mut pool).unwrap();
    assert_eq!(check(pool.frame(last)).1.len(), 3_000 - 2 * 1_448);
    assert!(segmenter.is_empty());
}

#[test]
fn unrelated_segments_are_not_coalesced() {
    let frame = large(false, true, 0, 4 * 1_000);
    let mut pool = Pool::new(32);
    let packets = cut(&mut pool, &frame, 1_000);
    let begin = |packets: &[PacketHandle]| Coalescer::default().begin(&pool, packets);
    assert_eq!(begin(&packets), 4);
    assert_eq!(begin(&[]), 1);
    assert_eq!(begin(&[packets[0], packets[2]]), 1, "a segment is missing");
    assert_eq!(begin(&[packets[1], packets[0]]), 1, "not in order");
    assert_eq!(begin(&[packets[0], packets[0]]), 1, "the same segment twice");
    // Segments that differ in flow, TTL, acknowledgement, window or options.
    for at in [5, 15, 22, 26, 33, 34, 37, 42, 48] {
        let again = cut(&mut pool, &frame, 1_000);
        pool.frame_mut(again[1])[at] ^= 1;
        assert_eq!(Coalescer::default().begin(&pool, &again), 1, "byte {at}");
        again.iter().for_each(|packet| pool.release(*packet));
    }
    // Segments that a function has rewritten, or that come from another source.
    let mut replaced = packets.clone();
    let bytes = pool.frame(packets[1]).to_vec();
    replaced[1] = pool.replace(packets[1], &bytes);
    assert_eq!(Coalescer::default().begin(&pool, &replaced), 1);
    let copied = pool.copy(&bytes).unwrap();
    assert_eq!(Coalescer::default().begin(&pool, &[packets[0], copied]), 1);
    // A short segment or one with PSH ends the coalesced frame.
    let short = cut(&mut pool, &large(false, true, 0, 1_500), 1_000);
    assert_eq!(Coalescer::default().begin(&pool, &[short[0], short[1], packets[2]]), 2);
    let pushed = cut(&mut pool, &large(false, true, 8, 2_000), 1_000);
    let after = pool.frame(pushed[1])[47];
    assert_eq!(after & 8, 8);
    assert_eq!(Coalescer::default().begin(&pool, &[pushed[0], pushed[1], packets[2]]), 2);
    assert_eq!(Coalescer::default().begin(&pool, &[pushed[1], packets[2]]), 1);
    // UDP is not coalesced.
    let datagrams = cut(&mut pool, &large(false, false, 0, 2_000), 1_000);
    assert_eq!(Coalescer::default().begin(&pool, &datagrams), 1);
}

#[test]
fn unsupported_frames_are_not_segmented() {
    let whole = large(false, true, 0, 3_000);
    let mut segmenter = Segmenter::default();
    let mut fragment = whole.clone();
    fragment[20] = 0x20;
    let mut other = whole.clone();
    other[23] = 132;
    let mut options = whole.clone();
    options[14] = 0x46;
    let mut extended = large(true, true, 0, 3_000);
    extended.splice(54..54, [6, 0, 1, 4, 0, 0, 0, 0]);
    extended[20] = 0;
    let length = u16::from_be_bytes([extended[18], extended[19]]) + 8;
    extended[18..20].copy_from_slice(&length.to_be_bytes());
    for (frame, size) in [
        (&whole[..], 0),
        (&whole[..], BUFFER_BYTES),
        (&whole[..1_000], 1_448),
        (&fragment[..], 1_448),
        (&other[..], 1_448),
        (&options[..], 1_448),
        (&extended[..], 1_448),
        (&[][..], 1_448),
        (&[0xff; 3_000][..], 1_448),
    ] {
        assert!(!begin(&mut segmenter, frame, size));
        assert!(segmenter.is_empty());
        assert_eq!(segmenter.next(&mut Pool::new(1)), None);
    }
    assert!(!segmenter.begin(usize::MAX, 1_448));
    assert!(begin(&mut segmenter, &whole, 1_448));
}

#[test]
fn partial_checksums_are_completed() {
    for (tcp, v6) in [(true, false), (false, false), (true, true), (false, true)] {
        for length in [0, 1, 2, 700, 1_459] {
            let mut frame = large(v6, tcp, 0, length);
            let (start, at) = (if v6 { 54_u16 } else { 34 }, if tcp { 16_u16 } else { 6 });
            let [a, b] = start.to_ne_bytes();
            let [c, d] = at.to_ne_bytes();
            let header = Virtio::read([1, 0, 0, 0, 0, 0, a, b, c, d]);
            assert_eq!(header.size(), None);
            header.finish(&mut frame);
            check(&frame);
            let finished = frame.clone();
            Virtio::read([0, 0, 0, 0, 0, 0, a, b, c, d]).finish(&mut frame);
            assert_eq!(frame, finished, "no checksum to complete");
        }
    }
    // Any checksum offset is safe, also beyond the end of the packet.
    for at in [0_u16, 9, 10, 100, u16::MAX] {
        let [a, b] = at.to_ne_bytes();
        for bytes in [[1, 0, 0, 0, 0, 0, a, b, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, a, b]] {
            Virtio::read(bytes).finish(&mut [7; 10]);
        }
    }
}
