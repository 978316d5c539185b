//! The machine of a live core: real ports and real time for the router's processes.

mod local_services;
mod nat;
mod proxy;
mod receive;
mod remote_cores;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use millstream_scenario::RouterScenario;
use std::net::Ipv6Addr;

use crate::clock::{Clock, Worked};
use crate::error::PortError;
use crate::io::port::Port;
use crate::live::extension::{ExtensionCounters, Extensions};
use crate::live::inter_core::{CrossCoreDestination, InterCoreLinks};
use crate::live::netlink::{Change, NextHopKind};
use crate::live::paced_link::PacedLink;
use crate::net::classifier::Classifier;
use crate::net::fib;
use crate::net::flow_cache::{FlowCache, FlowKey};
use crate::net::forwarder::Forwarder;
use crate::net::nat::Nat;
use crate::net::ndp;
use crate::net::pending_neighbours::PendingNeighbours;
use crate::net::pool::Pool;
use crate::proxy::{Proxies, ProxyCounters};
use crate::router::machine::{
    Accounting, Deferral, Machine, MultiCore, PacedLinks, QueueId, Verdict,
};
use receive::Destination;
pub(super) use remote_cores::Arrived;

/// Packet counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets taken from the device.
    pub received: u64,
    /// Received packets dropped because no buffer was free or they were longer than a buffer.
    pub unfit: u64,
    /// Received packets for the router: ARP, neighbour discovery, packets to its own addresses.
    pub for_router: u64,
    /// Packets of paths given to the device.
    pub transmitted: u64,
    /// Packets of the router itself given to the device: ARP, neighbour discovery, echo replies,
    /// ICMP errors. `transmitted` excludes them.
    pub originated: u64,
}

struct PortState<P> {
    port: P,
    /// Whether another core owns the port.
    is_remote: bool,
    mac: [u8; 6],
    /// The router's own address on this network, if it has one.
    address: Option<Ipv4Net>,
    /// The kernel's address on this network: the source of the router's packets if the router has
    /// no address here. The kernel answers requests for it.
    kernel: Option<Ipv4Net>,
    /// The router's IPv6 addresses, link-local ones included.
    addresses_v6: Vec<Ipv6Net>,
    /// The kernel's IPv6 addresses on this network.
    kernel_v6: Vec<Ipv6Net>,
    /// Translates IPv4 sources to `address`.
    nat: Option<Nat>,
    /// Packets for it that this core dropped because their source belongs to another port.
    refused_source: u64,
    link: PacedLink,
    /// Whether the last run is still in the device's transmit ring.
    pending: bool,
    /// The longest frame that the port carries, bytes.
    longest_bytes: u32,
    counters: PortCounters,
}

impl<P> PortState<P> {
    /// Returns the IPv4 source address of the router's requests and errors.
    fn speaker(&self) -> Option<Ipv4Net> {
        self.address.or(self.kernel)
    }

    /// Returns the source address for IPv6 to `target`: on its network, else a global one.
    fn speaker_v6(&self, target: Ipv6Addr) -> Option<Ipv6Net> {
        let own = &self.addresses_v6;
        let ours = if own.is_empty() { &self.kernel_v6 } else { own };
        let far = |net: &&Ipv6Net| !net.addr().is_unicast_link_local();
        let beside = ours.iter().find(|net| net.contains(&target));
        beside.or_else(|| ours.iter().find(far)).or(ours.first()).copied()
    }

    /// Returns whether the router or the kernel has an address on this network.
    fn speaks(&self) -> bool {
        let v6 = !(self.addresses_v6.is_empty() && self.kernel_v6.is_empty());
        v6 || self.speaker().is_some()
    }
}

/// A machine with ports of type `P`; `Box<dyn Port>` permits any kind of port.
pub struct LiveMachine<P> {
    clock: Clock,
    pool: Pool,
    port_states: Vec<PortState<P>>,
    /// Whether any port's NAT checks sources.
    checks_source: bool,
    classifier: Classifier,
    flows: FlowCache,
    function: Forwarder,
    /// The links to other cores; `None` on a single core.
    links: Option<InterCoreLinks>,
    come: Vec<(CrossCoreDestination, u64)>,
    extensions: Extensions,
    proxies: Proxies,
    /// Packets that a proxy has just made.
    made: Vec<u64>,
    received: Vec<u64>,
    held: PendingNeighbours,
    /// The time of the next requests for neighbours of held packets, ns.
    ask_again_ns: u64,
    /// Whether receiving has stopped.
    closed: bool,
    failed: Option<PortError>,
    /// The time at the last clock read, ns.
    now_ns: u64,
    /// The last sample of the CPU time of this thread.
    worked: Worked,
    /// The state of the rate limit of ICMP errors, ns.
    error_ns: u64,
    /// The state of the rate limit of neighbour announcements to other cores, ns.
    spread_ns: u64,
}

