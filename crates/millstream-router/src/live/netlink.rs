//! The kernel's routes, neighbours and addresses, read over rtnetlink and followed as they change.
//!
//! [`follow`] reads the tables once; then its own thread receives every change. Both reach the
//! router as [`Change`]s through [`Control`]. Only the main table and the ports' interfaces count.
//! Among routes with one prefix, the lowest metric counts. Routes by other interfaces, and routes
//! that are not unicast, become [`NextHopKind::Nowhere`]: a shorter prefix must not take their
//! packets.
//!
//! The kernel does not announce routes that vanish with a link or an address. After such a change,
//! and after lost messages, the tables are read again. Source: RFC 3549.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::net::if_::if_nametoindex;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::ids::PortId;
use crate::live::control::Control;

/// The multicast groups of links, neighbours, and IPv4 and IPv6 addresses and routes (RTMGRP_… of
/// linux/rtnetlink.h).
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x100 | 0x400;
/// The address families that the router forwards.
const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];
/// The longest message that is read, bytes; the kernel's are at most half as long.
const MESSAGE_BYTES: usize = 65_536;
/// The most changes that the router has not taken yet; with more, the thread stops reading.
const PENDING: usize = 65_536;
/// The delay before the tables are read again: links and addresses change in bursts.
const SETTLE: Duration = Duration::from_millis(20);
/// The length of a message header, bytes.
const HEADER: usize = 16;

/// The next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHopKind {
    /// A port, and the gateway; without a gateway the destination itself is the next hop.
    Port(PortId, Option<IpAddr>),
    /// None of the router's ports: its packets are dropped.
    Nowhere,
}

/// A change of the kernel's tables; `None` means removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A route.
    Route(IpNet, Option<NextHopKind>),
    /// The hardware address of a neighbour at a port.
    Neighbour(PortId, IpAddr, Option<[u8; 6]>),
    /// The kernel's own IPv4 address at a port, with its prefix length.
    Address(PortId, Option<Ipv4Net>),
    /// An IPv6 address of the kernel at a port, and whether the kernel has it.
    AddressV6(PortId, Ipv6Net, bool),
}

/// The kernel's tables, as far as they concern the router.
#[derive(Debug, Default)]
struct Tables {
    /// The ports by interface index.
    ports: HashMap<u32, PortId>,
    /// The metric and next hop of each route, by prefix.
    routes: HashMap<IpNet, Vec<(u32, NextHopKind)>>,
    neighbours: HashMap<(PortId, IpAddr), [u8; 6]>,
    addresses: HashMap<PortId, Ipv4Net>,
    addresses_v6: HashSet<(PortId, Ipv6Net)>,
}

impl Tables {
    fn best(&self, prefix: IpNet) -> Option<NextHopKind> {
        let routes = self.routes.get(&prefix)?;
        routes.iter().min_by_key(|(metric, _)| *metric).map(|(_, next)| *next)
    }

    /// Applies a message; returns the resulting change, if any.
    fn apply(&mut self, message: &Message, replaces: bool) -> Option<Change> {
        match message {
            Message::NewRoute(route) => self.route(route, true, replaces),
            Message::DelRoute(route) => self.route(route, false, false),
            Message::NewNeighbour(neighbour) => self.neighbour(neighbour, true),
            Message::DelNeighbour(neighbour) => self.neighbour(neighbour, false),
            Message::NewAddress(address) => self.address(address),
            _ => None,
        }
    }

