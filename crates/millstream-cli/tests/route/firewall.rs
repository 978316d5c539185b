//! Tests of paths with a `filter` and of paths that drop: packets are dropped at classification and
//! counted, and a reload changes the action.

use etherparse::PacketBuilder;
use serde_json::Value;
use std::time::{Duration, Instant};
use std::{fs, thread};
use tempfile::TempDir;

use crate::network::Network;
use crate::{ROUTER, ROUTER_FILE, VOICE, millstream, number, outcome, packet, write_capture};

/// Paths before all others: no TCP to port 22, and only web traffic and ICMP to 10.2.0.9.
const FIREWALL: &str = r#"
[[path]]
name = "no shell"
match = { protocol = "tcp", destination-port = 22 }
action = "drop"

[[path]]
name = "web"
match = { filter = "tcp dst port 80 or 443" }

[[path]]
name = "shielded"
match = { filter = "dst host 10.2.0.9 and not icmp" }
action = "drop"
"#;

fn file(firewall: &str) -> String {
    let at = ROUTER_FILE.find("[[path]]").unwrap();
    format!("{}{firewall}\n{}", &ROUTER_FILE[..at], &ROUTER_FILE[at..])
}

fn tcp(host: u8, port: u16) -> Vec<u8> {
    let ip = PacketBuilder::ethernet2([4; 6], ROUTER).ipv4([10, 1, 0, 1], [10, 2, 0, host], 9);
    let mut frame = Vec::new();
    ip.tcp(40_000, port, 1, 1).write(&mut frame, &[0; 20]).unwrap();
    frame
}

#[test]
fn drop_paths_drop_at_classification_and_count() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("router.toml"), file(FIREWALL)).unwrap();
    let frames: Vec<_> = (0..40)
        .flat_map(|_| {
            [
                tcp(1, 22),
                tcp(9, 22),
                tcp(9, 80),
                tcp(9, 81),
                tcp(1, 81),
                packet(ROUTER, [10, 2, 0, 9], VOICE, 60),
                packet(ROUTER, [10, 2, 0, 1], VOICE, 60),
            ]
        })
        .collect();
    write_capture(&at("in.pcap"), &frames);
    let (status, report, errors) =
        outcome(millstream().arg("route").arg(at("router.toml")).arg("--json"));
    assert_eq!(status, 0, "{errors}");
    let report: Value = serde_json::from_str(&report).unwrap();
    for (path, received, dropped, sent) in [
        ("no shell", 80, 80, 0),
        ("web", 40, 0, 40),
        ("shielded", 80, 80, 0),
        ("voice", 40, 0, 40),
        ("best-effort", 40, 0, 40),
    ] {
        let of = |key: &str| number(&report, "paths", path, key);
        let is = (of("received"), of("dropped_by_action"), of("sent"));
        assert_eq!(is, (received, dropped, sent), "{path}: {report:#}");
        assert_eq!(of("dropped_full"), 0);
    }
    assert_eq!(report["unaccounted"], 0);
    let processes: Vec<_> =
        report["processes"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(processes[2..5], ["path web", "path voice", "path best-effort"], "{processes:?}");
    let (status, said, errors) = outcome(millstream().arg("check").arg(at("router.toml")));
    assert_eq!(status, 0, "{errors}");
    assert!(said.lines().any(|line| line.contains("shielded") && line.contains("dropped")));
}

#[test]
fn invalid_keys_of_drop_paths_are_errors() {
    let folder = TempDir::new().unwrap();
    let at = folder.path().join("router.toml");
    for key in ["queue = 9", "reservation = \"1 Mcps\"", "to = \"wan\"", "weight = 2"] {
        let wrong = FIREWALL.replacen("action", &format!("{key}\naction"), 1);
        fs::write(&at, file(&wrong)).unwrap();
        let (status, _, errors) = outcome(millstream().arg("check").arg(&at));
        let name = key.split(' ').next().unwrap();
        let said = format!("`{name}` of path `no shell`, whose action is \"drop\"");
        assert!(status == 2 && errors.contains(&said), "{key}: {errors}");
    }
    fs::write(&at, file(&FIREWALL.replace("\"drop\"", "\"dorp\""))).unwrap();
    let (status, _, errors) = outcome(millstream().arg("check").arg(&at));
    assert!(status == 2 && errors.contains("dorp") && errors.contains("forward"), "{errors}");
}

