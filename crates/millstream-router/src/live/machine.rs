//! The machine of a live core: real ports and real time for the router's processes.

mod addresses;
mod delays;
mod ingress;
mod line_rates;
mod local_services;
mod nat;
mod ports;
mod proxy;
mod receive;
mod remote_cores;

use ipnet::IpNet;
use millstream::Link;
use millstream::flow_queue::Flow;
use millstream_scenario::{FlowBy, HostBy, PortNat, RouterPath, RouterScenario};
use millstream_sync::clock::tsc::{Clock, CpuTimeSample};
use millstream_sync::histogram::SharedHistogram;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::error::PortError;
use crate::ids::{IdVec, InputId, OutputId, PacketHandle, PathId, PortId};
use crate::io::port::Port;
use crate::live::extension::{ExtensionCounters, Extensions};
use crate::live::inter_core::{CrossCoreDestination, InterCoreLinks, SharedOccupancy};
use crate::live::netlink::{Change, NextHopKind};
use crate::net::classifier::Classifier;
use crate::net::ecn::{ecn, set_congested};
use crate::net::fib;
use crate::net::flow_cache::{FlowCache, FlowKey};
use crate::net::flow_hash::FlowHasher;
use crate::net::forwarder::{ForwardError, Forwarder};
use crate::net::header::{ETHERNET_BYTES, Header, is_v6};
use crate::net::ipv4_control::IcmpError;
use crate::net::nat::NatCounters;
use crate::net::neighbours::NeighbourKey;
use crate::net::pool::{FlowHashes, Pool};
use crate::proxy::{Proxies, ProxyCounters};
use crate::router::machine::{
    Accounting, Deferral, Flows, Machine, MultiCore, PacedLinks, QueueId, Verdict,
};
use addresses::{LocalAddresses, LocalDestination};
use delays::PathDelays;
use ingress::IngressLinks;
pub(crate) use line_rates::AdaptiveLink;
use line_rates::LineRates;
use local_services::{LocalServices, Network};
use nat::PortNats;
pub use ports::PortCounters;
use ports::Ports;
use proxy::ConnectionContext;
use receive::Destination;
pub(super) use remote_cores::{Arrived, RemoteCores};

/// A machine with ports of type `P`; `Box<dyn Port>` permits any kind of port.
pub struct LiveMachine<P> {
    clock: Clock,
    /// The time at the last clock read, ns.
    now_ns: u64,
    /// The last sample of the CPU time of this thread.
    worked: CpuTimeSample,
    pool: Pool,
    delays: PathDelays,
    ingress: IngressLinks,
    line_rates: LineRates,
    /// The flows and hosts of paths with flows.
    flow_by: IdVec<PathId, Option<(FlowBy, Option<HostBy>)>>,
    flow_hasher: FlowHasher,
    ports: Ports<P>,
    addresses: LocalAddresses,
    nats: PortNats,
    classifier: Classifier,
    flows: FlowCache,
    function: Forwarder,
    services: LocalServices,
    remote_cores: RemoteCores,
    extensions: Extensions,
    proxies: Proxies,
    /// Whether receiving has stopped.
    closed: bool,
    received: Vec<PacketHandle>,
    from_cores: Vec<(CrossCoreDestination, PacketHandle)>,
    /// Packets that a proxy has just made.
    made: Vec<PacketHandle>,
}

