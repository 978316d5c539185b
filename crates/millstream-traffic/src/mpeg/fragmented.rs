//! Fragmented MP4 (ISO 14496-12, 8.8), as recordings are: `moov`, then pairs of `moof` and `mdat`.
//!
//! `shiguredo_mp4` parses the boxes. This module bounds their sizes before it does, since a few
//! bytes of a damaged `trun` could claim millions of samples. A file that ends inside a fragment
//! ends with the fragment before it: the writer was killed, or still writes.

use shiguredo_mp4::boxes::{HdlrBox, MoovBox, SampleEntry};
use shiguredo_mp4::demux::{Fmp4SegmentDemuxer, Sample};
use shiguredo_mp4::{Decode, TrackKind};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::codec::MAX_FRAME_BYTES;
use crate::arrival::TrafficError;

/// The largest `ftyp` and `moov`, bytes: without sample tables they are short.
const MAX_INIT_BYTES: u64 = 1 << 20;

/// The largest `moof`, bytes.
const MAX_MOOF_BYTES: u64 = 1 << 20;

/// The largest fragment, bytes.
const MAX_FRAGMENT_BYTES: u64 = 64 << 20;

/// The longest header of a box, bytes.
const MAX_BOX_HEADER: u64 = 16;

/// The most samples of a fragment.
const MAX_SAMPLES: u64 = 1 << 16;

/// The most boxes that are skipped before a fragment.
const MAX_SKIPPED: u32 = 10_000;

/// The track of a [`FragmentSample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentTrack {
    /// The first track of video.
    Video,
    /// The first track of audio.
    Audio,
}

/// A coded frame of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentSample {
    /// The track.
    pub track: FragmentTrack,
    /// When it is decoded, ns from the start of the file.
    pub decode_ns: u64,
    /// When it is presented, ns from the start of the file.
    pub present_ns: u64,
    /// The time until the next frame of its track is decoded, ns.
    pub duration_ns: u64,
    /// The same time in the unit of [`FragmentedMp4::timescale`].
    pub duration: u32,
    /// Whether decoding can begin with it.
    pub key: bool,
    /// The range of its bytes in the fragment.
    pub range: Range<usize>,
}

/// A fragment: its samples, in the order in which the file lists them, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// The samples.
    pub samples: &'a [FragmentSample],
    /// The bytes that the samples' ranges refer to.
    pub bytes: &'a [u8],
}

/// The formats of a file's tracks, as their sample entries describe them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FragmentFormats {
    /// H.264 video.
    pub h264: Option<H264Format>,
    /// Audio.
    pub audio: Option<AudioFormat>,
}

/// The format of H.264 video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct H264Format {
    /// The size of the length before each NAL unit, bytes.
    pub length_bytes: usize,
    /// The parameter sets: those of sequences, then those of pictures.
    pub sets: Vec<Vec<u8>>,
}

/// The format of audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AudioFormat {
    /// AAC with its `AudioSpecificConfig` (ISO 14496-3, 1.6.2.1).
    Aac {
        /// The configuration.
        config: Vec<u8>,
        /// Samples per second.
        sample_rate: u32,
        /// Number of channels.
        channels: u16,
    },
    /// Opus.
    Opus {
        /// Number of channels.
        channels: u16,
    },
}

/// A reader of a fragmented MP4.
#[derive(Debug)]
pub struct FragmentedMp4<R> {
    input: R,
    demuxer: Fmp4SegmentDemuxer,
    formats: FragmentFormats,
    /// The ids and time scales of the first video and the first audio track.
    tracks: [Option<(u32, u64)>; 2],
    /// The offset of the first box after `moov`, and of the next box.
    first: u64,
    next: u64,
    bytes: Vec<u8>,
    samples: Vec<FragmentSample>,
}

/// A box's type and size, header included.
struct BoxAt {
    kind: [u8; 4],
    size: u64,
}

