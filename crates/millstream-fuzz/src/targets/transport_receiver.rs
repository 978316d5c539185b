//! No packets of a live transport stream cause a panic; every frame is accounted for, and packets
//! are left out only if they are duplicates. Mutations keep most packets aligned, and repair the
//! checksums of tables.

use millstream_media::fuzzing::transport_publication;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "transport_receiver",
    first_parser: "a PES packet of a stream's track",
    seeds: || vec![transport_publication(), transport_publication().repeat(2)],
    words: &[
        &[0x47, 0x41, 0],
        &[0x47, 0x50, 0],
        &[0x1b, 0xe1, 0, 0xf0, 0],
        &[0x0f, 0xe1, 1, 0xf0, 0],
        &[0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5],
        &[0xff, 0xf1, 0x4c, 0x80, 1, 0x1f, 0xfc],
    ],
    mutate,
    admits: None,
    run: millstream_media::fuzzing::transport_receiver,
};

/// The size of a packet, bytes.
const PACKET: usize = 188;

fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    let count = input.len() / PACKET;
    if count == 0 || mutation.one_in(8) {
        return mutation.bytes(input);
    }
    let at = mutation.below(count) * PACKET;
    match mutation.below(8) {
        0 => {
            input.drain(at..at + PACKET);
        }
        1 => {
            let mut packet = input[at..at + PACKET].to_vec();
            // Its counter is that of another packet.
            packet[PACKET - 1] ^= u8::from(mutation.one_in(2));
            let to = mutation.below(count + 1) * PACKET;
            input.splice(to..to, packet);
        }
        _ => {
            let mut packet = input[at..at + PACKET].to_vec();
            mutation.bytes(&mut packet);
            packet.resize(PACKET, 0xff);
            if !mutation.one_in(8) {
                repair(&mut packet);
            }
            input.splice(at..at + PACKET, packet);
        }
    }
}

/// Writes the checksum of the table in a packet, if there is one (ISO 13818-1, annex A).
fn repair(packet: &mut [u8]) {
    let adaptation = if packet[3] & 0x20 == 0 { 0 } else { 1 + usize::from(packet[4]) };
    let Some([0, id, high, low, ..]) = packet.get(4 + adaptation..) else { return };
    let length = usize::from(high & 3) << 8 | usize::from(*low);
    let section = 4 + adaptation + 1;
    if !matches!(id, 0 | 2) || length < 4 || section + 3 + length > packet.len() {
        return;
    }
    let (contents, checksum) = packet[section..section + 3 + length].split_at_mut(length - 1);
    let crc = contents.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    });
    checksum.copy_from_slice(&crc.to_be_bytes());
}
