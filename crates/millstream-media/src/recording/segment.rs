//! Fragmented MP4 (ISO 14496-12, 8.8) from frames in decoding order: one file of a recording, or
//! the parts of HLS.
//!
//! ```text
//! frames ── decoding times ──> samples ── each second ──> moof, mdat ──> output
//! ```
//! A published frame has only its presentation time. The decoding times of a segment are its
//! presentation times in increasing order. So a frame waits until as many frames follow it as the
//! stream may reorder. A sample's duration is known when the next one has a decoding time.

mod muxer;

use millstream_traffic::mpeg::{reorder_depth, units};
use shiguredo_mp4::bitstream::h264::{H264SampleEntryConfig, LengthSize, build_avc1_box};
use shiguredo_mp4::bitstream::opus::{ChannelCount, OpusSampleEntryConfig, build_opus_box};
use shiguredo_mp4::boxes::{AudioSampleEntryFields, EsdsBox, Mp4aBox, SampleEntry};
use shiguredo_mp4::descriptors::{
    DecoderConfigDescriptor, DecoderSpecificInfo, EsDescriptor, SlConfigDescriptor,
};
use shiguredo_mp4::mux::{MuxError, Sample};
use shiguredo_mp4::{FixedPointNumber, TrackKind, Uint};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::num::NonZeroU32;

use muxer::FragmentMuxer;

/// The unit of times of video, 1/s: that of RTP.
const VIDEO_SCALE: u32 = 90_000;

/// The size that ends a fragment early.
const FRAGMENT_BYTES: usize = 4 << 20;

/// The most samples of a track in a fragment: more than two seconds of any audio have.
const FRAGMENT_SAMPLES: usize = 4_096;

/// The length of audio that ends a fragment without the end of a second of video, s.
const FRAGMENT_AUDIO_S: i64 = 2;

/// The most parameter sets of a frame: those that `avcC` can have (ISO 14496-15, 5.3.3.1.2).
const MAX_SEQUENCE_SETS: usize = 31;
const MAX_PICTURE_SETS: usize = 255;

/// The most frames of video that wait for their decoding time.
const MAX_WAITING: usize = 64;

/// The duration of the first frame until the second one is known, in the unit of times of video.
const FIRST_DURATION: i64 = 3_600;

/// The samples of an AAC frame.
const AAC_SAMPLES: u64 = 1_024;

/// The format of a stream's audio, as its publisher described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AudioConfig {
    /// AAC with its `AudioSpecificConfig` (ISO 14496-3, 1.6.2.1).
    Aac {
        /// The configuration.
        config: Vec<u8>,
        /// Samples per second.
        sample_rate: NonZeroU32,
        /// The number of channels.
        channels: u16,
    },
    /// Opus, which always has 48,000 samples per second.
    Opus {
        /// Whether it has two channels.
        stereo: bool,
    },
}

impl AudioConfig {
    fn sample_rate(&self) -> NonZeroU32 {
        match self {
            Self::Aac { sample_rate, .. } => *sample_rate,
            Self::Opus { .. } => NonZeroU32::MIN.saturating_add(47_999),
        }
    }

    fn entry(&self) -> SampleEntry {
        match self {
            Self::Aac { config, sample_rate, channels } => {
                SampleEntry::Mp4a(aac(config, *sample_rate, *channels))
            }
            Self::Opus { stereo } => {
                let channel_count = if *stereo { ChannelCount::Stereo } else { ChannelCount::Mono };
                SampleEntry::Opus(build_opus_box(&OpusSampleEntryConfig {
                    channel_count,
                    // RTP does not carry it; a player decodes the first frames, too.
                    pre_skip: 0,
                    input_sample_rate: 48_000,
                    output_gain: 0,
                }))
            }
        }
    }

    /// Splits the payload of an RTP packet into frames, each with its time after the first, ns.
    ///
    /// AAC is in mode AAC-hbr of RFC 3640, which may hold several frames. Returns none if the
    /// payload is malformed.
    pub(crate) fn frames<'a>(&self, payload: &'a [u8]) -> Vec<(&'a [u8], u64)> {
        match self {
            Self::Opus { .. } => vec![(payload, 0)],
            Self::Aac { sample_rate, .. } => {
                let period_ns = AAC_SAMPLES * 1_000_000_000 / u64::from(sample_rate.get());
                let frames = aac_frames(payload).unwrap_or_default();
                frames.into_iter().zip(0..).map(|(frame, n)| (frame, n * period_ns)).collect()
            }
        }
    }
}

