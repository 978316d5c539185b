//! Multicast virtual channels: replication in the switches against copies from the source.
//!
//! Advanced Switching has up to four multicast channels beside 16 unicast ones (section II of the
//! paper); the paper's simulations use none. Here each end-point sends to groups of eight, on one
//! more channel of the MinBW scheduler. Its weight comes from the 18.75 % that Table II leaves
//! unassigned. The same packets go out in two ways: once, with replication in the switches, or as
//! unicast copies that the source makes.

use miette::{IntoDiagnostic, miette};
use millstream_sim::fabric::Replication;
use millstream_sim::fabric::traffic::{ClassTraffic, Kind};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;

use super::interval;
use super::network::{CLASSES, Further, RATE_BPS, SCHEDULERS, mean_ns, millionths, simulation};
use super::results::PAPER_SCHEDULERS;
use super::{VO, as_f64};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Test};

/// The file of all runs.
pub(super) const DATA: &str = "multicast.csv";
/// The class after those of Table II.
const MULTICAST: usize = CLASSES.len();
const REPLICATIONS: [(Replication, &str); 2] =
    [(Replication::Switches, "switches"), (Replication::Source, "source")];
/// End-points of a group; a member leaves itself out.
const GROUP: u32 = 8;
/// Multicast bytes that an end-point injects, as a share of its link.
const LOAD: f64 = 0.01;
/// Bytes of a multicast packet.
const BYTES: u32 = 1_024;
/// Weight of the multicast channel, in 64ths of the link: what unicast copies need.
const WEIGHT: u32 = 6;
/// Offered load of the classes of Table II, in hundredths.
const TABLE_LOAD: u32 = 70;
const SEEDS: Range<u64> = 1..6;
const WINDOW_NS: Range<u64> = 3_000_000..13_000_000;
/// The runs that a check repeats: scheduler, replication, seed.
const REPEATED: [(usize, usize, u64); 1] = [(1, 0, 1)];

/// The result of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Multicast bytes that reach their destinations, millionths of all links.
    delivered: u64,
    /// Mean and maximum latency of multicast packets, and mean latency of voice, ns.
    mean_ns: u64,
    max_ns: u64,
    voice_ns: u64,
    /// Transmissions on all links.
    transmissions: u64,
}

/// A quantity of a run.
type Quantity = fn(&Run) -> f64;

/// All runs, by scheduler, replication and seed.
pub(super) struct Runs(BTreeMap<(usize, usize, u64), Run>);

/// Returns the groups: end-point d leads eight end-points, evenly spread from d on.
fn groups(end_points: u32) -> Vec<Vec<u32>> {
    let step = end_points / GROUP;
    let group = |first: u32| (0..GROUP).map(|turn| (first + turn * step) % end_points).collect();
    (0..end_points).map(group).collect()
}

fn run(scheduler: usize, replication: usize, seed: u64) -> miette::Result<Run> {
    let traffic = ClassTraffic { load: LOAD, kind: Kind::Poisson { bytes: BYTES } };
    let further: [Further; 1] = [(traffic, WEIGHT)];
    let (mut simulation, mut statistics) =
        simulation(scheduler, TABLE_LOAD, seed, WINDOW_NS, &further)?;
    let groups = groups(simulation.topology().end_points());
    let class = u8::try_from(MULTICAST).into_diagnostic()?;
    simulation.set_multicast(&[class], groups, REPLICATIONS[replication].0);
    simulation.run(WINDOW_NS.end, &mut statistics).into_diagnostic()?;
    let (multicast, voice) = (&statistics.classes()[MULTICAST], &statistics.classes()[VO]);
    Ok(Run {
        delivered: millionths(statistics.share(multicast.delivered_bytes, RATE_BPS)),
        mean_ns: mean_ns(multicast.latency_sum_ns, multicast.delivered),
        max_ns: multicast.latency_max_ns,
        voice_ns: mean_ns(voice.latency_sum_ns, voice.delivered),
        transmissions: simulation.hops(),
    })
}

