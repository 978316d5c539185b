//! A TCP connection: what has come and is not read yet, what is to go and has not gone; both bounded.

use mio::net::TcpStream;
use std::io::{self, Read, Write};
use std::net::IpAddr;

/// What a client may leave unread, bytes. A frame for it that finds no room is dropped whole.
pub(crate) const UNREAD: usize = 1 << 20;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: IpAddr,
    /// It asks for pages rather than streams.
    pub(crate) http: bool,
    /// What has come and was not understood yet.
    pub(crate) input: Vec<u8>,
    output: Vec<u8>,
    /// How much of `output` has gone.
    gone: usize,
    /// When it last said something, ns.
    pub(crate) heard_ns: u64,
    /// To be closed once everything has gone.
    pub(crate) closing: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, peer: IpAddr, http: bool, now_ns: u64) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        Self { stream, peer, http, input, output, gone: 0, heard_ns: now_ns, closing: false }
    }

    /// Reads while there is something and room for it (`limit` bytes). `false`: the client has closed.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn read(&mut self, limit: usize) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        while self.input.len() <= limit {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(false),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Bytes that may yet be left unread.
    pub(crate) fn room(&self) -> usize {
        UNREAD.saturating_sub(self.output.len() - self.gone)
    }

    /// What has come, and where what is to be sent is appended.
    pub(crate) fn buffers(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>) {
        (&mut self.input, &mut self.output)
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
        while self.gone < self.output.len() {
            match self.stream.write(&self.output[self.gone..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.gone += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.output.drain(..self.gone);
                    self.gone = 0;
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.gone = 0;
        Ok(true)
    }
}
