//! The table of connections: accepts, reads, answers, writes, evicts and closes them.

use millstream_sync::clock::system::now_ns;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use std::time::Duration;

use super::FIRST_CONNECTION;
use super::handover::{FrameSources, Handover};
use super::listeners::{Accepted, ListenerSet};
use crate::hls::handler::HlsHandler;
use crate::http::MAX_BODY_BYTES;
use crate::live::publishing::Publishing;
use crate::pages::rejects::{Reason, limited_address};
use crate::rtmp::{RtmpConnection, RtmpHandler};
use crate::rtsp::connection::{Connection, UNREAD};
use crate::rtsp::session::Sessions;
use crate::rtsp::tcp;
use crate::rtsp::tls::Secured;
use crate::rtsp::{Requester, RtspHandler};
use crate::shared_memory::region::Region;
use crate::webrtc::handler::WebRtcHandler;
use crate::webrtc::peers::Peers;

/// The most bytes of responses in pieces that a turn of a connection writes. A client that reads
/// fast must not keep others waiting.
const TURN_BYTES: usize = 1 << 20;

/// What a request costs of `TURN_BYTES` besides its response.
const REQUEST_COST: usize = 16 << 10;

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The most connections per client address.
    pub(super) per_address: usize,
    /// How long a client may be silent, ns.
    pub(super) idle_timeout_ns: u64,
    /// How long a client may leave output unread, ns.
    pub(super) stall_timeout_ns: u64,
    /// The largest frame of a publisher, bytes.
    pub(super) frame_bytes: usize,
}

/// The connections of a server; the number of places is fixed.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    places: Vec<Option<Connection>>,
    /// The connections that used up their turn and have more to do.
    unfinished: Vec<usize>,
    handover: Handover,
    limits: Limits,
    registry: Registry,
}

/// What depends on a connection: the sessions and the publication of its client.
pub(super) struct Dependents<'a> {
    pub(super) sessions: &'a mut Sessions,
    pub(super) live: &'a mut Publishing,
    /// Wakes the data plane.
    pub(super) waker: &'a UnixStream,
}

impl<'a> Dependents<'a> {
    fn of(handler: &'a mut RtspHandler<'_, UnixStream>) -> Self {
        Self { sessions: handler.sessions, live: handler.live, waker: handler.waker }
    }

    /// Ends what depends on the closed connection at `place`.
    fn end(&mut self, place: usize, now_ns: u64) {
        self.live.closed(place, now_ns);
        self.sessions.disconnect(place, self.waker);
    }
}

impl ConnectionTable {
    /// Creates an empty table of `places` places; its sockets are registered at `registry`.
    pub(super) fn new(places: u32, limits: Limits, registry: Registry) -> Self {
        let places = (0..places).map(|_| None).collect();
        let (unfinished, handover) = (Vec::new(), Handover::default());
        Self { places, unfinished, handover, limits, registry }
    }

    /// Accepts all pending connections of a listener; closes those beyond the limits at once.
    pub(super) fn accept(
        &mut self,
        listeners: &ListenerSet,
        token: Token,
        dependents: &mut Dependents<'_>,
    ) {
        while let Some(accepted) = listeners.accept(token) {
            self.admit(accepted, dependents);
        }
    }

    /// Enters a new connection, unless a limit is reached.
    fn admit(&mut self, accepted: Accepted<'_>, dependents: &mut Dependents<'_>) {
        let Accepted { mut stream, peer, tls, http, hls, rtmp } = accepted;
        let now_ns = now_ns();
        let others = self.places.iter().flatten();
        let of_peer =
            others.filter(|other| limited_address(other.peer) == limited_address(peer)).count();
        if of_peer >= self.limits.per_address {
            return dependents.sessions.rejects.record(Reason::Connections, peer, now_ns);
        }
        let free = self.places.iter().position(Option::is_none);
        let Some(place) = free.or_else(|| self.evict(now_ns, dependents)) else {
            return dependents.sessions.rejects.record(Reason::Full, peer, now_ns);
        };
        let Ok(tls) = tls.map(Secured::new).transpose() else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(place + FIRST_CONNECTION);
        if self.registry.register(&mut stream, token, interest).is_ok() {
            tcp::set_up(&stream, self.limits.stall_timeout_ns);
            let connection = Connection::new(stream, peer, now_ns);
            let connection = match http {
                Some(local) if hls => connection.with_hls(local),
                Some(local) => connection.with_http(local),
                None if rtmp => connection.with_rtmp(RtmpConnection::new(self.limits.frame_bytes)),
                None => connection,
            };
            self.places[place] = Some(match tls {
                Some(tls) => connection.secured(tls),
                None => connection,
            });
        }
    }

