//! An interface by AF_XDP: packets come and go by rings that the kernel shares with this process, a batch a
//! system call to send, none to receive.
//!
//! A packet is copied once between the rings' memory and the router's buffers. In native mode the driver
//! hands packets over before the kernel has looked at them, without a copy of its own where it can; otherwise the
//! kernel copies, too. Either way the kernel does not see them: whoever else listens at the interface hears nothing.
//!
//! Frames of the memory are either the kernel's to receive into, or on their way out, or free. [`RING`] of them are
//! kept for receiving, so sending cannot take those. Source: Documentation/networking/af_xdp.rst of Linux.

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Rings, Umem};

use crate::live::interface::redirect::{DRIVER_MODE, Redirect, SKB_MODE};
use crate::live::interface::{Device, Moved};
use crate::live::pool::Pool;

/// What each ring holds, packets.
const RING: u32 = 2_048;
/// What the kernel sends of a ring at one call, packets.
const SENT_AT_ONCE: usize = 32;
/// How often the kernel is asked again to send what it has left in the ring.
const TRIES: u32 = 4;
/// How often an interface by which nothing comes is asked whether it is there.
const PROBE: Duration = Duration::from_millis(100);

/// A way of using AF_XDP.
struct Mode {
    name: &'static str,
    attach: u32,
    zero_copy: bool,
}

/// Tried in this order.
const MODES: [Mode; 3] = [
    Mode { name: "native, zero-copy", attach: DRIVER_MODE, zero_copy: true },
    Mode { name: "native", attach: DRIVER_MODE, zero_copy: false },
    Mode { name: "generic", attach: SKB_MODE, zero_copy: false },
];

/// What is shared with the kernel for an open interface; any thread may close it. What the kernel uses goes before
/// the memory it uses.
pub(super) struct Shared {
    _link: OwnedFd,
    socket: XdpSocket,
    rings: Rings,
    umem: Umem,
    mode: &'static str,
}

/// An open interface. Packets go before the memory that they lie in.
pub(super) struct XdpDevice {
    /// Received, not taken yet.
    waiting: HeapSlab,
    leaving: HeapSlab,
    shared: Shared,
    /// Frames to be given to the kernel to receive into.
    owed: usize,
    /// Frames that are being sent.
    under_way: usize,
    /// Some of them the kernel is to be reminded of.
    left: bool,
    probed: Instant,
}

