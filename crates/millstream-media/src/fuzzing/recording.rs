//! Entry points for the recording: frames of a publisher in, the samples of its file out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millstream_traffic::mpeg::{FragmentTrack, FragmentedMp4};
use std::io::Cursor;
use std::sync::Arc;

use super::hls::package;
use crate::recording::segment::{AudioConfig, Segment};
use crate::recording::tap::RecordedFrame;

/// Parameter sets of x264 for 1280x720, High profile, which reorder two frames.
const SETS: [&str; 2] = ["Z2QAH6zZQFAFuhAAAAMAEAAAAwPI8YMZYA==", "aOvjyyLA"];

/// The bits of a frame's first byte: whether it is a key frame, whether it is audio, and whether it
/// is the first of a run of frames of audio.
const KEY: u8 = 1;
const AUDIO: u8 = 2;
const RUN: u8 = 4;

/// The frames of a run, and the time between two of them, ns.
const RUN_FRAMES: u64 = 1_000;
const RUN_PERIOD_NS: u64 = 20_000_000;

/// The most frames of an input.
const MAX_FRAMES: u64 = 100_000;

fn audio() -> AudioConfig {
    let sample_rate = std::num::NonZeroU32::MIN.saturating_add(44_099);
    AudioConfig::Aac { config: vec![0x12, 0x10], sample_rate, channels: 2 }
}

/// Returns a frame of an input: its kind, its time, ns, its length and its bytes.
fn frame(kind: u8, time_ns: u64, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    [&[kind], &time_ns.to_be_bytes()[..], &[length], &bytes[..length.into()]].concat()
}

/// Returns inputs of [`recorded`].
#[must_use]
pub fn recorded_frames() -> Vec<Vec<u8>> {
    let sets = SETS.iter().filter_map(|set| STANDARD.decode(set).ok());
    let sets = sets.flat_map(|set| [&[0, 0, 0, 1][..], &set].concat());
    let key: Vec<u8> = sets.chain([0, 0, 0, 1, 0x65, 0x88, 1]).collect();
    let at = |time: u8| 1_000_000_000 + u64::from(time) * 10_000_000;
    let sound = [0, 32, 0, 16, 0, 24, 1, 2, 3, 4, 5];
    let mut input = frame(KEY, at(0), &key);
    // In display order after the key frame: 2 3 1, then beyond the first fragment.
    for time in [12, 4, 8, 60, 110, 150] {
        input.extend(frame(0, at(time), &[0, 0, 1, 0x41, 0x9a, time]));
        input.extend(frame(AUDIO, at(time), &sound));
    }
    input.extend(frame(KEY, at(200), &key));
    // A minute of sound without video, then times at both ends of their range.
    let mut far = frame(KEY, at(0), &key);
    for run in 0..3u64 {
        far.extend(frame(AUDIO | RUN, at(0) + run * RUN_FRAMES * RUN_PERIOD_NS, &sound));
    }
    for time_ns in [u64::MAX, 0, 1 << 63, at(1)] {
        far.extend(frame(0, time_ns, &[0, 0, 1, 0x41, 0x9a, 1]));
        far.extend(frame(AUDIO, time_ns, &sound));
    }
    vec![input, far]
}

/// Returns a recording.
///
/// # Panics
/// Panics if [`recorded_frames`] has no key frame.
#[must_use]
pub fn recorded_file() -> Vec<u8> {
    record(&recorded_frames()[0]).expect("a key frame").0
}

/// A frame, or a run of frames of audio, of an input.
#[derive(Clone, Copy, Debug)]
struct InputFrame<'a> {
    kind: u8,
    at_ns: u64,
    bytes: &'a [u8],
}

impl InputFrame<'_> {
    /// Returns the number of frames.
    fn count(&self) -> u64 {
        if self.kind & RUN == 0 { 1 } else { RUN_FRAMES }
    }
}

/// Returns the frames of an input, at most [`MAX_FRAMES`].
fn frames(input: &[u8]) -> Vec<InputFrame<'_>> {
    let (mut frames, mut count) = (Vec::new(), 0);
    let mut rest = input;
    while let [kind, more @ ..] = rest
        && let Some((time, [length, more @ ..])) = more.split_first_chunk::<8>()
        && count < MAX_FRAMES
    {
        let (bytes, more) = more.split_at(usize::from(*length).min(more.len()));
        let frame = InputFrame { kind: *kind, at_ns: u64::from_be_bytes(*time), bytes };
        (rest, count) = (more, count + frame.count());
        frames.push(frame);
    }
    frames
}

/// Records the frames in `input`. Returns the file with its numbers of frames of video and audio;
/// `None` if its first frame begins no recording.
fn record(input: &[u8]) -> Option<(Vec<u8>, [usize; 2])> {
    let config = audio();
    let mut segment = None;
    let mut counts = [0; 2];
    for frame in frames(input) {
        let InputFrame { kind, at_ns, bytes } = frame;
        match &mut segment {
            None => {
                segment = Some(Segment::begin(bytes, at_ns, Some(&config)).ok()?);
                counts[0] = 1;
            }
            Some(segment) if kind & AUDIO != 0 => {
                for number in 0..frame.count() {
                    let at_ns = at_ns.saturating_add(number * RUN_PERIOD_NS);
                    for (bytes, after_ns) in config.frames(bytes) {
                        let at_ns = at_ns.saturating_add(after_ns);
                        let added = segment.audio(bytes, at_ns).expect("a valid fragment");
                        counts[1] += usize::from(added);
                    }
                }
            }
            Some(segment) => {
                let key = kind & KEY != 0;
                let added = segment.video(bytes, at_ns, key).expect("a valid fragment");
                counts[0] += usize::from(added);
            }
        }
    }
    let mut segment = segment?;
    segment.finish().expect("a valid fragment");
    Some((segment.take_output(), counts))
}

/// Returns the frames of an input as a publication of video and audio.
fn publication(input: &[u8]) -> impl Iterator<Item = RecordedFrame> {
    let (config, stream) = (Some(Arc::new(audio())), Arc::from("cam"));
    frames(input).into_iter().flat_map(move |frame| {
        let InputFrame { kind, at_ns, bytes } = frame;
        let (config, stream) = (config.clone(), Arc::clone(&stream));
        (0..frame.count()).map(move |number| RecordedFrame {
            publication: 1,
            stream: Arc::clone(&stream),
            is_audio: kind & AUDIO != 0,
            captured_ns: at_ns.saturating_add(number * RUN_PERIOD_NS),
            key: kind & KEY != 0,
            bytes: bytes.to_vec(),
            audio: config.clone(),
        })
    })
}

/// Packages the frames of an input for HLS, records them and reads the file again. Returns whether
/// it began with a key frame that has parameter sets.
///
/// # Panics
/// Panics if a frame is missing from the file.
#[must_use]
pub fn recorded(input: &[u8]) -> bool {
    package(publication(input));
    let Some((file, counts)) = record(input) else { return false };
    let file = FragmentedMp4::open(Cursor::new(file)).expect("a readable file");
    let mut file = file.expect("a fragmented file");
    let mut found = [0; 2];
    while let Some(fragment) = file.next_fragment().expect("readable fragments") {
        for sample in fragment.samples {
            found[usize::from(sample.track == FragmentTrack::Audio)] += 1;
        }
    }
    assert_eq!(found, counts);
    true
}