impl<P: Port> LiveMachine<P> {
    /// Creates a machine without ports.
    #[must_use]
    pub fn new(clock: Clock, pool: Pool, classifier: Classifier, function: Forwarder) -> Self {
        let (port_states, received) = (Vec::new(), Vec::new());
        let (closed, failed, now_ns, error_ns) = (false, None, 0, 0);
        let (held, ask_again_ns) = (PendingNeighbours::new(pool.free()), 0);
        // Excludes CPU time that the thread used before.
        let worked = Worked::until_now(&clock);
        Self {
            clock,
            pool,
            port_states,
            checks_source: false,
            classifier,
            flows: FlowCache::default(),
            function,
            links: None,
            come: Vec::new(),
            extensions: Extensions::default(),
            proxies: Proxies::default(),
            made: Vec::new(),
            received,
            held,
            ask_again_ns,
            closed,
            failed,
            now_ns,
            worked,
            error_ns,
            spread_ns: 0,
        }
    }

    /// Adds a port with its hardware address. Packets leave at `rate_bps` and take `overhead_bytes`
    /// more than their length. The input and the output of the port's number are this port.
    pub fn add(&mut self, port: P, mac: [u8; 6], rate_bps: u64, overhead_bytes: u32) {
        let (counters, longest_bytes) = (PortCounters::default(), port.longest_bytes());
        self.port_states.push(PortState {
            port,
            is_remote: false,
            mac,
            address: None,
            kernel: None,
            addresses_v6: Vec::new(),
            kernel_v6: Vec::new(),
            nat: None,
            refused_source: 0,
            link: PacedLink::new(rate_bps, overhead_bytes),
            pending: false,
            longest_bytes,
            counters,
        });
    }

    /// Replaces the rules and routes; ports keep their addresses and settings.
    pub fn reconfigure(&mut self, classifier: Classifier, function: Forwarder) {
        self.classifier = classifier;
        self.flows.clear();
        self.function.replace_routes(function);
    }

    /// Replaces the extensions of paths; path `n` was path `kept[n]`.
    pub fn extend(&mut self, mut extensions: Extensions, kept: &[Option<usize>]) {
        extensions.replace(std::mem::take(&mut self.extensions), kept);
        self.extensions = extensions;
    }

    /// Returns the counters of the path's extension, if it has one.
    #[must_use]
    pub fn extension(&self, path: usize) -> Option<ExtensionCounters> {
        self.extensions.counters(path)
    }

    /// Sets the proxies of paths from `scenario`; path `n` was path `kept[n]`, whose connections
    /// stay.
    pub fn proxy(&mut self, scenario: &RouterScenario, kept: &[Option<usize>]) {
        if kept.is_empty() {
            self.proxies = Proxies::new(scenario);
        } else {
            self.proxies.reload(scenario, kept);
        }
    }

    /// Returns the counters of the path's proxy, if it has one.
    #[must_use]
    pub fn proxied_by(&self, path: usize) -> Option<ProxyCounters> {
        self.proxies.counters(path)
    }

