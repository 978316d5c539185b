//! HLS: players get live streams as short files over HTTP (RFC 8216), with the parts and blocking
//! requests of Low-Latency HLS (draft-pantos-hls-rfc8216bis).
//!
//! ```text
//! ingest ── tap ── bounded queue ──> packager (thread): fragmented MP4 ── bounded queue ──┐
//! player <── handler: playlists, segments, parts <── presentation: the last segments <────┘
//! ```
//! The host copies each released frame into the queue and never waits: if the packager is slow, HLS
//! loses whole groups of pictures. Session control has the finished parts and answers requests. A
//! player is no client of the schedule: it has no contract, and its bytes are not paced.

pub(crate) mod handler;
pub(crate) mod packager;
mod playlist;
pub(crate) mod presentation;

use millstream_traffic::mpeg::Codec;
use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};

use crate::live::held::HeldRequests;
use crate::live::publishing::{LiveSpec, LiveStream};
use crate::pages::status::HlsStatus;
use crate::recording::tap::{Counts, tap_tracks};
use presentation::{Presentation, Wanted};

/// The most messages in the packager's queue for each stream.
const MESSAGES: usize = 256;

/// The time for which a stream's frames may wait for the packager at its rate, s.
const QUEUED_SECONDS: u64 = 2;

/// The most parts that wait for session control.
const PARTS: usize = 64;

/// What the packager has made of a stream's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// A publication begins: the name of its stream, and its number.
    Begin(Arc<str>, u64),
    /// The declaration of the tracks of the parts that follow.
    Tracks(Vec<u8>),
    /// The next part.
    Part(crate::recording::segment::Fragment),
    /// The publication has ended.
    End,
}

/// The presentations of a server's live streams by HLS.
#[derive(Debug, Default)]
pub(crate) struct Hls {
    presentations: Vec<Presentation>,
    /// The counters of the taps, by presentation.
    counts: Vec<Arc<Counts>>,
    /// What the packager has made, by index of the presentation.
    products: Option<Receiver<(usize, Product)>>,
    /// The requests that wait for a playlist or a part, by index of the presentation.
    pub(crate) held: HeldRequests<(usize, Wanted)>,
}

/// Returns whether a live stream can be played by HLS.
pub(crate) fn is_playable(spec: &LiveSpec) -> bool {
    spec.codec == Codec::H264 && spec.audio.is_none() && !spec.plays_recordings
}

