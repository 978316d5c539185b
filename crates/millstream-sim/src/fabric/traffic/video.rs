//! Video connections of one class at one end-point.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use millstream_traffic::mpeg::Mpeg4Model;

use super::sequence::{Purpose, number, random};

/// Video connections whose frames' packets are spread over the frames' times.
#[derive(Clone, Debug)]
pub(super) struct Video {
    frame_ns: u64,
    packet_bytes: u32,
    films: Vec<MediaFile>,
    /// When each connection sends next, and its number.
    next: BinaryHeap<Reverse<(u64, u32)>>,
}

/// One connection, inside a frame.
#[derive(Clone, Debug)]
struct MediaFile {
    model: Mpeg4Model,
    /// How long before time 0 its first frame began.
    lead_ns: u64,
    /// When its present frame began, ns after its first.
    frame_start_ns: u64,
    /// Packets of the present frame, and how many of them are gone.
    packets: u32,
    gone: u32,
    left_bytes: u32,
}

impl MediaFile {
    fn begin_frame(&mut self, packet_bytes: u32) {
        // The model has no end.
        let frame_bytes = self.model.next().map_or(1, |frame| frame.bytes.max(1));
        self.packets = frame_bytes.div_ceil(packet_bytes);
        self.gone = 0;
        self.left_bytes = frame_bytes;
    }

    /// When the next packet comes, ns after the connection's first frame.
    #[allow(clippy::cast_possible_truncation)]
    fn due_ns(&self, frame_ns: u64) -> u64 {
        let offset = u128::from(self.gone) * u128::from(frame_ns) / u128::from(self.packets);
        // Less than a frame time.
        self.frame_start_ns.saturating_add(offset as u64)
    }

    /// The bytes of the next packet, which goes.
    fn send(&mut self, frame_ns: u64, packet_bytes: u32) -> u32 {
        let bytes = self.left_bytes.min(packet_bytes);
        self.left_bytes -= bytes;
        self.gone += 1;
        if self.left_bytes == 0 {
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
        let mut films = Vec::new();
        let mut next = BinaryHeap::new();
        for connection in 0..count {
            let lead_ns =
                random(seed, end_point, class, connection, Purpose::Times).below(frame_ns);
            let sequence = number(end_point, class, connection, Purpose::Frames);
            let model = Mpeg4Model::at_random_place(mean_bytes, seed, sequence);
            let mut film =
                MediaFile { model, lead_ns, frame_start_ns: 0, packets: 0, gone: 0, left_bytes: 0 };
            film.begin_frame(packet_bytes);
            while film.due_ns(frame_ns) < lead_ns {
                film.send(frame_ns, packet_bytes);
            }
            next.push(Reverse((film.due_ns(frame_ns) - lead_ns, connection)));
            films.push(film);
        }
        Self { frame_ns, packet_bytes, films, next }
    }

    /// Time, connection within the class and bytes of the next packet.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, u32, u32)> {
        let mut head = self.next.peek_mut()?;
        let Reverse((time_ns, connection)) = *head;
        let film = &mut self.films[connection as usize];
        let bytes = film.send(self.frame_ns, self.packet_bytes);
        *head = Reverse((film.due_ns(self.frame_ns) - film.lead_ns, connection));
        Some((time_ns, connection, bytes))
    }
}