    /// Sets the router's addresses at `port`; it uses only the last IPv4 address. The router
    /// answers ARP, neighbour discovery and echo requests for them, and sends errors from them.
    /// With IPv6 it has a link-local address, derived from the hardware address unless given.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn set_address(&mut self, port: usize, addresses: impl IntoIterator<Item = IpNet>) {
        self.flows.clear();
        let state = &mut self.port_states[port];
        state.address = None;
        state.addresses_v6.clear();
        for net in addresses {
            match net {
                IpNet::V4(net) => state.address = Some(net),
                IpNet::V6(net) => state.addresses_v6.push(net),
            }
        }
        let v6 = &mut state.addresses_v6;
        if !v6.is_empty() && !v6.iter().any(|net| net.addr().is_unicast_link_local()) {
            v6.push(ndp::link_local(state.mac));
        }
        let mut groups: Vec<_> = v6.iter().map(|net| ndp::solicited_node(net.addr())).collect();
        groups.sort_unstable();
        groups.dedup();
        state.port.join(&groups);
    }

    /// Applies changes of the kernel's routes, neighbours and addresses.
    pub(super) fn kernel_changed(&mut self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        self.flows.clear();
        for change in changes {
            match *change {
                Change::Route(prefix, way) => {
                    let next = way.map(|way| match way {
                        NextHopKind::Port(port, via) => {
                            fib::NextHopKind::Resolve(port, self.port_states[port].mac, via)
                        }
                        NextHopKind::Nowhere => fib::NextHopKind::Unreachable,
                    });
                    self.function.set_kernel_route(prefix, next);
                }
                Change::Neighbour(port, address, mac) => {
                    self.function.set_kernel_neighbour(port, address, mac);
                }
                Change::Address(port, net) => self.port_states[port].kernel = net,
                Change::AddressV6(port, net, there) => {
                    let known = &mut self.port_states[port].kernel_v6;
                    known.retain(|other| *other != net);
                    known.extend(there.then_some(net));
                }
            }
        }
        // Held packets may have another route now, or their neighbour is known.
        self.held.release(|_| true);
    }

    /// Sets the rate of `port`, and the wire overhead per packet.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn set_rate(&mut self, port: usize, rate_bps: u64, overhead_bytes: u32) {
        self.port_states[port].link.set_rate(rate_bps, overhead_bytes);
    }

    /// Sets the longest link time of a run of several packets at `port`, ns. The default is 100 µs.
    /// A run of one packet may take longer.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn set_line_burst(&mut self, port: usize, burst_ns: u64) {
        self.port_states[port].link.set_burst(burst_ns);
    }

    /// Restarts the steal-time sample after a voluntary sleep.
    pub(super) fn rested(&mut self) {
        self.worked = Worked::until_now(&self.clock);
    }

    /// Receives nothing from now on.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether no port will receive packets any more.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.closed || self.port_states.iter().all(|state| state.port.ended())
    }

    /// Takes the first failure of a port, if any.
    pub fn failure(&mut self) -> Option<PortError> {
        self.failed.take()
    }

    /// Returns the counters of a port.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub fn counters(&self, port: usize) -> PortCounters {
        self.port_states[port].counters
    }

    /// Returns a port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn port_mut(&mut self, port: usize) -> &mut P {
        &mut self.port_states[port].port
    }

    /// Returns all ports of this core.
    pub(super) fn ports(&self) -> impl Iterator<Item = &P> {
        self.port_states.iter().filter(|state| !state.is_remote).map(|state| &state.port)
    }

    /// Returns whether packets are held for neighbour resolution.
    pub(super) fn waits_for_neighbours(&self) -> bool {
        self.held.has_packets()
    }

    /// Returns the time, ns.
    pub(super) fn clock_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the number of free buffers.
    #[must_use]
    pub fn free_buffers(&self) -> usize {
        self.pool.free()
    }
}