/// Returns the frames of an RTP payload of AAC in mode AAC-hbr (RFC 3640, section 3.3.6).
fn aac_frames(payload: &[u8]) -> Option<Vec<&[u8]>> {
    let (bits, rest) = payload.split_first_chunk::<2>()?;
    let headers = usize::from(u16::from_be_bytes(*bits)).div_ceil(8);
    let (headers, mut data) = rest.split_at_checked(headers)?;
    let mut frames = Vec::with_capacity(headers.len() / 2);
    for header in headers.chunks_exact(2) {
        let length = u16::from_be_bytes([header[0], header[1]]) >> 3;
        let (frame, after) = data.split_at_checked(length.into())?;
        frames.push(frame);
        data = after;
    }
    Some(frames)
}

fn aac(config: &[u8], sample_rate: NonZeroU32, channels: u16) -> Mp4aBox {
    // The field has 16 bits; the configuration has the rate, too.
    let rate = u16::try_from(sample_rate.get()).unwrap_or(0);
    Mp4aBox {
        audio: AudioSampleEntryFields {
            data_reference_index: AudioSampleEntryFields::DEFAULT_DATA_REFERENCE_INDEX,
            channelcount: channels,
            samplesize: AudioSampleEntryFields::DEFAULT_SAMPLESIZE,
            samplerate: FixedPointNumber::new(rate, 0),
        },
        esds_box: EsdsBox {
            es: EsDescriptor {
                es_id: EsDescriptor::MIN_ES_ID,
                stream_priority: EsDescriptor::LOWEST_STREAM_PRIORITY,
                depends_on_es_id: None,
                url_string: None,
                ocr_es_id: None,
                dec_config_descr: DecoderConfigDescriptor {
                    object_type_indication:
                        DecoderConfigDescriptor::OBJECT_TYPE_INDICATION_AUDIO_ISO_IEC_14496_3,
                    stream_type: DecoderConfigDescriptor::STREAM_TYPE_AUDIO,
                    up_stream: DecoderConfigDescriptor::UP_STREAM_FALSE,
                    buffer_size_db: Uint::new(0),
                    max_bitrate: 0,
                    avg_bitrate: 0,
                    dec_specific_info: Some(DecoderSpecificInfo { payload: config.to_vec() }),
                },
                sl_config_descr: SlConfigDescriptor,
            },
        },
        unknown_boxes: Vec::new(),
    }
}

/// When fragments end; lengths are in the unit of times of video, 1/90,000 s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentRule {
    /// The length of a fragment. It ends before a frame if more than half of it would exceed this.
    pub(crate) ticks: i64,
    /// If given, a fragment also ends before a key frame that is this long after the last one that
    /// ended a fragment.
    pub(crate) group_ticks: Option<i64>,
}

/// The rule of recordings: a crash loses about a second.
const RECORDED: FragmentRule = FragmentRule { ticks: 90_000, group_ticks: None };

/// A whole fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) bytes: Vec<u8>,
    /// The length of its video, 1/90,000 s; 0 if it has only audio.
    pub(crate) ticks: i64,
    /// Whether its video begins with a key frame.
    pub(crate) key: bool,
    /// Whether the fragment before ended for the sake of this key frame, or it is the first.
    pub(crate) begins_group: bool,
}

/// Why a segment cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentError {
    /// The first frame lacks parameter sets, or has damaged ones.
    #[error("the key frame has no valid parameter sets")]
    ParameterSets,
    /// The muxer refused a fragment.
    #[error("{0}")]
    Mux(String),
}

impl From<MuxError> for SegmentError {
    fn from(error: MuxError) -> Self {
        Self::Mux(error.to_string())
    }
}

/// The parameter sets of an H.264 frame: those of sequences, then those of pictures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParameterSets {
    sequence: Vec<Vec<u8>>,
    picture: Vec<Vec<u8>>,
    /// All of them. A search does not take longer with more of them.
    known: HashSet<Vec<u8>>,
}

