//! Audio frames of a transport stream: AAC in ADTS (ISO 13818-7, 6.2) and MPEG-1/2 audio (ISO
//! 11172-3, 2.4.1, and 13818-3).
//!
//! ```text
//! transport stream ── PES ──> bytes, time stamps ── headers ──> frames ── slots ──> one per period
//! ```
//! Only headers are parsed. A frame counts if the next one begins at its end. Frames of one track
//! are of equal duration; each goes to the slot of that duration that is nearest to its time stamp.
//! So no frame is played more than half its duration from its time in the file. Missing frames
//! repeat the frame before, and overlapping frames are left out.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::ops::Range;
use std::path::Path;

use super::container::{Part, transport_audio};
use super::file::is_transport_stream;
use crate::arrival::TrafficError;

/// The rate of time stamps, Hz.
const CLOCK: i64 = 90_000;

/// The number of distinct time stamps.
const STAMPS: u64 = 1 << 33;

/// The longest gap or overlap in a track, frames: about 20 s.
const MAX_GAP: u64 = 1_000;

/// The number of time stamps that determine the start of a track.
const STARTS: usize = 64;

/// The number of video frames among which the first one shown is.
const REORDERED: usize = 64;

/// The supported audio codecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudioCodec {
    /// AAC with ADTS headers.
    Aac,
    /// MPEG-1 and MPEG-2 audio, layers I to III.
    Mpeg,
}

/// What the header of an audio frame says about its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioHeader {
    /// Samples per second.
    pub sample_rate: u32,
    /// Number of channels.
    pub channels: u32,
    /// Number of samples per channel in a frame.
    pub samples: u32,
    /// AAC: the `AudioSpecificConfig` (ISO 14496-3, 1.6.2.1).
    pub config: u16,
}

/// The audio track of a media file: frames of equal duration, in order.
#[derive(Clone, Debug)]
pub struct AudioTrack {
    /// Codec of the track.
    pub codec: AudioCodec,
    /// What all frames have in common.
    pub header: AudioHeader,
    /// The time from the first picture to the first frame, ns. Frames before it are left out.
    pub offset_ns: u64,
    /// The range of each frame in `bytes`. AAC: without the ADTS header.
    pub frames: Vec<Range<usize>>,
    /// The elementary stream.
    pub bytes: Vec<u8>,
}

impl AudioTrack {
    /// Reads the first audio track of the transport stream at `path`; its elementary stream has at
    /// most `limit` bytes.
    ///
    /// Returns `None` if the file is no transport stream, or has no audio of a supported codec.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or the track has more than `limit` bytes, a gap of more
    /// than 1,000 frames, or more gaps than frames.
    pub fn open(path: &Path, limit: usize) -> Result<Option<Self>, TrafficError> {
        let file =
            File::open(path).map_err(|error| TrafficError::new(error.to_string()).path(path))?;
        Self::read(file, limit).map_err(|error| error.path(path))
    }

