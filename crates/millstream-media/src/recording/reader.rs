//! Reads recordings for a player: a thread that goes through the files of a stream.
//!
//! It begins with the last key frame before the requested time and continues with the files that
//! follow, to the end of what is recorded. Its queue is bounded: it reads as fast as it is played.

use millstream_traffic::mpeg::{
    AudioFormat, FragmentFormats, FragmentSample, FragmentTrack, FragmentedMp4, nal_units,
};
use std::fs::File;
use std::io::BufReader;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{io, thread};

use super::directory::{Directory, RecordedFile};
use crate::MediaError;

/// The most frames that wait to be played.
const QUEUE: usize = 64;

/// The start code of a NAL unit.
const START: [u8; 4] = [0, 0, 0, 1];

/// A frame of a recording.
#[derive(Debug)]
pub(crate) struct PlayedFrame {
    pub(crate) is_audio: bool,
    /// When it was decoded and presented, ns of UTC since 1970.
    pub(crate) decode_ns: u64,
    pub(crate) present_ns: u64,
    /// Video with start codes, key frames with their parameter sets; or a frame of audio.
    pub(crate) bytes: Vec<u8>,
}

/// Returns the file that has frames of `stream` at `start_ms`, or else the next one.
pub(crate) fn first_file(
    directory: &Directory,
    stream: &str,
    start_ms: u64,
) -> Option<RecordedFile> {
    let has =
        |file: &RecordedFile| file.stream == stream && file.end_ms >= start_ms && file.bytes > 0;
    let mut found = directory.list(2, has);
    // The times of successive files can overlap by the last sound.
    if found.get(1).is_some_and(|next| next.start_ms > start_ms) {
        found.truncate(1);
    }
    found.pop()
}

/// Returns the formats of a file's tracks.
///
/// # Errors
/// Fails if it cannot be read or has no H.264 video.
pub(crate) fn formats(
    directory: &Directory,
    file: &RecordedFile,
) -> Result<FragmentFormats, MediaError> {
    let opened = open(directory, file)?;
    Ok(opened.formats().clone())
}

fn open(
    directory: &Directory,
    file: &RecordedFile,
) -> Result<FragmentedMp4<BufReader<File>>, MediaError> {
    let path = directory.path(&file.stream, file.start_ms);
    let wrong = |why: &dyn std::fmt::Display| MediaError::new(format!("{}: {why}", path.display()));
    let input = File::open(&path).map_err(|error| wrong(&error))?;
    let opened =
        FragmentedMp4::open(BufReader::new(input)).map_err(|error| wrong(&error.message))?;
    let opened = opened.filter(|opened| opened.formats().h264.is_some());
    opened.ok_or_else(|| wrong(&"not a recording with H.264 video"))
}

/// Starts a reader of `stream` from the last key frame before `start_ms` of UTC. It ends when the
/// returned receiver is dropped.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(crate) fn start(
    directory: Directory,
    stream: String,
    start_ms: u64,
) -> io::Result<Receiver<PlayedFrame>> {
    let (frames, receiver) = sync_channel(QUEUE);
    let read = move || {
        let mut next = first_file(&directory, &stream, start_ms);
        let mut target_ns = Some(start_ms);
        let mut audio = None;
        while let Some(file) = next {
            let since_ms = target_ns.take().map(|start_ms| start_ms.saturating_sub(file.start_ms));
            match play(&directory, &file, since_ms.map(|ms| ms * 1_000_000), &mut audio, &frames) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => eprintln!("a recording is left out: {error}"),
            }
            let follows =
                |other: &RecordedFile| other.stream == stream && other.start_ms > file.start_ms;
            next = directory.list(1, |other| follows(other) && other.bytes > 0).pop();
        }
    };
    thread::Builder::new().name("playback".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// Sends the frames of a file from the last key frame before `target_ns` on, ns from its start.
/// Returns whether the player continues; a change of the audio's format ends it.
fn play(
    directory: &Directory,
    file: &RecordedFile,
    target_ns: Option<u64>,
    audio: &mut Option<Option<AudioFormat>>,
    frames: &SyncSender<PlayedFrame>,
) -> Result<bool, MediaError> {
    let mut opened = open(directory, file)?;
    let formats = opened.formats().clone();
    if *audio.get_or_insert_with(|| formats.audio.clone()) != formats.audio {
        return Ok(false);
    }
    let wrong = |error: millstream_traffic::TrafficError| MediaError::new(error.to_string());
    let mut from_ns = 0;
    if let Some(target_ns) = target_ns.filter(|target_ns| *target_ns > 0) {
        let mut best = opened.position();
        loop {
            let at = opened.position();
            let Some(fragment) = opened.next_fragment().map_err(wrong)? else { break };
            let is_key = |one: &FragmentSample| one.track == FragmentTrack::Video && one.key;
            let is_before = |one: &&FragmentSample| is_key(one) && one.present_ns <= target_ns;
            if let Some(key) = fragment.samples.iter().rfind(is_before) {
                (best, from_ns) = (at, key.decode_ns);
            }
            if fragment.samples.first().is_some_and(|one| one.decode_ns > target_ns) {
                break;
            }
        }
        opened.set_position(best);
    }
    while let Some(fragment) = opened.next_fragment().map_err(wrong)? {
        // Tracks follow each other in a fragment.
        let mut samples: Vec<&FragmentSample> =
            fragment.samples.iter().filter(|one| one.decode_ns >= from_ns).collect();
        samples.sort_by_key(|one| one.decode_ns);
        for one in samples {
            let bytes = &fragment.bytes[one.range.clone()];
            let is_audio = one.track == FragmentTrack::Audio;
            let bytes =
                if is_audio { bytes.to_vec() } else { with_start_codes(bytes, one.key, &formats) };
            let start_ns = file.start_ms.saturating_mul(1_000_000);
            let frame = PlayedFrame {
                is_audio,
                decode_ns: start_ns.saturating_add(one.decode_ns),
                present_ns: start_ns.saturating_add(one.present_ns),
                bytes,
            };
            if frames.send(frame).is_err() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns a sample as a byte stream, a key frame with its parameter sets.
fn with_start_codes(sample: &[u8], key: bool, formats: &FragmentFormats) -> Vec<u8> {
    let mut frame = Vec::with_capacity(sample.len() + 64);
    let Some(h264) = &formats.h264 else { return frame };
    let sets = h264.sets.iter().filter(|_| key).map(Vec::as_slice);
    for nal in sets.chain(nal_units(sample, h264.length_bytes)).filter(|nal| !nal.is_empty()) {
        frame.extend_from_slice(&START);
        frame.extend_from_slice(nal);
    }
    frame
}
