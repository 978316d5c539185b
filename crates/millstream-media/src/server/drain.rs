//! Draining: current clips continue, no new ones start; then the server ends.

use std::time::{Duration, Instant};

use super::TICK;
use super::connections::ConnectionTable;
use crate::rtsp::session::Sessions;
use crate::shared_memory::region::{RequestedState, State};

/// The state of a drain.
#[derive(Debug)]
pub(super) struct Drain {
    until: Instant,
    /// The configured `drain-timeout`.
    limit: Duration,
    /// When the last clip ended; `None` while a clip runs.
    quiet_since: Option<Instant>,
    cut_off: u64,
}

impl Drain {
    /// Begins the drain of a server with `running` clients.
    pub(super) fn begin(drain_timeout_ns: u64, running: u64) -> Self {
        let limit = Duration::from_nanos(drain_timeout_ns);
        eprintln!("draining: {running} clients continue for at most {limit:?}");
        Self { until: Instant::now() + limit, limit, quiet_since: None, cut_off: 0 }
    }

    /// Returns whether the server may end: no clip runs, or `drain-timeout` has passed.
    pub(super) fn is_over(&mut self, running: u64) -> bool {
        let now = Instant::now();
        if running > 0 && now < self.until {
            self.quiet_since = None;
            return false;
        }
        if running > 0 {
            self.cut_off = running;
            let limit = self.limit;
            eprintln!("drain timeout of {limit:?}: disconnecting {running} clients");
            return true;
        }
        // An RTCP BYE follows the end of a clip; the client's connection may still have to send it.
        let quiet = now.duration_since(*self.quiet_since.get_or_insert(now)) > TICK;
        if quiet {
            eprintln!("drained: no clip is playing");
        }
        quiet
    }

    /// Returns the number of clients that still played when `drain-timeout` passed.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off
    }
}

/// Returns the number of clients whose clip still runs or whose connection still has unsent bytes.
pub(super) fn running_clients(sessions: &Sessions, connections: &ConnectionTable) -> u64 {
    let track_runs = |number: usize, place: usize| {
        let row = sessions.region.session(number);
        match (row.requested_state(), row.state()) {
            (RequestedState::Stop, _) | (_, State::Stopped) => false,
            (RequestedState::Play, State::Ended) => connections.has_output(place),
            (RequestedState::Play, _) => true,
            _ => false,
        }
    };
    let runs = |number: usize, place: usize| {
        sessions.tracks(number).into_iter().any(|track| track_runs(track, place))
    };
    let clients = sessions.iter().filter(|(_, session)| !session.second);
    clients.filter(|(number, session)| runs(*number, session.connection)).count() as u64
}
