//! The machine's exchange of packets and neighbours with the machines of other cores.

use millstream_sync::waker::eventfd::Waker;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::ids::{IdVec, OutputId, PacketHandle, PathId, PortId};
use crate::io::port::Port;
use crate::live::inter_core::{CrossCoreDestination, InterCoreLinks, SharedOccupancy};
use crate::net::header::is_v6;
use crate::net::ipv4_control;
use crate::net::ndp;
use crate::net::pool::Pool;
use crate::router::machine::QueueId;

/// The mean interval between neighbour announcements to other cores, ns.
const NEIGHBOUR_BROADCAST_NS: u64 = 100_000;
/// The burst of neighbour announcements to other cores.
const NEIGHBOUR_BROADCAST_BURST: u64 = 64;

/// A packet that arrived from another core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) queue: QueueId,
    pub(crate) packet: PacketHandle,
    /// Whether the NAT of its output refused it.
    pub(crate) refused: bool,
}

/// The links of a core to the other cores; on a single core it has none.
#[derive(Default)]
pub(crate) struct RemoteCores {
    links: Option<InterCoreLinks>,
    /// Whether another core owns each port; empty on a single core.
    remote_ports: IdVec<PortId, bool>,
    /// The state of the rate limit of neighbour announcements to other cores, ns.
    neighbour_broadcast_ns: u64,
}

impl RemoteCores {
    /// Connects to other cores by `links`.
    pub(super) fn connect(&mut self, links: InterCoreLinks) {
        let remote = links.occupancy.remote(links.core);
        self.remote_ports = remote.outputs.into_iter().collect();
        self.links = Some(links);
    }

    /// Switches to the occupancy table of a reloaded file.
    pub(super) fn set_occupancy(&mut self, occupancy: &Arc<SharedOccupancy>) {
        if let Some(links) = &mut self.links {
            links.occupancy = Arc::clone(occupancy);
        }
    }

    /// Returns whether the router has other cores.
    #[inline]
    pub(crate) fn is_multi_core(&self) -> bool {
        self.links.is_some()
    }

    /// Returns whether another core owns a port.
    #[inline]
    pub(super) fn owns(&self, port: PortId) -> bool {
        self.remote_ports.get(port).is_some_and(|remote| *remote)
    }

    /// Returns whether no packet is in flight between this core and another, as seen from here.
    pub(crate) fn links_are_empty(&self) -> bool {
        self.links.as_ref().is_none_or(InterCoreLinks::is_empty)
    }

    /// Takes packets from other cores into `into`, and sends waiting packets to other cores.
    pub(super) fn exchange(
        &mut self,
        pool: &mut Pool,
        into: &mut Vec<(CrossCoreDestination, PacketHandle)>,
    ) {
        if let Some(links) = &mut self.links {
            links.exchange(pool, into);
        }
    }

