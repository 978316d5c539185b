//! Packet-hops per second of the fabric simulator and of a plain simulator of the same network.
//!
//! `cargo bench -p millstream-sim --bench fabric`. The network has 64 end-points in a 4-ary 3-tree,
//! links of 2 Gbit/s, and 145 ns of latency per switch. *FIFO* has 512-byte Poisson packets at 80 %
//! load, output queues, and store and forward. The plain simulator implements only this case.
//! *MinBW* has seven classes on virtual channels, credits, cut-through, and crossbars at 1.5 times
//! the links' rate. Its traffic is those Poisson packets at 80 % load in total, or Table II of the
//! MinBW paper. Arguments choose among the parts `disciplines`, `sizes` (4-ary trees of growing
//! size) and `workers` (one and two threads by turns).
#![allow(missing_docs, clippy::unwrap_used)]

mod plain;

use std::time::Instant;

use millstream::catalogue::{DisciplineRow, MinBwAlgorithm, Options};
use millstream::{Contract, Link};
use millstream_sim::fabric::traffic::{
    ClassTraffic, EndPointTraffic, Kind, end_point_traffic, table_ii,
};
use millstream_sim::fabric::{
    Arbiter, Buffering, Crossbar, Delivery, Egress, FabricListener, Forwarding, LinkParameters,
    Queueing, Simulation, SwitchParameters,
    topology::{Topology, folded_shuffle},
};

const RATE_BPS: u64 = 2_000_000_000;
const LINK: LinkParameters = LinkParameters { wire: Link::new(RATE_BPS, 0), delay_ns: 0 };
const WEIGHTS: [u32; 6] = [17, 13, 13, 6, 2, 1];

#[derive(Default)]
struct Latency {
    packets: u64,
    sum_ns: u64,
}

impl FabricListener for Latency {
    fn delivered(&mut self, delivery: &Delivery) {
        self.packets += 1;
        self.sum_ns += delivery.time_ns - delivery.injected_ns;
    }
}

fn sources(topology: &Topology, classes: &[ClassTraffic], stop_ns: u64) -> Vec<EndPointTraffic> {
    end_point_traffic(topology, RATE_BPS, 1.0, classes, 1, stop_ns).0
}

#[allow(clippy::cast_precision_loss)]
fn report(name: &str, simulation: &mut Simulation) -> f64 {
    let mut latency = Latency::default();
    let (start, cpu_before_s, before) = (Instant::now(), cpu_seconds(), machine_ticks());
    simulation.run(u64::MAX, &mut latency).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let (cpu_s, after) = (cpu_seconds() - cpu_before_s, machine_ticks());
    let steal = 100.0 * (after.0 - before.0) / (after.1 - before.1).max(1.0);
    let (rate, mean_us) = (
        simulation.hops() as f64 / seconds / 1e6,
        latency.sum_ns as f64 / latency.packets as f64 / 1e3,
    );
    println!(
        "{name:48} {:>10} hops {seconds:>6.2} s {rate:>6.2} M packet-hops/s, {:.1} ns of CPU a \
         hop, {steal:.1} % steal, mean latency {mean_us:.2} us",
        simulation.hops(),
        cpu_s * 1e9 / simulation.hops() as f64,
    );
    rate
}

fn fifo(topology: Topology, stop_ns: u64, workers: usize) -> f64 {
    let classes = [ClassTraffic { load: 0.8, kind: Kind::Poisson { bytes: 512 } }];
    let sources = sources(&topology, &classes, stop_ns);
    let egress = Egress {
        discipline: DisciplineRow::parse("fifo").unwrap(),
        options: Options::default(),
        structure: None,
        classes: vec![Contract::new()],
    };
    let switch = SwitchParameters {
        latency_ns: 145,
        forwarding: Forwarding::StoreAndForward,
        buffering: Buffering::Output,
    };
    let name = format!("FIFO, {}, {workers} threads", topology.end_points());
    let mut simulation = Simulation::new(topology, LINK, switch, &egress, sources, 2176).unwrap();
    simulation.set_workers(workers);
    report(&name, &mut simulation)
}

