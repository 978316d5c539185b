//! The network of the MinBW paper's section VI, and one run of it.

use miette::IntoDiagnostic;
use millstream::catalogue::{DisciplineRow, MinBwAlgorithm, Options};
use millstream::{Contract, Link, StreamId};
use millstream_sim::fabric::topology::folded_shuffle;
use millstream_sim::fabric::traffic::{ClassTraffic, end_point_traffic, table_ii};
use millstream_sim::fabric::{
    Arbiter, Buffering, Crossbar, Delivery, Egress, FabricListener, Forwarding, LinkParameters,
    Queueing, Simulation, Statistics, SwitchParameters,
};
use std::ops::Range;

use super::steady::mser5;

/// Names of the service classes, in the order of Table II.
pub(crate) const CLASSES: [&str; 7] = ["NC", "VO", "VI", "CL", "EE", "BE", "BK"];
/// Weights of all classes but NC, out of a total of 64.
pub(crate) const WEIGHTS: [u32; 6] = [17, 13, 13, 6, 2, 1];
/// Data rate of a link, bits/s: 2.5 Gbit/s without the line code.
pub(crate) const RATE_BPS: u64 = 2_000_000_000;
pub(crate) const LINK: LinkParameters =
    LinkParameters { wire: Link::new(RATE_BPS, 0), delay_ns: 0 };
pub(crate) const LARGEST_BYTES: u32 = 2_176;
/// Four of the largest packets in each channel buffer; the paper gives no size.
pub(crate) const BUFFER_CREDITS: u32 = 4 * 34;
/// Measured interval of a run, ns.
pub(crate) const WINDOW_NS: Range<u64> = 25_000_000..125_000_000;
/// Bins of the series in which a run's steady state is detected, ns.
const BIN_NS: u64 = 500_000;
/// The start of a run, which a check repeats, ns.
const START_NS: u64 = 4_000_000;

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
    /// Throughput and mean latency of each half of the window.
    pub(crate) half_throughputs: [u64; 2],
    pub(crate) half_means_ns: [u64; 2],
    /// Time that MSER-5 removes from the series of throughput, µs; `None` if it finds no steady
    /// state.
    pub(crate) truncated_us: Option<u64>,
    /// Packets that arrived within [`START_NS`], and the sum of their latencies.
    pub(crate) start: (u64, u128),
}

/// Arrivals of a class within a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Arrivals {
    packets: u64,
    bytes: u64,
    latency_sum_ns: u128,
}

impl std::iter::Sum for Arrivals {
    fn sum<I: Iterator<Item = Self>>(of: I) -> Self {
        of.fold(Self::default(), |sum, one| Self {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
            latency_sum_ns: sum.latency_sum_ns + one.latency_sum_ns,
        })
    }
}

/// A listener that counts arrivals by class, in bins of [`BIN_NS`] from time 0.
struct Series(Vec<Vec<Arrivals>>);

impl Series {
    fn new(end_ns: u64) -> Self {
        let bins = usize::try_from(end_ns / BIN_NS).unwrap_or(usize::MAX);
        Self(vec![vec![Arrivals::default(); bins]; CLASSES.len()])
    }

    /// Returns the arrivals of a class within a time, which begins and ends with bins.
    fn within(&self, class: usize, times_ns: Range<u64>) -> Arrivals {
        let bin = |time_ns: u64| usize::try_from(time_ns / BIN_NS).unwrap_or(usize::MAX);
        self.0[class][bin(times_ns.start)..bin(times_ns.end)].iter().copied().sum()
    }

    /// Returns the time that MSER-5 removes from the throughput of a class, µs.
    #[allow(clippy::cast_precision_loss)]
    fn truncated_us(&self, class: usize) -> Option<u64> {
        let bytes: Vec<f64> = self.0[class].iter().map(|bin| bin.bytes as f64).collect();
        mser5(&bytes).map(|bins| bins as u64 * BIN_NS / 1_000)
    }
}

impl FabricListener for Series {
    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        let bins = &mut self.0[usize::from(delivery.class)];
        // An arrival may lie beyond the end: it is reported when its transmission begins.
        let bin = usize::try_from(delivery.time_ns / BIN_NS).unwrap_or(usize::MAX);
        if let Some(bin) = bins.get_mut(bin) {
            bin.packets += 1;
            bin.bytes += u64::from(delivery.bytes);
            bin.latency_sum_ns += u128::from(delivery.time_ns - delivery.injected_ns);
        }
    }
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
    egress_of(scheduler, &[])
}

/// Returns the scheduler of every link, with a channel for each of the `further` weights.
pub(crate) fn egress_of(scheduler: usize, further: &[u32]) -> miette::Result<Egress> {
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
    for weight in WEIGHTS.iter().chain(further) {
        classes.push(contract(*weight)?);
    }
    let options = Options { algorithm, table: table(), ..Options::default() };
    Ok(Egress { discipline, options, structure: None, classes })
}

/// A class beyond those of Table II: its traffic and its weight in 64ths.
pub(crate) type Further = (ClassTraffic, u32);

