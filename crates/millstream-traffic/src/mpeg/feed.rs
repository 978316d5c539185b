//! Frames paced at their frame rate, each as one or several packets.

use std::sync::Arc;

use super::{Frame, FrameKind, FrameRate, Mpeg4Model, VideoFile};
use crate::arrival::{Arrival, Feed, TrafficError};

/// The frame types that a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKinds([bool; 3]);

impl FrameKinds {
    /// Returns the frame types with letters in `letters`.
    #[must_use]
    pub fn new(letters: &str) -> Self {
        Self(['I', 'P', 'B'].map(|letter| letters.contains(letter)))
    }

    fn has(self, kind: FrameKind) -> bool {
        self.0[match kind {
            FrameKind::I => 0,
            FrameKind::P => 1,
            FrameKind::B => 2,
        }]
    }
}

/// The packetisation of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Packets {
    /// Maximum packet size, bytes; `None` sends each frame as one packet.
    pub largest_bytes: Option<u32>,
    /// Whether a frame's packets are spread over its frame time instead of arriving at once.
    pub spread: bool,
}

/// The source of the frames.
#[derive(Debug)]
enum Frames {
    File { video: Arc<VideoFile>, repeat: bool },
    Model(Box<Mpeg4Model>),
}

/// A feed of video frames.
#[derive(Debug)]
pub struct MpegFeed {
    stream: u32,
    frames: Frames,
    rate: FrameRate,
    kinds: FrameKinds,
    packets: Packets,
    start_ns: u64,
    stop_ns: u64,
    /// Number of the next frame, counting frames of all types.
    index: u64,
    frame_ns: u64,
    interval_ns: u64,
    remaining_bytes: u32,
    packet: u64,
    packet_count: u64,
}

impl MpegFeed {
    /// Creates a feed of the frames of `video` for `stream`, repeated endlessly if `repeat`.
    #[must_use]
    pub fn from_file(
        stream: u32,
        video: Arc<VideoFile>,
        repeat: bool,
        kinds: FrameKinds,
        packets: Packets,
        (start_ns, stop_ns): (u64, u64),
    ) -> Self {
        let rate = video.rate;
        let frames = Frames::File { video, repeat };
        Self::new(stream, frames, rate, kinds, packets, start_ns, stop_ns)
    }

    /// Creates an endless feed of frames of `model` for `stream`.
    #[must_use]
    pub fn from_model(
        stream: u32,
        model: Mpeg4Model,
        rate: FrameRate,
        kinds: FrameKinds,
        packets: Packets,
        (start_ns, stop_ns): (u64, u64),
    ) -> Self {
        Self::new(stream, Frames::Model(Box::new(model)), rate, kinds, packets, start_ns, stop_ns)
    }

