//! The entry point of fuzz targets: a connection in memory.

use super::slots::ConnectionSlots;
use super::*;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A connection in memory: the bytes to read, and the bytes written.
struct Memory {
    rest: Vec<u8>,
    at: usize,
    written: Rc<RefCell<Vec<u8>>>,
}

impl Read for Memory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // Each read is short, so that headers and bodies arrive in parts.
        let length = buffer.remaining().min(self.rest.len() - self.at).min(1_000);
        buffer.put_slice(&self.rest[self.at..self.at + length]);
        self.at += length;
        Poll::Ready(Ok(()))
    }
}

impl Write for Memory {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_time()
        .build()
        .expect("the system creates a poller");
}

/// Returns the bytes that a server with a write handler, on a loopback address, answers to one
/// connection.
///
/// # Panics
/// Panics if the system cannot create a poller.
pub fn respond_to(
    bytes: &[u8],
    paths: &'static str,
    answer: impl Fn(&str) -> Answer,
    handler: &Arc<WriteHandler>,
) -> Vec<u8> {
    let policy = policy(DASHBOARD).expect("the dashboard has a style and a script");
    let handler = Some(Arc::clone(handler));
    let site = Site { loopback: true, paths, policy, answer, handler };
    let written = Rc::new(RefCell::new(Vec::new()));
    let stream = Memory { rest: bytes.to_vec(), at: 0, written: Rc::clone(&written) };
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let slot = &ConnectionSlots::new(1).take().await;
            let service = service_fn(|request| async {
                Ok::<_, Infallible>(site.respond(request, slot).await)
            });
            // The end of the input must not cancel a write request in progress.
            let mut connections = connections();
            connections.half_close(true);
            // Errors of a connection concern only its client.
            let _ = connections.serve_connection(stream, service).await;
        });
    });
    written.take()
}

/// Deprecated alias of [`respond_to`].
///
/// # Panics
/// See [`respond_to`].
#[deprecated(note = "renamed to `respond_to`")]
pub fn converse(
    bytes: &[u8],
    paths: &'static str,
    answer: impl Fn(&str) -> Answer,
    handler: &Arc<WriteHandler>,
) -> Vec<u8> {
    respond_to(bytes, paths, answer, handler)
}
