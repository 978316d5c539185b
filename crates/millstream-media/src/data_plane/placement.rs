//! The placement of the data plane: in a thread of the server, or in a process of its own.
//!
//! The process runs this same program. Its standard input is a socket. The server sends the shared
//! memory and the sockets over it; later both sides use it to wake each other. The process survives
//! a crash of the server. The server restarts the process after a crash of the process, which loses
//! only the frames that waited in it.
//!
//! ```text
//!  server ── standard input: memory, sockets ──> data plane     then: the wake-up socket
//!  server is gone; another ── connects to the socket file ──> data plane
//!                          <── memory, sockets ──              then: the new wake-up socket
//! ```

use millstream_scenario::Placement;
use millstream_sync::clock::system::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_setaffinity, set_capabilities};
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

use crate::data_plane::{self, Inputs};
use crate::shared_memory::region::{GlobalField, Region};

/// The core number that means "not pinned".
const NO_CORE: u16 = u16::MAX;

/// The largest number of files per message.
const MAX_FILES_PER_MESSAGE: usize = 64;

/// The time within which a discovered data plane must answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The time that a data plane has to end after the request, ns.
const END_TIMEOUT_NS: u64 = 5_000_000_000;

/// The resources of a data plane; the server keeps them to start the next data plane.
#[derive(Debug)]
pub(crate) struct SharedResources {
    pub(crate) store: File,
    pub(crate) region_file: File,
    pub(crate) region: Region,
    /// The rings of live frames.
    pub(crate) live: File,
    /// The frame cache of media files that are read ahead.
    pub(crate) frame_cache: File,
    /// The media files that are read ahead.
    pub(crate) media_files: Vec<File>,
    pub(crate) rtp: UdpSocket,
    pub(crate) rtcp: UdpSocket,
    /// The event counter that wakes the media thread, which sends by WebRTC.
    pub(crate) media_thread: File,
    /// The listener on which a restarted server requests these resources.
    ///
    /// The data plane has it, too.
    pub(crate) listener: Option<UnixListener>,
}

impl SharedResources {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            store: self.store.try_clone()?,
            region_file: self.region_file.try_clone()?,
            region: self.region,
            live: self.live.try_clone()?,
            frame_cache: self.frame_cache.try_clone()?,
            media_files: self.media_files.iter().map(File::try_clone).collect::<io::Result<_>>()?,
            rtp: self.rtp.try_clone()?,
            rtcp: self.rtcp.try_clone()?,
            media_thread: self.media_thread.try_clone()?,
            listener: self.listener.as_ref().map(UnixListener::try_clone).transpose()?,
        })
    }

    /// Receives the resources and the core number from the other end of `from`.
    fn receive(from: &UnixStream) -> io::Result<(Self, Option<u16>)> {
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, "not the resources of a data plane");
        let (given, core) = receive_resources(from)?;
        let mut given = given.into_iter();
        let mut next = || given.next().ok_or_else(wrong);
        let (store, region_file) = (File::from(next()?), File::from(next()?));
        let (live, frame_cache) = (File::from(next()?), File::from(next()?));
        let (rtp, rtcp) = (next()?.into(), next()?.into());
        let media_thread = next()?.into();
        let region = Region::open(&region_file)?;
        let listener = given.next().map(UnixListener::from);
        let media_files = receive_media_files(from)?;
        Ok((
            Self {
                store,
                region_file,
                region,
                live,
                frame_cache,
                media_files,
                rtp,
                rtcp,
                media_thread,
                listener,
            },
            core,
        ))
    }
}

/// A running data plane.
#[derive(Debug)]
pub(crate) enum DataPlaneHandle {
    Thread(Option<JoinHandle<io::Result<()>>>),
    Process(Child),
    /// A process that an earlier server started.
    Adopted(Pid),
}