impl ParameterSets {
    /// Returns the parameter sets in a frame with start codes.
    ///
    /// # Errors
    /// Fails if it has more than a file can have.
    pub(crate) fn of(frame: &[u8]) -> Result<Self, SegmentError> {
        let mut sets = Self::default();
        for unit in units(frame) {
            let nal = &frame[unit];
            let (kept, most) = match nal[0] & 31 {
                7 => (&mut sets.sequence, MAX_SEQUENCE_SETS),
                8 => (&mut sets.picture, MAX_PICTURE_SETS),
                _ => continue,
            };
            if sets.known.contains(nal) {
                continue;
            }
            if kept.len() == most {
                return Err(SegmentError::ParameterSets);
            }
            kept.push(nal.to_vec());
            sets.known.insert(nal.to_vec());
        }
        Ok(sets)
    }

    fn has(&self, nal: &[u8]) -> bool {
        matches!(nal[0] & 31, 7 | 8) && self.known.contains(nal)
    }
}

/// A frame of video that waits for its decoding time.
#[derive(Debug)]
struct Waiting {
    present: i64,
    key: bool,
    data: Vec<u8>,
}

/// The samples of a track in the open fragment.
#[derive(Debug, Default)]
struct Samples {
    samples: Vec<Sample>,
    data: Vec<u8>,
}

impl Samples {
    fn add(&mut self, sample: Sample, data: &[u8]) {
        self.samples.push(Sample {
            data_offset: self.data.len() as u64,
            data_size: data.len(),
            ..sample
        });
        self.data.extend_from_slice(data);
    }

    /// Returns whether the fragment must end, whatever its length.
    fn is_full(&self) -> bool {
        self.data.len() >= FRAGMENT_BYTES || self.samples.len() >= FRAGMENT_SAMPLES
    }
}

/// The video of a segment.
#[derive(Debug)]
struct Video {
    /// How many frames may precede a frame that is presented before them.
    reorder: usize,
    /// The presentation times of frames without a decoding time.
    times: BinaryHeap<Reverse<i64>>,
    waiting: VecDeque<Waiting>,
    /// The last frame with a decoding time.
    last: Option<(i64, Waiting)>,
    last_duration: i64,
    fragment_start: i64,
    /// When the last key frame was that ended a fragment, and whether the open fragment has it.
    group_start: i64,
    begins_group: bool,
    samples: Samples,
}

/// The audio of a segment.
#[derive(Debug)]
struct Audio {
    sample_rate: NonZeroU32,
    last: Option<(i64, Vec<u8>)>,
    last_duration: i64,
    begun: bool,
    /// The time of the first sample in the open fragment.
    fragment_start: i64,
    samples: Samples,
}

/// A segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment {
    muxer: FragmentMuxer,
    /// The presentation time of its first frame, ns of the machine's clock.
    start_ns: u64,
    /// The latest presentation time, ns.
    end_ns: u64,
    sets: ParameterSets,
    video: Video,
    audio: Option<Audio>,
    rule: FragmentRule,
    output: Vec<u8>,
    /// The fragments in the output, without their bytes, and the offsets of their ends.
    fragments: Vec<(usize, Fragment)>,
}

/// Returns a time after the start of a segment, in units of 1/`scale` s.
fn ticks(since_ns: u64, scale: NonZeroU32) -> i64 {
    let ticks = (u128::from(since_ns) * u128::from(scale.get()) + 500_000_000) / 1_000_000_000;
    i64::try_from(ticks).unwrap_or(i64::MAX)
}