impl<P: Port> Machine for LiveMachine<P> {
    const FREE_CLOCK: bool = false;

    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.now_ns = self.clock.now_ns();
        self.now_ns
    }

    #[inline]
    fn receive(&mut self, input: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize {
        if self.closed {
            return 0;
        }
        let state = &mut self.port_states[input];
        // The MTU may have changed after a re-plug.
        state.longest_bytes = state.port.longest_bytes();
        let count = match state.port.receive(&mut self.pool, most, &mut self.received) {
            Ok(count) => count,
            Err(error) => {
                self.failed.get_or_insert(error);
                // Packets received before the failure.
                self.received.len()
            }
        };
        state.counters.received += count as u64;
        state.counters.unfit += (count - self.received.len()) as u64;
        let mac = state.mac;
        let mut received = std::mem::take(&mut self.received);
        for packet in received.drain(..) {
            let flow = FlowKey::parse(self.pool.frame(packet), Pool::tag(packet), input, mac);
            let destination = match flow.and_then(|flow| self.flows.get(flow)) {
                Some(path) => Destination::Path(path),
                None => self.destination(input, mac, packet, flow),
            };
            match destination {
                Destination::Path(path) => into.push((path, packet)),
                Destination::Local(owner) => self.hear(input, packet, owner),
                Destination::Drop => self.pool.release(packet),
            }
        }
        self.received = received;
        count
    }

    #[inline]
    fn backlog(&self, input: usize) -> usize {
        self.port_states[input].port.backlog().unwrap_or(0)
    }

    #[inline]
    fn forward(&mut self, path: usize, packet: &mut u64) -> Verdict {
        if let Some(extension) = self.extensions.of(path)
            && !Pool::processed(*packet)
        {
            let Some(seen) = extension.run(&mut self.pool, *packet) else { return Verdict::Drop };
            *packet = seen;
        }
        if self.proxies.has(path) && !Pool::processed(*packet) {
            if !self.proxies.receive(path, &mut self.pool, *packet, self.now_ns) {
                return Verdict::Consume;
            }
            *packet = Pool::mark_processed(*packet);
        }
        let mut ask = None;
        let frame = self.pool.frame_mut(*packet);
        let sent = self.function.forward_at(frame, self.now_ns, &mut ask);
        if let Some(ask) = ask {
            self.ask(ask);
        }
        match sent {
            Ok(output) if Pool::length(*packet) > self.port_states[output].longest_bytes => {
                self.too_long(path, *packet, output)
            }
            Ok(output) if !self.translated(output, *packet) => Verdict::Drop,
            Ok(output) => Verdict::Send(output),
            Err(why) => self.undelivered(path, *packet, why),
        }
    }

    #[inline]
    fn bytes(&self, packet: u64) -> u32 {
        Pool::length(packet)
    }

    #[inline]
    fn room(&mut self, output: usize, now_ns: u64) -> usize {
        let state = &mut self.port_states[output];
        if state.pending {
            state.pending = state.port.retry_pending();
            if state.pending {
                return 0;
            }
            state.link.run_left(self.clock.now_ns());
        }
        if state.link.has_room(now_ns) { usize::MAX } else { 0 }
    }

    fn room_at_ns(&mut self, output: usize, now_ns: u64) -> u64 {
        self.port_states[output].link.room_at_ns(now_ns)
    }

    #[inline]
    fn transmit(&mut self, output: usize, packets: &[u64]) -> usize {
        if packets.is_empty() {
            return 0;
        }
        let state = &mut self.port_states[output];
        let taken = match state.port.transmit(&mut self.pool, packets) {
            Ok(taken) => taken,
            Err(error) => {
                self.failed.get_or_insert(error);
                0
            }
        };
        state.counters.transmitted += taken as u64;
        let lengths = packets[..taken].iter().map(|packet| Pool::length(*packet));
        state.link.carry(self.clock.now_ns(), lengths);
        state.pending = taken > 0 && state.port.retry_pending();
        taken
    }

    #[inline]
    fn discard(&mut self, packet: u64) {
        self.pool.release(packet);
    }
}

impl<P: Port> Accounting for LiveMachine<P> {
    #[cold]
    fn steal_ns(&mut self, took_ns: u64) -> u64 {
        self.worked.stolen_ns(&self.clock, self.now_ns, took_ns)
    }
}

impl<P: Port> Deferral for LiveMachine<P> {
    #[inline]
    fn give_back(&mut self, all: bool, into: &mut Vec<(usize, u64)>) {
        if all {
            self.held.release(|_| true);
        } else if self.held.has_packets() && self.ask_again_ns <= self.now_ns {
            self.ask_again();
        }
        self.held.take(into);
    }

    #[inline]
    fn due_ns(&self, path: usize) -> u64 {
        self.proxies.due_ns(path)
    }

    #[inline]
    fn make(&mut self, path: usize, most: usize, into: &mut Vec<(Verdict, u64)>) {
        if self.proxies.due_ns(path) <= self.now_ns {
            self.make_proxied(path, most, into);
        }
    }
}

impl<P: Port> PacedLinks for LiveMachine<P> {
    #[inline]
    fn fits(
        &self,
        output: usize,
        now_ns: u64,
        given: (usize, u64),
        longest_bytes: u32,
        most: usize,
    ) -> usize {
        self.port_states[output].link.fits(now_ns, given, longest_bytes, most)
    }

    #[inline]
    fn idle_ns(&self, output: usize, now_ns: u64) -> u64 {
        self.port_states[output].link.idle_ns(now_ns)
    }
}

impl<P: Port> MultiCore for LiveMachine<P> {
    #[inline]
    fn waiting_remote(&self, queue: QueueId) -> usize {
        self.links.as_ref().map_or(0, |links| links.waiting(queue))
    }

    #[inline]
    fn hand_over(&mut self, queue: QueueId, packet: u64) {
        match &mut self.links {
            Some(links) => links.hand_over(&mut self.pool, queue, packet),
            None => self.pool.release(packet),
        }
    }

    #[inline]
    fn left_queue(&mut self, path: usize, packets: &mut [u64]) {
        self.settle(path, packets);
    }

    #[inline]
    fn left_output(&self, path: usize, output: usize) {
        if let Some(links) = &self.links {
            links.left(QueueId::Output { path, output }, 1);
        }
    }
}
