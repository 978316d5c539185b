//! The producer: a process that reads films' frames ahead of need, and the server's side of it.
//!
//! ```text
//! server ── standard input: store, region, frame cache, files ──> producer
//! producer ── frame cache ──> data plane
//! ```
//! It lives as long as somebody plays: past its server's death until the processor is gone. The
//! server starts another when it dies; so does a server that takes the place of a dead one, and
//! that one waits for the shelf's lock until the old one is gone. What was read stays on the shelf
//! meanwhile.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::frame_cache::{CacheField, FrameCache};
use super::reader::Readers;
use crate::clock::timespec;
use crate::data_plane::drain;
use crate::data_plane::placement::{SharedResources, give_films, pin, receive, send, take_films};
use crate::shared_memory::region::{GlobalField, Region};
use crate::shared_memory::store::Store;

/// How often it looks whether it is still needed, ns.
const LOOK_NS: u64 = 100_000_000;

/// The server's side of a producer that runs.
#[derive(Debug)]
pub(crate) struct Producer {
    child: Child,
}

impl Producer {
    /// Starts one; returns it and a socket that is closed when it is gone.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub(crate) fn start(estate: &SharedResources) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(std::env::current_exe()?)
            .arg("producer")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Ctrl-C is for the server, which tells the producer to end.
            .process_group(0)
            .spawn()?;
        let memory = [estate.store.as_fd(), estate.region_file.as_fd(), estate.shelf.as_fd()];
        send(&ours, &memory, 0)?;
        give_films(&ours, &estate.films)?;
        ours.set_nonblocking(true)?;
        Ok((Self { child }, ours))
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, which was asked for or has happened; why it ended.
    pub(crate) fn wait(&mut self) -> String {
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

/// What this program does when it was started as a producer.
///
/// # Errors
/// If it was not started by a server, or cannot read.
pub fn frame_producer() -> io::Result<()> {
    let bell = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let wrong = || io::Error::other("this command is started by `millstream serve` alone");
    let (memory, _) = receive(&bell).map_err(|_| wrong())?;
    let [store, region, shelf] =
        <[OwnedFd; 3]>::try_from(memory).map_err(|_| wrong())?.map(File::from);
    let films = take_films(&bell).map_err(|_| wrong())?;
    let region = Region::open(&region)?;
    bell.set_nonblocking(true)?;
    // The lock is the process's, and goes with it.
    while fcntl_lock(&shelf, FlockOperation::NonBlockingLockExclusive).is_err() {
        if !is_host_there(&bell)? || region.get(GlobalField::End) != 0 {
            return Ok(());
        }
    }
    let on = FrameCache::open(&shelf)?;
    let core = own_core().filter(|core| pin(*core).is_ok());
    on.set(CacheField::Reader, std::process::id().into());
    on.set(CacheField::ReaderCore, core.map_or(0, |core| core as u64 + 1));
    let _readers = Readers::start(Store::open(&store)?, on, films)?;
    let mut host_is_there = true;
    while region.get(GlobalField::End) == 0 {
        if host_is_there {
            host_is_there = is_host_there(&bell)?;
            continue;
        }
        std::thread::sleep(std::time::Duration::from_nanos(LOOK_NS));
        let processor =
            i32::try_from(region.get(GlobalField::Process)).ok().and_then(Pid::from_raw);
        if processor.is_none_or(|processor| test_kill_process(processor).is_err()) {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether the server lives, after a while unless it is gone.
fn is_host_there(bell: &UnixStream) -> io::Result<bool> {
    let mut waited = [PollFd::new(bell, PollFlags::IN)];
    match poll(&mut waited, Some(&timespec(LOOK_NS))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(drain(bell)),
        Err(error) => Err(error.into()),
    }
}

/// A core of its own: the last but one, where the last is the processor's and another is left for
/// the server.
fn own_core() -> Option<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores > 2).then(|| cores - 2)
}