    /// Reads the first audio track of `input`. See [`AudioTrack::open`].
    ///
    /// # Errors
    /// See [`AudioTrack::open`].
    pub fn read(input: impl Read + Seek, limit: usize) -> Result<Option<Self>, TrafficError> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        if !is_transport_stream(&mut input)? {
            return Ok(None);
        }
        let mut found = None;
        let (mut bytes, mut stamps) = (Vec::new(), Vec::new());
        let mut shown = Vec::with_capacity(REORDERED);
        transport_audio(input, &mut |part| match part {
            Part::VideoTime(time) if shown.len() < REORDERED => shown.push(time),
            Part::VideoTime(_) => {}
            Part::Audio(codec, time, data) => {
                found = Some(codec);
                stamps.extend(time.map(|time| (bytes.len(), time)));
                let room = limit.saturating_add(1) - bytes.len();
                bytes.extend_from_slice(&data[..data.len().min(room)]);
            }
        })?;
        if bytes.len() > limit {
            return Err(TrafficError::new(format!("more than {limit} bytes of audio"))
                .help("raise the limit, or serve a shorter file"));
        }
        let Some(codec) = found else { return Ok(None) };
        Self::of(codec, bytes, &stamps, &shown)
    }

    /// Returns the track of an elementary stream; `stamps` are pairs of a byte offset and a time,
    /// `shown` the times of the file's first pictures.
    fn of(
        codec: AudioCodec,
        bytes: Vec<u8>,
        stamps: &[(usize, u64)],
        shown: &[u64],
    ) -> Result<Option<Self>, TrafficError> {
        let Some((header, found)) = audio_frames(codec, &bytes) else { return Ok(None) };
        let first_shown = shown.iter().copied().min_by_key(|time| ticks_from(shown[0], *time));
        let mut stamps = stamps.iter().peekable();
        let stamped: Vec<(Range<usize>, Option<u64>)> = found
            .into_iter()
            .map(|frame| {
                let mut time = None;
                while let Some((_, stamp)) = stamps.next_if(|(at, _)| *at <= frame.start) {
                    time = Some(*stamp);
                }
                (frame, time)
            })
            .collect();
        let start = start(header, &stamped);
        let (Some(start), Some(first_shown)) = (start, first_shown) else { return Ok(None) };
        let mut slots = Slots { header, start, frames: Vec::new(), repeated: 0, skip: 0 };
        for (frame, time) in stamped {
            slots.push(frame, time)?;
        }
        let mut frames = slots.frames;
        let offset_ns = i128::from(ticks_from(first_shown, start)) * 1_000_000_000 / 90_000;
        let frame_ns = i128::from(header.samples) * 1_000_000_000 / i128::from(header.sample_rate);
        let early = ((-offset_ns).max(0) + frame_ns - 1) / frame_ns;
        let early = usize::try_from(early).unwrap_or(usize::MAX).min(frames.len());
        frames.drain(..early);
        let offset_ns =
            u64::try_from(offset_ns + i128::try_from(early).unwrap_or(0) * frame_ns).unwrap_or(0);
        let track = Self { codec, header, offset_ns, frames, bytes };
        Ok(Some(track).filter(|track| !track.frames.is_empty()))
    }
}

/// Returns the difference of two time stamps, which may have wrapped, 1/90,000 s.
fn ticks_from(earlier: u64, later: u64) -> i64 {
    let forward = later.wrapping_sub(earlier) % STAMPS;
    let forward = i64::try_from(forward).unwrap_or(0);
    if forward < 1 << 32 { forward } else { forward - (1 << 33) }
}

/// Returns the duration of `frames` frames, 1/90,000 s.
fn ticks_of(header: AudioHeader, frames: u64) -> u64 {
    let samples = u128::from(frames) * u128::from(header.samples);
    u64::try_from(samples * u128::from(CLOCK.unsigned_abs()) / u128::from(header.sample_rate))
        .unwrap_or(0)
}

/// Returns the time of the first frame, by the median of the first stamps: encoders give the first
/// frame the time of its first audible sample.
fn start(header: AudioHeader, frames: &[(Range<usize>, Option<u64>)]) -> Option<u64> {
    let stamped = (0..).zip(frames).filter_map(|(number, (_, time))| Some((number, (*time)?)));
    let starts = stamped.map(|(number, time)| time.wrapping_sub(ticks_of(header, number)) % STAMPS);
    let mut starts: Vec<u64> = starts.take(STARTS).collect();
    let first = *starts.first()?;
    starts.sort_by_key(|start| ticks_from(first, *start));
    Some(starts[(starts.len() - 1) / 2])
}

/// The frames found so far, one per slot of a frame's duration.
struct Slots {
    header: AudioHeader,
    frames: Vec<Range<usize>>,
    /// The number of frames that fill gaps.
    repeated: u64,
    /// The number of further frames to leave out.
    skip: u64,
    /// The time of slot 0.
    start: u64,
}

