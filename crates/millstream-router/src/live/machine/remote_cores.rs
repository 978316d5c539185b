//! What the machine has to do with those of other cores.

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

/// Other cores are told what a port heard once in so long at most, ns on average,
const SPREAD_NS: u64 = 100_000;
/// and so often at once.
const SPREADS: u64 = 64;

/// A packet that has come from another core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) queue: QueueId,
    pub(crate) packet: u64,
    /// It may not leave by the port that it is for.
    pub(crate) refused: bool,
}

impl<P: Port> LiveMachine<P> {
    /// Connects to other cores by `links`; their packets have `buffers` buffers.
    pub(crate) fn cross(&mut self, links: InterCoreLinks, buffers: usize) {
        let remote = links.occupancy.remote(links.core);
        for (state, remote) in self.port_states.iter_mut().zip(remote.outputs) {
            state.is_remote = remote;
        }
        self.pool.reserve_remote(buffers);
        self.links = Some(links);
    }

    /// Uses the occupancy table of a reloaded file.
    pub(crate) fn cross_by(&mut self, occupancy: &Arc<SharedOccupancy>, buffers: usize) {
        self.pool.reserve_remote(buffers);
        if let Some(links) = &mut self.links {
            links.occupancy = Arc::clone(occupancy);
        }
    }

    /// Whether there are other cores.
    #[inline]
    pub(crate) fn is_parted(&self) -> bool {
        self.links.is_some()
    }

    /// Whether no packet is on its way between this core and another, as far as it knows.
    pub(crate) fn is_crossed(&self) -> bool {
        self.links.as_ref().is_none_or(InterCoreLinks::is_empty)
    }

    /// There are buffers for what other cores gave to this one.
    pub(crate) fn make_room_for_others(&mut self) {
        self.pool.grow_remote();
    }

    /// What other cores gave to this one goes to `into`, and what this one has for them to them.
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

    /// Other cores know how the ports here are.
    pub(crate) fn show_ports(&self) {
        let Some(links) = &self.links else { return };
        let here = self.port_states.iter().zip(&*links.ports).filter(|(state, _)| !state.is_remote);
        for (state, shared) in here {
            shared.ended.store(state.port.ended(), Ordering::Release);
            shared.longest_bytes.store(state.port.longest_bytes(), Ordering::Relaxed);
        }
    }

    /// Packets have left the input queue of `path`.
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

    /// A neighbour spoke: other cores are to know, too.
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

    /// What a port of another core heard.
    fn overhear(&mut self, input: usize, packet: u64) {
        let counters = self.port_states[input].counters;
        // It is that core that answers, and counts.
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

    /// What becomes readable when something comes from another core.
    pub(crate) fn wake_event(&self) -> Option<RawFd> {
        self.waker().map(|waker| waker.event())
    }

    /// Says that this core is about to sleep; returns whether it may.
    pub(crate) fn announce(&self) -> bool {
        self.links.as_ref().is_none_or(|links| links.waker.announce() && !links.has_come())
    }

    /// It does not sleep any more.
    pub(crate) fn awake(&self) {
        if let Some(waker) = self.waker() {
            waker.awake();
        }
    }
}
