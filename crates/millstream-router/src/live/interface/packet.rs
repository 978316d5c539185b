//! An interface by AF_PACKET through libpcap.
//!
//! Packets are read from libpcap's memory-mapped ring, without a system call while any wait there;
//! each one sent is a system call. Only what comes in is read, not what is sent here. The kernel has all packets, too.

use pcap::{Active, Capture, Direction};
use std::os::fd::{AsRawFd, RawFd};

use crate::live::interface::{Device, Moved};
use crate::live::pool::Pool;

/// The ring that packets wait in, bytes.
const RING_BYTES: i32 = 16 << 20;
/// What is read of a packet, bytes: more than any buffer, so that longer ones are noticed.
const SNAP_BYTES: i32 = 4_096;

/// An open interface.
pub(super) struct PacketDevice(Capture<Active>);

impl PacketDevice {
    pub(super) fn open(interface: &str) -> Result<Self, String> {
        let open = || {
            let capture = Capture::from_device(interface)?;
            let capture = capture.promisc(true).immediate_mode(true).snaplen(SNAP_BYTES);
            let capture = capture.buffer_size(RING_BYTES).open()?;
            capture.direction(Direction::In)?;
            capture.setnonblock()
        };
        open().map(Self).map_err(|error: pcap::Error| error.to_string())
    }
}

impl Device for PacketDevice {
    fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<u64>) -> Moved {
        let mut count = 0;
        while count < most {
            match self.0.next_packet() {
                Ok(packet) => {
                    let whole = packet.header.len as usize == packet.data.len();
                    into.extend(whole.then(|| pool.copy(packet.data)).flatten());
                    count += 1;
                }
                Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => break,
                Err(error) => return (count, Some(error.to_string())),
            }
        }
        (count, None)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Moved {
        for (taken, packet) in packets.iter().enumerate() {
            if let Err(error) = self.0.sendpacket(pool.wire(*packet)) {
                let error = error.to_string();
                // The MTU has become less: others are not to wait for this one.
                if error.contains("Message too long") {
                    pool.release(*packet);
                    continue;
                }
                // The device's queue is full: later.
                let later =
                    error.contains("No buffer space") || error.contains("temporarily unavailable");
                return (taken, (!later).then_some(error));
            }
            pool.release(*packet);
        }
        (packets.len(), None)
    }

    fn arrivals(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }

    fn close(self: Box<Self>) -> Box<dyn Send> {
        self
    }

    fn lost(&mut self) -> u64 {
        self.0.stats().map_or(0, |stats| u64::from(stats.dropped))
    }
}
