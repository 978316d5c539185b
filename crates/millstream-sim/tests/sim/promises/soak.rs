//! All kinds of random scenarios over a range of seeds, for `scripts/promises.py`.

use super::draw::Draw;
use super::{Measured, MeasuredFabric, Outcome, captured_flows, outcome_of};
use millstream_scenario::Answer;
use std::path::Path;

/// A kind of scenarios: its name, and how one is drawn and added.
type Kind = (&'static str, fn(&mut Row, u64, &Path));

const KINDS: [Kind; 9] = [
    ("links", |row, seed, _| row.add_link(seed, Draw::new(seed).scenario())),
    ("trees", |row, seed, _| row.add_link(seed, Draw::new(seed).tree())),
    ("beside TCP", |row, seed, _| row.add_link(seed, Draw::new(seed).network())),
    ("series", |row, seed, _| row.add_link(seed, Draw::new(seed).series())),
    ("caps", |row, seed, _| row.add_link(seed, Draw::new(seed).caps())),
    ("flows", |row, seed, folder| {
        row.add_link(seed, captured_flows(&mut Draw::new(seed), folder));
    }),
    ("queues", |row, seed, _| row.add_link(seed, Draw::new(seed).queue())),
    ("fabrics", |row, seed, _| row.add_fabric(seed, &Draw::new(seed).fabric())),
    ("crossbars", |row, seed, _| row.add_fabric(seed, &Draw::new(seed).crossbars())),
];

/// The sums over the draws of one kind.
struct Row {
    streams: u64,
    bounded: u64,
    guaranteed: u64,
    broken: u64,
    /// Bounds by how near a delay came to them, per cent.
    met: [u32; 101],
}

impl Default for Row {
    fn default() -> Self {
        Self { streams: 0, bounded: 0, guaranteed: 0, broken: 0, met: [0; 101] }
    }
}

impl Row {
    /// Adds a measured delay and its bound, ns.
    fn add(&mut self, measured_ns: u64, bound_ns: u64) {
        self.bounded += 1;
        if measured_ns > 0 {
            let met = (measured_ns * 100 / bound_ns.max(1)).min(100);
            self.met[usize::try_from(met).unwrap()] += 1;
        }
    }

    fn add_link(&mut self, seed: u64, text: String) {
        let Outcome { explanation, broken, counters, .. } = outcome_of(seed, text, None);
        self.streams += explanation.streams.len() as u64;
        self.broken += broken.len() as u64;
        broken.iter().for_each(|broken| println!("broken: seed {seed}: {broken}"));
        for (at, stream) in explanation.streams.iter().enumerate() {
            self.guaranteed += u64::from(stream.verdict.answer == Answer::Guaranteed);
            if let Some(bound_ns) = stream.bounds.worst_delay_ns {
                self.add(counters.get(at).map_or(0, |of| of.worst_delay_ns), bound_ns);
            }
        }
    }

    fn add_fabric(&mut self, seed: u64, text: &str) {
        for measured in MeasuredFabric::of(text).streams {
            self.streams += 1;
            let Some(Measured { longest_ns, bound_ns }) = measured else { continue };
            self.guaranteed += 1;
            self.add(longest_ns, bound_ns);
            if longest_ns > bound_ns {
                self.broken += 1;
                println!("broken: seed {seed}: {longest_ns} of {bound_ns} ns: {text:?}");
            }
        }
    }

    /// Prints the row for the script.
    fn print(&self, kind: &str, draws: u64) {
        let Self { streams, bounded, guaranteed, broken, met } = self;
        println!("soak: {kind}; {draws}; {streams}; {bounded}; {guaranteed}; {broken}; {met:?}");
    }
}

/// `MILLSTREAM_SEEDS` is the range of seeds, such as `1000..2000`; each draws all kinds.
#[test]
#[ignore = "a run of minutes, by scripts/promises.py"]
fn soak() {
    let seeds = std::env::var("MILLSTREAM_SEEDS").unwrap_or_else(|_| "0..100".into());
    let (from, to) = seeds.split_once("..").unwrap();
    let seeds = from.parse::<u64>().unwrap()..to.parse().unwrap();
    let draws = seeds.end - seeds.start;
    let folder = tempfile::tempdir().unwrap();
    let mut broken = 0;
    for (kind, add) in KINDS {
        let mut row = Row::default();
        seeds.clone().for_each(|seed| add(&mut row, seed, folder.path()));
        row.print(kind, draws);
        broken += row.broken;
    }
    assert_eq!(broken, 0, "{broken} bounds are broken");
}
