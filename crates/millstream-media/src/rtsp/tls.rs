//! TLS: the server's configuration, and the encrypted state of a connection.

use mio::net::TcpStream;
use rustls::ServerConnection;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use crate::MediaError;
use crate::rtsp::access::secret_file;

/// The most bytes of records that wait to be written. Data in a record has begun and cannot be
/// removed any more.
const UNSENT: usize = 16 << 10;

/// The TLS configuration of connections.
pub(crate) type Configuration = Arc<rustls::ServerConfig>;

/// Creates a configuration for TLS 1.2 and 1.3 with a certificate and its key, without client
/// certificates.
///
/// # Errors
/// Fails if a file cannot be read or holds no certificate or key, or if the key does not match.
pub(crate) fn configuration(certificate: &Path, key: &Path) -> Result<Configuration, MediaError> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display, what: &str| {
        MediaError::new(format!("{}: {error}", path.display()))
            .help(format!("a PEM file with {what}"))
    };
    let no_chain = |error: &dyn std::fmt::Display| wrong(certificate, error, "the certificate");
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| no_chain(&error))?;
    if chain.is_empty() {
        return Err(no_chain(&"no certificate"));
    }
    let secret = PrivateKeyDer::from_pem_slice(secret_file(key)?.as_bytes())
        .map_err(|error| wrong(key, &error, "the certificate's private key"))?;
    rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map(Arc::new)
        .map_err(|error| wrong(key, &error, "the private key of the certificate"))
}

/// The TLS state of a connection.
#[derive(Debug)]
pub(crate) struct Secured {
    connection: Box<ServerConnection>,
    /// The bytes of records that the kernel has accepted.
    written_bytes: u64,
}

impl Secured {
    /// Creates the state of a connection before its handshake.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub(crate) fn new(configuration: &Configuration) -> io::Result<Self> {
        let mut connection =
            ServerConnection::new(configuration.clone()).map_err(io::Error::other)?;
        connection.set_buffer_limit(Some(UNSENT));
        Ok(Self { connection: Box::new(connection), written_bytes: 0 })
    }

    /// Returns whether the handshake is still in progress.
    pub(crate) fn is_beginning(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns whether records wait to be written.
    pub(crate) fn has_more(&self) -> bool {
        self.connection.wants_write()
    }

    /// Returns the number of bytes of records that the kernel has accepted.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Reads decrypted bytes; 0: the client has closed.
    ///
    /// # Errors
    /// Fails if the connection is broken, no bytes are available (`WouldBlock`), or the input is
    /// not TLS.
    pub(crate) fn read(&mut self, stream: &mut TcpStream, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            if self.connection.read_tls(stream)? == 0 {
                return Ok(0);
            }
            if let Err(error) = self.connection.process_new_packets() {
                // Sends the alert to the client.
                let _ = self.connection.write_tls(stream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    /// Accepts as much of `from` as the buffer holds, and writes what the kernel accepts. Returns
    /// the number of bytes taken, and whether all of them are written.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub(crate) fn write(
        &mut self,
        stream: &mut TcpStream,
        from: &[u8],
    ) -> io::Result<(usize, bool)> {
        let mut taken = 0;
        loop {
            while taken < from.len() {
                match self.connection.writer().write(&from[taken..])? {
                    0 => break,
                    count => taken += count,
                }
            }
            if !self.connection.wants_write() {
                return Ok((taken, true));
            }
            match self.connection.write_tls(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written_bytes += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((taken, false));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the close notification.
    pub(crate) fn end(&mut self, stream: &mut TcpStream) {
        self.connection.send_close_notify();
        let _ = self.connection.write_tls(stream);
    }
}
