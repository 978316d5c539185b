//! Tests of interfaces by AF_XDP: hosts with default offloads, removed and recreated ports, and the
//! choice between AF_XDP and AF_PACKET.

use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::Network;
use crate::{VOICE, number, packet};

const STATUS: &str = "127.0.0.1:9819";

/// Returns a router file with two ports between two hosts.
fn file(io: &str, more: &str) -> String {
    let port = |name: &str, address: &str| {
        format!(
            "[[port]]\nname = \"{name}\"\nkind = \"interface\"\nio = \"{io}\"\nrate = \"1 Gbps\"\n\
             address = \"{address}\"\n"
        )
    };
    let ports = port("a1", "10.1.0.1/24") + &port("b1", "10.2.0.1/24");
    format!("[router]\nname = \"xdp\"\n{more}{ports}[[path]]\nname = \"all\"\nqueue = 2048\n")
}

fn hosts(network: &Network) {
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.host("sink", "b0", "10.2.0.2/24", "10.2.0.1");
}

fn of(report: &Value, port: &str, key: &str) -> u64 {
    number(report, "ports", port, key)
}

/// Linux leaves checksums to the interface, and a veth pair does not compute them.
#[test]
fn tcp_passes_af_xdp_ports_with_default_offloads() {
    let network = Network::new();
    hosts(&network);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    fs::write(&path, file("xdp", "")).unwrap();
    let offloads = network.execute("source", &["ethtool", "-k", "a0"]);
    assert!(offloads.contains("tx-checksumming: on"), "{offloads}");
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let (before, _) = network.statistics("router", "a1");
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7001", 3_000_000);
    assert_eq!(sent, received);
    let (sent, received) = network.transfer("sink", "source", "10.1.0.2:7002", 1_000_000);
    assert_eq!(sent, received);
    let (after, _) = network.statistics("router", "a1");
    let (report, log) = router.stop_with_log();
    assert!(log.contains("AF_XDP") && !log.contains("AF_PACKET"), "{log}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    let taken = of(&report, "a1", "received") + of(&report, "a1", "lost_by_device");
    assert!(taken >= after - before, "the kernel counts {after}, from {before}: {report:#}");
    assert_eq!(of(&report, "a1", "unsupported"), 0, "no segment is too long: {report:#}");
    assert_eq!(of(&report, "a1", "lost_by_device"), 0, "{report:#}");
}

/// One port's link goes down and up, and the other port's device is replaced; both work afterwards.
#[test]
fn removed_and_recreated_af_xdp_ports_lose_no_received_packet() {
    const PACKETS: u64 = 200;
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let kind = "kind = \"interface\"\n";
    let text = network.router().replace(kind, &format!("{kind}io = \"xdp\"\n"));
    let status = format!("name = \"flood\"\nstatus = \"{STATUS}\"\n");
    fs::write(&path, text.replace("name = \"flood\"\n", &status)).unwrap();
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let sink = network.mac("sink", "b0");
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let voice = packet(network.mac("router", "a1"), [10, 2, 0, 1], VOICE, 200);
    let send = || network.send("source", "a0", &voice, PACKETS, Duration::from_micros(250));
    // The device is deleted while packets are queued for it, and created again.
    network.execute("router", &["ip", "link", "del", "b1"]);
    network.await_port(STATUS, "b1", true);
    send();
    network.join("router", "b1", "sink", "b0", Some(sink));
    let counted = network.count("sink", "b0", "udp and ip[1] & 0xfc == 0xb8", 2 * PACKETS);
    network.execute("router", &["ip", "link", "set", "b1", "up"]);
    // The link of the other port goes down and up.
    network.execute("router", &["ip", "link", "set", "a1", "down"]);
    network.await_port(STATUS, "a1", true);
    network.execute("router", &["ip", "link", "set", "a1", "up"]);
    // Until the port is open again, the kernel receives the packets.
    network.await_port(STATUS, "a1", false);
    send();
    let arrived = counted.join().unwrap();
    let (report, log) = router.stop_with_log();
    assert_eq!(arrived, 2 * PACKETS, "{log}{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert_eq!(number(&report, "paths", "voice", "sent"), 2 * PACKETS, "{report:#}");
    for port in ["a1", "b1"] {
        assert!(of(&report, port, "went_away") >= 1, "{port}: {log}{report:#}");
    }
}

/// Packets of unread queues would go to the kernel, which does not forward. All queues are read
/// again after the interface was down.
#[test]
fn every_receive_queue_is_read() {
    const FLOWS: u64 = 64;
    let network = Network::new();
    network.execute("source", &["ip", "link", "del", "a0"]);
    let queues = ["numtxqueues", "4", "numrxqueues", "4"];
    let pair = [
        &["ip", "link", "add", "a0"],
        &queues[..],
        &["type", "veth", "peer", "name", "a1"],
        &queues[..],
    ];
    network.execute("source", &pair.concat());
    network.move_device("source", "a1", "router");
    network.execute("source", &["ip", "link", "set", "a0", "up"]);
    hosts(&network);
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    fs::write(&path, file("auto", &format!("status = \"{STATUS}\"\n"))).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let by_queue = || {
        let shown = network.execute("router", &["ethtool", "-S", "a1"]);
        let queue = |queue: u32| {
            let name = format!("rx_queue_{queue}_xdp_packets:");
            let value = shown.lines().find_map(|line| line.trim().strip_prefix(&name));
            value.unwrap_or_else(|| panic!("{shown}")).trim().parse::<u64>().unwrap()
        };
        [0, 1, 2, 3].map(queue)
    };
    for round in 0..2 {
        let text = network.execute("source", &["ping", "-n", "-c", "2", "-i", "0.2", "10.2.0.2"]);
        assert!(text.contains(" 0% packet loss"), "{text}");
        let (before, counted) = (by_queue(), network.count("sink", "b0", "udp port 7003", FLOWS));
        let sending = network.within("source", || {
            for _ in 0..FLOWS {
                // Each socket has its own port, so Linux distributes the flows over the queues.
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.send_to(&[0; 100], "10.2.0.2:7003").unwrap();
            }
        });
        sending.join().unwrap();
        assert_eq!(counted.join().unwrap(), FLOWS);
        let used = by_queue().into_iter().zip(before).filter(|(after, before)| after > before);
        assert!(used.count() > 1, "all flows used one queue: {before:?}");
        if round == 0 {
            network.execute("router", &["ip", "link", "set", "a1", "down"]);
            network.await_port(STATUS, "a1", true);
            network.execute("router", &["ip", "link", "set", "a1", "up"]);
            network.await_port(STATUS, "a1", false);
        }
    }
    let (report, log) = router.stop_with_log();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert!(log.lines().any(|line| line.contains("port=a1") && line.contains("queues=4")), "{log}");
}

/// An interface with more queues than supported uses AF_PACKET, and `io = "xdp"` is an error.
#[test]
fn an_interface_with_too_many_receive_queues_uses_af_packet() {
    let network = Network::new();
    let many = ["ip", "link", "add", "m1", "numrxqueues", "17", "type", "veth"];
    network.execute("router", &[&many[..], &["peer", "name", "m0"]].concat());
    network.execute("router", &["ip", "link", "set", "m1", "up"]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    fs::write(&path, file("auto", "").replace("a1", "m1")).unwrap();
    let (_, log) = network.start(env!("CARGO_BIN_EXE_millstream"), &path).stop_with_log();
    let of_m1 = log.lines().find(|line| line.contains("port=m1")).unwrap();
    assert!(of_m1.contains("AF_PACKET") && of_m1.contains("17 receive queues"), "{log}");
    fs::write(&path, file("xdp", "").replace("a1", "m1")).unwrap();
    let route = [env!("CARGO_BIN_EXE_millstream"), "route", path.to_str().unwrap(), "--for", "1 s"];
    let shown = network.try_execute("router", &route);
    assert!(shown.contains("it has 17 receive") && shown.contains("at most 16"), "{shown}");
    assert!(shown.contains("ethtool -L"), "{shown}");
}

/// By default, the router uses AF_XDP only for interfaces that the kernel does not use.
#[test]
fn interfaces_that_the_kernel_uses_are_opened_by_af_packet() {
    let network = Network::new();
    hosts(&network);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    fs::write(&path, file("auto", "")).unwrap();
    network.execute("router", &["ip", "address", "add", "10.9.0.1/24", "dev", "b1"]);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let text = network.execute("source", &["ping", "-n", "-c", "2", "-i", "0.2", "10.2.0.2"]);
    assert!(text.contains(" 0% packet loss"), "{text}");
    let (report, log) = router.stop_with_log();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    let line_of = |port: &str| log.lines().find(|line| line.contains(port)).unwrap();
    assert!(line_of("port=a1").contains("AF_XDP"), "{log}");
    let of_b1 = line_of("port=b1");
    assert!(of_b1.contains("AF_PACKET") && of_b1.contains("has an address"), "{log}");
    // `io` in the file takes precedence.
    fs::write(&path, file("packet", "kernel-routes = true\n")).unwrap();
    let (report, log) = network.start(env!("CARGO_BIN_EXE_millstream"), &path).stop_with_log();
    assert_eq!(report["unaccounted"], 0);
    assert_eq!(log.matches("io=AF_PACKET").count(), 2, "{log}");
}

/// An idle router has no timer of its own: the kernel unblocks it, and packets are not delayed.
#[test]
fn an_idle_router_sleeps() {
    for io in ["packet", "xdp"] {
        let network = Network::new();
        hosts(&network);
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("router.toml");
        fs::write(&path, file(io, "")).unwrap();
        let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
        let ping = ["ping", "-n", "-c", "2", "-i", "0.2", "10.2.0.2"];
        let text = network.execute("source", &ping);
        assert!(text.contains(" 0% packet loss"), "{io}: {text}");
        // A polling router would wake at least 10,000 times per second. At first the router still
        // resolves neighbours.
        network.wait_until("the router sleeps", || {
            let before = router.voluntary_switches();
            thread::sleep(Duration::from_secs(1));
            router.voluntary_switches() - before < 1_000
        });
        let text = network.execute("source", &ping);
        assert!(text.contains(" 0% packet loss"), "{io}: {text}");
        let (report, log) = router.stop_with_log();
        assert_eq!(report["unaccounted"], 0, "{io}: {log}{report:#}");
    }
}
