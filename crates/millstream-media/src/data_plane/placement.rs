//! Where the processor runs: in a thread of the server, or in a process of its own.
//!
//! The process is this program again. It is given the shared memory and the sockets over its
//! standard input, a socket that stays the bell between the two. It outlives the server's crash,
//! and the server starts another when it crashes; what a crash loses is only what waited in it.
//!
//! ```text
//!  server ── standard input: memory, sockets ──> processor      the bell from then on
//!  server is gone; another ── connects to the socket file ──> processor
//!                          <── memory, sockets ──             the new bell
//! ```

use millstream_scenario::Placement;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::{File, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::timespec;
use crate::data_plane::{self, Parts};
use crate::shared_memory::region::{GlobalField, Region};

/// No core to be pinned to.
const NO_CORE: u16 = u16::MAX;

/// Files that go in one message.
const AT_ONCE: usize = 64;

/// How long a processor that is found has to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// How long a processor that was told to end has for it, ns.
const ENDING_NS: u64 = 5_000_000_000;

/// What a processor is given; kept to give it to the next.
#[derive(Debug)]
pub(crate) struct SharedResources {
    pub(crate) store: File,
    pub(crate) region_file: File,
    pub(crate) region: Region,
    /// The rings of live frames.
    pub(crate) live: File,
    /// Frames of films that are read ahead,
    pub(crate) shelf: File,
    /// and what they are read from.
    pub(crate) films: Vec<File>,
    pub(crate) rtp: UdpSocket,
    pub(crate) rtcp: UdpSocket,
    /// Where a server that is started again asks for all of this; the processor has it, too.
    pub(crate) listener: Option<UnixListener>,
}

impl SharedResources {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            store: self.store.try_clone()?,
            region_file: self.region_file.try_clone()?,
            region: self.region,
            live: self.live.try_clone()?,
            shelf: self.shelf.try_clone()?,
            films: self.films.iter().map(File::try_clone).collect::<io::Result<_>>()?,
            rtp: self.rtp.try_clone()?,
            rtcp: self.rtcp.try_clone()?,
            listener: self.listener.as_ref().map(UnixListener::try_clone).transpose()?,
        })
    }

    /// What was given at the other end of `from`, and the core.
    fn take(from: &UnixStream) -> io::Result<(Self, Option<u16>)> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a processor's memory");
        let (given, core) = take(from)?;
        let mut given = given.into_iter();
        let mut next = || given.next().ok_or_else(wrong);
        let (store, region_file) = (File::from(next()?), File::from(next()?));
        let (live, shelf) = (File::from(next()?), File::from(next()?));
        let (rtp, rtcp) = (next()?.into(), next()?.into());
        let region = Region::open(&region_file)?;
        let listener = given.next().map(UnixListener::from);
        let films = take_films(from)?;
        Ok((Self { store, region_file, region, live, shelf, films, rtp, rtcp, listener }, core))
    }
}

/// A processor that runs.
#[derive(Debug)]
pub(crate) enum Processor {
    Thread(Option<JoinHandle<io::Result<()>>>),
    Process(Child),
    /// Started by a server that is no more.
    Found(Pid),
}

impl Processor {
    /// Starts a processor; returns it and our end of the bell.
    ///
    /// # Errors
    /// If there is no memory, or the process cannot be started.
    pub(crate) fn start(
        placement: Placement,
        estate: &SharedResources,
    ) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        estate.region.add(GlobalField::Generation, 1);
        let processor = match placement {
            Placement::Host => {
                let parts = Parts::new(estate.try_clone()?, theirs, || ())?;
                let thread = std::thread::Builder::new().name("dispatch".to_owned());
                Self::Thread(Some(thread.spawn(move || data_plane::run(parts))?))
            }
            Placement::Ni { core } => {
                let child = Command::new(std::env::current_exe()?)
                    .arg("ni")
                    .stdin(Stdio::from(OwnedFd::from(theirs)))
                    .stdout(Stdio::null())
                    // Ctrl-C is for the server, which tells the processor to end.
                    .process_group(0)
                    .spawn()?;
                give(&ours, estate, core)?;
                Self::Process(child)
            }
        };
        ours.set_nonblocking(true)?;
        Ok((processor, ours))
    }

    /// The process, if it is one of its own.
    pub(crate) fn id(&self) -> Option<u32> {
        match self {
            Self::Thread(_) => None,
            Self::Process(child) => Some(child.id()),
            Self::Found(process) => u32::try_from(process.as_raw_nonzero().get()).ok(),
        }
    }

    /// Waits for its end, which was asked for or has happened; why it ended, if it failed.
    pub(crate) fn wait(&mut self) -> Option<String> {
        match self {
            Self::Thread(thread) => match thread.take()?.join() {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("it panicked".to_owned()),
            },
            Self::Process(child) => match child.wait() {
                Ok(status) if status.success() => None,
                Ok(status) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            },
            Self::Found(process) => {
                // One that is gone already cannot be opened, nor asked how it ended.
                if let Ok(ending) = pidfd_open(*process, PidfdFlags::empty()) {
                    let mut waited = [PollFd::new(&ending, PollFlags::IN)];
                    let _ = poll(&mut waited, Some(&timespec(ENDING_NS)));
                }
                Some("it was another server's".to_owned())
            }
        }
    }

    /// The processor that a server before this one left at `path`, what it plays from, and our end
    /// of the bell; `None` if there is none.
    ///
    /// # Errors
    /// If it does not answer, as one whose server still runs, or is another user's.
    pub(crate) fn find(path: &Path) -> io::Result<Option<(Self, SharedResources, UnixStream)>> {
        let bell = match UnixStream::connect(path) {
            Ok(bell) => bell,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if socket_peercred(&bell)?.uid != geteuid() {
            return Err(io::Error::other("the processor there is another user's"));
        }
        bell.set_read_timeout(Some(ANSWER))?;
        let (estate, _) = SharedResources::take(&bell).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::other("the server of the processor there runs"),
            _ => error,
        })?;
        bell.set_nonblocking(true)?;
        // Not the socket's peer: that is whoever bound it.
        let process = i32::try_from(estate.region.get(GlobalField::Process)).ok();
        let process = process.and_then(Pid::from_raw);
        let unknown = || io::Error::other("the processor there does not say who it is");
        Ok(Some((Self::Found(process.ok_or_else(unknown)?), estate, bell)))
    }
}