    fn new(
        stream: u32,
        frames: Frames,
        rate: FrameRate,
        kinds: FrameKinds,
        packets: Packets,
        start_ns: u64,
        stop_ns: u64,
    ) -> Self {
        Self {
            stream,
            frames,
            rate,
            kinds,
            packets,
            start_ns,
            stop_ns,
            index: 0,
            frame_ns: 0,
            interval_ns: 0,
            remaining_bytes: 0,
            packet: 0,
            packet_count: 0,
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        match &mut self.frames {
            Frames::Model(model) => model.next(),
            Frames::File { video, repeat } => {
                let count = video.frames.len() as u64;
                let position = if *repeat { self.index.checked_rem(count)? } else { self.index };
                video.frames.get(usize::try_from(position).ok()?).copied()
            }
        }
    }

    /// Advances to the next frame of a wanted type; returns `false` at the end.
    fn advance(&mut self) -> bool {
        // The search in a repeated file, or in a model, never ends without a wanted frame.
        let wanted = |frame: &Frame| frame.bytes > 0 && self.kinds.has(frame.kind);
        let some_wanted = match &self.frames {
            Frames::File { video, .. } => video.frames.iter().any(wanted),
            Frames::Model(_) => self.kinds != FrameKinds([false; 3]),
        };
        if !some_wanted {
            return false;
        }
        loop {
            let Some(frame) = self.next_frame() else { return false };
            let time = |index| u128::from(self.start_ns) + self.rate.time_ns(index);
            let (now, next) = (time(self.index), time(self.index + 1));
            let Some(now_ns) = u64::try_from(now).ok().filter(|now_ns| *now_ns < self.stop_ns)
            else {
                return false;
            };
            self.index += 1;
            if self.kinds.has(frame.kind) {
                self.frame_ns = now_ns;
                self.interval_ns = u64::try_from(next - now).unwrap_or(u64::MAX);
                self.remaining_bytes = frame.bytes;
                self.packet = 0;
                let largest = self.packets.largest_bytes.unwrap_or(u32::MAX).max(1);
                self.packet_count = u64::from(frame.bytes.div_ceil(largest));
                if frame.bytes > 0 {
                    return true;
                }
            }
        }
    }
}

impl Feed for MpegFeed {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        if self.remaining_bytes == 0 && !self.advance() {
            *next = None;
            return Ok(());
        }
        let largest = self.packets.largest_bytes.unwrap_or(u32::MAX).max(1);
        let bytes = self.remaining_bytes.min(largest);
        self.remaining_bytes -= bytes;
        let offset_ns = if self.packets.spread {
            let offset = u128::from(self.interval_ns) * u128::from(self.packet);
            u64::try_from(offset / u128::from(self.packet_count.max(1))).unwrap_or(u64::MAX)
        } else {
            0
        };
        self.packet += 1;
        let time_ns = self.frame_ns.saturating_add(offset_ns);
        *next = Some(Arrival { time_ns, stream: self.stream, bytes, flow: None, frame: None });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(mut feed: MpegFeed) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| feed.next_arrival().unwrap())
            .map(|arrival| (arrival.time_ns, arrival.bytes))
            .collect()
    }

    fn video() -> Arc<VideoFile> {
        let frames = [(FrameKind::I, 2500), (FrameKind::B, 300), (FrameKind::P, 1000)];
        let frames = frames.map(|(kind, bytes)| Frame { kind, bytes }).to_vec();
        Arc::new(VideoFile { frames, rate: FrameRate { frames: 30_000, seconds: 1_001 } })
    }

    fn feed(kinds: &str, repeat: bool, packets: Packets, stop_ns: u64) -> MpegFeed {
        MpegFeed::from_file(0, video(), repeat, FrameKinds::new(kinds), packets, (10, stop_ns))
    }

    #[test]
    fn frames_arrive_at_their_rate_and_other_types_leave_gaps() {
        let one = Packets::default();
        assert_eq!(
            arrivals(feed("IPB", false, one, u64::MAX)),
            [(10, 2500), (33_366_676, 300), (66_733_343, 1000)]
        );
        assert_eq!(
            arrivals(feed("IP", true, one, 166_833_343)),
            [(10, 2500), (66_733_343, 1000), (100_100_010, 2500)]
        );
        assert_eq!(arrivals(feed("", true, one, u64::MAX)), []);
        let (model, rate) = (Mpeg4Model::new(1e4, 1, 0), FrameRate { frames: 25, seconds: 1 });
        let none = FrameKinds::new("");
        assert_eq!(arrivals(MpegFeed::from_model(0, model, rate, none, one, (0, u64::MAX))), []);
        let empty = VideoFile { frames: vec![Frame { kind: FrameKind::I, bytes: 0 }], rate };
        let kinds = FrameKinds::new("I");
        let times = (0, u64::MAX);
        assert_eq!(arrivals(MpegFeed::from_file(0, empty.into(), true, kinds, one, times)), []);
    }

    #[test]
    fn frames_are_split_at_once_or_spread_over_the_frame_time() {
        let split = |spread| Packets { largest_bytes: Some(1000), spread };
        assert_eq!(
            arrivals(feed("I", false, split(false), u64::MAX)),
            [(10, 1000), (10, 1000), (10, 500)]
        );
        assert_eq!(
            arrivals(feed("I", false, split(true), u64::MAX)),
            [(10, 1000), (11_122_232, 1000), (22_244_454, 500)]
        );
    }
}
