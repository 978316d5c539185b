//! Tests of a port with `autorate` before a slower line.

use serde_json::Value;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

use crate::network::{Network, Program, Running};

const STATUS: &str = "127.0.0.1:9862";

/// Returns the report of the running router.
fn status(network: &Network) -> Value {
    let answer = network.get("router", STATUS, "/status");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Returns the port `wan` of a report.
fn wan(report: &Value) -> &Value {
    report["ports"].as_array().unwrap().iter().find(|of| of["name"] == "b1").unwrap()
}

/// Sets the rate of the line behind the router.
fn set_line(network: &Network, verb: &str, mbps: u32) {
    let rate = format!("{mbps}mbit");
    let tbf = ["tbf", "rate", &rate, "burst", "20k", "limit", "1000k"];
    let root = ["tc", "qdisc", verb, "dev", "m0", "root"];
    network.execute("sink", &[&root[..], &tbf].concat());
}

/// Pings for `seconds`; returns the round-trip times, ms, in order.
fn ping(network: &Network, seconds: u32) -> Vec<f64> {
    let count = (seconds * 20).to_string();
    let text = network
        .execute("source", &["ping", "-n", "-i", "0.05", "-W", "3", "-c", &count, "10.3.0.2"]);
    let times = text.lines().filter_map(|line| line.split("time=").nth(1));
    let mut times: Vec<f64> =
        times.map(|time| time.split(' ').next().unwrap().parse().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The bytes that the host behind the line has received so far.
fn received(network: &Network) -> u64 {
    let text = network.execute("far", &["cat", "/sys/class/net/m1/statistics/rx_bytes"]);
    text.trim().parse().unwrap()
}

/// Returns what the line carries, Mbit/s, and the round-trip times of a ping beside it, ms.
fn measured(network: &Network, seconds: u32) -> (f64, Vec<f64>) {
    let (before, began) = (received(network), Instant::now());
    let times = ping(network, seconds);
    let bits = (received(network) - before) * 8;
    #[allow(clippy::cast_precision_loss)]
    let mbps = bits as f64 / began.elapsed().as_secs_f64() / 1e6;
    (mbps, times)
}

/// Four connections over a router, configured for 20 Mbit/s, and a slower line behind it. The line
/// has a queue of 1 MB: 500 ms and more.
struct Scene {
    router: Running,
    _programs: [Program; 2],
    _folder: TempDir,
    network: Network,
}

fn scene(line_mbps: u32) -> Scene {
    let mut network = Network::new();
    network.require(&["iperf3", "tc"]);
    network.add_namespace("far");
    network.join("sink", "m0", "far", "m1", None);
    // A transmission by the router may be late on a busy machine: `line-burst` makes up for it.
    network.host("source", "a0", "10.1.0.2/24", "10.1.0.1");
    network.host("sink", "b0", "10.2.0.2/24", "10.2.0.1");
    network.host("far", "m1", "10.3.0.2/24", "10.3.0.1");
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    network.execute("sink", &["ip", "link", "set", "m0", "up"]);
    network.execute("sink", &["ip", "address", "add", "10.3.0.1/24", "dev", "m0"]);
    network.execute("sink", &["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
    set_line(&network, "add", line_mbps);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let file = format!(
        r#"
[router]
status = "{STATUS}"
[[port]]
name = "a1"
kind = "interface"
rate = "1 Gbit/s"
address = "10.1.0.1/24"
[[port]]
name = "b1"
kind = "interface"
rate = "20 Mbit/s"
line-burst = "20 ms"
address = "10.2.0.1/24"
autorate = {{ min = "2 Mbit/s", max = "40 Mbit/s", delay = "30 ms" }}
[[path]]
name = "all"
[[route]]
prefix = "10.3.0.0/24"
port = "b1"
via = "10.2.0.2"
"#
    );
    fs::write(&path, file).unwrap();
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let server = network.spawn("far", &["iperf3", "-s"]);
    network.await_listener("far", 5201);
    // The least round-trip time of the host is known before the load.
    ping(&network, 1);
    assert_eq!(wan(&status(&network))["rate_bps"], 20_000_000);
    let client = network
        .spawn("source", &["iperf3", "-c", "10.3.0.2", "-P", "4", "-t", "120", "-C", "reno"]);
    Scene { router, _programs: [server, client], _folder: folder, network }
}

#[test]
fn the_rate_falls_to_that_of_the_line_and_is_reported() {
    let Scene { router, network, _folder, _programs } = scene(6);
    let last = Instant::now() + Duration::from_secs(60);
    let report = loop {
        let report = status(&network);
        if wan(&report)["rate_bps"].as_u64().unwrap() < 10_000_000 {
            break report;
        }
        assert!(Instant::now() < last, "{report:#}");
        thread::sleep(Duration::from_millis(100));
    };
    assert!(wan(&report)["line_delay_ns"].is_u64(), "{report:#}");
    let metrics = network.get("router", STATUS, "/metrics");
    assert!(metrics.contains("millstream_port_rate_bits_per_second{port=\"b1\"}"), "{metrics}");
    router.stop();
}

/// The line has 16 Mbit/s, then 6, then 16 again.
#[test]
#[ignore = "measures times for a minute"]
fn the_queue_of_a_line_that_changes_stays_short() {
    let Scene { router, network, _folder, _programs } = scene(16);
    for mbps in [16, 6, 16_u32] {
        set_line(&network, "change", mbps);
        thread::sleep(Duration::from_secs(8));
        let (carried, times) = measured(&network, 8);
        let (median, p90) = (times[times.len() / 2], times[times.len() * 9 / 10]);
        let rate = wan(&status(&network))["rate_bps"].as_u64().unwrap();
        println!("{mbps} Mbit/s: {carried:.1}, ping {median:.1}, p90 {p90:.1} ms, rate {rate}");
        assert!(carried > f64::from(mbps) * 0.8, "{carried} of {mbps} Mbit/s");
        // Without adaptation the queue is always full.
        assert!(median < 60.0 && p90 < 120.0, "{median} {p90} ms at {mbps} Mbit/s");
    }
    router.stop();
}
