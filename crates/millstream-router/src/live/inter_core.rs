//! Packets that go from one core to another, and what each knows of the others' queues.
//!
//! ```text
//! core 0                                    core 1
//! handle ──copy──> parcel ──ring──────────> copy ──> buffer for others ──> queue
//!                    └<────────ring of empty parcels──┘
//! ```
//!
//! Every core has buffers of its own, so a packet is copied into a parcel and out of it. Parcels are made beforehand. With none
//! at hand packets wait in an outbox, for as long as the other core needs to take some; never for one queue's sake,
//! as what is handed over has room where it goes. What waits there, or is on its way, is counted on a [`Board`] for
//! all to see.

use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::error::PortError;
use crate::io::port::Port;
use crate::live::waker::Bell;
use crate::net::pool::{BUFFER_BYTES, Pool};
use crate::router::Elsewhere;
use crate::router::machine::Place;

/// Parcels from one core to another.
const PARCELS: usize = 512;
/// Parcels taken from one core at a time.
const AT_ONCE: usize = 64;

/// What is to be done with a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// To be queued.
    Queue(Place),
    /// To be sent by this port at once.
    Say(usize),
    /// This port heard it: who has which hardware address.
    Heard(usize),
}

#[derive(Debug)]
struct Parcel {
    errand: Errand,
    handle: u64,
    frame: [u8; BUFFER_BYTES],
}

/// Whose everything is, and what waits where: of the paths and ports of one file.
#[derive(Debug)]
pub(crate) struct Board {
    path_core: Vec<usize>,
    port_core: Vec<usize>,
    /// Packets from other cores in the input queue of each path, or on their way there.
    at_path: Vec<AtomicU32>,
    /// Packets from other cores in the output queue of each path at each port, ports of a path side by side.
    at_output: Vec<AtomicU32>,
}

impl Board {
    /// Of these paths and ports, each with its core.
    pub(crate) fn new(path_core: Vec<usize>, port_core: Vec<usize>) -> Self {
        let counts = |many: usize| (0..many).map(|_| AtomicU32::new(0)).collect();
        let (at_path, at_output) = (path_core.len(), path_core.len() * port_core.len());
        Self { at_path: counts(at_path), at_output: counts(at_output), path_core, port_core }
    }

    /// What is elsewhere for `core`.
    pub(crate) fn elsewhere(&self, core: usize) -> Elsewhere {
        let other = |of: &[usize]| of.iter().map(|of| *of != core).collect::<Vec<_>>();
        let ports = other(&self.port_core);
        Elsewhere { inputs: ports.clone(), paths: other(&self.path_core), outputs: ports }
    }

    /// Packets wait at a place that a core has taken over from another file.
    pub(crate) fn set(&self, place: Place, packets: usize) {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        self.count(place).store(packets, Ordering::Relaxed);
    }

    #[inline]
    fn count(&self, place: Place) -> &AtomicU32 {
        match place {
            Place::Path(path) => &self.at_path[path],
            Place::Output { path, output } => &self.at_output[path * self.port_core.len() + output],
        }
    }

    #[inline]
    fn core(&self, place: Place) -> usize {
        match place {
            Place::Path(path) => self.path_core[path],
            Place::Output { output, .. } => self.port_core[output],
        }
    }
}

/// What a core knows of ports of other cores.
#[derive(Debug)]
pub(crate) struct PortState {
    pub(crate) ended: AtomicBool,
    pub(crate) longest_bytes: AtomicU32,
}

impl Default for PortState {
    fn default() -> Self {
        Self { ended: AtomicBool::new(false), longest_bytes: AtomicU32::new(u32::MAX) }
    }
}

/// A port of another core: nothing comes in by it here.
pub(crate) struct RemotePort(pub(crate) Arc<[PortState]>, pub(crate) usize);

impl Port for RemotePort {
    fn receive(&mut self, _: &mut Pool, _: usize, _: &mut Vec<u64>) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, _: &mut Pool, _: &[u64]) -> Result<usize, PortError> {
        // Packets for it are handed over.
        Ok(0)
    }

    fn ended(&self) -> bool {
        self.0[self.1].ended.load(Ordering::Acquire)
    }

    fn longest_bytes(&self) -> u32 {
        self.0[self.1].longest_bytes.load(Ordering::Relaxed)
    }
}

/// The way to and from another core.
struct Way {
    core: usize,
    to: Producer<Box<Parcel>>,
    empty: Consumer<Box<Parcel>>,
    from: Consumer<Box<Parcel>>,
    emptied: Producer<Box<Parcel>>,
    // A parcel changes hands by its box.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Parcel>>,
    outbox: VecDeque<(Errand, u64)>,
    /// Something was sent since the bell was rung.
    sent: bool,
    bell: Arc<Bell>,
}

impl Way {
    /// Sends a packet, if there is a parcel for it.
    #[inline]
    fn send(&mut self, pool: &Pool, errand: Errand, handle: u64) -> bool {
        let Some(mut parcel) = self.spare.pop().or_else(|| self.empty.pop().ok()) else {
            return false;
        };
        let frame = pool.frame(handle);
        parcel.frame[..frame.len()].copy_from_slice(frame);
        (parcel.errand, parcel.handle) = (errand, handle);
        // There are as many places as parcels.
        let sent = self.to.push(parcel);
        debug_assert!(sent.is_ok());
        self.sent = true;
        true
    }
}

/// One core's end of all ways.
pub(crate) struct Crossing {
    pub(crate) board: Arc<Board>,
    pub(crate) ports: Arc<[PortState]>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) core: usize,
    ways: Vec<Way>,
}

