//! Tests reservations with real programs: iperf3, nginx with ab, and an RTP stream of ffmpeg keep
//! their shares while small packets flood another port.
//!
//! The test does not depend on speed. It measures shares of the bytes that the link carried, over
//! intervals that begin with more backlog of bulk TCP and of the flood than the link then carries.
//! Losses and conservation compare the router's counts with the kernel's. On a machine with two
//! processors, the router has its own.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

use crate::network::Network;
use crate::{number, packet};

const STATUS: &str = "127.0.0.1:9818";
/// The duration of the datagrams and of the stream, seconds.
const SECONDS: &str = "4";
/// The bytes of the link over which shares are measured, while bulk TCP and the flood are
/// backlogged.
const WINDOW: u64 = 4_000_000;
/// The length of a full segment, bytes.
const SEGMENT: u64 = 1_514;
/// The length of a packet of the flood, bytes.
const SMALL: u64 = 60;
/// The timeout of the measurement.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The send buffer of TCP (minimum, default, maximum), bytes: less than a path's queue holds.
const IN_FLIGHT: &str = "4096 65536 2097152";
/// HTTP requests, their concurrency and page size; each request opens a connection.
const PAGES: usize = 20;
const AT_ONCE: &str = "4";
const PAGE_BYTES: usize = 20_000;
/// The shares of the link by weight, percent.
const BULK: u64 = 50;
const FLOOD: u64 = 20;
/// The paths with reservations.
const RESERVED: [&str; 4] = ["datagrams", "stream", "web", "bulk"];

const ROUTER_FILE: &str = r#"
[router]
name = "programs"
status = "127.0.0.1:9818"
buffers = 32768
[[port]]
name = "a1"
kind = "interface"
rate = "1 Gbps"
address = "10.1.0.1/24"
[[port]]
name = "f1"
kind = "interface"
rate = "1 Gbps"
[[port]]
name = "b1"
kind = "interface"
rate = "20 Mbps"
address = "10.2.0.1/24"
discipline = "wf2q+"
[[path]]
name = "back"
match = { port = "b1" }
[[path]]
name = "datagrams"
match = { protocol = "udp", destination-port = 5202 }
reservation = "100 Mcps"
queue = 512
weight = 15
[[path]]
name = "stream"
match = { protocol = "udp", destination-port = 6000 }
reservation = "100 Mcps"
queue = 512
weight = 10
[[path]]
name = "web"
match = { port = "a1", protocol = "tcp", source-port = 8000 }
reservation = "100 Mcps"
queue = 512
weight = 5
[[path]]
name = "bulk"
match = { port = "a1", protocol = "tcp" }
reservation = "200 Mcps"
queue = 2048
weight = 50
[[path]]
name = "flood"
queue = 6000
weight = 20
[[route]]
prefix = "10.9.0.0/16"
port = "b1"
via = "10.2.0.2"
"#;

/// Excludes one processor from the affinity of this thread and its children, if there are two.
/// Returns that processor.
fn reserve_processor() -> Option<CpuSet> {
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let available: Vec<usize> =
        (0..CpuSet::count()).filter(|at| all.is_set(*at).unwrap()).collect();
    let (last, others) = available.split_last().filter(|(_, others)| !others.is_empty())?;
    let set = |of: &[usize]| {
        let mut set = CpuSet::new();
        of.iter().for_each(|at| set.set(*at).unwrap());
        set
    };
    sched_setaffinity(Pid::from_raw(0), &set(others)).unwrap();
    Some(set(&[*last]))
}