impl Slots {
    /// Adds a frame that has this time stamp, if it has one.
    fn push(&mut self, frame: Range<usize>, time: Option<u64>) -> Result<(), TrafficError> {
        let duration = i64::from(self.header.samples) * CLOCK;
        let rate = i64::from(self.header.sample_rate);
        let slot = self.frames.len() as u64;
        let Some(time) = time else {
            if self.skip > 0 {
                self.skip -= 1;
            } else {
                self.frames.push(frame);
            }
            return Ok(());
        };
        // The distance to the next free slot: rounded to whole frames, negative for an overlap.
        let due = self.start.wrapping_add(ticks_of(self.header, slot)) % STAMPS;
        let late = ticks_from(due, time);
        let frames = (2 * late * rate + late.signum() * duration) / (2 * duration);
        let missing = u64::try_from(frames).unwrap_or(0);
        self.repeated += missing;
        // The second limit bounds the memory that a damaged file takes.
        if frames.unsigned_abs() > MAX_GAP || self.repeated > slot.max(MAX_GAP) {
            let message = format!("the audio jumps by {} ms", late / (CLOCK / 1_000));
            return Err(TrafficError::new(message).place(format!("audio frame {slot}")).help(
                "make its times continuous: ffmpeg -i FILE -c:v copy -af aresample=async=1 NEW.ts",
            ));
        }
        self.skip = 0;
        if let Some(last) = self.frames.last().cloned() {
            self.frames.extend((0..missing).map(|_| last.clone()));
        }
        if frames < 0 {
            self.skip = frames.unsigned_abs() - 1;
        } else {
            self.frames.push(frame);
        }
        Ok(())
    }
}

/// Returns the first frame's header and the frames of an elementary stream that agree with it.
///
/// Bytes between frames are skipped. Returns `None` if there is no frame. The ranges of AAC frames
/// exclude the ADTS headers.
#[must_use]
pub fn audio_frames(codec: AudioCodec, stream: &[u8]) -> Option<(AudioHeader, Vec<Range<usize>>)> {
    let parse = match codec {
        AudioCodec::Aac => adts,
        AudioCodec::Mpeg => mpeg,
    };
    let mut track = None;
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let found = parse(&stream[at..]).filter(|(header, _, length)| {
            let rest = stream.get(at + length..);
            let follows = |rest: &[u8]| {
                rest.is_empty() || parse(rest).is_some_and(|(next, ..)| next == *header)
            };
            track.is_none_or(|track| track == *header) && rest.is_some_and(follows)
        });
        let Some((header, skipped, length)) = found else {
            at += 1;
            continue;
        };
        track = Some(header);
        frames.push(at + skipped..at + length);
        at += length;
    }
    Some((track?, frames))
}

/// What begins at a place of an elementary stream that arrives in parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AudioPlace {
    /// A frame: its header, the length of an ADTS header, and the length with it, bytes.
    Frame(AudioHeader, usize, usize),
    /// A frame, if the bytes that follow continue it.
    Incomplete,
    /// No frame, whatever follows.
    Other,
}

/// Returns what begins at the start of `bytes`. A frame counts if the next one begins at its end,
/// or if it ends with `bytes`.
pub(super) fn audio_place(codec: AudioCodec, bytes: &[u8]) -> AudioPlace {
    type Parse = fn(&[u8]) -> Option<(AudioHeader, usize, usize)>;
    let (parse, shortest, mask, sync): (Parse, _, _, _) = match codec {
        AudioCodec::Aac => (adts, 7, 0xf6, 0xf0),
        AudioCodec::Mpeg => (mpeg, 4, 0xe0, 0xe0),
    };
    let may_continue = |bytes: &[u8]| match *bytes {
        [0xff] => true,
        [0xff, second, ..] => bytes.len() < shortest && second & mask == sync,
        _ => false,
    };
    let Some((header, skipped, length)) = parse(bytes) else {
        return if may_continue(bytes) { AudioPlace::Incomplete } else { AudioPlace::Other };
    };
    let Some(rest) = bytes.get(length..) else { return AudioPlace::Incomplete };
    match parse(rest) {
        Some((next, ..)) if next == header => AudioPlace::Frame(header, skipped, length),
        None if rest.is_empty() => AudioPlace::Frame(header, skipped, length),
        None if may_continue(rest) => AudioPlace::Incomplete,
        _ => AudioPlace::Other,
    }
}

