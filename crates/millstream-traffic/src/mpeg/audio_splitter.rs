//! A splitter of audio that arrives in parts, as in the units of a transport stream, into frames.

use super::audio::{AudioCodec, AudioHeader, AudioPlace, audio_place};

/// The most times that are kept for frames that have not started to arrive.
const MAX_TIMES: usize = 16;

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
    /// The bytes from the start of the incomplete frame: at most a frame of AAC and a header.
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

    /// Discards the incomplete frame, because bytes are missing.
    pub fn skip(&mut self) {
        self.kept.clear();
        self.times.clear();
    }

    /// Passes the frames on that end in the next `bytes`, which have this time. A frame counts if
    /// the next one begins at its end, or if it ends with `bytes`.
    ///
    /// Bytes that begin no frame are parsed once: a hostile sender must not have them parsed again
    /// with each unit.
    pub fn push(&mut self, time: Option<u64>, bytes: &[u8], sink: &mut impl FnMut(AudioFrame<'_>)) {
        if let Some(time) = time {
            let excess = (self.times.len() + 1).saturating_sub(MAX_TIMES);
            self.times.drain(..excess);
            self.times.push((self.kept.len(), time));
        }
        self.kept.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.kept.len() {
            match audio_place(self.codec, &self.kept[at..]) {
                AudioPlace::Frame(header, skipped, length) => {
                    let known = self.times.partition_point(|(from, _)| *from <= at);
                    let time = self.times.drain(..known).next_back().map(|(_, time)| time);
                    let bytes = &self.kept[at + skipped..at + length];
                    sink(AudioFrame { header, time, bytes });
                    at += length;
                }
                AudioPlace::Incomplete => break,
                AudioPlace::Other => at += 1,
            }
        }
        self.kept.drain(..at);
        self.times.iter_mut().for_each(|(from, _)| *from = from.saturating_sub(at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::audio::tests::aac;
    use super::*;

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
    fn bytes_that_are_no_frame_are_not_kept() {
        let mut splitter = AudioSplitter::new(AudioCodec::Aac);
        for _ in 0..20 {
            splitter.push(Some(1), &[0xff; 1_000], &mut |_| panic!("a frame"));
            // The last byte may begin a frame.
            assert_eq!(splitter.kept, [0xff]);
        }
        assert_eq!(splitter.times.len(), MAX_TIMES);
        let mut found = 0;
        splitter.push(None, &[aac(10), aac(11)].concat(), &mut |_| found += 1);
        assert_eq!((found, splitter.kept.len()), (2, 0));
        splitter.push(None, &aac(10)[..9], &mut |_| panic!("a frame"));
        splitter.skip();
        assert!(splitter.kept.is_empty());
    }

    #[test]
    fn a_frame_whose_end_is_missing_takes_bounded_memory() {
        // The longest frame, 8,191 bytes; what follows is no header, so it is none.
        let long = [0xff, 0xf1, 0x4c, 0x83, 0xff, 0xff, 0xfc];
        let mut splitter = AudioSplitter::new(AudioCodec::Aac);
        let mut most = 0;
        for number in 0..100 {
            let unit = [&long[..], &[1; 161]].concat();
            splitter.push(Some(number), &unit, &mut |_| panic!("a frame"));
            most = most.max(splitter.kept.len());
        }
        // It lacks a byte at most.
        assert_eq!((most, splitter.kept[..7] == long), (8_190 / 168 * 168, true));
        splitter.push(None, &[aac(10), aac(11)].concat(), &mut |_| panic!("a frame"));
        splitter.skip();
        let mut found = 0;
        splitter.push(None, &aac(10), &mut |_| found += 1);
        assert_eq!(found, 1);
    }
}
