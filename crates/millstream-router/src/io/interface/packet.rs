//! An interface by AF_PACKET, through libpcap.
//!
//! Reads packets from libpcap's memory-mapped ring, without a system call while packets wait. Sends
//! with one system call per packet, or per batch that can be coalesced. Receives incoming packets
//! only. The kernel's stack sees all packets, too.

mod oversized;

use pcap::{Active, Capture, Direction};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, RawFd};

use crate::ids::PacketHandle;
use crate::io::interface::{Device, Transfer};
use crate::net::pool::Pool;
use crate::net::segmentation::{Coalescer, Segmenter};
use oversized::OversizedSocket;

/// Size of the receive ring, bytes.
const RING_BYTES: i32 = 16 << 20;
/// Bytes read per packet: more than a buffer, so that longer packets are noticed.
const SNAP_BYTES: i32 = 4_096;

/// An open interface.
pub(super) struct PacketDevice {
    ring: Capture<Active>,
    /// Socket for packets longer than the MTU, if it could be opened.
    oversized: Option<OversizedSocket>,
    segmenter: Segmenter,
    coalescer: Coalescer,
}

impl PacketDevice {
    /// Opens `interface`; `index` and `mtu` may be unknown.
    pub(super) fn open(
        interface: &str,
        index: Option<u32>,
        mtu: Option<u32>,
    ) -> Result<Self, String> {
        let open = || {
            let capture = Capture::from_device(interface)?;
            let capture = capture.promisc(true).immediate_mode(true).snaplen(SNAP_BYTES);
            let capture = capture.buffer_size(RING_BYTES).open()?;
            capture.direction(Direction::In)?;
            capture.setnonblock()
        };
        let ring = open().map_err(|error: pcap::Error| error.to_string())?;
        let oversized = index.zip(mtu).map(|(index, mtu)| OversizedSocket::open(index, mtu));
        let oversized = oversized.and_then(|opened| {
            opened
                .inspect_err(|error| {
                    log::warn!(
                        interface = interface;
                        "packets longer than the MTU (segmentation offload) are dropped: {error}"
                    );
                })
                .ok()
        });
        Ok(Self {
            ring,
            oversized,
            segmenter: Segmenter::default(),
            coalescer: Coalescer::default(),
        })
    }

    /// Sends one packet or one coalesced batch.
    fn send(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<(), Failed> {
        if let (2.., Some(oversized)) = (packets.len(), &self.oversized) {
            match oversized.send(&self.coalescer, pool, packets) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN | Errno::NOBUFS) => return Err(Failed::Later),
                // Sends the packets one by one, which shows the error.
                Err(_) => {}
            }
        }
        for packet in packets {
            let Err(error) = self.ring.sendpacket(pool.wire(*packet)) else { continue };
            let error = error.to_string();
            // The MTU has shrunk: drop this packet, or it would block the others.
            if error.contains("Message too long") {
                continue;
            }
            // The device's queue is full.
            let later =
                error.contains("No buffer space") || error.contains("temporarily unavailable");
            return Err(if later { Failed::Later } else { Failed::Away(error) });
        }
        Ok(())
    }
}

/// Why a packet was not sent.
enum Failed {
    /// The queue is full; retry later.
    Later,
    /// The interface is away.
    Away(String),
}

impl Device for PacketDevice {
    fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<PacketHandle>) -> Transfer {
        let mut count = 0;
        while count < most {
            if !self.segmenter.is_empty() {
                let Some(packet) = self.segmenter.next(pool) else { break };
                into.push(packet);
                count += 1;
                continue;
            }
            match self.ring.next_packet() {
                Ok(packet) => {
                    let length = packet.header.len as usize;
                    if let Some(oversized) = &mut self.oversized
                        && oversized.covers(packet.data, length)
                        && oversized.begin(packet.data, length, &mut self.segmenter)
                    {
                        continue;
                    }
                    let whole = length == packet.data.len();
                    into.extend(whole.then(|| pool.copy(packet.data)).flatten());
                    count += 1;
                }
                Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => break,
                Err(error) => return (count, Some(error.to_string())),
            }
        }
        (count, None)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Transfer {
        let mut taken = 0;
        while taken < packets.len() {
            let rest = &packets[taken..];
            let together =
                if self.oversized.is_some() { self.coalescer.begin(pool, rest) } else { 1 };
            let packets = &rest[..together];
            match self.send(pool, packets) {
                Ok(()) => packets.iter().for_each(|packet| pool.release(*packet)),
                Err(Failed::Later) => return (taken, None),
                Err(Failed::Away(error)) => return (taken, Some(error)),
            }
            taken += together;
        }
        (taken, None)
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        self.segmenter.is_empty().then(|| vec![self.ring.as_raw_fd()])
    }

    fn close(self: Box<Self>) -> Box<dyn Send> {
        self
    }

    fn lost(&mut self) -> u64 {
        self.ring.stats().map_or(0, |stats| u64::from(stats.dropped))
    }
}
