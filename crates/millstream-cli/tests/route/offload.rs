//! Tests of hosts with segmentation and checksum offload, the default of Linux: TCP and UDP GSO
//! over each kind of port that receives offloaded packets.

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

/// The bytes sent each way: thousands of segments.
const BYTES: usize = 8 << 20;
/// The largest TCP payload of an Ethernet frame, bytes.
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

/// Configures both hosts with these devices for IPv4 and IPv6.
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

/// Transfers by TCP both ways, over IPv4 and IPv6.
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
    let received = datagrams(network, 1_000, 7_300);
    let lengths: Vec<usize> = received.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 300]);
    let all: Vec<u8> = (0..7_300_usize).map(|k| (k % 251).to_le_bytes()[0]).collect();
    assert_eq!(received.concat(), all);
}

/// Asserts that the ports count wire-sized segments without loss, and that the kernel counts fewer,
/// larger packets.
fn check(report: &Value, log: &str, ports: [&str; 2], packets: u64) {
    assert_eq!(report["unaccounted"], 0, "{log}{report:#}");
    let all = |key: &str| ports.iter().map(|port| number(report, "ports", port, key)).sum::<u64>();
    let received = all("received");
    assert!(received >= 4 * BYTES as u64 / SEGMENT, "{log}{report:#}");
    assert!(packets < received, "{packets} packets of the kernel: {report:#}");
    for key in ["unsupported", "lost_by_device"] {
        assert_eq!(all(key), 0, "{key}: {log}{report:#}");
    }
}

#[test]
fn af_packet_ports_segment_offloaded_packets() {
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
fn tap_ports_segment_offloaded_packets_and_compute_checksums() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let router = start(
        &network,
        &folder,
        &(port("t1", "kind = \"tap\"", 1) + &port("t2", "kind = \"tap\"", 2)),
    );
    for (device, namespace) in [("t1", "source"), ("t2", "sink")] {
        network.move_device("router", device, namespace);
    }
    hosts(&network, "t1", "t2");
    transfer(&network);
    check_datagrams(&network);
    let packets = network.statistics("source", "t1").1 + network.statistics("sink", "t2").1;
    let (report, log) = router.stop_with_log();
    check(&report, &log, ["t1", "t2"], packets);
}
