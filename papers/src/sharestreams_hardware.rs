//! ShareStreams, section 5.1: area and clock of the hardware, compared with Figures 9 to 11.
//!
//! Reads the measurements of `make rtl-report` (`sharestreams/hardware/*.csv`). Virtex parts have
//! no open place and route: area is synthesized for the paper's families, the clock is that of an
//! ECP5.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use miette::IntoDiagnostic;
use millstream_report::chart::Line;

use crate::claim::{Claim, Evidence, HEAD, rows};
use crate::experiment::{Page, figure};

/// Synthesized cells.
#[derive(Clone, Copy)]
struct Area {
    lut: u32,
    flip_flop: u32,
    multiplier: u32,
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
        let Self { lut, flip_flop, multiplier } = self;
        let multipliers =
            if multiplier > 0 { format!(" + {multiplier} mult") } else { String::new() };
        format!("{lut} / {flip_flop}{multipliers}")
    }
}

struct Clock {
    device: String,
    cycles: u32,
    khz: u32,
}

impl Clock {
    fn mhz(&self) -> f64 {
        f64::from(self.khz) / 1e3
    }

    fn decisions_per_second(&self) -> f64 {
        f64::from(self.khz) * 1e3 / f64::from(self.cycles)
    }
}

/// The measurements, by design and streams.
struct Measured {
    areas: BTreeMap<(String, u32, String), Area>,
    clocks: BTreeMap<(String, u32), Clock>,
}

/// The variants, in the paper's terms.
const VARIANTS: [(&str, &str); 3] = [("ba", "BA"), ("wr", "WR"), ("ca", "CA")];

/// Our variants: with order keys, the tree, and tiles of 16 streams.
const OURS: [(&str, &str); 6] = [
    ("ba-key", "BA, keys"),
    ("wr-key", "WR, keys"),
    ("ca-key", "CA, keys"),
    ("tree", "TREE"),
    ("tree-key", "TREE, keys"),
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
        figure("Fig 1: decisions, and packets", axes.0, axes.1, &drawn)?,
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
    let mut measured = Measured { areas: BTreeMap::new(), clocks: BTreeMap::new() };
    for row in rows("area.csv")? {
        let area = Area {
            lut: number(&row, 3)?,
            flip_flop: number(&row, 4)?,
            multiplier: number(&row, 5)?,
        };
        measured.areas.insert((row[0].into(), number(&row, 1)?, row[2].into()), area);
    }
    for row in rows("clock.csv")? {
        let clock =
            Clock { device: row[2].into(), cycles: number(&row, 4)?, khz: number(&row, 5)? };
        measured.clocks.insert((row[0].into(), number(&row, 1)?), clock);
    }
    Ok(measured)
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
            name: format!("{name}, ours"),
            points: SIZES.into_iter().filter_map(clock).collect(),
        }
    };
    variants.iter().map(line).collect()
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
        Line { name: name.into(), points: sizes.iter().filter_map(rate).collect() }
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

