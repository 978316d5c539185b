//! A TCP connection: what has come and is not read yet, what is to go and has not gone; both
//! bounded.

pub(crate) mod transit;

use mio::net::TcpStream;
use std::io::{self, Read, Write};
use std::net::IpAddr;

use self::transit::{Frame, Outcome, Transit};
use crate::rtsp::access::Pass;
use crate::rtsp::tcp;
use crate::rtsp::tls::Secured;

/// What a client may leave unread, bytes. A frame for it that finds no room is dropped whole.
pub(crate) const UNREAD: usize = 1 << 20;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    tls: Option<Secured>,
    pub(crate) peer: IpAddr,
    /// What has come and was not understood yet.
    pub(crate) input: Vec<u8>,
    output: Vec<u8>,
    /// How much of `output` has gone.
    gone: usize,
    /// Bytes that were before those in `output`, over the whole connection.
    before: u64,
    /// Bytes of the connection that the kernel has taken.
    accepted: u64,
    /// Frames whose outcome is not known.
    transit: Transit,
    /// The kernel has refused bytes, and has not sent all that it has taken since.
    behind: bool,
    /// What `accepted` was when the output last moved, and since when it has not, ns; 0: nothing
    /// waits.
    stalled: (u64, u64),
    /// When it last said something, ns.
    pub(crate) heard_ns: u64,
    /// What it has shown of itself.
    pass: Pass,
    /// When it came, ns.
    since_ns: u64,
    /// A request of it was answered.
    pub(crate) answered: bool,
    /// To be closed once everything has gone.
    pub(crate) closing: bool,
    /// Since when a request has begun and is not whole, ns; 0 if none has.
    begun_ns: u64,
}

/// How long a client may take for one request, or to read the last answer, ns. Whoever sends a byte
/// now and then must not hold a connection.
const PATIENCE_NS: u64 = 10_000_000_000;

