//! The presentation of one live stream: its last segments and parts, and which requests they can
//! answer.
//!
//! ```text
//! parts ──> open segment ── key frame, or the longest length ──> last segments ──> removed
//! ```
//! A segment ends before a key frame. The first segment sets the target duration of the
//! publication, which must not change: a later segment that would be longer ends without a key
//! frame. Segments stay for a while after the playlist lists them no longer, since players may
//! still load them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Product;
use super::packager::PART_TICKS;
use super::playlist::{ListedPart, ListedSegment, Playlist, part_file, segment_file, tracks_file};
use crate::recording::segment::Fragment;
use crate::rtsp::session::random_word;

/// The least and the most complete segments in a playlist. It has three target durations, if there
/// are as many (RFC 8216, section 6.2.2). Twice as many segments are kept.
const LISTED: usize = 7;
const MAX_LISTED: usize = 32;

/// A playlist lists the parts of this many of the newest complete segments.
const LISTED_PARTS: usize = 3;

/// The longest first segment, 1/90,000 s: it ends without a key frame.
const LONGEST_TICKS: i64 = 6 * SECOND;

/// A second, 1/90,000 s.
const SECOND: i64 = 90_000;

/// The most parts of a segment. Parts are shorter than their length if frames are large.
const MAX_PARTS: usize = 128;

/// All files of a stream together hold the frames of this time at its rate, s, and at least this
/// size, bytes.
const KEPT_SECONDS: u64 = 60;
const MIN_KEPT_BYTES: usize = 4 << 20;

/// How long the files of an ended publication stay, ns.
const ENDED_NS: u64 = 60_000_000_000;

/// The time without a request for a playlist after which no player watches, ns. A player asks for
/// it once in the duration of a segment.
const WATCHED_NS: u64 = 20_000_000_000;

/// The complete segments of a publication from which its playlist is served to players that know no
/// parts. Players begin three segments before the end, and some never begin if there are fewer.
const FIRST_SEGMENTS: u64 = 3;

/// How long a request waits for the first playlist, ns.
const FIRST_WAIT_NS: u64 = 25_000_000_000;

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The first playlist.
    First,
    /// A playlist with this segment, or with this part of it if one is given.
    Playlist { sequence: u64, part: Option<u64> },
    /// The part with this number.
    Part(u64),
}

#[derive(Debug)]
struct Part {
    number: u64,
    bytes: Arc<[u8]>,
    ticks: i64,
    key: bool,
}

#[derive(Debug)]
struct Segment {
    sequence: u64,
    tracks: u64,
    discontinuity: bool,
    parts: Vec<Part>,
    ticks: i64,
}

impl Segment {
    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }
}

/// The lengths that a playlist promises.
#[derive(Clone, Copy, Debug)]
struct Targets {
    segment_s: u32,
    /// 1/90,000 s.
    part_ticks: i64,
}

/// The presentation of a live stream.
#[derive(Debug)]
pub(crate) struct Presentation {
    /// The index of the live stream with the video.
    pub(crate) live: usize,
    max_bytes: usize,
    /// The name of the stream, and the beginning of the names of its files, which differs between
    /// publications: caches keep files.
    name: Option<Arc<str>>,
    pub(super) prefix: String,
    /// The number of the publication, the least one if it has not begun, and whether products are
    /// those of an earlier one.
    publication: u64,
    is_stale: bool,
    /// The declarations of tracks with their numbers.
    tracks: VecDeque<(u64, Arc<[u8]>)>,
    /// The complete segments, and the open one.
    complete: VecDeque<Segment>,
    open: Option<Segment>,
    next_sequence: u64,
    next_part: u64,
    next_tracks: u64,
    /// Whether a discontinuity precedes the next segment.
    is_interrupted: bool,
    /// The discontinuities before the oldest segment.
    discontinuities: u64,
    targets: Option<Targets>,
    /// The complete segments of the publication so far.
    completed: u64,
    /// When the publication ended, ns.
    ended_ns: Option<u64>,
    /// When a playlist was last requested, ns.
    watched_ns: Option<u64>,
    /// The segments and parts of earlier paths.
    uncounted: (u64, u64),
    /// Playlists served.
    pub(crate) playlists: u64,
    /// The size of all files served, bytes.
    pub(crate) served_bytes: u64,
}

