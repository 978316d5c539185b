//! Tests of TUN devices: hosts that send IP packets without hardware addresses, and mistakes.

use std::fs;
use tempfile::TempDir;

use crate::network::Network;
use crate::{millstream, number, outcome};

const FILE: &str = r#"
[router]
name = "tunnels"
[[port]]
name = "t1"
kind = "tun"
rate = "1 Gbps"
address = ["10.1.0.1/24", "2001:db8:1::1/64"]
[[port]]
name = "t2"
kind = "tun"
rate = "1 Gbps"
address = ["10.2.0.1/24", "2001:db8:2::1/64"]
[[path]]
name = "all"
queue = 2048
[[route]]
prefix = "10.9.0.0/16"
port = "t2"
neighbour = "02:00:00:00:00:02"
"#;

/// The router resolves neighbours as on Ethernet; on a TUN device the resolution is immediate.
#[test]
fn hosts_behind_tun_devices_reach_each_other_and_the_router() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    fs::write(&file, FILE).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    for (device, namespace, of) in [("t1", "source", 1), ("t2", "sink", 2)] {
        network.move_device("router", device, namespace);
        network.host(namespace, device, &format!("10.{of}.0.2/24"), &format!("10.{of}.0.1"));
        let v6 = |command: &str| {
            let command = format!("ip -6 {command}");
            network.execute(namespace, &command.split(' ').collect::<Vec<_>>());
        };
        v6(&format!("address add 2001:db8:{of}::2/64 dev {device} nodad"));
        v6(&format!("route add default via 2001:db8:{of}::1 dev {device} onlink"));
    }
    network.execute("sink", &["ip", "address", "add", "10.9.0.9/32", "dev", "t2"]);
    let hosts = ["10.1.0.1", "10.2.0.2", "10.9.0.9", "2001:db8:1::1", "2001:db8:2::2"];
    for host in hosts {
        let ping = ["ping", "-n", "-c", "3", "-i", "0.2", host];
        let text = network.try_execute("source", &ping);
        assert!(text.contains("3 received"), "{host}: {text}");
    }
    let text = network.try_execute("source", &["ping", "-n", "-c", "1", "-t", "1", "10.2.0.2"]);
    assert!(text.contains("From 10.1.0.1") && text.contains("Time to live exceeded"), "{text}");
    for (from, to, address) in [
        ("source", "sink", "10.2.0.2:7001"),
        ("sink", "source", "10.1.0.2:7002"),
        ("source", "sink", "[2001:db8:2::2]:7003"),
    ] {
        let (sent, received) = network.transfer(from, to, address, 2 << 20);
        assert_eq!(sent, received, "{address}");
    }
    let (report, log) = router.stop_with_log();
    assert_eq!(report["unaccounted"], 0, "{log}{report:#}");
    for port in ["t1", "t2"] {
        assert!(number(&report, "ports", port, "received") > 1_000, "{report:#}");
        assert_eq!(number(&report, "ports", port, "unsupported"), 0, "{report:#}");
    }
}

#[test]
fn mistakes_about_tun_devices_are_errors_with_their_location() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    let kind = "kind = \"tun\"\n";
    for (wrong, parts) in [
        ("kind = \"tun\"\nvlan = 7\n", &["`vlan` of port `t1`", "a TUN device", "\"tap\""][..]),
        ("kind = \"tun\"\nio = \"xdp\"\n", &["`io` does not belong to a port of this kind"]),
        ("kind = \"tunnel\"\n", &["`tunnel`", "`interface`, `tap`, `tun`,"]),
    ] {
        fs::write(&file, FILE.replacen(kind, wrong, 1)).unwrap();
        let (status, _, errors) = outcome(millstream().arg("check").arg(&file));
        assert_eq!(status, 2, "{wrong}: {errors}");
        let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(errors.contains(part), "{wrong}: {errors} lacks {part}");
        }
    }
}

/// A device that goes down and up works again, and the router survives a deleted device.
#[test]
fn devices_that_go_down_or_are_deleted_are_survived_and_counted() {
    for kind in ["tun", "tap"] {
        let network = Network::new();
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("router.toml");
        fs::write(&file, FILE.replace("\"tun\"", &format!("\"{kind}\""))).unwrap();
        let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
        for (device, namespace, of) in [("t1", "source", 1), ("t2", "sink", 2)] {
            network.move_device("router", device, namespace);
            let gateway = format!("10.{of}.0.1");
            network.host(namespace, device, &format!("10.{of}.0.2/24"), &gateway);
        }
        let ping = |count: &str| {
            let ping = ["ping", "-n", "-c", count, "-i", "0.1", "-W", "1", "10.2.0.2"];
            network.try_execute("source", &ping)
        };
        assert!(ping("3").contains(" 3 received"), "{kind}");
        network.execute("sink", &["ip", "link", "set", "t2", "down"]);
        assert!(ping("5").contains(" 0 received"), "{kind}");
        network.execute("sink", &["ip", "link", "set", "t2", "up"]);
        network.execute("sink", &["ip", "route", "add", "default", "via", "10.2.0.1"]);
        network.wait_until("the device works again", || ping("1").contains(" 1 received"));
        assert!(ping("3").contains(" 3 received"), "{kind}");
        network.execute("sink", &["ip", "link", "del", "t2"]);
        assert!(ping("5").contains(" 0 received"), "{kind}");
        let text = network.try_execute("source", &["ping", "-n", "-c", "1", "10.1.0.1"]);
        assert!(text.contains("1 received"), "{kind}: the router itself: {text}");
        let (report, log) = router.stop_with_log();
        assert_eq!(report["unaccounted"], 0, "{log}{report:#}");
        assert_eq!(number(&report, "ports", "t2", "went_away"), 2, "{log}{report:#}");
        assert_eq!(number(&report, "ports", "t1", "went_away"), 0, "{log}{report:#}");
    }
}
