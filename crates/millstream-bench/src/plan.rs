//! Lists the structures and hardware that keep up with a link.
//!
//! A decision must fit in a packet-time, the packet's length over the line's speed (ShareStreams,
//! section 1). Software decisions are measured by [`crate::measure()`]. Hardware decisions take the
//! cycles of the cores in `rtl/` at their clock after place and route; `make rtl-report` writes
//! these files, which are compiled in.

use serde::Serialize;

use crate::measure::Measurement;

/// Clock rates by place and route: design, streams, device, seed, cycles a decision, clock in kHz,
/// digest of the netlist, placer, commit of the sources. A row a seed.
const CLOCKS: &str = include_str!("../../../papers/sharestreams/hardware/clock.csv");

/// Cells by synthesis: design, streams, family, LUTs, flip-flops, multipliers, block RAMs, digest
/// of what yosys reads, digest of the netlist.
const AREAS: &str = include_str!("../../../papers/sharestreams/hardware/area.csv");

/// The required streams, packet size and line rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Demand {
    /// Streams to schedule.
    pub streams: u32,
    /// Length of the shortest packets, bytes, including overhead on the wire. All packets may have
    /// this length.
    pub bytes: u32,
    /// Speed of the line, bits/s.
    pub rate_bps: u64,
}

impl Demand {
    /// The packet-time, ns.
    #[must_use]
    // Lengths and rates are far below 2⁵³.
    #[allow(clippy::cast_precision_loss)]
    pub fn packet_time_ns(&self) -> f64 {
        f64::from(self.bytes) * 8e9 / self.rate_bps as f64
    }
}

/// A core of `rtl/` as placed and routed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Core {
    /// The core's row in `rtl/synthesis/designs.toml`.
    pub design: String,
    /// Maximum number of streams.
    pub streams: u32,
    /// The part and its speed grade.
    pub device: String,
    /// Cycles a decision.
    pub cycles: u32,
    /// The clock, kHz: the median of its placement seeds.
    pub clock_khz: u32,
    /// LUTs on that part.
    pub lut: u32,
    /// Whether the clock is that of the current sources' netlist.
    pub is_current: bool,
}

impl Core {
    /// Returns the time of a decision, ns.
    #[must_use]
    pub fn decision_ns(&self) -> f64 {
        f64::from(self.cycles) * 1e6 / f64::from(self.clock_khz)
    }
}

/// Returns every placed and routed core, in the order of the file, each once.
///
/// # Panics
/// Never panics: a test parses the compiled-in files.
#[must_use]
pub fn cores() -> Vec<Core> {
    let areas: Vec<Vec<&str>> = rows(AREAS).collect();
    let clocks: Vec<Vec<&str>> = rows(CLOCKS).collect();
    clocks
        .chunk_by(|a, b| a[..2] == b[..2])
        .map(|seeds| {
            let row = &seeds[0];
            let mut khz: Vec<u32> = seeds.iter().map(|row| number(row[5])).collect();
            khz.sort_unstable();
            let area = areas
                .iter()
                .find(|area| area[..2] == row[..2] && area[2] == "ecp5")
                .unwrap_or_else(|| panic!("area.csv has no {} {} for ecp5", row[0], row[1]));
            Core {
                design: row[0].into(),
                streams: number(row[1]),
                device: row[2].into(),
                cycles: number(row[4]),
                clock_khz: khz[(khz.len() - 1) / 2],
                lut: number(area[3]),
                is_current: !area[7].is_empty() && area[8] == row[6],
            }
        })
        .collect()
}

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

/// The platform that makes the decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// One core of a CPU.
    Software,
    /// A core of `rtl/`.
    Hardware,
}

/// Deprecated alias of [`Platform`].
#[deprecated(note = "renamed to `Platform`")]
pub type Place = Platform;

/// A structure or core that can make the decisions.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// Software or hardware.
    pub place: Platform,
    /// The structure or the core.
    pub name: String,
    /// Time of a decision, ns.
    pub decision_ns: f64,
    /// Decisions a second.
    pub decisions_per_second: f64,
    /// Decisions that fit in a packet-time.
    pub margin: f64,
    /// Whether at least one decision fits.
    pub keeps_up: bool,
    /// LUTs and part of hardware; empty for software.
    pub needs: String,
}

