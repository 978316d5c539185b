//! Players of recordings: each has a place with a ring of live frames of its own.
//!
//! ```text
//! file ── reader thread ── bounded queue ──> place: due times ──> ring ──> data plane ──> player
//! ```
//! To the data plane a player of a recording is a client of a live stream that has one client. Its
//! contract and its reserved rate are the stream's, which the recorded frames kept when they were
//! published. The host puts frames into the ring shortly before they are due.

use std::collections::BTreeSet;
use std::sync::mpsc::TryRecvError;

use super::directory::{Directory, parse_time};
use super::reader::{self, PlayedFrame, PlayedFrames};
use crate::live::Unavailable;
use crate::rtsp::session::Sessions;
use crate::shared_memory::region::{SessionField, State};
use millstream_traffic::mpeg::FragmentFormats;

/// How long before it is due a frame enters the ring, ns: several intervals between two calls.
const LEAD_NS: u64 = 500_000_000;

/// The time from the start of a player to its first frame, ns.
const START_NS: u64 = 50_000_000;

/// The longest gap in a recording that is played as a pause, ns.
const MAX_GAP_NS: u64 = 1_000_000_000;

/// What replaces a longer gap, ns.
const GAP_NS: u64 = 40_000_000;

/// How long a player has its session after the last frame is due, ns.
const READING_NS: u64 = 1_000_000_000;

/// The most damaged files that are reported.
const MAX_REPORTED: usize = 1_000;

/// A track of a place: its title, and the live stream with its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceTrack {
    pub(crate) title: usize,
    pub(crate) live: usize,
}

/// A place for one player of the recordings of a stream.
#[derive(Debug)]
pub(crate) struct Place {
    /// The name of the recorded stream in the file.
    pub(crate) stream: String,
    /// Whether the stream has paths.
    pub(crate) has_paths: bool,
    pub(crate) video: PlaceTrack,
    pub(crate) audio: Option<PlaceTrack>,
    player: Option<Player>,
}

/// The player at a place.
#[derive(Debug)]
struct Player {
    /// The name of the recorded stream, with its path.
    stream: String,
    /// Where it begins or resumes, ms of UTC since 1970.
    start_ms: u64,
    reader: Option<PlayedFrames>,
    /// The next frame, which is not due yet.
    next: Option<PlayedFrame>,
    /// The decoding time of the first frame, and when it is due, ns.
    base: Option<(u64, u64)>,
    /// The sum of the gaps that are left out, ns.
    skipped_ns: u64,
    /// The decoding time of the last frame, and when it was due, ns.
    last: Option<(u64, u64)>,
    /// When the first frame since the player's start was due, ns: the zero of presentation times.
    begun_ns: Option<u64>,
    /// The latest instant at which a frame was due or presented, ns.
    latest_ns: u64,
}

/// The times of a frame that is due, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueTimes {
    /// When it is released, on the machine's clock.
    pub(crate) release_ns: u64,
    /// Its presentation time, from the decoding of the player's first frame on. It includes pauses.
    pub(crate) present_ns: u64,
    /// The same instant on the machine's clock.
    pub(crate) captured_ns: u64,
}

/// A frame that is due.
#[derive(Debug)]
pub(crate) struct DueFrame {
    /// The number of its live stream.
    pub(crate) live: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) times: DueTimes,
}

/// The places for players of recordings.
#[derive(Debug, Default)]
pub(crate) struct Playbacks {
    directory: Option<Directory>,
    places: Vec<Place>,
    /// The streams and starts of the damaged files that were reported.
    reported: BTreeSet<(String, u64)>,
}

/// A place that is reserved for a new player.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) video: PlaceTrack,
    pub(crate) audio: Option<PlaceTrack>,
    /// The name of the recorded stream, with its path.
    pub(crate) stream: String,
    pub(crate) formats: FragmentFormats,
}

impl Place {
    /// Creates a place for the recordings of `stream`, or of the paths of `stream`.
    pub(crate) fn new(
        (stream, has_paths): (String, bool),
        video: PlaceTrack,
        audio: Option<PlaceTrack>,
    ) -> Self {
        Self { stream, has_paths, video, audio, player: None }
    }

