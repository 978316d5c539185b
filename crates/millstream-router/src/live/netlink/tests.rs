//! Tests of the changes that follow from messages as the kernel sends them.

use super::*;

fn tables() -> Tables {
    Tables { ports: HashMap::from([(7, PortId(0)), (8, PortId(1))]), ..Tables::default() }
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

fn net() -> IpNet {
    "10.2.0.0/16".parse().unwrap()
}

#[test]
fn the_lowest_metric_wins_and_only_changes_are_reported() {
    let mut tables = tables();
    let changed = |next| Some(Change::Route(net(), next));
    let (far, near) = (route(7, Some([10, 0, 0, 9]), 100), route(8, None, 10));
    let by_far = Some(NextHopKind::Port(PortId(0), Some([10, 0, 0, 9].into())));
    let by_near = Some(NextHopKind::Port(PortId(1), None));
    assert_eq!(tables.apply(&Message::NewRoute(far.clone()), false), changed(by_far));
    assert_eq!(tables.apply(&Message::NewRoute(near.clone()), false), changed(by_near));
    assert_eq!(tables.apply(&Message::DelRoute(far.clone()), false), None);
    assert_eq!(tables.apply(&Message::NewRoute(far), false), None);
    assert_eq!(tables.apply(&Message::DelRoute(near), false), changed(by_far));
    // A route by an interface that is no port.
    let elsewhere = route(99, None, 100);
    let nowhere = Some(NextHopKind::Nowhere);
    assert_eq!(tables.apply(&Message::NewRoute(elsewhere.clone()), true), changed(nowhere));
    assert_eq!(tables.apply(&Message::DelRoute(elsewhere), false), changed(None));
    assert!(tables.routes.is_empty());
}

#[test]
fn other_tables_are_ignored_and_blackhole_routes_are_unreachable() {
    let mut tables = tables();
    let mut other = route(7, None, 0);
    other.attributes.push(RouteAttribute::Table(1_000));
    assert_eq!(tables.apply(&Message::NewRoute(other), false), None);
    let mut hole = route(7, None, 0);
    hole.header.kind = RouteType::BlackHole;
    let expected = Some(Change::Route(net(), Some(NextHopKind::Nowhere)));
    assert_eq!(tables.apply(&Message::NewRoute(hole), false), expected);
}

#[test]
fn a_neighbour_is_known_while_its_kernel_state_is_valid() {
    let mut tables = tables();
    let address = Ipv4Addr::new(10, 0, 0, 9);
    let mut apply = |interface, state, mac: &[u8]| {
        let mut of = NeighbourMessage::default();
        (of.header.ifindex, of.header.state) = (interface, state);
        of.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        tables.apply(&Message::NewNeighbour(of), false)
    };
    let changed = |mac| Some(Change::Neighbour(PortId(1), address.into(), mac));
    assert_eq!(apply(9, NeighbourState::Reachable, &[2; 6]), None, "not a port's interface");
    assert_eq!(apply(8, NeighbourState::Reachable, &[2; 6]), changed(Some([2; 6])));
    assert_eq!(apply(8, NeighbourState::Stale, &[2; 6]), None);
    assert_eq!(apply(8, NeighbourState::Stale, &[3; 6]), changed(Some([3; 6])));
    assert_eq!(apply(8, NeighbourState::Failed, &[3; 6]), changed(None));
    assert_eq!(apply(8, NeighbourState::Reachable, &[3; 8]), None, "no Ethernet address");
}

#[test]
fn a_second_read_of_the_tables_reports_the_differences() {
    let (mut old, mut new) = (tables(), tables());
    old.apply(&Message::NewRoute(route(7, None, 0)), false);
    old.addresses.insert(PortId(0), "10.2.0.1/16".parse().unwrap());
    new.neighbours.insert((PortId(1), [1; 4].into()), [1; 6]);
    let six: Ipv6Net = "2001:db8:1::1/64".parse().unwrap();
    old.addresses_v6.insert((PortId(1), six));
    new.addresses_v6.insert((PortId(0), six));
    let mut changes = old.differences(&new);
    changes.sort_by_key(|change| format!("{change:?}"));
    let expected = [
        Change::Address(PortId(0), None),
        Change::AddressV6(PortId(0), six, true),
        Change::AddressV6(PortId(1), six, false),
        Change::Neighbour(PortId(1), [1; 4].into(), Some([1; 6])),
        Change::Route(net(), None),
    ];
    assert_eq!(changes, expected);
    assert_eq!(new.differences(&new), []);
}

#[test]
fn truncated_messages_are_detected() {
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

#[test]
fn ipv6_routes_neighbours_and_addresses_are_followed() {
    let mut tables = tables();
    let six = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    let mut route = route(7, None, 1_024);
    route.header.address_family = AddressFamily::Inet6;
    route.header.destination_prefix_length = 48;
    let gateway = six("fe80::9");
    route.attributes[0] = RouteAttribute::Destination(RouteAddress::Inet6(six("2001:db8:2::")));
    route.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet6(gateway)));
    let next = Some(NextHopKind::Port(PortId(0), Some(gateway.into())));
    let expected = Some(Change::Route("2001:db8:2::/48".parse().unwrap(), next));
    assert_eq!(tables.apply(&Message::NewRoute(route.clone()), false), expected);
    // A route without a destination is the default route.
    route.attributes.remove(0);
    route.header.destination_prefix_length = 0;
    let expected = Some(Change::Route("::/0".parse().unwrap(), next));
    assert_eq!(tables.apply(&Message::NewRoute(route), false), expected);

    let mut neighbour = NeighbourMessage::default();
    (neighbour.header.ifindex, neighbour.header.state) = (7, NeighbourState::Reachable);
    neighbour.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(gateway)),
        NeighbourAttribute::LinkLayerAddress(vec![2; 6]),
    ];
    let expected = Some(Change::Neighbour(PortId(0), gateway.into(), Some([2; 6])));
    assert_eq!(tables.apply(&Message::NewNeighbour(neighbour), false), expected);

    let mut address = AddressMessage::default();
    (address.header.family, address.header.index) = (AddressFamily::Inet6, 8);
    address.header.prefix_len = 64;
    address.header.flags = AddressHeaderFlags::Tentative;
    address.attributes = vec![AddressAttribute::Address(six("2001:db8:1::1").into())];
    let apply = |tables: &mut Tables, address: &AddressMessage| {
        tables.apply(&Message::NewAddress(address.clone()), false)
    };
    assert_eq!(apply(&mut tables, &address), None, "a tentative address may be a duplicate");
    address.header.flags = AddressHeaderFlags::Permanent;
    let expected = Change::AddressV6(PortId(1), "2001:db8:1::1/64".parse().unwrap(), true);
    assert_eq!(apply(&mut tables, &address), Some(expected));
    assert_eq!(apply(&mut tables, &address), None, "reported once");
}