/// A socket file for a server that is started again, of this user alone.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    // Of a processor that is gone. Any other file is somebody's.
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A server of the same user that asks for what the processor plays from is given it; our end of
/// the bell between the two.
pub(crate) fn welcome(estate: &SharedResources) -> Option<UnixStream> {
    let (stream, _) = estate.listener.as_ref()?.accept().ok()?;
    if socket_peercred(&stream).ok()?.uid != geteuid() {
        return None;
    }
    give(&stream, estate, None).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// Sends the shared memory, the sockets and the films.
fn give(to: &UnixStream, estate: &SharedResources, core: Option<u16>) -> io::Result<()> {
    let mut given = vec![
        estate.store.as_fd(),
        estate.region_file.as_fd(),
        estate.live.as_fd(),
        estate.shelf.as_fd(),
        estate.rtp.as_fd(),
        estate.rtcp.as_fd(),
    ];
    given.extend(estate.listener.as_ref().map(AsFd::as_fd));
    send(to, &given, core.unwrap_or(NO_CORE))?;
    give_films(to, &estate.films)
}

/// Sends films: how many, then so many at a time.
pub(crate) fn give_films(to: &UnixStream, films: &[File]) -> io::Result<()> {
    let too_many = |_| io::Error::other("more films than can be read ahead");
    send(to, &[], u16::try_from(films.len()).map_err(too_many)?)?;
    for films in films.chunks(AT_ONCE) {
        send(to, &films.iter().map(AsFd::as_fd).collect::<Vec<_>>(), NO_CORE)?;
    }
    Ok(())
}

/// Films that were sent so.
///
/// # Errors
/// If there are fewer than was said.
pub(crate) fn take_films(from: &UnixStream) -> io::Result<Vec<File>> {
    let (_, count) = receive(from)?;
    let mut films = Vec::new();
    while films.len() < usize::from(count) {
        let (some, _) = receive(from)?;
        if some.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "films are missing"));
        }
        films.extend(some.into_iter().map(File::from));
    }
    Ok(films)
}

/// Sends files and a number.
///
/// # Errors
/// If they cannot be sent.
pub(crate) fn send(to: &UnixStream, given: &[BorrowedFd<'_>], number: u16) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !given.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(given));
    }
    let number = number.to_le_bytes();
    sendmsg(to, &[IoSlice::new(&number)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn take(from: &UnixStream) -> io::Result<(Vec<OwnedFd>, Option<u16>)> {
    let (given, core) = receive(from)?;
    Ok((given, (core != NO_CORE).then_some(core)))
}

/// Files and a number that were sent.
///
/// # Errors
/// If the other end is gone.
pub(crate) fn receive(from: &UnixStream) -> io::Result<(Vec<OwnedFd>, u16)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut number = [0; 2];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let got = recvmsg(from, &mut [IoSliceMut::new(&mut number)], &mut ancillary, flags)?;
    if got.bytes < number.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let taken = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((taken.flatten().collect(), u16::from_le_bytes(number)))
}

/// The network interface processor: what this program does when it was started as one.
///
/// # Errors
/// If it was not started by a server, or cannot wait for its sockets.
pub fn network_interface_processor() -> io::Result<()> {
    confined_processor(Confined { thread: || (), process: || () })
}

/// How a network interface processor confines itself.
#[derive(Clone, Copy, Debug)]
pub struct Confined {
    /// Called first in each thread that it starts.
    pub thread: fn(),
    /// Called when it has its core, priority and memory.
    pub process: fn(),
}

/// The same, confined.
///
/// # Errors
/// As [`network_interface_processor`].
pub fn confined_processor(confined: Confined) -> io::Result<()> {
    let bell = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let wrong = || io::Error::other("this command is started by `millstream serve` alone");
    let (estate, core) = SharedResources::take(&bell).map_err(|_| wrong())?;
    estate.region.set(GlobalField::Process, std::process::id().into());
    let parts = Parts::new(estate, bell, confined.thread)?;
    settle(core);
    (confined.process)();
    data_plane::run(parts)
}

/// Takes a core, real-time priority and locked memory, as far as the system permits; without, the
/// processor works, and is disturbed by others.
fn settle(core: Option<u16>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let core = core.map(usize::from).or_else(|| (cores > 1).then(|| cores - 1));
    if let Some(core) = core
        && let Err(error) = pin(core)
    {
        eprintln!("network interface processor: not pinned to core {core}: {error}");
    }
    if let Err(error) = real_time() {
        eprintln!("network interface processor: no real-time priority: {error}");
    }
    use rustix::mm::{MlockAllFlags, mlockall};
    if let Err(error) = mlockall(MlockAllFlags::CURRENT) {
        eprintln!("network interface processor: memory not locked: {error}");
    }
}

/// Pins this thread, and those that it starts from now on, to a core.
///
/// # Errors
/// If there is no such core, or this process may not use it.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// SCHED_FIFO at its lowest priority, which is above every ordinary process.
#[allow(unsafe_code)]
fn real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads `parameters` and nothing else; 0 is this thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