fn status(network: &Network) -> Value {
    let answer = network.get("router", STATUS, "/status");
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

/// Bytes that the link carried while bulk TCP and the flood were backlogged.
#[derive(Default)]
struct BackloggedBytes {
    bulk: u64,
    flood: u64,
    link: u64,
    /// The number of backlogged intervals.
    intervals: u64,
}

impl BackloggedBytes {
    fn record(network: &Network) -> Self {
        let began = Instant::now();
        let mut all = Self::default();
        let mut from = status(network);
        let mut waited = false;
        while all.link < WINDOW {
            assert!(
                began.elapsed() < TIMEOUT,
                "bulk TCP and the flood are not backlogged: {from:#}"
            );
            let until = status(network);
            let sent = |path| {
                let of = |report| number(report, "paths", path, "sent_bytes");
                of(&until) - of(&from)
            };
            let link: u64 = RESERVED.into_iter().chain(["flood"]).map(sent).sum();
            let waits = |path, bytes| number(&from, "paths", path, "at_links") * bytes > 2 * link;
            let before = waited;
            waited = waits("bulk", SEGMENT) && waits("flood", SMALL);
            if waited {
                all.intervals += u64::from(!before);
                all.link += link;
                all.bulk += sent("bulk");
                all.flood += sent("flood");
            }
            from = until;
        }
        all
    }
}

/// Returns, for each link, the packets that its far end has sent, and those that the router's port
/// has received or lost.
fn link_counts(network: &Network, before: [u64; 3], report: &Value) -> [(u64, u64); 3] {
    let far = [("source", "a0", "a1"), ("source", "f0", "f1"), ("sink", "b0", "b1")];
    let mut at = 0;
    far.map(|(namespace, device, port)| {
        let of = |key| number(report, "ports", port, key);
        let sent = network.statistics(namespace, device).1 - before[at];
        at += 1;
        (sent, of("received") + of("lost_by_device"))
    })
}

/// Waits until the rings and queues are empty and no program sends.
fn await_idle(network: &Network, before: [u64; 3]) {
    let began = Instant::now();
    let mut last = None;
    while began.elapsed() < TIMEOUT {
        let report = status(network);
        let counts = link_counts(network, before, &report);
        let paths = report["paths"].as_array().unwrap();
        let empty = paths.iter().all(|path| path["queued"] == 0);
        if empty && counts.iter().all(|(sent, taken)| sent == taken) && last == Some(counts) {
            return;
        }
        last = Some(counts);
        thread::sleep(Duration::from_millis(300));
    }
}

/// Returns the configuration of a web server with all its files in one folder.
fn web_server(folder: &str) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|of| format!("{of}_temp_path {folder}/{of};"))
        .concat();
    format!(
        "user root; daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;\n\
         events {{}}\n\
         http {{ access_log off; {temporary} server {{ listen 8000; root {folder}; }} }}\n"
    )
}

/// Returns the value of a line of ab's report.
fn report_value<'a>(report: &'a str, name: &str) -> &'a str {
    let mut lines = report.lines().filter_map(|line| line.split_once(':'));
    let line = lines.find(|line| line.0 == name);
    line.unwrap_or_else(|| panic!("no {name}: {report}")).1.trim()
}

/// Returns whether the sequence numbers of an RTP stream are consecutive.
fn is_whole(stream: &[Vec<u8>]) -> bool {
    let number = |frame: &Vec<u8>| u16::from_be_bytes([frame[44], frame[45]]);
    stream.windows(2).all(|pair| number(&pair[0]).wrapping_add(1) == number(&pair[1]))
}