impl<P: Port> LiveMachine<P> {
    /// Creates a machine without ports.
    #[must_use]
    pub fn new(clock: Clock, pool: Pool, classifier: Classifier, function: Forwarder) -> Self {
        let services = LocalServices::new(pool.free());
        // Excludes CPU time that the thread used before.
        let worked = CpuTimeSample::capture(&clock);
        Self {
            clock,
            now_ns: 0,
            worked,
            pool,
            delays: PathDelays::default(),
            ingress: IngressLinks::default(),
            line_rates: LineRates::default(),
            flow_by: IdVec::new(),
            flow_hasher: FlowHasher::default(),
            ports: Ports::default(),
            addresses: LocalAddresses::default(),
            nats: PortNats::default(),
            classifier,
            flows: FlowCache::default(),
            function,
            services,
            remote_cores: RemoteCores::default(),
            extensions: Extensions::default(),
            proxies: Proxies::default(),
            closed: false,
            received: Vec::new(),
            from_cores: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Adds a port with its hardware address, paced to `link`. The input and the output of the
    /// port's number are this port.
    pub fn add(&mut self, port: P, mac: [u8; 6], link: Link) {
        self.ports.add(port, link);
        self.addresses.add(mac);
        self.nats.add();
    }

    /// Replaces the rules and routes; ports keep their addresses and settings.
    pub fn reconfigure(&mut self, classifier: Classifier, function: Forwarder) {
        self.classifier = classifier;
        self.flows.clear();
        self.function.replace_routes(function);
    }

    /// Measures the sojourn times of the paths of `scenario`, and hashes the packets of paths with
    /// flows. Path `n` was path `kept[n]` and keeps its histogram. An empty `kept` is the first
    /// file.
    pub fn set_paths(&mut self, scenario: &RouterScenario, kept: &[Option<PathId>]) {
        self.delays.set_paths(scenario.paths.len(), kept);
        let flows =
            |path: &RouterPath| path.contract.flow_options().map(|_| (path.flow_by, path.hosts_by));
        self.flow_by = scenario.paths.iter().map(flows).collect();
    }

    /// Sets the ingress link of each port, if it has one: the packets that it receives pass this
    /// output before they leave by another. An output that is not an ingress link must not be
    /// named.
    pub fn set_ingress(&mut self, links: IdVec<PortId, Option<OutputId>>) {
        self.ingress = IngressLinks::new(links);
    }

    /// Sets the adaptive links of this core. A link that was adaptive before keeps its rate.
    pub(super) fn set_adaptive_links(&mut self, links: &[AdaptiveLink]) {
        self.line_rates.set(links, &mut self.ports);
    }

    /// Decides the rates of adaptive links if that is due at `now_ns`.
    #[inline]
    pub(super) fn adapt_rates(&mut self, now_ns: u64) {
        if self.line_rates.is_due(now_ns) {
            self.line_rates.decide(now_ns, &mut self.ports);
        }
    }

    /// Returns the rate of the link of `port`, bits/s, and the delay beyond its line, ns; `None` if
    /// the rate does not adapt.
    pub(super) fn adapted_rate(&self, port: PortId) -> Option<(u64, Option<u64>)> {
        self.line_rates.of(port)
    }

    /// Notes packets with their paths, which `port` received, or which the router made: their time,
    /// and their flow if the path has flows.
    #[inline]
    fn note_received(&mut self, port: Option<PortId>, received: &[(PathId, PacketHandle)]) {
        self.ingress.received(&mut self.pool, port, received);
        if let Some(port) = port {
            self.line_rates.arrived(port, &self.pool, received, self.now_ns);
        }
        if self.flow_by.is_empty() {
            return;
        }
        for (path, packet) in received {
            self.pool.set_stamp(*packet, self.delays.stamp(*path, self.now_ns));
            if let Some(Some((by, hosts_by))) = self.flow_by.get(*path) {
                let frame = self.pool.frame(*packet);
                let flow = self.flow_hasher.hash(*by, frame);
                let host = hosts_by.map_or(0, |by| self.flow_hasher.host(by, frame));
                self.pool.set_flow(*packet, FlowHashes { flow, host });
            }
        }
    }

    /// Returns the round-trip times of a path's TCP handshakes that were answered to this core.
    pub(super) fn rtts(&self, path: PathId) -> Option<&Arc<SharedHistogram>> {
        self.delays.rtts(path)
    }

    /// Returns the sojourn times of a path's packets that this core has sent.
    pub(super) fn delays(&self, path: PathId) -> Option<&Arc<SharedHistogram>> {
        self.delays.histogram(path)
    }

    /// Replaces the extensions of paths; path `n` was path `kept[n]`.
    pub fn set_extensions(&mut self, mut extensions: Extensions, kept: &[Option<PathId>]) {
        extensions.replace(std::mem::take(&mut self.extensions), kept);
        self.extensions = extensions;
    }

    /// Returns the counters of the path's extension, if it has one.
    #[must_use]
    pub fn extension_counters(&self, path: PathId) -> Option<ExtensionCounters> {
        self.extensions.counters(path)
    }

    /// Sets the proxies of paths from `scenario`; path `n` was path `kept[n]` and keeps its
    /// connections.
    pub fn set_proxies(&mut self, scenario: &RouterScenario, kept: &[Option<PathId>]) {
        if kept.is_empty() {
            self.proxies = Proxies::new(scenario);
        } else {
            self.proxies.reload(scenario, kept);
        }
    }

    /// Returns the counters of the path's proxy, if it has one.
    #[must_use]
    pub fn proxy_counters(&self, path: PathId) -> Option<ProxyCounters> {
        self.proxies.counters(path)
    }

    /// Sets the router's addresses at `port`; it uses only the last IPv4 address. The router
    /// answers ARP, neighbour discovery and echo requests for them, and sends errors from them.
    /// With IPv6 it has a link-local address, derived from the hardware address unless given.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    pub fn set_address(&mut self, port: PortId, addresses: impl IntoIterator<Item = IpNet>) {
        self.flows.clear();
        let local = &mut self.addresses[port];
        local.set(addresses);
        self.ports.port_mut(port).join(&local.groups());
    }

    /// Sets NAT at `port`: IPv4 leaves from the port's address. NAT flows stay unless the limits
    /// shrink.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    pub fn set_nat(&mut self, port: PortId, how: Option<&PortNat>) {
        self.flows.clear();
        self.nats.set(port, how);
    }

