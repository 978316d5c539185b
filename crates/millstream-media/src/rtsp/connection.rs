//! A TCP connection with bounded input and output buffers.

pub(crate) mod transit;

use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use self::transit::{Frame, Outcome, Transit};
use crate::rtmp::RtmpConnection;
use crate::rtsp::access::AuthState;
use crate::rtsp::tcp;
use crate::rtsp::tls::Secured;

/// The most bytes a client may leave unread. A frame beyond the limit is dropped whole.
pub(crate) const UNREAD: usize = 1 << 20;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    tls: Option<Secured>,
    pub(crate) peer: IpAddr,
    /// The server's address, if the client's requests are HTTP.
    pub(crate) http: Option<IpAddr>,
    /// Whether these requests are those of an HLS player.
    pub(crate) hls: bool,
    /// The session of an RTMP publisher.
    pub(crate) rtmp: Option<Box<RtmpConnection>>,
    /// Bytes received and not parsed yet.
    pub(crate) input: Vec<u8>,
    output: Vec<u8>,
    /// What follows the output: a response in pieces that connections share, the number of bytes of
    /// the first that are in the output, and since when it is not all written, ns; 0: it is.
    pieces: VecDeque<Arc<[u8]>>,
    begun_bytes: usize,
    pieces_since_ns: u64,
    /// The number of bytes of `output` already written.
    written_bytes: usize,
    /// The number of bytes before those in `output`, over the whole connection.
    before: u64,
    /// The number of bytes of the connection that the kernel has accepted.
    accepted: u64,
    /// Frames without an outcome.
    transit: Transit,
    /// The kernel has refused bytes, and has not sent all accepted bytes since.
    behind: bool,
    /// The [progress](Self::progress) when there was some, and since when there is none, ns; 0: no
    /// bytes wait.
    stalled: (u64, u64),
    /// When it last received something, ns.
    pub(crate) last_received_ns: u64,
    /// The connection's authentication state.
    pass: AuthState,
    /// When it was accepted, ns.
    since_ns: u64,
    /// Whether a request on it was answered.
    pub(crate) answered: bool,
    /// Whether to close it once all output is written.
    pub(crate) closing: bool,
    /// Since when an incomplete request waits, ns; 0: none does.
    request_since_ns: u64,
}

/// How long a client may take to complete a request or to read the last answer, ns. A client that
/// sends a byte now and then must not hold a connection.
const REQUEST_TIMEOUT_NS: u64 = 10_000_000_000;

/// How long a client may take to read a response in pieces, ns. A slow client must not keep files
/// that others need no longer.
const PIECES_TIMEOUT_NS: u64 = 30_000_000_000;

/// The most bytes of pieces that are copied to the output at once.
const PIECE_BYTES: usize = 64 << 10;

