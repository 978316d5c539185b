//! A network interface, by AF_PACKET through libpcap.
//!
//! Packets are read from libpcap's memory-mapped ring, without a system call while any wait there;
//! each one sent is a system call. Only what comes in is read, not what is sent here.

use pcap::{Active, Capture, Direction};

use crate::live::pool::Pool;
use crate::live::port::{Port, PortError};

/// The ring that packets wait in, bytes.
const RING_BYTES: i32 = 16 << 20;
/// What is read of a packet, bytes: more than any buffer, so that longer ones are noticed.
const SNAP_BYTES: i32 = 4_096;

/// A port on a network interface.
pub struct InterfacePort {
    name: String,
    capture: Capture<Active>,
}

impl InterfacePort {
    /// Opens the interface `interface` for the port called `name`.
    ///
    /// # Errors
    /// If there is no such interface, or packets may not be captured.
    pub fn open(name: &str, interface: &str) -> Result<Self, PortError> {
        let opened = Capture::from_device(interface)
            .and_then(|capture| {
                let capture = capture.promisc(true).immediate_mode(true).snaplen(SNAP_BYTES);
                capture.buffer_size(RING_BYTES).open()
            })
            .and_then(|capture| {
                capture.direction(Direction::In)?;
                capture.setnonblock()
            });
        let capture = opened.map_err(|error| {
            let error = error.to_string();
            let what =
                PortError::new(name, format!("cannot open interface `{interface}`: {error}"));
            let lower = error.to_lowercase();
            if lower.contains("permi") {
                what.help("run as root, or give the program CAP_NET_RAW")
            } else if lower.contains("no such device") || lower.contains("doesn't exist") {
                what.help("`ip link` lists the interfaces of this network namespace")
            } else {
                what
            }
        })?;
        Ok(Self { name: name.to_owned(), capture })
    }
}

impl Port for InterfacePort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<u64>,
    ) -> Result<usize, PortError> {
        let mut count = 0;
        while count < most {
            match self.capture.next_packet() {
                Ok(packet) => {
                    let whole = packet.header.len as usize == packet.data.len();
                    into.extend(whole.then(|| pool.copy(packet.data)).flatten());
                    count += 1;
                }
                Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => break,
                Err(error) => return Err(PortError::new(&self.name, error.to_string())),
            }
        }
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Result<usize, PortError> {
        for (taken, packet) in packets.iter().enumerate() {
            if let Err(error) = self.capture.sendpacket(pool.frame(*packet)) {
                let error = error.to_string();
                // The device's queue is full: later.
                if error.contains("No buffer space") || error.contains("temporarily unavailable") {
                    return Ok(taken);
                }
                return Err(PortError::new(&self.name, error));
            }
            pool.release(*packet);
        }
        Ok(packets.len())
    }

    fn lost(&mut self) -> u64 {
        self.capture.stats().map_or(0, |stats| u64::from(stats.dropped))
    }
}