fn minbw(
    what: &str,
    traffic: &[ClassTraffic],
    topology: Topology,
    algorithm: MinBwAlgorithm,
    stop_ns: u64,
    workers: usize,
) -> f64 {
    let sources = sources(&topology, traffic, stop_ns);
    let mut classes = vec![Contract::new().fmc()];
    for weight in WEIGHTS {
        let contract = Contract::new().weight(weight).unwrap();
        classes.push(contract.quantum_bytes(weight * 34 * 64).unwrap());
    }
    let egress = Egress {
        discipline: DisciplineRow::parse("minbw").unwrap(),
        options: Options { algorithm, ..Options::default() },
        structure: None,
        classes,
    };
    let switch = SwitchParameters {
        latency_ns: 145,
        forwarding: Forwarding::CutThrough,
        buffering: Buffering::Combined(Crossbar {
            rate_bps: RATE_BPS * 3 / 2,
            input_credits: 136,
            output_credits: 136,
            queueing: Queueing::VirtualOutput,
            arbiter: Arbiter::RoundRobin,
        }),
    };
    let end_points = topology.end_points();
    let name = format!("MinBW {}, {what}, {end_points}, {workers} threads", algorithm.name());
    let mut simulation = Simulation::new(topology, LINK, switch, &egress, sources, 2176).unwrap();
    simulation.set_workers(workers);
    report(&name, &mut simulation)
}

/// Seven classes of 512-byte packets at 80 % load in total.
const POISSON: [ClassTraffic; 7] =
    [ClassTraffic { load: 0.8 / 7.0, kind: Kind::Poisson { bytes: 512 } }; 7];

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| part != "--bench").collect();
    let chosen = |part: &str| parts.is_empty() || parts.iter().any(|one| one == part);
    if chosen("disciplines") {
        disciplines();
    }
    if chosen("sizes") {
        sizes();
    }
    if chosen("workers") {
        workers();
    }
    if let Some(kilobytes) = most_memory_kb() {
        println!("  peak memory: {} MB", kilobytes / 1000);
    }
}

/// Runs 64 end-points under each discipline.
fn disciplines() {
    let tree = || folded_shuffle(4, 3).unwrap();
    let stop_ns = 50_000_000;
    for _ in 0..3 {
        let plain = plain::report(stop_ns);
        let ours = fifo(tree(), stop_ns, 1);
        println!("  {:.2} times the plain simulator", ours / plain);
    }
    for algorithm in MinBwAlgorithm::ALL {
        minbw("512-byte Poisson", &POISSON, tree(), algorithm, 20_000_000, 1);
        for load in [0.7, 1.0] {
            let what = format!("Table II at {load}");
            minbw(&what, &table_ii(load), tree(), algorithm, 10_000_000, 1);
        }
    }
}

/// Runs 4-ary trees of growing size.
fn sizes() {
    for levels in 3..=7 {
        let end_points = 4_u64.pow(levels);
        fifo(folded_shuffle(4, levels).unwrap(), 3_200_000_000 / end_points, 1);
    }
    for levels in 3..=6 {
        let end_points = 4_u64.pow(levels);
        let (tree, stop_ns) = (folded_shuffle(4, levels).unwrap(), 640_000_000 / end_points);
        minbw("512-byte Poisson", &POISSON, tree, MinBwAlgorithm::Scfq, stop_ns, 1);
    }
}

/// Runs 1,024 end-points on one and two threads by turns.
fn workers() {
    let tree = || folded_shuffle(4, 5).unwrap();
    for _ in 0..3 {
        let [one, two] = [1, 2].map(|workers| fifo(tree(), 3_000_000, workers));
        println!("  two threads: {:.2} times one", two / one);
        let [one, two] = [1, 2].map(|workers| {
            minbw("512-byte Poisson", &POISSON, tree(), MinBwAlgorithm::Scfq, 200_000, workers)
        });
        println!("  two threads: {:.2} times one", two / one);
    }
}

/// Returns the processor time of this process, s; 0 if `/proc` is unavailable.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time in ticks of 10 ms, after the name in parentheses.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Returns steal time and all time of the machine, ticks; 0 if `/proc` is unavailable.
fn machine_ticks() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let times: Vec<f64> = first.split(' ').filter_map(|field| field.parse().ok()).collect();
    (times.get(7).copied().unwrap_or(0.0), times.iter().sum())
}

/// Returns the peak resident memory of this process, kB; `None` if `/proc` is unavailable.
fn most_memory_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