impl Segment {
    /// Begins a segment with the key frame `first`, which is presented at `start_ns`.
    ///
    /// # Errors
    /// Fails if the frame has no valid parameter sets.
    pub(crate) fn begin(
        first: &[u8],
        start_ns: u64,
        audio: Option<&AudioConfig>,
    ) -> Result<Self, SegmentError> {
        let sets = ParameterSets::of(first)?;
        let config = H264SampleEntryConfig { length_size: LengthSize::FourBytes };
        let entry = build_avc1_box(&sets.sequence, &sets.picture, &config);
        let entry = entry.map_err(|_| SegmentError::ParameterSets)?;
        let depth = sets.sequence.first().and_then(|set| reorder_depth(set)).unwrap_or(0);
        // The muxer learns the tracks from samples. An empty sample of each declares both tracks
        // before the first fragment, whichever frames that has.
        let declare =
            |kind, scale, entry| Sample { sample_entry: Some(entry), ..sample(kind, scale, 0) };
        let mut declared = vec![declare(TrackKind::Video, scale(), SampleEntry::Avc1(entry))];
        declared.extend(
            audio.map(|audio| declare(TrackKind::Audio, audio.sample_rate(), audio.entry())),
        );
        let muxer = FragmentMuxer::new(&declared)?;
        let output = muxer.declaration()?;
        let video = Video {
            reorder: usize::try_from(depth).unwrap_or(0),
            times: BinaryHeap::new(),
            waiting: VecDeque::new(),
            last: None,
            last_duration: FIRST_DURATION,
            fragment_start: 0,
            group_start: 0,
            begins_group: true,
            samples: Samples::default(),
        };
        let audio = audio.map(|audio| Audio {
            sample_rate: audio.sample_rate(),
            last: None,
            last_duration: i64::try_from(AAC_SAMPLES).unwrap_or(0),
            begun: false,
            fragment_start: 0,
            samples: Samples::default(),
        });
        let mut segment = Self {
            muxer,
            start_ns,
            end_ns: start_ns,
            sets,
            video,
            audio,
            rule: RECORDED,
            output,
            fragments: Vec::new(),
        };
        segment.video(first, start_ns, true)?;
        Ok(segment)
    }

    /// Ends fragments by another rule than that of recordings. Call it before further frames.
    pub(crate) fn with_rule(self, rule: FragmentRule) -> Self {
        Self { rule, ..self }
    }

    /// Returns when it began, ns.
    pub(crate) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Returns the presentation time of its latest frame, ns.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Returns whether a key frame has other parameter sets than the segment.
    pub(crate) fn is_other_format(&self, frame: &[u8]) -> bool {
        ParameterSets::of(frame).ok().as_ref() != Some(&self.sets)
    }

    /// Adds a frame of video with start codes, in decoding order. Returns whether it is part of the
    /// segment: a frame that is presented before the first one depends on the segment before.
    ///
    /// # Errors
    /// Fails if the muxer refuses a fragment.
    pub(crate) fn video(
        &mut self,
        frame: &[u8],
        present_ns: u64,
        key: bool,
    ) -> Result<bool, SegmentError> {
        let Some(since_ns) = present_ns.checked_sub(self.start_ns) else { return Ok(false) };
        self.end_ns = self.end_ns.max(present_ns);
        let mut data = Vec::with_capacity(frame.len() + 8);
        for unit in units(frame) {
            let nal = &frame[unit];
            // `avcC` has these sets. A delimiter has no use where samples have lengths.
            if self.sets.has(nal) || nal[0] & 31 == 9 {
                continue;
            }
            data.extend_from_slice(&u32::try_from(nal.len()).unwrap_or(u32::MAX).to_be_bytes());
            data.extend_from_slice(nal);
        }
        let present = ticks(since_ns, scale());
        self.video.times.push(Reverse(present));
        self.video.waiting.push_back(Waiting { present, key, data });
        while self.video.times.len() > self.video.reorder.min(MAX_WAITING) {
            self.give_decoding_time()?;
        }
        Ok(true)
    }

    /// Gives the oldest frame without a decoding time the earliest presentation time.
    fn give_decoding_time(&mut self) -> Result<(), SegmentError> {
        let video = &mut self.video;
        let (Some(Reverse(time)), Some(frame)) = (video.times.pop(), video.waiting.pop_front())
        else {
            return Ok(());
        };
        // Times increase even if a stream reorders more frames than it declares.
        let time = video.last.as_ref().map_or(time, |(last, _)| time.max(last + 1));
        let key = frame.key;
        let Some((last, sample)) = video.last.replace((time, frame)) else { return Ok(()) };
        video.last_duration = time - last;
        let FragmentRule { ticks, group_ticks } = self.rule;
        if time - video.fragment_start > ticks * 23 / 20 && last > video.fragment_start {
            // Before a long frame. Players of HLS are promised parts of at most this length.
            video.fragment_start = last;
            self.end_fragment()?;
        }
        let video = &mut self.video;
        video.add(last, &sample, time - last);
        let begins_group =
            key && group_ticks.is_some_and(|least| time - video.group_start >= least);
        // The times of frames are rounded: a part has the number of frames that is nearest.
        let is_long = time + video.last_duration / 2 - video.fragment_start > ticks;
        if begins_group || is_long || video.samples.is_full() {
            video.fragment_start = time;
            self.end_fragment()?;
        }
        if begins_group {
            (self.video.group_start, self.video.begins_group) = (time, true);
        }
        Ok(())
    }