impl DataPlaneHandle {
    /// Starts a data plane. Returns it and the server's end of the wake-up socket.
    ///
    /// # Errors
    /// Fails if there is no memory, or the process cannot be started.
    pub(crate) fn start(
        placement: Placement,
        shared: &SharedResources,
    ) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        shared.region.add(GlobalField::Generation, 1);
        let data_plane = match placement {
            Placement::Host => {
                let parts = Inputs::new(shared.try_clone()?, theirs, || ())?;
                let thread = std::thread::Builder::new().name("dispatch".to_owned());
                Self::Thread(Some(thread.spawn(move || data_plane::run(parts))?))
            }
            Placement::Ni { core } => {
                let child = Command::new(std::env::current_exe()?)
                    .arg("ni")
                    .stdin(Stdio::from(OwnedFd::from(theirs)))
                    .stdout(Stdio::null())
                    // Keeps Ctrl-C from the process: the server handles it and ends the data plane.
                    .process_group(0)
                    .spawn()?;
                send_resources(&ours, shared, core)?;
                Self::Process(child)
            }
        };
        ours.set_nonblocking(true)?;
        Ok((data_plane, ours))
    }

    /// Returns the process identifier if the data plane is a process of its own.
    pub(crate) fn id(&self) -> Option<u32> {
        match self {
            Self::Thread(_) => None,
            Self::Process(child) => Some(child.id()),
            Self::Adopted(process) => u32::try_from(process.as_raw_nonzero().get()).ok(),
        }
    }

    /// Waits until the data plane has ended. Its end must have been requested before, unless it
    /// failed.
    ///
    /// Returns the reason if it failed.
    pub(crate) fn wait(&mut self) -> Option<String> {
        match self {
            Self::Thread(thread) => match thread.take()?.join() {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("panicked".to_owned()),
            },
            Self::Process(child) => match child.wait() {
                Ok(status) if status.success() => None,
                Ok(status) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            },
            Self::Adopted(process) => {
                // A process that is gone cannot be opened, and its exit status is unknown.
                if let Ok(ending) = pidfd_open(*process, PidfdFlags::empty()) {
                    let mut waited = [PollFd::new(&ending, PollFlags::IN)];
                    let _ = poll(&mut waited, Some(&timespec(END_TIMEOUT_NS)));
                }
                Some("unknown exit status: another server started it".to_owned())
            }
        }
    }

    /// Finds the data plane that an earlier server left at `path`.
    ///
    /// Returns it, its resources and this end of the wake-up socket, or `None` if there is none.
    ///
    /// # Errors
    /// Fails if the data plane does not answer, as while its server runs, or belongs to another
    /// user.
    pub(crate) fn find(path: &Path) -> io::Result<Option<(Self, SharedResources, UnixStream)>> {
        let waker = match UnixStream::connect(path) {
            Ok(waker) => waker,
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
        if socket_peercred(&waker)?.uid != geteuid() {
            return Err(io::Error::other("the data plane belongs to another user"));
        }
        waker.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let (shared, _) = SharedResources::receive(&waker).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::other("another server uses this data plane"),
            _ => error,
        })?;
        waker.set_nonblocking(true)?;
        // The peer credentials of the socket would name the process that bound it, so they are not
        // used.
        let process = i32::try_from(shared.region.get(GlobalField::Process)).ok();
        let process = process.and_then(Pid::from_raw);
        let unknown = || io::Error::other("the data plane does not report its process id");
        Ok(Some((Self::Adopted(process.ok_or_else(unknown)?), shared, waker)))
    }
}

/// Creates the socket file for a restarted server, accessible only to this user.
///
/// # Errors
/// Fails if the socket file cannot be created.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    // Removes the socket of a data plane that is gone, but no other file.
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts a new server of the same user and sends it the data plane's resources.
///
/// Returns this end of the wake-up socket between the two.
pub(crate) fn accept_server(shared: &SharedResources) -> Option<UnixStream> {
    let (stream, _) = shared.listener.as_ref()?.accept().ok()?;
    if socket_peercred(&stream).ok()?.uid != geteuid() {
        return None;
    }
    send_resources(&stream, shared, None).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// Sends the shared memory, the sockets and the media files.
fn send_resources(to: &UnixStream, shared: &SharedResources, core: Option<u16>) -> io::Result<()> {
    let mut given = vec![
        shared.store.as_fd(),
        shared.region_file.as_fd(),
        shared.live.as_fd(),
        shared.frame_cache.as_fd(),
        shared.rtp.as_fd(),
        shared.rtcp.as_fd(),
        shared.media_thread.as_fd(),
    ];
    given.extend(shared.listener.as_ref().map(AsFd::as_fd));
    send(to, &given, core.unwrap_or(NO_CORE))?;
    send_media_files(to, &shared.media_files)
}

/// Sends media files: first their number, then the files in batches.
pub(crate) fn send_media_files(to: &UnixStream, media_files: &[File]) -> io::Result<()> {
    let too_many = |_| io::Error::other("too many media files to read ahead");
    send(to, &[], u16::try_from(media_files.len()).map_err(too_many)?)?;
    for media_files in media_files.chunks(MAX_FILES_PER_MESSAGE) {
        send(to, &media_files.iter().map(AsFd::as_fd).collect::<Vec<_>>(), NO_CORE)?;
    }
    Ok(())
}

/// Receives the media files that [`send_media_files`] sends.
///
/// # Errors
/// Fails if fewer files arrive than announced.
pub(crate) fn receive_media_files(from: &UnixStream) -> io::Result<Vec<File>> {
    let (_, count) = receive(from)?;
    let mut media_files = Vec::new();
    while media_files.len() < usize::from(count) {
        let (some, _) = receive(from)?;
        if some.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "media files are missing"));
        }
        media_files.extend(some.into_iter().map(File::from));
    }
    Ok(media_files)
}

