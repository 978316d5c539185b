//! The kernel's routes, neighbours and addresses, read by rtnetlink and followed as they change.
//!
//! [`follow`] reads the tables once, and then a thread of its own hears of every change. The router is
//! told of both as [`Change`]s, by [`Control`]. Only the main table counts, and only what lies at an interface
//! of a port; of routes with the same prefix the one with the least metric. A route that leads elsewhere, or
//! that forbids, stands as [`Way::Nowhere`]: a shorter prefix must not take its packets.
//!
//! The kernel does not say which routes went with a link or an address. After such a change, and when
//! messages were lost, all is read again and the differences are told. Source: RFC 3549.

use ipnet::Ipv4Net;
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
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use tappers::Interface;

use crate::live::control::Control;

/// Links, neighbours, IPv4 addresses and IPv4 routes (RTMGRP_… of linux/rtnetlink.h).
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40;
/// The longest message that is read, bytes; the kernel's are at most half as long.
const MESSAGE_BYTES: usize = 65_536;
/// Changes that the router has not taken yet; with more, the kernel has to wait.
const PENDING: usize = 65_536;
/// How long links and addresses are left to settle before all is read again.
const SETTLE: Duration = Duration::from_millis(20);
/// What precedes every message, bytes.
const HEADER: usize = 16;

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Out by a port, to this gateway or to the destination itself.
    Port(usize, Option<Ipv4Addr>),
    /// By none of the router's ports.
    Nowhere,
}

/// Something is different now; `None` where there is nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A route.
    Route(Ipv4Net, Option<Way>),
    /// The hardware address of a neighbour at a port.
    Neighbour(usize, Ipv4Addr, Option<[u8; 6]>),
    /// The kernel's own address at a port, with its network's length.
    Address(usize, Option<Ipv4Net>),
}

/// What the kernel knows that concerns the router.
#[derive(Debug, Default)]
struct Tables {
    /// Ports by the index of their interface.
    ports: HashMap<u32, usize>,
    /// Routes by metric.
    routes: HashMap<Ipv4Net, Vec<(u32, Way)>>,
    neighbours: HashMap<(usize, Ipv4Addr), [u8; 6]>,
    addresses: HashMap<usize, Ipv4Net>,
}

impl Tables {
    fn best(&self, prefix: Ipv4Net) -> Option<Way> {
        let routes = self.routes.get(&prefix)?;
        routes.iter().min_by_key(|(metric, _)| *metric).map(|(_, way)| *way)
    }