    /// Publishes the state of this core's ports, of all `ports`, to other cores.
    pub(super) fn publish_ports<'a, P: Port + 'a>(&self, ports: impl Iterator<Item = &'a P>) {
        let Some(links) = &self.links else { return };
        for (number, (port, shared)) in ports.zip(&*links.ports).enumerate() {
            if !self.owns(PortId(number)) {
                shared.ended.store(port.ended(), Ordering::Release);
                shared.longest_bytes.store(port.longest_bytes(), Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of packets in a queue of another core, or in flight to it.
    #[inline]
    pub(super) fn waiting(&self, queue: QueueId) -> usize {
        self.links.as_ref().map_or(0, |links| links.waiting(queue))
    }

    /// Sends a packet to the core that owns `queue`.
    #[inline]
    pub(super) fn hand_over(&mut self, pool: &mut Pool, queue: QueueId, packet: PacketHandle) {
        match &mut self.links {
            Some(links) => links.hand_over(pool, queue, packet),
            None => pool.release(packet),
        }
    }

    /// Subtracts packets that left the input queue of `path` from its shared occupancy, and clears
    /// their remote marks.
    #[inline]
    pub(super) fn left_path(&self, path: PathId, packets: &mut [PacketHandle]) {
        let Some(links) = &self.links else { return };
        let mut remote = 0;
        for packet in packets {
            remote += u32::from(Pool::from_remote(*packet));
            *packet = Pool::clear_remote(*packet);
        }
        if remote > 0 {
            links.left(QueueId::Path(path), remote);
        }
    }

    /// Subtracts a packet that left the queue of `path` at `output` from its shared occupancy.
    #[inline]
    pub(super) fn left_output(&self, path: PathId, output: OutputId) {
        if let Some(links) = &self.links {
            links.left(QueueId::Output { path, output }, 1);
        }
    }

    /// Asks the core of `output` to send a frame of the router itself.
    pub(super) fn originate(&mut self, pool: &mut Pool, output: PortId, frame: &[u8]) {
        if let Some(links) = &mut self.links {
            links.originate(pool, output, frame);
        }
    }

    /// Sends ARP and neighbour discovery messages on to other cores, within the rate limit.
    pub(super) fn broadcast_neighbour(
        &mut self,
        pool: &mut Pool,
        input: PortId,
        packet: PacketHandle,
        now_ns: u64,
    ) {
        let Some(links) = &mut self.links else { return };
        if self.neighbour_broadcast_ns > now_ns + NEIGHBOUR_BROADCAST_BURST * NEIGHBOUR_BROADCAST_NS
        {
            return;
        }
        let frame = pool.frame(packet);
        if ipv4_control::arp(frame).is_some() || is_v6(frame) && ndp::message(frame).is_some() {
            self.neighbour_broadcast_ns =
                self.neighbour_broadcast_ns.max(now_ns) + NEIGHBOUR_BROADCAST_NS;
            let frame = frame.to_vec();
            links.broadcast_neighbour(pool, input, &frame);
        }
    }

    /// Returns the waker of this core; `None` on a single core.
    pub(crate) fn waker(&self) -> Option<&Arc<Waker>> {
        self.links.as_ref().map(|links| &links.waker)
    }

    /// Returns the descriptor that becomes readable when another core wakes this one.
    pub(super) fn wake_event(&self) -> Option<RawFd> {
        self.waker().map(|waker| waker.event())
    }

    /// Announces that this core is about to sleep; returns whether it may.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.links.as_ref().is_none_or(|links| links.waker.begin_sleep() && !links.has_arrivals())
    }

    /// Ends the announced sleep.
    pub(crate) fn end_sleep(&self) {
        if let Some(waker) = self.waker() {
            waker.end_sleep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CoreId;
    use crate::net::ipv4_control::Endpoint;
    use std::net::Ipv4Addr;

    /// Returns the two ends of a router of two cores: each has one path and one port.
    fn cores() -> [RemoteCores; 2] {
        let occupancy = Arc::new(SharedOccupancy::new([0, 1].map(CoreId), [0, 1].map(CoreId)));
        let ends = InterCoreLinks::all(&occupancy, 2).unwrap().into_iter().map(|links| {
            let mut cores = RemoteCores::default();
            cores.connect(links);
            cores
        });
        ends.collect::<Vec<_>>().try_into().ok().unwrap()
    }

    fn pool() -> Pool {
        let mut pool = Pool::new(128);
        pool.reserve_remote(128);
        pool
    }

    #[test]
    fn a_single_core_owns_every_port_and_hands_nothing_over() {
        let (mut alone, mut pool) = (RemoteCores::default(), Pool::new(1));
        assert!(!alone.is_multi_core() && alone.links_are_empty() && alone.begin_sleep());
        assert!(!alone.owns(PortId(0)) && !alone.owns(PortId(9)));
        let packet = pool.copy(&[0; 60]).unwrap();
        alone.hand_over(&mut pool, QueueId::Path(PathId(0)), packet);
        assert_eq!(pool.free(), 1, "the packet is dropped");
    }

    #[test]
    fn a_handed_over_packet_counts_until_it_leaves_the_queue() {
        let [mut here, mut there] = cores();
        assert!(!here.owns(PortId(0)) && here.owns(PortId(1)));
        let (mut ours, mut theirs) = (pool(), pool());
        let packet = ours.copy(&[0; 60]).unwrap();
        here.hand_over(&mut ours, QueueId::Path(PathId(1)), packet);
        assert_eq!(here.waiting(QueueId::Path(PathId(1))), 1);
        assert!(!there.links_are_empty() && !there.begin_sleep());
        there.end_sleep();
        let mut arrived = Vec::new();
        there.exchange(&mut theirs, &mut arrived);
        let (destination, packet) = arrived[0];
        assert_eq!(destination, CrossCoreDestination::Queue(QueueId::Path(PathId(1))));
        let mut packets = [packet];
        there.left_path(PathId(1), &mut packets);
        assert!(!Pool::from_remote(packets[0]));
        assert_eq!(here.waiting(QueueId::Path(PathId(1))), 0);
    }

    #[test]
    fn neighbour_announcements_to_other_cores_are_limited() {
        let [mut here, mut there] = cores();
        let (mut ours, mut theirs) = (pool(), pool());
        let us = Endpoint { mac: [2, 0, 0, 0, 0, 9], address: Ipv4Addr::new(10, 0, 0, 9) };
        let request = ipv4_control::arp_request(us, Ipv4Addr::new(10, 0, 0, 1));
        let request = ours.copy(&request).unwrap();
        let mut arrived = Vec::new();
        for _ in 0..2 * NEIGHBOUR_BROADCAST_BURST {
            here.broadcast_neighbour(&mut ours, PortId(0), request, 0);
            there.exchange(&mut theirs, &mut arrived);
        }
        let burst = usize::try_from(NEIGHBOUR_BROADCAST_BURST).unwrap() + 1;
        assert_eq!(arrived.len(), burst);
        let other = ours.copy(&[0; 60]).unwrap();
        here.broadcast_neighbour(&mut ours, PortId(0), other, u64::MAX / 2);
        there.exchange(&mut theirs, &mut arrived);
        assert_eq!(arrived.len(), burst, "not a neighbour's message");
    }
}
