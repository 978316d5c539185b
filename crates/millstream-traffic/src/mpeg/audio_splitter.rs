//! A splitter of audio that arrives in parts, as in the units of a transport stream, into frames.

use super::audio::{AudioCodec, AudioHeader, audio_frames};

/// The most bytes that are kept for a frame whose end has not arrived. No frame is longer.
const MAX_KEPT: usize = 8 << 10;

/// The most times that are kept for frames whose begin has not arrived.
const MAX_TIMES: usize = 16;

/// The longest header that a frame is without, bytes: ADTS with a checksum.
const MAX_HEADER: usize = 9;

/// A frame of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioFrame<'a> {
    /// What its header says.
    pub header: AudioHeader,
    /// Its time, 1/90,000 s modulo 2^33: that of the unit if it is the first to begin in it.
    pub time: Option<u64>,
    /// Its bytes. AAC: without the ADTS header.
    pub bytes: &'a [u8],
}

/// A splitter of audio of one track into frames.
#[derive(Debug)]
pub struct AudioSplitter {
    codec: AudioCodec,
    /// The bytes behind the last frame.
    kept: Vec<u8>,
    /// Times of the first frame that begins at or behind a place in `kept`, in order.
    times: Vec<(usize, u64)>,
}

impl AudioSplitter {
    /// Creates a splitter of audio of this codec.
    #[must_use]
    pub fn new(codec: AudioCodec) -> Self {
        Self { codec, kept: Vec::new(), times: Vec::new() }
    }

    /// Forgets the frame whose end has not arrived: bytes are missing.
    pub fn skip(&mut self) {
        self.kept.clear();
        self.times.clear();
    }

    /// Passes the frames on that end in the next `bytes`, which have this time. A frame counts if
    /// the next one begins at its end, or if it ends with `bytes`.
    pub fn push(&mut self, time: Option<u64>, bytes: &[u8], sink: &mut impl FnMut(AudioFrame<'_>)) {
        if let Some(time) = time {
            let excess = (self.times.len() + 1).saturating_sub(MAX_TIMES);
            self.times.drain(..excess);
            self.times.push((self.kept.len(), time));
        }
        self.kept.extend_from_slice(bytes);
        let mut end = 0;
        if let Some((header, frames)) = audio_frames(self.codec, &self.kept) {
            for frame in frames {
                let begin = end.max(frame.start.saturating_sub(MAX_HEADER));
                let known = self.times.partition_point(|(at, _)| *at <= begin);
                let time = self.times.drain(..known).next_back().map(|(_, time)| time);
                end = frame.end;
                sink(AudioFrame { header, time, bytes: &self.kept[frame] });
            }
        }
        let end = end.max(self.kept.len().saturating_sub(MAX_KEPT));
        self.kept.drain(..end);
        self.times.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ADTS frame of `payload` bytes: AAC-LC, 48 kHz, stereo.
    fn aac(payload: u8) -> Vec<u8> {
        let length = payload + 7;
        let header = [0xff, 0xf1, 0x4c, 0x80, length >> 3, length << 5 | 0x1f, 0xfc];
        [&header[..], &vec![payload; payload.into()]].concat()
    }

    /// Returns the length and the time of each frame of these parts.
    fn split(parts: &[(Option<u64>, &[u8])]) -> Vec<(usize, Option<u64>)> {
        let mut splitter = AudioSplitter::new(AudioCodec::Aac);
        let mut found = Vec::new();
        for (time, bytes) in parts {
            splitter.push(*time, bytes, &mut |frame| {
                assert_eq!((frame.header.sample_rate, frame.header.channels), (48_000, 2));
                found.push((frame.bytes.len(), frame.time));
            });
        }
        found
    }

    #[test]
    fn a_time_is_that_of_the_first_frame_that_begins_with_it() {
        let all = [aac(10), aac(11), aac(12), aac(13)].concat();
        let whole = split(&[(Some(7), &all[..35]), (Some(9), &all[35..])]);
        assert_eq!(whole, [(10, Some(7)), (11, None), (12, Some(9)), (13, None)]);
        // The second frame is in both parts: the third one has the time of the second part.
        for cut in 18..35 {
            let found = split(&[(Some(7), &all[..cut]), (Some(9), &all[cut..])]);
            assert_eq!(found, [(10, Some(7)), (11, None), (12, Some(9)), (13, None)], "{cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_frame_take_bounded_memory() {
        let mut splitter = AudioSplitter::new(AudioCodec::Aac);
        for _ in 0..20 {
            splitter.push(Some(1), &[0xff; 1_000], &mut |_| panic!("a frame"));
        }
        assert_eq!((splitter.kept.len(), splitter.times.len()), (MAX_KEPT, MAX_TIMES));
        let mut found = 0;
        splitter.push(None, &[aac(10), aac(11)].concat(), &mut |_| found += 1);
        assert_eq!((found, splitter.kept.len()), (2, 0));
        splitter.push(None, &aac(10)[..9], &mut |_| panic!("a frame"));
        splitter.skip();
        assert!(splitter.kept.is_empty());
    }
}