impl Connection {
    pub(crate) fn new(stream: TcpStream, peer: IpAddr, now_ns: u64) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        Self {
            stream,
            tls: None,
            peer,
            input,
            output,
            gone: 0,
            before: 0,
            accepted: 0,
            transit: Transit::default(),
            behind: false,
            stalled: (0, 0),
            heard_ns: now_ns,
            pass: Pass::default(),
            since_ns: now_ns,
            answered: false,
            closing: false,
            begun_ns: 0,
        }
    }

    /// The same, over TLS; whoever does not begin with it is closed as one who does not end a
    /// request.
    pub(crate) fn secured(self, tls: Secured) -> Self {
        Self { tls: Some(tls), begun_ns: self.heard_ns, ..self }
    }

    /// Whether what is said on it stays between the two.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads while there is something and room for it (`limit` bytes). `false`: the client has
    /// closed.
    ///
    /// # Errors
    /// If the connection is broken.
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

    /// To be called when what could be understood of the input has been, of it something whole if
    /// `progress`: notes whether a request began.
    pub(crate) fn understood(&mut self, progress: bool, now_ns: u64) {
        if progress {
            self.begun_ns = 0;
        }
        let beginning = self.tls.as_ref().is_some_and(Secured::is_beginning);
        if self.input.is_empty() && !beginning {
            self.begun_ns = 0;
        } else if self.begun_ns == 0 {
            self.begun_ns = now_ns;
        }
    }

    /// Whether its client has taken too long for a request, or for reading the last answer.
    pub(crate) fn is_stuck(&self, now_ns: u64) -> bool {
        let since_ns = if self.closing { self.heard_ns } else { self.begun_ns };
        let written = self.unsent() == 0;
        let waits = if self.closing { !written } else { self.begun_ns != 0 };
        let long = waits && now_ns.saturating_sub(since_ns) > PATIENCE_NS;
        long || (self.closing && written)
    }

    /// Since when it has been there without a complete request, ns.
    pub(crate) fn incomplete_since_ns(&self) -> Option<u64> {
        (!self.answered).then_some(self.since_ns)
    }

    /// Bytes that have not gone; those that TLS has taken count as one.
    fn unsent(&self) -> usize {
        let taken = self.tls.as_ref().is_some_and(Secured::has_more);
        self.output.len() - self.gone + usize::from(taken)
    }

    /// Bytes that may yet be left unread.
    pub(crate) fn room(&self) -> usize {
        UNREAD.saturating_sub(self.unsent())
    }

    /// What has come, where what is to be sent is appended, and what it has shown of itself.
    pub(crate) fn parts(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>, &mut Pass) {
        (&mut self.input, &mut self.output, &mut self.pass)
    }

    /// Where what is to be sent is appended.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Writes as much as goes now. `true`: everything has gone.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn write(&mut self) -> io::Result<bool> {
        let written = self.write_now();
        // TLS keeps records: that all of them have gone is known, and not how much of one.
        let kept = self.tls.as_ref().is_some_and(Secured::has_more);
        if !kept {
            self.accepted = self.before + self.gone as u64;
        }
        self.behind |= matches!(written, Ok(false));
        written
    }

    fn write_now(&mut self) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            let (taken, gone) = tls.write(&mut self.stream, &self.output)?;
            self.output.drain(..taken);
            self.before += taken as u64;
            return Ok(gone && self.output.is_empty());
        }
        while self.gone < self.output.len() {
            match self.stream.write(&self.output[self.gone..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.gone += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.output.drain(..self.gone);
                    self.before += self.gone as u64;
                    self.gone = 0;
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.before += self.gone as u64;
        self.gone = 0;
        Ok(true)
    }

    /// The stream offset of the next byte appended to the output.
    pub(crate) fn end_of_output(&self) -> u64 {
        self.before + self.output.len() as u64
    }

    /// Frames whose outcome is not known.
    pub(crate) fn transit(&mut self) -> &mut Transit {
        &mut self.transit
    }

    /// Decides what became of frames and delivers it; to be called after each write, and every few
    /// milliseconds while the connection [needs care](Self::needs_care).
    ///
    /// Costs a system call only while the client is behind: as long as the kernel takes every frame
    /// whole, at most what `TCP_NOTSENT_LOWAT` and one segment allow is unsent, and each frame
    /// counts as on its way.
    pub(crate) fn settle(&mut self, now_ns: u64, deliver: impl FnMut(&Frame, Outcome) -> bool) {
        let mut sent = self.accepted;
        if self.behind {
            let not_sent = tcp::not_sent_bytes(&self.stream);
            sent = sent.saturating_sub(not_sent);
            self.behind = not_sent > 0 || self.unsent() > 0;
        }
        let (before, output) = (self.before, &mut self.output);
        let begun = before + self.gone as u64;
        let place = |at: u64| usize::try_from(at - before).unwrap_or(usize::MAX);
        self.transit.decide(now_ns, sent, begun, |first, end| {
            output.drain(place(first)..place(end));
        });
        self.transit.deliver(deliver);
        self.stalled = match self.stalled {
            _ if self.unsent() == 0 => (self.accepted, 0),
            (accepted, since_ns) if accepted == self.accepted && since_ns > 0 => {
                (accepted, since_ns)
            }
            _ => (self.accepted, now_ns),
        };
    }

    /// Whether frames on it have to be looked at though nothing else happens.
    pub(crate) fn needs_care(&self) -> bool {
        self.behind || !self.transit.is_empty()
    }

    /// Whether the kernel has taken nothing for `timeout_ns` of what waits.
    pub(crate) fn is_stalled(&self, now_ns: u64, timeout_ns: u64) -> bool {
        let (_, since_ns) = self.stalled;
        since_ns > 0 && now_ns.saturating_sub(since_ns) > timeout_ns
    }

    /// Says that nothing more comes, where that is said.
    pub(crate) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end(&mut self.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = PATIENCE_NS + 2;

    fn connection() -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        Connection::new(TcpStream::from_std(stream), IpAddr::from([127, 0, 0, 1]), 1)
    }

    #[test]
    fn a_request_byte_by_byte_does_not_hold_a_connection() {
        let mut connection = connection();
        connection.understood(false, 1);
        assert!(!connection.is_stuck(u64::MAX), "idle is not stuck");
        connection.input.push(b'O');
        connection.understood(false, 1);
        connection.input.push(b'P');
        connection.heard_ns = LONG_NS;
        connection.understood(false, LONG_NS);
        assert!(!connection.is_stuck(PATIENCE_NS));
        assert!(connection.is_stuck(LONG_NS));
        connection.understood(true, LONG_NS);
        assert!(!connection.is_stuck(LONG_NS), "another one has begun");
        connection.input.clear();
        connection.understood(false, LONG_NS);
        assert!(!connection.is_stuck(u64::MAX));
    }

    #[test]
    fn a_last_answer_is_waited_for_but_not_for_ever() {
        let mut connection = connection();
        connection.closing = true;
        assert!(connection.is_stuck(1), "nothing is left to do");
        connection.output().extend_from_slice(b"answer");
        assert!(!connection.is_stuck(PATIENCE_NS));
        assert!(connection.is_stuck(LONG_NS));
    }
}
