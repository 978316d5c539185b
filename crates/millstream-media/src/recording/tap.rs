//! The host's end of the recording: copies released frames into the writer's queue.
//!
//! The host never waits. If the queue is full, the rest of the group of pictures is lost, and whole
//! groups until the queue has room for a key frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

use super::segment::AudioConfig;
use crate::live::publishing::{LiveSpec, LiveStream};

/// The least limit of the frames of a track in a queue, bytes.
const MIN_QUEUED: usize = 1 << 20;

/// Counters of a stream's recording.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The size of the frames of video and of audio in the queue, bytes.
    queued: [AtomicUsize; 2],
    /// Frames of video and audio written or waiting to be.
    pub(crate) frames: AtomicU64,
    /// Frames of video and audio lost because the disk is slow or full.
    pub(crate) lost_frames: AtomicU64,
    /// Groups of pictures that lost frames.
    pub(crate) lost_groups: AtomicU64,
    /// Files completed.
    pub(crate) files: AtomicU64,
    /// Bytes written.
    pub(crate) bytes: AtomicU64,
    /// Failures to create or write a file.
    pub(crate) failures: AtomicU64,
}

impl Counts {
    /// Adds to a counter.
    pub(crate) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns the size of the frames in the queue, bytes.
    pub(crate) fn queued(&self) -> usize {
        self.queued.iter().map(|queued| queued.load(Ordering::Relaxed)).sum()
    }

    /// Records that a frame has left the queue.
    pub(crate) fn taken(&self, frame: &RecordedFrame) {
        let queued = &self.queued[usize::from(frame.is_audio)];
        queued.fetch_sub(frame.bytes.len(), Ordering::Relaxed);
    }
}

/// A frame for the writer.
#[derive(Debug)]
pub(crate) struct RecordedFrame {
    /// The publication that it belongs to; each begins a file.
    pub(crate) publication: u64,
    /// The name of the published stream.
    pub(crate) stream: Arc<str>,
    pub(crate) is_audio: bool,
    /// The instant of its timestamp, ns of the machine's clock.
    pub(crate) captured_ns: u64,
    /// Whether decoding can begin with it.
    pub(crate) key: bool,
    /// The frame with start codes, or the payload of a packet of audio.
    pub(crate) bytes: Vec<u8>,
    /// The format of the publication's audio.
    pub(crate) audio: Option<Arc<AudioConfig>>,
}

/// A message to the writer, of the recorded stream with this index.
#[derive(Debug)]
pub(crate) enum Message {
    /// A frame.
    Frame(usize, RecordedFrame),
    /// The publication has ended.
    End(usize),
}

/// Taps live tracks. The frames of a track that wait in `queue` are limited to those of `seconds`
/// at its rate, and at least 1 MiB. `find` gets a track and the index of its live stream of video.
/// It returns the index of the recorded stream and its counters, or `None` to leave the track out.
pub(crate) fn tap_tracks(
    streams: &mut [LiveStream],
    queue: &SyncSender<Message>,
    seconds: u64,
    find: impl Fn(&LiveSpec, usize) -> Option<(usize, Arc<Counts>)>,
) {
    for (number, stream) in streams.iter_mut().enumerate() {
        let spec = &stream.spec;
        let video = spec.audio.map_or(number, |(_, video)| video);
        let Some((found, counts)) = find(spec, video) else { continue };
        let at_rate = spec.allowance.rate_bps / 8 * seconds;
        let max_queued = usize::try_from(at_rate).unwrap_or(usize::MAX).max(MIN_QUEUED);
        let which = (found, spec.audio.is_some());
        stream.ingest.tap(Tap::new(which, queue.clone(), counts, max_queued));
    }
}

/// The tap of a live track: what it releases is recorded.
#[derive(Debug)]
pub(crate) struct Tap {
    stream: usize,
    is_audio: bool,
    queue: SyncSender<Message>,
    counts: Arc<Counts>,
    /// The limit of the track's frames in the queue, bytes.
    max_queued: usize,
    publication: u64,
    name: Arc<str>,
    audio: Option<Arc<AudioConfig>>,
    /// Whether frames are lost until the next key frame.
    is_losing: bool,
}

impl Tap {
    /// Creates the tap of a track of the recorded stream with this index.
    pub(crate) fn new(
        (stream, is_audio): (usize, bool),
        queue: SyncSender<Message>,
        counts: Arc<Counts>,
        max_queued: usize,
    ) -> Self {
        Self {
            stream,
            is_audio,
            queue,
            counts,
            max_queued,
            publication: 0,
            name: Arc::from(""),
            audio: None,
            is_losing: false,
        }
    }

