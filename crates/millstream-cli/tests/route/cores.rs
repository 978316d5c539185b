//! Tests of a router on two cores: packets pass between cores for forwarding and transmission.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

use crate::network::Network;
use crate::{ROUTER, VOICE, millstream, number, outcome, packet, write_capture};

/// Routes captures by `file`; returns the report and the sent frames in order.
fn routed(folder: &Path, file: &str) -> (Value, Vec<Vec<u8>>) {
    fs::write(folder.join("router.toml"), file).unwrap();
    let (status, report, errors) =
        outcome(millstream().arg("route").arg(folder.join("router.toml")).arg("--json"));
    assert_eq!(status, 0, "{errors}");
    let mut copy = pcap::Capture::from_file(folder.join("out.pcap")).unwrap();
    let mut frames = Vec::new();
    while let Ok(packet) = copy.next_packet() {
        frames.push(packet.data.to_vec());
    }
    (serde_json::from_str(&report).unwrap(), frames)
}

#[test]
fn two_cores_send_the_packets_of_one_core_with_each_path_in_order() {
    let folder = TempDir::new().unwrap();
    let frames = (0..20_000u32).map(|k| {
        let mut frame = packet(ROUTER, [10, 2, 0, 1], [0, VOICE, 10][k as usize % 3], 200);
        frame[100..104].copy_from_slice(&k.to_be_bytes());
        frame
    });
    write_capture(&folder.path().join("in.pcap"), &frames.collect::<Vec<_>>());
    // The array has the cores of lan, wan and the three paths.
    let file = |cores: u32, [lan, wan, voice, data, rest]: [u32; 5]| {
        format!(
            r#"
[router]
cores = {cores}
[[port]]
name = "lan"
core = {lan}
kind = "pcap"
input = "in.pcap"
mac = "02:00:00:00:00:01"
rate = "1 Gbps"
[[port]]
name = "wan"
core = {wan}
kind = "pcap"
output = "out.pcap"
mac = "02:00:00:00:00:02"
rate = "1 Gbps"
[[path]]
name = "voice"
core = {voice}
match = {{ dscp = 46 }}
queue = 40
[[path]]
name = "data"
core = {data}
match = {{ dscp = 10 }}
[[path]]
name = "rest"
core = {rest}
[[route]]
prefix = "10.2.0.0/16"
port = "wan"
neighbour = "02:00:00:00:02:01"
"#
        )
    };
    let by_path = |frames: Vec<Vec<u8>>| {
        let mut paths = BTreeMap::<u8, Vec<Vec<u8>>>::new();
        for frame in frames {
            paths.entry(frame[15]).or_default().push(frame);
        }
        paths
    };
    let (_, one) = routed(folder.path(), &file(1, [0; 5]));
    assert_eq!(one.len(), 20_000);
    let one = by_path(one);
    for assignment in [[0, 1, 0, 1, 0], [1, 0, 0, 0, 1], [0, 0, 1, 1, 1]] {
        let (report, two) = routed(folder.path(), &file(2, assignment));
        assert_eq!(report["unaccounted"], 0, "{report:#}");
        assert_eq!(report["ended"], "input");
        assert!(one == by_path(two), "{assignment:?}: {report:#}");
        let on = |name: &str| {
            let rows = report["processes"].as_array().unwrap();
            rows.iter().find(|row| row["name"] == name).unwrap()["core"].as_u64().unwrap()
        };
        assert_eq!(
            [on("input lan"), on("path data")],
            [u64::from(assignment[0]), u64::from(assignment[3])]
        );
    }
    let (status, _, errors) = {
        fs::write(folder.path().join("many.toml"), file(64, [0, 1, 2, 3, 4])).unwrap();
        outcome(millstream().arg("check").arg(folder.path().join("many.toml")))
    };
    assert!(status != 0 && errors.contains("no port or path uses core"), "{errors}");
}

