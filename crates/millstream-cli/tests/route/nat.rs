//! Hosts behind an address of the router, by the kernel's own ping, TCP and UDP.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::{Network, Running, Watch};
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

/// The other network has no route to the host; it is watched for who sees it nevertheless.
fn hide(network: &Network, file: &Path) -> (Running, Watch) {
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    fs::write(file, FILE).unwrap();
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.execute("sink", &["ip", "address", "add", "10.2.0.2/24", "dev", "b0"]);
    let seen = network.watch("sink", "b0", "net 10.1.0.0/24");
    (network.start(env!("CARGO_BIN_EXE_millstream"), file), seen)
}

#[test]
fn a_host_behind_the_router_s_address_is_answered_and_nobody_sees_its_own() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let (router, seen) = hide(&network, &file);
    let text = network.execute("source", &["ping", "-n", "-c", "3", "-i", "0.2", "10.2.0.2"]);
    assert!(text.contains("3 received") && text.contains("ttl=63"), "{text}");
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7000", 4 << 20);
    assert_eq!(sent, received);
    assert!(network.is_refused("source", "10.2.0.2:9"), "the error about it is translated, too");
    // In three parts each way.
    let large = ["ping", "-n", "-c", "3", "-i", "0.2", "-s", "4000", "10.2.0.2"];
    let text = network.execute("source", &large);
    assert!(text.contains("3 received"), "{text}");
    // The router itself still answers at that address.
    let text = network.execute("sink", &["ping", "-n", "-c", "1", "10.2.0.1"]);
    assert!(text.contains("1 received"), "{text}");
    let metrics = network.get("router", STATUS, "/metrics");
    assert!(metrics.contains("millstream_port_nat_flows{port=\"b1\"} 4\n"), "{metrics}");
    let report = router.stop();
    assert!(seen.stop().is_empty(), "an address of the inside was seen outside");
    let nat = &report["ports"][1]["nat"];
    assert_eq!((&nat["opened"], &nat["refused-full"]), (&4.into(), &0.into()), "{report:#}");
    assert_eq!(nat["refused-kind"], 0, "{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}

/// Who is outside begins, at a port that the running router is told of.
#[test]
fn a_server_behind_the_router_s_address_is_reached_by_a_port_that_is_forwarded() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let (router, seen) = hide(&network, &file);
    let forward = "host-flows = 50, forward = [\
                   { protocol = \"tcp\", port = 8080, to = \"10.1.0.2:80\" }, \
                   { protocol = \"udp\", port = 8081, to = \"10.1.0.2:9\" }, \
                   { protocol = \"tcp\", port = 8082, to = \"10.1.0.77:80\" }]";
    fs::write(&file, FILE.replace("host-flows = 50", forward)).unwrap();
    router.hang_up();
    let reloaded = || network.get("router", STATUS, "/metrics").contains("reloads_total{} 1\n");
    network.until("the file is read again", reloaded);
    // The host answers with a port unreachable error.
    assert!(network.is_refused("sink", "10.2.0.1:8081"));
    let server = ("source", "10.1.0.2:80");
    let (sent, received) = network.transfer_by("sink", server, "10.2.0.1:8080", 4 << 20);
    assert_eq!(sent, received);
    // The host itself may ask its network's address, too.
    let (sent, received) = network.transfer_by("source", server, "10.2.0.1:8080", 4 << 20);
    assert_eq!(sent, received);
    // Of the router itself, since the host does not say where it is.
    let connecting = network.within("sink", || TcpStream::connect("10.2.0.1:8082"));
    let error = connecting.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    let metrics = network.get("router", STATUS, "/metrics");
    let begun = "millstream_port_nat_flows_begun_total{port=\"b1\",by=\"outside\"} 4\n";
    assert!(metrics.contains(begun), "{metrics}");
    assert!(seen.stop().is_empty(), "an address of the inside was seen outside");
    // Who is outside may know the way, and reaches nobody by it.
    network.execute("sink", &["ip", "route", "add", "10.1.0.0/24", "via", "10.2.0.1"]);
    let ping = ["ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "10.1.0.2"];
    let text = network.try_execute("sink", &ping);
    assert!(text.contains(" 0 received"), "{text}");
    let report = router.stop();
    assert_eq!(report["ports"][1]["nat"]["forwarded"], 4, "{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}

/// Frames of as many flows as the table holds, from sources of the host's network, and as many from
/// others.
fn made_up(to: [u8; 6]) -> Vec<Vec<u8>> {
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

/// Sources of the host's network take the place of each other, those of others are dropped.
#[test]
fn a_flood_from_made_up_sources_leaves_room_for_new_connections() {
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
    let flood = network.flood_by("source", "a0", made_up(network.mac("router", "a1")));
    let counted = |name: &str| {
        let metrics = network.get("router", STATUS, "/metrics");
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let evicted = "millstream_port_nat_flows_evicted_total{port=\"b1\"}";
    network.until("the table is full", || counted(evicted) > 10_000);
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

/// A host of another network behind the same port, of which the router has no route, where the file
/// lets it in.
#[test]
fn sources_that_the_router_does_not_know_pass_where_the_file_says_so() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let (router, seen) = hide(&network, &file);
    let mut frame = packet(network.mac("router", "a1"), [10, 2, 0, 2], 0, 60);
    frame[26..30].copy_from_slice(&[10, 9, 0, 1]);
    frame[24..26].fill(0);
    let header = etherparse::Ipv4Header::from_slice(&frame[14..34]).unwrap().0;
    frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    network.send("source", "a0", &frame, 7, Duration::from_millis(1));
    let metrics = || network.get("router", STATUS, "/metrics");
    let said = |what: &str| metrics().contains(what);
    let refused = "nat_packets_total{port=\"b1\",event=\"refused-source\"} 7\n";
    network.until("they are refused", || said(refused));
    assert!(said("nat_packets_total{port=\"b1\",event=\"outbound\"} 0\n"));
    fs::write(&file, FILE.replace("flows = 100", "check-source = false, flows = 100")).unwrap();
    router.hang_up();
    network.until("the file is read again", || said("reloads_total{} 1\n"));
    network.send("source", "a0", &frame, 5, Duration::from_millis(1));
    let passed = "nat_packets_total{port=\"b1\",event=\"outbound\"} 5\n";
    network.until("they pass", || said(passed));
    assert!(seen.stop().is_empty());
    let report = router.stop();
    assert_eq!(report["ports"][1]["nat"]["refused-source"], 7, "{report:#}");
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}
