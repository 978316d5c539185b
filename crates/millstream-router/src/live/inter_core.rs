//! Frame rings between cores, and the shared occupancy of the queues that they feed.
//!
//! ```text
//! core 0                                    core 1
//! handle ──copy──> slot ──ring──────────────> copy ──> remote buffer ──> queue
//!                    └<────────ring of empty slots──┘
//! ```
//!
//! Each core owns its buffers, so a frame is copied into a preallocated slot and out of it. Without
//! a free slot, packets wait in an outbox until the other core returns slots. The sender reserves
//! space in the destination queue first, so no single queue blocks the ring. [`SharedOccupancy`]
//! counts packets in a queue and packets in flight to it.

use millstream_sync::ring::slots::{Receiver, Sender, slots};
use millstream_sync::waker::eventfd::Waker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::error::PortError;
use crate::ids::{CoreId, IdVec, PacketHandle, PathId, PortId};
use crate::io::port::Port;
use crate::net::handshakes::Handshakes;
use crate::net::pool::{BUFFER_BYTES, FlowHashes, Pool};
use crate::router::RemoteOwnership;
use crate::router::machine::QueueId;

/// Slots from one core to another; preallocated.
const SLOTS: usize = 512;
/// The most slots that [`InterCoreLinks::exchange`] takes from one core.
const AT_ONCE: usize = 64;

/// The operation that the receiving core performs on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrossCoreDestination {
    /// Enqueues it.
    Queue(QueueId),
    /// Sends it by this port, ahead of the port's queues.
    Originate(PortId),
    /// Learns the neighbour that the frame announces at this port.
    LearnNeighbour(PortId),
}

#[derive(Debug)]
struct FrameSlot {
    destination: CrossCoreDestination,
    handle: PacketHandle,
    /// The packet's stamp and flow.
    note: (u64, FlowHashes),
    frame: [u8; BUFFER_BYTES],
}

/// The core of each path and port of one file, and the occupancy of queues fed by other cores.
#[derive(Debug)]
pub(crate) struct SharedOccupancy {
    path_core: IdVec<PathId, CoreId>,
    port_core: IdVec<PortId, CoreId>,
    /// Packets from other cores in the input queue of each path, or in flight to it.
    at_path: IdVec<PathId, AtomicU32>,
    /// Packets from other cores in each output queue, or in flight to it; row by path, column by
    /// port.
    at_output: Vec<AtomicU32>,
}

impl SharedOccupancy {
    /// Creates empty queues for paths and ports, each given by its core.
    pub(crate) fn new(
        path_core: impl IntoIterator<Item = CoreId>,
        port_core: impl IntoIterator<Item = CoreId>,
    ) -> Self {
        let path_core: IdVec<PathId, _> = path_core.into_iter().collect();
        let port_core: IdVec<PortId, _> = port_core.into_iter().collect();
        let counts = |many: usize| (0..many).map(|_| AtomicU32::new(0));
        let (at_path, at_output) = (path_core.len(), path_core.len() * port_core.len());
        let (at_path, at_output) = (counts(at_path).collect(), counts(at_output).collect());
        Self { at_path, at_output, path_core, port_core }
    }

    /// Returns the paths and ports that other cores than `core` own.
    pub(crate) fn remote(&self, core: CoreId) -> RemoteOwnership {
        let is_remote = |owner: &CoreId| *owner != core;
        RemoteOwnership {
            inputs: self.port_core.iter().map(is_remote).collect(),
            paths: self.path_core.iter().map(is_remote).collect(),
            outputs: self.port_core.iter().map(is_remote).collect(),
        }
    }

    /// Sets the occupancy of a queue that a reload kept.
    pub(crate) fn set(&self, queue: QueueId, packets: usize) {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        self.count(queue).store(packets, Ordering::Relaxed);
    }

    #[inline]
    fn count(&self, queue: QueueId) -> &AtomicU32 {
        match queue {
            QueueId::Path(path) => &self.at_path[path],
            QueueId::Output { path, output } => {
                &self.at_output[path.0 * self.port_core.len() + output.0]
            }
        }
    }

    #[inline]
    fn core(&self, queue: QueueId) -> CoreId {
        match queue {
            QueueId::Path(path) => self.path_core[path],
            QueueId::Output { output, .. } => self.port_core[output.into()],
        }
    }
}

