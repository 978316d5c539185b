//! Wake-ups between processes and threads, over a non-blocking pair of sockets or an event counter.

use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::io::{self, Read, Write};

/// Wakes the other side. An error is ignored: a full socket already holds a wake-up.
pub(crate) fn wake(mut waker: impl Write) {
    let _ = waker.write(&[1]);
}

/// Drains all wake-ups. Returns whether the other side is still connected.
pub(crate) fn drain(mut waker: impl Read) -> bool {
    let mut wake_ups = [0; 256];
    loop {
        match waker.read(&mut wake_ups) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Creates an event counter, which is readable while it is not 0.
///
/// # Errors
/// Fails if there is no free descriptor.
pub(crate) fn event_counter() -> io::Result<File> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into())
}

/// Makes an event counter readable. An error is ignored: a full counter already is.
pub(crate) fn signal(mut counter: &File) {
    let _ = counter.write(&1u64.to_ne_bytes());
}

/// Sets an event counter to 0.
#[cfg(feature = "webrtc")]
pub(crate) fn reset(mut counter: &File) {
    let _ = counter.read(&mut [0; size_of::<u64>()]);
}

/// A socket that wakes the data plane.
pub(crate) trait AsWakeSocket {
    fn wake(&self);
}

impl AsWakeSocket for mio::net::UnixStream {
    fn wake(&self) {
        wake(self);
    }
}