impl<R: Read + Seek> FragmentedMp4<R> {
    /// Reads the start of `input`. Returns `None` if it is an MP4 without fragments.
    ///
    /// # Errors
    /// Fails if it cannot be read or is damaged.
    pub fn open(mut input: R) -> Result<Option<Self>, TrafficError> {
        let mut at = 0;
        let found = loop {
            let Some(found) = box_at(&mut input, at)? else { return Ok(None) };
            match &found.kind {
                b"moov" => break found,
                b"mdat" | b"moof" => return Ok(None),
                _ => at += found.size,
            }
        };
        if found.size > MAX_INIT_BYTES {
            return Ok(None);
        }
        let mut moov = Vec::new();
        if !read(&mut input, at, found.size, &mut moov)? {
            return Ok(None);
        }
        // Files without fragments are not decoded here: another library reads them, and tolerates
        // more.
        let mut extends = children(&moov, *b"moov").flat_map(|moov| children(moov, *b"mvex"));
        if extends.next().is_none() {
            return Ok(None);
        }
        let (parsed, _) = MoovBox::decode(&moov).map_err(|error| damaged(at, &error))?;
        let mut demuxer = Fmp4SegmentDemuxer::new();
        demuxer.handle_init_segment(&moov).map_err(|error| damaged(at, &error))?;
        let (formats, tracks) = formats(&parsed);
        let first = at + found.size;
        let (bytes, samples) = (Vec::new(), Vec::new());
        Ok(Some(Self { input, demuxer, formats, tracks, first, next: first, bytes, samples }))
    }

    /// Returns the formats of the tracks.
    pub fn formats(&self) -> &FragmentFormats {
        &self.formats
    }

    /// Returns the unit of times of a track, 1/s; `None` without such a track.
    pub fn timescale(&self, track: FragmentTrack) -> Option<u64> {
        let which = match track {
            FragmentTrack::Video => 0,
            FragmentTrack::Audio => 1,
        };
        self.tracks[which].map(|(_, timescale)| timescale)
    }

    /// Returns the position of the next fragment, for [`set_position`](Self::set_position).
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Continues at a position that [`position`](Self::position) returned.
    pub fn set_position(&mut self, position: u64) {
        self.next = position.max(self.first);
    }

    /// Reads the next whole fragment; `None` at the end of the file.
    ///
    /// # Errors
    /// Fails if the fragment cannot be read or is damaged.
    pub fn next_fragment(&mut self) -> Result<Option<Fragment<'_>>, TrafficError> {
        let found = self.advance(true)?;
        Ok(found.then_some(Fragment { samples: &self.samples, bytes: &self.bytes }))
    }

    /// Reads the list of samples of the next whole fragment and skips their bytes; `None` at the
    /// end of the file.
    ///
    /// # Errors
    /// Fails if the fragment cannot be read or is damaged.
    pub fn next_samples(&mut self) -> Result<Option<&[FragmentSample]>, TrafficError> {
        let found = self.advance(false)?;
        Ok(found.then_some(&self.samples))
    }

    /// Lists the samples of the next whole fragment, and reads its bytes if `with_data`. Returns
    /// whether there is one.
    fn advance(&mut self, with_data: bool) -> Result<bool, TrafficError> {
        for _ in 0..MAX_SKIPPED {
            let at = self.next;
            let Some(found) = box_at(&mut self.input, at)? else { return Ok(false) };
            if &found.kind != b"moof" {
                self.next = at + found.size;
                continue;
            }
            if found.size > MAX_MOOF_BYTES {
                return Err(too_long(at, "moof", found.size, MAX_MOOF_BYTES));
            }
            let Some(data) = box_at(&mut self.input, at + found.size)? else { return Ok(false) };
            if &data.kind != b"mdat" {
                return Err(TrafficError::new("a `moof` without `mdat`").place(place(at)));
            }
            let size = found.size + data.size;
            if size > MAX_FRAGMENT_BYTES {
                return Err(too_long(at, "fragment", size, MAX_FRAGMENT_BYTES));
            }
            let read_bytes =
                if with_data { size } else { found.size + data.size.min(MAX_BOX_HEADER) };
            let is_whole = with_data || has_bytes(&mut self.input, at + size)?;
            if !is_whole || !read(&mut self.input, at, read_bytes, &mut self.bytes)? {
                return Ok(false);
            }
            // The demuxer checks that the samples are inside `mdat`.
            self.bytes.resize(usize::try_from(size).unwrap_or(usize::MAX), 0);
            self.next = at + size;
            let moof = usize::try_from(found.size).unwrap_or(usize::MAX);
            if samples_of(&self.bytes[..moof.min(self.bytes.len())]) > MAX_SAMPLES {
                let message = format!("a fragment of more than {MAX_SAMPLES} samples");
                return Err(TrafficError::new(message).place(place(at)));
            }
            let listed = self.demuxer.handle_media_segment(&self.bytes);
            let listed = listed.map_err(|error| damaged(at, &error))?;
            self.samples.clear();
            let tracks = self.tracks;
            self.samples.extend(listed.iter().filter_map(|sample| converted(sample, tracks)));
            let most = MAX_FRAME_BYTES;
            if let Some(long) = self.samples.iter().find(|one| one.range.len() as u64 > most) {
                return Err(too_long(at, "frame", long.range.len() as u64, most));
            }
            return Ok(true);
        }
        Err(TrafficError::new("too many boxes without a fragment").place(place(self.next)))
    }
}