/// The state of a port that its core publishes to the other cores.
#[derive(Debug)]
pub(crate) struct RemotePortState {
    pub(crate) ended: AtomicBool,
    pub(crate) longest_bytes: AtomicU32,
}

impl Default for RemotePortState {
    fn default() -> Self {
        Self { ended: AtomicBool::new(false), longest_bytes: AtomicU32::new(u32::MAX) }
    }
}

/// A placeholder for a port of another core: it receives and transmits nothing.
pub(crate) struct RemotePort(pub(crate) Arc<[RemotePortState]>, pub(crate) PortId);

impl Port for RemotePort {
    fn receive(
        &mut self,
        _: &mut Pool,
        _: usize,
        _: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, _: &mut Pool, _: &[PacketHandle]) -> Result<usize, PortError> {
        // Packets for this port are handed over to its core.
        Ok(0)
    }

    fn ended(&self) -> bool {
        self.0[self.1.0].ended.load(Ordering::Acquire)
    }

    fn longest_bytes(&self) -> u32 {
        self.0[self.1.0].longest_bytes.load(Ordering::Relaxed)
    }
}

/// The rings to and from another core.
struct InterCoreLink {
    core: CoreId,
    to: Sender<FrameSlot>,
    from: Receiver<FrameSlot>,
    outbox: VecDeque<(CrossCoreDestination, PacketHandle)>,
    /// Whether frames were sent since the last wake-up.
    sent: bool,
    waker: Arc<Waker>,
}

impl InterCoreLink {
    /// Sends a frame; returns false without a free slot.
    #[inline]
    fn send(
        &mut self,
        pool: &Pool,
        destination: CrossCoreDestination,
        handle: PacketHandle,
    ) -> bool {
        let sent = self.to.send(|slot| {
            let frame = pool.frame(handle);
            slot.frame[..frame.len()].copy_from_slice(frame);
            (slot.destination, slot.handle) = (destination, handle);
            slot.note = (pool.stamp(handle), pool.flow(handle));
        });
        self.sent |= sent;
        sent
    }
}

/// One core's ends of the links to all other cores.
pub(crate) struct InterCoreLinks {
    pub(crate) occupancy: Arc<SharedOccupancy>,
    pub(crate) ports: Arc<[RemotePortState]>,
    pub(crate) waker: Arc<Waker>,
    /// The recent SYNs of all cores.
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) core: CoreId,
    links: Vec<InterCoreLink>,
}

impl InterCoreLinks {
    /// Connects `cores` cores; returns the ends by core.
    ///
    /// # Errors
    /// Fails if eventfd(2) fails.
    pub(crate) fn all(
        occupancy: &Arc<SharedOccupancy>,
        cores: usize,
    ) -> std::io::Result<Vec<Self>> {
        let wakers = (0..cores).map(|_| Ok(Arc::new(Waker::new()?)));
        let wakers: Vec<_> = wakers.collect::<std::io::Result<_>>()?;
        let ports: Arc<[RemotePortState]> =
            occupancy.port_core.iter().map(|_| RemotePortState::default()).collect();
        let handshakes = Arc::new(Handshakes::default());
        let end = |core: CoreId| Self {
            handshakes: Arc::clone(&handshakes),
            occupancy: Arc::clone(occupancy),
            ports: Arc::clone(&ports),
            waker: Arc::clone(&wakers[core.0]),
            core,
            links: Vec::new(),
        };
        let mut ends: Vec<Self> = (0..cores).map(CoreId).map(end).collect();
        for one in 0..cores {
            for other in one + 1..cores {
                let [there, back] = [(); 2].map(|()| slots(SLOTS, FrameSlot::default));
                let link = |core: CoreId, to, from| InterCoreLink {
                    core,
                    to,
                    from,
                    outbox: VecDeque::new(),
                    sent: false,
                    waker: Arc::clone(&wakers[core.0]),
                };
                ends[one].links.push(link(CoreId(other), there.0, back.1));
                ends[other].links.push(link(CoreId(one), back.0, there.1));
            }
        }
        Ok(ends)
    }

    /// Returns the number of packets from other cores that are in `queue` or in flight to it.
    #[inline]
    pub(crate) fn waiting(&self, queue: QueueId) -> usize {
        self.occupancy.count(queue).load(Ordering::Relaxed) as usize
    }