/// Sends files and a number in one message.
///
/// # Errors
/// Fails if the message cannot be sent.
pub(crate) fn send(to: &UnixStream, given: &[BorrowedFd<'_>], number: u16) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES_PER_MESSAGE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !given.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(given));
    }
    let number = number.to_le_bytes();
    sendmsg(to, &[IoSlice::new(&number)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn receive_resources(from: &UnixStream) -> io::Result<(Vec<OwnedFd>, Option<u16>)> {
    let (given, core) = receive(from)?;
    Ok((given, (core != NO_CORE).then_some(core)))
}

/// Receives the files and the number that [`send`] sends.
///
/// # Errors
/// Fails if the other end is closed.
pub(crate) fn receive(from: &UnixStream) -> io::Result<(Vec<OwnedFd>, u16)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES_PER_MESSAGE))];
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

/// Runs the data plane as a process ("network interface processor") that a server has started.
///
/// # Errors
/// Fails if a server did not start this process, or the process cannot wait for its sockets.
pub fn run_data_plane_process() -> io::Result<()> {
    run_confined_data_plane(ConfinementHooks { thread: || (), process: || () })
}

/// The functions with which a data plane process confines itself.
#[derive(Clone, Copy, Debug)]
pub struct ConfinementHooks {
    /// Called first in each thread that the process starts.
    pub thread: fn(),
    /// Called once the process has its core, priority and memory.
    pub process: fn(),
}

/// Runs [`run_data_plane_process`] with confinement.
///
/// # Errors
/// See [`run_data_plane_process`].
pub fn run_confined_data_plane(confined: ConfinementHooks) -> io::Result<()> {
    let waker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let wrong = || io::Error::other("only `millstream serve` starts this command");
    let (shared, core) = SharedResources::receive(&waker).map_err(|_| wrong())?;
    shared.region.set(GlobalField::Process, std::process::id().into());
    let parts = Inputs::new(shared, waker, confined.thread)?;
    raise_privileges(core);
    (confined.process)();
    data_plane::run(parts)
}

/// Takes a core, real-time priority and locked memory as far as the system permits.
///
/// The data plane works without these privileges, but other processes disturb it.
fn raise_privileges(core: Option<u16>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let core = core.map(usize::from).or_else(|| (cores > 1).then(|| cores - 1));
    if let Some(core) = core
        && let Err(error) = pin(core)
    {
        eprintln!("data plane: not pinned to core {core}: {error}");
    }
    if let Err(error) = real_time() {
        eprintln!("data plane: no real-time priority: {error}");
    }
    use rustix::mm::{MlockAllFlags, mlockall};
    if let Err(error) = mlockall(MlockAllFlags::CURRENT) {
        eprintln!("data plane: memory not locked: {error}");
    }
}

/// Pins this thread, and the threads that it starts later, to a core.
///
/// # Errors
/// Fails if the core does not exist, or this process may not use it.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Sets SCHED_FIFO at its lowest priority, which is above every ordinary process.
fn real_time() -> io::Result<()> {
    set_scheduler(libc::SCHED_FIFO, 1)
}

/// Puts this thread in the real-time class. Threads and processes that it starts have the ordinary
/// one.
///
/// # Errors
/// Fails if neither a permitted capability nor the limit of the process allows it.
pub(crate) fn enter_real_time_class() -> io::Result<()> {
    let enter = || set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
    let own = capabilities(None)?;
    let nice = own.permitted & CapabilitySet::SYS_NICE;
    if nice.is_empty() {
        return enter();
    }
    // A confined server keeps the capability permitted for its data plane, but not effective.
    let mut with_nice = own;
    with_nice.effective |= nice;
    set_capabilities(None, with_nice)?;
    let entered = enter();
    set_capabilities(None, own)?;
    entered
}

/// Puts this thread in the ordinary class, which is always permitted.
///
/// # Errors
/// Fails if system calls are limited further.
pub(crate) fn leave_real_time_class() -> io::Result<()> {
    set_scheduler(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

#[allow(unsafe_code)]
fn set_scheduler(policy: libc::c_int, sched_priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the call reads `parameters` and nothing else; 0 is this thread.
    match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
