//! The ports of a machine: devices, paced links and counters.

use millstream::Link;
use millstream_sync::clock::tsc::Clock;

use crate::error::PortError;
use crate::ids::{IdVec, PacketHandle, PortId};
use crate::io::port::Port;
use crate::live::paced_link::PacedLink;
use crate::net::pool::Pool;

/// Packet counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets taken from the device.
    pub received: u64,
    /// Received packets dropped because no buffer was free, or because they were longer than a
    /// buffer, truncated or unsupported. Includes those that the port itself dropped.
    pub unusable: u64,
    /// Received packets for the router: ARP, neighbour discovery, packets to its own addresses.
    pub for_router: u64,
    /// Packets of paths given to the device.
    pub transmitted: u64,
    /// Packets of the router itself given to the device: ARP, neighbour discovery, echo replies,
    /// ICMP errors. `transmitted` excludes them.
    pub originated: u64,
}

/// A port with its link.
struct PortState<P> {
    port: P,
    link: PacedLink,
    /// Whether the last run is still in the device's transmit ring.
    pending: bool,
    /// The longest frame that the port carries, bytes.
    longest_bytes: u32,
    counters: PortCounters,
}

/// The ports by number.
pub(super) struct Ports<P> {
    states: IdVec<PortId, PortState<P>>,
    /// The first failure since [`failure`](Self::failure).
    failed: Option<PortError>,
}

impl<P> Default for Ports<P> {
    fn default() -> Self {
        Self { states: IdVec::new(), failed: None }
    }
}

impl<P: Port> Ports<P> {
    /// Adds a port, paced to `link`.
    pub(super) fn add(&mut self, port: P, link: Link) {
        self.states.push(PortState {
            longest_bytes: port.longest_bytes(),
            port,
            link: PacedLink::new(link),
            pending: false,
            counters: PortCounters::default(),
        });
    }

    /// Returns all ports.
    pub(super) fn iter(&self) -> impl Iterator<Item = &P> {
        self.states.iter().map(|state| &state.port)
    }

    /// Returns a port.
    pub(super) fn port_mut(&mut self, port: PortId) -> &mut P {
        &mut self.states[port].port
    }

    /// Returns the link of a port.
    #[inline]
    pub(super) fn link(&self, port: PortId) -> &PacedLink {
        &self.states[port].link
    }

    /// Returns the link of a port, mutably.
    pub(super) fn link_mut(&mut self, port: PortId) -> &mut PacedLink {
        &mut self.states[port].link
    }

    /// Returns the longest frame that a port carries, bytes.
    #[inline]
    pub(super) fn longest_bytes(&self, port: PortId) -> u32 {
        self.states[port].longest_bytes
    }

    /// Returns the counters of a port.
    pub(super) fn counters(&self, port: PortId) -> PortCounters {
        self.states[port].counters
    }

    /// Counts a received packet for the router.
    pub(super) fn count_for_router(&mut self, port: PortId) {
        self.states[port].counters.for_router += 1;
    }

    /// Returns whether no port will receive packets any more.
    pub(super) fn ended(&self) -> bool {
        self.states.iter().all(|state| state.port.ended())
    }

    /// Takes the first failure, if any.
    pub(super) fn failure(&mut self) -> Option<PortError> {
        self.failed.take()
    }

    /// Reads up to `most` packets of `input` into `into`; returns how many it took from the device.
    #[inline]
    pub(super) fn receive(
        &mut self,
        input: PortId,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> usize {
        let state = &mut self.states[input];
        // The MTU may have changed after a re-plug.
        state.longest_bytes = state.port.longest_bytes();
        let count = match state.port.receive(pool, most, into) {
            Ok(count) => count,
            Err(error) => {
                self.failed.get_or_insert(error);
                // Packets received before the failure.
                into.len()
            }
        };
        state.counters.received += count as u64;
        state.counters.unusable += (count - into.len()) as u64;
        count
    }

    /// Returns the packets left at the device of `input`, or 0 if it does not know.
    #[inline]
    pub(super) fn backlog(&self, input: PortId) -> usize {
        self.states[input].port.backlog().unwrap_or(0)
    }

    /// Returns how many packets `output` accepts at `now_ns`.
    #[inline]
    pub(super) fn room(&mut self, output: PortId, now_ns: u64, clock: &Clock) -> usize {
        let state = &mut self.states[output];
        if state.pending {
            state.pending = state.port.retry_pending();
            if state.pending {
                return 0;
            }
            state.link.run_left(clock.now_ns());
        }
        if state.link.has_room(now_ns) { usize::MAX } else { 0 }
    }

    /// Sends packets by `output`, in order; returns how many the device took, and the time, ns.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        output: PortId,
        pool: &mut Pool,
        packets: &[PacketHandle],
        clock: &Clock,
    ) -> (usize, u64) {
        if packets.is_empty() {
            return (0, 0);
        }
        let state = &mut self.states[output];
        let taken = match state.port.transmit(pool, packets) {
            Ok(taken) => taken,
            Err(error) => {
                self.failed.get_or_insert(error);
                0
            }
        };
        state.counters.transmitted += taken as u64;
        let lengths = packets[..taken].iter().map(|packet| Pool::length(*packet));
        let now_ns = clock.now_ns();
        state.link.record_sent(now_ns, lengths);
        state.pending = taken > 0 && state.port.retry_pending();
        (taken, now_ns)
    }

