//! Hosts behind an address of the router, by the kernel's own ping, TCP and UDP.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use tempfile::TempDir;

use crate::network::{Network, Running, Watch};

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
    // The host says that nobody listens there.
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
