//! Paths of live streams: a stream of the file with `paths` serves as many streams `STREAM/NAME` at
//! once.
//!
//! ```text
//! ANNOUNCE cam/front ──> place with that name, else one without, else the one free for longest
//! place: named ── publisher or players ── both gone ──> free; keeps its name and its counters
//! ```
//! Each path is a live stream of its own, with a ring and a contract. It has a name from its first
//! publisher on, or from the first request that is held for one. It keeps the name until another
//! takes its place: a publisher that returns continues its counters, and memory is bounded.

use super::Unavailable;
use super::publishing::{AudioDescription, Publishing};
use crate::files::library::{Title, is_name};
use crate::rtsp::session::Sessions;
use crate::shared_memory::live_frames::MAX_NAME;

/// Names that a path cannot have: they end the URLs of tracks.
const TRACKS: [&str; 2] = ["audio", "video"];

impl Publishing {
    /// Returns the index of the live stream with this name, which publishers and players request.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        let is = |number: &usize| self.is_published_as(*number, name);
        (0..self.streams.len()).find(is)
    }

    fn is_published_as(&self, number: usize, name: &str) -> bool {
        let stream = &self.streams[number];
        let publishes = stream.spec.audio.is_none() && !stream.spec.plays_recordings;
        publishes && stream.is_named() && stream.name == name
    }

    /// Returns whether the file's stream of this name has paths.
    pub(crate) fn has_paths(&self, stream: &str) -> bool {
        self.streams.iter().any(|of| of.spec.path.is_some() && of.spec.stream == stream)
    }

    /// Returns the index of a live stream with the contract of `name`. That is the stream called
    /// `name`; if there is none and `name` is `STREAM/NAME`, it is the first path of STREAM.
    ///
    /// # Errors
    /// Fails if there is no such stream, or it cannot have this path.
    pub(crate) fn contract_of(&self, name: &str) -> Result<usize, Unavailable> {
        if let Some(stream) = self.index_of(name) {
            return Ok(stream);
        }
        let (own, path) = name.split_once('/').unwrap_or((name, ""));
        let is_first = |of: &super::publishing::LiveStream| {
            of.spec.path == Some(0) && of.spec.audio.is_none() && of.spec.stream == own
        };
        let Some(first) = self.streams.iter().position(is_first) else {
            return Err(Unavailable::Missing(format!("unknown live stream `{name}`")));
        };
        if path.is_empty() || path.len() > MAX_NAME || !is_name(path) || TRACKS.contains(&path) {
            let why = format!(
                "stream `{own}` has paths {own}/NAME; NAME has up to {MAX_NAME} letters, digits, \
                 - _ and ., begins with no ., and is not audio or video"
            );
            return Err(Unavailable::Missing(why));
        }
        Ok(first)
    }

    /// Returns the index of the live stream called `name`. A path without a place takes a free one.
    ///
    /// # Errors
    /// Fails if there is no such stream, or no free place.
    pub(crate) fn claim(
        &mut self,
        name: &str,
        sessions: &mut Sessions,
    ) -> Result<usize, Unavailable> {
        let first = self.contract_of(name)?;
        if self.is_published_as(first, name) {
            return Ok(first);
        }
        let own = self.streams[first].spec.stream.clone();
        let places = (0..self.streams.len()).filter(|number| {
            let spec = &self.streams[*number].spec;
            spec.path.is_some() && spec.audio.is_none() && spec.stream == own
        });
        let places: Vec<usize> = places.collect();
        let free = places.iter().copied().filter(|number| self.is_free(*number, sessions));
        let used_ns = |number: &usize| {
            let stream = &self.streams[*number];
            (stream.path.is_some(), stream.left_ns)
        };
        let Some(place) = free.min_by_key(used_ns) else {
            let count = places.len();
            let why = format!("all {count} paths of `{own}` are in use");
            return Err(Unavailable::Busy(why));
        };
        let path = name.split_once('/').map_or("", |(_, path)| path);
        self.name_path(place, path);
        self.streams[place].ingest.ring().set_name(path);
        self.hls.begin_path(place, self.publications + 1);
        for number in self.tracks_of(place) {
            let stream = &mut self.streams[number];
            let counts = stream.ingest.begin_counts();
            stream.waits_since_ns = 0;
            stream.description = AudioDescription::default();
            self.former = self.former.plus(counts);
            sessions.begin_totals(self.streams[number].spec.title);
        }
        Ok(place)
    }

    /// Names the path at a place, and its audio.
    pub(super) fn name_path(&mut self, place: usize, path: &str) {
        let name = format!("{}/{path}", self.streams[place].spec.stream);
        for number in self.tracks_of(place) {
            let stream = &mut self.streams[number];
            let track = if stream.spec.audio.is_some() { "/audio" } else { "" };
            stream.path = Some(path.to_owned());
            stream.name = format!("{name}{track}");
            stream.stream.clone_from(&name);
        }
    }

    /// Returns whether a place has neither a publisher nor players, and no command publishes it.
    fn is_free(&self, place: usize, sessions: &Sessions) -> bool {
        let of_place =
            |title: usize| self.tracks_of(place).any(|at| self.streams[at].spec.title == title);
        self.streams[place].publisher.is_none()
            && self.on_demand.is_idle(place)
            && !sessions.iter().any(|(_, session)| of_place(session.title))
    }

    /// Ends the wait for publishers of paths without players: their places are free.
    pub(crate) fn release_paths(&mut self, sessions: &Sessions) {
        for place in 0..self.streams.len() {
            let stream = &self.streams[place];
            let waits = stream.waits_since_ns != 0 && stream.spec.path.is_some();
            if waits && stream.spec.audio.is_none() && self.is_free(place, sessions) {
                for number in self.tracks_of(place) {
                    self.streams[number].waits_since_ns = 0;
                }
            }
        }
    }

    /// Returns the name of a title in URLs and pages now.
    pub(crate) fn name_of<'a>(&'a self, title: &'a Title) -> &'a str {
        let live = title.live.and_then(|live| self.streams.get(live));
        live.map_or(&title.name, |live| &live.name)
    }

    /// Returns the name of the stream of a title, without its track or window. A place for a player
    /// of recordings has that of the recorded stream.
    pub(crate) fn stream_of<'a>(&'a self, title: &'a Title) -> &'a str {
        let live = title.live.and_then(|live| self.streams.get(live));
        live.map_or(&title.stream, |live| &live.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{live, own_region};
    use crate::hls::{Hls, Product};
    use crate::live::publishing::Track;
    use crate::recording::segment::Fragment;
    use crate::rtsp::Requester;
    use crate::rtsp::session::Transport;
    use std::net::IpAddr;
    use std::sync::Arc;

    const S: u64 = 1_000_000_000;
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// Returns the name of the place of a path, or why it has none.
    fn claim(live: &mut Publishing, sessions: &mut Sessions, name: &str) -> Result<usize, String> {
        live.claim(name, sessions).map_err(|unavailable| match unavailable {
            Unavailable::Missing(why) => format!("404 {why}"),
            Unavailable::Busy(why) => format!("503 {why}"),
        })
    }

    fn publish(live: &mut Publishing, place: usize) {
        live.announce(place, (place, HERE), Track::default(), S);
    }

    #[test]
    fn a_path_has_a_place_until_its_publisher_and_its_players_are_gone() {
        let (library, _) = crate::fuzzing::resources();
        let mut live = live();
        let mut sessions = Sessions::new(own_region(), 20_000_000);
        let a = claim(&mut live, &mut sessions, "cam/a").unwrap();
        publish(&mut live, a);
        let b = claim(&mut live, &mut sessions, "cam/b").unwrap();
        publish(&mut live, b);
        assert!(a != b);
        assert_eq!(claim(&mut live, &mut sessions, "cam/a"), Ok(a), "its own place");
        assert_eq!(live.index_of("cam/a"), Some(a));
        let names =
            |place: usize| (live.streams[place].name.as_str(), live.streams[place].spec.path);
        assert_eq!([names(a), names(b)], [("cam/a", Some(0)), ("cam/b", Some(1))]);
        let why = claim(&mut live, &mut sessions, "cam/c").unwrap_err();
        assert_eq!(why, "503 all 2 paths of `cam` are in use");
        // A player has the place after the publisher.
        let by = Requester { peer: HERE, connection: 9, secured: false };
        let title = live.streams[a].spec.title;
        let udp = Transport::Udp(5_000, 5_001);
        let row = sessions.admit(library, title, None, udp, by, S).unwrap();
        live.leave(a, 2 * S);
        assert!(claim(&mut live, &mut sessions, "cam/c").unwrap_err().starts_with("503"));
        let (waker, _other) = mio::net::UnixStream::pair().unwrap();
        sessions.stop_title(title, &waker);
        sessions.sweep(&[row]);
        live.release_paths(&sessions);
        assert!(!live.is_available(a));
        // The name stays until another takes the place.
        assert_eq!(live.index_of("cam/a"), Some(a));
        assert_eq!(claim(&mut live, &mut sessions, "cam/c"), Ok(a));
        assert_eq!((live.index_of("cam/a"), live.index_of("cam/c")), (None, Some(a)));
        assert_eq!(live.streams[a].ingest.ring().name().as_deref(), Some("c"));
        assert_eq!(live.streams[b].ingest.ring().name().as_deref(), Some("b"));
        // A server that adopts the rings knows the names.
        let rings = live.streams.iter().map(|stream| stream.ingest.ring()).collect();
        let specs: Vec<_> = live.streams.iter().map(|stream| stream.spec.clone()).collect();
        let adopted = Publishing::of(&specs, rings, S, Some(S));
        assert_eq!(adopted.index_of("cam/c"), Some(a));
        live.streams[a].ingest.ring().set_name("");
        live.streams[b].ingest.ring().set_name("");
    }

    #[test]
    fn a_path_does_not_have_the_presentation_of_the_path_before() {
        let mut live = live();
        live.hls = Hls::without_packager(&live.streams);
        let mut sessions = Sessions::new(own_region(), 20_000_000);
        let names = |live: &Publishing| -> Vec<(String, u64)> {
            live.hls.status().into_iter().map(|of| (of.stream, of.segments)).collect()
        };
        let begin = |live: &mut Publishing, sessions: &mut Sessions, name: &str| {
            let place = claim(live, sessions, name).unwrap();
            publish(live, place);
            live.streams[place].publisher.as_mut().unwrap().transport =
                Some(Transport::Interleaved(0, 1));
            live.record(place, S);
            place
        };
        let a = begin(&mut live, &mut sessions, "cam/a");
        live.hls.add_to(a, &[Product::Begin(Arc::from("cam/a"), 1), Product::Tracks(vec![1])]);
        let fragment = Fragment { bytes: vec![1], ticks: 1, key: true, begins_group: true };
        live.hls.add_to(a, &[Product::Part(fragment), Product::End]);
        let b = begin(&mut live, &mut sessions, "cam/b");
        let mut expected = [("cam/a".to_owned(), 1), ("cam/b".to_owned(), 0)];
        expected.sort_by_key(|(name, _)| live.index_of(name));
        assert_eq!(names(&live), expected);
        live.leave(a, 2 * S);
        live.leave(b, 3 * S);
        assert_eq!(claim(&mut live, &mut sessions, "cam/c"), Ok(a));
        assert_eq!(names(&live), [("cam/b".to_owned(), 0)]);
        // Its products come later than the publication that follows.
        live.hls.add_to(a, &[Product::End]);
        assert_eq!(begin(&mut live, &mut sessions, "cam/c"), a);
        live.hls.add_to(a, &[Product::End]);
        let mut expected = [("cam/b".to_owned(), 0), ("cam/c".to_owned(), 0)];
        expected.sort_by_key(|(name, _)| live.index_of(name));
        assert_eq!(names(&live), expected);
        live.streams[a].ingest.ring().set_name("");
        live.streams[b].ingest.ring().set_name("");
    }

    #[test]
    fn of_the_free_places_the_one_that_was_left_first_is_taken() {
        let mut live = live();
        let mut sessions = Sessions::new(own_region(), 20_000_000);
        let [a, b] = ["cam/a", "cam/b"].map(|name| {
            let place = claim(&mut live, &mut sessions, name).unwrap();
            publish(&mut live, place);
            place
        });
        live.leave(b, 2 * S);
        live.leave(a, 3 * S);
        assert_eq!(claim(&mut live, &mut sessions, "cam/a"), Ok(a));
        assert_eq!(claim(&mut live, &mut sessions, "cam/c"), Ok(b));
    }

    #[test]
    fn names_of_paths_are_bounded_and_shadow_no_stream() {
        let mut live = live();
        let mut sessions = Sessions::new(own_region(), 20_000_000);
        let longest = format!("cam/{}", "x".repeat(MAX_NAME));
        assert!(claim(&mut live, &mut sessions, &longest).is_ok());
        let long = format!("{longest}x");
        for name in [
            "cam",
            "cam/",
            "cam/*",
            "cam/.x",
            "cam/a/b",
            "cam/a b",
            "cam/ä",
            "cam/audio",
            "cam/video",
            &long,
        ] {
            let why = claim(&mut live, &mut sessions, name).unwrap_err();
            assert!(why.starts_with("404 stream `cam` has paths cam/NAME"), "{name}: {why}");
        }
        for name in ["film", "film/a", "live/a", "live/audio", "", "cams/a", "/a"] {
            let why = claim(&mut live, &mut sessions, name).unwrap_err();
            assert_eq!(why, format!("404 unknown live stream `{name}`"));
        }
        assert!(claim(&mut live, &mut sessions, "live").is_ok());
    }
}
