//! ShareStreams, section 5.1: area and clock of the hardware, compared with Figures 9 to 11.
//!
//! Reads the measurements of `make rtl-report` (`sharestreams/hardware/*.csv`). No open tool places
//! and routes Virtex parts. So area is synthesized for the paper's families, and the clock is that
//! of an ECP5: the median of its placement seeds. The spread of a clock is that of all rows with
//! several seeds. A claim about clocks holds only if it holds within that spread, and is judged
//! only if all its rows are of today's sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use miette::IntoDiagnostic;
use millstream_hw::SortingNetwork;
use millstream_report::chart::Line;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::claim::{Allowed, Claim, Estimate, Evidence, HEAD, Test, rows};
use crate::experiment::{Page, figure, tall_figure};

/// Synthesized cells.
#[derive(Clone, Copy)]
struct Area {
    lut: u32,
    flip_flop: u32,
    multiplier: u32,
    /// Whether the row is of today's sources.
    is_current: bool,
}

impl Area {
    /// Returns the lower bound of slices with two LUTs and two flip-flops each.
    fn least_slices(self) -> u32 {
        self.lut.max(self.flip_flop).div_ceil(2)
    }

    /// Returns the upper bound: no LUT shares half a slice with a flip-flop.
    fn most_slices(self) -> u32 {
        (self.lut + self.flip_flop).div_ceil(2)
    }

    fn cells(self) -> String {
        let Self { lut, flip_flop, multiplier, is_current } = self;
        let multipliers =
            if multiplier > 0 { format!(" + {multiplier} mult") } else { String::new() };
        let mark = if is_current { "" } else { "†" };
        format!("{lut} / {flip_flop}{multipliers}{mark}")
    }
}

/// Placement seeds of a complete row.
const SEEDS: usize = 5;

/// Standard error of the median of five normal variables, in deviations of one.
const ERROR_OF_MEDIAN: f64 = 0.535_57;

struct Clock {
    device: String,
    cycles: u32,
    /// The clock of every seed, kHz, ascending.
    khz: Vec<u32>,
    /// Whether the placed netlist is that of today's sources.
    is_current: bool,
    /// The last commit of the sources that were placed.
    commit: String,
}

impl Clock {
    /// Returns the median; of an even number the lower one.
    fn khz(&self) -> u32 {
        self.khz[(self.khz.len() - 1) / 2]
    }

    fn mhz(&self) -> f64 {
        f64::from(self.khz()) / 1e3
    }

    fn decisions_per_second(&self) -> f64 {
        f64::from(self.khz()) * 1e3 / f64::from(self.cycles)
    }

    /// Returns the median with the range, and the number of seeds, marked if incomplete.
    fn cell(&self) -> String {
        let mhz = |khz: u32| f64::from(khz) / 1e3;
        let range = match self.khz.as_slice() {
            [low, .., high] => format!(" ({:.1}–{:.1})", mhz(*low), mhz(*high)),
            _ => String::new(),
        };
        let mark = if self.khz.len() < SEEDS { "*" } else { "" };
        format!("{:.1}{range} | {}{mark} | {}", self.mhz(), self.khz.len(), self.sources())
    }

    fn sources(&self) -> String {
        if self.is_current { "today's".into() } else { format!("older: `{}`", self.commit) }
    }

    /// Returns the standard error of the logarithm of the median, in deviations of one seed.
    fn relative_error(&self) -> f64 {
        // A row of fewer seeds counts as one seed.
        if self.khz.len() == SEEDS { ERROR_OF_MEDIAN } else { 1.0 }
    }
}

/// The measurements, by design and streams.
struct Measured {
    areas: BTreeMap<(String, u32, String), Area>,
    clocks: BTreeMap<(String, u32), Clock>,
    spread: Spread,
}

/// The spread of a clock over placement seeds, pooled over designs.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// Designs with several seeds.
    designs: usize,
    /// Half-width of the 95 % interval of one seed's clock, relative: Student's t times the
    /// deviation of the logarithm from its design's mean.
    half: f64,
}

impl Spread {
    /// Returns the spread of clocks within each of `designs`.
    fn of<'a>(designs: impl Iterator<Item = &'a [u32]>) -> Option<Self> {
        let (mut count, mut squares, mut freedom) = (0, 0.0, 0.0);
        for clocks_khz in designs.filter(|clocks_khz| clocks_khz.len() > 1) {
            let logs: Vec<f64> = clocks_khz.iter().map(|khz| f64::from(*khz).ln()).collect();
            #[allow(clippy::cast_precision_loss)]
            let seeds = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / seeds;
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += seeds - 1.0;
            count += 1;
        }
        let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
        Some(Self { designs: count, half: student.inverse_cdf(0.975) * (squares / freedom).sqrt() })
    }

    /// Returns a product and quotient of the clocks of `rows` with its interval.
    fn ratio(self, ratio: f64, rows: &[Option<&Clock>]) -> Estimate {
        let squares = rows.iter().flatten().map(|clock| clock.relative_error().powi(2));
        let factor = (self.half * squares.sum::<f64>().sqrt()).exp();
        Estimate { value: ratio, low: ratio / factor, high: ratio * factor }
    }
}

