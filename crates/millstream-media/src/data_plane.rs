//! The data plane's event loop: runs scheduler and dispatch in a thread or a process.
//!
//! The loop sleeps until the next event is due, the host wakes it, or RTCP arrives. Without a host,
//! clients that send RTCP keep playing; the data plane ends after the last one.

pub(crate) mod packet_sender;
pub(crate) mod placement;

use millstream::selector::{Select, Selector};
use millstream::{Dwcs, Edf, EdfFirst, Fifo, Heap};
use millstream_scenario::FramePath;
use millstream_sync::clock::system::{now_ns, timespec};
use rtcp_types::Compound;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use crate::data_plane::packet_sender::Network;
use crate::data_plane::placement::{SharedResources, accept_server};
use crate::files::read_ahead::reader;
use crate::instruction::compiler::Compiler;
use crate::instruction::runtime::Instructions;
use crate::scheduler::dispatch::Dispatch;
use crate::scheduler::frame_filter::FrameFilter;
use crate::shared_memory::frame_cache::FrameCache;
use crate::shared_memory::live_frames;
use crate::shared_memory::region::{GlobalField, Region, SessionField};
use crate::shared_memory::store::Store;
use crate::wake_socket::{drain, wake};

/// The longest sleep, ns.
const MAX_SLEEP_NS: u64 = 100_000_000;

/// The largest number of RTCP datagrams read per wake-up.
const RTCP_BATCH: usize = 16;

/// The inputs of a data plane.
#[derive(Debug)]
pub(crate) struct Inputs {
    store: Store,
    region: Region,
    /// The shared resources, for a server that adopts this data plane.
    resources: SharedResources,
    /// The compiler of instructions, if the scenario allows instructions.
    compiler: Option<Compiler>,
    /// The channel to this data plane's own reader threads, if it reads media files itself.
    ///
    /// A message starts the threads; closing the channel ends them.
    media_files: Option<Sender<()>>,
    /// This side of the wake-up socket pair; the other side closes when its process ends.
    waker: UnixStream,
}

impl Inputs {
    /// Builds the inputs from `resources` and this side of the wake-up socket.
    ///
    /// New threads call `begin` first.
    ///
    /// # Errors
    /// Fails if the store or the ring memory is damaged, or a thread cannot be started.
    pub(crate) fn new(
        resources: SharedResources,
        waker: UnixStream,
        begin: fn(),
    ) -> io::Result<Self> {
        let mut store = Store::open(&resources.store)?;
        store.rings = live_frames::read(&resources.live)?;
        let region = resources.region;
        let compiler =
            region.instruction_table().map(|table| Compiler::start(table, begin)).transpose()?;
        let own = region.get(GlobalField::FramePath) == FramePath::Ni as u64;
        let media_files = if own && !resources.media_files.is_empty() {
            Some(reader::start_later(
                resources.store.try_clone()?,
                resources.frame_cache.try_clone()?,
                resources.media_files.iter().map(File::try_clone).collect::<io::Result<_>>()?,
                begin,
            )?)
        } else {
            None
        };
        Ok(Self { store, region, resources, compiler, media_files, waker })
    }
}

/// Serves clients until the host ends it, or until the host and all clients are gone.
///
/// # Errors
/// Fails if a socket cannot be set up or polled, or the frame cache is damaged.
pub(crate) fn run(parts: Inputs) -> io::Result<()> {
    match parts.region.get(GlobalField::Schedule) {
        1 => run_by(parts, || Selector::new(Edf, Heap::default())),
        2 => run_by(parts, || Selector::new(Fifo, Heap::default())),
        _ => run_by(parts, || Selector::new(Dwcs::<EdfFirst>::default(), Heap::default())),
    }
}

