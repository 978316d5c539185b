//! The curves of Figures 5 to 9.

use millstream_report::chart::Line;

use super::experiments::{Batching, OVERHEADS, mixed, overhead, overload};
use super::machine::{FORWARD_NS, PaperMachine};
use crate::experiment::figure;

/// Points of one curve.
pub(super) type Points = Vec<(f64, f64)>;

/// Costs of A's packets in Figures 7 to 9, in hundredths of a µs.
const COSTS: [u64; 19] = [
    30, 100, 200, 250, 300, 320, 340, 360, 400, 450, 500, 600, 800, 1_000, 1_250, 1_500, 2_000,
    2_500, 3_000,
];

/// Loads offered to polled input and to interrupts, hundredths of [`CAPACITY_PPS`].
const LOADS: [u64; 12] = [25, 50, 75, 90, 100, 110, 125, 150, 175, 200, 250, 300];
/// About the rate of three processes with batches of 16, packets a second (Table 2).
const CAPACITY_PPS: u64 = 272_000;

/// All curves.
pub(super) struct Curves {
    /// Figure 5: forwarded rate by offered load, Kpps; one curve for each of [`OVERHEADS`].
    pub(super) overhead: Vec<Points>,
    /// Like Figure 5, up to three times the polled capacity; polled, then with interrupts.
    pub(super) overload: Vec<Points>,
    /// Figure 6: A, B and C by A's offered load, Kpps.
    pub(super) mix: Vec<Points>,
    /// Figures 7, 8 and 9: A, B and C by the cost of A's packets, µs.
    pub(super) costs: Vec<Vec<Points>>,
}

#[allow(clippy::cast_precision_loss)]
impl Curves {
    pub(super) fn compute() -> Self {
        let machine = PaperMachine::printed();
        let loads = |router: usize| {
            let fine = (1..=20u64).map(|step| step * 3_000);
            let coarse = (1..=12u64).map(|step| 60_000 + step * 30_000);
            let points = fine.chain(coarse);
            points.map(|load| (load as f64 / 1e3, overhead(&machine, router, load))).collect()
        };
        let mut mix = vec![Points::new(); 3];
        for offered in (1..=14u64).map(|step| step * 10_000) {
            let rates = mixed(&machine, offered, FORWARD_NS, Batching::Throttled);
            for (line, rate) in mix.iter_mut().zip(rates) {
                line.push((offered as f64 / 1e3, rate));
            }
        }
        let costs = [Batching::Simple, Batching::None, Batching::Throttled].map(|batching| {
            let mut lines = vec![Points::new(); 3];
            for cost in COSTS {
                let rates = mixed(&machine, 50_000, cost * 10, batching);
                for (line, rate) in lines.iter_mut().zip(rates) {
                    line.push((cost as f64 / 100.0, rate));
                }
            }
            lines
        });
        let overload = [false, true].map(|by_interrupts| {
            let offered = LOADS.map(|load| load * CAPACITY_PPS / 100);
            let point = |load: u64| (load as f64 / 1e3, overload(by_interrupts, load));
            offered.into_iter().map(point).collect()
        });
        Self {
            overload: overload.into_iter().collect(),
            overhead: (0..OVERHEADS.len()).map(loads).collect(),
            mix,
            costs: costs.into_iter().collect(),
        }
    }

    /// Returns the curves of overload as rows of a table.
    pub(super) fn overload_rows(&self) -> String {
        let rows = self.overload[0].iter().zip(&self.overload[1]).zip(LOADS);
        let row = |(offered, polled): (f64, f64), interrupted: f64, load: u64| {
            let (whole, part) = (load / 100, load % 100);
            format!("| {whole}.{part:02} | {offered:.0} | {polled:.1} | {interrupted:.1} |\n")
        };
        rows.map(|((polled, interrupted), load)| row(*polled, interrupted.1, load)).collect()
    }

    /// Returns the figures: file names, titles and drawings.
    pub(super) fn draw(&self) -> miette::Result<Vec<(String, String, String)>> {
        let flows = ["A (best effort)", "B", "C"];
        let named = |names: &[&str], curves: &[Points]| -> Vec<Line> {
            let line = |(name, points): (&&str, &Points)| Line {
                name: (*name).to_owned(),
                points: points.clone(),
            };
            names.iter().zip(curves).map(line).collect()
        };
        let rate = ("forwarded (Kpps)", false);
        let mut drawn = Vec::new();
        let mut draw = |file: &str, title: &str, x: &str, lines: &[Line]| -> miette::Result<()> {
            let svg = figure(title, (x, false), rate, lines)?;
            drawn.push((file.to_owned(), title.to_owned(), svg));
            Ok(())
        };
        let lines = named(&OVERHEADS, &self.overhead);
        draw("fig5.svg", "Fig 5: interrupts and processes", "offered (Kpps)", &lines)?;
        let lines = named(&["polling", "interrupts"], &self.overload);
        draw("overload.svg", "Overload with polling and interrupts", "offered (Kpps)", &lines)?;
        let lines = named(&flows, &self.mix);
        draw("fig6.svg", "Fig 6: best effort and two reserved flows", "A offers (Kpps)", &lines)?;
        let titles = ["Fig 7: simple batching", "Fig 8: no batching", "Fig 9: batches of 30 µs"];
        for (at, title) in titles.into_iter().enumerate() {
            let lines = named(&flows, &self.costs[at]);
            draw(&format!("fig{}.svg", at + 7), title, "cost of A's packets (µs)", &lines)?;
        }
        Ok(drawn)
    }
}
