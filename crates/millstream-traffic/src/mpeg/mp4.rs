//! MP4 (ISO 14496-12, 14496-15): the samples of the first track in a supported codec are its
//! frames.
//!
//! `mp4parse` reads the sample tables. This module expands them itself, since their entries are
//! untrusted. A sample must lie inside the file and all samples together must not exceed it, which
//! also bounds the memory use. A sync sample is an I frame; for other samples the slice header
//! gives the type. The samples of a fragmented file are those of [`FragmentedMp4`].

use h264_reader::avcc::AvcDecoderConfigurationRecord;
use mp4parse::{CodecType, SampleEntry, Track, VideoCodecSpecific};
use std::io::{BufRead, Read, Seek, SeekFrom};

use super::codec::{Codec, MAX_FRAME_BYTES, h264_slice};
use super::file::{DEFAULT_RATE, EXPECTED, KeptStream, io_error, oversized};
use super::fragmented::{FragmentTrack, FragmentedMp4, H264Format};
use super::whole_frames::WholeFrames;
use super::{Frame, FrameKind, FrameRate, VideoFile, h265, mp4_boxes, obus};
use crate::arrival::TrafficError;

/// How the samples of a track are coded.
enum Coding {
    /// H.264 or H.265: NAL units, each after its length.
    Nal {
        codec: Codec,
        /// The size of a length, bytes.
        length_bytes: usize,
        /// The parameter sets in the track's configuration. Damaged sets are left out, since the
        /// stream may carry its own.
        parameter_sets: Vec<Vec<u8>>,
    },
    /// AV1, VP8 or VP9: frames.
    Whole {
        codec: Codec,
        /// The OBUs in the configuration of AV1.
        header: Vec<u8>,
    },
}

/// Reads codec and frames of the first track of `input` in a supported codec; H.264 goes first,
/// then H.265.
pub(super) fn read(
    mut input: impl BufRead + Seek,
    kept: &mut Option<KeptStream>,
) -> Result<(Codec, VideoFile), TrafficError> {
    if let Some(fragments) = FragmentedMp4::open(&mut input)? {
        return Ok((Codec::H264, read_fragments(fragments, kept)?));
    }
    input.rewind().map_err(io_error)?;
    let damaged = |error: mp4parse::Error| {
        TrafficError::new(format!("damaged MP4: {error:?}")).help(EXPECTED)
    };
    let media = mp4parse::read_mp4(&mut input).map_err(damaged)?;
    let file_bytes = input.seek(SeekFrom::End(0)).map_err(io_error)?;
    let tracks = &media.tracks;
    let found = tracks.iter().find_map(|track| Some((track, h264_coding(track)?)));
    let (track, coding) = found
        .or_else(|| {
            let configurations = mp4_boxes::h265_configurations(&mut input);
            let mut tracks = tracks.iter().zip(configurations);
            tracks.find_map(|(track, found)| Some((track, h265_coding(&found?)?)))
        })
        .or_else(|| tracks.iter().find_map(|track| Some((track, whole_coding(track)?))))
        .ok_or_else(|| {
            TrafficError::new("the MP4 has no H.264, H.265, AV1, VP8 or VP9 track").help(EXPECTED)
        })?;
    let samples = samples(track, file_bytes)?;
    match coding {
        Coding::Nal { codec, length_bytes, parameter_sets } => {
            let sets = (length_bytes, &parameter_sets[..]);
            let frames = read_nal_units(input, kept, (track, &samples), codec, sets)?;
            Ok((codec, VideoFile { frames, rate: rate(track).unwrap_or(DEFAULT_RATE) }))
        }
        Coding::Whole { codec, header } => {
            let mut frames = WholeFrames::new(codec, kept);
            let mut sample = Vec::new();
            for (number, (offset, bytes)) in samples.into_iter().enumerate() {
                read_sample(&mut input, offset, bytes, &mut sample)?;
                let has_header = obus(&sample).any(|obu| obu.is_sequence_header());
                if number == 0 && codec == Codec::Av1 && !has_header {
                    sample.splice(..0, header.iter().copied());
                }
                if !frames.push(&sample)? {
                    break;
                }
            }
            Ok((codec, frames.finish(rate(track))))
        }
    }
}

