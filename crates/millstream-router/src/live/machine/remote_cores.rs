//! The machine's exchange of packets and neighbours with the machines of other cores.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::LiveMachine;
use crate::io::port::Port;
use crate::live::inter_core::{CrossCoreDestination, InterCoreLinks, SharedOccupancy};
use crate::live::waker::Waker;
use crate::net::header::is_v6;
use crate::net::ipv4_control;
use crate::net::ndp;
use crate::net::pool::Pool;
use crate::router::machine::QueueId;

/// The mean interval between neighbour announcements to other cores, ns.
const SPREAD_NS: u64 = 100_000;
/// The burst of neighbour announcements to other cores.
const SPREADS: u64 = 64;

/// A packet that arrived from another core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) queue: QueueId,
    pub(crate) packet: u64,
    /// Whether the NAT of its output refused it.
    pub(crate) refused: bool,
}

impl<P: Port> LiveMachine<P> {
    /// Connects to other cores by `links`; reserves `buffers` buffers for their packets.
    pub(crate) fn cross(&mut self, links: InterCoreLinks, buffers: usize) {
        let remote = links.occupancy.remote(links.core);
        for (state, remote) in self.port_states.iter_mut().zip(remote.outputs) {
            state.is_remote = remote;
        }
        self.pool.reserve_remote(buffers);
        self.links = Some(links);
    }

    /// Switches to the occupancy table of a reloaded file; reserves `buffers` buffers.
    pub(crate) fn cross_by(&mut self, occupancy: &Arc<SharedOccupancy>, buffers: usize) {
        self.pool.reserve_remote(buffers);
        if let Some(links) = &mut self.links {
            links.occupancy = Arc::clone(occupancy);
        }
    }

    /// Returns whether the router has other cores.
    #[inline]
    pub(crate) fn is_parted(&self) -> bool {
        self.links.is_some()
    }

    /// Returns whether no packet is in flight between this core and another, as seen from here.
    pub(crate) fn is_crossed(&self) -> bool {
        self.links.as_ref().is_none_or(InterCoreLinks::is_empty)
    }

    /// Ensures that a buffer for packets from other cores is free.
    pub(crate) fn make_room_for_others(&mut self) {
        self.pool.grow_remote();
    }

    /// Takes packets from other cores into `into`, and sends waiting packets to other cores.
    pub(crate) fn exchange(&mut self, into: &mut Vec<Arrived>) {
        let Some(links) = &mut self.links else { return };
        let mut come = std::mem::take(&mut self.come);
        links.exchange(&mut self.pool, &mut come);
        for (destination, packet) in come.drain(..) {
            match destination {
                CrossCoreDestination::Queue(queue) => {
                    let refused = match queue {
                        QueueId::Output { output, .. } => !self.translated(output, packet),
                        QueueId::Path(_) => false,
                    };
                    into.push(Arrived { queue, packet, refused });
                }
                CrossCoreDestination::Say(port) => {
                    let frame = self.pool.frame(packet).to_vec();
                    self.pool.release(packet);
                    self.say(port, &frame);
                }
                CrossCoreDestination::Heard(port) => self.overhear(port, packet),
            }
        }
        self.come = come;
    }

    /// Publishes the state of this core's ports to other cores.
    pub(crate) fn show_ports(&self) {
        let Some(links) = &self.links else { return };
        let here = self.port_states.iter().zip(&*links.ports).filter(|(state, _)| !state.is_remote);
        for (state, shared) in here {
            shared.ended.store(state.port.ended(), Ordering::Release);
            shared.longest_bytes.store(state.port.longest_bytes(), Ordering::Relaxed);
        }
    }

    /// Subtracts packets that left the input queue of `path` from its shared occupancy, and clears
    /// their remote marks.
    #[inline]
    pub(super) fn settle(&self, path: usize, packets: &mut [u64]) {
        let Some(links) = &self.links else { return };
        let mut came = 0;
        for packet in packets {
            came += u32::from(Pool::from_remote(*packet));
            *packet = Pool::clear_remote(*packet);
        }
        if came > 0 {
            links.left(QueueId::Path(path), came);
        }
    }

    /// Sends ARP and neighbour discovery messages on to other cores, within the rate limit.
    pub(super) fn spread(&mut self, input: usize, packet: u64) {
        let Some(links) = &mut self.links else { return };
        if self.spread_ns > self.now_ns + SPREADS * SPREAD_NS {
            return;
        }
        let frame = self.pool.frame(packet);
        if ipv4_control::arp(frame).is_some() || is_v6(frame) && ndp::message(frame).is_some() {
            self.spread_ns = self.spread_ns.max(self.now_ns) + SPREAD_NS;
            let frame = frame.to_vec();
            links.spread(&mut self.pool, input, &frame);
        }
    }

    /// Learns the neighbour in a frame that a port of another core received.
    fn overhear(&mut self, input: usize, packet: u64) {
        let counters = self.port_states[input].counters;
        // The port's own core answers and counts the frame.
        if is_v6(self.pool.frame(packet)) {
            let to = self.packet_destination_v6(input, packet);
            let _ = self.hear_v6(input, packet, to);
        } else {
            let _ = self.hear_v4(input, packet, None);
        }
        self.port_states[input].counters = counters;
        self.pool.release(packet);
    }

    /// Returns the waker of this core; `None` on a single core.
    pub(crate) fn waker(&self) -> Option<&Arc<Waker>> {
        self.links.as_ref().map(|links| &links.waker)
    }

    /// Returns the descriptor that becomes readable when another core wakes this one.
    pub(crate) fn wake_event(&self) -> Option<RawFd> {
        self.waker().map(|waker| waker.event())
    }

    /// Announces that this core is about to sleep; returns whether it may.
    pub(crate) fn announce(&self) -> bool {
        self.links.as_ref().is_none_or(|links| links.waker.announce() && !links.has_come())
    }

    /// Ends the announced sleep.
    pub(crate) fn awake(&self) {
        if let Some(waker) = self.waker() {
            waker.awake();
        }
    }
}
