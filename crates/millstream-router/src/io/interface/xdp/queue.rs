//! One receive queue: an AF_XDP socket with its rings and packet memory.
//!
//! A frame of the memory is owned by the kernel for reception, in transmission, or free. [`RING`]
//! frames are reserved for reception, so transmission cannot take them.

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Rings, Umem};

use super::Failed;
use crate::ids::PacketHandle;
use crate::io::interface::Transfer;
use crate::net::pool::Pool;

/// Capacity of each ring, packets.
const RING: u32 = 2_048;
/// Packets that the kernel sends from the ring per call.
const TX_BATCH: usize = 32;
/// Calls to make the kernel send what remains in the ring.
const MAX_KICKS: u32 = 4;

/// The kernel resources of a queue; any thread may drop them. Field order matters: the socket is
/// dropped before the memory it uses.
pub(super) struct Shared {
    socket: XdpSocket,
    rings: Rings,
    umem: Umem,
}

/// An open queue. Field order matters: packets are dropped before their memory.
pub(super) struct Queue {
    /// Received packets not yet taken.
    waiting: HeapSlab,
    leaving: HeapSlab,
    shared: Shared,
    /// Frames to return to the fill ring.
    fill_deficit: usize,
    /// Frames in transmission.
    in_flight: usize,
    /// Whether the kernel has left frames in the transmit ring.
    unsent: bool,
}

impl Shared {
    /// Opens queue `number` of the interface with index `index`; only the first transmits.
    pub(super) fn open(index: u32, number: u32, zero_copy: bool) -> Result<Self, Failed> {
        let text = |error: xdp::error::Error| Failed { busy: false, text: error.to_string() };
        let sends = if number == 0 { RING } else { 0 };
        // The kernel reserves 256 bytes per frame, so a packet may not fit into 2 KiB.
        let frame_size = FrameSize::FourK;
        let cfg = UmemCfgBuilder { frame_size, frame_count: RING + sends, ..Default::default() };
        let umem = Umem::map(cfg.build().map_err(text)?);
        let mut umem = umem.map_err(|error| Failed::from(error).of("memory for packets"))?;
        let mut builder = XdpSocketBuilder::new().map_err(into_failed)?;
        let rings = RingConfigBuilder {
            rx_count: RING,
            tx_count: sends,
            fill_count: RING,
            completion_count: RING,
        };
        let rings = rings.build().map_err(text)?;
        let (mut rings, mut flags) = builder.build_rings(&umem, rings).map_err(into_failed)?;
        if zero_copy {
            flags.force_zerocopy();
        } else {
            flags.force_copy();
        }
        // SAFETY: fields drop in order, so the memory stays mapped while the socket is open.
        #[allow(unsafe_code)]
        unsafe {
            rings.fill_ring.enqueue(&mut umem, RING as usize);
        }
        let socket = builder.bind(NicIndex::new(index), number, flags).map_err(into_failed)?;
        Ok(Self { socket, rings, umem })
    }