/// Reads a sample; it is shorter if the file is truncated.
fn read_sample(
    input: &mut (impl Read + Seek),
    offset: u64,
    bytes: u32,
    sample: &mut Vec<u8>,
) -> Result<(), TrafficError> {
    input.seek(SeekFrom::Start(offset)).map_err(io_error)?;
    sample.clear();
    input.take(bytes.into()).read_to_end(sample).map_err(io_error)?;
    Ok(())
}

/// Reads samples of NAL units, each after a length of `length_bytes`.
fn read_nal_units(
    mut input: impl BufRead + Seek,
    kept: &mut Option<KeptStream>,
    (track, samples): (&Track, &[(u64, u32)]),
    codec: Codec,
    (length_bytes, parameter_sets): (usize, &[Vec<u8>]),
) -> Result<Vec<Frame>, TrafficError> {
    let sync = track.stss.as_ref().map(|stss| {
        let mut numbers: Vec<u32> = stss.samples.iter().copied().collect();
        numbers.sort_unstable();
        numbers
    });
    let mut frames = Vec::with_capacity(samples.len());
    let mut sample = Vec::new();
    let mut stream = Vec::new();
    let mut sets = h265::Sets::default();
    for set in parameter_sets {
        stream.extend_from_slice(START_CODE);
        stream.extend_from_slice(set);
        sets.unit(set);
    }
    for (number, (offset, bytes)) in (1u32..).zip(samples.iter().copied()) {
        // Without a table of sync samples, all samples are sync samples.
        let is_sync = sync.as_ref().is_none_or(|sync| sync.binary_search(&number).is_ok());
        // The parameter sets of H.265 may be in any sample.
        if kept.is_some() || !is_sync || codec == Codec::H265 {
            read_sample(&mut input, offset, bytes, &mut sample)?;
        }
        let kind = match codec {
            Codec::H265 => h265_kind(&sample, length_bytes, &mut sets),
            _ if is_sync => FrameKind::I,
            _ => h264_kind(&sample, length_bytes),
        };
        let Some(kept) = kept else {
            frames.push(Frame { kind, bytes });
            continue;
        };
        append_byte_stream(&sample, length_bytes, &mut stream);
        if kept.is_full() {
            break;
        }
        kept.push(&stream);
        // Fits: a sample of at most `MAX_FRAME_BYTES` bytes, with a start code for each length.
        let bytes = u32::try_from(stream.len()).unwrap_or(u32::MAX);
        frames.push(Frame { kind, bytes });
        stream.clear();
    }
    Ok(frames)
}

/// Reads the frames of a fragmented file.
fn read_fragments<R: Read + Seek>(
    mut file: FragmentedMp4<R>,
    kept: &mut Option<KeptStream>,
) -> Result<VideoFile, TrafficError> {
    let Some(H264Format { length_bytes, sets }) = file.formats().h264.clone() else {
        return Err(TrafficError::new("the MP4 has no H.264 track").help(EXPECTED));
    };
    let timescale = file.timescale(FragmentTrack::Video).unwrap_or(1);
    let mut frames = Vec::new();
    let mut ticks = 0u128;
    let sets = sets.iter().flat_map(|set| [START_CODE, set].concat());
    let mut stream: Vec<u8> = if kept.is_some() { sets.collect() } else { Vec::new() };
    while let Some(fragment) = file.next_fragment()? {
        let video = fragment.samples.iter().filter(|one| one.track == FragmentTrack::Video);
        for one in video {
            ticks += u128::from(one.duration);
            let sample = &fragment.bytes[one.range.clone()];
            let kind = if one.key { FrameKind::I } else { h264_kind(sample, length_bytes) };
            let Some(kept) = kept else {
                let bytes = u32::try_from(sample.len()).unwrap_or(u32::MAX);
                frames.push(Frame { kind, bytes });
                continue;
            };
            append_byte_stream(sample, length_bytes, &mut stream);
            if kept.is_full() {
                break;
            }
            kept.push(&stream);
            let bytes = u32::try_from(stream.len()).unwrap_or(u32::MAX);
            frames.push(Frame { kind, bytes });
            stream.clear();
        }
    }
    let rate = fraction(u128::from(timescale) * frames.len() as u128, ticks);
    Ok(VideoFile { frames, rate: rate.unwrap_or(DEFAULT_RATE) })
}

/// The start code before each NAL unit of a byte stream (14496-10, annex B).
const START_CODE: &[u8] = &[0, 0, 0, 1];