impl Presentation {
    /// Creates the presentation of a live stream of this rate.
    pub(crate) fn new(live: usize, rate_bps: u64) -> Self {
        let max_bytes = usize::try_from(rate_bps / 8 * KEPT_SECONDS).unwrap_or(usize::MAX);
        Self {
            live,
            max_bytes: max_bytes.max(MIN_KEPT_BYTES),
            name: None,
            prefix: String::new(),
            publication: 0,
            is_stale: true,
            tracks: VecDeque::new(),
            complete: VecDeque::new(),
            open: None,
            next_sequence: 0,
            next_part: 0,
            next_tracks: 0,
            is_interrupted: false,
            discontinuities: 0,
            targets: None,
            completed: 0,
            ended_ns: None,
            watched_ns: None,
            uncounted: (0, 0),
            playlists: 0,
            served_bytes: 0,
        }
    }

    /// Adds what the packager has made.
    pub(crate) fn add(&mut self, product: Product, now_ns: u64) {
        match product {
            Product::Begin(name, publication) => {
                if publication >= self.publication {
                    self.begin(name, publication);
                    self.is_stale = false;
                }
            }
            _ if self.is_stale => {}
            Product::Tracks(bytes) => {
                self.complete_open();
                self.is_interrupted = self.next_tracks > 0;
                self.keep_tracks(self.next_tracks);
                self.tracks.push_back((self.next_tracks, bytes.into()));
                self.next_tracks += 1;
            }
            Product::Part(part) => self.part(part),
            Product::End => {
                self.complete_open();
                self.ended_ns = Some(now_ns);
            }
        }
        self.bound();
    }

    /// Begins a publication. Products before [`Product::Begin`] are of an earlier one.
    pub(super) fn begin(&mut self, name: Arc<str>, publication: u64) {
        self.clear();
        self.name = Some(name);
        self.prefix = random_word().map_or_else(String::new, |word| format!("{word:016x}"));
        (self.targets, self.completed, self.ended_ns) = (None, 0, None);
        (self.publication, self.is_stale) = (publication, true);
    }

    /// Forgets the publications and counts of another path. The least number of the publications
    /// that follow is `publication`.
    pub(super) fn begin_path(&mut self, publication: u64) {
        self.begin(Arc::from(""), publication);
        self.name = None;
        self.uncounted = (self.next_sequence, self.next_part);
        (self.playlists, self.served_bytes, self.watched_ns) = (0, 0, None);
    }

    fn part(&mut self, part: Fragment) {
        let Fragment { bytes, ticks, key, begins_group } = part;
        let Some(&(tracks, _)) = self.tracks.back() else { return };
        let longest = match self.targets {
            // A player rounds the length of a segment to whole seconds.
            Some(targets) => i64::from(targets.segment_s) * SECOND + SECOND / 2 - 1,
            None => LONGEST_TICKS,
        };
        let ends = |open: &Segment| {
            begins_group || open.ticks + ticks > longest || open.parts.len() >= MAX_PARTS
        };
        if self.open.as_ref().is_some_and(ends) {
            self.complete_open();
        }
        let open = self.open.get_or_insert_with(|| {
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            let discontinuity = std::mem::take(&mut self.is_interrupted);
            Segment { sequence, tracks, discontinuity, parts: Vec::new(), ticks: 0 }
        });
        open.ticks += ticks;
        open.parts.push(Part { number: self.next_part, bytes: bytes.into(), ticks, key });
        self.next_part += 1;
    }

    fn complete_open(&mut self) {
        let Some(segment) = self.open.take() else { return };
        self.completed += 1;
        self.targets.get_or_insert_with(|| {
            let rounded = (segment.ticks + SECOND / 2) / SECOND;
            let longest = segment.parts.iter().map(|part| part.ticks).max();
            // A part must last 85 to 100 % of the target; this leaves room for varying frame times.
            let part_ticks = longest.unwrap_or(0).max(PART_TICKS / 2) * 23 / 20;
            Targets { segment_s: u32::try_from(rounded.max(1)).unwrap_or(1), part_ticks }
        });
        self.complete.push_back(segment);
    }