    /// Adds a frame of audio; frames before the segment's start are left out.
    ///
    /// # Errors
    /// Fails if the muxer refuses the frame.
    pub(crate) fn audio(&mut self, frame: &[u8], present_ns: u64) -> Result<bool, SegmentError> {
        let Some(audio) = &mut self.audio else { return Ok(false) };
        let Some(since_ns) = present_ns.checked_sub(self.start_ns) else { return Ok(false) };
        self.end_ns = self.end_ns.max(present_ns);
        let rate = audio.sample_rate;
        let mut time = ticks(since_ns, rate);
        if !audio.begun {
            audio.begun = true;
            if time > 0 {
                // An empty sample that lasts until the first frame, and that no file has.
                let lead = sample(TrackKind::Audio, rate, time);
                self.muxer.fragment(&[lead])?;
            }
        }
        if let Some((last, data)) = audio.last.take() {
            time = time.max(last + 1);
            audio.last_duration = time - last;
            if audio.samples.samples.is_empty() {
                audio.fragment_start = last;
            }
            audio.add(&data, time - last);
        }
        audio.last = Some((time, frame.to_vec()));
        // Video ends fragments, but a publisher may stop sending it.
        let lasts = time - audio.fragment_start;
        if audio.samples.is_full()
            || !audio.samples.samples.is_empty()
                && lasts >= FRAGMENT_AUDIO_S * i64::from(rate.get())
        {
            self.end_fragment()?;
        }
        Ok(true)
    }

    /// Writes the open fragment to the output.
    fn end_fragment(&mut self) -> Result<(), SegmentError> {
        let video = std::mem::take(&mut self.video.samples);
        let audio = self.audio.as_mut().map(|audio| std::mem::take(&mut audio.samples));
        let audio = audio.unwrap_or_default();
        let of_video = video.samples.len();
        let mut samples = video.samples;
        let after = video.data.len() as u64;
        samples.extend(
            audio
                .samples
                .into_iter()
                .map(|sample| Sample { data_offset: sample.data_offset + after, ..sample }),
        );
        if samples.is_empty() {
            return Ok(());
        }
        let metadata = self.muxer.fragment(&samples)?;
        let of_video = &samples[..of_video];
        for part in [&metadata, &video.data, &audio.data] {
            self.output.extend_from_slice(part);
        }
        let begins_group = !of_video.is_empty() && std::mem::take(&mut self.video.begins_group);
        let ticks = of_video.iter().map(|sample| i64::from(sample.duration)).sum();
        let key = of_video.first().is_some_and(|sample| sample.keyframe);
        let fragment = Fragment { bytes: Vec::new(), ticks, key, begins_group };
        self.fragments.push((self.output.len(), fragment));
        Ok(())
    }

    /// Ends the segment: no frame waits any more.
    ///
    /// # Errors
    /// Fails if the muxer refuses the last fragment.
    pub(crate) fn finish(&mut self) -> Result<(), SegmentError> {
        while !self.video.waiting.is_empty() {
            self.give_decoding_time()?;
        }
        if let Some((last, sample)) = self.video.last.take() {
            let duration = self.video.last_duration;
            self.video.add(last, &sample, duration);
        }
        if let Some(audio) = &mut self.audio
            && let Some((_, data)) = audio.last.take()
        {
            let duration = audio.last_duration;
            audio.add(&data, duration);
        }
        self.end_fragment()
    }