    /// Closes the oldest connection without an answered request. Returns its index.
    ///
    /// A client sends a request as soon as it is connected. So the connection that has been silent
    /// or slow for longest is the least likely to be a client. So a flood of silent connections
    /// evicts its own connections, not the clients.
    fn evict(&mut self, now_ns: u64, dependents: &mut Dependents<'_>) -> Option<usize> {
        let all = self.places.iter().enumerate();
        let incomplete = all.filter_map(|(place, connection)| {
            Some((connection.as_ref()?.incomplete_since_ns()?, place))
        });
        let (_, place) = incomplete.min()?;
        let connection = self.places[place].take()?;
        dependents.sessions.rejects.record(Reason::Evicted, connection.peer, now_ns);
        self.end(connection, place, dependents);
        Some(place)
    }

    /// Reads, answers and writes whatever is ready on a connection.
    pub(super) fn serve(
        &mut self,
        place: usize,
        handler: &mut RtspHandler<'_, UnixStream>,
        peers: &mut Option<Peers>,
    ) {
        let Some(Some(mut connection)) = self.places.get_mut(place).map(Option::take) else {
            return;
        };
        let mut turn_bytes = TURN_BYTES;
        let (open, written) = loop {
            let open = receive(&mut connection, place, handler, peers);
            let has_pieces = connection.has_pieces();
            let written = connection.write(&mut turn_bytes);
            // Requests behind a response in pieces wait in the input.
            if !has_pieces || !open || connection.closing || !matches!(written, Ok(true)) {
                break (open, written);
            }
            turn_bytes = turn_bytes.saturating_sub(REQUEST_COST);
            if turn_bytes == 0 {
                break (open, written);
            }
        };
        if turn_bytes == 0 {
            self.unfinished.push(place);
        }
        self.handover.report(&mut connection, place, handler.sessions.region);
        let done = match written {
            Ok(everything) => everything && (connection.closing || !open),
            Err(_) => true,
        };
        if done || (!open && !connection.closing) {
            self.end(connection, place, &mut Dependents::of(handler));
        } else {
            self.places[place] = Some(connection);
        }
    }

    /// Returns whether connections must be served again without an event.
    pub(super) fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Takes the connections that must be served again without an event.
    pub(super) fn take_unfinished(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unfinished)
    }

    /// Closes the connection at `place`, if there is one.
    pub(super) fn close(&mut self, place: usize, dependents: &mut Dependents<'_>) {
        if let Some(connection) = self.places.get_mut(place).and_then(Option::take) {
            self.end(connection, place, dependents);
        }
    }

    fn end(&self, mut connection: Connection, place: usize, dependents: &mut Dependents<'_>) {
        connection.end();
        let _ = self.registry.deregister(&mut connection.stream);
        dependents.end(place, now_ns());
    }

    /// Closes the connections that are idle, stalled or stuck.
    pub(super) fn close_expired(&mut self, now_ns: u64, dependents: &mut Dependents<'_>) {
        for place in 0..self.places.len() {
            let Some(connection) = &self.places[place] else { continue };
            let silent_ns = now_ns.saturating_sub(connection.last_received_ns);
            let idle = silent_ns > self.limits.idle_timeout_ns
                && dependents.sessions.of_connection(place).is_empty()
                && dependents.live.of_connection(place).is_none()
                && !dependents.live.is_held(place);
            let stalled = connection.is_stalled(now_ns, self.limits.stall_timeout_ns);
            if (idle || stalled || connection.is_stuck(now_ns))
                && let Some(connection) = self.places[place].take()
            {
                if stalled {
                    // A connection that is closing is already counted.
                    dependents.sessions.stalled += u64::from(!connection.closing);
                    tcp::abandon(&connection.stream);
                }
                self.end(connection, place, dependents);
            }
        }
    }

    /// Returns when a connection last received something, ns.
    pub(super) fn last_received_ns(&self, place: usize) -> Option<u64> {
        Some(self.places.get(place)?.as_ref()?.last_received_ns)
    }

    /// Returns whether a connection has unsent output.
    pub(super) fn has_output(&self, place: usize) -> bool {
        let connection = self.places.get(place).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.room() < UNREAD)
    }

    /// Writes the frames that the data plane scheduled for interleaved clients to their
    /// connections.
    pub(super) fn forward_frames(&mut self, sessions: &mut Sessions, from: &mut FrameSources<'_>) {
        self.handover.forward(&mut self.places, sessions, from);
    }

    /// Polls connections whose clients read slowly. Returns the time until the next poll, at most
    /// `pause`.
    pub(super) fn poll_slow(&mut self, region: Region, pause: Duration) -> Duration {
        self.handover.poll(&mut self.places, region, pause)
    }

    /// Discards frames without an outcome after the data plane's end; the next one counts them as
    /// lost.
    pub(super) fn discard_pending_frames(&mut self) {
        for connection in self.places.iter_mut().flatten() {
            connection.transit().clear();
        }
    }
}