    fn tracks(&self) -> impl Iterator<Item = PlaceTrack> + use<> {
        std::iter::once(self.video).chain(self.audio)
    }

    fn has_title(&self, title: usize) -> bool {
        self.tracks().any(|track| track.title == title)
    }

    /// Returns whether a session plays at this place.
    fn has_session(&self, sessions: &Sessions) -> bool {
        sessions.iter().any(|(_, session)| self.has_title(session.title))
    }
}

impl Playbacks {
    /// Creates the places of the recordings in `directory`.
    pub(crate) fn new(directory: Directory, places: Vec<Place>) -> Self {
        Self { directory: Some(directory), places, reported: BTreeSet::new() }
    }

    /// Returns the title of the video of the place with this title.
    pub(crate) fn video_of(&self, title: usize) -> Option<usize> {
        let place = self.places.iter().find(|place| place.has_title(title));
        place.map(|place| place.video.title)
    }

    /// Returns whether a live stream is that of a place with a player.
    pub(crate) fn is_reserved(&self, live: usize) -> bool {
        let is = |place: &&Place| place.tracks().any(|track| track.live == live);
        self.places.iter().find(is).is_some_and(|place| place.player.is_some())
    }

    /// Returns the name of the stream in the file, the name of the recorded stream with its path,
    /// and the rest of a request for a recording.
    fn parts<'a>(&self, request: &'a str) -> (&'a str, &'a str, &'a str) {
        let (own, rest) = request.split_once('/').unwrap_or((request, ""));
        if !self.places.iter().any(|place| place.stream == own && place.has_paths) {
            return (own, own, rest);
        }
        match rest.split_once('/') {
            Some((path, time)) => (own, &request[..own.len() + 1 + path.len()], time),
            None => (own, request, ""),
        }
    }

    /// Reserves a place for a player of the recordings that `request` names: `STREAM`, or
    /// `STREAM/TIME` with a UTC time as in RFC 3339. STREAM includes a path, if the stream has
    /// paths.
    ///
    /// # Errors
    /// Fails if there is no such recording or no free place.
    pub(crate) fn reserve(
        &mut self,
        request: &str,
        sessions: &Sessions,
    ) -> Result<Reserved, Unavailable> {
        let (own, stream, time) = self.parts(request);
        let start_ms = if time.is_empty() { Some(0) } else { parse_time(time) };
        let start_ms = start_ms.ok_or_else(|| {
            let example = "2026-11-26T20:40:00Z";
            Unavailable::Missing(format!("`{time}` is not a UTC time, for example {example}"))
        })?;
        let unknown = || Unavailable::Missing(format!("no recording of `{stream}`"));
        let directory = self.directory.as_ref().ok_or_else(unknown)?;
        if !self.places.iter().any(|place| place.stream == own) {
            return Err(unknown());
        }
        let reported = &mut self.reported;
        let found = reader::first_readable(directory, stream, start_ms, |file, error| {
            // A client can request it at any rate. It does not learn the path.
            let damaged = (file.stream.clone(), file.start_ms);
            if reported.len() < MAX_REPORTED && reported.insert(damaged) {
                eprintln!("a recording is left out: {error}");
            }
        });
        let (file, formats) = found.ok_or_else(|| match start_ms {
            0 => unknown(),
            _ => Unavailable::Missing(format!("no recording of `{stream}` from {time} on")),
        })?;
        let free = |place: &&mut Place| place.stream == own && !place.has_session(sessions);
        let Some(place) = self.places.iter_mut().find(free) else {
            let why = format!("the limit of players of recordings of `{own}` is reached");
            return Err(Unavailable::Busy(why));
        };
        let stream = stream.to_owned();
        place.player = Some(Player::new(stream.clone(), start_ms.max(file.start_ms)));
        Ok(Reserved { video: place.video, audio: place.audio, stream, formats })
    }

    /// Releases the places without a session. Their requests were refused, or only described the
    /// recording.
    pub(crate) fn release_unused(&mut self, sessions: &Sessions) {
        for place in self.places.iter_mut().filter(|place| !place.has_session(sessions)) {
            place.player = None;
        }
    }

    /// Returns the frames that are due soon, and the titles of players that have ended.
    pub(crate) fn play(&mut self, sessions: &Sessions, now_ns: u64) -> (Vec<DueFrame>, Vec<usize>) {
        let (mut due, mut ended) = (Vec::new(), Vec::new());
        let Some(directory) = &self.directory else { return (due, ended) };
        for place in &mut self.places {
            if place.player.is_none() {
                continue;
            }
            let tracks = place.tracks();
            let of = sessions.iter().filter(|(_, of)| place.has_title(of.title));
            let rows: Vec<usize> = of.map(|(number, _)| number).collect();
            let Some(player) = &mut place.player else { continue };
            if rows.is_empty() {
                place.player = None;
                continue;
            }
            let row = |number: &usize| sessions.region.session(*number);
            let is_playing = |number: &usize| row(number).state() == State::Playing;
            if !rows.iter().all(is_playing) {
                player.pause();
                continue;
            }
            // A new player waits for its first frame. `From` is 0 once it has it.
            let joins = rows.iter().all(|number| row(number).get(SessionField::From) > 0);
            if player.base.is_none() && !joins {
                continue;
            }
            let (video, audio) = (place.video, place.audio);
            let mut release = |frame: PlayedFrame, times: DueTimes| {
                let track = if frame.is_audio { audio } else { Some(video) };
                due.extend(track.map(|track| DueFrame {
                    live: track.live,
                    bytes: frame.bytes,
                    times,
                }));
            };
            if player.play(directory, now_ns, &mut release) {
                ended.extend(tracks.map(|track| track.title));
            }
        }
        (due, ended)
    }
}