impl Runs {
    /// Runs all experiments.
    pub(super) fn measure() -> miette::Result<Self> {
        let mut runs = BTreeMap::new();
        for scheduler in 0..PAPER_SCHEDULERS {
            for replication in 0..REPLICATIONS.len() {
                for seed in SEEDS {
                    let key = (scheduler, replication, seed);
                    runs.insert(key, run(scheduler, replication, seed)?);
                }
            }
        }
        Ok(Self(runs))
    }

    /// Returns the runs as CSV.
    pub(super) fn write(&self) -> String {
        let mut text = String::from(
            "scheduler,replication,seed,delivered_millionths,mean_ns,max_ns,voice_mean_ns,\
             transmissions\n",
        );
        for ((scheduler, replication, seed), run) in &self.0 {
            let (scheduler, replication) = (SCHEDULERS[*scheduler], REPLICATIONS[*replication].1);
            let Run { delivered, mean_ns, max_ns, voice_ns, transmissions } = run;
            let _ = writeln!(
                text,
                "{scheduler},{replication},{seed},{delivered},{mean_ns},{max_ns},{voice_ns},\
                 {transmissions}"
            );
        }
        text
    }

    /// Reads the runs from CSV.
    pub(super) fn read(text: impl io::Read) -> miette::Result<Self> {
        let mut runs = BTreeMap::new();
        for record in csv::Reader::from_reader(text).records() {
            let record = record.into_diagnostic()?;
            let field = |at: usize| record.get(at).unwrap_or_default();
            let number = |at: usize| field(at).parse::<u64>().into_diagnostic();
            let scheduler = SCHEDULERS.iter().position(|name| *name == field(0));
            let replication = REPLICATIONS.iter().position(|(_, name)| *name == field(1));
            let (Some(scheduler), Some(replication)) = (scheduler, replication) else {
                return Err(miette!("{DATA}: unknown {} or {}", field(0), field(1)));
            };
            let run = Run {
                delivered: number(3)?,
                mean_ns: number(4)?,
                max_ns: number(5)?,
                voice_ns: number(6)?,
                transmissions: number(7)?,
            };
            runs.insert((scheduler, replication, number(2)?), run);
        }
        Ok(Self(runs))
    }

    /// Returns whether repeated runs equal the stored ones.
    pub(super) fn agree(&self) -> miette::Result<bool> {
        for (scheduler, replication, seed) in REPEATED {
            let again = run(scheduler, replication, seed)?;
            if self.0.get(&(scheduler, replication, seed)) != Some(&again) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn values(&self, scheduler: usize, replication: usize, of: Quantity) -> Vec<f64> {
        let runs = self.0.range((scheduler, replication, 0)..=(scheduler, replication, u64::MAX));
        runs.map(|(_, run)| of(run)).collect()
    }

    /// Returns the mean difference of source copies to switch copies, paired by seed, in %.
    fn difference(&self, scheduler: usize, of: Quantity) -> Estimate {
        let [switches, source] = [0, 1].map(|replication| self.values(scheduler, replication, of));
        let base = interval::mean(&switches, 0.95).value;
        let pairs = source.iter().zip(&switches);
        let differences: Vec<f64> =
            pairs.map(|(source, switch)| 100.0 * (source - switch) / base).collect();
        interval::mean(&differences, 0.95)
    }

    /// Returns the claims: the paper's simulations have no multicast, so none can be decided.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |scheduler: usize| {
            let of: Quantity = |run| as_f64(run.mean_ns) / 1e3;
            let [switches, source] =
                [0, 1].map(|at| interval::mean(&self.values(scheduler, at, of), 0.95).value);
            let difference = self.difference(scheduler, of);
            let Estimate { value, low, high } = difference;
            let test = Test::new(
                format!(
                    "section II: mean latency (µs) of multicast, copies by the source and by \
                     switches, {}",
                    SCHEDULERS[scheduler]
                ),
                "up to 4 multicast channels; not simulated",
                "none: the paper gives no number",
                Allowed::Unstated,
            );
            let seeds = SEEDS.end - SEEDS.start;
            test.by(
                Evidence::Simulated,
                format!("{source:.1}, {switches:.1}"),
                difference,
                format!("{value:+.0} % [{low:+.0}, {high:+.0}], paired, t, 95 %, n = {seeds}"),
            )
        };
        (0..PAPER_SCHEDULERS).map(claim).collect()
    }