    fn route(&mut self, message: &RouteMessage, there: bool, replaces: bool) -> Option<Change> {
        let header = &message.header;
        let mut table = u32::from(header.table);
        let (mut destination, mut metric) = (None, 0);
        let (mut gateway, mut interface) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Table(is) => table = *is,
                RouteAttribute::Destination(is) => destination = Some(ip(is)?),
                RouteAttribute::Priority(is) => metric = *is,
                RouteAttribute::Gateway(is) => gateway = ip(is),
                RouteAttribute::Oif(is) => interface = Some(*is),
                // A multipath route: its first next hop counts.
                RouteAttribute::MultiPath(hops) => {
                    let first = hops.first()?;
                    interface = Some(first.interface_index);
                    gateway = first.attributes.iter().find_map(|attribute| match attribute {
                        RouteAttribute::Gateway(is) => ip(is),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        let any: IpAddr = match header.address_family {
            AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
            AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => return None,
        };
        let destination = destination.unwrap_or(any);
        let ours = destination.is_ipv4() == any.is_ipv4()
            && table == u32::from(RouteHeader::RT_TABLE_MAIN)
            && header.tos == 0;
        if !ours {
            return None;
        }
        let prefix = IpNet::new(destination, header.destination_prefix_length).ok()?.trunc();
        let port = interface.and_then(|index| self.ports.get(&index));
        let next = match port {
            Some(port) if header.kind == RouteType::Unicast => NextHopKind::Port(*port, gateway),
            _ => NextHopKind::Nowhere,
        };
        let before = self.best(prefix);
        let routes = self.routes.entry(prefix).or_default();
        if there {
            routes.retain(|known| *known != (metric, next) && !(replaces && known.0 == metric));
            routes.push((metric, next));
        } else if let Some(at) = routes.iter().position(|known| *known == (metric, next)) {
            routes.remove(at);
        }
        if routes.is_empty() {
            self.routes.remove(&prefix);
        }
        let after = self.best(prefix);
        (before != after).then_some(Change::Route(prefix, after))
    }

    fn neighbour(&mut self, message: &NeighbourMessage, there: bool) -> Option<Change> {
        let port = *self.ports.get(&message.header.ifindex)?;
        let (mut address, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(is)) => {
                    address = Some(IpAddr::V4(*is));
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(is)) => {
                    address = Some(IpAddr::V6(*is));
                }
                NeighbourAttribute::LinkLayerAddress(is) => {
                    mac = <[u8; 6]>::try_from(is.as_slice()).ok();
                }
                _ => {}
            }
        }
        let known = matches!(
            message.header.state,
            NeighbourState::Reachable
                | NeighbourState::Stale
                | NeighbourState::Delay
                | NeighbourState::Probe
                | NeighbourState::Permanent
        );
        let (key, mac) = ((port, address?), mac.filter(|_| there && known));
        let before = match mac {
            Some(mac) => self.neighbours.insert(key, mac),
            None => self.neighbours.remove(&key),
        };
        (before != mac).then_some(Change::Neighbour(key.0, key.1, mac))
    }

    /// Returns the change of the first primary IPv4 address of a port, or of any IPv6 address.
    fn address(&mut self, message: &AddressMessage) -> Option<Change> {
        let port = *self.ports.get(&message.header.index)?;
        let unsure = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
        if message.header.family == AddressFamily::Inet6 {
            let is_v6 = |attribute: &AddressAttribute| match attribute {
                AddressAttribute::Local(IpAddr::V6(is))
                | AddressAttribute::Address(IpAddr::V6(is)) => Some(*is),
                _ => None,
            };
            // On a point-to-point link, the local attribute is the kernel's address.
            let local = |of: &&AddressAttribute| matches!(of, AddressAttribute::Local(_));
            let (first, then) = (message.attributes.iter().find(local), &message.attributes);
            let address = first.into_iter().chain(then).find_map(is_v6);
            let net = Ipv6Net::new(address?, message.header.prefix_len).ok()?;
            let is_new =
                !message.header.flags.intersects(unsure) && self.addresses_v6.insert((port, net));
            return is_new.then_some(Change::AddressV6(port, net, true));
        }
        let address = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(IpAddr::V4(is)) => Some(*is),
            _ => None,
        });
        let net = Ipv4Net::new(address?, message.header.prefix_len).ok()?;
        let first = !message.header.flags.contains(AddressHeaderFlags::Secondary)
            && !self.addresses.contains_key(&port);
        first.then(|| {
            self.addresses.insert(port, net);
            Change::Address(port, Some(net))
        })
    }

    /// Returns the changes that lead from these tables to `new`.
    fn differences(&self, new: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for prefix in union(&self.routes, &new.routes) {
            let now = new.best(prefix);
            if self.best(prefix) != now {
                changes.push(Change::Route(prefix, now));
            }
        }
        for key in union(&self.neighbours, &new.neighbours) {
            let now = new.neighbours.get(&key).copied();
            if self.neighbours.get(&key).copied() != now {
                changes.push(Change::Neighbour(key.0, key.1, now));
            }
        }
        for port in union(&self.addresses, &new.addresses) {
            let now = new.addresses.get(&port).copied();
            if self.addresses.get(&port).copied() != now {
                changes.push(Change::Address(port, now));
            }
        }
        let (removed, added) =
            (&self.addresses_v6 - &new.addresses_v6, &new.addresses_v6 - &self.addresses_v6);
        changes.extend(removed.iter().map(|(port, net)| Change::AddressV6(*port, *net, false)));
        changes.extend(added.iter().map(|(port, net)| Change::AddressV6(*port, *net, true)));
        changes
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(is) => Some(IpAddr::V4(*is)),
        RouteAddress::Inet6(is) => Some(IpAddr::V6(*is)),
        _ => None,
    }
}

fn union<K: Copy + Eq + Hash, V>(one: &HashMap<K, V>, other: &HashMap<K, V>) -> HashSet<K> {
    one.keys().chain(other.keys()).copied().collect()
}

