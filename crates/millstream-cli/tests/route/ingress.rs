//! Tests of ingress ports: the link that a port's received packets pass.

use serde_json::Value;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::Network;
use crate::{ROUTER, VOICE, millstream, number, outcome, packet, write_capture};

/// A router that receives at `wan` and sends by `lan`; what it receives passes 10 Mbit/s.
const FILE: &str = r#"
[router]

[[port]]
name = "lan"
kind = "pcap"
output = "out.pcap"
mac = "02:00:00:00:00:02"
rate = "1 Gbit/s"

[[port]]
name = "wan"
kind = "pcap"
input = "in.pcap"
mac = "02:00:00:00:00:01"
rate = "1 Gbit/s"

[[port]]
name = "down"
kind = "ingress"
of = "wan"
rate = "10 Mbit/s"
discipline = "static-priority"

[[path]]
name = "voice"
match = { dscp = "ef" }
priority = 1
queue = 600

[[path]]
name = "best-effort"
queue = 600
priority = 2

[[route]]
prefix = "10.2.0.0/16"
port = "lan"
neighbour = "02:00:00:00:02:01"
"#;

#[test]
fn received_packets_pass_the_ingress_link_and_no_packet_is_lost() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("router.toml"), FILE).unwrap();
    let dscp = |k: u8| if k.is_multiple_of(5) { VOICE } else { 0 };
    let frames = (0..250u8).chain(0..250).map(|k| packet(ROUTER, [10, 2, 0, k], dscp(k), 500));
    write_capture(&at("in.pcap"), &frames.collect::<Vec<_>>());
    let (status, report, errors) =
        outcome(millstream().arg("route").arg(at("router.toml")).arg("--json"));
    assert_eq!(status, 0, "{errors}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    for (port, received, transmitted) in [("wan", 500, 0), ("down", 500, 500), ("lan", 0, 500)] {
        assert_eq!(number(&report, "ports", port, "received"), received, "{port}");
        assert_eq!(number(&report, "ports", port, "transmitted"), transmitted, "{port}");
    }
    // A path counts a packet once.
    assert_eq!(number(&report, "paths", "voice", "sent"), 100);
    assert_eq!(number(&report, "paths", "best-effort", "sent"), 400);
    assert_eq!(number(&report, "paths", "best-effort", "sent_bytes"), 200_000);

    let mut copy = pcap::Capture::from_file(at("out.pcap")).unwrap();
    let (mut times_us, mut voice) = (Vec::new(), Vec::new());
    while let Ok(packet) = copy.next_packet() {
        let time = packet.header.ts;
        times_us.push(time.tv_sec * 1_000_000 + time.tv_usec);
        voice.push(packet.data[15] >> 2 == VOICE);
    }
    assert_eq!(times_us.len(), 500);
    // 500 packets of 400 µs; the device may take 100 µs at once.
    let took_us = times_us[499] - times_us[0];
    assert!(took_us > 195_000, "{took_us} µs");
    // The capture is read faster than it passes: voice overtakes there.
    let last_voice = voice.iter().rposition(|is_voice| *is_voice).unwrap();
    assert!(last_voice < 300, "the last packet of voice is number {last_voice}");
}

#[test]
fn a_flood_from_an_interface_leaves_with_the_spacing_of_the_ingress_link() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    network.execute("sink", &["ip", "address", "add", "10.2.0.2/24", "dev", "b0"]);
    let file = r#"
[router]
[[port]]
name = "a1"
kind = "interface"
rate = "1 Gbit/s"
[[port]]
name = "b1"
kind = "interface"
rate = "1 Gbit/s"
address = "10.2.0.1/24"
[[port]]
name = "down"
kind = "ingress"
of = "a1"
rate = "20 Mbit/s"
[[path]]
name = "all"
queue = 32
"#;
    fs::write(&path, file).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let frame = packet(network.mac("router", "a1"), [10, 2, 0, 2], 0, 1_500);
    // Twice the rate of the link, for 0.6 s.
    network.send("source", "a0", &frame, 2_000, Duration::from_micros(300));
    let report = router.stop();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    let sent = number(&report, "paths", "all", "sent");
    let dropped = number(&report, "paths", "all", "dropped_full");
    assert!(dropped > 200, "the link was never full: {report:#}");
    // 1 s passes 1,667 packets, and the router ran for longer than the flood.
    let ran_ns = report["elapsed_ns"].as_u64().unwrap();
    assert!(sent <= ran_ns / 600_000 + 1, "{sent} packets in {ran_ns} ns");
    assert_eq!(number(&report, "ports", "down", "transmitted"), sent);
}
