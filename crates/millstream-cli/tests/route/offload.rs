//! Hosts that leave it to their interfaces to cut segments and to compute checksums, as Linux does
//! unless it is told not to: TCP, and UDP in large pieces, over ports of each kind that get them
//! so.

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::{Network, Running};
use crate::number;

/// What is sent each way, bytes: thousands of segments.
const BYTES: usize = 8 << 20;
/// No segment is larger by Ethernet.
const SEGMENT: u64 = 1_460;

fn port(name: &str, kind: &str, network: u8) -> String {
    format!(
        "[[port]]\nname = \"{name}\"\n{kind}\nrate = \"10 Gbps\"\n\
         address = [\"10.{network}.0.1/24\", \"2001:db8:{network}::1/64\"]\n"
    )
}

fn start(network: &Network, folder: &TempDir, ports: &str) -> Running {
    let file = folder.path().join("router.toml");
    let paths = "[[path]]\nname = \"all\"\nqueue = 4096\n";
    fs::write(&file, format!("[router]\nname = \"large\"\nbuffers = 8192\n{ports}{paths}"))
        .unwrap();
    network.start(env!("CARGO_BIN_EXE_millstream"), &file)
}

/// Both hosts, by IPv4 and IPv6, with these devices.
fn hosts(network: &Network, source: &str, sink: &str) {
    for (namespace, device, of) in [("source", source, 1), ("sink", sink, 2)] {
        network.host(namespace, device, &format!("10.{of}.0.2/24"), &format!("10.{of}.0.1"));
        let v6 = |command: &str| {
            let command = format!("ip -6 {command}");
            network.execute(namespace, &command.split(' ').collect::<Vec<_>>());
        };
        v6(&format!("address add 2001:db8:{of}::2/64 dev {device} nodad"));
        v6(&format!("route add default via 2001:db8:{of}::1"));
        let offloads = network.execute(namespace, &["ethtool", "-k", device]);
        assert!(offloads.contains("tcp-segmentation-offload: on"), "{device}: {offloads}");
        assert!(offloads.contains("tx-checksumming: on"), "{device}: {offloads}");
    }
}

/// By TCP both ways, by IPv4 and IPv6.
fn transfer(network: &Network) {
    for (from, to, address) in [
        ("source", "sink", "10.2.0.2:7001"),
        ("sink", "source", "10.1.0.2:7002"),
        ("source", "sink", "[2001:db8:2::2]:7003"),
        ("sink", "source", "[2001:db8:1::2]:7004"),
    ] {
        let (sent, received) = network.transfer(from, to, address, BYTES);
        assert_eq!(sent, received, "{address}");
    }
}

/// Sends `all` bytes in one call as datagrams of `each` bytes; returns the received datagrams.
fn datagrams(network: &Network, each: usize, all: usize) -> Vec<Vec<u8>> {
    let (ready, listening) = mpsc::channel();
    let receiving = network.within("sink", move || {
        let socket = UdpSocket::bind("10.2.0.2:7005").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        ready.send(()).unwrap();
        let mut datagrams = Vec::new();
        let mut buffer = [0; 4_000];
        while datagrams.iter().map(Vec::len).sum::<usize>() < all {
            let length = socket.recv(&mut buffer).unwrap();
            datagrams.push(buffer[..length].to_vec());
        }
        datagrams
    });
    listening.recv().unwrap();
    let sending = network.within("source", move || {
        let socket = UdpSocket::bind("10.1.0.2:0").unwrap();
        setsockopt(&socket, UdpGsoSegment, &i32::try_from(each).unwrap()).unwrap();
        let data: Vec<u8> = (0..all).map(|k| (k % 251).to_le_bytes()[0]).collect();
        assert_eq!(socket.send_to(&data, "10.2.0.2:7005").unwrap(), all);
    });
    sending.join().unwrap();
    receiving.join().unwrap()
}

fn check_datagrams(network: &Network) {
    let came = datagrams(network, 1_000, 7_300);
    let lengths: Vec<usize> = came.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 300]);
    let all: Vec<u8> = (0..7_300_usize).map(|k| (k % 251).to_le_bytes()[0]).collect();
    assert_eq!(came.concat(), all);
}

/// All went by, in segments that a wire carries, from what was handed over in fewer and larger
/// ones.
fn check(report: &Value, log: &str, ports: [&str; 2], packets: u64) {
    assert_eq!(report["unaccounted"], 0, "{log}{report:#}");
    let all = |key: &str| ports.iter().map(|port| number(report, "ports", port, key)).sum::<u64>();
    let received = all("received");
    assert!(received >= 4 * BYTES as u64 / SEGMENT, "{log}{report:#}");
    assert!(packets < received, "{packets} packets of the kernel: {report:#}");
    for key in ["unfit", "lost_by_device"] {
        assert_eq!(all(key), 0, "{key}: {log}{report:#}");
    }
}

#[test]
fn af_packet_ports_carry_what_senders_leave_to_them_to_cut() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    hosts(&network, "a0", "b0");
    let port = |name: &str, of| port(name, "kind = \"interface\"\nio = \"packet\"", of);
    let received = || network.statistics("router", "a1").0 + network.statistics("router", "b1").0;
    let before = received();
    let router = start(&network, &folder, &(port("a1", 1) + &port("b1", 2)));
    transfer(&network);
    check_datagrams(&network);
    let packets = received() - before;
    let (report, log) = router.stop_with_log();
    check(&report, &log, ["a1", "b1"], packets);
}

#[test]
fn tap_devices_leave_cutting_and_checksums_to_the_router() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let router = start(
        &network,
        &folder,
        &(port("t1", "kind = \"tap\"", 1) + &port("t2", "kind = \"tap\"", 2)),
    );
    for (device, namespace) in [("t1", "source"), ("t2", "sink")] {
        network.hand_over("router", device, namespace);
    }
    hosts(&network, "t1", "t2");
    transfer(&network);
    check_datagrams(&network);
    let packets = network.statistics("source", "t1").1 + network.statistics("sink", "t2").1;
    let (report, log) = router.stop_with_log();
    check(&report, &log, ["t1", "t2"], packets);
}