    /// Returns the socket, for the XDP map and to send.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open while `self` lives.
        #[allow(unsafe_code)]
        unsafe {
            BorrowedFd::borrow_raw(self.socket.as_raw_fd())
        }
    }

    /// Makes the kernel send what is in the ring; returns whether frames remain. An error means
    /// that the interface is down or missing.
    pub(super) fn kick(&self) -> Result<bool, Errno> {
        for _ in 0..MAX_KICKS {
            match send(self.socket(), &[], SendFlags::DONTWAIT) {
                Ok(_) => return Ok(false),
                // The ring exceeds one call's batch, or the device dropped a frame.
                Err(Errno::AGAIN | Errno::BUSY | Errno::INTR) => {}
                Err(Errno::NOBUFS | Errno::NOMEM) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Queue {
    /// Uses the resources of an open queue.
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            waiting: HeapSlab::with_capacity(RING as usize),
            leaving: HeapSlab::with_capacity(TX_BATCH),
            shared,
            fill_deficit: 0,
            in_flight: 0,
            unsent: false,
        }
    }

    /// Returns the resources to drop.
    pub(super) fn into_shared(self) -> Shared {
        self.shared
    }

    /// Receives up to `most` packets; returns how many were taken, including those too long for a
    /// buffer.
    pub(super) fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> usize {
        if let Some(ring) = &mut self.shared.rings.rx_ring {
            // SAFETY: packets stay within this queue, which owns their memory.
            #[allow(unsafe_code)]
            unsafe {
                ring.recv(&self.shared.umem, &mut self.waiting);
            }
        }
        let mut count = 0;
        while count < most
            && let Some(packet) = self.waiting.pop_back()
        {
            into.extend(pool.copy(&packet));
            self.shared.umem.free_packet(packet);
            count += 1;
        }
        self.fill_deficit += count;
        if self.fill_deficit > 0 {
            // SAFETY: see `Shared::open`.
            #[allow(unsafe_code)]
            let given = unsafe {
                self.shared.rings.fill_ring.enqueue(&mut self.shared.umem, self.fill_deficit)
            };
            self.fill_deficit -= given;
        }
        count
    }

    /// Returns the number of received packets not yet taken.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether the kernel has left frames in the transmit ring.
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent
    }

    /// Makes the kernel send what is in the ring. An error means that the interface is down or
    /// missing.
    pub(super) fn kick(&mut self) -> Result<(), Errno> {
        self.unsent = self.shared.kick()?;
        Ok(())
    }

    /// Retries what remains in the transmit ring; returns whether some of it remains. The next call
    /// that sends or receives reports an error.
    pub(super) fn retry_pending(&mut self) -> bool {
        if self.unsent {
            let _ = self.kick();
        }
        self.unsent
    }

    /// Transmits packets; returns how many were accepted. Call it on the first queue only.
    pub(super) fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Transfer {
        let mut taken = 0;
        self.reclaim();
        while taken < packets.len() {
            // Empties the ring first, so that a batch is not split when the interface goes away.
            if self.unsent {
                match self.kick() {
                    Ok(()) if self.unsent => break,
                    Ok(()) => {}
                    Err(error) => return (taken, Some(error.to_string())),
                }
            }
            let batch = &packets[taken..packets.len().min(taken + TX_BATCH)];
            let put = self.enqueue(pool, batch);
            if put == 0 {
                break;
            }
            if let Err(error) = self.kick() {
                return (taken, Some(error.to_string()));
            }
            for packet in &batch[..put] {
                pool.release(*packet);
            }
            taken += put;
        }
        (taken, None)
    }

    /// Frees the frames that were sent.
    fn reclaim(&mut self) {
        let Shared { rings, umem, .. } = &mut self.shared;
        let done = rings.completion_ring.dequeue(umem, RING as usize);
        self.in_flight -= done;
    }

    /// Puts packets into the transmit ring; returns how many.
    fn enqueue(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> usize {
        let room = (RING as usize - self.in_flight).min(packets.len());
        for packet in &packets[..room] {
            // SAFETY: packets stay within this queue, which owns their memory.
            #[allow(unsafe_code)]
            let Some(mut frame) = (unsafe { self.shared.umem.alloc() }) else { break };
            // A frame has room for any packet of the pool.
            let _ = frame.append(pool.wire(*packet));
            self.leaving.push_front(frame);
        }
        let Some(ring) = &mut self.shared.rings.tx_ring else { return 0 };
        // SAFETY: the frames are from this queue's memory.
        #[allow(unsafe_code)]
        let put = unsafe { ring.send(&mut self.leaving) };
        while let Some(frame) = self.leaving.pop_back() {
            self.shared.umem.free_packet(frame);
        }
        self.in_flight += put;
        put
    }

    /// Sends what remains, at most a ring; no new packets arrive meanwhile.
    pub(super) fn flush(&mut self) {
        for _ in 0..RING {
            if !self.unsent || self.kick().is_err() {
                return;
            }
        }
    }

    /// Returns the packets that the kernel dropped since the queue was opened, among them those at
    /// a full receive ring.
    pub(super) fn lost(&self) -> u64 {
        self.shared.socket.statistics().map_or(0, |lost| lost.rx_dropped + lost.rx_ring_full)
    }

    /// Returns the descriptor to poll for arrivals.
    pub(super) fn arrivals(&self) -> RawFd {
        self.shared.socket.as_raw_fd()
    }
}

/// Unwraps the I/O error of a socket error.
fn into_failed(error: SocketError) -> Failed {
    match error {
        SocketError::SocketCreation(inner)
        | SocketError::Bind(inner)
        | SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => inner.into(),
    }
}