    /// Removes the oldest files beyond the bounds.
    fn bound(&mut self) {
        while self.complete.len() > 2 * self.listed() || self.bytes() > self.max_bytes {
            if !self.remove_oldest() {
                // A single segment that is too large: it ends here.
                self.complete_open();
                if !self.remove_oldest() {
                    return;
                }
            }
        }
    }

    /// Returns how many of the complete segments are in the playlist, if there are as many.
    fn listed(&self) -> usize {
        let target_s = self.targets.map_or(0, |targets| targets.segment_s);
        let mut rest = i64::from(target_s) * 3 * SECOND;
        let newest = self.complete.iter().rev().take(MAX_LISTED);
        let needed = newest.take_while(|segment| {
            let is_needed = rest > 0;
            rest -= segment.ticks;
            is_needed
        });
        needed.count().max(LISTED)
    }

    fn remove_oldest(&mut self) -> bool {
        let Some(removed) = self.complete.pop_front() else { return false };
        self.discontinuities += u64::from(removed.discontinuity);
        self.keep_tracks(self.next_tracks.saturating_sub(1));
        true
    }

    /// Removes the declarations of tracks before `newest` that no segment needs.
    fn keep_tracks(&mut self, newest: u64) {
        let used = self.complete.iter().chain(&self.open).map(|segment| segment.tracks).min();
        let oldest = used.unwrap_or(newest);
        self.tracks.retain(|(number, _)| *number >= oldest);
    }

    /// Removes all files.
    fn clear(&mut self) {
        self.complete_open();
        while self.remove_oldest() {}
        self.tracks.clear();
    }

