//! The HTML report of a fabric's run.
//!
//! It has the table, curves over time, the distribution and the tail of delays, a drawing of the
//! fabric, the busiest links and the fullest buffers. As in the report of a link, the page uses
//! neither scripts nor the network, and the template engine escapes all text of the scenario.

use askama::Template;
use std::io::{self, Write};

use crate::chart::{Chart, Line, colour, dashes};
use crate::fabric::{FabricSummary, header, row};
use crate::figures::{Figure, Tail, in_page, tails};
use crate::html::palettes;
use crate::human;
use crate::table::{print_safe, print_safe_line, shortened};

/// The largest number of links of a fabric that is drawn.
const LINKS_DRAWN: usize = 4_000;
/// The number of listed busiest links.
const LISTED: usize = 10;
/// The least height of a drawing, SVG units.
const HEIGHT: u32 = 420;
/// The least width of a drawing, SVG units.
const WIDTH: u32 = 960;
const MARGIN: u32 = 16;

/// The colours of links by the upper limit of utilisation, per cent, from light to dark; nearly
/// saturated links have a distinct colour.
const SCALE: [(u32, &str); 6] = [
    (20, "#C6DBEF"),
    (40, "#9ECAE1"),
    (60, "#6BAED6"),
    (80, "#3182BD"),
    (95, "#08519C"),
    (100, "#D55E00"),
];

/// A node of the drawing.
#[derive(Clone, Debug)]
pub struct DrawnNode {
    /// The name of the node.
    pub name: String,
    /// Whether the node is a switch instead of an end-point.
    pub switch: bool,
    /// The column from the left and the row from the top.
    pub place: (u32, u32),
}

/// A unidirectional link of the drawing.
#[derive(Clone, Copy, Debug)]
pub struct DrawnLink {
    /// The index of the sender among the nodes.
    pub from: usize,
    /// The index of the receiver among the nodes.
    pub to: usize,
    /// The utilisation as a share of the run, 0 to 1.
    pub utilisation: f64,
    /// The mean backlog of the link over the run, bytes.
    pub waiting_mean_bytes: f64,
    /// The largest backlog of the link, bytes.
    pub waiting_most_bytes: u64,
}

/// The curves of a stream over time.
#[derive(Clone, Debug, Default)]
pub struct FabricCurve {
    /// Time in ms, and delivered traffic in per cent of all end-points' links.
    pub throughput: Vec<(f64, f64)>,
    /// Time in ms, and the mean delay of delivered packets in µs.
    pub delay: Vec<(f64, f64)>,
}

/// The buffer of one stream's virtual channel at the end of a link.
#[derive(Clone, Debug)]
pub struct FullBuffer {
    /// The name of the link.
    pub link: String,
    /// The name of the stream.
    pub stream: String,
    /// The mean occupancy over the run, 0 to 1.
    pub mean: f64,
    /// The highest occupancy, 0 to 1.
    pub most: f64,
}

/// The input of a fabric's report.
#[derive(Clone, Copy, Debug)]
pub struct FabricReportInput<'a> {
    /// The summary of the run.
    pub summary: &'a FabricSummary,
    /// The delay distribution of each stream: delay in µs and per cent of packets up to it, rising.
    pub delays: &'a [Vec<(f64, f64)>],
    /// The delay tail of each stream: rising delays in ns, each with the share of packets with a
    /// longer delay, down to 0.
    pub tails: &'a [Vec<(u64, f64)>],
    /// The end-points and switches.
    pub nodes: &'a [DrawnNode],
    /// The links between the nodes.
    pub links: &'a [DrawnLink],
    /// The curves of each stream over time, including the warm-up.
    pub over_time: &'a [FabricCurve],
    /// The fullest buffers at the ends of links, fullest first; empty for a fabric without buffers.
    pub buffers: &'a [FullBuffer],
    /// The discipline's name.
    pub discipline: &'a str,
    /// The rate of each link, bits/s.
    pub link_rate_bps: u64,
    /// The scenario file's text.
    pub scenario_text: &'a str,
    /// The notes for the reader.
    pub notes: &'a [String],
}

#[derive(Template)]
#[template(path = "fabric.html")]
struct Page<'a> {
    name: String,
    summary: String,
    facts: Vec<(&'static str, String)>,
    notes: Vec<String>,
    heads: &'static [&'static str],
    rows: Vec<Row>,
    charts: Vec<Figure>,
    colours: Vec<(&'static str, &'static str)>,
    scale: Vec<(String, &'static str)>,
    size: (u32, u32),
    nodes: Vec<Node>,
    links: Vec<Link>,
    busiest: Vec<[String; 4]>,
    fullest: Vec<[String; 4]>,
    scenario: &'a str,
}