fn place(at: u64) -> String {
    format!("byte {at}")
}

fn damaged(at: u64, error: &impl std::fmt::Display) -> TrafficError {
    TrafficError::new(format!("damaged MP4: {error}")).place(place(at))
}

fn too_long(at: u64, what: &str, bytes: u64, most: u64) -> TrafficError {
    let error = TrafficError::new(format!("damaged MP4: a {what} of {bytes} bytes"));
    error.place(place(at)).help(format!("at most {most} bytes are supported"))
}

/// Returns the box at this offset; `None` if the file ends inside its header.
fn box_at(input: &mut (impl Read + Seek), at: u64) -> Result<Option<BoxAt>, TrafficError> {
    let failed = |error: std::io::Error| TrafficError::new(error.to_string()).place(place(at));
    input.seek(SeekFrom::Start(at)).map_err(failed)?;
    let mut header = Vec::with_capacity(16);
    input.by_ref().take(16).read_to_end(&mut header).map_err(failed)?;
    let Some((size, rest)) = header.split_first_chunk::<4>() else { return Ok(None) };
    let Some((kind, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let (size, least) = match u32::from_be_bytes(*size) {
        1 => match rest.first_chunk::<8>() {
            Some(size) => (u64::from_be_bytes(*size), 16),
            None => return Ok(None),
        },
        size => (size.into(), 8),
    };
    // A size of 0 means the rest of the file, which no fragment has.
    if size < least || at.checked_add(size).is_none_or(|end| end > 1 << 56) {
        let message = format!("damaged MP4: a box of {size} bytes");
        return Err(TrafficError::new(message).place(place(at)));
    }
    Ok(Some(BoxAt { kind: *kind, size }))
}

/// Returns whether the file has at least `length` bytes.
fn has_bytes(input: &mut (impl Read + Seek), length: u64) -> Result<bool, TrafficError> {
    let failed = |error: std::io::Error| TrafficError::new(error.to_string());
    Ok(input.seek(SeekFrom::End(0)).map_err(failed)? >= length)
}

/// Reads `length` bytes at an offset. Returns whether the file has them.
fn read(
    input: &mut (impl Read + Seek),
    at: u64,
    length: u64,
    to: &mut Vec<u8>,
) -> Result<bool, TrafficError> {
    let failed = |error: std::io::Error| TrafficError::new(error.to_string()).place(place(at));
    to.clear();
    input.seek(SeekFrom::Start(at)).map_err(failed)?;
    input.by_ref().take(length).read_to_end(to).map_err(failed)?;
    Ok(to.len() as u64 == length)
}

/// Returns the number of samples that the `trun` boxes of a `moof` box claim.
fn samples_of(moof: &[u8]) -> u64 {
    let tracks = children(moof, *b"moof").flat_map(|moof| children(moof, *b"traf"));
    let runs = tracks.flat_map(|track| children(track, *b"trun"));
    runs.filter_map(|run| Some(u64::from(u32::from_be_bytes(*run.get(4..)?.first_chunk()?)))).sum()
}

/// Returns the contents of the boxes of one type.
fn children(mut boxes: &[u8], kind: [u8; 4]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let (size, rest) = boxes.split_first_chunk::<4>()?;
            let (found, rest) = rest.split_first_chunk::<4>()?;
            let (size, header, rest) = match u32::from_be_bytes(*size) {
                0 => (u64::MAX, 8, rest),
                1 => {
                    let (size, rest) = rest.split_first_chunk::<8>()?;
                    (u64::from_be_bytes(*size), 16, rest)
                }
                size => (size.into(), 8, rest),
            };
            let length = usize::try_from(size.checked_sub(header)?).unwrap_or(usize::MAX);
            let (content, after) = rest.split_at(length.min(rest.len()));
            boxes = after;
            if *found == kind {
                return Some(content);
            }
        }
    })
}