/// The variants, in the paper's terms.
const VARIANTS: [(&str, &str); 3] = [("ba", "BA"), ("wr", "WR"), ("ca", "CA")];

/// Our variants: with order keys, the tree, a bit for each pair, and tiles of 16 streams.
const OURS: [(&str, &str); 7] = [
    ("ba-key", "BA, keys"),
    ("wr-key", "WR, keys"),
    ("ca-key", "CA, keys"),
    ("tree", "TREE"),
    ("tree-key", "TREE, keys"),
    ("pair", "PAIR"),
    ("tiled", "TILED"),
];

/// Sizes of tiled cores.
const TILED_SIZES: [u32; 3] = [64, 256, 1024];

const SIZES: [u32; 4] = [4, 8, 16, 32];

/// The paper's blocks: name, slices of Virtex, slices of Virtex-II (the decision block with two
/// more multipliers).
const BLOCKS: [(&str, u32, u32); 3] =
    [("control", 22, 22), ("decision", 190, 122), ("register", 150, 148)];

/// Returns the slices of the paper's blocks of a core, without the network's wires and
/// multiplexers.
fn paper_slices(streams: u32, virtex_ii: bool) -> u32 {
    let [control, decision, register] =
        BLOCKS.map(|(_, one, two)| if virtex_ii { two } else { one });
    control + decision * streams / 2 + register * streams
}

/// Reads the measurements and writes the page.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let measured = read(&folder.join("hardware"))?;
    let claims = claims(&measured);
    let mut files = Vec::new();
    for (name, title, family, variants) in [
        ("fig9", "Fig 9: area, Virtex", "virtex", &VARIANTS[..2]),
        ("fig10", "Fig 10: area, Virtex-II", "virtex-ii", &VARIANTS[..2]),
        ("fig11", "Fig 11: area, Compute-Ahead, Virtex-II", "virtex-ii", &VARIANTS[2..]),
    ] {
        let drawn = areas(&measured, family, variants);
        let axes = (("streams", false), ("slices, at least", false));
        files.push((format!("{name}-area.svg"), figure(title, axes.0, axes.1, &drawn)?));
        let title = title.replace("area", "clock").replace("Virtex-II", "ECP5");
        let title = title.replace("Virtex", "ECP5");
        let drawn = clocks(&measured, variants);
        let axes = (("streams", false), ("MHz", false));
        files.push((format!("{name}-clock.svg"), figure(&title, axes.0, axes.1, &drawn)?));
    }
    let axes = (("streams", true), ("a second", true));
    let drawn = decision_rates(&measured);
    files.push((
        "fig1.svg".into(),
        tall_figure("Fig 1: decisions, and packets", axes.0, axes.1, &drawn)?,
    ));
    files.push(("hardware.md".into(), text(&measured, &claims)));
    Ok(Page { files, claims })
}

fn read(folder: &Path) -> miette::Result<Measured> {
    let rows = |name: &str| -> miette::Result<Vec<csv::StringRecord>> {
        let mut reader = csv::Reader::from_path(folder.join(name)).into_diagnostic()?;
        reader.records().collect::<Result<_, _>>().into_diagnostic()
    };
    let number = |row: &csv::StringRecord, at: usize| row[at].parse::<u32>().into_diagnostic();
    let mut areas = BTreeMap::new();
    // Netlists of today's sources.
    let mut netlists: BTreeMap<(String, u32), String> = BTreeMap::new();
    for row in rows("area.csv")? {
        let streams = number(&row, 1)?;
        let area = Area {
            lut: number(&row, 3)?,
            flip_flop: number(&row, 4)?,
            multiplier: number(&row, 5)?,
            is_current: !row[7].is_empty(),
        };
        if area.is_current && !row[8].is_empty() {
            netlists.insert((row[0].into(), streams), row[8].into());
        }
        areas.insert((row[0].into(), streams, row[2].into()), area);
    }
    let mut clocks: BTreeMap<(String, u32), Clock> = BTreeMap::new();
    for row in rows("clock.csv")? {
        let design = (row[0].into(), number(&row, 1)?);
        let is_current = netlists.get(&design).is_some_and(|netlist| *netlist == row[6]);
        let clock = clocks.entry(design).or_insert_with(|| Clock {
            device: row[2].into(),
            cycles: 0,
            khz: Vec::new(),
            is_current,
            commit: row[8].into(),
        });
        clock.cycles = number(&row, 4)?;
        clock.khz.push(number(&row, 5)?);
    }
    for clock in clocks.values_mut() {
        clock.khz.sort_unstable();
    }
    let spread = Spread::of(clocks.values().map(|clock| clock.khz.as_slice()))
        .ok_or_else(|| miette::miette!("clock.csv needs a design with two seeds"))?;
    Ok(Measured { areas, clocks, spread })
}