struct Row {
    name: String,
    colour: &'static str,
    dashes: &'static str,
    cells: Vec<String>,
}

struct Node {
    x: u32,
    y: u32,
    switch: bool,
    title: String,
}

struct Link {
    from: (f64, f64),
    to: (f64, f64),
    colour: &'static str,
    width: &'static str,
    title: String,
}

/// Writes the page to `output`. The output is deterministic.
///
/// # Errors
/// Returns the errors of `output`.
pub fn write_fabric_report(output: &mut impl Write, input: &FabricReportInput) -> io::Result<()> {
    let summary = input.summary;
    let drawn = input.links.len() <= LINKS_DRAWN;
    let places = Layout::of(input.nodes);
    let rows = summary.streams.iter().enumerate().map(|(at, stream)| {
        let mut cells = row(stream);
        cells.truncate(header(summary).len());
        Row { name: shortened(&cells.remove(0)), colour: colour(at), dashes: dashes(at), cells }
    });
    let page = Page {
        name: print_safe_line(&summary.scenario),
        summary: format!(
            "{}, {}; the busiest link is {}",
            human::count(summary.fabric.end_points.into(), "end-point"),
            human::count(summary.fabric.switches.into(), "switch"),
            summary.fabric.busiest_link
        ),
        facts: facts(input),
        notes: input.notes.iter().map(|note| print_safe(note)).collect(),
        heads: header(summary),
        rows: rows.collect(),
        charts: charts(input).map_err(io::Error::other)?,
        colours: palettes(),
        scale: scale(),
        size: places.size,
        nodes: if drawn { places.nodes(input.nodes) } else { Vec::new() },
        links: if drawn { places.links(input) } else { Vec::new() },
        busiest: busiest(input),
        fullest: input.buffers.iter().map(full).collect(),
        scenario: input.scenario_text,
    };
    let html = page.render().map_err(io::Error::other)?;
    output.write_all(html.as_bytes())
}

fn facts(input: &FabricReportInput) -> Vec<(&'static str, String)> {
    let of = &input.summary.fabric;
    vec![
        ("discipline", input.discipline.to_owned()),
        ("end-points", of.end_points.to_string()),
        ("switches", of.switches.to_string()),
        ("links", format!("{} of {}", of.links, human::rate(input.link_rate_bps))),
        ("links busy", format!("{:.1} %", of.mean_utilisation * 100.0)),
        ("counted", format!("{} to {}", human::time(of.warm_up_ns), human::time(of.end_ns))),
        ("packet-hops", of.packet_hops.to_string()),
        ("in flight at the end", of.under_way.to_string()),
    ]
}

fn charts(input: &FabricReportInput) -> Result<Vec<Figure>, String> {
    let of = &input.summary.fabric;
    let named = |points: &mut dyn FnMut(usize) -> Vec<(f64, f64)>| -> Vec<Line> {
        let streams = input.summary.streams.iter().enumerate();
        streams
            .map(|(at, stream)| Line { name: shortened(&stream.name), points: points(at) })
            .collect()
    };
    let mut figures = Vec::new();
    let mut draw = |title, caption, chart: Chart, drawn: &[Line]| -> Result<(), String> {
        if drawn.iter().any(|line| !line.points.is_empty()) {
            figures.push(Figure::draw(title, caption, chart, drawn, &[])?);
        }
        Ok(())
    };
    let curve = |at: usize| input.over_time.get(at).cloned().unwrap_or_default();
    let warm_up = match of.warm_up_ns {
        0 => String::new(),
        warm_up_ns => format!(" The warm-up ends at {}.", human::time(warm_up_ns)),
    };
    draw(
        "Throughput over time",
        format!("Delivered bytes, of the capacity of all end-points' links.{warm_up}"),
        in_page("time (ms)", "throughput (%)"),
        &named(&mut |at| curve(at).throughput),
    )?;
    draw(
        "Delay over time",
        format!("Mean delay of delivered packets, on a logarithmic axis.{warm_up}"),
        Chart { y_log: true, ..in_page("time (ms)", "mean delay (µs)") },
        &named(&mut |at| curve(at).delay),
    )?;
    draw(
        "Delay distribution",
        "Share of delivered packets within the delay, from injection to the last byte's arrival, \
         after the warm-up."
            .into(),
        Chart { x_log: true, ..in_page("delay (µs)", "packets (%)") },
        &named(&mut |at| input.delays.get(at).cloned().unwrap_or_default()),
    )?;
    let streams = input.summary.streams.iter().zip(input.tails);
    let streams: Vec<Tail> = streams
        .map(|(stream, points)| Tail { name: shortened(&stream.name), points: points.clone() })
        .collect();
    if streams.iter().any(|tail| !tail.points.is_empty()) {
        figures.push(tails("delivered", &streams)?);
    }
    Ok(figures)
}

