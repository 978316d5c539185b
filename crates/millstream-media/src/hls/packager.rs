//! The packager: a thread that makes the parts of HLS from released frames.
//!
//! A publication is one sequence of fragments, and so has one clock, until its parameter sets
//! change, its times go back, or a gap interrupts it. Then another declaration of tracks and a
//! discontinuity follow.

use millstream_sync::clock::system::now_ns;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::Product;
use crate::recording::segment::{FragmentRule, Segment, SegmentError};
use crate::recording::stream::SILENCE_NS;
use crate::recording::tap::{Counts, Message, RecordedFrame};

/// The length of a part, 1/90,000 s: 200 ms.
pub(crate) const PART_TICKS: i64 = 18_000;

/// The length from which a key frame ends a segment, 1/90,000 s. Less than a second: the times of
/// key frames that are a second apart may vary.
pub(crate) const SEGMENT_TICKS: i64 = 85_500;

/// When parts end.
const RULE: FragmentRule = FragmentRule { ticks: PART_TICKS, group_ticks: Some(SEGMENT_TICKS) };

/// The longest time between two frames of one sequence of fragments, ns. A segment of a longer
/// frame would round to two seconds, which the least target duration does not permit.
const MAX_GAP_NS: u64 = 1_400_000_000;

/// The most by which a key frame may precede the frame before it, ns. A sender report may correct
/// the times of a publication by some ms.
const MAX_BACK_NS: u64 = 100_000_000;

/// How often the thread looks for silent publications.
const TICK: Duration = Duration::from_secs(1);

/// The most that audio may be ahead of the last frame of video, ns: without video, no part ends.
const MAX_AHEAD_NS: u64 = 1_500_000_000;

/// The frames of a stream on their way to parts.
#[derive(Debug, Default)]
pub(crate) struct Packager {
    publication: Option<u64>,
    segment: Option<Segment>,
    /// The time of the last frame of video, and when it arrived, ns.
    last_ns: u64,
    arrived_ns: u64,
}

impl Packager {
    /// Adds a frame; appends what it completes to `products`.
    ///
    /// # Errors
    /// Fails if the frame cannot be packaged. Frames up to the next key frame are then left out.
    pub(crate) fn frame(
        &mut self,
        frame: &RecordedFrame,
        products: &mut Vec<Product>,
    ) -> Result<(), SegmentError> {
        if self.publication != Some(frame.publication) {
            if frame.is_audio {
                // Sound alone makes no part. It may go on after a publication without video ended.
                return Ok(());
            }
            self.end(products)?;
            (self.publication, self.arrived_ns) = (Some(frame.publication), now_ns());
            products.push(Product::Begin(Arc::clone(&frame.stream), frame.publication));
        }
        let added = if frame.is_audio { self.audio(frame) } else { self.video(frame, products) };
        if added.is_err() {
            self.segment = None;
        }
        self.take(products);
        added
    }

    fn video(
        &mut self,
        frame: &RecordedFrame,
        products: &mut Vec<Product>,
    ) -> Result<(), SegmentError> {
        let gap = self.last_ns.abs_diff(frame.captured_ns) > MAX_GAP_NS;
        let is_other = |segment: &Segment| {
            frame.captured_ns < self.last_ns.saturating_sub(MAX_BACK_NS)
                || frame.captured_ns < segment.start_ns()
                || segment.is_other_format(&frame.bytes)
        };
        if gap || frame.key && self.segment.as_ref().is_some_and(is_other) {
            self.finish(products)?;
        }
        (self.last_ns, self.arrived_ns) = (frame.captured_ns, now_ns());
        if let Some(segment) = &mut self.segment {
            return segment.video(&frame.bytes, frame.captured_ns, frame.key).map(|_| ());
        }
        if !frame.key {
            return Ok(());
        }
        let audio = frame.audio.as_deref();
        let mut segment = Segment::begin(&frame.bytes, frame.captured_ns, audio)?.with_rule(RULE);
        products.push(Product::Tracks(segment.take_output()));
        self.segment = Some(segment);
        Ok(())
    }