fn run_by<S: Select<Stamp = ()>>(parts: Inputs, selector: fn() -> S) -> io::Result<()> {
    let Inputs { store, region, resources, compiler, media_files, mut waker } = parts;
    waker.set_nonblocking(true)?;
    let mut network = network(&resources)?;
    let mut dispatch = Dispatch::new(store, region, selector(), Instructions::default(), now_ns());
    if let Some((table, compiler)) = region.instruction_table().zip(compiler) {
        dispatch.filter = Instructions::open(table, compiler);
    }
    if !resources.media_files.is_empty() {
        // Opens the frame cache after the memory was locked: only its used pages then take memory.
        dispatch.set_frame_cache(FrameCache::open(&resources.frame_cache)?);
    }
    if let Some(media_files) = &media_files {
        let _ = media_files.send(());
    }
    let mut host_connected = true;
    let mut alone_since_ns = u64::MAX;
    while region.get(GlobalField::End) == 0 {
        let before_ns = now_ns();
        let (sending, next_ns) =
            (region.get(GlobalField::SendingNs), dispatch.step(before_ns, &mut network));
        let after_ns = now_ns();
        let sent_ns = region.get(GlobalField::SendingNs) - sending;
        region.add(GlobalField::SchedulingNs, (after_ns - before_ns).saturating_sub(sent_ns));
        if std::mem::take(&mut network.ordered) {
            wake(&mut waker);
        }
        network.wake_media_thread();
        let sleep_ns = next_ns.saturating_sub(after_ns).min(MAX_SLEEP_NS);
        if sleep_ns == 0 {
            continue;
        }
        let wait = timespec(sleep_ns);
        let (host_ready, rtcp_ready, build_ready) = {
            let events = PollFlags::IN;
            // Without a host, waits for the connection of a new server instead.
            let host = match (host_connected, &resources.listener) {
                (true, _) => Some(waker.as_fd()),
                (false, listener) => listener.as_ref().map(AsFd::as_fd),
            };
            let rtcp = network.rtcp();
            let compiler = dispatch.filter.waker().map(AsFd::as_fd);
            // Replaces a missing descriptor by one without events: `poll` gets a fixed-size array.
            let [host, compiler] = [host, compiler].map(|fd| match fd {
                Some(fd) => PollFd::from_borrowed_fd(fd, events),
                None => PollFd::new(rtcp, PollFlags::empty()),
            });
            let mut poll_fds = [PollFd::new(rtcp, events), host, compiler];
            match poll(&mut poll_fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let has = |at: usize| poll_fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            (has(1), has(0), has(2))
        };
        if build_ready {
            dispatch.filter.install_built();
        }
        if host_ready && host_connected {
            host_connected = drain(&mut waker);
            alone_since_ns = after_ns;
        } else if host_ready && let Some(new) = accept_server(&resources) {
            waker = new;
            host_connected = true;
        }
        if rtcp_ready {
            receive_rtcp(&network, &dispatch);
        }
        if !host_connected {
            dispatch.end_silent_clients(after_ns, region.get(GlobalField::IdleTimeoutNs));
            let alone_ns = after_ns.saturating_sub(alone_since_ns);
            // Live frames arrive only through a host.
            if resources.listener.is_none() || alone_ns > region.get(GlobalField::IdleTimeoutNs) {
                dispatch.end_live();
            }
            let hand_over_ns = region.get(GlobalField::HandOverNs);
            if hand_over_ns > 0 && alone_ns > hand_over_ns {
                dispatch.hand_over();
            }
            if !dispatch.is_playing() && dispatch.unresolved() == 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn network(resources: &SharedResources) -> io::Result<Network> {
    let (rtp, rtcp) = (resources.rtp.try_clone()?, resources.rtcp.try_clone()?);
    Network::new(rtp, rtcp, resources.media_thread.try_clone()?, resources.region)
}

/// Records which clients sent RTCP.
fn receive_rtcp(network: &Network, dispatch: &Dispatch<impl Select<Stamp = ()>, impl FrameFilter>) {
    let mut datagram = [0; 1500];
    for _ in 0..RTCP_BATCH {
        let Ok((length, from)) = network.rtcp().recv_from(&mut datagram) else { return };
        if Compound::parse(&datagram[..length]).is_err() {
            continue;
        }
        let sender =
            dispatch.clients().find(|c| c.row.destinations().is_some_and(|(_, rtcp)| rtcp == from));
        if let Some(client) = sender {
            client.row.set(SessionField::RtcpReceivedNs, now_ns());
        }
    }
}
