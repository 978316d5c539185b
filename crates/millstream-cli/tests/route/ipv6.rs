//! Tests of IPv6 between real interfaces: the kernel's ping and TCP, AF_PACKET, AF_XDP, and the
//! kernel's routes.

use std::fs;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::Network;
use crate::number;

/// Returns a router file with two ports, each with an address of both families.
fn file(io: &str, more: &str) -> String {
    let port = |name: &str, network: u8| {
        format!(
            "[[port]]\nname = \"{name}\"\nkind = \"interface\"\nio = \"{io}\"\nrate = \"1 Gbps\"\n\
             address = [\"10.{network}.0.1/24\", \"2001:db8:{network}::1/64\"]\n"
        )
    };
    format!(
        "[router]\n{}{}{more}[[path]]\nname = \"all\"\nqueue = 2048\n",
        port("a1", 1),
        port("b1", 2)
    )
}

fn ip(network: &Network, namespace: &str, command: &str) {
    network.execute(namespace, &[&["ip"][..], &command.split(' ').collect::<Vec<_>>()].concat());
}

/// Configures the hosts with addresses of both families, without duplicate address detection.
fn hosts(network: &Network) {
    for (namespace, device, of) in [("source", "a0", 1), ("sink", "b0", 2)] {
        let address = format!("address add 2001:db8:{of}::2/64 dev {device} nodad");
        ip(network, namespace, &address);
        ip(network, namespace, &format!("address add 10.{of}.0.2/24 dev {device}"));
        ip(network, namespace, &format!("route add default via 10.{of}.0.1"));
    }
}

/// Returns the link-local address of an interface, derived from its hardware address.
fn link_local(network: &Network, namespace: &str, device: &str) -> String {
    let [a, b, c, d, e, f] = network.mac(namespace, device);
    format!("fe80::{:02x}{b:02x}:{c:02x}ff:fe{d:02x}:{e:02x}{f:02x}", a ^ 2)
}

#[test]
fn ndp_ping_and_icmpv6_errors_work_between_hosts() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let more = "[[route]]\nprefix = \"2001:db8:3::/48\"\nport = \"b1\"\nvia = \"2001:db8:2::2\"\n\
                [[path]]\nname = \"six\"\nmatch = { source = \"2001:db8:1::/64\", protocol \
                = \"tcp\", destination-port = 7004 }\n";
    fs::write(&path, file("packet", more)).unwrap();
    hosts(&network);
    ip(&network, "sink", "address add 2001:db8:3::1/128 dev b0 nodad");
    ip(&network, "source", "-6 route add default via 2001:db8:1::1");
    let gateway = link_local(&network, "router", "b1");
    ip(&network, "sink", &format!("-6 route add default via {gateway} dev b0"));
    ip(&network, "router", "link set b1 mtu 1400");
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let ping = |more: &[&str]| network.try_execute("source", &[&["ping", "-n"], more].concat());
    let text = ping(&["-c", "3", "-i", "0.2", "2001:db8:1::1"]);
    assert!(text.contains("3 received"), "the router itself: {text}");
    for host in ["2001:db8:2::2", "2001:db8:3::1"] {
        let text = ping(&["-c", "3", "-i", "0.2", host]);
        // The first packet waits for neighbour resolution.
        assert!(text.contains("3 received") && text.contains("ttl=63"), "{host}: {text}");
    }
    let text = ping(&["-c", "1", "-t", "1", "2001:db8:2::2"]);
    assert!(text.contains("From 2001:db8:1::1") && text.contains("Hop limit"), "{text}");
    let text = ping(&["-c", "1", "2001:db8:9::1"]);
    assert!(text.contains("From 2001:db8:1::1") && text.contains("No route"), "{text}");
    let text = ping(&["-c", "6", "-i", "1", "2001:db8:2::77"]);
    let unreachable = text.contains("From 2001:db8:1::1") && text.contains("Address unreachable");
    assert!(unreachable, "{text}");
    let text = ping(&["-c", "1", "-s", "1400", "-M", "do", "2001:db8:2::2"]);
    assert!(text.contains("Packet too big: mtu=1400"), "{text}");
    let text = ping(&["-c", "1", "-s", "1400", "-M", "do", "10.2.0.2"]);
    assert!(text.contains("Frag needed and DF set (mtu = 1400)"), "{text}");
    let (sent, received) = network.transfer("source", "sink", "[2001:db8:2::2]:7004", 4 << 20);
    assert_eq!(sent, received);
    let report = router.stop();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert!(number(&report, "paths", "six", "sent") > 1_000, "{report:#}");
    assert!(number(&report, "ports", "a1", "originated") > 5, "{report:#}");
}

