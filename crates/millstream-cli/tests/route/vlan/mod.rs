//! Tests of VLANs: hosts in different VLANs of one wire, captures with tags, and mistakes.

mod switch;

use serde_json::Value;
use std::fs;
use tempfile::TempDir;

use crate::network::Network;
use crate::{ROUTER, millstream, number, outcome, packet, write_capture};
use switch::{Access, Switch};

/// Returns a router file with three VLANs of one wire, the last with NAT.
fn file(io: &str) -> String {
    let port = |name: &str, more: &str| {
        format!(
            "[[port]]\nname = \"{name}\"\nkind = \"interface\"\ninterface = \"a1\"\nio = \"{io}\"\n\
             rate = \"1 Gbps\"\n{more}\n"
        )
    };
    format!(
        "[router]\nname = \"vlans\"\n{}{}{}\
         [[path]]\nname = \"calls\"\nmatch = {{ pcp = 5, vlan = 10 }}\nqueue = 2048\n\
         [[path]]\nname = \"office\"\nmatch = {{ vlan = 20 }}\nqueue = 2048\n\
         [[path]]\nname = \"all\"\nqueue = 2048\n",
        port("phones", "vlan = 10\naddress = [\"10.1.0.1/24\", \"2001:db8:1::1/64\"]"),
        port("office", "vlan = 20\naddress = [\"10.2.0.1/24\", \"2001:db8:2::1/64\"]"),
        port("away", "vlan = 30\nmac = \"02:00:00:00:00:30\"\naddress = \"10.3.0.1/24\"\nnat = {}"),
    )
}

/// Configures the hosts and starts a switch between them and the wire from a0 to a1.
///
/// `source` is in VLAN 10, with a priority, and `sink` in VLANs 20 and 30.
fn hosts(network: &Network) -> Switch {
    let access = |namespace, device, pcp, vlan| Access { namespace, device, pcp, vlan };
    for (host, device, port) in
        [("source", "v10", "s10"), ("sink", "v20", "s20"), ("sink", "v30", "s30")]
    {
        network.add_veth_pair(host, device, port);
    }
    for (host, device, of) in [("source", "v10", 1), ("sink", "v20", 2)] {
        network.host(host, device, &format!("10.{of}.0.2/24"), &format!("10.{of}.0.1"));
        // The switch of this test does not segment packets.
        network.execute(host, &["ethtool", "-K", device, "tx", "off"]);
    }
    let execute = |host: &str, command: &str| {
        network.execute(host, &command.split(' ').collect::<Vec<_>>());
    };
    execute("sink", "ip address add 10.3.0.2/24 dev v30");
    // The host answers ARP only on the interface that has the address.
    execute("sink", "sysctl -q -w net.ipv4.conf.all.arp_ignore=1");
    for (host, of, device) in [("source", 1, "v10"), ("sink", 2, "v20")] {
        execute(host, &format!("ip -6 address add 2001:db8:{of}::2/64 dev {device} nodad"));
        execute(host, &format!("ip -6 route add default via 2001:db8:{of}::1"));
    }
    let ports = vec![
        access("source", "s10", 5, 10),
        access("sink", "s20", 0, 20),
        access("sink", "s30", 0, 30),
    ];
    Switch::start(network, ("source", "a0"), ports)
}

/// Tests ARP, neighbour discovery, ICMP errors, the MTU, NAT and TCP between VLANs of one wire.
fn routes_between_vlans(io: &str) {
    let network = Network::new();
    let switch = hosts(&network);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    fs::write(&path, file(io)).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let ping = |more: &[&str]| {
        network.try_execute("source", &[&["ping", "-n", "-i", "0.2"], more].concat())
    };
    for host in ["10.2.0.2", "2001:db8:2::2", "10.3.0.2"] {
        let text = ping(&["-c", "3", host]);
        assert!(text.contains("3 received") && text.contains("ttl=63"), "{host}: {text}");
    }
    let text = ping(&["-c", "1", "-t", "1", "10.2.0.2"]);
    assert!(text.contains("From 10.1.0.1") && text.contains("Time to live exceeded"), "{text}");
    // The longest packet that the wire carries without a tag.
    let text = ping(&["-c", "2", "-M", "do", "-s", "1472", "10.2.0.2"]);
    assert!(text.contains("2 received"), "{text}");
    let (sent, received) = network.transfer("source", "sink", "10.2.0.2:7000", 1 << 20);
    assert_eq!(sent, received);
    let (sent, received) = network.transfer("sink", "source", "10.1.0.2:7001", 1 << 20);
    assert_eq!(sent, received);
    let (report, log) = router.stop_with_log();
    assert_eq!(report["unaccounted"], 0, "{log}{report:#}");
    let path = |name: &str| number(&report, "paths", name, "sent");
    assert!(path("calls") > 700 && path("office") > 700 && path("all") > 0, "{report:#}");
    let tags = switch.stop();
    assert!(tags.contains(&(5, 20)), "a request keeps its priority: {tags:?}");
    assert!(tags.iter().all(|(_, vlan)| [10, 20, 30].contains(vlan)), "{tags:?}");
}

#[test]
fn the_router_connects_vlans_of_one_wire() {
    routes_between_vlans("packet");
}

#[test]
fn the_router_connects_vlans_by_af_xdp() {
    routes_between_vlans("xdp");
}

