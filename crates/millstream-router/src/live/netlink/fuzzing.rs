//! Entry points for fuzz targets: rtnetlink messages as a socket may deliver them.

use std::collections::BTreeMap;

use super::*;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::RouteNextHop;

/// Returns the state that results from these changes, as text by key.
fn model(changes: &[Change]) -> BTreeMap<String, String> {
    let mut model = BTreeMap::new();
    for change in changes {
        let (key, value) = match change {
            Change::Route(prefix, next) => {
                (format!("route {prefix}"), next.map(|is| format!("{is:?}")))
            }
            Change::Neighbour(port, address, mac) => {
                (format!("neighbour {port} {address}"), mac.map(|is| format!("{is:?}")))
            }
            Change::Address(port, net) => (format!("address {port}"), net.map(|is| is.to_string())),
            Change::AddressV6(port, net, there) => {
                (format!("address {port} {net}"), there.then(String::new))
            }
        };
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
    model
}

/// Parses bytes of a socket for a router with interfaces 7 and 8. Returns the number of messages
/// about links, addresses, neighbours or routes.
///
/// # Panics
/// Panics if the reported changes do not lead to the resulting tables.
#[must_use]
pub fn rtnetlink(bytes: &[u8]) -> usize {
    let mut tables =
        Tables { ports: HashMap::from([(7, PortId(0)), (8, PortId(1))]), ..Tables::default() };
    let (mut changes, mut messages) = (Vec::new(), 0);
    parse(bytes, |message| {
        let replaces = message.header.flags & NLM_F_REPLACE != 0;
        if let NetlinkPayload::InnerMessage(inner) = message.payload {
            messages += 1;
            changes.extend(tables.apply(&inner, replaces));
        }
    });
    let there = Tables::default().differences(&tables);
    assert_eq!(model(&changes), model(&there));
    assert!(tables.differences(&tables).is_empty());
    messages
}

/// Returns messages of each kind that the router listens to.
#[must_use]
pub fn rtnetlink_messages() -> Vec<Vec<u8>> {
    let six = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    let route = |family: AddressFamily, length: u8, attributes: Vec<RouteAttribute>| {
        let mut route = RouteMessage::default();
        route.header.address_family = family;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.kind = RouteType::Unicast;
        route.header.destination_prefix_length = length;
        route.attributes = attributes;
        route
    };
    let inet = |a, b, c, d| RouteAddress::Inet(Ipv4Addr::new(a, b, c, d));
    let plain = route(
        AddressFamily::Inet,
        16,
        vec![
            RouteAttribute::Table(254),
            RouteAttribute::Destination(inet(10, 2, 0, 0)),
            RouteAttribute::Priority(100),
            RouteAttribute::Gateway(inet(10, 0, 0, 9)),
            RouteAttribute::Oif(7),
        ],
    );
    let mut hop = RouteNextHop::default();
    hop.interface_index = 8;
    hop.attributes = vec![RouteAttribute::Gateway(inet(10, 1, 0, 9))];
    let several =
        route(AddressFamily::Inet, 0, vec![RouteAttribute::MultiPath(vec![hop.clone(), hop])]);
    let v6 = route(
        AddressFamily::Inet6,
        64,
        vec![
            RouteAttribute::Destination(RouteAddress::Inet6(six(0))),
            RouteAttribute::Oif(8),
            RouteAttribute::Priority(1_024),
        ],
    );
    let mut neighbour = NeighbourMessage::default();
    (neighbour.header.ifindex, neighbour.header.state) = (8, NeighbourState::Reachable);
    neighbour.header.family = AddressFamily::Inet;
    neighbour.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(Ipv4Addr::new(10, 1, 0, 9))),
        NeighbourAttribute::LinkLayerAddress(vec![2; 6]),
    ];
    let address = |family: AddressFamily, index: u32, length: u8, is: IpAddr| {
        let mut address = AddressMessage::default();
        (address.header.family, address.header.index) = (family, index);
        address.header.prefix_len = length;
        address.attributes = vec![AddressAttribute::Address(is), AddressAttribute::Local(is)];
        address
    };
    let v4 = address(AddressFamily::Inet, 7, 24, Ipv4Addr::new(10, 0, 0, 1).into());
    let own = address(AddressFamily::Inet6, 8, 64, six(1).into());
    let mut link = LinkMessage::default();
    link.header.index = 7;
    let messages = [
        Message::NewRoute(plain.clone()),
        Message::DelRoute(plain),
        Message::NewRoute(several),
        Message::NewRoute(v6.clone()),
        Message::DelRoute(v6),
        Message::NewNeighbour(neighbour.clone()),
        Message::DelNeighbour(neighbour),
        Message::NewAddress(v4.clone()),
        Message::DelAddress(v4),
        Message::NewAddress(own),
        Message::NewLink(link),
    ];
    let bytes = |message: Message| {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REPLACE;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    };
    messages.map(bytes).to_vec()
}
