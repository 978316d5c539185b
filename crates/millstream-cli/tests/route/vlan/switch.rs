//! A VLAN switch with access ports and a trunk port. It uses captures, so that it needs no kernel
//! support.

use pcap::{Active, Capture, Direction};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::network::Network;

/// An access port: its device, and the tag of the frames that it receives.
pub(super) struct Access {
    pub(super) namespace: &'static str,
    pub(super) device: &'static str,
    pub(super) pcp: u8,
    pub(super) vlan: u16,
}

pub(super) struct Switch {
    moving: JoinHandle<BTreeSet<(u8, u16)>>,
    stopped: Arc<AtomicBool>,
}

fn open(network: &Network, namespace: &str, device: &'static str) -> Capture<Active> {
    let opening = network.within(namespace, move || {
        let capture = Capture::from_device(device).unwrap();
        let capture = capture.promisc(true).immediate_mode(true).buffer_size(16 << 20);
        let capture = capture.open().unwrap().setnonblock().unwrap();
        capture.direction(Direction::In).unwrap();
        capture
    });
    opening.join().unwrap()
}

impl Switch {
    /// Starts to forward frames between the access ports and `trunk` of a namespace.
    pub(super) fn start(
        network: &Network,
        (namespace, trunk): (&str, &'static str),
        ports: Vec<Access>,
    ) -> Self {
        let mut trunk = open(network, namespace, trunk);
        let mut ports: Vec<_> =
            ports.into_iter().map(|of| (open(network, of.namespace, of.device), of)).collect();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let moving = thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                let mut idle = true;
                for (port, of) in &mut ports {
                    while let Ok(packet) = port.next_packet() {
                        let tag = u16::from(of.pcp) << 13 | of.vlan;
                        let mut frame = packet.data.to_vec();
                        frame.splice(12..12, [0x81, 0].into_iter().chain(tag.to_be_bytes()));
                        let _ = trunk.sendpacket(frame);
                        idle = false;
                    }
                }
                while let Ok(packet) = trunk.next_packet() {
                    idle = false;
                    let mut frame = packet.data.to_vec();
                    if frame[12..14] != [0x81, 0] {
                        // Untagged IPv6 comes from the kernel and is not recorded.
                        if frame[12..14] == [8, 0] {
                            seen.insert((0, 0));
                        }
                        continue;
                    }
                    let tag = u16::from_be_bytes([frame[14], frame[15]]);
                    frame.drain(12..16);
                    seen.insert(((tag >> 13).to_le_bytes()[0], tag & 0xfff));
                    for (port, _) in ports.iter_mut().filter(|(_, of)| of.vlan == tag & 0xfff) {
                        let _ = port.sendpacket(&frame[..]);
                    }
                }
                if idle {
                    thread::sleep(Duration::from_micros(200));
                }
            }
            seen
        });
        Self { moving, stopped }
    }

    /// Stops the switch; returns the priorities and VLANs of frames from the trunk, 0 and 0 for
    /// untagged IPv4.
    pub(super) fn stop(self) -> BTreeSet<(u8, u16)> {
        self.stopped.store(true, Ordering::Relaxed);
        self.moving.join().unwrap()
    }
}