/// Returns the coding of an H.264 track; `None` for other tracks.
fn h264_coding(track: &Track) -> Option<Coding> {
    let record = configuration(track)?;
    // The low two bits of the record's fifth byte hold the size minus one.
    let length_bytes = usize::from(record.get(4)? & 3) + 1;
    let parameter_sets = AvcDecoderConfigurationRecord::try_from(record).map_or_else(
        |_| Vec::new(),
        |record| {
            let sets = record.sequence_parameter_sets().chain(record.picture_parameter_sets());
            sets.flatten().map(<[u8]>::to_vec).collect()
        },
    );
    Some(Coding::Nal { codec: Codec::H264, length_bytes, parameter_sets })
}

/// Returns the coding of an H.265 track with this configuration.
fn h265_coding(configuration: &[u8]) -> Option<Coding> {
    let length_bytes = mp4_boxes::nal_length_bytes(configuration)?;
    let sets = mp4_boxes::parameter_sets(configuration).into_iter();
    let parameter_sets = sets.filter(|set| !set.is_empty()).map(<[u8]>::to_vec).collect();
    Some(Coding::Nal { codec: Codec::H265, length_bytes, parameter_sets })
}

/// Returns the coding of an AV1, VP8 or VP9 track; `None` for other tracks.
fn whole_coding(track: &Track) -> Option<Coding> {
    track.stsd.as_ref()?.descriptions.iter().find_map(|entry| {
        let SampleEntry::Video(video) = entry else { return None };
        match (&video.codec_specific, video.codec_type) {
            // The OBUs follow four bytes of other fields.
            (VideoCodecSpecific::AV1Config(config), _) => {
                let header = config.raw_config.get(4..).unwrap_or_default().to_vec();
                Some(Coding::Whole { codec: Codec::Av1, header })
            }
            (VideoCodecSpecific::VPxConfig(_), CodecType::VP8) => {
                Some(Coding::Whole { codec: Codec::Vp8, header: Vec::new() })
            }
            (VideoCodecSpecific::VPxConfig(_), CodecType::VP9) => {
                Some(Coding::Whole { codec: Codec::Vp9, header: Vec::new() })
            }
            _ => None,
        }
    })
}

/// Returns the decoder configuration record of an H.264 track.
fn configuration(track: &Track) -> Option<&[u8]> {
    track.stsd.as_ref()?.descriptions.iter().find_map(|entry| match entry {
        SampleEntry::Video(video) => match &video.codec_specific {
            VideoCodecSpecific::AVCConfig(record) => Some(record.as_slice()),
            _ => None,
        },
        _ => None,
    })
}

/// Returns the NAL units of a sample of an MP4; each follows its length in `length_bytes` bytes.
fn nal_units(mut sample: &[u8], length_bytes: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = sample.split_at_checked(length_bytes)?;
        let length = length.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
        let (nal, rest) = rest.split_at(length.min(rest.len()));
        sample = rest;
        Some(nal)
    })
}

/// Appends the NAL units of a sample to a byte stream, each with a start code instead of its length
/// in `length_bytes` bytes.
///
/// ```
/// use millstream_traffic::mpeg::append_byte_stream;
/// let mut stream = Vec::new();
/// append_byte_stream(&[0, 1, 9, 0, 0, 0, 2, 0x65, 7], 2, &mut stream);
/// assert_eq!(stream, [0, 0, 0, 1, 9, 0, 0, 0, 1, 0x65, 7]);
/// ```
pub fn append_byte_stream(sample: &[u8], length_bytes: usize, stream: &mut Vec<u8>) {
    for nal in nal_units(sample, length_bytes).filter(|nal| !nal.is_empty()) {
        stream.extend_from_slice(START_CODE);
        stream.extend_from_slice(nal);
    }
}

/// Returns offset and size of each sample, bytes.
fn samples(track: &Track, file_bytes: u64) -> Result<Vec<(u64, u32)>, TrafficError> {
    let (Some(chunks), Some(runs), Some(sizes)) = (&track.stco, &track.stsc, &track.stsz) else {
        return Err(TrafficError::new("damaged MP4: a sample table is missing").help(EXPECTED));
    };
    let mut samples = Vec::new();
    let mut total = 0u64;
    let mut listed = sizes.sample_sizes.iter();
    let mut runs = runs.samples.iter().peekable();
    let mut in_chunk = 0;
    for (chunk, offset) in (1u32..).zip(chunks.offsets.iter()) {
        while let Some(run) = runs.next_if(|run| run.first_chunk <= chunk) {
            in_chunk = run.samples_per_chunk;
        }
        let mut begin = *offset;
        for _ in 0..in_chunk {
            let bytes = match sizes.sample_size {
                0 => match listed.next() {
                    Some(bytes) => *bytes,
                    None => return Ok(samples),
                },
                bytes => bytes,
            };
            let number = samples.len();
            if u64::from(bytes) > MAX_FRAME_BYTES {
                return Err(oversized(number, bytes.into()));
            }
            total += u64::from(bytes);
            let end = begin.checked_add(bytes.into()).filter(|end| *end <= file_bytes);
            let Some(end) = end.filter(|_| total <= file_bytes) else {
                return Err(TrafficError::new("the sample lies beyond the end of the file")
                    .place(format!("frame {number}"))
                    .help("the file is truncated or damaged"));
            };
            samples.push((begin, bytes));
            begin = end;
        }
    }
    Ok(samples)
}

