//! Captures: pcap and pcapng files read by libpcap, with packets matched by pcap-filter
//! expressions.
//!
//! One pass serves every stream that names the file. A packet goes to the first stream, in scenario
//! order, with a matching expression; a stream without an expression matches every packet.
//! Unmatched packets are counted. The first packet arrives at time 0; later ones keep their
//! distance from it. Timestamps can go back in captures of several queues: the packet then arrives
//! at the latest time so far and is counted as reordered.
//!
//! A packet's length is its length on the wire. Expressions see the captured bytes padded with
//! zeros to that length, so `greater 500` works on header-only captures.

mod filter;
mod writer;

use millstream::flow_queue::Flow;
use pcap::{BpfProgram, Capture, Offline, PacketHeader, Precision};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use pcap::Linktype;

pub use self::filter::{Filter, FilterError, FilterInstruction, validate_filter};
pub use self::writer::CaptureWriter;
use crate::arrival::{Arrival, Feed, FrameBytes, TrafficError};
use crate::output_file::OutputFile;
use crate::read_progress::ReadProgress;

/// Counters of unmatched and reordered packets; other threads may read them at any time.
#[derive(Debug, Default)]
pub struct CaptureCounts {
    /// Number of packets that no stream's expression matched.
    pub unmatched_packets: AtomicU64,
    /// Bytes of these packets.
    pub unmatched_bytes: AtomicU64,
    /// Number of packets with a timestamp before that of an earlier packet.
    pub reordered_packets: AtomicU64,
}

/// Returns the flow of a packet from its stream's number, the link type of the capture, and the
/// captured bytes.
pub type FlowOf = Box<dyn Fn(u32, Linktype, &[u8]) -> Flow + Send>;

/// Bytes of a pcap record in addition to the packet's bytes; a pcapng record has slightly more.
const RECORD_HEADER_BYTES: u64 = 16;

/// A stream's claim to matching packets.
struct Claim {
    stream: u32,
    filter: Option<BpfProgram>,
}

/// A feed of the packets of a capture file.
pub struct CaptureFeed {
    capture: Capture<Offline>,
    claims: Vec<Claim>,
    link_type: Linktype,
    keep_frames: bool,
    flow_of: Option<FlowOf>,
    counts: Arc<CaptureCounts>,
    reading: Arc<ReadProgress>,
    path: PathBuf,
    number: u64,
    first_ns: Option<i128>,
    last_ns: u64,
    padded: Vec<u8>,
}

impl CaptureFeed {
    /// Opens the capture at `path` for `claims`.
    ///
    /// A claim is a stream number with its pcap-filter expression, in scenario order; `None`
    /// matches all packets. `keep_frames` stores the captured bytes in the arrivals.
    ///
    /// # Errors
    /// Fails if the file is not a capture, or an expression does not compile for its link type.
    pub fn open(
        path: &Path,
        claims: &[(u32, Option<String>)],
        keep_frames: bool,
    ) -> Result<Self, TrafficError> {
        // libpcap's own messages for a missing or empty file are unclear.
        let metadata = File::open(path).and_then(|file| file.metadata());
        let metadata = metadata.map_err(|e| TrafficError::new(e.to_string()).path(path))?;
        if metadata.is_file() && metadata.len() == 0 {
            return Err(TrafficError::new("the file is empty")
                .path(path)
                .help("a capture written by tcpdump or Wireshark is expected (pcap or pcapng)"));
        }
        let capture =
            Capture::from_file_with_precision(path, Precision::Nano).map_err(|error| {
                TrafficError::new(format!("not a capture: {error}"))
                    .path(path)
                    .help("a capture written by tcpdump or Wireshark is expected (pcap or pcapng)")
            })?;
        let claims = claims.iter().map(|(stream, expression)| {
            let compiled = expression.as_ref().map(|expression| {
                capture.compile(expression, true).map_err(|error| {
                    TrafficError::new(format!("`{expression}` does not compile: {error}"))
                        .path(path)
                        .place(format!("`match` of stream {stream} (from 0)"))
                })
            });
            Ok(Claim { stream: *stream, filter: compiled.transpose()? })
        });
        Ok(Self {
            claims: claims.collect::<Result<_, TrafficError>>()?,
            link_type: capture.get_datalink(),
            capture,
            keep_frames,
            flow_of: None,
            counts: Arc::default(),
            reading: Arc::default(),
            path: path.to_path_buf(),
            number: 0,
            first_ns: None,
            last_ns: 0,
            padded: Vec::new(),
        })
    }