/// Reads and answers whatever is ready on a connection, until it has a response in pieces. Returns
/// whether the client keeps it open.
fn receive(
    connection: &mut Connection,
    place: usize,
    handler: &mut RtspHandler<'_, UnixStream>,
    peers: &mut Option<Peers>,
) -> bool {
    if connection.has_pieces() {
        // The client completed the requests behind the response, or is to wait with them.
        connection.hold_request();
        return true;
    }
    let body_bytes = if connection.http.is_some() { MAX_BODY_BYTES } else { 0 };
    let limit = handler.request_bytes + body_bytes;
    // Edge-triggered: read until the socket is empty, consuming complete messages in between.
    loop {
        let open = match connection.read(limit) {
            Ok(open) => open,
            Err(error) => {
                handler.sessions.stalled += u64::from(tcp::is_stall(&error));
                return false;
            }
        };
        let more = connection.input.len() > limit;
        if connection.closing {
            // Nothing is answered after the last response.
            connection.input.clear();
            return open;
        }
        if !connection.input.is_empty() {
            connection.last_received_ns = now_ns();
        }
        // The input behind a held request waits with it.
        if handler.live.is_held(place) {
            return open && !more;
        }
        let before = connection.input.len();
        let admitted = handler.sessions.admitted;
        let answered = connection.end_of_output();
        answer_requests(connection, place, open, handler, peers);
        connection.answered |= connection.end_of_output() > answered;
        if handler.sessions.admitted != admitted {
            let rate_bps = handler.sessions.interleaved_bps(handler.library, place);
            tcp::bound(&connection.stream, rate_bps);
        }
        if handler.live.is_held(place) {
            connection.hold_request();
            continue;
        }
        connection.track_progress(connection.input.len() < before, now_ns());
        if !open || !more || connection.closing || connection.has_pieces() {
            return open;
        }
    }
}

/// Answers the complete requests of a connection; of an HLS player the first one. `open`: the
/// client keeps it open.
fn answer_requests(
    connection: &mut Connection,
    place: usize,
    open: bool,
    handler: &mut RtspHandler<'_, UnixStream>,
    peers: &mut Option<Peers>,
) {
    let secured = connection.is_secured();
    let requester = Requester { peer: connection.peer, connection: place, secured };
    let room = connection.room();
    handler.now_ns = now_ns();
    let (local, hls) = (connection.http, connection.hls);
    let mut rtmp = connection.rtmp.take();
    let (input, output, pass) = connection.parts();
    if let Some(publisher) = &mut rtmp {
        let mut publisher = RtmpHandler { shared: handler, connection: publisher };
        let open = publisher.process_input(input, output, pass, room, requester);
        connection.closing |= !open;
        connection.rtmp = rtmp;
        return;
    }
    if let Some(local) = local.filter(|_| hls) {
        let mut player = HlsHandler { shared: handler, local };
        let (pieces, open) = player.process_request(input, pass, requester);
        connection.queue(pieces, handler.now_ns);
        connection.closing |= !open;
        return;
    }
    let open = match (local, peers) {
        (Some(local), Some(peers)) => WebRtcHandler { shared: handler, peers, local, open }
            .process_input(input, output, pass, room, requester),
        _ => handler.process_input(input, output, pass, room, requester),
    };
    connection.closing |= !open;
}
