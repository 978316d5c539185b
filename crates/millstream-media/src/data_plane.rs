//! The data plane's event loop: runs scheduler and dispatch in a thread or a process.
//!
//! The loop sleeps until the next event is due, the host wakes it, or RTCP arrives. Without a host,
//! clients that send RTCP keep playing; the data plane ends after the last one.

pub(crate) mod packet_sender;
pub(crate) mod placement;

use millstream::selector::{Select, Selector};
use millstream::{Dwcs, Edf, EdfFirst, Fifo, Heap};
use millstream_scenario::FramePath;
use rtcp_types::Compound;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use crate::clock::{now_ns, timespec};
use crate::data_plane::packet_sender::Network;
use crate::data_plane::placement::{SharedResources, welcome};
use crate::files::read_ahead::frame_cache::FrameCache;
use crate::files::read_ahead::reader;
use crate::instruction::building::Builder;
use crate::instruction::running::Instructions;
use crate::live::frames;
use crate::scheduler::dispatch::Dispatch;
use crate::shared_memory::region::{GlobalField, Region, SessionField};
use crate::shared_memory::store::Store;

/// The longest sleep, ns.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// The largest number of RTCP datagrams read per wake-up.
const HEARD_AT_ONCE: usize = 16;

/// The inputs of a data plane.
#[derive(Debug)]
pub(crate) struct Parts {
    store: Store,
    region: Region,
    /// The shared resources, for a server that adopts this data plane.
    resources: SharedResources,
    /// The compiler of instructions, if the scenario allows instructions.
    builder: Option<Builder>,
    /// The channel to this data plane's own reader threads, if it reads media files itself.
    ///
    /// A message starts the threads; closing the channel ends them.
    media_files: Option<Sender<()>>,
    /// This side of the wake-up socket pair; the other side closes when its process ends.
    waker: UnixStream,
}

impl Parts {
    /// Builds the inputs from `resources` and this side of the wake-up socket.
    ///
    /// New threads call `begin` first.
    ///
    /// # Errors
    /// If the store or the ring memory is damaged, or a thread cannot be started.
    pub(crate) fn new(
        resources: SharedResources,
        waker: UnixStream,
        begin: fn(),
    ) -> io::Result<Self> {
        let mut store = Store::open(&resources.store)?;
        store.rings = frames::read(&resources.live)?;
        let region = resources.region;
        let builder =
            region.instruction_table().map(|table| Builder::start(table, begin)).transpose()?;
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
        Ok(Self { store, region, resources, builder, media_files, waker })
    }
}

/// Serves clients until the host ends it, or until the host and all clients are gone.
///
/// # Errors
/// If a socket cannot be set up or polled, or the frame cache is damaged.
pub(crate) fn run(parts: Parts) -> io::Result<()> {
    match parts.region.get(GlobalField::Schedule) {
        1 => run_by(parts, || Selector::new(Edf, Heap::default())),
        2 => run_by(parts, || Selector::new(Fifo, Heap::default())),
        _ => run_by(parts, || Selector::new(Dwcs::<EdfFirst>::default(), Heap::default())),
    }
}

fn run_by<S: Select<Stamp = ()>>(parts: Parts, selector: fn() -> S) -> io::Result<()> {
    let Parts { store, region, resources, builder, media_files, mut waker } = parts;
    waker.set_nonblocking(true)?;
    let mut network =
        Network::new(resources.rtp.try_clone()?, resources.rtcp.try_clone()?, region)?;
    let mut dispatch = Dispatch::new(store, region, selector(), now_ns());
    if let Some((table, builder)) = region.instruction_table().zip(builder) {
        dispatch.instructions = Instructions::open(table, builder);
    }
    if !resources.media_files.is_empty() {
        // Opens the frame cache after the memory was locked: only its used pages then take memory.
        dispatch.take_from(FrameCache::open(&resources.frame_cache)?);
    }
    if let Some(media_files) = &media_files {
        let _ = media_files.send(());
    }
    let mut host_is_there = true;
    let mut alone_since_ns = u64::MAX;
    while region.get(GlobalField::End) == 0 {
        let before_ns = now_ns();
        let (sending, next_ns) =
            (region.get(GlobalField::SendingNs), dispatch.step(before_ns, &mut network));
        let after_ns = now_ns();
        let sent_ns = region.get(GlobalField::SendingNs) - sending;
        region.add(GlobalField::SchedulingNs, (after_ns - before_ns).saturating_sub(sent_ns));
        if std::mem::take(&mut network.ordered) {
            ring(&mut waker);
        }
        let sleep_ns = next_ns.saturating_sub(after_ns).min(LONGEST_SLEEP_NS);
        if sleep_ns == 0 {
            continue;
        }
        let wait = timespec(sleep_ns);
        let (rung, heard, built) = {
            let events = PollFlags::IN;
            // Without a host, waits for the connection of a new server instead.
            let host = match (host_is_there, &resources.listener) {
                (true, _) => Some(waker.as_fd()),
                (false, listener) => listener.as_ref().map(AsFd::as_fd),
            };
            let rtcp = network.rtcp();
            let builder = dispatch.instructions.waker().map(AsFd::as_fd);
            // Replaces a missing descriptor by one without events: `poll` gets a fixed-size array.
            let [host, builder] = [host, builder].map(|fd| match fd {
                Some(fd) => PollFd::from_borrowed_fd(fd, events),
                None => PollFd::new(rtcp, PollFlags::empty()),
            });
            let mut waited = [PollFd::new(rtcp, events), host, builder];
            match poll(&mut waited, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let has = |at: usize| waited.get(at).is_some_and(|fd| !fd.revents().is_empty());
            (has(1), has(0), has(2))
        };
        if built {
            dispatch.instructions.take_built();
        }
        if rung && host_is_there {
            host_is_there = drain(&mut waker);
            alone_since_ns = after_ns;
        } else if rung && let Some(new) = welcome(&resources) {
            waker = new;
            host_is_there = true;
        }
        if heard {
            hear(&network, &dispatch);
        }
        if !host_is_there {
            dispatch.end_unheard(after_ns, region.get(GlobalField::IdleTimeoutNs));
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

/// Wakes the other side. An error is ignored: a full socket already holds a wake-up.
pub(crate) fn ring(mut waker: impl Write) {
    let _ = waker.write(&[1]);
}

/// Drains all wake-ups. Returns whether the other side is still connected.
pub(crate) fn drain(mut waker: impl Read) -> bool {
    let mut rings = [0; 256];
    loop {
        match waker.read(&mut rings) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Records which clients sent RTCP.
fn hear(network: &Network, dispatch: &Dispatch<impl Select<Stamp = ()>>) {
    let mut datagram = [0; 1500];
    for _ in 0..HEARD_AT_ONCE {
        let Ok((length, from)) = network.rtcp().recv_from(&mut datagram) else { return };
        if Compound::parse(&datagram[..length]).is_err() {
            continue;
        }
        let sender =
            dispatch.clients().find(|c| c.row.destinations().is_some_and(|(_, rtcp)| rtcp == from));
        if let Some(client) = sender {
            client.row.set(SessionField::HeardNs, now_ns());
        }
    }
}