    /// Removes the files of a publication that ended long ago.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        if self.ended_ns.is_some_and(|ended_ns| now_ns.saturating_sub(ended_ns) > ENDED_NS) {
            self.clear();
            self.targets = None;
        }
    }

    /// Returns the size of all files, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let tracks: usize = self.tracks.iter().map(|(_, bytes)| bytes.len()).sum();
        tracks + self.complete.iter().chain(&self.open).map(Segment::bytes).sum::<usize>()
    }

    /// Asserts that the numbers and sizes of files are within their bounds.
    ///
    /// # Panics
    /// Panics if they are not.
    pub(crate) fn assert_bounds(&self) {
        let kept = 2 * MAX_LISTED;
        assert!(self.complete.len() <= kept && self.tracks.len() <= kept + 2);
        let parts = |segment: &Segment| segment.parts.len() <= MAX_PARTS;
        assert!(self.complete.iter().chain(&self.open).all(parts));
        let largest = self.tracks.back().map_or(0, |(_, bytes)| bytes.len());
        assert!(self.bytes() <= self.max_bytes.max(largest));
    }

    /// Returns the name of the stream, if it has been published.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of segments of the stream so far.
    pub(crate) fn segments(&self) -> u64 {
        self.next_sequence - self.uncounted.0
    }

    /// Returns the number of parts of the stream so far.
    pub(crate) fn parts(&self) -> u64 {
        self.next_part - self.uncounted.1
    }

    /// Returns whether the publication has ended, and its playlist can be served.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended_ns.is_some() && self.targets.is_some()
    }

    /// Records a request for a playlist.
    pub(crate) fn watch(&mut self, now_ns: u64) {
        self.watched_ns = Some(now_ns);
    }

    /// Returns whether a player has requested a playlist within 20 s.
    pub(crate) fn is_watched(&self, now_ns: u64) -> bool {
        self.watched_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < WATCHED_NS)
    }

    /// Returns how long a request may wait, ns: three target durations, as RFC 8216bis, section
    /// 6.2.5.2, asks for.
    pub(crate) fn wait_ns(&self) -> u64 {
        let targets = self.targets.filter(|_| self.completed >= FIRST_SEGMENTS);
        targets.map_or(FIRST_WAIT_NS, |targets| u64::from(targets.segment_s) * 3_000_000_000)
    }

    /// Returns whether a request can be answered, also by an error.
    pub(crate) fn is_ready(&self, wanted: Wanted) -> bool {
        match wanted {
            _ if self.ended_ns.is_some() || self.is_too_far(wanted) => true,
            Wanted::First => self.completed >= FIRST_SEGMENTS,
            Wanted::Part(number) => number < self.next_part,
            Wanted::Playlist { .. } if self.targets.is_none() => false,
            Wanted::Playlist { sequence, part } => self.has(sequence, part),
        }
    }

    /// Returns whether the playlist has a segment, or a part of it.
    fn has(&self, sequence: u64, part: Option<u64>) -> bool {
        let open = self.open.as_ref();
        let parts_of_open = open.map_or(0, |open| open.parts.len() as u64);
        let first_incomplete = self.first_incomplete();
        let last = self.complete.back();
        match part {
            None => sequence < first_incomplete,
            Some(part) if sequence == first_incomplete => part < parts_of_open,
            // A part beyond the end of the last segment is the first of the next one.
            Some(part) if sequence.checked_add(1) == Some(first_incomplete) => {
                last.is_some_and(|last| part < last.parts.len() as u64) || parts_of_open > 0
            }
            Some(_) => sequence < first_incomplete,
        }
    }

    /// Returns the number of the open segment, or of the next one if none is open.
    fn first_incomplete(&self) -> u64 {
        self.next_sequence - u64::from(self.open.is_some())
    }

    /// Returns whether what a request waits for is so far ahead that the request is an error: more
    /// than two segments after the last complete one, or more parts after the last one than the
    /// Advance Part Limit (RFC 8216bis, section 6.2.5.2).
    pub(crate) fn is_too_far(&self, wanted: Wanted) -> bool {
        let Wanted::Playlist { sequence, part } = wanted else { return false };
        let Some(targets) = self.targets.filter(|_| self.ended_ns.is_none()) else { return false };
        let open = self.first_incomplete();
        let part_ticks = targets.part_ticks.clamp(1, SECOND);
        let limit = u64::try_from((3 * SECOND + part_ticks - 1) / part_ticks).unwrap_or(3);
        let parts = self.open.as_ref().map_or(0, |open| open.parts.len() as u64);
        let next = if sequence == open { parts } else { 0 };
        sequence > open + 1 || sequence >= open && part.is_some_and(|part| part >= next + limit)
    }

    /// Returns the playlist; the URLs of its files end with `query`. `None` before the first
    /// segment is complete.
    pub(crate) fn playlist(&mut self, query: &str) -> Option<Vec<u8>> {
        let targets = self.targets?;
        let first = self.complete.len().saturating_sub(self.listed());
        let with_parts = self.complete.len().saturating_sub(LISTED_PARTS);
        let parts = |segment: &Segment| -> Vec<ListedPart> {
            let listed = |part: &Part| {
                let Part { number, ticks, key, .. } = *part;
                ListedPart { number, ticks, key }
            };
            segment.parts.iter().map(listed).collect()
        };
        let listed = |(place, segment): (usize, &Segment)| ListedSegment {
            sequence: segment.sequence,
            tracks: segment.tracks,
            discontinuity: segment.discontinuity,
            ticks: Some(segment.ticks),
            parts: if place >= with_parts { parts(segment) } else { Vec::new() },
        };
        let complete = self.complete.iter().enumerate().skip(first).map(listed);
        let open = self.open.as_ref().map(|open| ListedSegment {
            sequence: open.sequence,
            tracks: open.tracks,
            discontinuity: open.discontinuity,
            ticks: None,
            parts: parts(open),
        });
        let unlisted = self.complete.iter().take(first);
        let removed = unlisted.filter(|segment| segment.discontinuity).count() as u64;
        let playlist = Playlist {
            prefix: &self.prefix,
            query,
            target_s: targets.segment_s,
            part_ticks: targets.part_ticks,
            discontinuities: self.discontinuities + removed,
            segments: complete.chain(open).collect(),
            next_part: self.ended_ns.is_none().then_some(self.next_part),
        };
        let text = playlist.text().ok()?;
        self.playlists += 1;
        self.served_bytes += text.len() as u64;
        Some(text)
    }

    /// Returns the number of the part that has this file, whether or not it exists.
    pub(crate) fn part_number(&self, file: &str) -> Option<u64> {
        let number = file.strip_prefix(&self.prefix)?.strip_prefix("-part-")?;
        let number = number.strip_suffix(".mp4")?.parse().ok()?;
        (part_file(&self.prefix, number) == file).then_some(number)
    }

    /// Returns whether a part is the next one, which playlists announce.
    pub(crate) fn is_next_part(&self, number: u64) -> bool {
        self.ended_ns.is_none() && number == self.next_part
    }

    /// Returns the content of a file; `None` if there is no such file, or no longer.
    pub(crate) fn file(&mut self, file: &str) -> Option<Vec<Arc<[u8]>>> {
        let found = self.find(file)?;
        self.served_bytes += found.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        Some(found)
    }

    fn find(&self, file: &str) -> Option<Vec<Arc<[u8]>>> {
        let prefix = &self.prefix;
        if let Some(number) = self.part_number(file) {
            let mut parts = self.complete.iter().chain(&self.open).flat_map(|of| &of.parts);
            let part = parts.find(|part| part.number == number)?;
            return Some(vec![Arc::clone(&part.bytes)]);
        }
        let mut tracks = self.tracks.iter();
        if let Some((_, bytes)) = tracks.find(|(number, _)| tracks_file(prefix, *number) == file) {
            return Some(vec![Arc::clone(bytes)]);
        }
        let mut complete = self.complete.iter();
        let segment = complete.find(|of| segment_file(prefix, of.sequence) == file)?;
        Some(segment.parts.iter().map(|part| Arc::clone(&part.bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn presentation() -> Presentation {
        let mut presentation = Presentation::new(0, 1_000_000);
        presentation.add(Product::Begin(Arc::from("cam"), 1), 1);
        presentation.add(Product::Tracks(vec![1; 8]), 1);
        presentation
    }

    fn part(presentation: &mut Presentation, length: i64, begins_group: bool) {
        let bytes = vec![u8::try_from(presentation.next_part % 256).unwrap(); 10];
        let part = Fragment { bytes, ticks: length * 9_000, key: begins_group, begins_group };
        presentation.add(Product::Part(part), 1);
    }

    /// Adds segments of five parts of 200 ms, and the first part of the next one.
    fn segments(presentation: &mut Presentation, count: usize) {
        for number in 0..=5 * count {
            part(presentation, 2, number.is_multiple_of(5));
        }
    }

    /// Returns the playlist with the prefix left out.
    fn text(presentation: &mut Presentation) -> String {
        let prefix = presentation.prefix.clone() + "-";
        let text = presentation.playlist("").map(String::from_utf8);
        text.map(|text| text.unwrap().replace(&prefix, "")).unwrap_or_default()
    }

    fn playlist(sequence: u64, part: Option<u64>) -> Wanted {
        Wanted::Playlist { sequence, part }
    }

    #[test]
    fn playlists_list_the_last_segments_and_parts() {
        let mut of = presentation();
        for number in 0..5 {
            part(&mut of, 2, number == 0);
        }
        assert_eq!(text(&mut of), "", "no segment is complete");
        let mut of = presentation();
        segments(&mut of, 2);
        assert!(!of.is_ready(Wanted::First), "two segments are complete");
        let mut of = presentation();
        segments(&mut of, 9);
        let text = text(&mut of);
        assert!(of.is_ready(Wanted::First));
        assert!(text.contains("#EXT-X-TARGETDURATION:1\n"), "{text}");
        assert!(text.contains("PART-TARGET=0.23\n"), "{text}");
        assert!(text.contains("#EXT-X-MEDIA-SEQUENCE:2\n"), "{text}");
        assert_eq!(text.matches("#EXTINF:1,\n").count(), 7, "{text}");
        assert_eq!(text.matches("#EXT-X-PART:").count(), 16, "{text}");
        assert!(text.ends_with(
            "#EXT-X-PART:URI=\"part-45.mp4\",DURATION=0.2,INDEPENDENT=YES\n\
             #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"part-46.mp4\"\n"
        ));
        assert_eq!(text.matches("#EXT-X-MAP:URI=\"tracks-0.mp4\"\n").count(), 1);
    }

    #[test]
    fn requests_wait_for_what_comes_next() {
        let mut of = presentation();
        segments(&mut of, 3);
        // The segment 2 has five parts, the segment 3 one.
        for (sequence, part, expected) in [
            (0, None, true),
            (2, None, true),
            (3, None, false),
            (1, Some(90), true),
            (2, Some(4), true),
            (2, Some(5), true),
            (3, Some(0), true),
            (3, Some(1), false),
            (4, Some(0), false),
        ] {
            assert_eq!(of.is_ready(playlist(sequence, part)), expected, "{sequence} {part:?}");
        }
        // Two segments after the last complete one, and 3 s of parts of 0.23 s.
        let limit = 14;
        for (sequence, part, expected) in [
            (4, None, false),
            (5, None, true),
            (3, Some(1 + limit - 1), false),
            (3, Some(1 + limit), true),
            (4, Some(limit - 1), false),
            (4, Some(limit), true),
            (2, Some(99), false),
            (u64::MAX, Some(u64::MAX), true),
        ] {
            let wanted = playlist(sequence, part);
            assert_eq!(of.is_too_far(wanted), expected, "{wanted:?}");
            assert!(!expected || of.is_ready(wanted), "{wanted:?}");
        }
        assert!(of.is_ready(Wanted::Part(15)) && !of.is_ready(Wanted::Part(16)));
        assert!(of.is_next_part(16) && !of.is_next_part(15) && !of.is_next_part(17));
        assert_eq!(of.wait_ns(), 3 * S);
        of.add(Product::End, S);
        assert!(of.is_ready(playlist(4, Some(0))) && of.is_ready(Wanted::Part(16)));
        assert!(!of.is_next_part(16) && of.is_ended());
        assert!(text(&mut of).ends_with("#EXTINF:0.2,\nsegment-3.mp4\n#EXT-X-ENDLIST\n"));
    }

    #[test]
    fn files_are_parts_segments_and_tracks_until_they_are_removed() {
        let mut of = presentation();
        segments(&mut of, 15);
        let prefix = of.prefix.clone();
        let sizes = |of: &mut Presentation, file: &str| {
            let found = of.file(&format!("{prefix}-{file}.mp4"));
            found.map(|chunks| chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>())
        };
        assert_eq!(sizes(&mut of, "tracks-0"), Some(vec![8]));
        assert_eq!(sizes(&mut of, "segment-0"), None, "14 segments are kept");
        assert_eq!(sizes(&mut of, "segment-1"), Some(vec![10; 5]));
        assert_eq!(sizes(&mut of, "segment-15"), None, "it is not complete");
        assert_eq!(sizes(&mut of, "part-75"), Some(vec![10]));
        for file in ["part-4", "part-76", "part-+75", "part-075", "tracks-1", "part-", ""] {
            assert_eq!(sizes(&mut of, file), None, "{file}");
        }
        assert_eq!(of.served_bytes, 68);
        of.add(Product::End, S);
        of.expire(61 * S);
        assert!(of.is_ended());
        of.expire(62 * S);
        assert_eq!((of.bytes(), of.is_ended()), (0, false));
    }

    #[test]
    fn the_target_duration_stays_and_ends_longer_segments() {
        let mut of = presentation();
        // 2.4 s round to two; another 0.1 s would round to three.
        part(&mut of, 24, true);
        part(&mut of, 22, true);
        part(&mut of, 2, false);
        part(&mut of, 1, false);
        let text = text(&mut of);
        assert!(text.contains("#EXT-X-TARGETDURATION:2\n"), "{text}");
        assert!(text.contains("#EXTINF:2.4,\nsegment-1.mp4\n"), "{text}");
        // Without key frames, the first segment has six seconds.
        let mut of = presentation();
        (0..65).for_each(|number| part(&mut of, 1, number == 0));
        let text = self::text(&mut of);
        assert!(text.contains("#EXTINF:6,\nsegment-0.mp4\n"), "{text}");
        assert!(text.contains("#EXT-X-TARGETDURATION:6\n"), "{text}");
    }

    #[test]
    fn discontinuities_are_marked_and_counted_when_they_leave() {
        let mut of = presentation();
        segments(&mut of, 1);
        of.add(Product::Tracks(vec![2; 8]), 1);
        segments(&mut of, 6);
        let text = text(&mut of);
        assert_eq!(text.matches("#EXT-X-DISCONTINUITY\n").count(), 1, "{text}");
        let begins = "#EXTINF:0.2,\nsegment-1.mp4\n#EXT-X-DISCONTINUITY\n\
                      #EXT-X-MAP:URI=\"tracks-1.mp4\"\n";
        assert!(text.contains(begins), "{text}");
        assert!(text.contains("#EXT-X-DISCONTINUITY-SEQUENCE:0\n"), "{text}");
        part(&mut of, 2, true);
        segments(&mut of, 8);
        let text = self::text(&mut of);
        assert!(!text.contains("#EXT-X-DISCONTINUITY\n"), "{text}");
        assert!(text.contains("#EXT-X-DISCONTINUITY-SEQUENCE:1\n"), "{text}");
        assert_eq!(of.tracks.len(), 1, "no segment needs the first declaration");
    }

    #[test]
    fn playlists_have_three_target_durations() {
        let mut of = presentation();
        // A segment of six seconds, then segments of one second.
        (0..7).for_each(|number| part(&mut of, 10, number == 0));
        let last = |of: &mut Presentation| {
            let text = text(of);
            let first = text.split("#EXT-X-MEDIA-SEQUENCE:").nth(1).unwrap();
            let first: u64 = first.lines().next().unwrap().parse().unwrap();
            (first, text.matches("#EXTINF:").count())
        };
        (1..40).for_each(|_| part(&mut of, 10, true));
        assert_eq!(last(&mut of), (22, 18));
        assert_eq!(of.complete.len(), 36);
        // Segments of no length are bounded by their number.
        (0..200).for_each(|_| part(&mut of, 0, true));
        assert_eq!((last(&mut of).1, of.complete.len()), (MAX_LISTED, 2 * MAX_LISTED));
        of.assert_bounds();
    }

    #[test]
    fn players_do_not_get_the_playlist_of_the_publication_before() {
        let mut of = presentation();
        segments(&mut of, 4);
        of.add(Product::End, 1);
        assert!(of.is_ended() && of.is_ready(Wanted::First));
        // Session control knows of the next publication before the packager has a frame.
        of.begin(Arc::from("cam"), 2);
        assert!(!of.is_ended() && !of.is_ready(Wanted::First) && text(&mut of).is_empty());
        // What the packager still has to say of the publication before.
        of.add(Product::Begin(Arc::from("cam"), 1), 1);
        of.add(Product::Tracks(vec![1; 8]), 1);
        part(&mut of, 2, true);
        of.add(Product::End, 1);
        assert!(!of.is_ended() && !of.is_ready(Wanted::First) && of.bytes() == 0);
        of.add(Product::Begin(Arc::from("cam"), 2), 1);
        of.add(Product::Tracks(vec![1; 8]), 1);
        segments(&mut of, 3);
        assert!(of.is_ready(Wanted::First) && text(&mut of).contains("MEDIA-SEQUENCE:5\n"));
        // Another path has the place: it has its own counts.
        assert_eq!((of.segments(), of.parts(), of.playlists), (9, 37, 1));
        of.begin_path(3);
        assert_eq!((of.name(), of.segments(), of.parts(), of.playlists), (None, 0, 0, 0));
        of.add(Product::End, 1);
        assert!(!of.is_ended());
    }

    #[test]
    fn another_publication_has_other_files_and_later_numbers() {
        let mut of = presentation();
        segments(&mut of, 2);
        let before = of.prefix.clone();
        of.add(Product::End, 1);
        of.add(Product::Begin(Arc::from("cam"), 1), 1);
        assert!(!of.is_ready(playlist(3, None)) && of.bytes() == 0);
        of.add(Product::Tracks(vec![2; 8]), 1);
        segments(&mut of, 1);
        assert_ne!(of.prefix, before);
        let text = text(&mut of);
        assert!(text.contains("#EXT-X-MEDIA-SEQUENCE:3\n"), "{text}");
        assert!(text.contains("#EXT-X-DISCONTINUITY\n"), "{text}");
    }

    #[test]
    fn memory_is_bounded_also_within_a_segment() {
        let mut of = presentation();
        for _ in 0..40 {
            let part =
                Fragment { bytes: vec![0; 1 << 20], ticks: 1, key: false, begins_group: false };
            of.add(Product::Part(part), 1);
            assert!(of.bytes() <= of.max_bytes, "{}", of.bytes());
        }
        assert!(of.next_sequence > 1);
        // Without a length, segments end with their number of parts.
        let mut of = presentation();
        (0..1_000).for_each(|_| part(&mut of, 0, false));
        assert_eq!(of.next_sequence, 8);
    }
}