    /// Takes the bytes to write next: whole fragments.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.fragments.clear();
        std::mem::take(&mut self.output)
    }

    /// Takes the whole fragments. The [output](Self::take_output) was taken before the first: it
    /// declares the tracks.
    pub(crate) fn take_fragments(&mut self) -> Vec<Fragment> {
        let (fragments, output) = (std::mem::take(&mut self.fragments), self.take_output());
        let starts = std::iter::once(0).chain(fragments.iter().map(|(end, _)| *end));
        let starts: Vec<usize> = starts.collect();
        let with_bytes = fragments.into_iter().zip(starts).map(|((end, fragment), start)| {
            let bytes = output.get(start..end).unwrap_or_default().to_vec();
            Fragment { bytes, ..fragment }
        });
        with_bytes.collect()
    }
}

impl Video {
    fn add(&mut self, decode: i64, frame: &Waiting, lasts: i64) {
        let offset = frame.present - decode;
        let sample = Sample {
            keyframe: frame.key,
            composition_time_offset: Some(offset.clamp(i32::MIN.into(), i32::MAX.into())),
            ..sample(TrackKind::Video, scale(), lasts)
        };
        self.samples.add(sample, &frame.data);
    }
}

impl Audio {
    fn add(&mut self, data: &[u8], lasts: i64) {
        self.samples.add(sample(TrackKind::Audio, self.sample_rate, lasts), data);
    }
}

fn scale() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(VIDEO_SCALE - 1)
}