    fn audio(&mut self, frame: &RecordedFrame) -> Result<(), SegmentError> {
        let (Some(segment), Some(config)) = (&mut self.segment, &frame.audio) else {
            return Ok(());
        };
        for (bytes, after_ns) in config.frames(&frame.bytes) {
            let present_ns = frame.captured_ns.saturating_add(after_ns);
            if present_ns <= self.last_ns.saturating_add(MAX_AHEAD_NS) {
                segment.audio(bytes, present_ns)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, products: &mut Vec<Product>) {
        let fragments = self.segment.as_mut().map(Segment::take_fragments);
        products.extend(fragments.into_iter().flatten().map(Product::Part));
    }

    /// Completes the last part before a discontinuity or the end.
    fn finish(&mut self, products: &mut Vec<Product>) -> Result<(), SegmentError> {
        let finished = self.segment.as_mut().map_or(Ok(()), Segment::finish);
        self.take(products);
        self.segment = None;
        finished
    }

    /// Ends the publication.
    ///
    /// # Errors
    /// Fails if its last part cannot be made.
    pub(crate) fn end(&mut self, products: &mut Vec<Product>) -> Result<(), SegmentError> {
        let finished = self.finish(products);
        if self.publication.take().is_some() {
            products.push(Product::End);
        }
        finished
    }

    /// Ends a publication without video: a full queue may have lost its end.
    ///
    /// # Errors
    /// Fails if its last part cannot be made.
    pub(crate) fn tick(
        &mut self,
        now_ns: u64,
        products: &mut Vec<Product>,
    ) -> Result<(), SegmentError> {
        let silent = now_ns.saturating_sub(self.arrived_ns) > SILENCE_NS;
        if silent { self.end(products) } else { Ok(()) }
    }
}

/// Starts the thread. It ends when all taps are gone, or when `send`, which gets the index of a
/// stream and what the packager has made, returns `false`.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(crate) fn start(
    messages: Receiver<Message>,
    counts: Vec<Arc<Counts>>,
    send: impl Fn(usize, Product) -> bool + Send + 'static,
) -> io::Result<()> {
    let mut packagers: Vec<Packager> = counts.iter().map(|_| Packager::default()).collect();
    let run = move || {
        let mut products = Vec::new();
        let mut ticked = Instant::now();
        let deliver = |stream: usize, done: Result<(), _>, products: &mut Vec<Product>| {
            if done.is_err() {
                Counts::add(&counts[stream].failures, 1);
            }
            products.drain(..).all(|product| send(stream, product))
        };
        loop {
            let open = match messages.recv_timeout(TICK) {
                Ok(Message::Frame(stream, frame)) => {
                    counts[stream].taken(&frame);
                    let done = packagers[stream].frame(&frame, &mut products);
                    deliver(stream, done, &mut products)
                }
                Ok(Message::End(stream)) => {
                    let done = packagers[stream].end(&mut products);
                    deliver(stream, done, &mut products)
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            if !open {
                return;
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                for (stream, packager) in packagers.iter_mut().enumerate() {
                    let done = packager.tick(now_ns(), &mut products);
                    if !deliver(stream, done, &mut products) {
                        return;
                    }
                }
            }
        }
    };
    thread::Builder::new().name("hls".to_owned()).spawn(run).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::segment::AudioConfig;
    use crate::recording::segment::tests::frame as coded;

    const MS: u64 = 1_000_000;

    /// Returns frame `number` of a publication, one each 40 ms, a key frame each second.
    fn frame(number: u64, start_ms: u64, publication: u64) -> RecordedFrame {
        let key = number.is_multiple_of(25);
        RecordedFrame {
            publication,
            stream: Arc::from("cam"),
            is_audio: false,
            captured_ns: (start_ms + number * 40) * MS,
            key,
            bytes: coded(u8::try_from(number).unwrap(), key),
            audio: None,
        }
    }

    /// Returns a letter for each product, with the number of frames of parts; groups are capitals.
    fn text(products: Vec<Product>) -> String {
        let of = |product: Product| match product {
            Product::Begin(name, _) => format!(" {name}:"),
            Product::Tracks(_) => " tracks".to_owned(),
            Product::Part(of) if of.begins_group => format!(" K{}", of.ticks / 3_600),
            Product::Part(of) => format!(" {}", of.ticks / 3_600),
            Product::End => " end".to_owned(),
        };
        products.into_iter().map(of).collect::<String>().trim().to_owned()
    }

    #[test]
    fn a_publication_is_parts_in_groups_until_its_end() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        // The first frames have no key frame before them.
        for number in 20..60 {
            packager.frame(&frame(number, 0, 7), &mut products).unwrap();
        }
        packager.frame(&frame(0, 9_000, 8), &mut products).unwrap();
        packager.end(&mut products).unwrap();
        packager.end(&mut products).unwrap();
        let expected = "cam: tracks K5 5 5 5 5 K5 5 end cam: tracks K1 end";
        assert_eq!(text(products), expected);
    }

    #[test]
    fn gaps_other_parameter_sets_and_earlier_times_begin_new_tracks() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        let mut other = frame(25, 3_000, 7);
        other.bytes.extend([0, 0, 1, 0x68, 1]);
        let frames = [
            frame(0, 0, 7),
            // Later than a gap: it waits for a key frame.
            frame(1, 2_040, 7),
            frame(50, 1_000, 7),
            other,
            frame(25, 2_500, 7),
        ];
        for frame in &frames {
            packager.frame(frame, &mut products).unwrap();
        }
        packager.end(&mut products).unwrap();
        assert_eq!(text(products), "cam: tracks K1 tracks K1 tracks K1 tracks K1 end");
    }

    #[test]
    fn a_key_frame_before_the_last_frame_begins_new_tracks() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        (0..50).for_each(|number| packager.frame(&frame(number, 500, 7), &mut products).unwrap());
        // A correction by 90 ms, then one by 300 ms; both are after the start.
        packager.frame(&frame(50, 370, 7), &mut products).unwrap();
        (1..5).for_each(|n| packager.frame(&frame(50 + n, 500, 7), &mut products).unwrap());
        packager.frame(&frame(50, 360, 7), &mut products).unwrap();
        packager.end(&mut products).unwrap();
        let text = text(products);
        assert!(text.starts_with("cam: tracks K5 5 5 5 5 K5 5 5 5 "), "{text}");
        assert!(text.ends_with(" tracks K1 end") && text.matches("tracks").count() == 2, "{text}");
    }