impl Measured {
    fn area(&self, design: &str, streams: u32, family: &str) -> Option<Area> {
        self.areas.get(&(design.into(), streams, family.into())).copied()
    }

    fn clock(&self, design: &str, streams: u32) -> Option<&Clock> {
        self.clocks.get(&(design.into(), streams))
    }

    /// Returns the LUTs of a variant by number of streams, as far as synthesized.
    fn luts(&self, design: &str, family: &str) -> Vec<(u32, u32)> {
        let area = |streams| Some((streams, self.area(design, streams, family)?.lut));
        SIZES.into_iter().filter_map(area).collect()
    }
}

/// Returns the area of N / 2 more decision blocks over that of BA with N streams, both in LUTs of
/// Virtex, by N.
pub(crate) fn decision_blocks_over_ba(folder: &Path) -> miette::Result<Vec<(u32, f64)>> {
    let measured = read(&folder.join("hardware"))?;
    let ratio = |streams: u32| {
        let block = measured.area("decision", 0, "virtex")?.lut;
        let core = measured.area("ba", streams, "virtex")?.lut;
        Some((streams, f64::from(streams / 2 * block) / f64::from(core)))
    };
    Ok(SIZES.into_iter().filter_map(ratio).collect())
}

fn areas(measured: &Measured, family: &str, variants: &[(&str, &str)]) -> Vec<Line> {
    let point = |streams: u32, slices: u32| (f64::from(streams), f64::from(slices));
    let ours = variants.iter().map(|(design, name)| {
        let slices =
            |streams| Some(point(streams, measured.area(design, streams, family)?.least_slices()));
        Line {
            name: format!("{name}, ours"),
            points: SIZES.into_iter().filter_map(slices).collect(),
        }
    });
    let paper = SIZES.map(|streams| point(streams, paper_slices(streams, family == "virtex-ii")));
    let paper = Line { name: "BA's blocks, paper".into(), points: paper.into() };
    ours.chain([paper]).collect()
}

fn clocks(measured: &Measured, variants: &[(&str, &str)]) -> Vec<Line> {
    let line = |(design, name): &(&str, &str)| {
        let clock = |streams| Some((f64::from(streams), measured.clock(design, streams)?.mhz()));
        Line {
            name: format!("{name}, ours{}", older(measured, design)),
            points: SIZES.into_iter().filter_map(clock).collect(),
        }
    };
    variants.iter().map(line).collect()
}

/// Returns the legend's note that names the sizes of `design` with clocks of older sources.
fn older(measured: &Measured, design: &str) -> String {
    let sizes: Vec<String> = measured
        .clocks
        .iter()
        .filter(|((name, _), clock)| name == design && !clock.is_current)
        .map(|((_, streams), _)| streams.to_string())
        .collect();
    if sizes.is_empty() { String::new() } else { format!(" (older: {})", sizes.join(", ")) }
}

/// Returns the decisions per second of each kind of core, by streams, and the packets per second of
/// some lines.
fn decision_rates(measured: &Measured) -> Vec<Line> {
    let sizes: Vec<u32> = SIZES.into_iter().chain(TILED_SIZES).collect();
    let cores = VARIANTS.into_iter().chain(OURS).map(|(design, name)| {
        let rate = |streams: &u32| {
            let clock = measured.clock(design, *streams)?;
            Some((f64::from(*streams), clock.decisions_per_second()))
        };
        Line {
            name: format!("{name}{}", older(measured, design)),
            points: sizes.iter().filter_map(rate).collect(),
        }
    });
    let lines = [(64, 1), (1500, 10), (64, 10), (1500, 100)].map(|(bytes, gigabits)| {
        let packets = packets_per_second(bytes, gigabits);
        let ends = [sizes[0], *sizes.last().unwrap_or(&0)];
        Line {
            name: format!("{bytes} bytes at {gigabits} Gb/s"),
            points: ends.map(|streams| (f64::from(streams), packets)).into(),
        }
    });
    cores.filter(|line| line.points.len() > 1).chain(lines).collect()
}

/// Returns the statements of the paper's text, with those that the measurements can test.
fn claims(measured: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(timing_claims(measured));
    claims.extend(block_claims(measured));
    claims.extend(area_claims(measured));
    claims.extend(clock_claims(measured));
    claims.extend(rate_claims(measured));
    claims
}

