//! The conformance traces of fair queueing, round robins, MinBW, VDS and PD².
//!
//! All disciplines have the same streams: coprime weights, mixed lengths, a queue limit, a rate
//! cap. No transmission time is a whole number of ns. A trace therefore distinguishes its
//! discipline from every other, which `tests/reference/shares.rs` checks.

use std::fmt::Write as _;

use crate::fair::{self, Discipline};
use crate::traces::{Load, MIXED, SLOT_NS, Trace, arrivals, csv, rows_csv, windows};
use crate::{Arrival, Row, StreamSpec, vds};

const RATE_BPS: u64 = 999_999_937;
const OVERHEAD: i32 = 24;

/// The discipline and the streams of a trace.
#[derive(Clone, Debug)]
enum Rules {
    Fair(fair::Spec),
    /// A discipline of [`vds::DISCIPLINES`], by name.
    Windowed(&'static str, Vec<StreamSpec>),
}

/// One trace.
#[derive(Clone, Debug)]
pub struct ShareTrace {
    /// The name of its directory.
    pub name: String,
    rules: Rules,
    arrivals: Vec<Arrival>,
}

/// The entries of the table's trace.
const ENTRIES: &[u32] = &[0, 1, 0, 2, 3, 0, 4, 1, 0];

fn load(seed: u64) -> Load {
    Load { seed, packets: 240, per_hundred_slots: 30, lengths: MIXED }
}

fn spec(discipline: Discipline, fmc: bool) -> fair::Spec {
    let mut streams: Vec<_> = [(7, 1600), (3, 700), (1, 300), (5, 1500), (2, 90)]
        .map(|(weight, quantum)| fair::StreamSpec::new(weight, quantum))
        .into();
    streams[1].queue = Some(12);
    streams[3].shaper = Some((120_000_000, 3000));
    if fmc {
        let channel = fair::StreamSpec { fmc, ..fair::StreamSpec::new(1, 1) };
        streams.push(fair::StreamSpec { shaper: Some((150_000_000, 2500)), ..channel });
    }
    fair::Spec {
        discipline,
        rate_bps: RATE_BPS,
        overhead: OVERHEAD.into(),
        streams,
        credit_returns: Vec::new(),
    }
}

/// Returns every trace.
#[must_use]
pub fn all() -> Vec<ShareTrace> {
    let mut all = Vec::new();
    for (name, discipline) in Discipline::all(ENTRIES) {
        let spec = spec(discipline.clone(), false);
        let name = format!("share-{}", name.replace('+', "-plus"));
        let arrivals = arrivals(spec.streams.len(), load(200));
        all.push(ShareTrace { name, rules: Rules::Fair(spec), arrivals });
        if matches!(discipline, Discipline::Wfq | Discipline::Scfq | Discipline::Drr) {
            let spec = self::spec(discipline.clone(), true);
            let name = format!("minbw-{}", discipline.name());
            let arrivals = arrivals_with_channel(spec.streams.len());
            all.push(ShareTrace { name, rules: Rules::Fair(spec), arrivals });
        }
    }
    let windowed = vds::DISCIPLINES.map(|(name, _)| [(name, false), (name, true)]);
    for (discipline, drop) in windowed.into_iter().flatten() {
        // Several services of long windows, for which virtual deadlines and due times differ.
        const WINDOWS: &[(u32, u32)] =
            &[(5, 6), (5, 15), (3, 8), (5, 6), (0, 0), (7, 24), (0, 3), (2, 2)];
        let mut streams = windows(&[9, 9, 14], WINDOWS);
        streams.iter_mut().for_each(|stream| stream.drop_late = drop);
        streams[1].queue = Some(6);
        let name = format!("{discipline}-{}", if drop { "drop" } else { "send" });
        let load = Load { packets: 200, per_hundred_slots: 36, ..load(300 + u64::from(drop)) };
        let arrivals = arrivals(streams.len(), load);
        all.push(ShareTrace { name, rules: Rules::Windowed(discipline, streams), arrivals });
    }
    all
}

fn arrivals_with_channel(streams: usize) -> Vec<Arrival> {
    arrivals(streams, load(201))
}

impl ShareTrace {
    /// Returns the departures.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        match &self.rules {
            Rules::Fair(spec) => fair::run(spec, &self.arrivals).rows,
            Rules::Windowed(discipline, streams) => windowed(discipline, streams, &self.arrivals),
        }
    }

    /// Returns the departures under each other discipline; for disciplines of windows, also with
    /// windows that allow no loss.
    #[must_use]
    pub fn rows_under_others(&self) -> Vec<(&'static str, Vec<Row>)> {
        match &self.rules {
            Rules::Fair(spec) => Discipline::all(ENTRIES)
                .into_iter()
                .filter(|(_, discipline)| *discipline != spec.discipline)
                .map(|(name, discipline)| {
                    let other = fair::Spec { discipline, ..spec.clone() };
                    (name, fair::run(&other, &self.arrivals).rows)
                })
                .collect(),
            Rules::Windowed(discipline, streams) => {
                let mut strict = streams.clone();
                strict.iter_mut().for_each(|stream| stream.window.0 = 0);
                let rows = windowed(discipline, &strict, &self.arrivals);
                let others = vds::DISCIPLINES.iter().filter(|(name, _)| name != discipline);
                others
                    .map(|(name, _)| (*name, windowed(name, streams, &self.arrivals)))
                    .chain([("no losses allowed", rows)])
                    .collect()
            }
        }
    }

    /// Returns the arrivals CSV.
    #[must_use]
    pub fn arrivals_csv(&self) -> String {
        csv(&self.arrivals)
    }

    /// Returns the departures CSV.
    #[must_use]
    pub fn departures_csv(&self) -> String {
        rows_csv(&self.rows())
    }

    /// Returns the scenario file.
    #[must_use]
    pub fn scenario(&self) -> String {
        let mut text = format!(
            "[scenario]\nname = \"{}\"\n\n[link]\nrate = \"{RATE_BPS} bps\"\n\
             overhead = {OVERHEAD}\n\n[scheduler]\n",
            self.name
        );
        match &self.rules {
            Rules::Fair(spec) => write_fair(&mut text, spec),
            Rules::Windowed(discipline, streams) => {
                let _ = writeln!(text, "discipline = \"{discipline}\"");
                for (at, stream) in (0..).zip(streams) {
                    let (lost, of) = stream.window;
                    let late = if stream.drop_late { "drop" } else { "send" };
                    let slots = stream.period_ns / SLOT_NS;
                    let _ = write!(
                        text,
                        "\n[[stream]]\nname = \"{}\"\nperiod = \"{slots} us\"\n\
                         window = \"{lost}/{of}\"\nlate = \"{late}\"\n",
                        Trace::stream_name(at)
                    );
                    finish_stream(&mut text, stream.queue);
                }
            }
        }
        text
    }
}