/// Tests ARP, neighbour discovery, ICMP errors, NAT, TCP and a reload during a flood; every packet
/// crosses between cores.
fn hosts_find_each_other(io: &str) {
    const STATUS: &str = "127.0.0.1:9817";
    let network = Network::new();
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let port = |name: &str, core: u32, more: &str| {
        format!(
            "[[port]]\nname = \"{name}\"\ncore = {core}\nkind = \"interface\"\nio = \"{io}\"\n\
             rate = \"1 Gbps\"\n{more}\n"
        )
    };
    let file = format!(
        "[router]\ncores = 2\nstatus = \"{STATUS}\"\n{}{}{}\
         [[path]]\nname = \"flood\"\nmatch = {{ port = \"f1\" }}\ncore = 1\nqueue = 64\n\
         [[path]]\nname = \"back\"\nmatch = {{ port = \"b1\" }}\ncore = 0\nqueue = 1024\n\
         [[path]]\nname = \"all\"\ncore = 1\nqueue = 1024\nweight = 100\n",
        port("a1", 0, "address = [\"10.1.0.1/24\", \"2001:db8:1::1/64\"]"),
        port("f1", 0, ""),
        port(
            "b1",
            1,
            "address = [\"10.2.0.1/24\", \"2001:db8:2::1/64\"]\nnat = { check-source = false }"
        ),
    );
    // `back` arrives on core 1 and is forwarded and sent on core 0. `all` arrives on core 0 and is
    // forwarded and sent on core 1.
    fs::write(&path, &file).unwrap();
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.execute("sink", &["ip", "address", "add", "10.2.0.2/24", "dev", "b0"]);
    for (host, of, device) in [("source", 1, "a0"), ("sink", 2, "b0")] {
        let execute = |command: &str| {
            network.execute(host, &command.split(' ').collect::<Vec<_>>());
        };
        execute(&format!("ip -6 address add 2001:db8:{of}::2/64 dev {device} nodad"));
        execute(&format!("ip -6 route add default via 2001:db8:{of}::1"));
    }
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let threads = router.threads();
    let limited = |status: &&String| status.contains("Seccomp:\t2\n");
    let poor = |status: &&String| status.contains("CapEff:\t0000000000006000");
    assert!(threads.iter().filter(limited).filter(poor).count() == threads.len(), "{threads:?}");
    assert!(threads.iter().any(|status| status.contains("Name:\tcore 1\n")), "{threads:?}");
    for host in ["10.2.0.2", "2001:db8:2::2"] {
        let text = network.try_execute("source", &["ping", "-n", "-c", "3", "-i", "0.2", host]);
        assert!(text.contains("3 received") && text.contains("ttl=63"), "{host}: {text}");
    }
    let text = network.try_execute("source", &["ping", "-n", "-c", "1", "-t", "1", "10.2.0.2"]);
    assert!(text.contains("From 10.1.0.1") && text.contains("Time to live exceeded"), "{text}");
    assert!(network.is_refused("source", "10.2.0.2:9"), "the ICMP error is translated, too");
    let flood = packet(network.mac("router", "f1"), [10, 2, 0, 2], 0, 60);
    let flood = network.flood("source", "f0", flood);
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7000", 4 << 20);
    assert_eq!(sent, received);
    let after = file.replace("weight = 100", "weight = 50").replace("\"flood\"", "\"noise\"");
    fs::write(&path, after).unwrap();
    router.reload();
    network.wait_until("the reload", || {
        network.get("router", STATUS, "/metrics").contains("path=\"noise\"")
    });
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7001", 1 << 20);
    assert_eq!(sent, received);
    let metrics = network.get("router", STATUS, "/metrics");
    assert!(metrics.contains("millstream_unaccounted_packets{} 0\n"), "{metrics}");
    let flooded = flood.stop();
    let report = router.stop();
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert!(flooded > 0 && number(&report, "paths", "noise", "received") > 0, "{report:#}");
    assert!(number(&report, "paths", "back", "sent") > 0, "{report:#}");
    assert!(number(&report, "paths", "(removed)", "received") > 0, "{report:#}");
    // The SYNs of both transfers came to core 0, their SYN-ACKs to core 1.
    let all = report["paths"].as_array().unwrap().iter().find(|path| path["name"] == "all");
    assert_eq!(all.unwrap()["tcp_rtt"]["packets"], 2, "{report:#}");
}

#[test]
fn two_cores_route_between_hosts_by_af_packet() {
    hosts_find_each_other("packet");
}

#[test]
fn two_cores_route_between_hosts_by_af_xdp() {
    hosts_find_each_other("xdp");
}