    /// Sends a packet of the router itself ahead of the queues; drops it if the device is full.
    pub(super) fn originate(&mut self, output: PortId, pool: &mut Pool, packet: PacketHandle) {
        let state = &mut self.states[output];
        match state.port.transmit(pool, &[packet]) {
            Ok(1) => state.counters.originated += 1,
            Ok(_) => pool.release(packet),
            Err(error) => {
                self.failed.get_or_insert(error);
                pool.release(packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port; its device accepts `takes` packets per call, or fails if that is `None`.
    struct Device {
        takes: Option<usize>,
    }

    impl Port for Device {
        fn receive(
            &mut self,
            pool: &mut Pool,
            most: usize,
            into: &mut Vec<PacketHandle>,
        ) -> Result<usize, PortError> {
            into.extend(pool.copy(&[0; 60]));
            match self.takes {
                // The device had one packet that fits no buffer.
                Some(_) => Ok(into.len() + 1.min(most)),
                None => Err(PortError::new("a", "broken")),
            }
        }

        fn transmit(
            &mut self,
            pool: &mut Pool,
            packets: &[PacketHandle],
        ) -> Result<usize, PortError> {
            let takes = self.takes.ok_or_else(|| PortError::new("a", "broken"))?;
            let taken = takes.min(packets.len());
            packets[..taken].iter().for_each(|packet| pool.release(*packet));
            Ok(taken)
        }

        fn ended(&self) -> bool {
            self.takes.is_none()
        }
    }

    fn ports(takes: Option<usize>) -> (Ports<Device>, Pool) {
        let mut ports = Ports::default();
        ports.add(Device { takes }, Link::new(1_000_000_000, 0));
        (ports, Pool::new(8))
    }

    #[test]
    fn packets_without_a_buffer_are_unusable_and_those_before_a_failure_are_received() {
        let (mut healthy, mut pool) = ports(Some(1));
        let mut into = Vec::new();
        assert_eq!(healthy.receive(PortId(0), &mut pool, 8, &mut into), 2);
        let PortCounters { received, unusable, .. } = healthy.counters(PortId(0));
        assert_eq!((received, unusable), (2, 1));
        let (mut broken, mut pool) = ports(None);
        let mut into = Vec::new();
        assert_eq!(broken.receive(PortId(0), &mut pool, 8, &mut into), 1);
        assert_eq!(broken.counters(PortId(0)).unusable, 0);
        assert!(broken.ended());
        assert!(broken.failure().is_some());
        assert!(broken.failure().is_none(), "a failure is reported once");
    }

    #[test]
    fn packets_of_the_router_are_counted_apart_and_dropped_by_a_full_device() {
        let clock = Clock::default();
        let (mut ports, mut pool) = ports(Some(1));
        let packets = [pool.copy(&[0; 60]).unwrap(), pool.copy(&[0; 60]).unwrap()];
        assert_eq!(ports.transmit(PortId(0), &mut pool, &packets, &clock).0, 1);
        ports.originate(PortId(0), &mut pool, packets[1]);
        ports.port_mut(PortId(0)).takes = Some(0);
        let packet = pool.copy(&[0; 60]).unwrap();
        ports.originate(PortId(0), &mut pool, packet);
        let PortCounters { transmitted, originated, .. } = ports.counters(PortId(0));
        assert_eq!((transmitted, originated), (1, 1));
        assert_eq!(pool.free(), 8, "no buffer is lost");
    }
}