/// Tests the packet-times of the introduction and the cycles of a decision.
fn timing_claims(measured: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (bytes, paper, half) in [(64, 0.05, 0.005), (1500, 1.2, 0.05)] {
        let ours = 1e6 / packets_per_second(bytes, 10);
        claims.push(
            Test::new(
                format!("Sec 1: packet-time of {bytes} bytes at 10 Gb/s"),
                format!("approximately {paper} µs"),
                "± half a unit of the printed digit",
                Allowed::Between(paper - half, paper + half),
            )
            .by(
                Evidence::Computed,
                format!("{ours:.4} µs"),
                Estimate::exact(ours),
                format!("{:+.1} %; exact", 100.0 * (ours / paper - 1.0)),
            ),
        );
    }
    claims.push(
        Test::new(
            "Fig 1: QoS bounds, streams and scheduling rate",
            "a framework without numbers",
            "none: no number",
            Allowed::Unstated,
        )
        .by(Evidence::Computed, "see the figure", Estimate::exact(f64::NAN), "–"),
    );
    for (design, name, item, update) in
        [("ba", "BA", "Fig 6", 1), ("wr", "WR", "Fig 6", 1), ("ca", "CA", "Fig 11", 0)]
    {
        let paper = SIZES.map(|streams| SortingNetwork::Published.passes(streams) + update);
        let ours: Vec<u32> = SIZES
            .into_iter()
            .filter_map(|streams| measured.clock(design, streams))
            .map(|clock| clock.cycles)
            .collect();
        let list =
            |cycles: &[u32]| cycles.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let off = paper.iter().zip(&ours).filter(|(paper, ours)| paper != ours).count();
        let off = u32::try_from(off + SIZES.len() - ours.len()).unwrap_or(u32::MAX);
        claims.push(
            Test::new(
                format!("{item}: {name}, cycles of a decision, 4 to 32 streams"),
                list(&paper),
                "the printed numbers",
                Allowed::Equal(0.0),
            )
            .by(
                Evidence::Simulated,
                list(&ours),
                Estimate::exact(f64::from(off)),
                format!("{off} of 4 differ; exact, the waveform tests pin them"),
            ),
        );
    }
    claims
}

/// Tests the slices of the blocks: a range, from complete sharing of slices to none.
fn block_claims(measured: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (block, virtex, virtex_ii) in BLOCKS {
        for (family, paper) in [("virtex", virtex), ("virtex-ii", virtex_ii)] {
            let Some(area) = measured.area(block, 0, family) else { continue };
            let [least, most] = [area.least_slices(), area.most_slices()].map(f64::from);
            let paper_slices = f64::from(paper);
            let relative = |ours: f64| 100.0 * (ours / paper_slices - 1.0);
            let range = Estimate { value: f64::midpoint(least, most), low: least, high: most };
            claims.push(
                Test::new(
                    format!("Sec 5.1: slices of the {block} block, {family}"),
                    paper.to_string(),
                    "the printed number ± half a slice",
                    Allowed::Between(paper_slices - 0.5, paper_slices + 0.5),
                )
                .by(
                    Evidence::Computed,
                    format!("{least} to {most}"),
                    range,
                    format!(
                        "{:+.0} to {:+.0} %; range of possible packings",
                        relative(least),
                        relative(most)
                    ),
                ),
            );
        }
    }
    claims
}

/// Returns the smallest and the largest of `values` as an interval around their mean.
fn span(values: &[f64]) -> Estimate {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    #[allow(clippy::cast_precision_loss)]
    let value = values.iter().sum::<f64>() / values.len().max(1) as f64;
    Estimate { value, low, high }
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(", ")
}

/// Returns whether the areas of `designs` are exact or in part those of older sources.
fn certainty(measured: &Measured, designs: &[&str], family: &str) -> &'static str {
    let is_current = measured.areas.iter().all(|((design, _, of), area)| {
        !designs.contains(&design.as_str()) || of != family || area.is_current
    });
    if is_current { "exact" } else { "some of older sources" }
}

/// Tests the area of whole cores.
fn area_claims(measured: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (design, name, item, family) in [
        ("ba", "BA", "Fig 9", "virtex"),
        ("wr", "WR", "Fig 9", "virtex"),
        ("ba", "BA", "Fig 10", "virtex-ii"),
        ("wr", "WR", "Fig 10", "virtex-ii"),
        ("ca", "CA", "Fig 11", "virtex-ii"),
    ] {
        let luts = measured.luts(design, family);
        let doublings: Vec<f64> =
            luts.windows(2).map(|pair| f64::from(pair[1].1) / f64::from(pair[0].1)).collect();
        claims.push(
            Test::new(
                format!("{item}: {name}, area of twice the streams, {family}"),
                "linear: × 2",
                "each step of 4, 8, 16, 32 streams × 2 ± 10 %",
                Allowed::near(2.0, 10.0),
            )
            .by(
                Evidence::Computed,
                format!("× {}", list(&doublings)),
                span(&doublings),
                format!("LUTs; range of the steps; {}", certainty(measured, &[design], family)),
            ),
        );
    }
    let ratio = |design: &str, of: &str, family: &str, sizes: &[u32]| -> Vec<f64> {
        let ratio = |streams: &u32| {
            let (part, whole) =
                (measured.area(design, *streams, family)?, measured.area(of, *streams, family)?);
            Some(f64::from(part.lut) / f64::from(whole.lut))
        };
        sizes.iter().filter_map(ratio).collect()
    };
    let mut compare = |what: String, paper: &str, allowed, ratios: &[f64], certainty: &str| {
        let criterion = match allowed {
            Allowed::Below(_) => "smaller at each size",
            _ => "larger at each size",
        };
        let span = span(ratios);
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        claims.push(Test::new(what, paper, criterion, allowed).by(
            Evidence::Computed,
            format!("× {}", list(ratios)),
            span,
            format!("{:+.0} to {:+.0} % LUTs; {certainty}", percent(span.low), percent(span.high)),
        ));
    };
    for (item, family) in [("Fig 9", "virtex"), ("Fig 10", "virtex-ii")] {
        let ratios = ratio("wr", "ba", family, &SIZES);
        let what = format!("{item}: WR's area over BA's, {family}");
        let certainty = certainty(measured, &["wr", "ba"], family);
        compare(what, "some area savings", Allowed::Below(1.0), &ratios, certainty);
    }
    let ratios = ratio("ca", "ba", "virtex-ii", &SIZES);
    let what = "Fig 11: CA's area over BA's, virtex-ii".to_owned();
    let certain = certainty(measured, &["ca", "ba"], "virtex-ii");
    compare(what, "larger register blocks", Allowed::Above(1.0), &ratios, certain);
    let ratios = ratio("tree", "ba", "ecp5", &[4, 8]);
    let what = "Sec 6: a tree's area over BA's, 4 and 8 streams, ecp5".to_owned();
    let certain = certainty(measured, &["tree", "ba"], "ecp5");
    compare(what, "a tree wastes area", Allowed::Above(1.0), &ratios, certain);
    claims
}