    #[test]
    fn parts_of_times_in_ms_have_equal_numbers_of_frames() {
        for (numerator, denominator) in [(30, 1), (30_000, 1_001), (24, 1), (60, 1)] {
            let (mut packager, mut products) = (Packager::default(), Vec::new());
            for number in 0..600u64 {
                let ms = (number * 1_000 * denominator + numerator / 2) / numerator;
                let frame =
                    RecordedFrame { captured_ns: ms * MS, key: number == 0, ..frame(1, 0, 7) };
                let bytes = coded(1, number == 0);
                packager.frame(&RecordedFrame { bytes, ..frame }, &mut products).unwrap();
            }
            let parts = products.iter().filter_map(|product| match product {
                Product::Part(part) => Some(part.ticks),
                _ => None,
            });
            let parts: Vec<i64> = parts.collect();
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            assert!(parts.len() > 40 && least * 100 >= most * 97, "{numerator}: {parts:?}");
        }
    }

    #[test]
    fn a_long_frame_is_a_part_and_a_longer_one_a_discontinuity() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        for number in [0, 1, 2, 3, 33, 34] {
            packager.frame(&frame(number, 0, 7), &mut products).unwrap();
        }
        packager.frame(&frame(75, 0, 7), &mut products).unwrap();
        packager.end(&mut products).unwrap();
        // A frame of 1.2 s, then a gap of 1.64 s.
        assert_eq!(text(products), "cam: tracks K3 30 2 tracks K1 end");
    }

    #[test]
    fn a_frame_that_lasts_somewhat_longer_begins_a_part_rather_than_making_one_too_long() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        // The frame 4 has 80 ms: with it, a part would have 240 ms.
        for number in [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11] {
            packager.frame(&frame(number, 0, 7), &mut products).unwrap();
        }
        packager.end(&mut products).unwrap();
        assert_eq!(text(products), "cam: tracks K4 5 3 end");
    }

    #[test]
    fn a_silent_publication_ends_once() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        packager.tick(u64::MAX, &mut products).unwrap();
        packager.frame(&frame(0, 0, 7), &mut products).unwrap();
        packager.tick(packager.arrived_ns + SILENCE_NS, &mut products).unwrap();
        assert_eq!(products.len(), 2);
        packager.tick(packager.arrived_ns + SILENCE_NS + 1, &mut products).unwrap();
        packager.tick(u64::MAX, &mut products).unwrap();
        let sound = RecordedFrame { is_audio: true, ..frame(24, 0, 7) };
        packager.frame(&sound, &mut products).unwrap();
        assert!(matches!(products.last(), Some(Product::End)), "sound does not begin it again");
        packager.frame(&frame(25, 0, 7), &mut products).unwrap();
        assert_eq!(text(products), "cam: tracks K1 end cam: tracks");
    }

    #[test]
    fn damaged_key_frames_are_left_out() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        let damaged = RecordedFrame { bytes: vec![0, 0, 1, 0x65, 1], ..frame(0, 0, 7) };
        assert!(packager.frame(&damaged, &mut products).is_err());
        packager.frame(&frame(1, 0, 7), &mut products).unwrap();
        packager.frame(&frame(25, 0, 7), &mut products).unwrap();
        packager.end(&mut products).unwrap();
        assert_eq!(text(products), "cam: tracks K1 end");
    }

    #[test]
    fn sound_without_pictures_makes_no_parts() {
        let (mut packager, mut products) = (Packager::default(), Vec::new());
        let audio = Some(Arc::new(AudioConfig::Opus { stereo: true }));
        let sound = |number: u64| RecordedFrame {
            is_audio: true,
            captured_ns: number * 20 * MS,
            bytes: vec![7],
            audio: audio.clone(),
            ..frame(0, 0, 7)
        };
        packager
            .frame(&RecordedFrame { audio: audio.clone(), ..frame(0, 0, 7) }, &mut products)
            .unwrap();
        for number in 0..5_000 {
            packager.frame(&sound(number), &mut products).unwrap();
        }
        assert_eq!(text(products), "cam: tracks");
    }
}