/// Returns the statements of the paper's text that the measurements can test.
fn claims(measured: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (design, name) in VARIANTS {
        let luts = measured.luts(design, "virtex-ii");
        if luts.len() < 2 {
            continue;
        }
        let doublings: Vec<f64> =
            luts.windows(2).map(|pair| f64::from(pair[1].1) / f64::from(pair[0].1)).collect();
        let texts: Vec<_> = doublings.iter().map(|factor| format!("{factor:.2}")).collect();
        claims.push(Claim::exactly(
            format!("{name}: area doubles with the streams, within 10 %"),
            "linear",
            format!("× {}", texts.join(", ")),
            Evidence::Computed,
            doublings.iter().all(|factor| (factor / 2.0 - 1.0).abs() < 0.1),
        ));
    }
    let pairs: Vec<_> = SIZES
        .into_iter()
        .filter_map(|n| {
            Some((measured.area("wr", n, "virtex-ii")?, measured.area("ba", n, "virtex-ii")?))
        })
        .map(|(wr, ba)| f64::from(wr.lut) / f64::from(ba.lut))
        .collect();
    let texts: Vec<_> = pairs.iter().map(|ratio| format!("{ratio:.2}")).collect();
    claims.push(Claim::exactly(
        "WR: smaller than BA",
        "some area savings",
        format!("{} of BA's LUTs", texts.join(", ")),
        Evidence::Computed,
        pairs.iter().all(|ratio| *ratio < 1.0),
    ));
    let slowest = VARIANTS
        .iter()
        .flat_map(|(design, _)| SIZES.map(|streams| measured.clock(design, streams)))
        .flatten()
        .map(Clock::decisions_per_second)
        .fold(f64::INFINITY, f64::min);
    claims.push(Claim::exactly(
        "all variants: 64 and 1,500 bytes at 1 Gb/s, 1,500 bytes at 10 Gb/s",
        "easily met",
        format!("the slowest makes {:.2} M decisions/s", slowest / 1e6),
        Evidence::Computed,
        slowest >= packets_per_second(64, 1) && slowest >= packets_per_second(1500, 10),
    ));
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

fn text(measured: &Measured, claims: &[Claim]) -> String {
    let mut text = String::from(
        "# ShareStreams: area and clock\n\n\
         Section 5.1. `make rtl-report` (an hour or more) measures with open tools: yosys for \
         area, nextpnr for the clock, with more weight on timing than nextpnr's default (`PLACER` \
         in `rtl/synthesis/report.py`). Missing values are not measured yet. WR of 32 streams and \
         TILED were placed with nextpnr's default weights, WR of 32 before the streams' update was \
         split into forecast and outcome. CA with keys of 32 is of a netlist 0.05 % larger than \
         today's, which seeds 2 and 3 placed at 64 and 69 MHz. `make figures` draws the figures \
         from `hardware/`, and `make test` verifies them. The timelines of [Figure 6](fig6.svg), \
         and of [Compute-Ahead](fig6-ahead.svg), come from a simulation that `make test` \
         repeats.\n\n\
         The vendor's tools pack cells into slices. Slices are therefore a range, from the minimum \
         for the LUTs and flip-flops to the number without sharing. There is no open place and \
         route for Virtex: clocks are an ECP5's, speed grade 8, one seed; another seed changes \
         them by some percent.\n\n## Blocks\n\n\
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
             four, then all pairs of the groups' firsts. TILED passes streams from block RAM \
             through one network of 16 lanes.\n\n\
             | core | streams | part | LUT / FF | MHz | cycles a decision | M decisions/s \
             | keeps up with 64 bytes at (Gb/s) | with 1,500 bytes \
             |\n|---|---|---|---|---|---|---|---|---|\n";
    for (design, name) in VARIANTS.into_iter().chain(OURS) {
        for streams in SIZES.into_iter().chain(TILED_SIZES) {
            if let (Some(clock), Some(area)) =
                (measured.clock(design, streams), measured.area(design, streams, "ecp5"))
            {
                let _ = writeln!(
                    text,
                    "| {name} | {streams} | {} | {} | {:.1} | {} | {:.2} | {} | {} |",
                    clock.device,
                    area.cells(),
                    clock.mhz(),
                    clock.cycles,
                    clock.decisions_per_second() / 1e6,
                    line_rates(clock, 64),
                    line_rates(clock, 1500),
                );
            }
        }
    }
    text += "\nFigure 1 of the paper relates schedulers to numbers of streams and rates. Here: the \
             decisions of the cores, and the packets of some lines; `millstream plan` adds the \
             software of a machine.\n\n\
             ![Decisions a second by streams, and packets a second of lines](fig1.svg)\n";
    text += "\n## The paper's statements\n\n";
    text += HEAD;
    text += &rows(claims, "");
    for (name, what) in [("fig9", "9"), ("fig10", "10"), ("fig11", "11")] {
        let _ = write!(
            text,
            "\n![Figure {what}: the paper's area and ours]({name}-area.svg)\n\n\
             ![Our clock for Figure {what}]({name}-clock.svg)\n"
        );
    }
    text
}