fn scale() -> Vec<(String, &'static str)> {
    let mut from = 0;
    SCALE
        .map(|(to, colour)| {
            let label = format!("{from} to {to} %");
            from = to;
            (label, colour)
        })
        .to_vec()
}

/// Returns the row of a buffer.
fn full(buffer: &FullBuffer) -> [String; 4] {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    [
        print_safe_line(&buffer.link),
        shortened(&buffer.stream),
        percent(buffer.mean),
        percent(buffer.most),
    ]
}

/// Returns the rows of the busiest links.
// The row has one decimal, so rounding to `f64` is not visible.
#[allow(clippy::cast_precision_loss)]
fn busiest(input: &FabricReportInput) -> Vec<[String; 4]> {
    let mut links: Vec<&DrawnLink> = input.links.iter().collect();
    links.sort_by(|one, other| other.utilisation.total_cmp(&one.utilisation));
    let row = |link: &&DrawnLink| {
        let [from, to] = [link.from, link.to].map(|node| &input.nodes[node].name);
        [
            format!("{from} to {to}"),
            format!("{:.1} %", link.utilisation * 100.0),
            kilobytes(link.waiting_mean_bytes),
            kilobytes(link.waiting_most_bytes as f64),
        ]
    };
    links.iter().take(LISTED).map(row).collect()
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} KB", bytes / 1e3)
}

/// The positions of the nodes in the drawing.
struct Layout {
    size: (u32, u32),
    places: Vec<(u32, u32)>,
}

impl Layout {
    fn of(nodes: &[DrawnNode]) -> Self {
        let last = |pick: fn((u32, u32)) -> u32| {
            nodes.iter().map(|node| pick(node.place)).max().unwrap_or(0)
        };
        let (columns, rows) = (last(|place| place.0), last(|place| place.1));
        let size = (
            WIDTH.max(columns.saturating_mul(12) + 2 * MARGIN),
            HEIGHT.max(rows * 24 + 2 * MARGIN),
        );
        let spread = |at: u32, last: u32, room: u32| {
            let along = ((room - 2 * MARGIN) * at).checked_div(last);
            along.map_or(room / 2, |along| MARGIN + along)
        };
        let place = |node: &DrawnNode| {
            (spread(node.place.0, columns, size.0), spread(node.place.1, rows, size.1))
        };
        Self { size, places: nodes.iter().map(place).collect() }
    }

    fn nodes(&self, nodes: &[DrawnNode]) -> Vec<Node> {
        let drawn = nodes.iter().zip(&self.places);
        drawn
            .map(|(node, &(x, y))| Node { x, y, switch: node.switch, title: node.name.clone() })
            .collect()
    }

    /// Returns the links in drawing order: the busiest are last, on top.
    ///
    /// An offset separates the two directions between a pair of nodes.
    fn links(&self, input: &FabricReportInput) -> Vec<Link> {
        let mut order: Vec<&DrawnLink> = input.links.iter().collect();
        order.sort_by(|one, other| one.utilisation.total_cmp(&other.utilisation));
        let drawn = order.into_iter().map(|link| {
            let [from, to] = [link.from, link.to].map(|node| {
                let (x, y) = self.places[node];
                (f64::from(x), f64::from(y))
            });
            let (along_x, along_y) = (to.0 - from.0, to.1 - from.1);
            let length = along_x.hypot(along_y).max(1.0);
            let offset = (-along_y / length * 1.5, along_x / length * 1.5);
            let moved = |place: (f64, f64)| (tenth(place.0 + offset.0), tenth(place.1 + offset.1));
            let percent = link.utilisation * 100.0;
            let last = SCALE.len() - 1;
            let step = SCALE[..last].iter().position(|(to, _)| percent <= f64::from(*to));
            let [from_name, to_name] =
                [link.from, link.to].map(|node| input.nodes[node].name.as_str());
            Link {
                from: moved(from),
                to: moved(to),
                colour: SCALE[step.unwrap_or(last)].1,
                width: if step.is_none() { "2.4" } else { "1.4" },
                title: format!("{from_name} to {to_name}: {percent:.1} %"),
            }
        });
        drawn.collect()
    }
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