    /// Subtracts packets that have left `queue`.
    #[inline]
    pub(crate) fn left(&self, queue: QueueId, packets: u32) {
        self.occupancy.count(queue).fetch_sub(packets, Ordering::Relaxed);
    }

    /// Sends a packet to the core that owns `queue`.
    #[inline]
    pub(crate) fn hand_over(&mut self, pool: &mut Pool, queue: QueueId, handle: PacketHandle) {
        self.occupancy.count(queue).fetch_add(1, Ordering::Relaxed);
        let core = self.occupancy.core(queue);
        self.enqueue_frame(pool, core, CrossCoreDestination::Queue(queue), handle);
    }

    #[inline]
    fn enqueue_frame(
        &mut self,
        pool: &mut Pool,
        core: CoreId,
        destination: CrossCoreDestination,
        handle: PacketHandle,
    ) {
        let Some(link) = self.links.iter_mut().find(|link| link.core == core) else {
            return pool.release(handle);
        };
        if link.outbox.is_empty() && link.send(pool, destination, handle) {
            pool.release(handle);
        } else {
            link.outbox.push_back((destination, handle));
        }
    }

    /// Asks the core of `port` to send a frame. Drops it if no buffer is free or the link has a
    /// backlog.
    pub(crate) fn originate(&mut self, pool: &mut Pool, port: PortId, frame: &[u8]) {
        self.send_copies(
            pool,
            Some(self.occupancy.port_core[port]),
            CrossCoreDestination::Originate(port),
            frame,
        );
    }

    /// Sends a frame that `port` received to all other cores, to learn its neighbour. Skips cores
    /// whose link has a backlog.
    pub(crate) fn broadcast_neighbour(&mut self, pool: &mut Pool, port: PortId, frame: &[u8]) {
        self.send_copies(pool, None, CrossCoreDestination::LearnNeighbour(port), frame);
    }

    /// Sends a frame to `core`, or to all other cores if it is `None`. Skips cores whose link has a
    /// backlog.
    fn send_copies(
        &mut self,
        pool: &mut Pool,
        core: Option<CoreId>,
        destination: CrossCoreDestination,
        frame: &[u8],
    ) {
        for link in &mut self.links {
            let meant = core.is_none_or(|core| core == link.core);
            // Packets take precedence: neighbour resolution retries.
            if !meant || !link.outbox.is_empty() {
                continue;
            }
            let Some(handle) = pool.copy(frame) else { return };
            link.send(pool, destination, handle);
            pool.release(handle);
        }
    }

    /// Flushes outboxes, takes arrived frames into `pool`, and wakes the cores written to.
    pub(crate) fn exchange(
        &mut self,
        pool: &mut Pool,
        into: &mut Vec<(CrossCoreDestination, PacketHandle)>,
    ) {
        for link in &mut self.links {
            while let Some((destination, handle)) = link.outbox.front().copied() {
                if !link.send(pool, destination, handle) {
                    break;
                }
                link.outbox.pop_front();
                pool.release(handle);
            }
            for _ in 0..AT_ONCE {
                if !pool.has_remote_buffer() {
                    break;
                }
                let received = link.from.receive(|slot| {
                    let bytes = Pool::length(slot.handle) as usize;
                    let crossed =
                        matches!(slot.destination, CrossCoreDestination::Queue(QueueId::Path(_)));
                    let frame = &slot.frame[..bytes];
                    if let Some(here) = pool.import(frame, slot.handle, slot.note, crossed) {
                        into.push((slot.destination, here));
                    }
                });
                if received.is_none() {
                    break;
                }
            }
            if std::mem::take(&mut link.sent) {
                link.waker.wake();
            }
        }
    }

    /// Returns whether arrived frames have not been taken yet.
    pub(crate) fn has_arrivals(&self) -> bool {
        self.links.iter().any(|link| !link.from.is_empty())
    }

    /// Returns whether no frame is in flight in either direction.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_arrivals() && self.links.iter().all(|link| link.outbox.is_empty())
    }
}

impl Default for FrameSlot {
    fn default() -> Self {
        Self {
            destination: CrossCoreDestination::Originate(PortId(0)),
            handle: PacketHandle::default(),
            note: (0, FlowHashes::default()),
            frame: [0; BUFFER_BYTES],
        }
    }
}