#[test]
fn a_reload_switches_a_path_between_drop_and_forward() {
    const PACKETS: u64 = 200;
    const STATUS: &str = "127.0.0.1:9817";
    let network = Network::new();
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let forwards =
        network.router().replacen("[router]\n", &format!("[router]\nstatus = \"{STATUS}\"\n"), 1);
    let contract = "reservation = \"100 Mcps\"\nqueue = 2048\nweight = 100\n";
    assert!(forwards.contains(contract));
    let drops = forwards.replace(contract, "action = \"drop\"\n");
    let filter = "match = { filter = \"ip[1] & 0xfc = 0xb8\" }";
    let drops = drops.replace("match = { dscp = 46 }", filter);
    fs::write(&file, &forwards).unwrap();
    let counted = network.count("sink", "b0", "udp and ip[1] & 0xfc == 0xb8", 2 * PACKETS);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    let voice = packet(network.mac("router", "a1"), [10, 2, 0, 1], VOICE, 60);
    // The queues must be empty at a reload: it drops the queued packets of a new drop path.
    let until = |list: &str, name: &str, key: &str, count: u64| {
        let began = Instant::now();
        loop {
            let answer = network.get("router", STATUS, "/status");
            let body = answer.split_once("\r\n\r\n").unwrap().1;
            let report: Value = serde_json::from_str(body).unwrap();
            let is = if list.is_empty() {
                report[key].as_u64().unwrap()
            } else {
                number(&report, list, name, key)
            };
            if is >= count {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{name} {key}: {report:#}");
            thread::sleep(Duration::from_millis(10));
        }
    };
    network.send("source", "a0", &voice, PACKETS, Duration::from_micros(100));
    until("paths", "voice", "sent", PACKETS);
    for (reloads, text) in [(1, &drops), (2, &forwards)] {
        fs::write(&file, text).unwrap();
        router.reload();
        until("", "", "reloads", reloads);
        network.send("source", "a0", &voice, PACKETS, Duration::from_micros(100));
        until("paths", "voice", "received", PACKETS * (reloads + 1));
    }
    let arrived = counted.join().unwrap();
    let metrics = network.get("router", STATUS, "/metrics");
    let dropped = "millstream_path_packets_total{path=\"voice\",outcome=\"action\"} 200\n";
    assert!(metrics.contains(dropped), "{metrics}");
    let measured = "millstream_path_delay_seconds_count{path=\"voice\"} 400\n";
    assert!(metrics.contains(measured), "{metrics}");
    let began = Instant::now();
    loop {
        let answer = network.get("router", STATUS, "/history/hour");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let history: Value = serde_json::from_str(body).unwrap();
        let voice = history["series"].as_array().unwrap().iter().find(|of| of["name"] == "voice");
        if voice.is_some_and(|of| !of["values"][0].as_array().unwrap().is_empty()) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no sample: {history:#}");
        thread::sleep(Duration::from_millis(100));
    }
    let report = router.stop();
    assert_eq!(arrived, 2 * PACKETS, "{report:#}");
    assert_eq!(number(&report, "paths", "voice", "sent"), 2 * PACKETS);
    let voice = report["paths"].as_array().unwrap().iter().find(|path| path["name"] == "voice");
    assert_eq!(voice.unwrap()["delay"]["packets"], 2 * PACKETS, "a reload keeps the delays");
    assert_eq!(number(&report, "paths", "voice", "dropped_by_action"), PACKETS);
    assert_eq!(report["unaccounted"], 0);
}
