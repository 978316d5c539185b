//! A network interface, by AF_PACKET through libpcap.
//!
//! Packets are read from libpcap's memory-mapped ring, without a system call while any wait there;
//! each one sent is a system call. Only what comes in is read, not what is sent here.
//!
//! An interface that goes down or away is survived: nothing comes in, packets to be sent wait in
//! their queues, and opening it is tried again every [`RETRY`].

use pcap::{Active, Capture, Direction};
use std::time::{Duration, Instant};

use crate::live::pool::Pool;
use crate::live::port::{Port, PortError};

/// The ring that packets wait in, bytes.
const RING_BYTES: i32 = 16 << 20;
/// What is read of a packet, bytes: more than any buffer, so that longer ones are noticed.
const SNAP_BYTES: i32 = 4_096;
/// How often an interface that is away is tried.
const RETRY: Duration = Duration::from_millis(100);

/// A port on a network interface.
pub struct InterfacePort {
    name: String,
    interface: String,
    /// `None` while it is away.
    capture: Option<Capture<Active>>,
    tried: Instant,
    went_away: u64,
    /// Packets that the device lost before it went away.
    lost: u64,
}

impl InterfacePort {
    /// Opens the interface `interface` for the port called `name`.
    ///
    /// # Errors
    /// If there is no such interface, or packets may not be captured.
    pub fn open(name: &str, interface: &str) -> Result<Self, PortError> {
        let capture = open(interface).map_err(|error| {
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
        let (name, interface) = (name.to_owned(), interface.to_owned());
        let (tried, went_away, lost) = (Instant::now(), 0, 0);
        Ok(Self { name, interface, capture: Some(capture), tried, went_away, lost })
    }

    #[cold]
    fn away(&mut self, error: &str) {
        self.lost = self.lost();
        self.capture = None;
        self.went_away += 1;
        self.tried = Instant::now();
        log::warn!(port = self.name, interface = self.interface; "the interface is away: {error}");
    }

    #[cold]
    fn try_again(&mut self) {
        if self.tried.elapsed() < RETRY {
            return;
        }
        self.tried = Instant::now();
        if let Ok(capture) = open(&self.interface) {
            self.capture = Some(capture);
            log::info!(port = self.name, interface = self.interface; "the interface is back");
        }
    }
}

fn open(interface: &str) -> Result<Capture<Active>, pcap::Error> {
    let capture = Capture::from_device(interface)?;
    let capture = capture.promisc(true).immediate_mode(true).snaplen(SNAP_BYTES);
    let capture = capture.buffer_size(RING_BYTES).open()?;
    capture.direction(Direction::In)?;
    capture.setnonblock()
}

impl Port for InterfacePort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<u64>,
    ) -> Result<usize, PortError> {
        let Some(capture) = &mut self.capture else {
            self.try_again();
            return Ok(0);
        };
        let mut count = 0;
        while count < most {
            match capture.next_packet() {
                Ok(packet) => {
                    let whole = packet.header.len as usize == packet.data.len();
                    into.extend(whole.then(|| pool.copy(packet.data)).flatten());
                    count += 1;
                }
                Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => break,
                Err(error) => {
                    self.away(&error.to_string());
                    break;
                }
            }
        }
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Result<usize, PortError> {
        let Some(capture) = &mut self.capture else { return Ok(0) };
        for (taken, packet) in packets.iter().enumerate() {
            if let Err(error) = capture.sendpacket(pool.frame(*packet)) {
                let error = error.to_string();
                // The device's queue is full: later.
                if !error.contains("No buffer space") && !error.contains("temporarily unavailable")
                {
                    self.away(&error);
                }
                return Ok(taken);
            }
            pool.release(*packet);
        }
        Ok(packets.len())
    }

    fn lost(&mut self) -> u64 {
        let now = self.capture.as_mut().and_then(|capture| capture.stats().ok());
        self.lost + now.map_or(0, |stats| u64::from(stats.dropped))
    }

    fn went_away(&self) -> u64 {
        self.went_away
    }
}