/// Returns the type of an H.265 sample, which is that of its first slice.
fn h265_kind(sample: &[u8], length_bytes: usize, sets: &mut h265::Sets) -> FrameKind {
    let mut found = None;
    for nal in nal_units(sample, length_bytes) {
        if let h265::Unit::First(slice) = sets.unit(nal) {
            found.get_or_insert(slice.kind());
        }
    }
    found.unwrap_or(FrameKind::P)
}

/// Returns the type of an H.264 sample, which is that of its first slice.
fn h264_kind(sample: &[u8], length_bytes: usize) -> FrameKind {
    nal_units(sample, length_bytes)
        .filter(|nal| nal.first().is_some_and(|header| matches!(header & 31, 1 | 5)))
        .find_map(|nal| h264_slice(nal).map(|(_, kind)| kind))
        .unwrap_or(FrameKind::P)
}

/// Returns the average number of samples per second.
fn rate(track: &Track) -> Option<FrameRate> {
    let timescale = u128::from(track.timescale.as_ref()?.0);
    let (mut count, mut ticks) = (0u128, 0u128);
    for run in track.stts.as_ref()?.samples.iter() {
        count += u128::from(run.sample_count);
        ticks += u128::from(run.sample_count) * u128::from(run.sample_delta);
    }
    fraction(timescale.checked_mul(count)?, ticks)
}

