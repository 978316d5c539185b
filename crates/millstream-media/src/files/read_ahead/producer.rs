//! The producer: a process that reads media files ahead, and the server's side of it.
//!
//! ```text
//! server ── standard input: store, region, frame cache, files ──> producer
//! producer ── frame cache ──> data plane
//! ```
//! The producer survives the server's death and runs until the data plane is gone. After a crash of
//! the producer, the server starts another one. A server that replaces a dead server also starts a
//! producer. The new producer waits until the old one releases the lock on the frame cache. The
//! cache keeps its frames meanwhile.

use millstream_sync::clock::system::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::reader::Readers;
use crate::data_plane::placement::{
    SharedResources, pin, receive, receive_media_files, send, send_media_files,
};
use crate::shared_memory::frame_cache::{CacheField, FrameCache};
use crate::shared_memory::region::{GlobalField, Region};
use crate::shared_memory::store::Store;
use crate::wake_socket::drain;

/// The interval at which the producer checks whether it is still needed, ns.
const POLL_NS: u64 = 100_000_000;

/// The server's handle of a running producer.
#[derive(Debug)]
pub(crate) struct Producer {
    child: Child,
}

impl Producer {
    /// Starts a producer. Returns it and a socket that closes when the producer ends.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub(crate) fn start(resources: &SharedResources) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(std::env::current_exe()?)
            .arg("producer")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Keeps Ctrl-C from the process: the server gets it and tells the producer to end.
            .process_group(0)
            .spawn()?;
        let memory =
            [resources.store.as_fd(), resources.region_file.as_fd(), resources.frame_cache.as_fd()];
        send(&ours, &memory, 0)?;
        send_media_files(&ours, &resources.media_files)?;
        ours.set_nonblocking(true)?;
        Ok((Self { child }, ours))
    }

    /// Returns the process identifier.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the producer has ended, on request or by itself. Returns the reason.
    pub(crate) fn wait(&mut self) -> String {
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

/// Runs the producer in a process that a server has started.
///
/// # Errors
/// Fails if a server did not start this process, or the memory or the files cannot be used.
pub fn frame_producer() -> io::Result<()> {
    let waker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let wrong = || io::Error::other("only `millstream serve` starts this command");
    let (memory, _) = receive(&waker).map_err(|_| wrong())?;
    let [store, region, frame_cache] =
        <[OwnedFd; 3]>::try_from(memory).map_err(|_| wrong())?.map(File::from);
    let media_files = receive_media_files(&waker).map_err(|_| wrong())?;
    let region = Region::open(&region)?;
    waker.set_nonblocking(true)?;
    // The lock belongs to the process and ends with it.
    while fcntl_lock(&frame_cache, FlockOperation::NonBlockingLockExclusive).is_err() {
        if !is_host_connected(&waker)? || region.get(GlobalField::End) != 0 {
            return Ok(());
        }
    }
    let cache = FrameCache::open(&frame_cache)?;
    let core = own_core().filter(|core| pin(*core).is_ok());
    cache.set(CacheField::Reader, std::process::id().into());
    cache.set(CacheField::ReaderCore, core.map_or(0, |core| core as u64 + 1));
    let _readers = Readers::start(Store::open(&store)?, cache, media_files)?;
    let mut host_connected = true;
    while region.get(GlobalField::End) == 0 {
        if host_connected {
            host_connected = is_host_connected(&waker)?;
            continue;
        }
        std::thread::sleep(std::time::Duration::from_nanos(POLL_NS));
        let process = i32::try_from(region.get(GlobalField::Process)).ok().and_then(Pid::from_raw);
        if process.is_none_or(|process| test_kill_process(process).is_err()) {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits for up to [`POLL_NS`], or until the server is gone. Returns whether it is alive.
fn is_host_connected(waker: &UnixStream) -> io::Result<bool> {
    let mut waited = [PollFd::new(waker, PollFlags::IN)];
    match poll(&mut waited, Some(&timespec(POLL_NS))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(drain(waker)),
        Err(error) => Err(error.into()),
    }
}

/// Returns a core for the producer: the last but one, or `None` with fewer than 3 cores.
///
/// The data plane uses the last core, and one remains for the server.
fn own_core() -> Option<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores > 2).then(|| cores - 2)
}