    /// Deprecated alias of [`with_progress`](Self::with_progress).
    #[deprecated(note = "renamed to `with_progress`")]
    #[must_use]
    pub fn following(self, reading: Arc<ReadProgress>) -> Self {
        self.with_progress(reading)
    }

    /// Reports the read progress to `reading` from now on.
    #[must_use]
    pub fn with_progress(mut self, reading: Arc<ReadProgress>) -> Self {
        reading.add_total(std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len()));
        self.reading = reading;
        self
    }

    /// Stores the flow of each packet in its arrival.
    #[must_use]
    pub fn with_flows(mut self, flow_of: FlowOf) -> Self {
        self.flow_of = Some(flow_of);
        self
    }

    /// Returns the counters of this capture.
    #[must_use]
    pub fn counts(&self) -> Arc<CaptureCounts> {
        Arc::clone(&self.counts)
    }

    /// Creates a writer of captures with this capture's link type.
    #[must_use]
    pub fn writer(&self, file: OutputFile) -> CaptureWriter {
        CaptureWriter::new(file, self.capture.get_datalink())
    }
}

impl Feed for CaptureFeed {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        *next = None;
        loop {
            self.number += 1;
            let packet = match self.capture.next_packet() {
                Ok(packet) => packet,
                Err(pcap::Error::NoMorePackets) => return Ok(()),
                Err(error) => {
                    return Err(TrafficError::new(error.to_string())
                        .path(&self.path)
                        .place(format!("packet {}", self.number))
                        .help("the capture is truncated or damaged here"));
                }
            };
            self.reading.advance(RECORD_HEADER_BYTES + u64::from(packet.header.caplen));
            let captured_ns = timestamp_ns(packet.header);
            let offset_ns = captured_ns - *self.first_ns.get_or_insert(captured_ns);
            let time_ns = u64::try_from(offset_ns.max(0)).unwrap_or(u64::MAX);
            if time_ns < self.last_ns || offset_ns < 0 {
                self.counts.reordered_packets.fetch_add(1, Ordering::Relaxed);
            }
            self.last_ns = self.last_ns.max(time_ns);
            let bytes = packet.header.len;
            let seen = padded_to_wire_length(packet.data, bytes, &mut self.padded);
            let takes = |claim: &&Claim| claim.filter.as_ref().is_none_or(|f| f.filter(seen));
            let Some(claim) = self.claims.iter().find(takes) else {
                self.counts.unmatched_packets.fetch_add(1, Ordering::Relaxed);
                self.counts.unmatched_bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
                continue;
            };
            let stream = claim.stream;
            let flow =
                self.flow_of.as_ref().map(|flow_of| flow_of(stream, self.link_type, packet.data));
            let frame = self.keep_frames.then(|| {
                Box::new(FrameBytes { captured: packet.data.to_vec(), original_bytes: bytes })
            });
            *next = Some(Arrival { time_ns: self.last_ns, stream, bytes, flow, frame });
            return Ok(());
        }
    }
}

/// The maximum length to which a packet is padded for a filter: no link carries longer packets.
const MAX_PADDED_BYTES: u32 = 1 << 18;

/// Returns the captured bytes, padded with zeros to the packet's length on the wire.
fn padded_to_wire_length<'a>(captured: &'a [u8], bytes: u32, padded: &'a mut Vec<u8>) -> &'a [u8] {
    let length = bytes.min(MAX_PADDED_BYTES) as usize;
    if captured.len() >= length {
        return captured;
    }
    padded.clear();
    padded.extend_from_slice(captured);
    padded.resize(length, 0);
    padded
}