/// Returns the departures under a discipline of [`vds::DISCIPLINES`].
fn windowed(discipline: &str, streams: &[StreamSpec], arrivals: &[Arrival]) -> Vec<Row> {
    let run = vds::DISCIPLINES.iter().find(|(name, _)| *name == discipline);
    run.map(|(_, run)| run(RATE_BPS, OVERHEAD.into(), streams, arrivals).rows).unwrap_or_default()
}

fn write_fair(text: &mut String, spec: &fair::Spec) {
    let name = spec.discipline.name();
    if spec.streams.iter().any(|stream| stream.fmc) {
        let _ = writeln!(text, "discipline = \"minbw\"\nalgorithm = \"{name}\"");
    } else {
        let _ = writeln!(text, "discipline = \"{name}\"");
    }
    if let Discipline::Table(entries) = &spec.discipline {
        let names: Vec<_> =
            entries.iter().map(|entry| format!("\"{}\"", Trace::stream_name(*entry))).collect();
        let _ = writeln!(text, "table = [{}]", names.join(", "));
    }
    for (at, stream) in (0..).zip(&spec.streams) {
        let _ = writeln!(text, "\n[[stream]]\nname = \"{}\"", Trace::stream_name(at));
        let _ = if stream.fmc {
            writeln!(text, "fmc = true")
        } else {
            writeln!(text, "weight = {}\nquantum = {}", stream.weight, stream.quantum)
        };
        if let Some((rate_bps, burst_bytes)) = stream.shaper {
            let _ = writeln!(text, "max-rate = \"{rate_bps} bps\"\nburst = \"{burst_bytes} B\"");
        }
        finish_stream(text, stream.queue);
    }
}

fn finish_stream(text: &mut String, queue: Option<u32>) {
    if let Some(limit) = queue {
        let _ = writeln!(text, "queue = {limit}");
    }
    text.push_str("source = { kind = \"trace\", file = \"arrivals.csv\" }\n");
}
