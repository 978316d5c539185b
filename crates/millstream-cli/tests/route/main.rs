//! End-to-end tests of `millstream route`: captures, real interfaces, errors.
#![allow(clippy::unwrap_used)]

mod autorate;
mod cores;
mod firewall;
mod ingress;
mod ipv6;
mod nat;
mod network;
mod offload;
mod pacing;
mod programs;
mod proxy;
mod tun;
mod vlan;
mod xdp;

use assert_cmd::Command;
use etherparse::{Ipv4Header, PacketBuilder};
use network::Network;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The DSCP of expedited forwarding.
const VOICE: u8 = 46;

const ROUTER_FILE: &str = r#"
[router]
name = "edge"
batch = 32
slice = "30 us"

[[port]]
name = "lan"
kind = "pcap"
input = "in.pcap"
mac = "02:00:00:00:00:01"
rate = "1 Gbps"

[[port]]
name = "wan"
kind = "pcap"
output = "out.pcap"
mac = "02:00:00:00:00:02"
rate = "100 Mbps"
overhead = 24
discipline = "wf2q+"

[[path]]
name = "voice"
match = { protocol = "udp", dscp = 46 }
reservation = "50 Kpps"
cost = "1 us"
to = "wan"
weight = 4

[[path]]
name = "best-effort"

[[route]]
prefix = "10.2.0.0/16"
port = "wan"
neighbour = "02:00:00:00:02:01"

[[route]]
prefix = "0.0.0.0/0"
port = "lan"
neighbour = "02:00:00:00:01:01"
"#;

fn millstream() -> Command {
    Command::cargo_bin("millstream").unwrap()
}

fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn example() -> String {
    ROUTER_FILE.to_owned()
}

/// Returns a UDP packet of `bytes` bytes without a UDP checksum, which IPv4 allows.
fn packet(to: [u8; 6], destination: [u8; 4], dscp: u8, bytes: usize) -> Vec<u8> {
    let mut ip =
        Ipv4Header::new(0, 64, etherparse::IpNumber::UDP, [10, 1, 0, 1], destination).unwrap();
    ip.dscp = dscp.try_into().unwrap();
    let builder = PacketBuilder::ethernet2([4; 6], to);
    let mut frame = Vec::new();
    let builder = builder.ip(etherparse::IpHeaders::Ipv4(ip, Default::default()));
    builder.udp(5_000, 5_001).write(&mut frame, &vec![0; bytes - 42]).unwrap();
    frame[40..42].fill(0);
    frame
}

fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let capture = pcap::Capture::dead(pcap::Linktype::ETHERNET).unwrap();
    let mut file = capture.savefile(path).unwrap();
    for frame in frames {
        let len = u32::try_from(frame.len()).unwrap();
        let ts = libc::timeval { tv_sec: 0, tv_usec: 0 };
        file.write(&pcap::Packet::new(&pcap::PacketHeader { ts, caplen: len, len }, frame));
    }
}

fn number(value: &Value, list: &str, name: &str, key: &str) -> u64 {
    let rows = value[list].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()[key].as_u64().unwrap()
}

#[test]
fn captures_are_routed_and_every_packet_is_accounted_for() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("router.toml"), example()).unwrap();
    let mut frames = Vec::new();
    for k in (0..250u8).chain(0..250) {
        frames.push(packet(ROUTER, [10, 2, 0, k], if k % 5 == 0 { VOICE } else { 0 }, 200));
    }
    let mut expiring = packet(ROUTER, [10, 2, 0, 1], 0, 200);
    expiring[22] = 1; // time to live 1; the checksum is wrong, too
    frames.push(expiring);
    frames.push(packet([2, 0, 0, 0, 0, 77], [10, 2, 0, 1], 0, 200)); // for another host
    frames.push(vec![0xff; 60]); // not IPv4
    write_capture(&at("in.pcap"), &frames);
    let (status, report, errors) =
        outcome(millstream().arg("route").arg(at("router.toml")).arg("--json"));
    assert_eq!(status, 0, "{errors}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["unaccounted"], 0);
    assert_eq!(report["ended"], "input");
    assert_eq!(number(&report, "ports", "lan", "received"), 503);
    assert_eq!(number(&report, "ports", "lan", "unclassified"), 2);
    assert_eq!(number(&report, "paths", "voice", "sent"), 100);
    assert_eq!(number(&report, "paths", "best-effort", "dropped_by_function"), 1);
    assert_eq!(number(&report, "paths", "best-effort", "sent"), 400, "a capture loses no packet");
    let mut copy = pcap::Capture::from_file(at("out.pcap")).unwrap();
    let mut copied = 0;
    while let Ok(packet) = copy.next_packet() {
        let header = etherparse::Ipv4HeaderSlice::from_slice(&packet.data[14..]).unwrap();
        let header = header.to_header();
        assert_eq!(header.time_to_live, 63);
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(packet.data[..6], [2, 0, 0, 0, 2, 1]);
        copied += 1;
    }
    assert_eq!(copied, 500);
}

