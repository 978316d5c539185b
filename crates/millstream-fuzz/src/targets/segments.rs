//! No offloaded frame makes segmentation panic. Each segment fits a buffer, segments cover the
//! payload, and coalesced segments equal the original.

use etherparse::PacketBuilder;
use millstream_router::live::{BUFFER_BYTES, Coalescer, Pool, Segmenter, VIRTIO_BYTES, Virtio};
use std::cell::RefCell;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "segments",
    first_parser: "the headers of a TCP or UDP packet to segment",
    seeds,
    words: &[
        &[1, 1],
        &[1, 4],
        &[1, 5],
        &[0, 0],
        &[16, 0],
        &[8, 0, 0x45],
        &[0x86, 0xdd, 0x60],
        &[6],
        &[17],
    ],
    mutate,
    admits: Some(is_segmentable),
    run,
};

/// Returns a virtio header: the GSO type and the payload of each segment.
fn virtio(kind: u8, headers: u16, size: u16, sum_from: u16, sum_at: u16) -> Vec<u8> {
    let mut bytes = vec![1, kind];
    bytes.extend([headers, size, sum_from, sum_at].iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let ethernet = || PacketBuilder::ethernet2([2; 6], [4; 6]);
    let six = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let (four, data) = ([10, 0, 0, 1], [9; 900]);
    let mut tcp_4 = virtio(1, 54, 300, 34, 16);
    let of = ethernet().ipv4(four, [10, 0, 0, 2], 9).tcp(80, 81, 1_000, 99);
    of.ack(7).psh().write(&mut tcp_4, &data).expect("written to memory");
    let mut tcp_6 = virtio(4, 74, 200, 54, 16);
    let of = ethernet().ipv6(six, six, 9).tcp(80, 81, 1_000, 99).ack(7);
    of.write(&mut tcp_6, &data).expect("written to memory");
    let mut udp = virtio(5, 42, 100, 34, 6);
    ethernet().ipv4(four, four, 9).udp(80, 81).write(&mut udp, &data).expect("written to memory");
    let mut whole = virtio(0, 0, 0, 34, 16);
    whole[1] = 0;
    whole.extend_from_slice(&tcp_4[VIRTIO_BYTES..]);
    vec![tcp_4, tcp_6, udp, whole]
}

/// Returns whether the router would segment a frame.
fn is_segmentable(input: &[u8]) -> bool {
    thread_local! {
        static SEGMENTER: RefCell<Segmenter> = RefCell::default();
    }
    let Some((header, frame)) = input.split_first_chunk::<VIRTIO_BYTES>() else { return false };
    SEGMENTER.with_borrow_mut(|segmenter| {
        let buffer = segmenter.room();
        let Some(buffer) = buffer.get_mut(..frame.len()) else { return false };
        buffer.copy_from_slice(frame);
        segmenter.begin(frame.len(), size(Virtio::read(*header), header))
    })
}

/// Returns the payload of each segment; small sizes too, since frames are short here.
fn size(virtio: Virtio, header: &[u8; VIRTIO_BYTES]) -> usize {
    virtio.size().unwrap_or(usize::from(header[2]))
}

/// Changes the virtio header or the frame. After most changes, repairs the IPv4 header.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    if input.len() <= VIRTIO_BYTES {
        *input = mutation.seed();
        return;
    }
    let frame = input.split_off(VIRTIO_BYTES);
    if mutation.one_in(4) {
        mutation.bytes(input);
        input.resize(VIRTIO_BYTES, 0);
        input.extend(frame);
    } else {
        let mut frame = frame;
        mutation.frame(&mut frame);
        input.extend(frame);
    }
}

const BUFFERS: u32 = 512;

thread_local! {
    static ROUTER: RefCell<(Segmenter, Coalescer, Pool)> =
        RefCell::new((Segmenter::default(), Coalescer::default(), Pool::new(BUFFERS)));
}

fn run(bytes: &[u8]) -> bool {
    let Some((header, frame)) = bytes.split_first_chunk::<VIRTIO_BYTES>() else { return false };
    let virtio = Virtio::read(*header);
    assert_eq!(virtio.bytes(), *header);
    virtio.finish(&mut frame.to_vec());
    ROUTER.with_borrow_mut(|(segmenter, coalescer, pool)| {
        let buffer = segmenter.room();
        if frame.len() > buffer.len() {
            return false;
        }
        buffer[..frame.len()].copy_from_slice(frame);
        let size = size(virtio, header);
        if !segmenter.begin(frame.len(), size) {
            assert!(segmenter.is_empty());
            return false;
        }
        let mut packets = Vec::new();
        let mut parts = 0;
        while !segmenter.is_empty() {
            let Some(packet) = segmenter.next(pool) else {
                assert_eq!(pool.free(), 0);
                packets.drain(..).for_each(|packet| pool.release(packet));
                continue;
            };
            let length = pool.frame(packet).len();
            assert!(length > size.min(14) && length <= BUFFER_BYTES);
            packets.push(packet);
            parts += 1;
        }
        assert!(parts <= frame.len().div_ceil(size));
        let coalesced = coalescer.begin(pool, &packets);
        if coalesced > 1 {
            let sent: usize =
                coalescer.slices(pool, &packets, |slices| slices.iter().map(|of| of.len()).sum());
            assert!(sent <= VIRTIO_BYTES + frame.len());
            if coalesced == parts {
                // Except for link-layer padding.
                let whole: Vec<u8> = coalescer.slices(pool, &packets, |slices| {
                    slices.iter().flat_map(|of| of.to_vec()).collect()
                });
                assert_eq!(
                    whole[whole.len() - size.min(8)..],
                    frame[whole.len() - VIRTIO_BYTES - size.min(8)..whole.len() - VIRTIO_BYTES]
                );
            }
        }
        packets.drain(..).for_each(|packet| pool.release(packet));
        assert_eq!(pool.free(), BUFFERS as usize);
        true
    })
}
