//! How a router stands, by HTTP: `/status` as JSON, `/metrics` for Prometheus.
//!
//! One connection after the other, each for a request of [`REQUEST_BYTES`] and a second at most; the
//! router itself is only asked for its counters.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::live::control::Control;
use crate::live::metrics::metrics;

/// The longest request.
const REQUEST_BYTES: usize = 4_096;
/// How long a request, an answer to it, and the router's own answer may each take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers requests at `address` from a thread of its own; returns the address it listens at.
///
/// # Errors
/// If the address cannot be listened at.
pub fn serve(address: SocketAddr, control: Arc<Control>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("status".into()).spawn(move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| answer(stream, &control)) {
                log::debug!("status request: {error}");
                // Out of descriptors, say: do not spin.
                thread::sleep(Duration::from_millis(10));
            }
        }
    })?;
    Ok(address)
}

fn answer(mut stream: TcpStream, control: &Control) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, kind, body) = match request(&mut stream)? {
        Request::Get(path) => match (path.as_str(), control.report(PATIENCE)) {
            ("/status" | "/metrics", None) => {
                ("503 Service Unavailable", "text/plain", "the router does not answer\n".to_owned())
            }
            ("/status", Some(report)) => {
                ("200 OK", "application/json", serde_json::to_string(&report)?)
            }
            ("/metrics", Some(report)) => (
                "200 OK",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                metrics(&report),
            ),
            _ => ("404 Not Found", "text/plain", "there are /status and /metrics\n".to_owned()),
        },
        Request::Other => ("405 Method Not Allowed", "text/plain", "GET only\n".to_owned()),
        Request::Bad => ("400 Bad Request", "text/plain", "not an HTTP request\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// What was asked for.
enum Request {
    Get(String),
    Other,
    Bad,
}

fn request(stream: &mut TcpStream) -> io::Result<Request> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    loop {
        let left = until.checked_duration_since(Instant::now());
        let left = left.filter(|left| !left.is_zero()).ok_or(io::ErrorKind::TimedOut)?;
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; 1_024];
        let room = (REQUEST_BYTES - bytes.len()).min(part.len());
        let read = stream.read(&mut part[..room])?;
        if read == 0 {
            return Ok(Request::Bad);
        }
        bytes.extend_from_slice(&part[..read]);
        if let Some(request) = parse(&bytes) {
            return Ok(request);
        }
    }
}

/// The request that `bytes` are; `None` if they are the beginning of one.
fn parse(bytes: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => Some(match (request.method, request.path) {
            (Some("GET"), Some(path)) => Request::Get(path.to_owned()),
            _ => Request::Other,
        }),
        Err(_) => Some(Request::Bad),
    }
}