#[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
fn timestamp_ns(header: &PacketHeader) -> i128 {
    // With nanosecond precision libpcap stores nanoseconds in `tv_usec`.
    i128::from(header.ts.tv_sec as i64) * 1_000_000_000 + i128::from(header.ts.tv_usec as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a pcap file with nanosecond timestamps: (seconds, ns, captured bytes, length).
    fn pcap(packets: &[(u32, u32, Vec<u8>, u32)]) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 1] {
            file.extend(word.to_le_bytes());
        }
        for (seconds, nanoseconds, data, length) in packets {
            let captured = u32::try_from(data.len()).unwrap();
            for word in [*seconds, *nanoseconds, captured, *length] {
                file.extend(word.to_le_bytes());
            }
            file.extend(data);
        }
        file
    }

    /// Returns an Ethernet frame with the headers of a UDP packet to `port`.
    fn udp(port: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x13, 0x88]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn claims() -> [(u32, Option<String>); 2] {
        [(4, Some("udp port 5004".into())), (7, Some("greater 1000".into()))]
    }

    #[test]
    fn packets_go_to_the_first_match_and_the_rest_is_counted() {
        let capture = file(&pcap(&[
            (100, 5, udp(5004), 1400),
            (100, 25, udp(53), 1000),
            (100, 15, udp(53), 999),
            (101, 0, udp(5004), 65_535),
            (101, 1, vec![], 0),
        ]));
        let mut feed = CaptureFeed::open(capture.path(), &claims(), true).unwrap();
        let mut arrivals = Vec::new();
        while let Some(arrival) = feed.next_arrival().unwrap() {
            assert_eq!(arrival.frame.unwrap().original_bytes, arrival.bytes);
            arrivals.push((arrival.time_ns, arrival.stream, arrival.bytes));
        }
        assert_eq!(arrivals, [(0, 4, 1400), (20, 7, 1000), (999_999_995, 4, 65_535)]);
        let counts = feed.counts();
        assert_eq!(counts.unmatched_packets.load(Ordering::Relaxed), 2);
        assert_eq!(counts.unmatched_bytes.load(Ordering::Relaxed), 999);
        assert_eq!(counts.reordered_packets.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_written_capture_reads_back_unchanged() {
        let capture = file(&pcap(&[(1, 0, udp(5004), 60), (2, 7, udp(5004), 70)]));
        let mut feed = CaptureFeed::open(capture.path(), &[(0, None)], true).unwrap();
        let copy = tempfile::NamedTempFile::new().unwrap();
        let mut writer = feed.writer(OutputFile::create(copy.path()).unwrap());
        let mut originals = Vec::new();
        while let Some(arrival) = feed.next_arrival().unwrap() {
            writer.write(arrival.time_ns, arrival.frame.as_ref().unwrap());
            originals.push(arrival);
        }
        writer.finish().unwrap();
        let mut again = CaptureFeed::open(copy.path(), &[(0, None)], true).unwrap();
        for original in originals {
            assert_eq!(again.next_arrival().unwrap(), Some(original));
        }
        assert_eq!(again.next_arrival().unwrap(), None);
    }

    #[test]
    fn pcapng_is_read_with_its_own_resolution() {
        let block = |kind: u32, body: &[u8]| {
            let length = u32::try_from(body.len() + 12).unwrap().to_le_bytes();
            [&kind.to_le_bytes()[..], &length, body, &length].concat()
        };
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        // Ethernet, with the one-byte option 9 (resolution): 10^-9 s.
        let interface = block(1, &words(&[1, 0, 0x0001_0009, 9, 0]));
        let packet = |ns: u32, length: u32| {
            block(6, &[words(&[0, 0, ns, 4, length]), b"abcd".to_vec()].concat())
        };
        let capture = file(&[section, interface, packet(7, 60), packet(1_000_008, 1500)].concat());
        let mut feed = CaptureFeed::open(capture.path(), &[(0, None)], false).unwrap();
        let mut next = || feed.next_arrival().unwrap().map(|a| (a.time_ns, a.bytes));
        assert_eq!([next(), next(), next()], [Some((0, 60)), Some((1_000_001, 1500)), None]);
    }

    #[test]
    fn a_bad_expression_is_named_with_its_stream() {
        let capture = file(&pcap(&[]));
        let claims = [(0, None), (3, Some("upd port 1".into()))];
        let error = CaptureFeed::open(capture.path(), &claims, false).err().unwrap().to_string();
        for part in ["stream 3", "`upd port 1`", "syntax error"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn errors_of_damaged_files_name_the_position() {
        let whole = pcap(&[(1, 0, udp(1), 60), (1, 1, udp(1), 60)]);
        let cut = file(&whole[..whole.len() - 5]);
        let mut feed = CaptureFeed::open(cut.path(), &[(0, None)], false).unwrap();
        assert!(feed.next_arrival().unwrap().is_some());
        assert!(feed.next_arrival().unwrap_err().to_string().contains("packet 2"));
        let open =
            |bytes| CaptureFeed::open(file(bytes).path(), &[(0, None)], false).err().unwrap();
        assert!(open(b"").to_string().contains("empty"));
        assert!(open(b"time_ns,stream,bytes, and so on").to_string().contains("not a capture"));
        let missing = CaptureFeed::open(Path::new("/nonexistent"), &[], false).err().unwrap();
        assert!(missing.to_string().contains("/nonexistent"));
    }
}