impl Connection {
    pub(crate) fn new(stream: TcpStream, peer: IpAddr, now_ns: u64) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        Self {
            stream,
            tls: None,
            peer,
            http: None,
            hls: false,
            rtmp: None,
            input,
            output,
            pieces: VecDeque::new(),
            begun_bytes: 0,
            pieces_since_ns: 0,
            written_bytes: 0,
            before: 0,
            accepted: 0,
            transit: Transit::default(),
            behind: false,
            stalled: (0, 0),
            last_received_ns: now_ns,
            pass: AuthState::default(),
            since_ns: now_ns,
            answered: false,
            closing: false,
            request_since_ns: 0,
        }
    }

    /// Adds TLS. A client that does not start the handshake is closed like one that does not
    /// complete a request.
    pub(crate) fn secured(self, tls: Secured) -> Self {
        Self { tls: Some(tls), request_since_ns: self.last_received_ns, ..self }
    }

    /// Makes the client's requests HTTP, at the server's address `local`.
    pub(crate) fn with_http(self, local: IpAddr) -> Self {
        Self { http: Some(local), ..self }
    }

    /// Makes the client an HLS player, with requests at the server's address `local`.
    pub(crate) fn with_hls(self, local: IpAddr) -> Self {
        Self { hls: true, ..self.with_http(local) }
    }

    /// Makes the client an RTMP publisher. It is closed like a client that does not complete a
    /// request unless it publishes.
    pub(crate) fn with_rtmp(self, rtmp: RtmpConnection) -> Self {
        Self { rtmp: Some(Box::new(rtmp)), request_since_ns: self.last_received_ns, ..self }
    }

    /// Returns whether the connection is encrypted.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads until no bytes are available or the input exceeds `limit` bytes. Returns `false` if
    /// the client has closed.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub(crate) fn read(&mut self, limit: usize) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        while self.input.len() <= limit {
            let read = match &mut self.tls {
                None => self.stream.read(&mut chunk),
                Some(tls) => tls.read(&mut self.stream, &mut chunk),
            };
            match read {
                Ok(0) => return Ok(false),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Tracks how long a request has been incomplete. Call it after parsing the input; `progress`:
    /// the parser consumed a complete message.
    pub(crate) fn track_progress(&mut self, progress: bool, now_ns: u64) {
        // RTMP has no messages that end with an answer: it must lead to a publication in time.
        if progress && self.rtmp.is_none() {
            self.request_since_ns = 0;
        }
        let beginning = self.tls.as_ref().is_some_and(Secured::is_beginning)
            || self.rtmp.as_ref().is_some_and(|rtmp| !rtmp.is_publishing());
        if self.input.is_empty() && !beginning {
            self.request_since_ns = 0;
        } else if self.request_since_ns == 0 {
            self.request_since_ns = now_ns;
        }
    }

    /// Ends the wait for the rest of a request: it is complete, and its answer takes longer.
    pub(crate) fn hold_request(&mut self) {
        self.request_since_ns = 0;
    }

    /// Returns whether to close the connection. Its client takes too long for a request or for
    /// reading the last answer, or all output of a closing connection is written.
    pub(crate) fn is_stuck(&self, now_ns: u64) -> bool {
        let since_ns = if self.closing { self.last_received_ns } else { self.request_since_ns };
        let written = self.unsent() == 0;
        let waits = if self.closing { !written } else { self.request_since_ns != 0 };
        let late = if self.pieces_since_ns != 0 {
            now_ns.saturating_sub(self.pieces_since_ns) > PIECES_TIMEOUT_NS
        } else {
            waits && now_ns.saturating_sub(since_ns) > REQUEST_TIMEOUT_NS
        };
        late || (self.closing && written)
    }

    /// Returns since when it has existed without an answered request, ns; `None` if one was
    /// answered.
    pub(crate) fn incomplete_since_ns(&self) -> Option<u64> {
        (!self.answered).then_some(self.since_ns)
    }

    /// Returns the number of unsent bytes; bytes that TLS holds, and pieces, count as one.
    fn unsent(&self) -> usize {
        let pending = self.tls.as_ref().is_some_and(Secured::has_more) || !self.pieces.is_empty();
        self.output.len() - self.written_bytes + usize::from(pending)
    }

    /// Returns the number of bytes that the client may still leave unread.
    pub(crate) fn room(&self) -> usize {
        UNREAD.saturating_sub(self.unsent())
    }

    /// Returns the input, the output buffer and the authentication state.
    pub(crate) fn parts(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>, &mut AuthState) {
        (&mut self.input, &mut self.output, &mut self.pass)
    }

    /// Returns the output buffer, to which callers append.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Returns whether a response in pieces is not all written. Its client waits for it before
    /// further requests are answered, so that output is bounded.
    pub(crate) fn has_pieces(&self) -> bool {
        self.pieces_since_ns != 0
    }

    /// Appends a response in pieces to the output.
    pub(crate) fn queue(&mut self, pieces: Vec<Arc<[u8]>>, now_ns: u64) {
        if !pieces.is_empty() && self.pieces_since_ns == 0 {
            self.pieces_since_ns = now_ns;
        }
        self.answered |= !pieces.is_empty();
        self.pieces.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
    }

    /// Moves the next bytes of the pieces to the empty output. Returns how many.
    fn fill(&mut self) -> usize {
        let Some(piece) = self.pieces.front() else { return 0 };
        let end = piece.len().min(self.begun_bytes + PIECE_BYTES);
        self.output.extend_from_slice(&piece[self.begun_bytes..end]);
        let moved = end - self.begun_bytes;
        self.begun_bytes = end;
        if end == piece.len() {
            self.pieces.pop_front();
            self.begun_bytes = 0;
        }
        moved
    }

    /// Writes as much as the kernel accepts. Returns whether all output is written. Moves at most
    /// about `piece_bytes` of pieces to the output, and subtracts what it moves.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub(crate) fn write(&mut self, piece_bytes: &mut usize) -> io::Result<bool> {
        let mut written = self.write_now();
        while matches!(written, Ok(true)) && !self.pieces.is_empty() {
            if *piece_bytes == 0 {
                written = Ok(false);
                break;
            }
            *piece_bytes = piece_bytes.saturating_sub(self.fill());
            written = self.write_now();
        }
        if matches!(written, Ok(true)) {
            self.pieces_since_ns = 0;
        }
        // TLS buffers records: it reports when all are written, but not partial progress.
        let pending = self.tls.as_ref().is_some_and(Secured::has_more);
        if !pending {
            self.accepted = self.before + self.written_bytes as u64;
        }
        // Only frames of the schedule have outcomes.
        self.behind |= matches!(written, Ok(false)) && !self.hls;
        written
    }

    fn write_now(&mut self) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            let (taken, flushed) = tls.write(&mut self.stream, &self.output)?;
            self.output.drain(..taken);
            self.before += taken as u64;
            return Ok(flushed && self.output.is_empty());
        }
        while self.written_bytes < self.output.len() {
            match self.stream.write(&self.output[self.written_bytes..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written_bytes += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.output.drain(..self.written_bytes);
                    self.before += self.written_bytes as u64;
                    self.written_bytes = 0;
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.before += self.written_bytes as u64;
        self.written_bytes = 0;
        Ok(true)
    }

    /// Returns the stream offset of the next byte appended to the output.
    pub(crate) fn end_of_output(&self) -> u64 {
        self.before + self.output.len() as u64
    }

    /// Returns the frames without an outcome.
    pub(crate) fn transit(&mut self) -> &mut Transit {
        &mut self.transit
    }

    /// Decides the outcomes of frames and delivers them. Call it after each write, and every few
    /// milliseconds while the connection [needs polling](Self::needs_polling).
    ///
    /// Makes a system call only while the client is behind. As long as the kernel accepts every
    /// frame whole, at most the bytes of `TCP_NOTSENT_LOWAT` and one segment are unsent. Each frame
    /// then counts as sent.
    pub(crate) fn report_outcomes(
        &mut self,
        now_ns: u64,
        deliver: impl FnMut(&Frame, Outcome) -> bool,
    ) {
        let mut sent = self.accepted;
        if self.behind {
            let not_sent = tcp::not_sent_bytes(&self.stream);
            sent = sent.saturating_sub(not_sent);
            self.behind = not_sent > 0 || self.unsent() > 0;
        }
        let (before, output) = (self.before, &mut self.output);
        let begun = before + self.written_bytes as u64;
        let place = |at: u64| usize::try_from(at - before).unwrap_or(usize::MAX);
        self.transit.decide(now_ns, sent, begun, |first, end| {
            output.drain(place(first)..place(end));
        });
        self.transit.deliver(deliver);
        let progress = self.progress();
        self.stalled = match self.stalled {
            _ if self.unsent() == 0 => (progress, 0),
            (before, since_ns) if before == progress && since_ns > 0 => (before, since_ns),
            _ => (progress, now_ns),
        };
    }

    /// Returns the number of bytes that the kernel has accepted, over TLS those of records:
    /// `accepted` does not move while TLS has records to write.
    fn progress(&self) -> u64 {
        self.tls.as_ref().map_or(self.accepted, Secured::written_bytes)
    }

    /// Returns whether frames need further [`report_outcomes`](Self::report_outcomes) calls without
    /// other events.
    pub(crate) fn needs_polling(&self) -> bool {
        self.behind || !self.transit.is_empty()
    }

    /// Returns whether the kernel has accepted nothing for `timeout_ns` while output waits.
    pub(crate) fn is_stalled(&self, now_ns: u64, timeout_ns: u64) -> bool {
        let (_, since_ns) = self.stalled;
        since_ns > 0 && now_ns.saturating_sub(since_ns) > timeout_ns
    }

    /// Sends the TLS close notification, if the connection uses TLS.
    pub(crate) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end(&mut self.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtsp::tls::configuration;
    use std::process::{Command, Stdio};

    const LONG_NS: u64 = REQUEST_TIMEOUT_NS + 2;

    fn connection() -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        Connection::new(TcpStream::from_std(stream), IpAddr::from([127, 0, 0, 1]), 1)
    }

    #[test]
    fn a_slow_request_does_not_hold_a_connection() {
        let mut connection = connection();
        connection.track_progress(false, 1);
        assert!(!connection.is_stuck(u64::MAX), "idle is not stuck");
        connection.input.push(b'O');
        connection.track_progress(false, 1);
        connection.input.push(b'P');
        connection.last_received_ns = LONG_NS;
        connection.track_progress(false, LONG_NS);
        assert!(!connection.is_stuck(REQUEST_TIMEOUT_NS));
        assert!(connection.is_stuck(LONG_NS));
        connection.track_progress(true, LONG_NS);
        assert!(!connection.is_stuck(LONG_NS), "a new request has begun");
        connection.input.clear();
        connection.track_progress(false, LONG_NS);
        assert!(!connection.is_stuck(u64::MAX));
    }

    #[test]
    fn an_rtmp_client_must_publish_in_time() {
        let mut connection = connection().with_rtmp(RtmpConnection::new(0));
        for now_ns in [2, REQUEST_TIMEOUT_NS] {
            connection.last_received_ns = now_ns;
            connection.track_progress(true, now_ns);
            assert!(!connection.is_stuck(now_ns));
        }
        assert!(connection.is_stuck(LONG_NS));
    }

    #[test]
    fn responses_in_pieces_are_sent_in_order_and_within_a_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let local = IpAddr::from([127, 0, 0, 1]);
        let mut connection = Connection::new(TcpStream::from_std(stream), local, 1).with_hls(local);
        let (mut client, _) = listener.accept().unwrap();
        connection.output().extend_from_slice(b"first");
        let long: Vec<u8> = (0..16 << 20).map(|at: u32| u8::try_from(at % 251).unwrap()).collect();
        let pieces: [Arc<[u8]>; 3] = [long.clone().into(), [].into(), [9; 3].into()];
        connection.queue(pieces.to_vec(), 1);
        let mut turn_bytes = 100_000;
        assert!(connection.answered && !connection.write(&mut turn_bytes).unwrap());
        assert_eq!((turn_bytes, connection.accepted), (0, 5 + 2 * PIECE_BYTES as u64));
        assert!(!connection.write(&mut usize::MAX.clone()).unwrap(), "more than the kernel takes");
        assert!(connection.output.len() <= PIECE_BYTES && !connection.needs_polling());
        for closing in [false, true] {
            connection.closing = closing;
            assert!(!connection.is_stuck(PIECES_TIMEOUT_NS) && connection.is_stuck(u64::MAX));
        }
        connection.closing = false;
        let expected = [b"first", &long[..], &[9; 3]].concat();
        let reading = std::thread::spawn(move || {
            let mut read = vec![0; expected.len()];
            client.read_exact(&mut read).unwrap();
            read == expected
        });
        while !connection.write(&mut usize::MAX.clone()).unwrap() {
            assert!(connection.has_pieces());
            std::thread::yield_now();
        }
        assert!(reading.join().unwrap());
        assert!(connection.unsent() == 0 && !connection.has_pieces());
        assert!(!connection.is_stuck(u64::MAX));
    }

    #[test]
    fn over_tls_a_client_that_reads_a_part_of_a_response_is_not_stalled() {
        let folder = tempfile::tempdir().unwrap();
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-nodes", "-keyout", "key", "-out", "chain", "-subj", "/CN=localhost"]);
        assert!(openssl.current_dir(&folder).output().unwrap().status.success());
        let [chain, key] = ["chain", "key"].map(|name| folder.path().join(name));
        let secured = Secured::new(&configuration(&chain, &key).unwrap()).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Command::new("openssl");
        let address = listener.local_addr().unwrap().to_string();
        client.args(["s_client", "-quiet", "-connect", &address]).stderr(Stdio::null());
        let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        client.stdin.as_mut().unwrap().write_all(b"request").unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let local = IpAddr::from([127, 0, 0, 1]);
        let connection = Connection::new(TcpStream::from_std(stream), local, 1).with_hls(local);
        let mut connection = connection.secured(secured);
        while connection.input.is_empty() {
            assert!(connection.read(100).unwrap());
            connection.write(&mut 0).unwrap();
            std::thread::yield_now();
        }
        connection.queue(vec![vec![7; 64 << 20].into()], 1);
        assert!(!connection.write(&mut usize::MAX.clone()).unwrap(), "more than the kernel takes");
        let before = connection.progress();
        let mut now_ns = 5;
        connection.report_outcomes(now_ns, |_, _| true);
        let mut chunk = vec![0; 64 << 10];
        while connection.progress() == before {
            client.stdout.as_mut().unwrap().read_exact(&mut chunk).unwrap();
            assert!(!connection.write(&mut usize::MAX.clone()).unwrap());
            now_ns += 1_000;
            connection.report_outcomes(now_ns, |_, _| true);
        }
        assert!(!connection.is_stalled(now_ns + 1_000, 1_000));
        assert!(connection.is_stalled(now_ns + 1_001, 1_000));
        client.kill().unwrap();
        client.wait().unwrap();
    }

    #[test]
    fn the_wait_for_the_last_answer_is_bounded() {
        let mut connection = connection();
        connection.closing = true;
        assert!(connection.is_stuck(1), "no output is left");
        connection.output().extend_from_slice(b"answer");
        assert!(!connection.is_stuck(REQUEST_TIMEOUT_NS));
        assert!(connection.is_stuck(LONG_NS));
    }
}