    /// Sets the counters to 0 for another path.
    pub(crate) fn begin_counts(&self) {
        let Counts { queued: _, frames, lost_frames, lost_groups, files, bytes, failures } =
            &*self.counts;
        for counter in [frames, lost_frames, lost_groups, files, bytes, failures] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Begins a publication of the stream called `name`. `audio` is the format of its audio, if it
    /// has audio.
    pub(crate) fn begin(&mut self, (name, publication): (&str, u64), audio: Option<AudioConfig>) {
        self.publication = publication;
        if *self.name != *name {
            self.name = Arc::from(name);
        }
        self.audio = audio.map(Arc::new);
        self.is_losing = false;
    }

    /// Ends the publication.
    pub(crate) fn end(&mut self) {
        if self.is_audio {
            return;
        }
        // If the queue is full, the writer notices the silence.
        let _ = self.queue.try_send(Message::End(self.stream));
    }

    /// Records a frame, or loses it if the queue is full.
    pub(crate) fn frame(&mut self, bytes: &[u8], captured_ns: u64, key: bool) {
        let counts = &self.counts;
        if self.is_losing && !key {
            return Counts::add(&counts.lost_frames, 1);
        }
        let length = bytes.len();
        let queued = &counts.queued[usize::from(self.is_audio)];
        let fits = queued.load(Ordering::Relaxed).saturating_add(length) <= self.max_queued;
        let sent = fits && {
            let frame = RecordedFrame {
                publication: self.publication,
                stream: Arc::clone(&self.name),
                is_audio: self.is_audio,
                captured_ns,
                key,
                bytes: bytes.to_vec(),
                audio: self.audio.clone(),
            };
            queued.fetch_add(length, Ordering::Relaxed);
            let sent = self.queue.try_send(Message::Frame(self.stream, frame)).is_ok();
            if !sent {
                queued.fetch_sub(length, Ordering::Relaxed);
            }
            sent
        };
        if sent {
            self.is_losing = false;
            return Counts::add(&counts.frames, 1);
        }
        Counts::add(&counts.lost_frames, 1);
        if !self.is_audio {
            self.is_losing = true;
            Counts::add(&counts.lost_groups, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_full_queue_loses_whole_groups_of_pictures() {
        let (queue, frames) = sync_channel(100);
        let counts = Arc::new(Counts::default());
        let mut tap = Tap::new((3, false), queue.clone(), Arc::clone(&counts), 250);
        let mut sound = Tap::new((3, true), queue, Arc::clone(&counts), 100);
        tap.begin(("cam", 1), None);
        let mut put = |number: u64| tap.frame(&[0; 100], number, number.is_multiple_of(5));
        (0..12).for_each(&mut put);
        // The full queue of video leaves that of audio its room.
        (100..102).for_each(|number| sound.frame(&[0; 60], number, true));
        let lost = || [&counts.lost_frames, &counts.lost_groups].map(|c| c.load(Ordering::Relaxed));
        assert_eq!(lost(), [11, 3], "the rest of the first group, the second and the third");
        let mut taken = Vec::new();
        while let Ok(Message::Frame(3, frame)) = frames.try_recv() {
            counts.taken(&frame);
            taken.push(frame.captured_ns);
        }
        // There is room, but no key frame yet.
        (12..17).for_each(&mut put);
        assert_eq!((taken, lost()), (vec![0, 1, 100], [14, 3]));
        assert_eq!(counts.queued(), 200, "the two frames of the last group");
        let rest: Vec<u64> = frames
            .try_iter()
            .map(|message| match message {
                Message::Frame(_, frame) => frame.captured_ns,
                Message::End(_) => u64::MAX,
            })
            .collect();
        assert_eq!((rest, counts.frames.load(Ordering::Relaxed)), (vec![15, 16], 5));
    }

    #[test]
    fn a_full_channel_loses_frames_and_keeps_the_count_of_bytes() {
        let (queue, _frames) = sync_channel(1);
        let counts = Arc::new(Counts::default());
        let mut tap = Tap::new((0, false), queue, Arc::clone(&counts), 1_000);
        (0..3).for_each(|number| tap.frame(&[0; 10], number, true));
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!(counts.queued(), 10);
        assert_eq!((of(&counts.frames), of(&counts.lost_groups)), (1, 2));
    }
}