    /// Returns the section of the page.
    pub(super) fn section(&self) -> String {
        let mut text = format!(
            "\n## Multicast channels\n\nAdvanced Switching has up to four multicast channels. The \
             paper's schedulers must handle them (section IV: up to 20 channels), but its \
             simulations have none, so there is nothing to compare with. Here an \
             eighth class is multicast: each end-point sends packets of {BYTES} bytes (Poisson, \
             {} % of its link) to groups of {GROUP}, beside the classes of Table II at a load of \
             {:.2}. Its weight is {WEIGHT} of 64. A switch replicates a packet where the routes \
             part; all copies share the room at the input, and its credits return when the last \
             copy has crossed. The alternative is a fabric without multicast channels: the \
             source sends {GROUP} unicast copies. Means of {} seeds, runs of {} ms without the \
             first {}; the difference is paired by seed, with its 95 % interval.\n\n",
            100.0 * LOAD,
            f64::from(TABLE_LOAD) / 100.0,
            SEEDS.end - SEEDS.start,
            WINDOW_NS.end / 1_000_000,
            WINDOW_NS.start / 1_000_000,
        );
        text += "| | scheduler | copies by switches | copies by the source | difference |\n\
                 |---|---|---:|---:|---:|\n";
        let rows: [(&str, usize, Quantity); 5] = [
            ("delivered multicast, % of the links", 2, |run| as_f64(run.delivered) / 1e4),
            ("transmissions on all links, millions", 3, |run| as_f64(run.transmissions) / 1e6),
            ("multicast, mean latency, µs", 1, |run| as_f64(run.mean_ns) / 1e3),
            ("multicast, maximum latency, µs", 0, |run| as_f64(run.max_ns) / 1e3),
            ("VO, mean latency, µs", 1, |run| as_f64(run.voice_ns) / 1e3),
        ];
        for (what, digits, of) in rows {
            for (scheduler, name) in SCHEDULERS.iter().enumerate().take(PAPER_SCHEDULERS) {
                let [switches, source] = [0, 1].map(|replication| {
                    interval::mean(&self.values(scheduler, replication, of), 0.95).value
                });
                let Estimate { value, low, high } = self.difference(scheduler, of);
                let _ = writeln!(
                    text,
                    "| {what} | {name} | {switches:.digits$} | {source:.digits$} | {value:+.1} % \
                     [{low:+.1}, {high:+.1}] |"
                );
            }
        }
        text += "\nLimits: the crossbar moves the copies of a packet one after another, as the \
                 paper's crossbar has no multicast transfer. Admission does not count copies.\n";
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Run, Runs, groups};
    use std::collections::BTreeMap;

    #[test]
    fn groups_have_eight_members_and_begin_with_their_leader() {
        let groups = groups(64);
        assert_eq!(groups[0], [0, 8, 16, 24, 32, 40, 48, 56]);
        assert_eq!(groups[61], [61, 5, 13, 21, 29, 37, 45, 53]);
    }

    #[test]
    fn differences_are_paired_and_csv_is_read_as_it_was_written() {
        let run = |mean_ns| Run { delivered: 1, mean_ns, max_ns: 2, voice_ns: 3, transmissions: 4 };
        let runs = Runs(BTreeMap::from([
            ((0, 0, 1), run(100)),
            ((0, 0, 2), run(300)),
            ((0, 1, 1), run(150)),
            ((0, 1, 2), run(350)),
        ]));
        #[allow(clippy::cast_precision_loss)]
        let difference = runs.difference(0, |run| run.mean_ns as f64);
        // 50 more in each pair, of a mean of 200.
        assert_eq!((difference.low, difference.high), (25.0, 25.0));
        let again = Runs::read(runs.write().as_bytes()).unwrap();
        assert_eq!(again.0, runs.0);
    }
}