/// A statement about the change of a clock with the number of streams.
struct ClockChange {
    item: &'static str,
    design: &'static str,
    name: &'static str,
    streams: (u32, u32),
    paper: &'static str,
    criterion: &'static str,
    /// The allowed change, %.
    allowed: Allowed,
}

const NO_NUMBER: &str = "none: no number";

/// Returns the claims about how clocks change with the number of streams.
fn clock_changes() -> Vec<ClockChange> {
    let change = |item, design, streams, paper, criterion, allowed| {
        let name = VARIANTS.iter().find(|(of, _)| *of == design).map_or("", |(_, name)| *name);
        ClockChange { item, design, name, streams, paper, criterion, allowed }
    };
    let digits = "the printed % ± half a unit of the last digit";
    let near = |percent: f64| Allowed::Between(percent - 0.5, percent + 0.5);
    vec![
        change("Fig 9", "ba", (4, 8), "20 % drop", digits, near(-20.0)),
        change("Fig 9", "ba", (8, 32), "nearly the same level", NO_NUMBER, Allowed::Unstated),
        change(
            "Fig 9",
            "wr",
            (4, 8),
            "only 5 % change",
            "at most 5 %, rounded, up or down",
            Allowed::Between(-5.5, 5.5),
        ),
        change("Fig 9", "wr", (8, 32), "nearly maintained", NO_NUMBER, Allowed::Unstated),
        change(
            "Fig 10",
            "ba",
            (4, 8),
            "more than 20 % drop",
            "a drop of more than 20 %",
            Allowed::Below(-20.0),
        ),
        change("Fig 10", "ba", (16, 32), "30 % drop", digits, near(-30.0)),
        change("Fig 10", "wr", (4, 16), "more stable", NO_NUMBER, Allowed::Unstated),
        change("Fig 10", "wr", (16, 32), "15 % decay", digits, near(-15.0)),
        change("Fig 11", "ca", (4, 8), "20 % drop", digits, near(-20.0)),
        change("Fig 11", "ca", (8, 32), "maintained", NO_NUMBER, Allowed::Unstated),
    ]
}

/// Names the rows among `rows` that are of older sources.
fn older_rows(measured: &Measured, rows: &[(&str, u32)]) -> Vec<String> {
    let older = rows.iter().filter(|(design, streams)| {
        measured.clock(design, *streams).is_some_and(|clock| !clock.is_current)
    });
    older.map(|(design, streams)| format!("{} {streams}", design.to_uppercase())).collect()
}

/// Returns `estimate` and how certain it is. It is not judged if rows are of older sources.
fn judged(measured: &Measured, estimate: Estimate, rows: &[(&str, u32)]) -> (Estimate, String) {
    let older = older_rows(measured, rows);
    if older.is_empty() {
        return (estimate, format!("95 %, {} designs' seeds pooled", measured.spread.designs));
    }
    let open = Estimate { low: f64::NEG_INFINITY, high: f64::INFINITY, ..estimate };
    (open, format!("not judged, of older sources: {}", older.join(", ")))
}

