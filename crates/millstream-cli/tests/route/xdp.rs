//! Interfaces by AF_XDP: hosts with their offloads as they are, ports that go and come back, and
//! which way is taken.

use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::Network;
use crate::{VOICE, number, packet};

const STATUS: &str = "127.0.0.1:9819";

/// Two ports between two hosts.
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

/// Linux leaves checksums to the interface, and on a veth pair nobody computes them.
#[test]
fn tcp_goes_through_af_xdp_ports_with_offloads_left_as_they_are() {
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
    assert_eq!(of(&report, "a1", "unfit"), 0, "no segment is too long: {report:#}");
    assert_eq!(of(&report, "a1", "lost_by_device"), 0, "{report:#}");
}

/// Both ports go, one by its link and one for good, and are as before when they come back.
#[test]
fn af_xdp_ports_that_go_away_and_come_back_lose_nothing_that_was_taken() {
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
    // For good, with packets on their way to it, and a new one of that name.
    network.execute("router", &["ip", "link", "del", "b1"]);
    network.await_port(STATUS, "b1", true);
    send();
    network.join("router", "b1", "sink", "b0", Some(sink));
    let counted = network.count("sink", "b0", "udp and ip[1] & 0xfc == 0xb8", 2 * PACKETS);
    network.execute("router", &["ip", "link", "set", "b1", "up"]);
    // The other by its link only.
    network.execute("router", &["ip", "link", "set", "a1", "down"]);
    network.await_port(STATUS, "a1", true);
    network.execute("router", &["ip", "link", "set", "a1", "up"]);
    // Until then packets are the kernel's.
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

/// Packets of queues that no socket read would be the kernel's, which does not forward. They are
/// again all read after the interface was down.
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
    network.hand_over("source", "a1", "router");
    network.execute("source", &["ip", "link", "set", "a0", "up"]);
    hosts(&network);
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    fs::write(&path, file("auto", &format!("status = \"{STATUS}\"\n"))).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let by_queue = || {
        let said = network.execute("router", &["ethtool", "-S", "a1"]);
        let queue = |queue: u32| {
            let name = format!("rx_queue_{queue}_xdp_packets:");
            let value = said.lines().find_map(|line| line.trim().strip_prefix(&name));
            value.unwrap_or_else(|| panic!("{said}")).trim().parse::<u64>().unwrap()
        };
        [0, 1, 2, 3].map(queue)
    };
    for went in 0..2 {
        let text = network.execute("source", &["ping", "-n", "-c", "2", "-i", "0.2", "10.2.0.2"]);
        assert!(text.contains(" 0% packet loss"), "{text}");
        let (before, counted) = (by_queue(), network.count("sink", "b0", "udp port 7003", FLOWS));
        let sending = network.within("source", || {
            for _ in 0..FLOWS {
                // Another port, so another flow; Linux spreads them over the queues.
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.send_to(&[0; 100], "10.2.0.2:7003").unwrap();
            }
        });
        sending.join().unwrap();
        assert_eq!(counted.join().unwrap(), FLOWS);
        let used = by_queue().into_iter().zip(before).filter(|(after, before)| after > before);
        assert!(used.count() > 1, "the flows all came by one queue: {before:?}");
        if went == 0 {
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

/// More of them than are read leave the interface to AF_PACKET, and the file that insists is told.
#[test]
fn an_interface_of_too_many_receive_queues_is_left_to_the_kernel() {
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
    let said = network.try_execute("router", &route);
    assert!(said.contains("17 receive queues") && said.contains("at most 16"), "{said}");
    assert!(said.contains("ethtool -L"), "{said}");
}

/// By itself the router takes packets from the kernel only where the kernel does not want them.
#[test]
fn interfaces_that_the_kernel_uses_are_left_to_it() {
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
    let said = |port: &str| log.lines().find(|line| line.contains(port)).unwrap();
    assert!(said("port=a1").contains("AF_XDP"), "{log}");
    let of_b1 = said("port=b1");
    assert!(of_b1.contains("AF_PACKET") && of_b1.contains("has an address"), "{log}");
    // The file's word counts, and what the kernel does not allow is an error.
    fs::write(&path, file("packet", "kernel-routes = true\n")).unwrap();
    let (report, log) = network.start(env!("CARGO_BIN_EXE_millstream"), &path).stop_with_log();
    assert_eq!(report["unaccounted"], 0);
    assert_eq!(log.matches("io=AF_PACKET").count(), 2, "{log}");
}

/// Nothing comes, so the kernel wakes it, and no clock of its own; what comes then does not wait.
#[test]
fn a_router_by_which_nothing_comes_sleeps() {
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
        // By its own clock it would look ten thousand times a second or more. Neighbours are still
        // asked for at first.
        network.until("the router to sleep", || {
            let before = router.wakes();
            thread::sleep(Duration::from_secs(1));
            router.wakes() - before < 1_000
        });
        let text = network.execute("source", &ping);
        assert!(text.contains(" 0% packet loss"), "{io}: {text}");
        let (report, log) = router.stop_with_log();
        assert_eq!(report["unaccounted"], 0, "{io}: {log}{report:#}");
    }
}
