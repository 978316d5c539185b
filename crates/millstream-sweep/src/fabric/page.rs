//! The report page of a fabric: curves over time, buffer occupancy, and a drawing of the fabric.

use millstream_report::{
    DrawnLink, DrawnNode, FabricCurve, FabricReportInput, FullBuffer, write_fabric_report,
};
use millstream_scenario::Scenario;
use millstream_sim::fabric::topology::{Node, Topology};
use millstream_sim::fabric::{
    Buffers, ClassStatistics, Delivery, FabricListener, PacketStep, Simulation, TimeSeries,
};
use std::io::{self, Write};

use super::FabricRun;

/// The number of fullest buffers listed.
const MAX_LISTED: usize = 10;

/// A listener that records the data of the report page.
pub struct FabricPageRecorder {
    curves: TimeSeries,
    buffers: Buffers,
    /// End of the run, ns.
    end_ns: u64,
}

impl FabricListener for FabricPageRecorder {
    const STEPS: bool = true;

    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        self.buffers.on_step(packet_step);
    }

    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        self.curves.delivered(delivery);
    }
}

impl FabricPageRecorder {
    /// Creates a recorder for a run that has not started.
    #[must_use]
    pub fn new(run: &FabricRun) -> Self {
        let classes = u8::try_from(run.statistics.classes().len()).unwrap_or(u8::MAX);
        Self {
            curves: TimeSeries::new(classes, run.end_ns),
            buffers: Buffers::for_simulation(&run.simulation, true),
            end_ns: run.end_ns,
        }
    }

    /// Writes the page of `run` of `scenario`; this recorder must have observed the whole run.
    ///
    /// # Errors
    /// Fails if the page cannot be written.
    pub fn write_page(
        &self,
        out: &mut impl Write,
        run: &FabricRun,
        scenario: &Scenario,
    ) -> io::Result<()> {
        let (topology, rate_bps) = (run.simulation.topology(), scenario.link.rate_bps);
        let (nodes, links) = drawing(topology, &run.utilisation(), self, run.reached_ns);
        let input = FabricReportInput {
            summary: &run.summary(scenario),
            delays: &run.statistics.classes().iter().map(distribution).collect::<Vec<_>>(),
            tails: &run.statistics.classes().iter().map(tail).collect::<Vec<_>>(),
            nodes: &nodes,
            links: &links,
            over_time: &self.over_time(rate_bps, topology.end_points()),
            buffers: &self.fullest(&run.simulation, scenario, run.reached_ns),
            discipline: scenario.scheduler.discipline.name,
            link_rate_bps: rate_bps,
            scenario_text: &scenario.text,
            notes: &scenario.notes,
        };
        write_fabric_report(out, &input)
    }

    /// Returns throughput and mean delay of each stream over time.
    #[allow(clippy::cast_precision_loss)]
    fn over_time(&self, rate_bps: u64, end_points: u32) -> Vec<FabricCurve> {
        let width_ns = self.curves.width_ns();
        let spans = (0..).map(|bin| (bin * width_ns, ((bin + 1) * width_ns).min(self.end_ns)));
        let spans: Vec<(u64, u64)> =
            spans.take_while(|(begins, _)| *begins < self.end_ns).collect();
        let curve = |bins: &[millstream_sim::fabric::Bin]| {
            let mut curve = FabricCurve { throughput: Vec::new(), delay: Vec::new() };
            for (bin, (begins_ns, ends_ns)) in bins.iter().zip(&spans) {
                let middle_ms = (begins_ns + ends_ns) as f64 / 2e6;
                let seconds = (ends_ns - begins_ns) as f64 / 1e9;
                let whole = rate_bps as f64 * f64::from(end_points) * seconds;
                let percent = bin.delivered_bytes as f64 * 800.0 / whole;
                curve.throughput.push((middle_ms, percent));
                if bin.delivered > 0 {
                    let mean_us = bin.latency_sum_ns as f64 / bin.delivered as f64 / 1e3;
                    curve.delay.push((middle_ms, mean_us));
                }
            }
            curve
        };
        self.curves.classes().iter().map(|bins| curve(bins)).collect()
    }