/// Returns an empty sample, at which decoding can begin, of `lasts` units of time.
fn sample(kind: TrackKind, timescale: NonZeroU32, lasts: i64) -> Sample {
    Sample {
        track_kind: kind,
        sample_entry: None,
        keyframe: true,
        timescale,
        duration: u32::try_from(lasts.max(0)).unwrap_or(u32::MAX),
        composition_time_offset: None,
        data_offset: 0,
        data_size: 0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use millstream_traffic::mpeg::{FragmentTrack, FragmentedMp4, H264Format};
    use std::io::Cursor;

    const MS: u64 = 1_000_000;
    const START_NS: u64 = 5_000 * MS;

    /// Parameter sets of x264 for 1280x720, High profile, which reorder two frames.
    const SETS: [&str; 2] = ["Z2QAH6zZQFAFuhAAAAMAEAAAAwPI8YMZYA==", "aOvjyyLA"];

    pub(crate) fn sets() -> Vec<Vec<u8>> {
        SETS.iter().map(|set| STANDARD.decode(set).unwrap()).collect()
    }

    /// Frame `number`: one slice, after the parameter sets if it is a key frame.
    pub(crate) fn frame(number: u8, key: bool) -> Vec<u8> {
        let start = [0, 0, 0, 1];
        let mut frame = Vec::new();
        for set in sets().iter().filter(|_| key) {
            frame.extend([&start[..], set].concat());
        }
        frame.extend([&start[..], &[9, 0xf0], &start, &slice(number, key)].concat());
        frame
    }

    fn slice(number: u8, key: bool) -> Vec<u8> {
        vec![if key { 0x65 } else { 0x41 }, 0x88, number, 1]
    }

    /// The presentation order of coded frames: I P B B P B B …
    const SHOWN: [u64; 10] = [0, 3, 1, 2, 6, 4, 5, 9, 7, 8];

    fn aac() -> AudioConfig {
        AudioConfig::Aac {
            config: vec![0x12, 0x10],
            sample_rate: 44_100.try_into().unwrap(),
            channels: 2,
        }
    }

    /// Returns a segment of 40 frames each 40 ms, with a frame of audio each 23 ms from 10 ms on.
    fn segment() -> (Segment, Vec<usize>) {
        let config = aac();
        let mut segment = Segment::begin(&frame(0, true), START_NS, Some(&config)).unwrap();
        let mut sizes = vec![segment.output.len()];
        for number in 1..40u64 {
            let shown = number / 10 * 10 + SHOWN[usize::try_from(number % 10).unwrap()];
            let key = number.is_multiple_of(10);
            let frame = frame(u8::try_from(number).unwrap(), key);
            assert!(segment.video(&frame, START_NS + shown * 40 * MS, key).unwrap());
            sizes.push(segment.output.len());
        }
        for number in 0..60u64 {
            let data = [u8::try_from(number).unwrap(); 9];
            let at_ns = START_NS + 10 * MS + number * 1_024 * 1_000_000_000 / 44_100;
            assert!(segment.audio(&data, at_ns).unwrap());
        }
        segment.finish().unwrap();
        (segment, sizes)
    }

    #[test]
    fn a_reader_finds_every_frame_at_its_time() {
        let (mut segment, sizes) = segment();
        // The declaration of the tracks, then a fragment when a second is complete.
        assert!(sizes[0] > 0 && sizes[..27].iter().all(|size| *size == sizes[0]), "{sizes:?}");
        assert!(sizes[27] > sizes[0]);
        let file = segment.take_output();
        let mut file = FragmentedMp4::open(Cursor::new(file)).unwrap().unwrap();
        let h264 = H264Format { length_bytes: 4, sets: sets() };
        assert_eq!(file.formats().h264, Some(h264));
        let (mut video, mut audio, mut fragments) = (Vec::new(), Vec::new(), 0);
        while let Some(fragment) = file.next_fragment().unwrap() {
            fragments += 1;
            for sample in fragment.samples {
                let bytes = fragment.bytes[sample.range.clone()].to_vec();
                match sample.track {
                    FragmentTrack::Video => video.push((sample.clone(), bytes)),
                    FragmentTrack::Audio => audio.push((sample.clone(), bytes)),
                }
            }
        }
        assert_eq!((fragments, video.len(), audio.len()), (2, 40, 60));
        for (number, (sample, bytes)) in (0u64..).zip(&video) {
            let shown = number / 10 * 10 + SHOWN[usize::try_from(number % 10).unwrap()];
            assert_eq!(sample.decode_ns, number * 40 * MS, "{number}");
            assert_eq!(sample.present_ns, shown * 40 * MS, "{number}");
            assert_eq!((sample.key, sample.duration), (number.is_multiple_of(10), 3_600));
            let slice = slice(u8::try_from(number).unwrap(), sample.key);
            assert_eq!(bytes[..], [&[0, 0, 0, 4][..], &slice].concat());
        }
        for (number, (sample, bytes)) in (0u64..).zip(&audio) {
            let ticks = 441 + number * 1_024;
            assert_eq!(sample.decode_ns, ticks * 1_000_000_000 / 44_100, "{number}");
            assert_eq!((sample.duration, bytes.len()), (1_024, 9));
            assert_eq!(u64::from(bytes[0]), number);
        }
    }

    #[test]
    fn fragments_end_at_their_length_and_before_key_frames_that_begin_groups() {
        let rule = FragmentRule { ticks: 18_000, group_ticks: Some(60_000) };
        let mut segment = Segment::begin(&frame(0, true), START_NS, None).unwrap().with_rule(rule);
        let tracks = segment.take_output();
        assert_eq!(&tracks[4..8], b"ftyp");
        let mut found = Vec::new();
        // A key frame each 12 frames of 40 ms: the second one is 0.96 s after the first.
        for number in 1..40u64 {
            let key = number.is_multiple_of(12);
            let frame = frame(u8::try_from(number).unwrap(), key);
            segment.video(&frame, START_NS + number * 40 * MS, key).unwrap();
            found.append(&mut segment.take_fragments());
        }
        segment.finish().unwrap();
        found.append(&mut segment.take_fragments());
        assert!(found.iter().all(|fragment| &fragment.bytes[4..8] == b"moof"));
        let frames = |of: &Fragment| of.ticks / 3_600;
        let found: Vec<_> = found.iter().map(|of| (frames(of), of.key, of.begins_group)).collect();
        let plain = |length| (length, false, false);
        let group = [(5, true, true), plain(5), plain(5), plain(5), plain(4)];
        let rest = [(5, true, true), plain(5), plain(5), plain(1)];
        assert_eq!(found, [&group[..], &rest].concat());
    }

    #[test]
    fn every_part_of_a_file_ends_with_its_last_whole_fragment() {
        let (mut segment, sizes) = segment();
        let file = segment.take_output();
        for length in (sizes[0]..file.len()).step_by(7) {
            let part = Cursor::new(&file[..length]);
            let mut part = FragmentedMp4::open(part).unwrap().unwrap();
            let mut frames = 0;
            while let Some(fragment) = part.next_fragment().unwrap() {
                frames += fragment.samples.len();
            }
            assert_eq!(frames, if length < sizes[27] { 0 } else { 25 }, "{length}");
        }
    }

    #[test]
    fn key_frames_need_parameter_sets_and_changed_sets_end_a_segment() {
        let bare = [&[0, 0, 1][..], &slice(0, true)].concat();
        let error = Segment::begin(&bare, START_NS, None).unwrap_err().to_string();
        assert!(error.contains("parameter sets"), "{error}");
        let broken = [&[0, 0, 1, 0x67][..], &bare, &[0, 0, 1, 0x68, 1]].concat();
        assert!(Segment::begin(&broken, START_NS, None).is_err());
        let segment = Segment::begin(&frame(0, true), START_NS, None).unwrap();
        assert!(!segment.is_other_format(&frame(9, true)));
        assert!(segment.is_other_format(&[&frame(9, true)[..], &[0, 0, 1, 0x68, 1]].concat()));
    }

    #[test]
    fn a_frame_has_at_most_the_parameter_sets_of_a_file() {
        let sets = |kind: u8, number: u8| -> Vec<u8> {
            (0..number).flat_map(|n| [0, 0, 1, kind, n + 1, 1]).collect()
        };
        let frame = [sets(0x67, 31), sets(0x67, 31), sets(0x68, 255)].concat();
        let found = ParameterSets::of(&frame).unwrap();
        assert_eq!((found.sequence.len(), found.picture.len()), (31, 255));
        assert!(found.has(&[0x68, 255, 1]) && !found.has(&[0x68, 255, 2]));
        assert!(ParameterSets::of(&sets(0x67, 32)).is_err());
        assert!(ParameterSets::of(&[&frame[..], &[0, 0, 1, 0x68, 1]].concat()).is_err());
    }

    #[test]
    fn sound_without_video_ends_fragments() {
        let config = AudioConfig::Opus { stereo: false };
        let mut segment = Segment::begin(&frame(0, true), START_NS, Some(&config)).unwrap();
        let mut sizes = vec![segment.output.len()];
        for number in 0..1_000u64 {
            assert!(segment.audio(&[1, 2, 3], START_NS + number * 20 * MS).unwrap());
            sizes.push(segment.output.len());
        }
        // Two seconds of sound are a fragment.
        assert!(sizes[100] == sizes[0] && sizes[101] > sizes[0], "{sizes:?}");
        // Sound that claims to last no time.
        for number in 0..10_000u64 {
            assert!(segment.audio(&[], START_NS + 20_000 * MS + number).unwrap());
        }
        segment.finish().unwrap();
        let file = Cursor::new(segment.take_output());
        let mut file = FragmentedMp4::open(file).unwrap().unwrap();
        let (mut fragments, mut samples) = (0, Vec::new());
        while let Some(fragment) = file.next_fragment().unwrap() {
            fragments += 1;
            samples.extend(fragment.samples.iter().map(|one| (one.track, one.decode_ns)));
        }
        assert_eq!((fragments, samples.len()), (13, 11_001));
        let sound = samples.iter().filter(|(track, _)| *track == FragmentTrack::Audio);
        for (number, (_, decode_ns)) in (0u64..1_000).zip(sound) {
            assert_eq!(*decode_ns, number * 20 * MS);
        }
    }

    #[test]
    fn frames_that_depend_on_the_segment_before_are_left_out() {
        let mut segment = Segment::begin(&frame(0, true), START_NS, Some(&aac())).unwrap();
        assert!(!segment.video(&frame(1, false), START_NS - 1, false).unwrap());
        assert!(!segment.audio(&[1], START_NS - 1).unwrap());
    }

    #[test]
    fn a_packet_of_aac_may_hold_several_frames() {
        let config = aac();
        let packet = [0, 32, 0, 16, 0, 24, 1, 2, 3, 4, 5];
        assert_eq!(config.frames(&packet), [(&[1, 2][..], 0), (&[3, 4, 5], 23_219_954)]);
        for damaged in [&[][..], &[0, 16, 0], &[0, 16, 0, 24, 1]] {
            assert!(config.frames(damaged).is_empty(), "{damaged:?}");
        }
        let opus = AudioConfig::Opus { stereo: true };
        assert_eq!(opus.frames(&[7, 8]), [(&[7, 8][..], 0)]);
    }
}
