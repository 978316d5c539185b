//! Packets of a transport stream (ISO 13818-1, 2.4.3), parsed by `mpeg2ts` one at a time.

use mpeg2ts::ts::{ReadTsPacket, TsPacket, TsPacketReader, TsPayload};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::Read;

/// The size of a packet, bytes.
pub(super) const TS_PACKET: usize = TsPacket::SIZE;

/// The first byte of a packet.
pub(super) const SYNC_BYTE: u8 = TsPacket::SYNC_BYTE;

/// The packet that the parser reads next. The parser gives only shared access to its input.
#[derive(Debug)]
struct NextPacket {
    bytes: Cell<[u8; TS_PACKET]>,
    /// The number of bytes already read.
    used: Cell<usize>,
}

impl Read for NextPacket {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let used = self.used.get();
        let count = buffer.len().min(TS_PACKET - used);
        buffer[..count].copy_from_slice(&self.bytes.get_mut()[used..used + count]);
        self.used.set(used + count);
        Ok(count)
    }
}

/// A parser of packets. It remembers the tables that earlier packets had.
#[derive(Debug)]
pub(super) struct TsPackets {
    reader: TsPacketReader<NextPacket>,
    /// The PIDs of program maps in all association tables so far, without those that a map after
    /// them gave to a track.
    maps: BTreeSet<u16>,
}

impl TsPackets {
    pub(super) fn new() -> Self {
        let packet = NextPacket { bytes: Cell::new([0; TS_PACKET]), used: Cell::new(TS_PACKET) };
        Self { reader: TsPacketReader::new(packet), maps: BTreeSet::new() }
    }

    /// Parses a packet; `None` if it is invalid, or no table so far describes it.
    pub(super) fn parse(&mut self, bytes: &[u8; TS_PACKET]) -> Option<TsPacket> {
        if self.maps.contains(&pid(bytes)) && !map_fits(bytes) {
            return None;
        }
        let next = self.reader.stream();
        next.bytes.set(*bytes);
        next.used.set(0);
        let packet = self.reader.read_ts_packet().ok()??;
        match &packet.payload {
            Some(TsPayload::Pat(associations)) => {
                let programs = associations.table.iter();
                self.maps.extend(programs.map(|program| program.program_map_pid.as_u16()));
            }
            Some(TsPayload::Pmt(map)) => {
                for stream in &map.es_info {
                    self.maps.remove(&stream.elementary_pid.as_u16());
                }
            }
            _ => {}
        }
        Some(packet)
    }
}

/// Returns the PID of a packet.
pub(super) fn pid(packet: &[u8; TS_PACKET]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// Returns the payload of a packet; `None` if it has none.
pub(super) fn payload(packet: &[u8; TS_PACKET]) -> Option<&[u8]> {
    let adaptation = if packet[3] & 0x20 == 0 { 0 } else { 1 + usize::from(packet[4]) };
    packet.get(4 + adaptation..).filter(|_| packet[3] & 0x10 != 0)
}

/// Returns whether the descriptors of a program map are within its section: `mpeg2ts` 0.6.1 panics
/// if they are not.
fn map_fits(packet: &[u8; TS_PACKET]) -> bool {
    // The pointer, the table's id and length, five bytes of header, the PID of the clock.
    let Some([_, _, high, low, _, _, _, _, _, _, _, more_high, more_low, ..]) = payload(packet)
    else {
        return true;
    };
    let length = |high: u8, low: u8| usize::from(high & 3) << 8 | usize::from(low);
    // Also before the descriptors: the PID and this length. Behind them: the CRC.
    length(*high, *low) >= 5 + 4 + length(*more_high, *more_low) + 4
}
