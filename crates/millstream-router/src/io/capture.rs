//! A port on pcap files: reads one as fast as possible, writes another with transmission times.
//!
//! The output may grow without end and be read meanwhile, so it has its final name from the start.

use millstream_sync::clock::tsc::Clock;
use millstream_traffic::{CaptureWriter, OutputFile};
use pcap::{Capture, Linktype, Offline};
use std::path::Path;

use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::io::port::Port;
use crate::net::pool::{BUFFER_BYTES, Pool};

/// A port on pcap files.
pub struct CapturePort {
    name: String,
    input: Option<Capture<Offline>>,
    output: Option<CaptureWriter>,
    /// Whether packets that the capture holds in part are padded with zeros.
    pads_truncated: bool,
    /// The padded packet.
    padded: Vec<u8>,
    clock: Clock,
}

impl CapturePort {
    /// Opens `input` for reading and `output` for writing. Without `input` nothing is received;
    /// without `output` packets are dropped.
    ///
    /// # Errors
    /// Fails if a file cannot be opened or holds no Ethernet frames.
    pub fn open(
        name: &str,
        input: Option<&Path>,
        output: Option<&Path>,
        clock: Clock,
    ) -> Result<Self, PortError> {
        let wrong = |path: &Path, error: String| {
            PortError::new(name, format!("{}: {error}", path.display()))
        };
        let input = input.map(|path| {
            let capture =
                Capture::from_file(path).map_err(|error| wrong(path, error.to_string()))?;
            match capture.get_datalink() {
                Linktype::ETHERNET => Ok(capture),
                other => {
                    let kind = other.get_name().unwrap_or_else(|_| other.0.to_string());
                    Err(wrong(path, format!("its link type is {kind}"))
                        .help("a capture of Ethernet frames"))
                }
            }
        });
        let output = output.map(|path| {
            let writer = OutputFile::create_in_place(path).and_then(|file| {
                let mut writer = CaptureWriter::new(file, Linktype::ETHERNET);
                writer.flush().map(|()| writer)
            });
            writer.map_err(|error| wrong(path, error.to_string()))
        });
        Ok(Self {
            name: name.to_owned(),
            input: input.transpose()?,
            output: output.transpose()?,
            pads_truncated: false,
            padded: Vec::new(),
            clock,
        })
    }

    /// Sets whether packets that the capture holds in part are padded with zeros to their length.
    /// Otherwise they are unsupported.
    #[must_use]
    pub fn with_padding(self, pads_truncated: bool) -> Self {
        Self { pads_truncated, ..self }
    }
}

impl Port for CapturePort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let Some(input) = &mut self.input else { return Ok(0) };
        let mut count = 0;
        // Stops reading while no buffer is free: a file loses nothing by waiting.
        while count < most && pool.free() > 0 {
            match input.next_packet() {
                Ok(packet) => {
                    let length = packet.header.len as usize;
                    if packet.data.len() == length {
                        into.extend(pool.copy(packet.data));
                    } else if self.pads_truncated
                        && (packet.data.len()..=BUFFER_BYTES).contains(&length)
                    {
                        self.padded.clear();
                        self.padded.extend_from_slice(packet.data);
                        self.padded.resize(length, 0);
                        into.extend(pool.copy(&self.padded));
                    }
                    count += 1;
                }
                Err(pcap::Error::NoMorePackets) => {
                    self.input = None;
                    break;
                }
                Err(error) => {
                    self.input = None;
                    return Err(PortError::new(&self.name, error.to_string()));
                }
            }
        }
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        let now_ns = self.clock.now_ns();
        for packet in packets {
            if let Some(output) = &mut self.output {
                let frame = pool.wire(*packet);
                output.write_bytes(now_ns, frame, u32::try_from(frame.len()).unwrap_or(u32::MAX));
            }
            pool.release(*packet);
        }
        Ok(packets.len())
    }

    fn ended(&self) -> bool {
        self.input.is_none()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let Some(output) = &mut self.output else { return Ok(()) };
        output.flush().map_err(|error| PortError::new(&self.name, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_packets_are_padded_on_request_and_unsupported_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.pcap");
        let mut writer =
            CaptureWriter::new(OutputFile::create_in_place(&path).unwrap(), Linktype::ETHERNET);
        // The last one is longer than a buffer.
        for length in [60, 1_000, 9_000] {
            writer.write_bytes(0, &[7; 60], length);
        }
        writer.flush().unwrap();
        let read = |pads| {
            let port = CapturePort::open("lan", Some(&path), None, Clock::default()).unwrap();
            let (mut port, mut pool) = (port.with_padding(pads), Pool::new(8));
            let mut packets = Vec::new();
            let count = port.receive(&mut pool, 8, &mut packets).unwrap();
            let frames = packets.iter().map(|packet| pool.frame(*packet).to_vec());
            (count, frames.collect::<Vec<_>>())
        };
        assert_eq!(read(false), (3, vec![vec![7; 60]]));
        let mut padded = vec![7; 60];
        padded.resize(1_000, 0);
        assert_eq!(read(true), (3, vec![vec![7; 60], padded]));
    }
}