/// The sample rates of AAC, Hz, by index.
const AAC_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// Parses an ADTS header. Returns the frame's header, and the lengths of the ADTS header and of the
/// frame with it, bytes.
///
/// Frames of several blocks and channel layouts in the frame are not supported.
fn adts(bytes: &[u8]) -> Option<(AudioHeader, usize, usize)> {
    let [0xff, second, third, fourth, fifth, sixth, seventh, ..] = *bytes else { return None };
    if second & 0xf6 != 0xf0 || seventh & 3 != 0 {
        return None;
    }
    let skipped = if second & 1 == 1 { 7 } else { 9 };
    let index = third >> 2 & 15;
    let sample_rate = *AAC_RATES.get(usize::from(index))?;
    let layout = (third & 1) << 2 | fourth >> 6;
    let channels = [0, 1, 2, 3, 4, 5, 6, 8][usize::from(layout)];
    let length = usize::from(fourth & 3) << 11 | usize::from(fifth) << 3 | usize::from(sixth >> 5);
    if channels == 0 || length <= skipped {
        return None;
    }
    let object = u16::from(third >> 6) + 1;
    let config = object << 11 | u16::from(index) << 7 | u16::from(layout) << 3;
    Some((AudioHeader { sample_rate, channels, samples: 1_024, config }, skipped, length))
}

/// Bit rates of MPEG audio, kbit/s, by index from 1.
const LAYER1: [u32; 14] = [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448];
const LAYER2: [u32; 14] = [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
const LAYER3: [u32; 14] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const LOW_LAYER1: [u32; 14] = [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256];
const LOW_LAYERS: [u32; 14] = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];