    /// Takes a message in; returns what is different now.
    fn hear(&mut self, message: &Message, replaces: bool) -> Option<Change> {
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
        let (mut destination, mut metric) = (Ipv4Addr::UNSPECIFIED, 0);
        let (mut gateway, mut interface) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Table(is) => table = *is,
                RouteAttribute::Destination(RouteAddress::Inet(is)) => destination = *is,
                RouteAttribute::Priority(is) => metric = *is,
                RouteAttribute::Gateway(RouteAddress::Inet(is)) => gateway = Some(*is),
                RouteAttribute::Oif(is) => interface = Some(*is),
                // Of several ways the first.
                RouteAttribute::MultiPath(ways) => {
                    let first = ways.first()?;
                    interface = Some(first.interface_index);
                    gateway = first.attributes.iter().find_map(|attribute| match attribute {
                        RouteAttribute::Gateway(RouteAddress::Inet(is)) => Some(*is),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        let ours = header.address_family == AddressFamily::Inet
            && table == u32::from(RouteHeader::RT_TABLE_MAIN)
            && header.tos == 0;
        if !ours {
            return None;
        }
        let prefix = Ipv4Net::new(destination, header.destination_prefix_length).ok()?.trunc();
        let port = interface.and_then(|index| self.ports.get(&index));
        let way = match port {
            Some(port) if header.kind == RouteType::Unicast => Way::Port(*port, gateway),
            _ => Way::Nowhere,
        };
        let before = self.best(prefix);
        let routes = self.routes.entry(prefix).or_default();
        if there {
            routes.retain(|known| *known != (metric, way) && !(replaces && known.0 == metric));
            routes.push((metric, way));
        } else if let Some(at) = routes.iter().position(|known| *known == (metric, way)) {
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
                NeighbourAttribute::Destination(NeighbourAddress::Inet(is)) => address = Some(*is),
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

    /// The first address of a port that is not a second one of its network.
    fn address(&mut self, message: &AddressMessage) -> Option<Change> {
        let port = *self.ports.get(&message.header.index)?;
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

    /// What `new` has that these tables have not, or have otherwise.
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
        changes
    }
}

fn union<K: Copy + Eq + Hash, V>(one: &HashMap<K, V>, other: &HashMap<K, V>) -> HashSet<K> {
    one.keys().chain(other.keys()).copied().collect()
}

/// Calls `each` with every message of `bytes`; returns whether all could be read.
fn parse(bytes: &[u8], mut each: impl FnMut(NetlinkMessage<Message>)) -> bool {
    let mut rest = bytes;
    while let Some(length) = rest.first_chunk::<4>() {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(message) = rest.get(..length).filter(|_| length >= HEADER) else { return false };
        // What this library cannot read concerns other things.
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

/// Reads all that concerns the router, whose ports have these interfaces.
fn read(interfaces: &[(String, usize)]) -> io::Result<Tables> {
    let index = |name: &String| Interface::new(name).and_then(|interface| interface.index());
    // One that is away has no index, and no routes.
    let ports = interfaces.iter().filter_map(|(name, port)| Some((index(name).ok()?, *port)));
    let mut tables = Tables { ports: ports.collect(), ..Tables::default() };
    let mut addresses = AddressMessage::default();
    addresses.header.family = AddressFamily::Inet;
    let mut routes = RouteMessage::default();
    routes.header.address_family = AddressFamily::Inet;
    let mut neighbours = NeighbourMessage::default();
    neighbours.header.family = AddressFamily::Inet;
    for request in [
        Message::GetAddress(addresses),
        Message::GetRoute(routes),
        Message::GetNeighbour(neighbours),
    ] {
        dump(request, |message| {
            tables.hear(message, false);
        })?;
    }
    Ok(tables)
}

/// Tells `control` what the kernel's tables hold, and from now on what changes in them. `interfaces` are
/// those of ports, by number.
///
/// # Errors
/// If the kernel's tables cannot be read.
pub(super) fn follow(interfaces: Vec<(String, usize)>, control: &Arc<Control>) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    // Before the tables are read, so that no change is missed.
    socket.bind(&SocketAddr::new(0, GROUPS))?;
    let tables = read(&interfaces)?;
    let changes = Tables::default().differences(&tables);
    log::info!(
        routes = tables.routes.len(), neighbours = tables.neighbours.len();
        "the kernel's routes and neighbours are followed"
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
    interfaces: &[(String, usize)],
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
                    changes.extend(tables.hear(&inner, replaces));
                    stale |= match &inner {
                        Message::NewLink(link) | Message::DelLink(link) => {
                            // One that has come may be a port's.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Tables {
        Tables { ports: HashMap::from([(7, 0), (8, 1)]), ..Tables::default() }
    }

    fn route(interface: u32, gateway: Option<[u8; 4]>, metric: u32) -> RouteMessage {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.kind = RouteType::Unicast;
        route.header.destination_prefix_length = 16;
        let destination = RouteAddress::Inet(Ipv4Addr::new(10, 2, 0, 0));
        route.attributes = vec![
            RouteAttribute::Destination(destination),
            RouteAttribute::Oif(interface),
            RouteAttribute::Priority(metric),
        ];
        let gateway = gateway.map(|is| RouteAttribute::Gateway(RouteAddress::Inet(is.into())));
        route.attributes.extend(gateway);
        route
    }

    fn net() -> Ipv4Net {
        "10.2.0.0/16".parse().unwrap()
    }

    #[test]
    fn the_route_of_the_least_metric_counts_and_only_what_differs_is_told() {
        let mut tables = tables();
        let told = |way| Some(Change::Route(net(), way));
        let (far, near) = (route(7, Some([10, 0, 0, 9]), 100), route(8, None, 10));
        let by_far = Some(Way::Port(0, Some([10, 0, 0, 9].into())));
        let by_near = Some(Way::Port(1, None));
        assert_eq!(tables.hear(&Message::NewRoute(far.clone()), false), told(by_far));
        assert_eq!(tables.hear(&Message::NewRoute(near.clone()), false), told(by_near));
        assert_eq!(tables.hear(&Message::DelRoute(far.clone()), false), None);
        assert_eq!(tables.hear(&Message::NewRoute(far), false), None);
        assert_eq!(tables.hear(&Message::DelRoute(near), false), told(by_far));
        // By an interface that is no port.
        let elsewhere = route(99, None, 100);
        let nowhere = Some(Way::Nowhere);
        assert_eq!(tables.hear(&Message::NewRoute(elsewhere.clone()), true), told(nowhere));
        assert_eq!(tables.hear(&Message::DelRoute(elsewhere), false), told(None));
        assert!(tables.routes.is_empty());
    }

    #[test]
    fn other_tables_and_forbidding_routes_lead_nowhere() {
        let mut tables = tables();
        let mut other = route(7, None, 0);
        other.attributes.push(RouteAttribute::Table(1_000));
        assert_eq!(tables.hear(&Message::NewRoute(other), false), None);
        let mut hole = route(7, None, 0);
        hole.header.kind = RouteType::BlackHole;
        let told = Some(Change::Route(net(), Some(Way::Nowhere)));
        assert_eq!(tables.hear(&Message::NewRoute(hole), false), told);
    }

    #[test]
    fn a_neighbour_counts_while_the_kernel_believes_in_it() {
        let mut tables = tables();
        let address = Ipv4Addr::new(10, 0, 0, 9);
        let mut hear = |interface, state, mac: &[u8]| {
            let mut of = NeighbourMessage::default();
            (of.header.ifindex, of.header.state) = (interface, state);
            of.attributes = vec![
                NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
                NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
            ];
            tables.hear(&Message::NewNeighbour(of), false)
        };
        let told = |mac| Some(Change::Neighbour(1, address, mac));
        assert_eq!(hear(9, NeighbourState::Reachable, &[2; 6]), None, "at no port");
        assert_eq!(hear(8, NeighbourState::Reachable, &[2; 6]), told(Some([2; 6])));
        assert_eq!(hear(8, NeighbourState::Stale, &[2; 6]), None);
        assert_eq!(hear(8, NeighbourState::Stale, &[3; 6]), told(Some([3; 6])));
        assert_eq!(hear(8, NeighbourState::Failed, &[3; 6]), told(None));
        assert_eq!(hear(8, NeighbourState::Reachable, &[3; 8]), None, "no Ethernet address");
    }

    #[test]
    fn what_is_read_again_is_told_as_differences() {
        let (mut old, mut new) = (tables(), tables());
        old.hear(&Message::NewRoute(route(7, None, 0)), false);
        old.addresses.insert(0, net());
        new.neighbours.insert((1, [1; 4].into()), [1; 6]);
        let mut changes = old.differences(&new);
        changes.sort_by_key(|change| format!("{change:?}"));
        let expected = [
            Change::Address(0, None),
            Change::Neighbour(1, [1; 4].into(), Some([1; 6])),
            Change::Route(net(), None),
        ];
        assert_eq!(changes, expected);
        assert_eq!(new.differences(&new), []);
    }

    #[test]
    fn what_is_cut_off_is_noticed() {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let payload = NetlinkPayload::InnerMessage(Message::NewRoute(route(7, None, 0)));
        let mut message = NetlinkMessage::new(header, payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let twice = [&bytes[..], &bytes].concat();
        let mut count = 0;
        assert!(parse(&twice, |_| count += 1));
        assert_eq!(count, 2);
        for length in 4..bytes.len() {
            assert!(!parse(&bytes[..length], |_| ()), "{length}");
        }
        assert!(!parse(&[0; 64], |_| ()));
    }
}
