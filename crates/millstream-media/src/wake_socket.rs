//! Wake-ups between processes and threads, over a non-blocking pair of sockets.

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

/// A socket that wakes the data plane.
pub(crate) trait AsWakeSocket {
    fn wake(&self);
}

impl AsWakeSocket for mio::net::UnixStream {
    fn wake(&self) {
        wake(self);
    }
}
