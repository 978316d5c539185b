//! Runs a fabric and summarises it: numbers, link utilisation, report page, and a description of
//! the fabric before it runs.

mod explanation;
mod page;

pub use explanation::{FabricExplanation, FabricStreamExplanation};
pub use page::FabricPageRecorder;

use millstream_report::{DelayBound, DelaySummary, FabricNumbers, FabricStream, FabricSummary};
use millstream_scenario::{Scenario, Source, Stream};
use millstream_sim::fabric::traffic::ClassCount;
use millstream_sim::fabric::{
    ClassStatistics, FabricError, FabricListener, PrepareError, Prepared, Simulation, Statistics,
    prepare,
};

/// Deprecated alias of [`FabricPageRecorder`].
#[deprecated(note = "renamed to `FabricPageRecorder`")]
pub type Looks = FabricPageRecorder;

/// The number of steps of a run; [`FabricRun::step`] returns after each.
const STEPS: u64 = 1_000;

/// A fabric simulation and its statistics.
pub struct FabricRun {
    /// The simulation.
    pub simulation: Simulation,
    /// Number of connections of each stream, over all end-points.
    pub connections: Vec<ClassCount>,
    /// Statistics of each stream, from the end of the warm-up.
    pub statistics: Statistics,
    /// The guaranteed longest delay of each stream, ns; empty if no bounds were computed.
    pub bounds_ns: Vec<u64>,
    /// Simulated time so far, ns.
    pub reached_ns: u64,
    end_ns: u64,
}

impl FabricRun {
    /// Creates the fabric of `scenario` at time 0.
    ///
    /// # Errors
    /// Fails if the fabric cannot be simulated.
    ///
    /// # Panics
    /// Panics if the scenario has no fabric.
    pub fn new(scenario: &Scenario) -> Result<Self, PrepareError> {
        let warm_up_ns = warm_up_ns(scenario);
        let end_ns = scenario.duration_ns.unwrap_or(u64::MAX);
        let Prepared { simulation, connections } = prepare(scenario)?;
        let streams = u8::try_from(scenario.streams.len()).unwrap_or(u8::MAX);
        let statistics = Statistics::new(streams, simulation.sources(), warm_up_ns..end_ns);
        let bounds_ns = Vec::new();
        Ok(Self { simulation, connections, statistics, bounds_ns, reached_ns: 0, end_ns })
    }

    /// Runs a thousandth of the duration; returns whether the run continues.
    ///
    /// # Errors
    /// Fails if packets are deadlocked.
    pub fn step(&mut self) -> Result<bool, FabricError> {
        self.step_for(&mut ())
    }

    /// Runs a thousandth of the duration like [`step`](Self::step), and reports events to
    /// `listener`.
    ///
    /// # Errors
    /// See [`step`](Self::step).
    pub fn step_for(
        &mut self,
        listener: &mut (impl FabricListener + Send),
    ) -> Result<bool, FabricError> {
        if self.reached_ns < self.end_ns {
            self.reached_ns = self.end_ns.min(self.reached_ns + (self.end_ns / STEPS).max(1));
            self.simulation.run(self.reached_ns, &mut (&mut self.statistics, listener))?;
        }
        Ok(self.reached_ns < self.end_ns)
    }

    /// Returns the summary of the run so far.
    #[must_use]
    pub fn summary(&self, scenario: &Scenario) -> FabricSummary {
        let Self { simulation, connections, statistics, reached_ns, .. } = self;
        let rate_bps = scenario.link.rate_bps;
        let of = |(number, stream): (usize, &Stream)| {
            let class = &statistics.classes()[number];
            let connections = &connections[number];
            let bound = self.bounds_ns.get(number).map(|bound_ns| DelayBound {
                bound_ns: *bound_ns,
                longest_ns: class.latency_max_ns,
            });
            FabricStream {
                name: stream.name.clone(),
                connections_asked: connections.requested,
                connections_admitted: connections.admitted,
                injected: class.injected,
                injected_bytes: class.injected_bytes,
                delivered: class.delivered,
                delivered_bytes: class.delivered_bytes,
                offered: rounded(statistics.share(class.injected_bytes, rate_bps)),
                throughput: rounded(statistics.share(class.delivered_bytes, rate_bps)),
                delay_ns: delay(class),
                jitter_max_ns: matches!(stream.source, Source::Cbr { .. } | Source::Mpeg { .. })
                    .then_some(class.jitter_max_ns),
                delay_bound_ns: bound.map(|of| of.bound_ns),
                tightness: bound.and_then(|of| of.tightness()),
            }
        };
        let topology = simulation.topology();
        let utilisation = self.utilisation();
        let links = topology.links();
        let busiest = utilisation.iter().zip(links).max_by(|one, other| one.0.total_cmp(other.0));
        let in_all = simulation.busy_ns().sum::<u64>() / links.len().max(1) as u64;
        FabricSummary {
            scenario: scenario.name.clone(),
            streams: scenario.streams.iter().enumerate().map(of).collect(),
            fabric: FabricNumbers {
                end_points: topology.end_points(),
                switches: topology.switches(),
                links: links.len(),
                warm_up_ns: warm_up_ns(scenario),
                end_ns: *reached_ns,
                packet_hops: simulation.hops(),
                under_way: simulation.packets_in_transit(),
                mean_utilisation: share(in_all, *reached_ns),
                highest_utilisation: busiest.map_or(0.0, |(busy, _)| *busy),
                busiest_link: busiest
                    .map_or(String::new(), |(_, link)| format!("{} to {}", link.from, link.to)),
            },
        }
    }

    /// Returns each link's share of busy time so far, in the order of `Topology::links`, rounded to
    /// six decimals.
    #[must_use]
    pub fn utilisation(&self) -> Vec<f64> {
        self.simulation.busy_ns().map(|busy_ns| share(busy_ns, self.reached_ns)).collect()
    }
}

fn warm_up_ns(scenario: &Scenario) -> u64 {
    scenario.fabric.as_ref().map_or(0, |fabric| fabric.warm_up_ns)
}

#[allow(clippy::cast_precision_loss)]
fn share(busy_ns: u64, run_ns: u64) -> f64 {
    rounded(busy_ns as f64 / run_ns.max(1) as f64)
}

fn rounded(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

fn delay(class: &ClassStatistics) -> Option<DelaySummary> {
    (class.delivered > 0).then(|| DelaySummary {
        mean: u64::try_from(class.latency_sum_ns / u128::from(class.delivered)).unwrap_or(u64::MAX),
        p50: class.latencies_ns.value_at_quantile(0.5),
        p99: class.latencies_ns.value_at_quantile(0.99),
        p999: class.latencies_ns.value_at_quantile(0.999),
        max: class.latency_max_ns,
    })
}
