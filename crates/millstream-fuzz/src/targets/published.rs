//! No RTP from a publisher causes a panic; every frame is accounted for.

use millstream_traffic::mpeg::Codec;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "published",
    first_parser: "an RTP packet of the stream",
    seeds,
    words: &[&[0x80, 96], &[0x80, 0xe0], &[0x7c, 0x85], &[0x7c, 0x45], &[0x78], &[0x65], &[0x67]],
    mutate,
    admits: None,
    run: |input| millstream_media::fuzzing::published(Codec::H264, input),
};

/// Returns a length byte and an RTP packet of payload type 96; `marker` ends a frame.
pub(super) fn packet(number: u16, time: u32, marker: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 0x80, if marker { 0xe0 } else { 96 }];
    packet.extend(number.to_be_bytes());
    packet.extend(time.to_be_bytes());
    packet.extend([0, 0, 0, 7]);
    packet.extend(payload);
    packet[0] = u8::try_from(packet.len() - 1).unwrap_or(u8::MAX);
    packet
}

fn seeds() -> Vec<Vec<u8>> {
    // H.264: parameter sets, an IDR picture, a fragmented frame, an aggregate.
    let mut whole = Vec::new();
    let payloads: [(&[u8], bool); 7] = [
        (&[0x67, 66, 0, 30, 1, 2], false),
        (&[0x68, 1, 2], false),
        (&[0x65, 0x88, 1, 2, 3, 4], true),
        (&[0x7c, 0x81, 0x9a, 5, 6], false),
        (&[0x7c, 0x01, 7, 8], false),
        (&[0x7c, 0x41, 9, 9], true),
        (&[0x78, 0, 2, 0x41, 0x9a, 0, 2, 0x41, 0x9b], true),
    ];
    for (number, (payload, marker)) in (1..).zip(payloads) {
        whole.extend(packet(number, 3_600 * u32::from(number / 3), marker, payload));
    }
    let mut lossy = Vec::new();
    for number in [1u16, 2, 3, 5, 4, 4, 9, 20, 65_535, 0] {
        lossy.extend(packet(number, u32::from(number) * 3_600, true, &[0x65, 0x88, 1, 2]));
    }
    // MPEG-2 video behind a four-byte header (RFC 2250).
    let mpeg = packet(1, 0, true, &[0, 0, 0x20, 0, 0, 0, 1, 0xb3, 1, 2, 3, 4, 0, 0, 1, 0, 0, 8]);
    vec![whole, lossy, mpeg]
}

/// Changes one packet, or the list of packets; lengths stay valid.
pub(super) fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    if mutation.one_in(8) {
        return mutation.bytes(input);
    }
    let mut packets = Vec::new();
    let mut rest = &input[..];
    while let Some((length, more)) = rest.split_first() {
        let (packet, more) = more.split_at(usize::from(*length).min(more.len()));
        packets.push(packet.to_vec());
        rest = more;
    }
    if packets.is_empty() {
        *input = mutation.seed();
        return;
    }
    let (from, to) = (mutation.below(packets.len()), mutation.below(packets.len()));
    match mutation.below(6) {
        0 => packets.insert(to, packets[from].clone()),
        1 => packets.swap(from, to),
        _ => mutation.bytes(&mut packets[from]),
    }
    input.clear();
    for packet in packets {
        let packet = &packet[..packet.len().min(255)];
        input.push(u8::try_from(packet.len()).unwrap_or(u8::MAX));
        input.extend(packet);
    }
}