/// Creates the fabric, and statistics of `window_ns`, of one run that ends at `window_ns.end`.
pub(crate) fn simulation(
    scheduler: usize,
    load: u32,
    seed: u64,
    window_ns: Range<u64>,
    further: &[Further],
) -> miette::Result<(Simulation, Statistics)> {
    let topology = folded_shuffle(4, 3).into_diagnostic()?;
    let mut traffic = table_ii(f64::from(load) / 100.0);
    traffic.extend(further.iter().map(|(class, _)| *class));
    let further: Vec<u32> = further.iter().map(|(_, weight)| *weight).collect();
    // Each channel's connections are admitted up to the reservation of its weight on every link.
    let mut reservable = vec![1.0];
    let weights = WEIGHTS.iter().chain(&further);
    reservable.extend(weights.map(|weight| f64::from(*weight) / 64.0));
    let (sources, _) =
        end_point_traffic(&topology, RATE_BPS, &reservable[..], &traffic, seed, window_ns.end);
    let classes = u8::try_from(traffic.len()).into_diagnostic()?;
    let statistics = Statistics::new(classes, &sources, window_ns);
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
    let egress = egress_of(scheduler, &further)?;
    let simulation = Simulation::new(topology, LINK, switch, &egress, sources, LARGEST_BYTES);
    Ok((simulation.into_diagnostic()?, statistics))
}

/// Runs once; returns the result of each class.
pub(crate) fn run(scheduler: usize, load: u32, seed: u64) -> miette::Result<Vec<Row>> {
    let (mut simulation, statistics) = simulation(scheduler, load, seed, WINDOW_NS, &[])?;
    let mut listener = (statistics, Series::new(WINDOW_NS.end));
    simulation.run(WINDOW_NS.end, &mut listener).into_diagnostic()?;
    let (statistics, series) = listener;
    let middle_ns = u64::midpoint(WINDOW_NS.start, WINDOW_NS.end);
    let share = |bytes| millionths(statistics.share(bytes, RATE_BPS));
    let rows = statistics.classes().iter().enumerate().map(|(class, of)| {
        let halves = [WINDOW_NS.start..middle_ns, middle_ns..WINDOW_NS.end]
            .map(|times_ns| series.within(class, times_ns));
        let start = series.within(class, 0..START_NS);
        Row {
            scheduler,
            load,
            seed,
            class,
            offered: share(of.injected_bytes),
            throughput: share(of.delivered_bytes),
            mean_ns: mean_ns(of.latency_sum_ns, of.delivered),
            p99_ns: of.latencies_ns.value_at_quantile(0.99),
            max_ns: of.latency_max_ns,
            jitter_ns: of.jitter_max_ns,
            half_throughputs: halves.map(|half| share(2 * half.bytes)),
            half_means_ns: halves.map(|half| mean_ns(half.latency_sum_ns, half.packets)),
            truncated_us: series.truncated_us(class),
            start: (start.packets, start.latency_sum_ns),
        }
    });
    Ok(rows.collect())
}

/// Runs the start of a run again; returns `Row::start` of each class.
pub(crate) fn start_of(scheduler: usize, load: u32, seed: u64) -> miette::Result<Vec<(u64, u128)>> {
    let (mut simulation, _) = simulation(scheduler, load, seed, 0..START_NS, &[])?;
    let mut series = Series::new(START_NS);
    simulation.run(START_NS, &mut series).into_diagnostic()?;
    let of = (0..CLASSES.len()).map(|class| series.within(class, 0..START_NS));
    Ok(of.map(|start| (start.packets, start.latency_sum_ns)).collect())
}

pub(crate) fn mean_ns(sum_ns: u128, packets: u64) -> u64 {
    u64::try_from(sum_ns / u128::from(packets.max(1))).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn millionths(share: f64) -> u64 {
    (share * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, BIN_NS, CLASSES, Series};
    use millstream_sim::fabric::{Delivery, FabricListener};

    #[test]
    fn series_count_arrivals_by_bin_until_the_end() {
        let mut series = Series::new(4 * BIN_NS);
        let times_ns = [BIN_NS - 1, BIN_NS, 3 * BIN_NS, 4 * BIN_NS];
        for (time_ns, bytes) in times_ns.into_iter().zip([1, 2, 4, 8]) {
            series.delivered(&Delivery {
                time_ns,
                injected_ns: time_ns - 10,
                class: 1,
                source: 0,
                destination: 1,
                connection: 0,
                bytes,
            });
        }
        let arrivals =
            |packets, bytes| Arrivals { packets, bytes, latency_sum_ns: 10 * u128::from(packets) };
        assert_eq!(series.within(1, 0..BIN_NS), arrivals(1, 1));
        assert_eq!(series.within(1, BIN_NS..4 * BIN_NS), arrivals(2, 6));
        assert_eq!(series.within(CLASSES.len() - 1, 0..4 * BIN_NS), Arrivals::default());
        assert_eq!(series.truncated_us(1), None, "four bins are less than two batches");
    }
}