impl Crossing {
    /// The ends of `cores` cores.
    ///
    /// # Errors
    /// If there can be no eventfd.
    pub(crate) fn all(board: &Arc<Board>, cores: usize) -> std::io::Result<Vec<Self>> {
        let bells = (0..cores).map(|_| Ok(Arc::new(Bell::new()?)));
        let bells: Vec<_> = bells.collect::<std::io::Result<_>>()?;
        let ports: Arc<[PortState]> =
            board.port_core.iter().map(|_| PortState::default()).collect();
        let end = |core: usize| Self {
            board: Arc::clone(board),
            ports: Arc::clone(&ports),
            bell: Arc::clone(&bells[core]),
            core,
            ways: Vec::new(),
        };
        let mut ends: Vec<Self> = (0..cores).map(end).collect();
        for one in 0..cores {
            for other in one + 1..cores {
                let [there, back] = [(); 2].map(|()| RingBuffer::new(PARCELS));
                let [emptied_there, emptied_back] = [(); 2].map(|()| RingBuffer::new(PARCELS));
                let way = |core: usize, to, empty, from, emptied| Way {
                    core,
                    to,
                    empty,
                    from,
                    emptied,
                    spare: (0..PARCELS).map(|_| Box::new(Parcel::default())).collect(),
                    outbox: VecDeque::new(),
                    sent: false,
                    bell: Arc::clone(&bells[core]),
                };
                let out = way(other, there.0, emptied_there.1, back.1, emptied_back.0);
                ends[one].ways.push(out);
                let home = way(one, back.0, emptied_back.1, there.1, emptied_there.0);
                ends[other].ways.push(home);
            }
        }
        Ok(ends)
    }

    /// What waits at `place`.
    #[inline]
    pub(crate) fn waiting(&self, place: Place) -> usize {
        self.board.count(place).load(Ordering::Relaxed) as usize
    }

    /// Packets have left `place`.
    #[inline]
    pub(crate) fn left(&self, place: Place, packets: u32) {
        self.board.count(place).fetch_sub(packets, Ordering::Relaxed);
    }

    /// Gives a packet to the core that `place` belongs to.
    #[inline]
    pub(crate) fn hand_over(&mut self, pool: &mut Pool, place: Place, handle: u64) {
        self.board.count(place).fetch_add(1, Ordering::Relaxed);
        let core = self.board.core(place);
        self.give(pool, core, Errand::Queue(place), handle);
    }

    #[inline]
    fn give(&mut self, pool: &mut Pool, core: usize, errand: Errand, handle: u64) {
        let Some(way) = self.ways.iter_mut().find(|way| way.core == core) else {
            return pool.release(handle);
        };
        if way.outbox.is_empty() && way.send(pool, errand, handle) {
            pool.release(handle);
        } else {
            way.outbox.push_back((errand, handle));
        }
    }

    /// Has the core of `port` send a frame at once; without a buffer, or when much waits, it is not sent.
    pub(crate) fn say(&mut self, pool: &mut Pool, port: usize, frame: &[u8]) {
        self.tell(pool, Some(self.board.port_core[port]), Errand::Say(port), frame);
    }

    /// Has all others know what `port` heard, if little waits.
    pub(crate) fn spread(&mut self, pool: &mut Pool, port: usize, frame: &[u8]) {
        self.tell(pool, None, Errand::Heard(port), frame);
    }

    /// To one core, or all.
    fn tell(&mut self, pool: &mut Pool, core: Option<usize>, errand: Errand, frame: &[u8]) {
        for way in &mut self.ways {
            let meant = core.is_none_or(|core| core == way.core);
            // Packets come first: whoever is to be told can ask again.
            if !meant || !way.outbox.is_empty() {
                continue;
            }
            let Some(handle) = pool.copy(frame) else { return };
            way.send(pool, errand, handle);
            pool.release(handle);
        }
    }

    /// Sends what waits to be, rings bells, and takes what has come: its handles here.
    pub(crate) fn exchange(&mut self, pool: &mut Pool, into: &mut Vec<(Errand, u64)>) {
        for way in &mut self.ways {
            while let Some((errand, handle)) = way.outbox.front().copied() {
                if !way.send(pool, errand, handle) {
                    break;
                }
                way.outbox.pop_front();
                pool.release(handle);
            }
            for _ in 0..AT_ONCE {
                if !pool.has_remote_buffer() {
                    break;
                }
                let Ok(parcel) = way.from.pop() else { break };
                let bytes = Pool::length(parcel.handle) as usize;
                let crossed = matches!(parcel.errand, Errand::Queue(Place::Path(_)));
                if let Some(here) = pool.import(&parcel.frame[..bytes], parcel.handle, crossed) {
                    into.push((parcel.errand, here));
                }
                let back = way.emptied.push(parcel);
                debug_assert!(back.is_ok());
            }
            if std::mem::take(&mut way.sent) {
                way.bell.ring();
            }
        }
    }

    /// Whether something has come that was not taken yet.
    pub(crate) fn has_come(&self) -> bool {
        self.ways.iter().any(|way| !way.from.is_empty())
    }

    /// Whether nothing is on its way, either way.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_come() && self.ways.iter().all(|way| way.outbox.is_empty())
    }
}

impl Default for Parcel {
    fn default() -> Self {
        Self { errand: Errand::Say(0), handle: 0, frame: [0; BUFFER_BYTES] }
    }
}