    /// Returns the counters of a port's NAT, if it has one.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    #[must_use]
    pub fn nat_counters(&self, port: PortId) -> Option<NatCounters> {
        self.nats.counters(port)
    }

    /// Returns the number of packets for a port that this core refused for their source.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    pub(super) fn dropped_source(&self, port: PortId) -> u64 {
        self.nats.dropped_source(port)
    }

    /// Applies changes of the kernel's routes, neighbours and addresses.
    pub(super) fn kernel_changed(&mut self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        self.flows.clear();
        for change in changes {
            match *change {
                Change::Route(prefix, next) => {
                    let next = next.map(|next| match next {
                        NextHopKind::Port(port, via) => {
                            fib::NextHopKind::Resolve(port, self.addresses[port].mac, via)
                        }
                        NextHopKind::Nowhere => fib::NextHopKind::Unreachable,
                    });
                    self.function.set_kernel_route(prefix, next);
                }
                Change::Neighbour(port, address, mac) => {
                    self.function.set_kernel_neighbour(port, address, mac);
                }
                Change::Address(port, net) => self.addresses[port].kernel = net,
                Change::AddressV6(port, net, present) => {
                    self.addresses[port].set_kernel_v6(net, present);
                }
            }
        }
        // Held packets may have another route now, or their neighbour is known.
        self.services.pending.release(|_| true);
    }

    /// Sets the link to which `port` is paced.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    pub fn set_link(&mut self, port: PortId, link: Link) {
        self.ports.link_mut(port).set_link(link);
    }

    /// Sets the longest link time of a run of several packets at `port`, ns. The default is 100 µs.
    /// A run of one packet may take longer.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    pub fn set_line_burst(&mut self, port: PortId, burst_ns: u64) {
        self.ports.link_mut(port).set_burst(burst_ns);
    }

    /// Restarts the steal-time sample after a voluntary sleep.
    pub(super) fn reset_steal_sample(&mut self) {
        self.worked = CpuTimeSample::capture(&self.clock);
    }

    /// Stops receiving.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether no port will receive packets any more.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.closed || self.ports.ended()
    }

    /// Takes the first failure of a port, if any.
    pub fn failure(&mut self) -> Option<PortError> {
        self.ports.failure()
    }

    /// Returns the counters of a port.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    #[must_use]
    pub fn counters(&self, port: PortId) -> PortCounters {
        self.ports.counters(port)
    }

    /// Returns a port.
    ///
    /// # Panics
    /// Panics if `port` is out of range.
    pub fn port_mut(&mut self, port: PortId) -> &mut P {
        self.ports.port_mut(port)
    }

    /// Returns the descriptors that signal arrivals at ports or from other cores; `None` if a port
    /// has none, or packets are held for neighbours.
    pub(super) fn arrivals(&self) -> Option<Vec<RawFd>> {
        if self.services.pending.has_packets() {
            return None;
        }
        let ports = self.ports.iter().enumerate();
        let here = ports.filter(|(port, _)| !self.remote_cores.owns(PortId(*port)));
        let arrivals = here.map(|(_, port)| port.arrivals()).collect::<Option<Vec<_>>>()?;
        Some(arrivals.into_iter().flatten().chain(self.remote_cores.wake_event()).collect())
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

    /// Returns the links to other cores.
    pub(super) fn remote_cores(&self) -> &RemoteCores {
        &self.remote_cores
    }

    /// Connects to other cores by `links`; reserves `buffers` buffers for their packets.
    pub(super) fn connect_cores(&mut self, links: InterCoreLinks, buffers: usize) {
        self.pool.reserve_remote(buffers);
        self.delays.share(&links.handshakes);
        self.remote_cores.connect(links);
    }

    /// Switches to the occupancy table of a reloaded file; reserves `buffers` buffers.
    pub(super) fn set_occupancy(&mut self, occupancy: &Arc<SharedOccupancy>, buffers: usize) {
        self.pool.reserve_remote(buffers);
        self.remote_cores.set_occupancy(occupancy);
    }

    /// Ensures that a buffer for packets from other cores is free.
    pub(super) fn grow_remote_buffers(&mut self) {
        self.pool.grow_remote();
    }

    /// Publishes the state of this core's ports to other cores.
    pub(super) fn publish_ports(&self) {
        self.remote_cores.publish_ports(self.ports.iter());
    }

    /// Takes packets from other cores into `into`, and sends waiting packets to other cores.
    pub(super) fn exchange(&mut self, into: &mut Vec<Arrived>) {
        let mut from_cores = std::mem::take(&mut self.from_cores);
        self.remote_cores.exchange(&mut self.pool, &mut from_cores);
        for (destination, packet) in from_cores.drain(..) {
            match destination {
                CrossCoreDestination::Queue(queue) => {
                    let refused = match queue {
                        QueueId::Output { output, .. } => !self.translate(output.into(), packet),
                        QueueId::Path(_) => false,
                    };
                    into.push(Arrived { queue, packet, refused });
                }
                CrossCoreDestination::Originate(port) => {
                    let frame = self.pool.frame(packet).to_vec();
                    self.pool.release(packet);
                    self.originate(port, &frame);
                }
                CrossCoreDestination::LearnNeighbour(port) => {
                    self.learn_remote_neighbour(port, packet);
                }
            }
        }
        self.from_cores = from_cores;
    }

    /// Learns the neighbour in a frame that a port of another core received. That core answers and
    /// counts the frame.
    fn learn_remote_neighbour(&mut self, input: PortId, packet: PacketHandle) {
        let (addresses, function) = (&self.addresses, &mut self.function);
        let mut network = Network { addresses, function, now_ns: self.now_ns };
        let frame = self.pool.frame(packet);
        let header = Header::parse_v6(frame).filter(|_| is_v6(frame));
        let to = header.and_then(|header| addresses.owner_v6(input, header.destination));
        let _ = self.services.receive(&mut network, input, frame, to);
        self.pool.release(packet);
    }

    /// Processes a packet for the router itself, or one that cannot be forwarded.
    #[cold]
    fn receive_local(&mut self, input: PortId, packet: PacketHandle, to: Option<LocalDestination>) {
        self.remote_cores.broadcast_neighbour(&mut self.pool, input, packet, self.now_ns);
        let (addresses, function) = (&self.addresses, &mut self.function);
        let mut network = Network { addresses, function, now_ns: self.now_ns };
        let received = self.services.receive(&mut network, input, self.pool.frame(packet), to);
        self.pool.release(packet);
        if received.is_for_router {
            self.ports.count_for_router(input);
        }
        if let Some(reply) = received.reply {
            self.originate(input, &reply);
        }
    }

    /// Sends a frame ahead of the queues. Drops it if no buffer is free or the device is full.
    fn originate(&mut self, output: PortId, frame: &[u8]) {
        if self.remote_cores.owns(output) {
            return self.remote_cores.originate(&mut self.pool, output, frame);
        }
        let Some(packet) = self.pool.copy(frame) else { return };
        let frame = self.pool.frame_mut(packet);
        self.nats.translate_own_error(&self.addresses, output, frame);
        self.ports.originate(output, &mut self.pool, packet);
    }

    /// Sends a request for a neighbour's hardware address.
    #[cold]
    fn solicit(&mut self, neighbour: NeighbourKey) {
        if let Some(request) = self.addresses.solicitation(neighbour) {
            self.originate(neighbour.0, &request);
        }
    }

    /// Translates an IPv4 packet that leaves by `output`; returns false if NAT refuses it. The core
    /// of a remote port translates or refuses it instead.
    #[inline]
    fn translate(&mut self, output: PortId, packet: PacketHandle) -> bool {
        let (nats, pool) = (&mut self.nats, &mut self.pool);
        self.remote_cores.owns(output)
            || nats.translate(&self.addresses, output, pool, packet, self.now_ns)
    }

    /// Holds a packet for its neighbour, or drops it with an ICMP error.
    #[cold]
    fn hold_or_drop(&mut self, path: PathId, packet: PacketHandle, why: ForwardError) -> Verdict {
        match why {
            ForwardError::Unresolved(neighbour)
                if self.services.pending.hold(neighbour, path, packet) =>
            {
                return Verdict::Hold;
            }
            ForwardError::Icmp(why) => self.send_icmp_error(packet, why),
            ForwardError::Unresolved(_)
            | ForwardError::NeighbourTableFull
            | ForwardError::Malformed => {}
        }
        Verdict::Drop
    }

    /// Drops a packet that exceeds the MTU of `output`, with an ICMP error.
    #[cold]
    fn drop_oversized(&mut self, path: PathId, packet: PacketHandle, output: PortId) -> Verdict {
        let mtu = self.ports.longest_bytes(output).saturating_sub(ETHERNET_BYTES);
        self.hold_or_drop(path, packet, ForwardError::Icmp(IcmpError::TooBig(mtu)))
    }

    /// Sends an ICMP error about a packet, within the rate limit.
    #[cold]
    fn send_icmp_error(&mut self, packet: PacketHandle, why: IcmpError) {
        let (addresses, function) = (&self.addresses, &mut self.function);
        let mut network = Network { addresses, function, now_ns: self.now_ns };
        let mut solicit = None;
        let frame = self.pool.frame(packet);
        let error = self.services.icmp_error(&mut network, frame, why, &mut solicit);
        if let Some((output, error)) = error {
            self.originate(output, &error);
        }
        if let Some(neighbour) = solicit {
            self.solicit(neighbour);
        }
    }

    /// Appends the segments that the proxy of `path` sends.
    #[cold]
    fn make_proxied(&mut self, path: PathId, most: usize, into: &mut Vec<(Verdict, PacketHandle)>) {
        let mut made = std::mem::take(&mut self.made);
        let mut context =
            ConnectionContext { function: &mut self.function, addresses: &self.addresses };
        let room = (&mut self.pool, most);
        self.proxies.make(path, room, &mut context, self.now_ns, &mut made);
        for packet in made.drain(..) {
            self.note_received(None, &[(path, packet)]);
            into.push((self.route_made(path, packet), packet));
        }
        self.made = made;
    }

    /// Routes a packet that a proxy made; drops it silently without a route.
    fn route_made(&mut self, path: PathId, packet: PacketHandle) -> Verdict {
        let mut solicit = None;
        let frame = self.pool.frame_mut(packet);
        let sent = self.function.forward_at(frame, self.now_ns, &mut solicit);
        if let Some(neighbour) = solicit {
            self.solicit(neighbour);
        }
        match sent {
            Ok(output) if !self.translate(output, packet) => Verdict::Drop,
            Ok(output) => Verdict::Send(output.into()),
            Err(ForwardError::Unresolved(neighbour))
                if self.services.pending.hold(neighbour, path, packet) =>
            {
                Verdict::Hold
            }
            Err(_) => Verdict::Drop,
        }
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
    fn receive(
        &mut self,
        input: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize {
        if self.closed {
            return 0;
        }
        let port = PortId::from(input);
        let before = into.len();
        let mut received = std::mem::take(&mut self.received);
        let count = self.ports.receive(port, &mut self.pool, most, &mut received);
        let mac = self.addresses[port].mac;
        for packet in received.drain(..) {
            let flow = FlowKey::parse(self.pool.frame(packet), Pool::tag(packet), port, mac);
            let destination = match flow.and_then(|flow| self.flows.get(flow)) {
                Some(path) => Destination::Path(path),
                None => self.destination(port, mac, packet, flow),
            };
            match destination {
                Destination::Path(path) => into.push((path, packet)),
                Destination::Local(owner) => self.receive_local(port, packet, owner),
                Destination::Drop => self.pool.release(packet),
            }
        }
        self.received = received;
        self.note_received(Some(port), &into[before..]);
        count
    }

    #[inline]
    fn backlog(&self, input: InputId) -> usize {
        self.ports.backlog(input.into())
    }

    #[inline]
    fn forward(&mut self, path: PathId, packet: &mut PacketHandle) -> Verdict {
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
        let mut solicit = None;
        let frame = self.pool.frame_mut(*packet);
        let sent = self.function.forward_at(frame, self.now_ns, &mut solicit);
        if let Some(solicit) = solicit {
            self.solicit(solicit);
        }
        match sent {
            Ok(output) if Pool::length(*packet) > self.ports.longest_bytes(output) => {
                self.drop_oversized(path, *packet, output)
            }
            Ok(output) if !self.translate(output, *packet) => Verdict::Drop,
            Ok(output) => {
                Verdict::Send(self.ingress.first_output(&mut self.pool, *packet, output.into()))
            }
            Err(why) => self.hold_or_drop(path, *packet, why),
        }
    }

    #[inline]
    fn bytes(&self, packet: PacketHandle) -> u32 {
        Pool::length(packet)
    }

    #[inline]
    fn room(&mut self, output: OutputId, now_ns: u64) -> usize {
        self.ports.room(output.into(), now_ns, &self.clock)
    }

    fn room_at_ns(&mut self, output: OutputId, now_ns: u64) -> u64 {
        self.ports.link(output.into()).room_at_ns(now_ns)
    }

    #[inline]
    fn transmit(&mut self, output: OutputId, packets: &[PacketHandle]) -> usize {
        let port = output.into();
        // Before the device takes them, since it may send and reuse their buffers.
        self.line_rates.left(port, &self.pool, packets, self.now_ns);
        let (taken, now_ns) = self.ports.transmit(port, &mut self.pool, packets, &self.clock);
        if !self.ingress.contains(output) {
            self.delays.sent(&self.pool, &packets[..taken], now_ns);
        }
        taken
    }

    #[inline]
    fn discard(&mut self, packet: PacketHandle) {
        self.pool.release(packet);
    }
}

impl<P: Port> Accounting for LiveMachine<P> {
    #[cold]
    fn steal_ns(&mut self, took_ns: u64) -> u64 {
        self.worked.take_steal_ns(&self.clock, self.now_ns, took_ns)
    }
}

impl<P: Port> Deferral for LiveMachine<P> {
    #[inline]
    fn give_back(&mut self, all: bool, into: &mut Vec<(PathId, PacketHandle)>) {
        if all {
            self.services.pending.release(|_| true);
        } else if self.services.solicitations_are_due(self.now_ns) {
            let services = &mut self.services;
            for neighbour in services.retry_solicitations(&mut self.function, self.now_ns) {
                self.solicit(neighbour);
            }
        }
        self.services.pending.take(into);
    }

    #[inline]
    fn due_ns(&self, path: PathId) -> u64 {
        self.proxies.due_ns(path)
    }

    #[inline]
    fn make(&mut self, path: PathId, most: usize, into: &mut Vec<(Verdict, PacketHandle)>) {
        if self.proxies.due_ns(path) <= self.now_ns {
            self.make_proxied(path, most, into);
        }
    }
}

impl<P: Port> PacedLinks for LiveMachine<P> {
    #[inline]
    fn run_room(
        &self,
        output: OutputId,
        now_ns: u64,
        given: (usize, u64),
        longest_bytes: u32,
        most: usize,
    ) -> usize {
        self.ports.link(output.into()).run_room(now_ns, given, longest_bytes, most)
    }

    #[inline]
    fn wire_bytes(&self, output: OutputId, bytes: u32) -> u64 {
        self.ports.link(output.into()).wire_bytes(bytes)
    }

    #[inline]
    fn idle_ns(&self, output: OutputId, now_ns: u64) -> u64 {
        self.ports.link(output.into()).idle_ns(now_ns)
    }

    #[inline]
    fn next_output(&self, packet: PacketHandle) -> OutputId {
        IngressLinks::next_output(&self.pool, packet)
    }
}

impl<P: Port> Flows for LiveMachine<P> {
    #[inline]
    fn flow(&self, packet: PacketHandle) -> Flow {
        let FlowHashes { flow: hash, host } = self.pool.flow(packet);
        Flow { hash, host, ecn: ecn(self.pool.frame(packet)) }
    }

    fn mark(&mut self, packet: PacketHandle) {
        set_congested(self.pool.frame_mut(packet));
    }
}

impl<P: Port> MultiCore for LiveMachine<P> {
    #[inline]
    fn waiting_remote(&self, queue: QueueId) -> usize {
        self.remote_cores.waiting(queue)
    }

    #[inline]
    fn hand_over(&mut self, queue: QueueId, packet: PacketHandle) {
        self.remote_cores.hand_over(&mut self.pool, queue, packet);
    }

    #[inline]
    fn left_queue(&mut self, path: PathId, packets: &mut [PacketHandle]) {
        self.remote_cores.left_path(path, packets);
    }

    #[inline]
    fn left_output(&self, path: PathId, output: OutputId) {
        self.remote_cores.left_output(path, output);
    }
}