    /// Returns the fullest buffers behind links, by average occupancy over the run.
    #[allow(clippy::cast_precision_loss)]
    fn fullest(
        &self,
        simulation: &Simulation,
        scenario: &Scenario,
        end_ns: u64,
    ) -> Vec<FullBuffer> {
        let crossbar = scenario.fabric.as_ref().and_then(|fabric| fabric.crossbar.as_ref());
        let Some(crossbar) = crossbar else { return Vec::new() };
        let capacity = f64::from(crossbar.input_credits.max(1));
        let topology = simulation.topology();
        let channels = simulation.channels();
        let mut found = Vec::new();
        for (link, ends) in topology.links().iter().enumerate() {
            if matches!(ends.to, Node::EndPoint(_)) {
                continue;
            }
            for channel in 0..channels {
                if let Some(fill) = self.buffers.occupied(link, channel, end_ns) {
                    found.push((fill.mean / capacity, fill.max, link, channel));
                }
            }
        }
        found.sort_by(|one, other| {
            other.0.total_cmp(&one.0).then((one.2, one.3).cmp(&(other.2, other.3)))
        });
        let row = |(mean, max, link, channel): (f64, u64, usize, usize)| {
            let ends = &topology.links()[link];
            let stream = &scenario.streams[channel / usize::from(topology.layers())];
            FullBuffer {
                link: format!("{} to {}", ends.from, ends.to),
                stream: stream.name.clone(),
                mean,
                most: max as f64 / capacity,
            }
        };
        found.into_iter().filter(|(mean, ..)| *mean > 0.0).take(MAX_LISTED).map(row).collect()
    }
}

/// Returns nodes and links in the form that the report draws.
fn drawing(
    topology: &Topology,
    utilisation: &[f64],
    recorder: &FabricPageRecorder,
    end_ns: u64,
) -> (Vec<DrawnNode>, Vec<DrawnLink>) {
    let end_points = (0..topology.end_points()).map(Node::EndPoint);
    let nodes =
        end_points.chain((0..topology.switches()).map(Node::Switch)).map(|node| DrawnNode {
            name: node.to_string(),
            switch: matches!(node, Node::Switch(_)),
            place: topology.position(node),
        });
    let index = |node: Node| match node {
        Node::EndPoint(number) => number as usize,
        Node::Switch(number) => (topology.end_points() + number) as usize,
    };
    let links = topology.links().iter().zip(utilisation).enumerate().map(
        |(number, (link, &utilisation))| {
            let waiting = recorder.buffers.backlog(number, end_ns);
            DrawnLink {
                from: index(link.from),
                to: index(link.to),
                utilisation,
                waiting_mean_bytes: waiting.mean,
                waiting_most_bytes: waiting.max,
            }
        },
    );
    (nodes.collect(), links.collect())
}

/// Returns points of the delay distribution: µs, and per cent of packets with at most this delay.
#[allow(clippy::cast_precision_loss)]
fn distribution(class: &ClassStatistics) -> Vec<(f64, f64)> {
    if class.delivered == 0 {
        return Vec::new();
    }
    let percents = (1..100).map(f64::from).chain([99.5, 99.9, 100.0]);
    percents
        .map(|percent| {
            (class.latencies_ns.value_at_quantile(percent / 100.0) as f64 / 1e3, percent)
        })
        .collect()
}

/// Returns points of the delay tail: ns, and the share of packets with a longer delay.
#[allow(clippy::cast_precision_loss)]
fn tail(class: &ClassStatistics) -> Vec<(u64, f64)> {
    let mut longer = class.delivered;
    let buckets = class.latencies_ns.iter_recorded().map(|bucket| {
        // Subtracts integers: the small shares of a tail would be lost in `1 - share`.
        longer = longer.saturating_sub(bucket.count_since_last_iteration());
        let latency_ns = bucket.value_iterated_to().min(class.latency_max_ns);
        (latency_ns, longer as f64 / class.delivered.max(1) as f64)
    });
    buckets.collect()
}