/// Calls `each` with every message of `bytes`; returns false at a truncated message.
fn parse(bytes: &[u8], mut each: impl FnMut(NetlinkMessage<Message>)) -> bool {
    let mut rest = bytes;
    while let Some(length) = rest.first_chunk::<4>() {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(message) = rest.get(..length).filter(|_| length >= HEADER) else { return false };
        // Skips messages that the library cannot parse: the router needs none of them.
        if let Ok(message) = NetlinkMessage::deserialize(message) {
            each(message);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// Reads one of the kernel's tables.
fn dump(request: Message, mut each: impl FnMut(&Message)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
    let mut buffer = vec![0; MESSAGE_BYTES];
    let mut ended = None;
    while ended.is_none() {
        let length = socket.recv(&mut &mut buffer[..], 0)?;
        parse(&buffer[..length], |message| match message.payload {
            NetlinkPayload::InnerMessage(inner) => each(&inner),
            NetlinkPayload::Done(_) => ended = Some(Ok(())),
            NetlinkPayload::Error(error) => ended = Some(Err(error.to_io())),
            _ => {}
        });
    }
    ended.unwrap_or(Ok(()))
}

/// Reads the kernel's tables for a router whose ports have these interfaces.
fn read(interfaces: &[(String, PortId)]) -> io::Result<Tables> {
    // An interface that is away has no index and no routes.
    let ports = interfaces
        .iter()
        .filter_map(|(name, port)| Some((if_nametoindex(name.as_str()).ok()?, *port)));
    let mut tables = Tables { ports: ports.collect(), ..Tables::default() };
    for family in FAMILIES {
        let mut addresses = AddressMessage::default();
        addresses.header.family = family;
        let mut routes = RouteMessage::default();
        routes.header.address_family = family;
        let mut neighbours = NeighbourMessage::default();
        neighbours.header.family = family;
        for request in [
            Message::GetAddress(addresses),
            Message::GetRoute(routes),
            Message::GetNeighbour(neighbours),
        ] {
            dump(request, |message| {
                tables.apply(message, false);
            })?;
        }
    }
    Ok(tables)
}

/// Sends the kernel's tables, and then their changes, to `control`. `interfaces` has the interface
/// and number of each port.
///
/// # Errors
/// Fails if the kernel's tables cannot be read, or the thread cannot be started.
pub(crate) fn follow(interfaces: Vec<(String, PortId)>, control: &Arc<Control>) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    // Subscribes before it reads the tables: no change is missed.
    socket.bind(&SocketAddr::new(0, GROUPS))?;
    let tables = read(&interfaces)?;
    let changes = Tables::default().differences(&tables);
    log::info!(
        routes = tables.routes.len(), neighbours = tables.neighbours.len();
        "following the kernel's routes and neighbours"
    );
    control.kernel_changed(changes);
    let control = Arc::downgrade(control);
    let listen = move || listen(&socket, &interfaces, tables, &control);
    thread::Builder::new().name("kernel".into()).spawn(listen)?;
    Ok(())
}

/// Waits for changes until the router has ended.
fn listen(
    socket: &Socket,
    interfaces: &[(String, PortId)],
    mut tables: Tables,
    control: &Weak<Control>,
) {
    let mut buffer = vec![0; MESSAGE_BYTES];
    loop {
        let mut changes = Vec::new();
        // An error means that messages were lost.
        let mut again = true;
        if let Ok(length) = socket.recv(&mut &mut buffer[..], 0) {
            let mut stale = false;
            let whole = parse(&buffer[..length], |message| {
                let replaces = message.header.flags & NLM_F_REPLACE != 0;
                if let NetlinkPayload::InnerMessage(inner) = message.payload {
                    changes.extend(tables.apply(&inner, replaces));
                    stale |= match &inner {
                        Message::NewLink(link) | Message::DelLink(link) => {
                            // A new link may be the interface of a port that is away.
                            tables.ports.contains_key(&link.header.index)
                                || tables.ports.len() < interfaces.len()
                        }
                        Message::DelAddress(_) => true,
                        _ => false,
                    };
                }
            });
            again = stale || !whole;
        }
        let Some(control) = control.upgrade() else { return };
        if again {
            thread::sleep(SETTLE);
            match read(interfaces) {
                Ok(new) => {
                    changes.extend(tables.differences(&new));
                    tables = new;
                }
                Err(error) => log::error!("the kernel's tables cannot be read: {error}"),
            }
        }
        control.kernel_changed(changes);
        while control.changes_pending() > PENDING {
            thread::sleep(SETTLE);
        }
    }
}

pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