/// Parses an MPEG audio header. Returns what [`adts`] returns; nothing is skipped.
fn mpeg(bytes: &[u8]) -> Option<(AudioHeader, usize, usize)> {
    let [0xff, second, third, fourth, ..] = *bytes else { return None };
    if second & 0xe0 != 0xe0 {
        return None;
    }
    // The rates of MPEG-2 are half those of MPEG-1, and a quarter in its extension.
    let (version, layer) = (second >> 3 & 3, 4 - (second >> 1 & 3));
    let divisor = match version {
        3 => 1,
        2 => 2,
        0 => 4,
        _ => return None,
    };
    let rates = match (divisor, layer) {
        (_, 4) => return None,
        (1, 1) => LAYER1,
        (1, 2) => LAYER2,
        (1, _) => LAYER3,
        (_, 1) => LOW_LAYER1,
        _ => LOW_LAYERS,
    };
    let bit_rate = *rates.get(usize::from(third >> 4).checked_sub(1)?)? * 1_000;
    let sample_rate = *[44_100, 48_000, 32_000].get(usize::from(third >> 2 & 3))? / divisor;
    let samples = match (divisor, layer) {
        (_, 1) => 384,
        (1, _) | (_, 2) => 1_152,
        _ => 576,
    };
    // A slot has four bytes in layer I, else one.
    let slot = if layer == 1 { 4 } else { 1 };
    let padding = u32::from(third >> 1 & 1);
    let length = (samples / 8 / slot * bit_rate / sample_rate + padding) * slot;
    let channels = if fourth >> 6 == 3 { 1 } else { 2 };
    let header = AudioHeader { sample_rate, channels, samples, config: 0 };
    Some((header, 0, usize::try_from(length).ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns an ADTS frame of `payload` bytes: AAC-LC, 48 kHz, stereo.
    pub(crate) fn aac(payload: u8) -> Vec<u8> {
        let length = payload + 7;
        let header = [0xff, 0xf1, 0x4c, 0x80, length >> 3, length << 5 | 0x1f, 0xfc];
        [&header[..], &vec![payload; payload.into()]].concat()
    }

    const FRAME: u64 = 1_920;

    /// Returns the first payload byte of each frame, for frames of 10, 11, … bytes that have these
    /// time stamps.
    fn played(stamps: &[Option<u64>], shown: &[u64]) -> Result<(u64, Vec<u8>), String> {
        let (mut bytes, mut at) = (Vec::new(), Vec::new());
        for (stamp, payload) in stamps.iter().zip(10..) {
            at.extend(stamp.map(|stamp| (bytes.len(), stamp)));
            bytes.extend(aac(payload));
        }
        let track = AudioTrack::of(AudioCodec::Aac, bytes, &at, shown);
        let track = track.map_err(|error| error.to_string())?.ok_or("no track")?;
        let frames = track.frames.iter().map(|frame| track.bytes[frame.start]);
        Ok((track.offset_ns, frames.collect()))
    }

    #[test]
    fn adts_frames_are_found_between_other_bytes() {
        let stream = [&[1, 0xff, 0xf1][..], &aac(9), &aac(20), &[0xff; 5]].concat();
        let (header, frames) = audio_frames(AudioCodec::Aac, &stream).unwrap();
        // The last frame counts only if a frame or nothing follows.
        assert_eq!((frames.len(), frames[0].clone()), (1, 10..19));
        let expected =
            AudioHeader { sample_rate: 48_000, channels: 2, samples: 1_024, config: 0x1190 };
        assert_eq!(header, expected);
        assert_eq!(audio_frames(AudioCodec::Aac, &stream[..stream.len() - 5]).unwrap().1.len(), 2);
        assert_eq!(audio_frames(AudioCodec::Aac, b"\xff\xf1"), None);
    }

    #[test]
    fn a_place_is_incomplete_only_if_more_bytes_may_make_it_a_frame() {
        let of = |bytes: &[u8]| audio_place(AudioCodec::Aac, bytes);
        let (one, two) = (aac(10), [aac(10), aac(11)].concat());
        assert!(matches!(of(&one), AudioPlace::Frame(_, 7, 17)));
        assert!(matches!(of(&two[..24]), AudioPlace::Frame(_, 7, 17)));
        for length in (1..17).chain(18..24) {
            assert_eq!(of(&two[..length]), AudioPlace::Incomplete, "{length}");
        }
        let other = [&one[..], &[0xff, 0xe1]].concat();
        for bytes in [&[][..], &[1], &[0xff, 0xff], &[0xff, 0xf1, 0xff, 0, 0, 0, 0], &other] {
            assert_eq!(of(bytes), AudioPlace::Other, "{bytes:?}");
        }
        let mpeg = |bytes: &[u8]| audio_place(AudioCodec::Mpeg, bytes);
        assert_eq!(mpeg(&[0xff, 0xfb, 0x92]), AudioPlace::Incomplete);
        assert_eq!(mpeg(&[0xff, 0xfb, 0x02, 0]), AudioPlace::Other);
    }

    /// Lengths and durations from ISO 11172-3 and 13818-3.
    #[test]
    fn mpeg_audio_headers_give_length_and_duration() {
        let of = |header: [u8; 4]| {
            let (header, _, length) = mpeg(&header)?;
            Some((length, header.samples, header.sample_rate, header.channels))
        };
        // Layer III, 128 kbit/s, 44.1 kHz, padded; layer II, 192 kbit/s, 48 kHz.
        assert_eq!(of([0xff, 0xfb, 0x92, 0x40]), Some((418, 1_152, 44_100, 2)));
        assert_eq!(of([0xff, 0xfd, 0xa4, 0xc0]), Some((576, 1_152, 48_000, 1)));
        // MPEG-2 layer III, 64 kbit/s, 24 kHz; MPEG-2.5, 16 kbit/s, 8 kHz; layer I, 32 kbit/s.
        assert_eq!(of([0xff, 0xf3, 0x84, 0x00]), Some((192, 576, 24_000, 2)));
        assert_eq!(of([0xff, 0xe3, 0x28, 0x00]), Some((144, 576, 8_000, 2)));
        assert_eq!(of([0xff, 0xff, 0x18, 0x00]), Some((48, 384, 32_000, 2)));
        for wrong in [[0xff, 0xfb, 0x02, 0], [0xff, 0xfb, 0xf2, 0], [0xff, 0xfb, 0x9e, 0]] {
            assert_eq!(of(wrong), None);
        }
        assert_eq!([of([0xff, 0xeb, 0x92, 0]), of([0xff, 0xf9, 0x92, 0])], [None; 2]);
    }

    #[test]
    fn frames_keep_their_time_from_the_first_picture() {
        let each: Vec<_> = (0..4).map(|n| Some(9_000 + n * FRAME)).collect();
        // The picture shown first has the smallest time stamp.
        assert_eq!(played(&each, &[9_000, 6_300]), Ok((30_000_000, vec![10, 11, 12, 13])));
        // Frames before it are left out: 2,000 ticks are two frames, less 1,840 ticks.
        assert_eq!(played(&each, &[11_000]), Ok((20_444_444, vec![12, 13])));
        assert_eq!(played(&each, &[90_000]).unwrap_err(), "no track");
        // The first frame has another time than the following ones.
        let uneven = [Some(900), Some(FRAME), Some(2 * FRAME), None];
        assert_eq!(played(&uneven, &[0]), Ok((0, vec![10, 11, 12, 13])));
        // Time stamps wrap.
        let wrapped = [Some(STAMPS - FRAME), None, Some(FRAME), None];
        assert_eq!(played(&wrapped, &[STAMPS - FRAME]), Ok((0, vec![10, 11, 12, 13])));
    }

    #[test]
    fn gaps_repeat_a_frame_and_overlaps_leave_frames_out() {
        let at = |slot: u64, more: u64| Some(slot * FRAME + more);
        let gap = [at(0, 0), at(1, 0), at(4, 900), None];
        assert_eq!(played(&gap, &[0]), Ok((0, vec![10, 11, 11, 11, 12, 13])));
        let overlap = [at(3, 0), at(4, 0), at(3, 0), None, None];
        assert_eq!(played(&overlap, &[3 * FRAME]), Ok((0, vec![10, 11, 14])));
        let jump = [at(0, 0), at(2_000, 0)];
        let error = played(&jump, &[0]).unwrap_err();
        assert!(error.contains("audio frame 1: the audio jumps by 42645 ms"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn frames_lie_inside_the_stream_in_order(
            bytes in proptest::collection::vec(
                proptest::prop_oneof![proptest::strategy::Just(0xffu8), 0u8..=255], 0..400),
            stamps in proptest::collection::vec((0usize..400, 0u64..STAMPS), 0..9),
            shown in proptest::collection::vec(0u64..STAMPS, 0..3),
            is_aac: bool,
        ) {
            let codec = if is_aac { AudioCodec::Aac } else { AudioCodec::Mpeg };
            if let Some((_, frames)) = audio_frames(codec, &bytes) {
                proptest::prop_assert!(frames.windows(2).all(|two| two[0].end <= two[1].start));
                proptest::prop_assert!(frames.iter().all(|frame| frame.end <= bytes.len()));
            }
            let _ = AudioTrack::of(codec, bytes, &stamps, &shown);
        }
    }
}
