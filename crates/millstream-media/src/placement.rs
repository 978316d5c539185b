//! Where the processor runs: in a thread of the server, or in a process of its own.
//!
//! The process is this program again. It is given the shared memory and the sockets over its standard
//! input, a socket that stays the bell between the two. It outlives the server's crash, and the server
//! starts another when it crashes; what a crash loses is only what waited in it.

use millstream_scenario::Placement;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use crate::processor::{self, Parts};
use crate::region::{Region, Setting};
use crate::store::Store;

/// No core to be pinned to.
const NO_CORE: u16 = u16::MAX;

/// What a processor is given; kept to give it to the next.
#[derive(Debug)]
pub(crate) struct Estate {
    pub(crate) store: File,
    pub(crate) region_file: File,
    pub(crate) region: Region,
    pub(crate) rtp: UdpSocket,
    pub(crate) rtcp: UdpSocket,
}

/// A processor that runs.
#[derive(Debug)]
pub(crate) enum Processor {
    Thread(Option<JoinHandle<io::Result<()>>>),
    Process(Child),
}

impl Processor {
    /// Starts a processor; returns it and our end of the bell.
    ///
    /// # Errors
    /// If there is no memory, or the process cannot be started.
    pub(crate) fn start(placement: Placement, estate: &Estate) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        estate.region.add(Setting::Generation, 1);
        let processor = match placement {
            Placement::Host => {
                let parts = Parts {
                    store: Store::open(&estate.store)?,
                    region: estate.region,
                    rtp: estate.rtp.try_clone()?,
                    rtcp: estate.rtcp.try_clone()?,
                    bell: theirs,
                };
                let thread = std::thread::Builder::new().name("dispatch".to_owned());
                Self::Thread(Some(thread.spawn(move || processor::run(parts))?))
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
        }
    }
}

/// Sends the shared memory and the sockets.
fn give(to: &UnixStream, estate: &Estate, core: Option<u16>) -> io::Result<()> {
    let given =
        [estate.store.as_fd(), estate.region_file.as_fd(), estate.rtp.as_fd(), estate.rtcp.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&given));
    let core = core.unwrap_or(NO_CORE).to_le_bytes();
    sendmsg(to, &[IoSlice::new(&core)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn take(from: &UnixStream) -> io::Result<(Vec<OwnedFd>, Option<u16>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut core = [0; 2];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(from, &mut [IoSliceMut::new(&mut core)], &mut ancillary, flags)?;
    let taken = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let core = u16::from_le_bytes(core);
    Ok((taken.flatten().collect(), (core != NO_CORE).then_some(core)))
}

/// The network interface processor: what this program does when it was started as one.
///
/// # Errors
/// If it was not started by a server, or cannot wait for its sockets.
pub fn network_interface_processor() -> io::Result<()> {
    let bell = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let wrong = || io::Error::other("this command is started by `millstream serve` alone");
    let (given, core) = take(&bell).map_err(|_| wrong())?;
    let [store, region, rtp, rtcp] = <[OwnedFd; 4]>::try_from(given).map_err(|_| wrong())?;
    let region = Region::open(&File::from(region))?;
    let store = Store::open(&File::from(store))?;
    settle(core);
    processor::run(Parts { store, region, rtp: rtp.into(), rtcp: rtcp.into(), bell })
}

/// Takes a core, real-time priority and locked memory, as far as the system permits; without, the
/// processor works, and is disturbed by others.
fn settle(core: Option<u16>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let core = core.map(usize::from).or_else(|| (cores > 1).then(|| cores - 1));
    if let Some(core) = core.filter(|core| *core < CpuSet::MAX_CPU) {
        let mut set = CpuSet::new();
        set.set(core);
        if let Err(error) = sched_setaffinity(None, &set) {
            eprintln!("network interface processor: not pinned to core {core}: {error}");
        }
    }
    if let Err(error) = real_time() {
        eprintln!("network interface processor: no real-time priority: {error}");
    }
    use rustix::mm::{MlockAllFlags, mlockall};
    if let Err(error) = mlockall(MlockAllFlags::CURRENT) {
        eprintln!("network interface processor: memory not locked: {error}");
    }
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