impl Player {
    fn new(stream: String, start_ms: u64) -> Self {
        Self {
            stream,
            start_ms,
            reader: None,
            next: None,
            base: None,
            skipped_ns: 0,
            last: None,
            begun_ns: None,
            latest_ns: 0,
        }
    }

    /// Stops reading; the player resumes at the last frame.
    fn pause(&mut self) {
        if self.reader.take().is_some() {
            let last_ms = self.last.map(|(decode_ns, _)| decode_ns / 1_000_000);
            self.start_ms = last_ms.unwrap_or(self.start_ms);
        }
        (self.next, self.base, self.last, self.skipped_ns) = (None, None, None, 0);
    }

    /// Calls `each` for every frame that is due soon. Returns whether the recording has ended.
    fn play(
        &mut self,
        directory: &Directory,
        now_ns: u64,
        each: &mut impl FnMut(PlayedFrame, DueTimes),
    ) -> bool {
        if self.reader.is_none() {
            let stream = self.stream.clone();
            match reader::start(directory.clone(), stream, self.start_ms) {
                Ok(frames) => self.reader = Some(frames),
                Err(error) => {
                    eprintln!("cannot read recordings of stream `{}`: {error}", self.stream);
                    return true;
                }
            }
        }
        let Some(reader) = &self.reader else { return true };
        loop {
            let frame = match self.next.take() {
                Some(frame) => frame,
                None => match reader.try_recv() {
                    Ok(frame) => frame,
                    Err(TryRecvError::Empty) => return false,
                    Err(TryRecvError::Disconnected) => {
                        let last_ns = self.last.map_or(0, |(_, due_ns)| due_ns);
                        return now_ns > last_ns.saturating_add(READING_NS);
                    }
                },
            };
            // Frames from before a pause entered the ring ahead of time: those that follow are
            // later, as timestamps must not go back.
            let earliest_ns = now_ns.max(self.latest_ns).saturating_add(START_NS);
            let (first_ns, start_ns) = *self.base.get_or_insert((frame.decode_ns, earliest_ns));
            let begun_ns = *self.begun_ns.get_or_insert(start_ns);
            if let Some((last_ns, _)) = self.last
                && let Some(gap_ns) = frame.decode_ns.checked_sub(last_ns)
                && gap_ns > MAX_GAP_NS
            {
                self.skipped_ns += gap_ns - GAP_NS;
                self.last = Some((frame.decode_ns, 0));
            }
            let after = |time_ns: u64| time_ns.saturating_sub(first_ns + self.skipped_ns);
            let due_ns = start_ns.saturating_add(after(frame.decode_ns));
            if due_ns > now_ns.saturating_add(LEAD_NS) {
                self.next = Some(frame);
                return false;
            }
            let latest_ns = self.last.map_or(0, |(last_ns, _)| last_ns).max(frame.decode_ns);
            self.last = Some((latest_ns, due_ns));
            let captured_ns = start_ns.saturating_add(after(frame.present_ns));
            let present_ns = captured_ns.saturating_sub(begun_ns);
            self.latest_ns = self.latest_ns.max(due_ns).max(captured_ns);
            each(frame, DueTimes { release_ns: due_ns.max(now_ns), present_ns, captured_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::reader::queue;

    const MS: u64 = 1_000_000;
    const UTC_NS: u64 = 1_795_725_600_000 * MS;

    fn player(reader: PlayedFrames) -> Player {
        Player { reader: Some(reader), ..Player::new("cam".to_owned(), 0) }
    }

    fn frame(decode_ms: u64, present_ms: u64, is_audio: bool) -> PlayedFrame {
        let [decode_ns, present_ns] = [decode_ms, present_ms].map(|ms| UTC_NS + ms * MS);
        PlayedFrame { is_audio, decode_ns, present_ns, bytes: vec![1] }
    }

    /// Returns the release and presentation times, ms, of frames that become due by `now_ms`, and
    /// whether the recording has ended.
    fn due(player: &mut Player, now_ms: u64) -> (Vec<[u64; 2]>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), &[], 0, None).unwrap();
        let mut times = Vec::new();
        let ended = player.play(&directory, now_ms * MS, &mut |_, of: DueTimes| {
            assert_eq!(of.captured_ns - of.present_ns, 1_050 * MS);
            times.push([of.release_ns / MS, of.present_ns / MS]);
        });
        (times, ended)
    }

    #[test]
    fn frames_are_released_at_their_times_and_long_gaps_are_left_out() {
        let (frames, reader) = queue();
        let mut player = player(reader);
        for (decode, present, is_audio) in
            [(0, 0, false), (10, 10, true), (40, 120, false), (600, 600, false)]
        {
            assert!(frames.send(frame(decode, present, is_audio)));
        }
        assert_eq!(due(&mut player, 1_000), (vec![[1_050, 0], [1_060, 10], [1_090, 120]], false));
        // 1,650 ms is due half a second before; then a gap of ten seconds, and one of a second.
        assert_eq!(due(&mut player, 1_140), (vec![], false));
        for decode in [10_600, 11_600] {
            assert!(frames.send(frame(decode, decode, false)));
        }
        assert_eq!(due(&mut player, 1_200), (vec![[1_650, 600], [1_690, 640]], false));
        drop(frames);
        assert_eq!(due(&mut player, 2_700), (vec![[2_700, 1_640]], false));
        assert_eq!(due(&mut player, 3_600), (vec![], false));
        assert_eq!(due(&mut player, 3_700), (vec![], true));
    }

    #[test]
    fn a_pause_resumes_at_the_last_frame() {
        let (frames, reader) = queue();
        let mut player = player(reader);
        assert!(frames.send(frame(40, 40, false)));
        due(&mut player, 1_000);
        player.pause();
        assert_eq!(player.start_ms, UTC_NS / MS + 40);
        assert!(player.reader.is_none() && player.base.is_none());
    }

    #[test]
    fn presentation_times_increase_across_pauses() {
        let (frames, reader) = queue();
        let mut player = player(reader);
        for (decode, present) in [(0, 80), (400, 480)] {
            assert!(frames.send(frame(decode, present, false)));
        }
        assert_eq!(due(&mut player, 1_000).0, [[1_050, 80], [1_450, 480]]);
        let mut resume = |now_ms| {
            player.pause();
            let (frames, reader) = queue();
            player.reader = Some(reader);
            assert!(frames.send(frame(0, 80, false)));
            due(&mut player, now_ms).0
        };
        // The last frame is presented at 1,530 ms: a new one follows 50 ms after it.
        assert_eq!(resume(1_100), [[1_580, 610]]);
        // After a longer pause, frames follow the machine's clock.
        assert_eq!(resume(31_000), [[31_050, 30_080]]);
    }
}