/// Neighbour solicitations go to multicast groups, and only the router receives the packets.
#[test]
fn tcp_over_ipv6_passes_af_xdp_ports_with_default_offloads() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    fs::write(&path, file("xdp", "")).unwrap();
    hosts(&network);
    ip(&network, "source", "-6 route add default via 2001:db8:1::1");
    ip(&network, "sink", "-6 route add default via 2001:db8:2::1");
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let (sent, received) = network.transfer("source", "sink", "[2001:db8:2::2]:7005", 2_000_000);
    assert_eq!(sent, received);
    let (sent, received) = network.transfer("sink", "source", "[2001:db8:1::2]:7006", 1_000_000);
    assert_eq!(sent, received);
    let groups = network.execute("router", &["ip", "-6", "maddress", "show", "dev", "a1"]);
    assert!(groups.contains("ff02::1:ff00:1"), "{groups}");
    let (report, log) = router.stop_with_log();
    assert!(log.contains("AF_XDP") && !log.contains("AF_PACKET"), "{log}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert_eq!(number(&report, "ports", "a1", "unsupported"), 0, "{report:#}");
}

/// The file has no routes and addresses: they come from the kernel and change during the test.
#[test]
fn ipv6_routes_and_neighbours_follow_the_kernel() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let port =
        |name| format!("[[port]]\nname = \"{name}\"\nkind = \"interface\"\nrate = \"1 Gbps\"\n");
    let ports = port("a1") + &port("b1");
    let text = format!("[router]\nkernel-routes = true\n{ports}[[path]]\nname = \"all\"\n");
    fs::write(&path, text).unwrap();
    hosts(&network);
    ip(&network, "sink", "address add 2001:db8:3::1/128 dev b0 nodad");
    ip(&network, "source", "-6 route add default via 2001:db8:1::1");
    ip(&network, "sink", "-6 route add default via 2001:db8:2::1");
    let kernel = |command: &str| ip(&network, "router", command);
    kernel("address add 2001:db8:1::1/64 dev a1 nodad");
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    kernel("address add 2001:db8:2::1/64 dev b1 nodad");
    let ping =
        |host: &str| network.try_execute("source", &["ping", "-n", "-c", "1", "-W", "1", host]);
    let until = |host: &str, part: &str| {
        let answers = (0..30).map(|_| ping(host));
        let mut last = answers.inspect(|_| thread::sleep(Duration::from_millis(50)));
        assert!(last.any(|text| text.contains(part)), "{host}: not {part}");
    };
    until("2001:db8:1::1", "1 received");
    let text = network.execute("source", &["ping", "-n", "-c", "2", "-i", "0.2", "2001:db8:1::1"]);
    assert!(!text.contains("DUP!"), "only the kernel answers: {text}");
    until("2001:db8:2::2", "ttl=63");
    until("2001:db8:3::1", "From 2001:db8:1::1 icmp_seq=1 Destination unreachable: No route");
    // Routing daemons use link-local gateways.
    let gateway = link_local(&network, "sink", "b0");
    kernel(&format!("-6 route add 2001:db8:3::/48 via {gateway} dev b1"));
    until("2001:db8:3::1", "ttl=63");
    kernel("-6 route add blackhole 2001:db8:3::/64");
    until("2001:db8:3::1", "No route");
    kernel("-6 route del blackhole 2001:db8:3::/64");
    until("2001:db8:3::1", "ttl=63");
    // A neighbour that only the kernel has.
    let sink = network.mac("sink", "b0").map(|byte| format!("{byte:02x}")).join(":");
    let silent = network.record("sink", "b0", "icmp6 and dst host 2001:db8:2::77");
    kernel(&format!("neighbour replace 2001:db8:2::77 lladdr {sink} dev b1 nud permanent"));
    thread::sleep(Duration::from_millis(200));
    ping("2001:db8:2::77");
    assert_eq!(silent.stop().len(), 1);
    let report = router.stop();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}