/// Tests the statements about clocks: an ECP5's, with the spread of all rows.
fn clock_claims(measured: &Measured) -> Vec<Claim> {
    let spread = measured.spread;
    let mhz = |design: &str, streams| measured.clock(design, streams).map_or(f64::NAN, Clock::mhz);
    let mut claims = vec![
        Test::new(
            "Fig 10: clock of Virtex-II over Virtex, BA and WR, all sizes",
            "twice",
            "× 2 ± 10 % at each size",
            Allowed::near(2.0, 10.0),
        )
        .by(
            Evidence::Computed,
            "not measurable: no open place and route for either family",
            Estimate::exact(f64::NAN),
            "–",
        ),
    ];
    for change in clock_changes() {
        let rows = [change.streams.0, change.streams.1].map(|streams| (change.design, streams));
        let [from, to] = rows.map(|(design, streams)| measured.clock(design, streams));
        let [at_from, at_to] = rows.map(|(design, streams)| mhz(design, streams));
        let ratio = spread.ratio(at_to / at_from, &[from, to]);
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let value = Estimate {
            value: percent(ratio.value),
            low: percent(ratio.low),
            high: percent(ratio.high),
        };
        let effect = format!("{:+.0} % [{:+.0}, {:+.0}]", value.value, value.low, value.high);
        let (value, certainty) = judged(measured, value, &rows);
        let (item, name) = (change.item, change.name);
        let (from, to) = change.streams;
        let what = format!("{item}: {name}, clock from {from} to {to} streams");
        claims.push(Test::new(what, change.paper, change.criterion, change.allowed).by(
            Evidence::Computed,
            format!("ECP5: {at_from:.1} to {at_to:.1} MHz"),
            value,
            format!("{effect}; {certainty}"),
        ));
    }
    // The part of its clock that a variant keeps from 4 to 32 streams; WR's over BA's.
    let kept = |design| mhz(design, 32) / mhz(design, 4);
    let rows = [("wr", 4), ("wr", 32), ("ba", 4), ("ba", 32)];
    let clocks = rows.map(|(design, streams)| measured.clock(design, streams));
    let steadier = spread.ratio(kept("wr") / kept("ba"), &clocks);
    let (value, certainty) = judged(measured, steadier, &rows);
    claims.push(
        Test::new(
            "Fig 9, 10: WR's clock is steadier than BA's, 4 to 32 streams",
            "steadier",
            "WR keeps a larger part of its clock than BA",
            Allowed::Above(1.0),
        )
        .by(
            Evidence::Computed,
            format!("ECP5: WR keeps {:.0} %, BA {:.0} %", 100.0 * kept("wr"), 100.0 * kept("ba")),
            value,
            format!(
                "× {:.2} [{:.2}, {:.2}]; {certainty}",
                steadier.value, steadier.low, steadier.high
            ),
        ),
    );
    claims
}

/// Tests the line rates and the gain of compute-ahead.
fn rate_claims(measured: &Measured) -> Vec<Claim> {
    let spread = measured.spread;
    let rate = |design: &str, streams| {
        measured.clock(design, streams).map_or(f64::NAN, Clock::decisions_per_second)
    };
    let mut claims = Vec::new();
    let gains = SIZES.map(|streams| {
        let clocks = ["ca", "ba"].map(|design| measured.clock(design, streams));
        spread.ratio(rate("ca", streams) / rate("ba", streams), &clocks)
    });
    let values = gains.map(|gain| gain.value);
    let (least, most) = (span(&values).low, span(&values).high);
    let low = span(&gains.map(|gain| gain.low)).low;
    let high = span(&gains.map(|gain| gain.high)).high;
    let rows: Vec<(&str, u32)> =
        SIZES.iter().flat_map(|streams| [("ca", *streams), ("ba", *streams)]).collect();
    let (value, certainty) = judged(measured, Estimate { value: least, low, high }, &rows);
    claims.push(
        Test::new(
            "Fig 11: CA's decisions/s over BA's, 4 to 32 streams",
            "better decision time",
            "more than 1 at each size",
            Allowed::Above(1.0),
        )
        .by(
            Evidence::Computed,
            format!("ECP5: × {}", list(&values)),
            value,
            format!("× {least:.2} to {most:.2} [{low:.2}, {high:.2}]; {certainty}"),
        ),
    );
    let rates = VARIANTS.iter().flat_map(|(design, name)| {
        SIZES.map(|streams| (rate(design, streams), *design, *name, streams))
    });
    let slowest = rates.min_by(|a, b| a.0.total_cmp(&b.0));
    let (slowest, design, name, streams) = slowest.unwrap_or((f64::NAN, "", "", 0));
    let clock = measured.clock(design, streams);
    let sources = clock.map_or(String::new(), Clock::sources);
    for (bytes, gigabits) in [(64, 1), (1500, 1), (1500, 10)] {
        let margin = spread.ratio(slowest / packets_per_second(bytes, gigabits), &[clock]);
        claims.push(
            Test::new(
                format!("Sec 5.1: all variants, {bytes} bytes at {gigabits} Gb/s"),
                "easily met",
                "the slowest makes a decision in each packet-time: × 1 or more",
                Allowed::AtLeast(1.0),
            )
            .by(
                Evidence::Computed,
                format!(
                    "{:.2} M decisions/s, {name} of {streams} streams on an ECP5",
                    slowest / 1e6
                ),
                margin,
                format!(
                    "× {:.1} [{:.1}, {:.1}]; 95 %, {} designs' seeds pooled; sources {sources}",
                    margin.value, margin.low, margin.high, spread.designs
                ),
            ),
        );
    }
    claims
}