impl Shared {
    /// Opens the interface of this index.
    pub(super) fn open(redirect: &Redirect, index: u32) -> Result<Self, String> {
        let mut failed = String::new();
        for mode in &MODES {
            match Self::open_by(mode, redirect, index) {
                Ok(shared) => {
                    // One that is down can be opened, but does not send.
                    shared.remind().map_err(|error| error.to_string())?;
                    return Ok(shared);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn open_by(mode: &Mode, redirect: &Redirect, index: u32) -> Result<Self, String> {
        let text = |error: xdp::error::Error| error.to_string();
        // Of which the kernel keeps 256 bytes: in one of 2 KiB there would not be room for any packet of the pool.
        let frame_size = FrameSize::FourK;
        let cfg = UmemCfgBuilder { frame_size, frame_count: 2 * RING, ..Default::default() };
        let umem = Umem::map(cfg.build().map_err(text)?);
        let mut umem = umem.map_err(|error| format!("memory for packets: {error}"))?;
        let mut builder = XdpSocketBuilder::new().map_err(why)?;
        let rings = RingConfigBuilder {
            rx_count: RING,
            tx_count: RING,
            fill_count: RING,
            completion_count: RING,
        };
        let rings = rings.build().map_err(text)?;
        let (mut rings, mut flags) = builder.build_rings(&umem, rings).map_err(why)?;
        if mode.zero_copy {
            flags.force_zerocopy();
        } else {
            flags.force_copy();
        }
        // SAFETY: the memory stays mapped as long as the socket is open: see the order of the fields.
        #[allow(unsafe_code)]
        unsafe {
            rings.fill_ring.enqueue(&mut umem, RING as usize);
        }
        let socket = builder.bind(NicIndex::new(index), 0, flags).map_err(why)?;
        // SAFETY: the socket is open for as long as this is used.
        #[allow(unsafe_code)]
        let fd = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
        redirect.send_to(fd).map_err(|error| format!("its table of sockets: {error}"))?;
        let link = redirect.attach(index, mode.attach);
        let link = link.map_err(|error| format!("attaching the program: {error}"))?;
        Ok(Self { _link: link, socket, rings, umem, mode: mode.name })
    }

    /// How packets are handed over.
    pub(super) fn mode(&self) -> &'static str {
        self.mode
    }

    /// Makes the kernel send what is in the ring; returns whether it is to be reminded again. An error if the
    /// interface is down or away.
    fn remind(&self) -> Result<bool, Errno> {
        for _ in 0..TRIES {
            // SAFETY: the socket is open for as long as this is used.
            #[allow(unsafe_code)]
            let socket = unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) };
            match send(socket.as_fd(), &[], SendFlags::DONTWAIT) {
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

impl XdpDevice {
    /// Uses an interface that is open.
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            waiting: HeapSlab::with_capacity(RING as usize),
            leaving: HeapSlab::with_capacity(SENT_AT_ONCE),
            shared,
            owed: 0,
            under_way: 0,
            left: false,
            probed: Instant::now(),
        }
    }

    fn remind(&mut self) -> Result<(), Errno> {
        self.left = self.shared.remind()?;
        Ok(())
    }

    /// Frames that have been sent are free again.
    fn collect(&mut self) {
        let Shared { rings, umem, .. } = &mut self.shared;
        let done = rings.completion_ring.dequeue(umem, RING as usize);
        self.under_way -= done;
    }

    /// Puts frames into the ring; returns how many.
    fn put(&mut self, pool: &mut Pool, packets: &[u64]) -> usize {
        let room = (RING as usize - self.under_way).min(packets.len());
        for packet in &packets[..room] {
            // SAFETY: packets do not leave this device, which owns the memory.
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
        self.under_way += put;
        put
    }
}

impl Device for XdpDevice {
    fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<u64>) -> Moved {
        if let Some(ring) = &mut self.shared.rings.rx_ring {
            // SAFETY: packets do not leave this device, which owns the memory.
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
        self.owed += count;
        if self.owed > 0 {
            // SAFETY: as when it was opened.
            #[allow(unsafe_code)]
            let given =
                unsafe { self.shared.rings.fill_ring.enqueue(&mut self.shared.umem, self.owed) };
            self.owed -= given;
        }
        let probe = count == 0 && self.probed.elapsed() >= PROBE;
        if probe || self.left {
            self.probed = Instant::now();
            if let Err(error) = self.remind() {
                return (count, Some(error.to_string()));
            }
        }
        (count, None)
    }

    fn backlog(&self) -> Option<usize> {
        Some(self.waiting.len())
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Moved {
        let mut taken = 0;
        self.collect();
        while taken < packets.len() {
            // What is in the ring goes first: so none of a batch is sent if the interface is away.
            if self.left {
                match self.remind() {
                    Ok(()) if self.left => break,
                    Ok(()) => {}
                    Err(error) => return (taken, Some(error.to_string())),
                }
            }
            let batch = &packets[taken..packets.len().min(taken + SENT_AT_ONCE)];
            let put = self.put(pool, batch);
            if put == 0 {
                break;
            }
            if let Err(error) = self.remind() {
                return (taken, Some(error.to_string()));
            }
            for packet in &batch[..put] {
                pool.release(*packet);
            }
            taken += put;
        }
        (taken, None)
    }

    fn lost(&mut self) -> u64 {
        self.shared.socket.statistics().map_or(0, |lost| lost.rx_dropped + lost.rx_ring_full)
    }

    fn arrivals(&self) -> Option<RawFd> {
        Some(self.shared.socket.as_raw_fd())
    }

    fn close(self: Box<Self>) -> Box<dyn Send> {
        Box::new(self.shared)
    }

    fn flush(&mut self) {
        // Nobody sends any more, and what is left is at most a ring.
        for _ in 0..RING {
            if !self.left || self.remind().is_err() {
                return;
            }
        }
    }
}

/// What a socket's error says, without its type's name.
fn why(error: SocketError) -> String {
    let inner: Option<&io::Error> = match &error {
        SocketError::SocketCreation(inner) | SocketError::Bind(inner) => Some(inner),
        SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => Some(inner),
    };
    inner.map_or_else(|| error.to_string(), io::Error::to_string)
}