#[test]
fn programs_keep_their_reservations_beside_a_flood_and_every_packet_is_counted() {
    let network = Network::new();
    network.require(&["iperf3", "ffmpeg", "nginx", "ab"]);
    let processor = reserve_processor();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("router.toml");
    fs::write(&file, ROUTER_FILE).unwrap();
    fs::write(folder.path().join("page"), vec![b'x'; PAGE_BYTES]).unwrap();
    // Without IPv6, the kernels send no packets of their own.
    for namespace in ["source", "router", "sink"] {
        let quiet = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";
        network.execute(namespace, &["sh", "-c", quiet]);
    }
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    for (host, device, of) in [("source", "a0", 1), ("sink", "b0", 2)] {
        network.host(host, device, &format!("10.{of}.0.2/24"), &format!("10.{of}.0.1"));
        // Without offload, the kernel counts packets as the router does, not large segments.
        network.execute(host, &["ethtool", "-K", device, "tx", "off"]);
    }
    let limit = format!("echo {IN_FLIGHT} > /proc/sys/net/ipv4/tcp_wmem");
    network.execute("source", &["sh", "-c", &limit]);

    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &file);
    if let Some(processor) = processor {
        router.pin(&processor);
    }
    let before = [("source", "a0"), ("source", "f0"), ("sink", "b0")];
    let first = status(&network);
    let taken = ["a1", "f1", "b1"].map(|port| number(&first, "ports", port, "received"));
    let mut counters = before.map(|(namespace, device)| network.statistics(namespace, device));
    for (counter, taken) in counters.iter_mut().zip(taken) {
        counter.1 -= taken;
    }
    let before = counters.map(|counter| counter.1);
    let arrived_before = counters[2].0 - sent_to_sink(&first);
    // Resolves the neighbours at both ends.
    network.execute("source", &["sh", "-c", "ping -n -c 3 -i 0.2 10.2.0.2 || true"]);

    let server = |port| network.spawn("sink", &["iperf3", "-s", "-1", "-p", port]);
    let servers = [server("5201"), server("5202")];
    let pages = folder.path().to_str().unwrap();
    let configuration = folder.path().join("nginx.conf");
    fs::write(&configuration, web_server(pages)).unwrap();
    let errors = format!("{pages}/errors");
    let serve = ["nginx", "-e", &errors, "-c", configuration.to_str().unwrap()];
    let web_server = network.spawn("source", &serve);
    network.await_listener("sink", 5201);
    network.await_listener("sink", 5202);
    network.await_listener("source", 8000);
    let watched = network.record("sink", "b0", "udp dst port 6000");

    let flood = packet(network.mac("router", "f1"), [10, 9, 0, 1], 0, 60);
    let flood = network.flood("source", "f0", flood);
    let bulk = ["iperf3", "-c", "10.2.0.2", "-p", "5201", "-t", "300"];
    let bulk = network.spawn("source", &bulk);
    let datagrams = ["iperf3", "-J", "-c", "10.2.0.2", "-p", "5202", "-t", SECONDS];
    let datagrams = [&datagrams[..], &["-u", "-b", "2M", "-l", "1000"]].concat();
    let datagrams = network.spawn("source", &datagrams);
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
    let play = ["ffmpeg", "-v", "error", "-nostdin", "-re", "-i", clip.to_str().unwrap(), "-t"];
    let to = [SECONDS, "-an", "-c", "copy", "-f", "rtp", "rtp://10.2.0.2:6000?pkt_size=1200"];
    let stream = network.spawn("source", &[&play[..], &to].concat());
    let requests = PAGES.to_string();
    let load =
        ["ab", "-q", "-s", "60", "-n", &requests, "-c", AT_ONCE, "http://10.1.0.2:8000/page"];
    let web = network.spawn("sink", &load);

    let waited = BackloggedBytes::record(&network);

    drop(bulk);
    let datagrams: Value = serde_json::from_str(&datagrams.finish()).unwrap();
    stream.finish();
    let web = web.finish();
    let flooded = flood.stop();
    drop(servers);
    drop(web_server);
    await_idle(&network, before);
    let counted = network.statistics("sink", "b0").0 - arrived_before;
    let report = router.stop();
    let frames = watched.stop();

    // Conservation: the router's counts match the kernel's.
    assert_eq!(report["unaccounted"], 0);
    for (sent, taken) in link_counts(&network, before, &report) {
        assert_eq!(sent, taken, "sent to the router, and received or lost by it: {report:#}");
    }
    assert_eq!(counted, sent_to_sink(&report), "packets sent to the sink arrive there: {report:#}");

    // No packet of a reserved flow is lost, in the router or on its way there.
    assert_eq!(number(&report, "ports", "a1", "lost_by_device"), 0);
    for path in RESERVED {
        let of = |key| number(&report, "paths", path, key);
        assert!(of("received") > 0, "{path} was not used: {report:#}");
        assert_eq!(of("received"), of("sent"), "{path}: {report:#}");
    }
    assert_eq!(frames.len() as u64, number(&report, "paths", "stream", "sent"));
    assert!(is_whole(&frames), "packets of the stream are missing or out of order");
    assert_eq!(report_value(&web, "Complete requests"), PAGES.to_string());
    assert_eq!(report_value(&web, "Failed requests"), "0");
    assert!(!web.contains("Non-2xx"), "{web}");
    assert_eq!(report_value(&web, "HTML transferred"), format!("{} bytes", PAGES * PAGE_BYTES));
    let lost = datagrams["end"]["sum"]["lost_packets"].as_u64().unwrap();
    let by_socket = network.datagrams_lost_by_sockets("sink");
    assert!(lost <= by_socket, "iperf3 misses {lost} datagrams, its socket lost {by_socket}");

    // Link shares are kept within 1 %, and the flood is not starved. A packet may be in
    // transmission at each end of an interval.
    let ends = 2 * SEGMENT * waited.intervals;
    for (path, got, weight) in [("bulk", waited.bulk, BULK), ("flood", waited.flood, FLOOD)] {
        // The share of the link, and by weight the share of the bytes of these two paths.
        let left = (waited.bulk + waited.flood) * weight / (BULK + FLOOD);
        for promised in [waited.link * weight / 100, left] {
            let kept = (got + ends) * 100 >= promised * 99;
            assert!(kept, "{path}: {got} bytes of {promised}, {} intervals", waited.intervals);
        }
    }
    let delivered = number(&report, "paths", "flood", "sent");
    assert!(flooded > 4 * delivered, "no overload: {delivered} of a flood of {flooded}");
}

fn sent_to_sink(report: &Value) -> u64 {
    let of = |key| number(report, "ports", "b1", key);
    of("transmitted") + of("originated")
}