fn packets_per_second(bytes: u32, gigabits: u32) -> f64 {
    f64::from(gigabits) * 1e9 / (8.0 * f64::from(bytes))
}

/// Returns the line rates in Gbit/s at which a core keeps up with packets of `bytes` bytes.
fn line_rates(clock: &Clock, bytes: u32) -> String {
    let met = [1, 10, 40, 100]
        .into_iter()
        .filter(|rate| clock.decisions_per_second() >= packets_per_second(bytes, *rate));
    let met: Vec<_> = met.map(|rate| rate.to_string()).collect();
    if met.is_empty() { "none".into() } else { met.join(", ") }
}

/// Says which rows are of today's sources.
fn sources(measured: &Measured) -> String {
    let current = measured.clocks.values().filter(|clock| clock.is_current).count();
    let mut text =
        format!("{current} of {} clocks are of today's netlists. ", measured.clocks.len());
    if current < measured.clocks.len() {
        text += "The others are of older sources: column *sources* has their last commit, figures \
                 name their sizes in the legend, and statements that need them are not judged. \
                 WR of 32 streams and TILED of older sources were placed with nextpnr's default \
                 weights. ";
    }
    text += if measured.areas.values().all(|area| area.is_current) {
        "All areas are of today's sources, also in rows of older clocks.\n\n"
    } else {
        "Areas marked † are of older sources.\n\n"
    };
    text
}