/// Returns the formats of the first video and the first audio track, with ids and time scales.
fn formats(moov: &MoovBox) -> (FragmentFormats, [Option<(u32, u64)>; 2]) {
    let mut formats = FragmentFormats::default();
    let mut tracks = [None; 2];
    for track in &moov.trak_boxes {
        let media = &track.mdia_box;
        let which = match media.hdlr_box.handler_type {
            HdlrBox::HANDLER_TYPE_VIDE => 0,
            HdlrBox::HANDLER_TYPE_SOUN => 1,
            _ => continue,
        };
        if tracks[which].is_some() {
            continue;
        }
        let timescale = u64::from(media.mdhd_box.timescale.get());
        tracks[which] = Some((track.tkhd_box.track_id, timescale));
        match media.minf_box.stbl_box.stsd_box.entries.first() {
            Some(SampleEntry::Avc1(entry)) => {
                let record = &entry.avcc_box;
                formats.h264 = Some(H264Format {
                    length_bytes: usize::from(record.length_size_minus_one.get()) + 1,
                    sets: record.sps_list.iter().chain(&record.pps_list).cloned().collect(),
                });
            }
            Some(SampleEntry::Mp4a(entry)) => {
                let config = &entry.esds_box.es.dec_config_descr.dec_specific_info;
                let config = config.as_ref().map(|info| info.payload.clone());
                formats.audio = Some(AudioFormat::Aac {
                    config: config.unwrap_or_default(),
                    sample_rate: media.mdhd_box.timescale.get(),
                    channels: entry.audio.channelcount,
                });
            }
            Some(SampleEntry::Opus(entry)) => {
                let channels = entry.audio.channelcount;
                formats.audio = Some(AudioFormat::Opus { channels });
            }
            _ => {}
        }
    }
    (formats, tracks)
}

/// Returns a sample with its times in ns; `None` if it is of another track.
fn converted(sample: &Sample<'_>, tracks: [Option<(u32, u64)>; 2]) -> Option<FragmentSample> {
    let of = |which: usize| tracks[which].filter(|(id, _)| *id == sample.track.track_id);
    let (track, (_, scale)) = match sample.track.kind {
        TrackKind::Video => (FragmentTrack::Video, of(0)?),
        TrackKind::Audio => (FragmentTrack::Audio, of(1)?),
        TrackKind::Subtitle => return None,
    };
    let ns = |ticks: u64| {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(scale);
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let present =
        sample.timestamp.saturating_add_signed(sample.composition_time_offset.unwrap_or(0));
    let start = usize::try_from(sample.data_offset).ok()?;
    Some(FragmentSample {
        track,
        decode_ns: ns(sample.timestamp),
        present_ns: ns(present),
        duration_ns: ns(sample.duration.into()),
        duration: sample.duration,
        key: sample.keyframe,
        range: start..start.checked_add(sample.data_size)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn boxed(kind: &[u8; 4], contents: &[u8]) -> Vec<u8> {
        let size = u32::try_from(8 + contents.len()).unwrap();
        [&size.to_be_bytes(), &kind[..], contents].concat()
    }

    #[test]
    fn samples_are_counted_in_boxes_of_both_lengths() {
        let run = boxed(b"trun", &[0, 0, 0, 0, 0xff, 0, 0, 1]);
        let track = boxed(b"traf", &[boxed(b"tfhd", &[0; 8]), run.clone(), run].concat());
        let long_size = u64::try_from(16 + track.len()).unwrap().to_be_bytes();
        let long = [&[0, 0, 0, 1][..], b"moof", &long_size, &track].concat();
        for moof in [boxed(b"moof", &track), long] {
            assert_eq!(samples_of(&moof), 2 * 0xff00_0001);
        }
        assert_eq!(samples_of(&[]), 0);
    }

    #[test]
    fn a_file_without_fragments_is_not_decoded() {
        // The library would refuse the empty `mvhd`.
        let moov = boxed(b"moov", &boxed(b"mvhd", &[]));
        assert!(FragmentedMp4::open(Cursor::new(&moov)).unwrap().is_none());
        let extended = [boxed(b"mvhd", &[]), boxed(b"mvex", &[])].concat();
        let error = FragmentedMp4::open(Cursor::new(boxed(b"moov", &extended))).unwrap_err();
        assert!(error.to_string().contains("damaged MP4"), "{error}");
    }
}
