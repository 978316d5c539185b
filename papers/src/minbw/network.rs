//! The network of the MinBW paper's section VI, and one run of it.

use miette::IntoDiagnostic;
use millstream::catalogue::{DisciplineRow, MinBwAlgorithm, Options};
use millstream::{Contract, StreamId};
use millstream_sim::fabric::topology::folded_shuffle;
use millstream_sim::fabric::traffic::{end_point_traffic, table_ii};
use millstream_sim::fabric::{
    Arbiter, Buffering, Crossbar, Egress, Forwarding, LinkParameters, Queueing, Simulation,
    Statistics, SwitchParameters,
};
use std::ops::Range;

/// Names of the service classes, in the order of Table II.
pub(crate) const CLASSES: [&str; 7] = ["NC", "VO", "VI", "CL", "EE", "BE", "BK"];
/// Weights of all classes but NC, out of a total of 64.
const WEIGHTS: [u32; 6] = [17, 13, 13, 6, 2, 1];
/// Data rate of a link, bits/s: 2.5 Gbit/s without the line code.
const RATE_BPS: u64 = 2_000_000_000;
pub(crate) const LINK: LinkParameters =
    LinkParameters { rate_bps: RATE_BPS, overhead_bytes: 0, delay_ns: 0 };
pub(crate) const LARGEST_BYTES: u32 = 2_176;
/// Four of the largest packets in each channel buffer; the paper gives no size.
pub(crate) const BUFFER_CREDITS: u32 = 4 * 34;
/// Measured interval of a run, ns.
const WINDOW_NS: Range<u64> = 3_000_000..13_000_000;

/// Names of the compared schedulers, the paper's three first.
pub(crate) const SCHEDULERS: [&str; 6] =
    ["WFQ-CA", "SCFQ-CA", "DRR-CA", "WF2Q+-CA", "table", "DWCS-CA"];

/// The result of a class in one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) scheduler: usize,
    /// Offered load in hundredths.
    pub(crate) load: u32,
    pub(crate) seed: u64,
    pub(crate) class: usize,
    /// Shares of all links, in millionths.
    pub(crate) offered: u64,
    pub(crate) throughput: u64,
    pub(crate) mean_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) jitter_ns: u64,
}

/// Returns a class's contract for MinBW and the other schedulers.
///
/// A table gives each class a slot for each 64th of the link. DWCS gives it the period in which one
/// packet of the largest size uses the class's share.
fn contract(weight: u32) -> miette::Result<Contract> {
    let largest_ns = u64::from(LARGEST_BYTES) * 8_000_000_000 / RATE_BPS;
    let contract = Contract::new().weight(weight).into_diagnostic()?;
    let contract = contract.quantum_bytes(weight * LARGEST_BYTES).into_diagnostic()?;
    contract.period_ns(largest_ns * 64 / u64::from(weight)).into_diagnostic()
}

/// Returns the slots of a table in which each class occurs as often as its weight, evenly spread.
fn table() -> Vec<StreamId> {
    let mut slots: Vec<(u32, u32)> = Vec::new();
    // NC, the first class, has priority over the table.
    for (class, weight) in (1_u32..).zip(WEIGHTS) {
        slots.extend((0..weight).map(|turn| ((2 * turn + 1) * 1000 / weight, class)));
    }
    slots.sort_unstable();
    slots.into_iter().map(|(_, class)| StreamId(class)).collect()
}

/// Returns the scheduler of every link.
pub(crate) fn egress(scheduler: usize) -> miette::Result<Egress> {
    let (name, algorithm) = match SCHEDULERS[scheduler] {
        "WFQ-CA" => ("minbw", MinBwAlgorithm::Wfq),
        "SCFQ-CA" => ("minbw", MinBwAlgorithm::Scfq),
        "DRR-CA" => ("minbw", MinBwAlgorithm::Drr),
        "WF2Q+-CA" => ("wf2q+", MinBwAlgorithm::default()),
        "table" => ("table", MinBwAlgorithm::default()),
        _ => ("dwcs", MinBwAlgorithm::default()),
    };
    let discipline = DisciplineRow::parse(name).expect("it is in the catalogue");
    let mut classes = vec![Contract::new().fmc()];
    for weight in WEIGHTS {
        classes.push(contract(weight)?);
    }
    let options = Options { algorithm, table: table(), ..Options::default() };
    Ok(Egress { discipline, options, structure: None, classes })
}

/// Runs once; returns the result of each class.
pub(crate) fn run(scheduler: usize, load: u32, seed: u64) -> miette::Result<Vec<Row>> {
    let topology = folded_shuffle(4, 3).into_diagnostic()?;
    let traffic = table_ii(f64::from(load) / 100.0);
    // Each channel's connections are admitted up to the reservation of its weight on every link.
    let mut reservable = vec![1.0];
    reservable.extend(WEIGHTS.map(|weight| f64::from(weight) / 64.0));
    let (sources, _) =
        end_point_traffic(&topology, RATE_BPS, &reservable[..], &traffic, seed, WINDOW_NS.end);
    let mut statistics = Statistics::new(7, &sources, WINDOW_NS);
    let crossbar = Crossbar {
        rate_bps: RATE_BPS * 3 / 2,
        input_credits: BUFFER_CREDITS,
        output_credits: BUFFER_CREDITS,
        queueing: Queueing::VirtualOutput,
        arbiter: Arbiter::RoundRobin,
    };
    let switch = SwitchParameters {
        latency_ns: 145,
        forwarding: Forwarding::CutThrough,
        buffering: Buffering::Combined(crossbar),
    };
    let mut simulation =
        Simulation::new(topology, LINK, switch, &egress(scheduler)?, sources, LARGEST_BYTES)
            .into_diagnostic()?;
    simulation.run(WINDOW_NS.end, &mut statistics).into_diagnostic()?;
    let rows = statistics.classes().iter().enumerate().map(|(class, of)| Row {
        scheduler,
        load,
        seed,
        class,
        offered: millionths(statistics.share(of.injected_bytes, RATE_BPS)),
        throughput: millionths(statistics.share(of.delivered_bytes, RATE_BPS)),
        mean_ns: u64::try_from(of.latency_sum_ns / u128::from(of.delivered.max(1)))
            .unwrap_or(u64::MAX),
        p99_ns: of.latencies_ns.value_at_quantile(0.99),
        max_ns: of.latency_max_ns,
        jitter_ns: of.jitter_max_ns,
    });
    Ok(rows.collect())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn millionths(share: f64) -> u64 {
    (share * 1e6).round() as u64
}