fn text(measured: &Measured, claims: &[Claim]) -> String {
    let mut text = String::from(
        "# ShareStreams: area and clock\n\n\
         Section 5.1. `make rtl-report` measures with open tools: yosys for area, nextpnr for the \
         clock, with more weight on timing than nextpnr's default (`PLACER` in \
         `rtl/synthesis/report.py`). It measures designs again whose netlist has changed. Missing \
         values are not measured yet. `make figures` draws the figures from `hardware/`, and \
         `make test` verifies them. The timelines of [Figure 6](fig6.svg), and of \
         [Compute-Ahead](fig6-ahead.svg), come from a simulation that `make test` repeats.\n\n\
         The vendor's tools pack cells into slices. Slices are therefore a range, from the minimum \
         for the LUTs and flip-flops to the number without sharing. There is no open place and \
         route for Virtex: clocks are an ECP5's, speed grade 8, the median of five placement \
         seeds. Rows marked * have fewer.\n\n",
    );
    text += &sources(measured);
    let factor = measured.spread.half.exp();
    let _ = write!(
        text,
        "The seeds of {} designs give the spread of one clock: 95 % interval × {:.2} to \
         {factor:.2}. A median of five has {:.0} % of its width on a logarithmic scale.\n\n",
        measured.spread.designs,
        1.0 / factor,
        100.0 * ERROR_OF_MEDIAN,
    );
    text.push_str(
        "## Blocks\n\n\
         | block | Virtex: paper's slices | LUT / FF | slices | Virtex-II: paper's slices \
         | LUT / FF | slices |\n|---|---|---|---|---|---|---|\n",
    );
    for (block, virtex, virtex_ii) in BLOCKS {
        let ours = |family| {
            measured.area(block, 0, family).map_or("– | –".into(), |area| {
                format!("{} | {}–{}", area.cells(), area.least_slices(), area.most_slices())
            })
        };
        let more = if block == "decision" { " + 2 mult" } else { "" };
        let (one, two) = (ours("virtex"), ours("virtex-ii"));
        let _ = writeln!(text, "| {block} | {virtex} | {one} | {virtex_ii}{more} | {two} |");
    }
    text += "\n## Cores\n\n\
             LUT / flip-flops (+ multipliers); the paper's sum of blocks excludes the network.\n\n\
             | core | streams | Virtex | slices | Virtex-II | slices \
             | paper's BA blocks, Virtex and Virtex-II |\n|---|---|---|---|---|---|---|\n";
    for (design, name) in VARIANTS {
        for streams in SIZES {
            let cell = |family| {
                measured.area(design, streams, family).map_or("– | –".into(), |area| {
                    format!("{} | {}–{}", area.cells(), area.least_slices(), area.most_slices())
                })
            };
            let (one, two) = (cell("virtex"), cell("virtex-ii"));
            if measured.area(design, streams, "virtex-ii").is_some() {
                let paper = (paper_slices(streams, false), paper_slices(streams, true));
                let _ = writeln!(
                    text,
                    "| {name} | {streams} | {one} | {two} | {}, {} |",
                    paper.0, paper.1
                );
            }
        }
    }
    text += "\n## Clock and decisions\n\n\
             Our variants. *With keys*, windows are numbers that the register blocks compute while \
             the network works, and a pass compares numbers. TREE is a tree of decision blocks in \
             one long cycle, winner only; with keys it has two levels: all pairs of each group of \
             four, then all pairs of the groups' firsts. PAIR has a registered bit for each pair \
             of streams. TILED passes streams from block RAM through one network of 16 lanes.\n\n\
             | core | streams | part | LUT / FF | MHz: median (range) | seeds \
             | sources | cycles a decision | M decisions/s | keeps up with 64 bytes at (Gb/s) \
             | with 1,500 bytes |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (design, name) in VARIANTS.into_iter().chain(OURS) {
        for streams in SIZES.into_iter().chain(TILED_SIZES) {
            let Some(area) = measured.area(design, streams, "ecp5") else { continue };
            let cells = area.cells();
            let _ = match measured.clock(design, streams) {
                Some(clock) => writeln!(
                    text,
                    "| {name} | {streams} | {} | {cells} | {} | {} | {:.2} | {} | {} |",
                    clock.device,
                    clock.cell(),
                    clock.cycles,
                    clock.decisions_per_second() / 1e6,
                    line_rates(clock, 64),
                    line_rates(clock, 1500),
                ),
                None => writeln!(
                    text,
                    "| {name} | {streams} | – | {cells} | not placed | 0 | – | – | – | – | – |"
                ),
            };
        }
    }
    text += "\nFigure 1 of the paper relates schedulers to numbers of streams and rates. Here: the \
             decisions of the cores, and the packets of some lines; `millstream plan` adds the \
             software of a machine. Cores of one size are only in the table.\n\n\
             ![Decisions a second by streams, and packets a second of lines](fig1.svg)\n";
    text += "\n## The paper's statements\n\n";
    text += HEAD;
    text += &rows(claims, "");
    text += "\n*Clocks* are of another family than the paper's, so only their changes with the \
             number of streams are compared. *Blocks*: our decision block is larger than the \
             paper's on Virtex, which has no multipliers, and smaller on Virtex-II; our register \
             block is larger on both.\n";
    for (name, what) in [("fig9", "9"), ("fig10", "10"), ("fig11", "11")] {
        let _ = write!(
            text,
            "\n![Figure {what}: the paper's area and ours]({name}-area.svg)\n\n\
             ![Our clock for Figure {what}]({name}-clock.svg)\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn clock(khz: &[u32], is_current: bool) -> Clock {
        let commit = "1234abcd".into();
        Clock { device: String::new(), cycles: 1, khz: khz.into(), is_current, commit }
    }

    #[test]
    fn the_spread_is_students_interval_of_logarithms_pooled_over_designs() {
        let three: &[u32] = &[100, 110, 121];
        let spread = Spread::of([three].into_iter()).expect("three seeds");
        // Logarithms ln 1.1 apart, so the deviation is ln 1.1; 4.3027 for 2 degrees of freedom.
        assert!((spread.half - 4.302_65 * 1.1_f64.ln()).abs() < 1e-4);
        let single: &[u32] = &[7];
        let pooled = Spread::of([three, single, three].into_iter()).expect("two designs");
        // 2.7764 for 4 degrees of freedom.
        assert!((pooled.half - 2.776_45 * 1.1_f64.ln()).abs() < 1e-4 && pooled.designs == 2);
        let (one, five) = (clock(&[1], true), clock(&[1, 1, 1, 1, 1], true));
        let two = spread.ratio(2.0, &[Some(&one), Some(&five)]);
        let half = spread.half * (1.0 + ERROR_OF_MEDIAN.powi(2)).sqrt();
        assert!((two.high / two.low - (2.0 * half).exp()).abs() < 1e-9);
        assert!(Spread::of([single].into_iter()).is_none());
    }

    #[test]
    fn a_row_names_its_sources_and_older_rows_are_not_judged() {
        assert_eq!(clock(&[70_000], false).cell(), "70.0 | 1* | older: `1234abcd`");
        let five = [70_000, 71_000, 72_000, 73_000, 74_000];
        assert_eq!(clock(&five, true).cell(), "72.0 (70.0–74.0) | 5 | today's");
        let clocks = [
            (("wr".to_owned(), 4), clock(&five, true)),
            (("wr".to_owned(), 8), clock(&five, false)),
        ];
        let spread = Spread { designs: 2, half: 0.1 };
        let measured = Measured { areas: BTreeMap::new(), clocks: clocks.into(), spread };
        let (ratio, _) = judged(&measured, Estimate::exact(1.0), &[("wr", 4)]);
        assert_eq!(Allowed::Above(0.5).judge(ratio), Verdict::Reproduced);
        let (ratio, why) = judged(&measured, Estimate::exact(1.0), &[("wr", 4), ("wr", 8)]);
        assert_eq!(Allowed::Above(0.5).judge(ratio), Verdict::CannotTell);
        assert_eq!(why, "not judged, of older sources: WR 8");
        assert_eq!(older(&measured, "wr"), " (older: 8)");
    }

    #[test]
    fn the_slices_of_a_block_are_a_range() {
        let area = Area { lut: 25, flip_flop: 21, multiplier: 0, is_current: false };
        assert_eq!((area.least_slices(), area.most_slices()), (13, 23));
        assert_eq!(area.cells(), "25 / 21†");
    }

    #[test]
    fn a_span_holds_every_value() {
        let span = span(&[1.97, 1.98, 2.01]);
        assert_eq!((span.low, span.high), (1.97, 2.01));
    }
}
