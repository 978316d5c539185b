//! Tests of NAT with the kernel's ping, TCP and UDP.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::{FrameRecorder, Network, Running};
use crate::packet;

const STATUS: &str = "127.0.0.1:9817";

const FILE: &str = r#"
[router]
status = "127.0.0.1:9817"
[[port]]
name = "a1"
kind = "interface"
rate = "1 Gbps"
address = "10.1.0.1/24"
[[port]]
name = "b1"
kind = "interface"
rate = "1 Gbps"
address = "10.2.0.1/24"
nat = { flows = 100, host-flows = 50 }
[[path]]
name = "all"
"#;

/// Starts a router with NAT. The sink has no route to the host; the recorder captures packets with
/// untranslated addresses.
fn start_nat(network: &Network, file: &Path) -> (Running, FrameRecorder) {
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    fs::write(file, FILE).unwrap();
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.execute("sink", &["ip", "address", "add", "10.2.0.2/24", "dev", "b0"]);
    let seen = network.record("sink", "b0", "net 10.1.0.0/24");
    (network.start(env!("CARGO_BIN_EXE_millstream"), file), seen)
}

#[test]
fn nat_hides_the_address_of_a_host_and_answers_reach_it() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let (router, seen) = start_nat(&network, &file);
    let text = network.execute("source", &["ping", "-n", "-c", "3", "-i", "0.2", "10.2.0.2"]);
    assert!(text.contains("3 received") && text.contains("ttl=63"), "{text}");
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7000", 4 << 20);
    assert_eq!(sent, received);
    assert!(network.is_refused("source", "10.2.0.2:9"), "the ICMP error is translated, too");
    // Three fragments each way.
    let large = ["ping", "-n", "-c", "3", "-i", "0.2", "-s", "4000", "10.2.0.2"];
    let text = network.execute("source", &large);
    assert!(text.contains("3 received"), "{text}");
    // The router itself still answers at that address.
    let text = network.execute("sink", &["ping", "-n", "-c", "1", "10.2.0.1"]);
    assert!(text.contains("1 received"), "{text}");
    let metrics = network.get("router", STATUS, "/metrics");
    assert!(metrics.contains("millstream_port_nat_flows{port=\"b1\"} 4\n"), "{metrics}");
    let report = router.stop();
    assert!(seen.stop().is_empty(), "an inside address was seen outside");
    let nat = &report["ports"][1]["nat"];
    assert_eq!((&nat["opened"], &nat["refused-full"]), (&4.into(), &0.into()), "{report:#}");
    assert_eq!(nat["refused-kind"], 0, "{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}

/// The outside host opens the connections, to ports that a reload forwards.
#[test]
fn a_forwarded_port_reaches_a_server_behind_nat() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let (router, seen) = start_nat(&network, &file);
    let forward = "host-flows = 50, forward = [\
                   { protocol = \"tcp\", port = 8080, to = \"10.1.0.2:80\" }, \
                   { protocol = \"udp\", port = 8081, to = \"10.1.0.2:9\" }, \
                   { protocol = \"tcp\", port = 8082, to = \"10.1.0.77:80\" }]";
    fs::write(&file, FILE.replace("host-flows = 50", forward)).unwrap();
    router.reload();
    let reloaded = || network.get("router", STATUS, "/metrics").contains("reloads_total{} 1\n");
    network.wait_until("the reload", reloaded);
    // The host answers with a port unreachable error.
    assert!(network.is_refused("sink", "10.2.0.1:8081"));
    let server = ("source", "10.1.0.2:80");
    let (sent, received) = network.transfer_by("sink", server, "10.2.0.1:8080", 4 << 20);
    assert_eq!(sent, received);
    // The host itself can connect to the outside address, too (hairpinning).
    let (sent, received) = network.transfer_by("source", server, "10.2.0.1:8080", 4 << 20);
    assert_eq!(sent, received);
    // The router sends the error, because 10.1.0.77 does not answer ARP.
    let connecting = network.within("sink", || TcpStream::connect("10.2.0.1:8082"));
    let error = connecting.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    let metrics = network.get("router", STATUS, "/metrics");
    let begun = "millstream_port_nat_flows_begun_total{port=\"b1\",by=\"outside\"} 4\n";
    assert!(metrics.contains(begun), "{metrics}");
    assert!(seen.stop().is_empty(), "an inside address was seen outside");
    // A route to the inside network reaches no host.
    network.execute("sink", &["ip", "route", "add", "10.1.0.0/24", "via", "10.2.0.1"]);
    let ping = ["ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "10.1.0.2"];
    let text = network.try_execute("sink", &ping);
    assert!(text.contains(" 0 received"), "{text}");
    let report = router.stop();
    assert_eq!(report["ports"][1]["nat"]["forwarded"], 4, "{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}

/// Returns frames of 20,000 flows from sources of the host's network, and as many from other
/// networks.
fn spoofed_frames(to: [u8; 6]) -> Vec<Vec<u8>> {
    let frame = packet(to, [10, 2, 0, 2], 0, 60);
    let from = |source: [u8; 4], port: u16| {
        let mut frame = frame.clone();
        frame[26..30].copy_from_slice(&source);
        frame[24..26].fill(0);
        let header = etherparse::Ipv4Header::from_slice(&frame[14..34]).unwrap().0;
        frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame
    };
    let pairs = (0..20_000_u16).flat_map(|number| {
        let [high, low] = number.to_be_bytes();
        let port = 2_000 + number;
        [from([10, 1, 0, 10 + low % 200], port), from([10, 7, high, low], port)]
    });
    pairs.collect()
}

/// Flows from the host's network evict each other; packets from other networks are dropped.
#[test]
fn a_flood_from_spoofed_sources_does_not_block_new_connections() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.execute("sink", &["ip", "address", "add", "10.2.0.2/24", "dev", "b0"]);
    let text = FILE.replace("{ flows = 100, host-flows = 50 }", "{ flows = 4096 }");
    fs::write(&file, text).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    let ping = ["ping", "-n", "-c", "3", "-i", "0.2", "-W", "2", "10.2.0.2"];
    let text = network.execute("source", &ping);
    assert!(text.contains("3 received"), "{text}");
    let spoofed = spoofed_frames(network.mac("router", "a1"));
    let flood = network.flood_by("source", "a0", spoofed, Duration::ZERO);
    let counted = |name: &str| {
        let metrics = network.get("router", STATUS, "/metrics");
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let evicted = "millstream_port_nat_flows_evicted_total{port=\"b1\"}";
    network.wait_until("the table is full", || counted(evicted) > 10_000);
    assert!(flood.stop() > 20_000);
    // While the table is full of unanswered flows.
    let text = network.execute("source", &ping);
    assert!(text.contains("3 received"), "{text}");
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7000", 1 << 20);
    assert_eq!(sent, received);
    let refused = "millstream_port_nat_packets_total{port=\"b1\",event=\"refused-source\"}";
    assert!(counted(refused) > 5_000);
    let report = router.stop();
    let nat = &report["ports"][1]["nat"];
    assert_eq!(nat["refused-full"], 0, "{report:#}");
    assert_eq!(nat["flows"], 4_096, "{report:#}");
    assert!(nat["refused-source"].as_u64().unwrap() > 5_000, "{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}

/// Packets from a network without a route pass if `check-source` is false.
#[test]
fn unknown_sources_pass_without_check_source() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let (router, seen) = start_nat(&network, &file);
    let mut frame = packet(network.mac("router", "a1"), [10, 2, 0, 2], 0, 60);
    frame[26..30].copy_from_slice(&[10, 9, 0, 1]);
    frame[24..26].fill(0);
    let header = etherparse::Ipv4Header::from_slice(&frame[14..34]).unwrap().0;
    frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    network.send("source", "a0", &frame, 7, Duration::from_millis(1));
    let metrics = || network.get("router", STATUS, "/metrics");
    let shows = |what: &str| metrics().contains(what);
    let refused = "nat_packets_total{port=\"b1\",event=\"refused-source\"} 7\n";
    network.wait_until("they are refused", || shows(refused));
    assert!(shows("nat_packets_total{port=\"b1\",event=\"outbound\"} 0\n"));
    fs::write(&file, FILE.replace("flows = 100", "check-source = false, flows = 100")).unwrap();
    router.reload();
    network.wait_until("the reload", || shows("reloads_total{} 1\n"));
    network.send("source", "a0", &frame, 5, Duration::from_millis(1));
    let passed = "nat_packets_total{port=\"b1\",event=\"outbound\"} 5\n";
    network.wait_until("they pass", || shows(passed));
    assert!(seen.stop().is_empty());
    let report = router.stop();
    assert_eq!(report["ports"][1]["nat"]["refused-source"], 7, "{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}