fn tagged(frame: &[u8], tags: &[u16]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|tag| [[0x81, 0], tag.to_be_bytes()].concat());
    [frame[..12].to_vec(), tags.collect(), frame[12..].to_vec()].concat()
}

const CAPTURES: &str = r#"
[router]
[[port]]
name = "a"
kind = "pcap"
input = "in.pcap"
output = "out.pcap"
mac = "02:00:00:00:00:01"
rate = "1 Gbps"
vlan = 10
[[port]]
name = "b"
kind = "pcap"
input = "in.pcap"
output = "out.pcap"
mac = "02:00:00:00:00:01"
rate = "1 Gbps"
overhead = 20
vlan = 4094
pcp = "dscp"
[[path]]
name = "urgent"
match = { pcp = 7 }
[[path]]
name = "from b"
match = { vlan = 4094 }
action = "drop"
[[path]]
name = "rest"
[[route]]
prefix = "10.2.0.0/16"
port = "b"
neighbour = "02:00:00:00:02:01"
"#;

#[test]
fn one_capture_has_several_vlans_and_unknown_vlans_are_counted() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("router.toml"), CAPTURES).unwrap();
    let plain = packet(ROUTER, [10, 2, 0, 1], 46, 200);
    let ten = 10;
    let frames = [
        vec![tagged(&plain, &[ten]); 5],
        vec![tagged(&plain, &[7 << 13 | ten]); 4],
        vec![tagged(&plain, &[4_094]); 3],
        vec![
            tagged(&plain, &[11]),
            tagged(&plain, &[ten, ten]),
            plain.clone(),
            plain[..14].to_vec(),
        ],
    ];
    write_capture(&at("in.pcap"), &frames.concat());
    let (status, report, errors) =
        outcome(millstream().arg("route").arg(at("router.toml")).arg("--json"));
    assert_eq!(status, 0, "{errors}");
    let report: Value = serde_json::from_str(&report).unwrap();
    let of = |list: &str, name: &str, key: &str| number(&report, list, name, key);
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert_eq!(of("paths", "urgent", "sent"), 4, "{report:#}");
    assert_eq!(of("paths", "from b", "dropped_by_action"), 3);
    assert_eq!(of("paths", "rest", "sent"), 5);
    assert_eq!(
        of("ports", "a", "unknown_vlan") + of("ports", "b", "unknown_vlan"),
        4,
        "{report:#}"
    );
    assert_eq!(of("ports", "a", "received") + of("ports", "b", "received"), 16);
    let mut written = pcap::Capture::from_file(at("out.pcap")).unwrap();
    let mut count = 0;
    while let Ok(frame) = written.next_packet() {
        // The class of code point 46 is 5.
        assert_eq!(frame.data[12..16], [0x81, 0, 5 << 5 | 0xf, 0xfe]);
        assert_eq!(frame.data.len(), 204);
        count += 1;
    }
    assert_eq!(count, 9);
}

#[test]
fn mistakes_about_vlans_are_errors_with_their_location() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    for (right, wrong, parts) in [
        ("vlan = 10\n", "vlan = 0\n", &["a `vlan` of 0", "from 1 to 4094"][..]),
        ("vlan = 10\n", "vlan = 4095\n", &["a `vlan` of 4095", "from 1 to 4094"]),
        (
            "vlan = 10\n",
            "vlan = 4094\n",
            &["ports `a` and `b` are both for VLAN 4094", "different"],
        ),
        ("vlan = 10\n", "pcp = \"keep\"\n", &["`pcp` of port `a`", "have no tag", "`vlan`"]),
        ("pcp = \"dscp\"", "pcp = \"dhcp\"", &["`keep` or `dscp`"]),
        ("pcp = 7", "pcp = 8", &["a `pcp` of 8", "from 0 to 7"]),
        ("vlan = 4094 }", "vlan = 4095 }", &["a `vlan` of 4095", "from 1 to 4094"]),
        ("vlan = 4094 }", "vlan = 12 }", &["no port has VLAN 12", "`vlan = 12`"]),
        ("vlan = 4094 }", "vlans = 12 }", &["did you mean `vlan`"]),
    ] {
        assert!(CAPTURES.contains(right), "{right}");
        fs::write(&file, CAPTURES.replacen(right, wrong, 1)).unwrap();
        let (status, _, errors) = outcome(millstream().arg("check").arg(&file));
        assert_eq!(status, 2, "{wrong}: {errors}");
        let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(errors.contains(part), "{wrong}: {errors} lacks {part}");
        }
    }
    let interfaces = "[router]\n[[port]]\nname = \"a\"\nkind = \"interface\"\nrate = \"1 Gbps\"\n\
        address = \"10.1.0.1/24\"\n[[port]]\nname = \"b\"\nkind = \"interface\"\ninterface \
        = \"a\"\n\
        rate = \"1 Gbps\"\nio = \"xdp\"\n[[path]]\nname = \"all\"\n";
    fs::write(&file, interfaces).unwrap();
    let (status, _, errors) = outcome(millstream().arg("check").arg(&file));
    let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(status, 2, "{errors}");
    for part in ["ports `a` and `b` open `a` differently", "both for frames of `a` without a VLAN"]
    {
        assert!(errors.contains(part), "{errors} lacks {part}");
    }
}
