//! One receive queue of an interface: a socket, and the rings and memory that it shares with the kernel.
//!
//! Frames of the memory are either the kernel's to receive into, or on their way out, or free. [`RING`] of them are
//! kept for receiving, so sending cannot take those.

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Rings, Umem};

use super::Failed;
use crate::io::interface::Transfer;
use crate::net::pool::Pool;

/// What each ring holds, packets.
const RING: u32 = 2_048;
/// What the kernel sends of a ring at one call, packets.
const TX_BATCH: usize = 32;
/// How often the kernel is asked again to send what it has left in the ring.
const MAX_KICKS: u32 = 4;

/// What is shared with the kernel; any thread may close it. What the kernel uses goes before the memory it uses.
pub(super) struct Shared {
    socket: XdpSocket,
    rings: Rings,
    umem: Umem,
}

/// An open queue. Packets go before the memory that they lie in.
pub(super) struct Queue {
    /// Received, not taken yet.
    waiting: HeapSlab,
    leaving: HeapSlab,
    shared: Shared,
    /// Frames to be given to the kernel to receive into.
    fill_deficit: usize,
    /// Frames that are being sent.
    in_flight: usize,
    /// Some of them the kernel is to be reminded of.
    unsent: bool,
}

impl Shared {
    /// Opens queue `number` of the interface of index `index`; the first is the one to send by.
    pub(super) fn open(index: u32, number: u32, zero_copy: bool) -> Result<Self, Failed> {
        let text = |error: xdp::error::Error| Failed { busy: false, text: error.to_string() };
        let sends = if number == 0 { RING } else { 0 };
        // Of which the kernel keeps 256 bytes: in one of 2 KiB there would not be room for any packet of the pool.
        let frame_size = FrameSize::FourK;
        let cfg = UmemCfgBuilder { frame_size, frame_count: RING + sends, ..Default::default() };
        let umem = Umem::map(cfg.build().map_err(text)?);
        let mut umem = umem.map_err(|error| Failed::from(error).of("memory for packets"))?;
        let mut builder = XdpSocketBuilder::new().map_err(why)?;
        let rings = RingConfigBuilder {
            rx_count: RING,
            tx_count: sends,
            fill_count: RING,
            completion_count: RING,
        };
        let rings = rings.build().map_err(text)?;
        let (mut rings, mut flags) = builder.build_rings(&umem, rings).map_err(why)?;
        if zero_copy {
            flags.force_zerocopy();
        } else {
            flags.force_copy();
        }
        // SAFETY: the memory stays mapped as long as the socket is open: see the order of the fields.
        #[allow(unsafe_code)]
        unsafe {
            rings.fill_ring.enqueue(&mut umem, RING as usize);
        }
        let socket = builder.bind(NicIndex::new(index), number, flags).map_err(why)?;
        Ok(Self { socket, rings, umem })
    }

    /// The socket, for the table of those that packets go to, and to send.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open for as long as this is.
        #[allow(unsafe_code)]
        unsafe {
            BorrowedFd::borrow_raw(self.socket.as_raw_fd())
        }
    }

    /// Makes the kernel send what is in the ring; returns whether it is to be reminded again. An error if the
    /// interface is down or away.
    pub(super) fn kick(&self) -> Result<bool, Errno> {
        for _ in 0..MAX_KICKS {
            match send(self.socket(), &[], SendFlags::DONTWAIT) {
                Ok(_) => return Ok(false),
                // More than it sends at once, or the device has dropped one.
                Err(Errno::AGAIN | Errno::BUSY | Errno::INTR) => {}
                Err(Errno::NOBUFS | Errno::NOMEM) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Queue {
    /// Uses one that is open.
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

    /// What is left to be closed.
    pub(super) fn into_shared(self) -> Shared {
        self.shared
    }

    /// Receives at most `most` packets; returns how many came, those longer than a buffer too.
    pub(super) fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<u64>) -> usize {
        if let Some(ring) = &mut self.shared.rings.rx_ring {
            // SAFETY: packets do not leave this queue, which owns the memory.
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
            // SAFETY: as when it was opened.
            #[allow(unsafe_code)]
            let given = unsafe {
                self.shared.rings.fill_ring.enqueue(&mut self.shared.umem, self.fill_deficit)
            };
            self.fill_deficit -= given;
        }
        count
    }

    /// Packets that have come and were not taken.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the kernel has left packets in the ring.
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent
    }

    /// Makes the kernel send what is in the ring. An error if the interface is down or away.
    pub(super) fn kick(&mut self) -> Result<(), Errno> {
        self.unsent = self.shared.kick()?;
        Ok(())
    }

    /// Retries what the kernel left in the ring; returns whether some of it remains there. An error is reported by
    /// the next call that sends or receives.
    pub(super) fn retry_pending(&mut self) -> bool {
        if self.unsent {
            let _ = self.kick();
        }
        self.unsent
    }

    /// Sends packets by the first queue; returns how many were taken.
    pub(super) fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Transfer {
        let mut taken = 0;
        self.reclaim();
        while taken < packets.len() {
            // What is in the ring goes first: so none of a batch is sent if the interface is away.
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

    /// Frames that have been sent are free again.
    fn reclaim(&mut self) {
        let Shared { rings, umem, .. } = &mut self.shared;
        let done = rings.completion_ring.dequeue(umem, RING as usize);
        self.in_flight -= done;
    }

    /// Puts frames into the ring; returns how many.
    fn enqueue(&mut self, pool: &mut Pool, packets: &[u64]) -> usize {
        let room = (RING as usize - self.in_flight).min(packets.len());
        for packet in &packets[..room] {
            // SAFETY: packets do not leave this queue, which owns the memory.
            #[allow(unsafe_code)]
            let Some(mut frame) = (unsafe { self.shared.umem.alloc() }) else { break };
            // A frame has room for any packet of the pool.
            let _ = frame.append(pool.wire(*packet));
            self.leaving.push_front(frame);
        }
        let Some(ring) = &mut self.shared.rings.tx_ring else { return 0 };
        // SAFETY: as for the packets.
        #[allow(unsafe_code)]
        let put = unsafe { ring.send(&mut self.leaving) };
        while let Some(frame) = self.leaving.pop_back() {
            self.shared.umem.free_packet(frame);
        }
        self.in_flight += put;
        put
    }

    /// Sends what is left. Nobody sends any more, and what is left is at most a ring.
    pub(super) fn flush(&mut self) {
        for _ in 0..RING {
            if !self.unsent || self.kick().is_err() {
                return;
            }
        }
    }

    /// Packets that found no room since it was opened.
    pub(super) fn lost(&self) -> u64 {
        self.shared.socket.statistics().map_or(0, |lost| lost.rx_dropped + lost.rx_ring_full)
    }

    /// What becomes readable when packets have come.
    pub(super) fn arrivals(&self) -> RawFd {
        self.shared.socket.as_raw_fd()
    }
}

/// What a socket's error says, without its type's name.
fn why(error: SocketError) -> Failed {
    match error {
        SocketError::SocketCreation(inner)
        | SocketError::Bind(inner)
        | SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => inner.into(),
    }
}