/// Returns every structure measured with that many streams, and the smallest sufficient core of
/// each design, the fastest first.
#[must_use]
pub fn plan(demand: &Demand, software: &[Measurement]) -> Vec<Candidate> {
    let packet_time_ns = demand.packet_time_ns();
    let candidate = |place, name, decision_ns: f64, needs| Candidate {
        place,
        name,
        decision_ns,
        decisions_per_second: 1e9 / decision_ns,
        margin: packet_time_ns / decision_ns,
        keeps_up: decision_ns <= packet_time_ns,
        needs,
    };
    let mut found: Vec<_> = software
        .iter()
        .filter(|measured| measured.streams == demand.streams)
        .map(|m| candidate(Platform::Software, m.structure.clone(), m.ns, String::new()))
        .collect();
    let cores = cores();
    let mut designs: Vec<&str> = cores.iter().map(|core| core.design.as_str()).collect();
    designs.dedup();
    for design in designs {
        let sufficient = cores.iter().filter(|c| c.design == design && c.streams >= demand.streams);
        if let Some(core) = sufficient.min_by_key(|core| core.streams) {
            let name = format!("{} {}", core.design, core.streams);
            let sources = if core.is_current { "" } else { ", clock of older sources" };
            let needs = format!("{} LUTs, {}{sources}", core.lut, core.device);
            found.push(candidate(Platform::Hardware, name, core.decision_ns(), needs));
        }
    }
    found.sort_by(|a, b| a.decision_ns.total_cmp(&b.decision_ns));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Deadlines, Work};

    fn measured(structure: &str, streams: u32, ns: f64) -> Measurement {
        Measurement {
            work: Work::Decision,
            structure: structure.into(),
            streams,
            missed_percent: 63,
            deadlines: Deadlines::Spread,
            misses: 1.7,
            ns,
            tenth_ns: ns,
            least_ns: ns,
        }
    }

    #[test]
    fn cycles_of_a_decision_match_the_passes_of_each_core() {
        let cores = cores();
        assert!(!cores.is_empty());
        for core in cores {
            let passes = core.streams.ilog2();
            match core.design.as_str() {
                "ba" | "wr" | "ba-key" | "wr-key" => assert_eq!(core.cycles, passes + 1),
                "ca" | "ca-key" => assert_eq!(core.cycles, passes),
                "tree" | "tree-key" | "pair" => assert_eq!(core.cycles, 1),
                // This core has 16 lanes.
                "tiled" => assert_eq!(core.cycles, core.streams / 16 + 6),
                other => panic!("unknown design {other}"),
            }
            assert!(core.lut > 0 && core.clock_khz > 0);
        }
    }

    #[test]
    fn a_packet_time_is_length_over_line_rate() {
        let demand = Demand { streams: 4, bytes: 64, rate_bps: 10_000_000_000 };
        assert!((demand.packet_time_ns() - 51.2).abs() < 1e-9);
    }

    #[test]
    fn candidates_within_a_packet_time_keep_up_fastest_first() {
        let demand = Demand { streams: 4, bytes: 1500, rate_bps: 1_000_000_000 };
        let software = [
            measured("slow", 4, 24_000.0),
            measured("just", 4, 12_000.0),
            measured("heap", 16, 1.0),
        ];
        let found = plan(&demand, &software);
        let of = |name: &str| found.iter().find(|candidate| candidate.name == name);
        assert!(of("just").is_some_and(|c| c.keeps_up && (c.margin - 1.0).abs() < 1e-9));
        assert!(of("slow").is_some_and(|c| !c.keeps_up && (c.margin - 0.5).abs() < 1e-9));
        assert!(of("heap").is_none(), "measured with another number of streams");
        assert!(found.is_sorted_by(|a, b| a.decision_ns <= b.decision_ns));
        assert!(found.iter().any(|c| c.place == Platform::Hardware && c.keeps_up));
    }

    #[test]
    fn a_core_of_older_sources_is_named() {
        let found = plan(&Demand { streams: 4, bytes: 64, rate_bps: 1 }, &[]);
        for core in cores() {
            let name = format!("{} {}", core.design, core.streams);
            if let Some(candidate) = found.iter().find(|candidate| candidate.name == name) {
                assert_eq!(candidate.needs.ends_with("older sources"), !core.is_current);
            }
        }
    }

    #[test]
    fn only_software_serves_more_streams_than_any_core() {
        let demand = Demand { streams: 100_000, bytes: 64, rate_bps: 1 };
        assert!(plan(&demand, &[]).is_empty());
    }
}