/// Returns `frames` / `seconds` in lowest terms, rounded to 32-bit parts if necessary.
pub(super) fn fraction(mut frames: u128, mut seconds: u128) -> Option<FrameRate> {
    let (mut a, mut b) = (frames, seconds);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    frames = frames.checked_div(a)?;
    seconds = seconds.checked_div(a)?;
    let excess = (128 - (frames | seconds).leading_zeros()).saturating_sub(32);
    let part = |value: u128| u32::try_from(value >> excess).ok().filter(|part| *part > 0);
    Some(FrameRate { frames: part(frames)?, seconds: part(seconds)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn boxed(name: &[u8; 4], contents: &[&[u8]]) -> Vec<u8> {
        let contents = contents.concat();
        let length = u32::try_from(contents.len() + 8).unwrap();
        [&length.to_be_bytes(), &name[..], &contents].concat()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Returns an MP4 with one H.264 track at 30000/1001 frames/s.
    ///
    /// `sizes` is the content of its sample table and `data` holds its samples. The single chunk
    /// has `in_chunk` samples and starts at `offset`; only the first sample is a sync sample.
    fn mp4(sizes: &[u32], data: &[u8], in_chunk: u32, offset: u32) -> Vec<u8> {
        let count = sizes.last().map_or(0, |_| u32::try_from(sizes.len() - 2).unwrap());
        let avcc = boxed(b"avcC", &[&[1, 100, 0, 13, 0xff, 0xe0, 0]]);
        let avc1 = boxed(
            b"avc1",
            &[&[0, 0, 0, 0, 0, 0, 0, 1], &[0; 16], &[1, 64, 0, 240], &[0; 50], &avcc],
        );
        let stbl = boxed(
            b"stbl",
            &[
                &boxed(b"stsd", &[&words(&[0, 1]), &avc1]),
                &boxed(b"stts", &[&words(&[0, 1, count, 1001])]),
                &boxed(b"stss", &[&words(&[0, 1, 1])]),
                &boxed(b"stsc", &[&words(&[0, 1, 1, in_chunk, 1])]),
                &boxed(b"stsz", &[&words(&[0]), &words(sizes)]),
                &boxed(b"stco", &[&words(&[0, 1, offset])]),
            ],
        );
        let hdlr = boxed(b"hdlr", &[&words(&[0, 0]), b"vide", &[0; 13]]);
        let mdhd = boxed(b"mdhd", &[&words(&[0, 0, 0, 30_000, 1001 * count, 0])]);
        let minf = boxed(b"minf", &[&stbl]);
        let tkhd = boxed(b"tkhd", &[&words(&[3, 0, 0, 1]), &[0; 68]]);
        let trak = boxed(b"trak", &[&tkhd, &boxed(b"mdia", &[&mdhd, &hdlr, &minf])]);
        let mvhd = boxed(b"mvhd", &[&words(&[0, 0, 0, 1000, 0]), &[0; 80]]);
        let ftyp = boxed(b"ftyp", &[b"isom", &words(&[0]), b"isom"]);
        [ftyp, boxed(b"mdat", &[data]), boxed(b"moov", &[&mvhd, &trak])].concat()
    }

    /// An IDR slice, then an access-unit delimiter and a B slice, then a P slice.
    const DATA: [u8; 21] = [0, 0, 0, 2, 0x65, 0x88, 0, 0, 0, 1, 9, 0, 0, 0, 2, 1, 0x9c, 0, 0, 0, 1];
    const SIZES: [u32; 5] = [0, 3, 6, 11, 4];
    /// Offset of the contents of the `mdat` box.
    const OFFSET: u32 = 28;

    #[test]
    fn samples_are_frames_with_the_types_of_their_slices() {
        let file = mp4(&SIZES, &DATA, 3, OFFSET);
        let video = read(Cursor::new(file), &mut None).unwrap().1;
        let expected = [(FrameKind::I, 6), (FrameKind::B, 11), (FrameKind::P, 4)];
        assert_eq!(video.frames, expected.map(|(kind, bytes)| Frame { kind, bytes }));
        assert_eq!(video.rate, FrameRate { frames: 30_000, seconds: 1001 });
    }

    #[test]
    fn kept_samples_are_a_byte_stream() {
        let file = mp4(&SIZES, &DATA, 3, OFFSET);
        let (_, video, bytes) = super::super::file::read_kept(Cursor::new(file), 100).unwrap();
        assert_eq!(bytes[..6], [0, 0, 0, 1, 0x65, 0x88]);
        assert_eq!(bytes[6..], [0, 0, 0, 1, 9, 0, 0, 0, 1, 1, 0x9c]);
        let sizes: Vec<_> = video.frames.iter().map(|frame| frame.bytes).collect();
        assert_eq!(sizes, [6, 11, 0], "the third sample is truncated");
    }

    #[test]
    fn inconsistent_tables_are_errors() {
        let error = |file| read(Cursor::new(file), &mut None).unwrap_err().to_string();
        assert!(error(mp4(&SIZES, &DATA, 3, 1 << 20)).contains("frame 0: the sample lies beyond"));
        assert!(error(mp4(&[0, 1, 17 << 20], &DATA, 1, 0)).contains("17825792 bytes"));
        // About four billion samples of one byte.
        let many = mp4(&[1, u32::MAX], &DATA, u32::MAX, 0);
        assert!(error(many).contains("lies beyond the end of the file"));
        let whole = mp4(&SIZES, &DATA, 3, OFFSET);
        for length in 16..whole.len() {
            // Never a panic; every truncated file is an error, since the last box is incomplete.
            assert!(read(Cursor::new(&whole[..length]), &mut None).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn rates_are_in_lowest_terms_and_fit_into_32_bits() {
        let rate = |frames, seconds| Some(FrameRate { frames, seconds });
        assert_eq!(fraction(180 * 30_000, 180 * 1001), rate(30_000, 1001));
        assert_eq!(fraction(1 << 40, (1 << 35) + 1), rate(1 << 31, 1 << 26));
        assert_eq!(fraction(25, 0), None);
        assert_eq!(fraction(0, 0), None);
        assert_eq!(fraction(1, 1 << 100), None);
    }

    proptest::proptest! {
        #[test]
        fn changed_bytes_never_cause_a_panic(
            changes in proptest::collection::vec((16usize..600, 0u8..=255), 1..4),
        ) {
            let mut file = mp4(&SIZES, &DATA, 3, OFFSET);
            for (at, byte) in changes {
                if let Some(changed) = file.get_mut(at) {
                    *changed = byte;
                }
            }
            let _ = read(Cursor::new(file), &mut None);
        }
    }
}