impl Hls {
    /// Taps the live streams, and starts the packager. It wakes session control for its products.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    pub(crate) fn start(streams: &mut [LiveStream], waker: Arc<Waker>) -> io::Result<Self> {
        let video = streams.iter().enumerate().filter(|(_, stream)| is_playable(&stream.spec));
        let presentations: Vec<Presentation> = video
            .map(|(live, stream)| Presentation::new(live, stream.spec.allowance.rate_bps))
            .collect();
        let counts: Vec<Arc<Counts>> = presentations.iter().map(|_| Arc::default()).collect();
        let (queue, messages) = sync_channel(MESSAGES * presentations.len().max(1));
        tap_tracks(streams, &queue, QUEUED_SECONDS, |spec, video| {
            let found = presentations.iter().position(|of| of.live == video);
            let found = found.filter(|_| !spec.plays_recordings)?;
            Some((found, Arc::clone(&counts[found])))
        });
        let (send, products) = sync_channel(PARTS);
        let of_thread = counts.clone();
        packager::start(messages, of_thread, move |stream, product| {
            send.send((stream, product)).is_ok() && waker.wake().is_ok()
        })?;
        Ok(Self { presentations, counts, products: Some(products), held: HeldRequests::default() })
    }

    /// Creates the presentations of these live streams for tests, without a packager.
    pub(crate) fn without_packager(streams: &[LiveStream]) -> Self {
        let video = streams.iter().enumerate().filter(|(_, stream)| is_playable(&stream.spec));
        let presentations: Vec<Presentation> =
            video.map(|(live, _)| Presentation::new(live, 1_000_000)).collect();
        let counts = presentations.iter().map(|_| Arc::default()).collect();
        Self { presentations, counts, ..Self::default() }
    }

    /// Receives what the packager has made.
    pub(crate) fn receive(&mut self, now_ns: u64) {
        let Some(products) = &self.products else { return };
        while let Ok((stream, product)) = products.try_recv() {
            if let Some(presentation) = self.presentations.get_mut(stream) {
                presentation.add(product, now_ns);
            }
        }
    }

    /// Returns the beginning of the names of a presentation's files.
    pub(crate) fn prefix(&self, stream: usize) -> String {
        self.presentations.get(stream).map(|of| of.prefix.clone()).unwrap_or_default()
    }

    /// Adds a product to the presentation with this index.
    pub(crate) fn add(&mut self, stream: usize, product: Product, now_ns: u64) {
        if let Some(presentation) = self.presentations.get_mut(stream) {
            presentation.add(product, now_ns);
        }
    }

    /// Gives the presentation of a live stream up: another path has the stream's place, and its
    /// publications are numbered from `publication` on.
    pub(crate) fn begin_path(&mut self, live: usize, publication: u64) {
        if let Some(found) = self.of_live(live) {
            self.presentations[found].begin_path(publication);
        }
    }

    /// Begins a publication of a live stream before the packager has its first frame. Players of
    /// the publication before must not get a playlist that has ended.
    pub(crate) fn begin(&mut self, live: usize, (name, publication): (&str, u64)) {
        if let Some(found) = self.of_live(live) {
            self.presentations[found].begin(Arc::from(name), publication);
        }
    }

    /// Adds products to the presentation of a live stream.
    #[cfg(test)]
    pub(crate) fn add_to(&mut self, live: usize, products: &[Product]) {
        let found = self.of_live(live).unwrap();
        products.iter().for_each(|product| self.add(found, product.clone(), 1));
    }

    /// Removes old files of ended publications. Returns the connections to answer: their held
    /// requests are ready or have timed out.
    pub(crate) fn tick(&mut self, now_ns: u64) -> Vec<usize> {
        for presentation in &mut self.presentations {
            presentation.expire(now_ns);
        }
        let presentations = &self.presentations;
        let is_ready = |(stream, wanted): &(usize, Wanted)| {
            presentations.get(*stream).is_none_or(|of| of.is_ready(*wanted))
        };
        self.held.due(is_ready, now_ns)
    }

    /// Returns whether a player of a live stream has requested a playlist within 20 s.
    pub(crate) fn is_watched(&self, live: usize, now_ns: u64) -> bool {
        let found = self.presentations.iter().find(|of| of.live == live);
        found.is_some_and(|of| of.is_watched(now_ns))
    }

    /// Returns the index of the presentation of a live stream.
    pub(crate) fn of_live(&self, live: usize) -> Option<usize> {
        self.presentations.iter().position(|of| of.live == live)
    }

    /// Returns the state of each stream that has been published.
    pub(crate) fn status(&self) -> Vec<HlsStatus> {
        let published = self.presentations.iter().zip(&self.counts);
        let published = published.filter_map(|(of, counts)| Some((of.name()?, of, counts)));
        let status = |(name, of, counts): (&str, &Presentation, &Arc<Counts>)| HlsStatus {
            stream: name.to_owned(),
            frames: counts.frames.load(Ordering::Relaxed),
            lost_frames: counts.lost_frames.load(Ordering::Relaxed),
            lost_groups: counts.lost_groups.load(Ordering::Relaxed),
            failures: counts.failures.load(Ordering::Relaxed),
            segments: of.segments(),
            parts: of.parts(),
            held_bytes: of.bytes() as u64,
            playlists: of.playlists,
            served_bytes: of.served_bytes,
        };
        published.map(status).collect()
    }
}