#[test]
fn ports_are_read_by_interrupts_if_configured() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = example().replace("batch = 32", "batch = 32\ninput = \"interrupt\"");
    fs::write(at("router.toml"), &text).unwrap();
    write_capture(&at("in.pcap"), &vec![packet(ROUTER, [10, 2, 0, 1], VOICE, 200); 5_000]);
    let (status, report, errors) =
        outcome(millstream().arg("route").arg(at("router.toml")).arg("--json"));
    assert_eq!(status, 0, "{errors}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["unaccounted"], 0);
    assert_eq!(number(&report, "paths", "voice", "sent"), 5_000, "a capture loses no packet");
    let reserved = text.replace("overhead = 24", "input-reservation = \"1 Mcps\"");
    fs::write(at("router.toml"), reserved).unwrap();
    let (status, _, errors) = outcome(millstream().arg("check").arg(at("router.toml")));
    let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(status, 2, "{errors}");
    assert!(errors.contains("`input-reservation` of port `wan` with input = "), "{errors}");
}

#[test]
fn mistakes_are_errors_with_their_location() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    for (right, wrong, parts) in [
        ("port = \"wan\"", "port = \"wam\"", &["no port `wam`", "did you mean `wan`"][..]),
        ("50 Kpps", "50 KPPS", &["did you mean \"50 kpps\"?"]),
        ("cost = \"1 us\"\n", "", &["50000 packets per second without a `cost`", "cost = "]),
        ("dscp = 46", "dscp = 64", &["code point of 64", "from 0 to 63"]),
        ("10.2.0.0/16", "10.2.0.0/40", &["`10.2.0.0/40` is not an IP prefix"]),
        ("name = \"wan\"", "name = \"lan\"", &["two ports are called `lan`"]),
        ("mac = \"02:00:00:00:00:02\"\n", "", &["`wan` has no hardware address"]),
        ("wf2q+", "edf", &["`voice` has no `period`", "edf"]),
        ("wf2q+", "minbw", &["cannot be scheduled by `minbw`", "`drr`"]),
        ("slice = ", "slise = ", &["did you mean `slice`"]),
        ("batch = 32", "batch = 32\nstatus = \"0.0.0.0:99\"", &["from the network", "127.0.0.1"]),
        ("batch = 32", "batch = 0", &["a batch of 0", "from 1 to 1024"]),
        ("overhead = 24", "line-burst = \"101 ms\"", &["`line-burst` of more than", "100 us"]),
        (
            "overhead = 24",
            "autorate = { min = \"2 Gbit/s\", max = \"3 Gbit/s\" }",
            &["outside `autorate`", "2000000000 bit/s"],
        ),
        (
            "overhead = 24",
            "autorate = { min = \"1 Mbit/s\", max = \"3 Gbit/s\", delay = \"2 s\" }",
            &["`delay` of 2000000000 ns", "\"1 ms\" to \"1 s\""],
        ),
        ("overhead = 24", "nat = {}", &["`nat` on a port with no IPv4 `address`", "address = "]),
        ("overhead = 24", "address = \"10.2.0.1/24\"\nnat = { flows = 0 }", &["`flows` of 0"]),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { flows = 9, host-flows = 10 }",
            &["`host-flows` of 10", "from 1 to 9"],
        ),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { forward = [{ protocol = \"sctp\", port = 80, to \
             = \"10.1.0.5:80\" }] }",
            &["unknown variant `sctp`", "`tcp`", "`udp`"],
        ),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { forward = [{ protocol = \"tcp\", port = 0, to \
             = \"10.1.0.5:80\" }] }",
            &["`port` of 0", "from 1 to 65535"],
        ),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { forward = [{ protocol = \"tcp\", port = 80, to \
             = \"10.1.0.5\" }] }",
            &["`10.1.0.5` is not an IPv4 address and a port", "10.1.0.5:80"],
        ),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { forward = [{ protocol = \"tcp\", port = 80, to \
             = \"224.0.0.5:80\" }] }",
            &["no host can listen at 224.0.0.5:80"],
        ),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { forward = [{ protocol = \"tcp\", port = 80, to \
             = \"10.2.0.1:80\" }] }",
            &["10.2.0.1 is the router itself", "proxy"],
        ),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { forward = [{ protocol = \"tcp\", port = 80, to \
             = \"10.2.0.9:80\" }] }",
            &["10.2.0.9 is on the network of the port itself", "behind another port"],
        ),
        (
            "overhead = 24",
            "address = \"10.2.0.1/24\"\nnat = { forward = [{ protocol = \"tcp\", port = 80, to \
             = \"10.1.0.5:80\" }, { protocol = \"tcp\", port = 80, to = \"10.1.0.6:80\" }] }",
            &["port 80 is forwarded twice"],
        ),
        (
            "dscp = 46",
            "filter = \"tcp prot 80\"",
            &["path `voice`", "`match`, `filter` = \"tcp prot 80\"", "syntax error", "pcap-filter"],
        ),
        ("dscp = 46", "filter = \" \"", &["an empty filter", "for example"]),
        ("overhead = 24", "address = [\"10.2.0.1/24\", \"10.2.0.2/24\"]", &["2 IPv4 addresses"]),
        ("overhead = 24", "address = [\"2001:db8::1/64\", \"::2\"]", &["`::2` is not", "::1/64"]),
        ("overhead = 24", "address = \"2001:db8::/64\"", &["2001:db8:: is not the address"]),
        ("overhead = 24", "address = \"2001:db8::1/64\"\nnat = {}", &["no IPv4 `address`"]),
        (
            "neighbour = \"02:00:00:00:02:01\"",
            "via = \"2001:db8::9\"",
            &["cannot be the next hop of", "10.2.0.9"],
        ),
        ("batch = 32", "kernel-routes = true", &["without a port of kind", "\"interface\""]),
    ] {
        let text = example();
        assert!(text.contains(right), "{right}");
        fs::write(&file, text.replacen(right, wrong, 1)).unwrap();
        for command in ["check", "route"] {
            let (status, _, errors) = outcome(millstream().arg(command).arg(&file));
            assert_eq!(status, 2, "{command} with {wrong}: {errors}");
            let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in parts {
                assert!(errors.contains(part), "{wrong}: {errors} lacks {part}");
            }
        }
    }
}

#[test]
fn a_missing_interface_and_an_excessive_reservation_are_errors() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let interface = "kind = \"interface\"\ninterface = \"nowhere0\"";
    let text = example().replacen("kind = \"pcap\"\ninput = \"in.pcap\"", interface, 1);
    fs::write(&file, text).unwrap();
    let (status, _, errors) = outcome(millstream().arg("route").arg(&file));
    assert_eq!(status, 1);
    assert!(errors.contains("port `lan`") && errors.contains("nowhere0"), "{errors}");
    fs::write(&file, example().replacen("50 Kpps", "50 Mpps", 1)).unwrap();
    let (status, _, errors) = outcome(millstream().arg("route").arg(&file));
    assert_eq!(status, 1);
    assert!(errors.contains("the reservations total") && errors.contains(" Mcps more"), "{errors}");
    let (status, _, errors) =
        outcome(millstream().arg("route").arg(&file).args(["--for", "3 weeks"]));
    assert_eq!(status, 2);
    assert!(errors.contains("--for") && errors.contains("3 weeks"), "{errors}");
}

#[test]
fn the_repository_s_example_is_checked_and_runs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/router/router.toml");
    let (status, text, _) = outcome(millstream().arg("check").arg(&file));
    assert_eq!(status, 0);
    assert!(text.contains("rtp") && text.contains("50.0 kpps of 1.00 µs"), "{text}");
    let (status, text, errors) = outcome(millstream().arg("route").arg(&file).arg("--json"));
    assert_eq!(status, 0, "{errors}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["unaccounted"], 0);
    // All packets of the capture but an ARP request.
    let sent = |path| number(&report, "paths", path, "sent");
    assert_eq!((sent("rtp"), sent("best-effort")), (2_192, 10_754));
}

/// The sources are in one namespace, the router in a second, and the sink in a third.
#[test]
fn a_reserved_flow_loses_no_packet_beside_a_flood_of_small_packets() {
    const PACKETS: u64 = 2_000;
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    fs::write(&file, network.router()).unwrap();
    let counted = network.count("sink", "b0", "udp and ip[1] & 0xfc == 0xb8", PACKETS);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    let flood = packet(network.mac("router", "f1"), [10, 2, 0, 1], 0, 60);
    let flood = network.flood("source", "f0", flood);
    let voice = packet(network.mac("router", "a1"), [10, 2, 0, 1], VOICE, 200);
    network.send("source", "a0", &voice, PACKETS, Duration::from_micros(250));
    // Sent packets may be in flight: the count ends when all have arrived, or at its timeout.
    let arrived = counted.join().unwrap();
    let flooded = flood.stop();
    thread::sleep(Duration::from_millis(200));
    let report = router.stop();
    assert_eq!(arrived, PACKETS, "{report:#}");
    assert_eq!(number(&report, "paths", "voice", "received"), PACKETS);
    assert_eq!(number(&report, "paths", "voice", "sent"), PACKETS);
    assert_eq!(report["unaccounted"], 0);
    let best = number(&report, "paths", "best-effort", "received");
    assert!(best > PACKETS && best <= flooded, "{best} of a flood of {flooded}");
    // The path has flows, which drop from the longest.
    let lost: u64 = ["dropped_full", "dropped_from_longest", "dropped_by_aqm"]
        .map(|why| number(&report, "paths", "best-effort", why))
        .iter()
        .sum();
    assert!(lost > 0, "no overload: {report:#}");
}

/// The flow continues during a flood while its contract changes, one path is added and one removed.
#[test]
fn a_reload_loses_no_packet_of_a_kept_path() {
    const PACKETS: u64 = 2_000;
    const STATUS: &str = "127.0.0.1:9817";
    let network = Network::new();
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let before =
        network.router().replacen("[router]\n", &format!("[router]\nstatus = \"{STATUS}\"\n"), 1);
    fs::write(&file, &before).unwrap();
    let counted = network.count("sink", "b0", "udp and ip[1] & 0xfc == 0xb8", PACKETS);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    let privileges = router.privileges();
    for part in [
        "CapPrm:\t0000000000006000",
        "CapEff:\t0000000000006000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(privileges.contains(part), "{privileges}");
    }
    let threads = router.threads();
    assert!(threads.len() >= 3, "threads for forwarding, signals and HTTP: {threads:?}");
    assert!(threads.iter().all(|status| status.contains("Seccomp:\t2\n")), "{threads:?}");
    let flood = packet(network.mac("router", "f1"), [10, 2, 0, 1], 0, 60);
    let flood = network.flood("source", "f0", flood);
    let voice = packet(network.mac("router", "a1"), [10, 2, 0, 1], VOICE, 200);
    let half = PACKETS / 2;
    network.send("source", "a0", &voice, half, Duration::from_micros(250));
    // A wrong file changes nothing.
    fs::write(&file, before.replace("weight = 100", "weight = 0")).unwrap();
    router.reload();
    network
        .wait_until("the wrong file is rejected", || router.has_logged("the reload was rejected"));
    let after = before.replace("weight = 100", "weight = 50").replace("best-effort", "the-rest");
    fs::write(&file, after).unwrap();
    router.reload();
    network.send("source", "a0", &voice, half, Duration::from_micros(250));
    let arrived = counted.join().unwrap();
    let metrics = network.get("router", STATUS, "/metrics");
    assert!(metrics.contains("millstream_reloads_total{} 1\n"), "{metrics}");
    let sent = "millstream_path_packets_total{path=\"voice\",outcome=\"sent\"} 2000\n";
    assert!(metrics.contains(sent), "{metrics}");
    assert!(metrics.contains("millstream_unaccounted_packets{} 0\n"), "{metrics}");
    let missing = network.get("router", STATUS, "/nothing");
    assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
    let top =
        [env!("CARGO_BIN_EXE_millstream"), "top", STATUS, "--interval", "50 ms", "--count", "2"];
    assert!(network.get("router", STATUS, "/").contains("<!DOCTYPE html>"));
    let top = network.execute("router", &top);
    assert!(
        top.contains("voice") && top.contains("reserved") && top.contains("(removed)"),
        "{top}"
    );
    flood.stop();
    let report = router.stop();
    assert_eq!(arrived, PACKETS, "{report:#}");
    assert_eq!(report["reloads"], 1);
    assert_eq!(number(&report, "paths", "voice", "sent"), PACKETS);
    assert!(number(&report, "paths", "the-rest", "received") > 0);
    assert!(number(&report, "paths", "(removed)", "dropped_by_reload") > 0, "{report:#}");
    assert_eq!(report["unaccounted"], 0);
}

/// Hosts know only the router's address; ping and TCP are the kernel's.
#[test]
fn arp_ping_and_icmp_errors_work_between_hosts() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    fs::write(
        &file,
        r#"
[router]
[[port]]
name = "a1"
kind = "interface"
io = "packet"
rate = "1 Gbps"
address = "10.1.0.1/24"
[[port]]
name = "b1"
kind = "interface"
io = "packet"
rate = "1 Gbps"
address = "10.2.0.1/24"
[[path]]
name = "all"
[[route]]
prefix = "10.3.0.0/16"
port = "b1"
via = "10.2.0.2"
"#,
    )
    .unwrap();
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.host("sink", "b0", "10.2.0.2/24", "10.2.0.1");
    network.execute("sink", &["ip", "address", "add", "10.3.0.1/32", "dev", "b0"]);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    let ping = |more: &[&str]| network.try_execute("source", &[&["ping", "-n"], more].concat());
    let text = ping(&["-c", "3", "-i", "0.2", "10.1.0.1"]);
    assert!(text.contains("3 received"), "the router itself: {text}");
    for host in ["10.2.0.2", "10.3.0.1"] {
        let text = ping(&["-c", "3", "-i", "0.2", host]);
        // The first packet waits for neighbour resolution.
        assert!(text.contains("3 received"), "{host}: {text}");
        assert!(text.contains("ttl=63"), "{text}");
    }
    let text = ping(&["-c", "1", "-t", "1", "10.2.0.2"]);
    assert!(text.contains("From 10.1.0.1") && text.contains("Time to live exceeded"), "{text}");
    let text = ping(&["-c", "1", "10.9.0.1"]);
    assert!(text.contains("Destination Net Unreachable"), "{text}");
    let text = ping(&["-c", "6", "-i", "1", "10.2.0.77"]);
    assert!(text.contains("From 10.1.0.1") && text.contains("Host Unreachable"), "{text}");
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7000", 4 << 20);
    assert_eq!(sent, received);
    let report = router.stop();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert!(number(&report, "ports", "a1", "originated") > 5, "{report:#}");
}

/// The file has no routes and addresses: they come from the kernel and change during the test.
#[test]
fn routes_and_neighbours_follow_the_kernel() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let port =
        |name| format!("[[port]]\nname = \"{name}\"\nkind = \"interface\"\nrate = \"1 Gbps\"\n");
    let ports = port("a1") + &port("b1");
    let text = format!("[router]\nkernel-routes = true\n{ports}[[path]]\nname = \"all\"\n");
    fs::write(&file, text).unwrap();
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.host("sink", "b0", "10.2.0.2/24", "10.2.0.1");
    network.execute("sink", &["ip", "address", "add", "10.3.0.1/32", "dev", "b0"]);
    let kernel = |command: &str| {
        let command = [&["ip"][..], &command.split(' ').collect::<Vec<_>>()].concat();
        network.execute("router", &command);
    };
    kernel("address add 10.1.0.1/24 dev a1");
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    kernel("address add 10.2.0.1/24 dev b1");
    let ping =
        |host: &str| network.try_execute("source", &["ping", "-n", "-c", "1", "-W", "1", host]);
    let until = |host: &str, part: &str| {
        let answers = (0..20).map(|_| ping(host));
        let last = answers.inspect(|_| thread::sleep(Duration::from_millis(50)));
        assert!(last.into_iter().any(|text| text.contains(part)), "{host}: not {part}");
    };
    let text = network.execute("source", &["ping", "-n", "-c", "2", "-i", "0.2", "10.1.0.1"]);
    assert!(!text.contains("DUP!"), "only the kernel answers: {text}");
    until("10.2.0.2", "ttl=63");
    until("10.3.0.1", "From 10.1.0.1 icmp_seq=1 Destination Net Unreachable");
    kernel("route add 10.3.0.0/16 via 10.2.0.2");
    until("10.3.0.1", "ttl=63");
    kernel("route add blackhole 10.3.0.0/24");
    until("10.3.0.1", "Net Unreachable");
    kernel("route del blackhole 10.3.0.0/24");
    until("10.3.0.1", "ttl=63");
    // A link that comes up again gets back its connected route, but not its static routes.
    kernel("link set b1 down");
    until("10.2.0.2", "Net Unreachable");
    kernel("link set b1 up");
    until("10.2.0.2", "ttl=63");
    until("10.3.0.1", "Net Unreachable");
    // A neighbour that only the kernel has.
    let sink = network.mac("sink", "b0").map(|byte| format!("{byte:02x}")).join(":");
    let silent = network.record("sink", "b0", "ip and dst host 10.2.0.77");
    kernel(&format!("neighbour replace 10.2.0.77 lladdr {sink} dev b1 nud permanent"));
    thread::sleep(Duration::from_millis(200));
    ping("10.2.0.77");
    assert_eq!(silent.stop().len(), 1);
    let report = router.stop();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
}

/// An interface is removed while packets are queued for it, and created again.
#[test]
fn a_removed_and_recreated_interface_is_reopened_and_counted() {
    const PACKETS: u64 = 100;
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let kind = "kind = \"interface\"\n";
    fs::write(&file, network.router().replace(kind, &format!("{kind}io = \"packet\"\n"))).unwrap();
    let sink = network.mac("sink", "b0");
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    let voice = packet(network.mac("router", "a1"), [10, 2, 0, 1], VOICE, 200);
    network.execute("router", &["ip", "link", "del", "b1"]);
    network.send("source", "a0", &voice, PACKETS, Duration::from_micros(250));
    network.join("router", "b1", "sink", "b0", Some(sink));
    let counted = network.count("sink", "b0", "udp and ip[1] & 0xfc == 0xb8", PACKETS);
    network.execute("router", &["ip", "link", "set", "b1", "up"]);
    let arrived = counted.join().unwrap();
    let report = router.stop();
    assert_eq!(arrived, PACKETS, "queued packets leave by the new interface: {report:#}");
    assert_eq!(report["unaccounted"], 0);
    assert!(number(&report, "ports", "b1", "went_away") >= 1, "{report:#}");
    assert_eq!(number(&report, "paths", "voice", "sent"), PACKETS);
}

#[test]
fn packets_of_a_tap_device_are_routed() {
    let network = Network::new();
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let wan = ROUTER_FILE.find("[[port]]\nname = \"wan\"").unwrap();
    let lan = "[router]\nstatus = \"127.0.0.1:9817\"\n[[port]]\nname = \"t0\"\nkind = \"tap\"\n\
     rate = \"1 Gbps\"\n\
               mac = \"02:00:00:00:00:01\"\n";
    let rest = ROUTER_FILE[wan..].replace("port = \"lan\"", "port = \"t0\"");
    fs::write(&file, format!("{lan}{rest}")).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    network.send_by_kernel("t0", "02:00:00:00:00:01", 20);
    let sent = "path_packets_total{path=\"best-effort\",outcome=\"sent\"} 20\n";
    network.wait_until("all have been sent", || {
        network.get("router", "127.0.0.1:9817", "/metrics").contains(sent)
    });
    let report = router.stop();
    assert_eq!(number(&report, "paths", "best-effort", "sent"), 20, "{report:#}");
    assert_eq!(number(&report, "ports", "wan", "transmitted"), 20);
    assert_eq!(report["unaccounted"], 0);
}
