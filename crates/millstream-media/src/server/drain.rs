//! Draining: running clips continue, no new ones start; then the server ends.

use std::time::{Duration, Instant};

use super::{MediaServer, TICK};
use crate::rtsp::connection::UNREAD;
use crate::shared_memory::region::{State, Want};

/// The state of a drain.
#[derive(Debug)]
pub(super) struct Drain {
    until: Instant,
    /// Since when no clip runs.
    quiet_since: Option<Instant>,
    cut_off: u64,
}

impl Drain {
    /// Stops admission and begins the drain.
    pub(super) fn begin(server: &mut MediaServer) -> Self {
        server.sessions.draining = true;
        let limit = Duration::from_nanos(server.media.drain_timeout_ns);
        eprintln!("draining: {} clients play on, for at most {limit:?}", server.running());
        Self { until: Instant::now() + limit, quiet_since: None, cut_off: 0 }
    }

    /// Returns whether the server may end: no clip runs, or `drain-timeout` has passed.
    pub(super) fn is_over(&mut self, server: &MediaServer) -> bool {
        let (now, running) = (Instant::now(), server.running());
        if running > 0 && now < self.until {
            self.quiet_since = None;
            return false;
        }
        if running > 0 {
            self.cut_off = running;
            let limit = Duration::from_nanos(server.media.drain_timeout_ns);
            eprintln!("drained for {limit:?}: {running} clients are cut off");
            return true;
        }
        // An RTCP BYE follows the end of a clip; the client's connection may still have to send it.
        let quiet = now.duration_since(*self.quiet_since.get_or_insert(now)) > TICK;
        if quiet {
            eprintln!("drained: no clip runs any more");
        }
        quiet
    }

    /// Returns the number of clients that still played when `drain-timeout` passed.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off
    }
}

impl MediaServer {
    /// Returns the number of clients whose clip still runs or whose connection still has unsent
    /// bytes.
    fn running(&self) -> u64 {
        let runs = |number: usize, place: usize| {
            let row = self.sessions.region.session(number);
            let unsent = self.connections.get(place).and_then(Option::as_ref);
            match (row.want(), row.state()) {
                (Want::Stop, _) | (_, State::Stopped) => false,
                (Want::Play, State::Ended) => unsent.is_some_and(|c| c.room() < UNREAD),
                (Want::Play, _) => true,
                _ => false,
            }
        };
        let running = self.sessions.iter().filter(|(n, session)| runs(*n, session.connection));
        running.count() as u64
    }
}
