//! Video connections of one class at one end-point.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use millstream_traffic::mpeg::Mpeg4Model;

use super::sequence::{Purpose, random, sequence_number};

/// A set of video connections that spread each frame's packets over the frame's time.
#[derive(Clone, Debug)]
pub(super) struct Video {
    frame_ns: u64,
    packet_bytes: u32,
    connections: Vec<VideoConnection>,
    /// Time of each connection's next packet, ns, and the connection's number.
    next: BinaryHeap<Reverse<(u64, u32)>>,
}

/// One connection and its position in the current frame.
#[derive(Clone, Debug)]
struct VideoConnection {
    model: Mpeg4Model,
    /// Time from the start of its first frame to time 0, ns.
    lead_ns: u64,
    /// Start of the current frame, ns after the start of the first.
    frame_start_ns: u64,
    /// Number of packets of the current frame.
    packets: u32,
    /// Number of packets of the current frame that were sent.
    sent_packets: u32,
    /// Bytes of the current frame that were not sent.
    remaining_bytes: u32,
}

impl VideoConnection {
    fn begin_frame(&mut self, packet_bytes: u32) {
        // The model never ends.
        let frame_bytes = self.model.next().map_or(1, |frame| frame.bytes.max(1));
        self.packets = frame_bytes.div_ceil(packet_bytes);
        self.sent_packets = 0;
        self.remaining_bytes = frame_bytes;
    }

    /// Returns the time of the next packet, ns after the connection's first frame.
    #[allow(clippy::cast_possible_truncation)]
    fn due_ns(&self, frame_ns: u64) -> u64 {
        let offset =
            u128::from(self.sent_packets) * u128::from(frame_ns) / u128::from(self.packets);
        // `offset` is below the frame time, so it fits into 64 bits.
        self.frame_start_ns.saturating_add(offset as u64)
    }

    /// Sends the next packet and returns its length, bytes.
    fn send(&mut self, frame_ns: u64, packet_bytes: u32) -> u32 {
        let bytes = self.remaining_bytes.min(packet_bytes);
        self.remaining_bytes -= bytes;
        self.sent_packets += 1;
        if self.remaining_bytes == 0 {
            self.frame_start_ns = self.frame_start_ns.saturating_add(frame_ns);
            self.begin_frame(packet_bytes);
        }
        bytes
    }
}

impl Video {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn new(
        mean_rate_bps: u64,
        frame_ns: u64,
        packet_bytes: u32,
        count: u32,
        (seed, end_point, class): (u64, u32, u8),
    ) -> Self {
        let (frame_ns, packet_bytes) = (frame_ns.max(1), packet_bytes.max(1));
        let mean_bytes = mean_rate_bps as f64 * frame_ns as f64 / 8e9;
        let mut connections = Vec::new();
        let mut next = BinaryHeap::new();
        for connection in 0..count {
            let lead_ns =
                random(seed, end_point, class, connection, Purpose::Times).below(frame_ns);
            let sequence = sequence_number(end_point, class, connection, Purpose::Frames);
            let model = Mpeg4Model::at_random_position(mean_bytes, seed, sequence);
            let mut state = VideoConnection {
                model,
                lead_ns,
                frame_start_ns: 0,
                packets: 0,
                sent_packets: 0,
                remaining_bytes: 0,
            };
            state.begin_frame(packet_bytes);
            while state.due_ns(frame_ns) < lead_ns {
                state.send(frame_ns, packet_bytes);
            }
            next.push(Reverse((state.due_ns(frame_ns) - lead_ns, connection)));
            connections.push(state);
        }
        Self { frame_ns, packet_bytes, connections, next }
    }

    /// Returns time, connection within the class and length of the next packet.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, u32, u32)> {
        let mut head = self.next.peek_mut()?;
        let Reverse((time_ns, connection)) = *head;
        let state = &mut self.connections[connection as usize];
        let bytes = state.send(self.frame_ns, self.packet_bytes);
        *head = Reverse((state.due_ns(self.frame_ns) - state.lead_ns, connection));
        Some((time_ns, connection, bytes))
    }
}
