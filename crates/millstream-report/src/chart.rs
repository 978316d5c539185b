//! Line charts as SVG, for the report and for the papers' figures.
//!
//! Colours are those of Okabe and Ito, which colour-blind readers can distinguish. The palette
//! omits their yellow, which is too pale on white, and adds a violet. The eighth line has the first
//! colour again, dashed, so that 28 lines are distinguishable. A standalone chart has a white
//! background and a legend. A chart in a page has neither: the page has the legend.
//!
//! Text and axes are plain black, and lines have the palette's colours as attributes. A page can
//! therefore recolour them for a dark theme with a CSS rule per colour. While drawing, each line
//! has a placeholder colour that encodes its index. The final step replaces these placeholders by
//! colours and dashes, because the drawing library splits a dashed line into many elements.

mod legend;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::table::print_safe_line;

/// The colours of lines, in order.
pub const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D"];

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// The points, in the units of the axes. The line breaks at an ordinate that is not a number.
    pub points: Vec<(f64, f64)>,
}

/// A value of the vertical axis with a labelled line across the chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark<'a> {
    /// The value.
    pub(crate) value: f64,
    /// The label.
    pub(crate) label: &'a str,
}

/// The `stroke-dasharray` values of lines; each repetition of the palette uses the next one.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// The settings of a chart: title, axes and size.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    /// The title above the chart; empty for none.
    pub title: &'a str,
    /// The label of the horizontal axis, with its unit.
    pub x_label: &'a str,
    /// The label of the vertical axis, with its unit.
    pub y_label: &'a str,
    /// Whether the horizontal axis is logarithmic, which omits points at 0 or below. A linear axis
    /// begins at 0, or at the least value if that is negative.
    pub x_log: bool,
    /// Whether the vertical axis is logarithmic, with the rules of `x_log`.
    pub y_log: bool,
    /// Whether to draw a legend and a white background, for a standalone picture.
    pub standalone: bool,
    /// The width and height, pixels.
    pub size: (u32, u32),
}

/// Returns the colour of line `index`.
#[must_use]
pub fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}

/// Returns the dashes of line `index` as a `stroke-dasharray`; empty for a solid line.
pub(crate) fn dashes(index: usize) -> &'static str {
    DASHES[index / PALETTE.len() % DASHES.len()]
}

/// Returns the placeholder colour of line `index` while the chart is drawn.
fn placeholder_colour(index: usize) -> RGBColor {
    let [.., green, blue] = u32::try_from(index).unwrap_or(u32::MAX).to_be_bytes();
    RGBColor(1, green, blue)
}

/// Replaces the placeholder colours by the palette's colours and dashes.
fn paint(svg: &str, lines: usize) -> String {
    let mut painted = svg.to_owned();
    for index in 0..lines {
        let RGBColor(red, green, blue) = placeholder_colour(index);
        let mut stroke = format!("stroke=\"{}\"", colour(index));
        if !dashes(index).is_empty() {
            stroke += &format!(" stroke-dasharray=\"{}\"", dashes(index));
        }
        painted = painted.replace(&format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\""), &stroke);
    }
    painted
}

/// Returns an SVG of `lines`, without points that are not finite. The output is deterministic.
///
/// # Errors
/// Returns the errors of the drawing library, which are not expected.
pub fn lines(chart: &Chart, lines: &[Line]) -> Result<String, String> {
    estimates(chart, lines, &[])
}

/// Returns an SVG of `lines` with an error bar at each point. The output is deterministic.
///
/// `halves` has the half-width of the interval of each point of each line. The bars of different
/// lines have a small horizontal offset.
///
/// # Errors
/// Returns the errors of the drawing library, which are not expected.
pub fn estimates(chart: &Chart, lines: &[Line], halves: &[Vec<f64>]) -> Result<String, String> {
    drawn(chart, lines, halves, &[])
}

/// Returns an SVG of `lines` with error bars, and with labelled horizontal lines at `marks`, which
/// the vertical axis includes. The output is deterministic.
pub(crate) fn drawn(
    chart: &Chart,
    lines: &[Line],
    halves: &[Vec<f64>],
    marks: &[Mark],
) -> Result<String, String> {
    let mut svg = String::new();
    draw(chart, lines, halves, marks, &mut svg).map_err(|error| error.to_string())?;
    if !chart.standalone {
        svg = svg.split_inclusive('\n').map(thinned).collect();
    }
    Ok(describe(&paint(&svg, lines.len()), chart, lines))
}

/// Returns an element without the points of a polyline that change nothing: the middle of three on
/// one pixel row or column, in order. Most steps of a distribution are less than a pixel.
fn thinned(element: &str) -> String {
    let whole = || element.to_owned();
    let Some((head, rest)) = element.split_once(" points=\"") else { return whole() };
    let Some((points, tail)) = rest.split_once('"') else { return whole() };
    let mut kept: Vec<(i32, i32)> = Vec::new();
    for point in points.split_whitespace() {
        let Some((x, y)) = point.split_once(',') else { return whole() };
        let (Ok(x), Ok(y)) = (x.parse(), y.parse()) else { return whole() };
        let between = |low: i32, middle: i32, high: i32| {
            (low <= middle && middle <= high) || (high <= middle && middle <= low)
        };
        while let [.., before, middle] = kept[..] {
            let row = before.1 == middle.1 && middle.1 == y && between(before.0, middle.0, x);
            let column = before.0 == middle.0 && middle.0 == x && between(before.1, middle.1, y);
            if !row && !column {
                break;
            }
            kept.pop();
        }
        kept.push((x, y));
    }
    let points: String = kept.iter().map(|(x, y)| format!("{x},{y} ")).collect();
    format!("{head} points=\"{points}\"{tail}")
}

/// Returns the lower and the upper ends of a line's error bars.
fn ends(line: &Line, halves: &[f64]) -> [Vec<(f64, f64)>; 2] {
    let reach = |sign: f64| {
        let ends = line.points.iter().zip(halves);
        ends.map(|(point, half)| (point.0, point.1 + sign * half)).collect()
    };
    [reach(-1.0), reach(1.0)]
}

/// Returns the horizontal offset of a line's error bars, as a share of the axis width.
///
/// The offset keeps the bars of different lines from covering each other.
fn bar_offset(index: usize, lines: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    (number(index) - (number(lines) - 1.0) / 2.0) * 0.005
}

fn draw(
    chart: &Chart,
    lines: &[Line],
    halves: &[Vec<f64>],
    marks: &[Mark],
    svg: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let drawn: Vec<_> = lines.iter().map(|line| transformed(chart, &line.points)).collect();
    let bars = lines.iter().zip(halves).map(|(line, halves)| ends(line, halves));
    let bars: Vec<_> = bars.map(|ends| ends.map(|ends| transformed(chart, &ends))).collect();
    let points = || drawn.iter().chain(bars.iter().flatten()).flatten().copied();
    let x_range = match (chart.standalone || halves.is_empty(), chart.x_log) {
        (false, false) => around(points().map(|point| point.0)),
        _ => range(points().map(|point| point.0), chart.x_log),
    };
    let at_mark = |mark: &Mark| if chart.y_log { mark.value.log10() } else { mark.value };
    // The label of the lowest mark is not on the axis.
    let below_mark = |mark: &Mark| at_mark(mark) - if chart.y_log { 0.15 } else { 0.0 };
    let y_range =
        range(points().map(|point| point.1).chain(marks.iter().map(below_mark)), chart.y_log);
    let (left, right) = (x_range.start, x_range.end);
    let layout = ChartLayout::of(chart);
    let width = x_range.end - x_range.start;
    let root = SVGBackend::with_string(svg, chart.size).into_drawing_area();
    if chart.standalone {
        root.fill(&WHITE)?;
    }
    let frame = [&x_range, &y_range].map(|range| (range.start, range.end));
    let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
    let legend = legend::position(chart.size, &names, &drawn, frame);
    let mut builder = ChartBuilder::on(&root);
    let ChartLayout { margin, label_areas, font, .. } = layout;
    builder.margin(margin).x_label_area_size(label_areas.0).y_label_area_size(label_areas.1);
    if !chart.title.is_empty() {
        builder.caption(print_safe_line(chart.title), ("sans-serif", 17));
    }
    // Only whole powers of ten are labelled on a logarithmic axis of two decades or more.
    let decades = |range: &std::ops::Range<f64>| range.end - range.start >= 2.0;
    let (x_whole, y_whole) = (decades(&x_range), decades(&y_range));
    let label = |log: bool, whole: bool| {
        move |value: &f64| {
            let between = (value - value.round()).abs() > 1e-6;
            if log && whole && between { String::new() } else { tick(*value, log) }
        }
    };
    let mut context = builder.build_cartesian_2d(x_range, y_range)?;
    context
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .axis_style(BLACK.mix(0.5))
        .x_desc(chart.x_label)
        .y_desc(chart.y_label)
        .x_labels(layout.ticks.0)
        .y_labels(layout.ticks.1)
        .x_label_formatter(&label(chart.x_log, x_whole))
        .y_label_formatter(&label(chart.y_log, y_whole))
        .label_style(("sans-serif", font))
        .axis_desc_style(("sans-serif", font + 1))
        .draw()?;
    for mark in marks {
        let y = at_mark(mark);
        let line = PathElement::new([(left, y), (right, y)], BLACK.mix(0.45));
        let style = ("sans-serif", font).into_font().into_text_style(&root);
        let style = style.pos(Pos::new(HPos::Left, VPos::Bottom));
        context.draw_series([line])?;
        context.draw_series([Text::new(format!(" {}", mark.label), (left, y), style)])?;
    }
    for (index, line) in lines.iter().enumerate() {
        let colour = placeholder_colour(index);
        let mut segments = line.points.split(|point| point.1.is_nan());
        let mut draw = |segment| {
            let points = transformed(chart, segment);
            context.draw_series(LineSeries::new(points, colour.stroke_width(2))).map(|_| ())
        };
        let first = segments.next().unwrap_or_default();
        segments.try_for_each(&mut draw)?;
        let series = LineSeries::new(transformed(chart, first), colour.stroke_width(2));
        let annotation = context.draw_series(series)?;
        if chart.standalone {
            annotation.label(print_safe_line(&line.name)).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
            });
        }
    }
    for (index, [low, high]) in bars.iter().enumerate() {
        let style = placeholder_colour(index).stroke_width(1);
        // The lines of a page can be told apart by their points.
        let offset = if chart.standalone { bar_offset(index, bars.len()) } else { 0.0 };
        let bar_offset = offset * width;
        let bar = |(at, low): (usize, &(f64, f64))| {
            let high = high[at].1;
            // On a logarithmic axis the mean is not in the middle.
            let middle =
                if chart.standalone { f64::midpoint(low.1, high) } else { drawn[index][at].1 };
            ErrorBar::new_vertical(low.0 + bar_offset, low.1, middle, high, style, 7)
        };
        // An axis without a place for an end omits it.
        let count = low.len().min(high.len()).min(drawn[index].len());
        context.draw_series(low[..count].iter().enumerate().map(bar))?;
    }
    if chart.standalone {
        context
            .configure_series_labels()
            .position(legend)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.2))
            .label_font(("sans-serif", 13))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

/// The sizes of a chart's parts, pixels.
struct ChartLayout {
    margin: u32,
    /// The areas of the labels below and beside the axes.
    label_areas: (u32, u32),
    /// The size of the labels' font, in the unit of the drawing library: 1.24 of it are a pixel.
    font: u32,
    /// The largest number of ticks of each axis.
    ticks: (usize, usize),
}

impl ChartLayout {
    fn of(chart: &Chart) -> Self {
        match chart {
            Chart { standalone: true, .. } => {
                Self { margin: 12, label_areas: (46, 74), font: 13, ticks: (8, 6) }
            }
            // A page scales its charts: labels of the least size still have 11 pixels.
            Chart { size: (..600, _), .. } => {
                Self { margin: 6, label_areas: (46, 62), font: 16, ticks: (4, 5) }
            }
            _ => Self { margin: 12, label_areas: (48, 78), font: 15, ticks: (8, 6) },
        }
    }
}

fn transformed(chart: &Chart, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let scale = |value: f64, log: bool| if log { value.log10() } else { value };
    let drawable = |point: &&(f64, f64)| {
        let finite = point.0.is_finite() && point.1.is_finite();
        finite && (!chart.x_log || point.0 > 0.0) && (!chart.y_log || point.1 > 0.0)
    };
    points
        .iter()
        .filter(drawable)
        .map(|p| (scale(p.0, chart.x_log), scale(p.1, chart.y_log)))
        .collect()
}

/// Returns the range of an axis: from the least value, at most 0 on a linear axis, to slightly
/// beyond the greatest. It is never empty.
fn range(values: impl Iterator<Item = f64>, log: bool) -> std::ops::Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return 0.0..1.0;
    }
    if log {
        return low - 0.02..high.max(low + 0.5) + 0.02;
    }
    low.min(0.0)..if high > 0.0 { high * 1.04 } else { 1.0 }
}

/// Returns the range of an axis that surrounds the values, without 0.
fn around(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return 0.0..1.0;
    }
    let beside = if high > low { (high - low) * 0.04 } else { 1.0 };
    low - beside..high + beside
}

/// Returns the label of a tick: a plain number with at most four digits.
fn tick(value: f64, log: bool) -> String {
    let value = if log { 10f64.powf(value) } else { value };
    let magnitude = value.abs();
    // Values within rounding of the next range use its format.
    if magnitude < 1e-12 {
        "0".into()
    } else if magnitude >= 1e15 {
        format!("{value:.0e}")
    } else if magnitude >= 0.999_5e12 {
        decimals(value / 1e12, 2) + "T"
    } else if magnitude >= 0.999_5e9 {
        decimals(value / 1e9, 2) + "G"
    } else if magnitude >= 0.999_5e6 {
        decimals(value / 1e6, 2) + "M"
    } else if magnitude >= 9_999.5 {
        decimals(value / 1e3, 1) + "k"
    } else if magnitude >= 100.0 {
        decimals(value, 1)
    } else if magnitude >= 0.995 {
        decimals(value, 2)
    } else if magnitude < 0.000_999 {
        format!("{value:.0e}")
    } else {
        decimals(value, 3)
    }
}

/// Formats `value` with at most `most` decimals.
fn decimals(value: f64, most: usize) -> String {
    let text = format!("{value:.most$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes `text` for an SVG, between tags or in an attribute.
fn escaped(text: &str) -> String {
    let entities = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];
    let escape = |text: String, (c, entity): (char, &str)| text.replace(c, entity);
    entities.into_iter().fold(print_safe_line(text), escape)
}

/// Adds the description for screen readers: the title and, in a chart without a legend, the names
/// of the lines.
fn describe(svg: &str, chart: &Chart, lines: &[Line]) -> String {
    let Some((head, rest)) = svg.split_once('>') else { return svg.to_owned() };
    let axes = format!("{} by {}", chart.y_label, chart.x_label);
    let title = if chart.title.is_empty() { axes } else { format!("{}: {axes}", chart.title) };
    let title = escaped(&title);
    if chart.standalone {
        return format!("{head}>\n<title>{title}</title>{rest}");
    }
    let names: Vec<_> = lines.iter().map(|line| escaped(&line.name)).collect();
    let names = names.join(", ");
    format!("{head} role=\"img\">\n<title>{title}</title>\n<desc>Lines: {names}</desc>{rest}")
}

/// An interval of a band.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The start, in the unit of the axis.
    pub from: f64,
    /// The end, in the unit of the axis.
    pub to: f64,
    /// The kind, as an index into the names; it selects the colour.
    pub kind: usize,
}

/// A row of spans.
#[derive(Clone, Debug)]
pub struct Band {
    /// The name, drawn beside the band.
    pub name: String,
    /// The spans of the band.
    pub spans: Vec<Span>,
}

/// Returns an SVG of stacked bands on a common axis, below a legend of `kinds`.
///
/// The output is deterministic.
///
/// # Errors
/// Returns the errors of the drawing library, which are not expected.
pub fn bands(title: &str, label: &str, kinds: &[String], bands: &[Band]) -> Result<String, String> {
    const LEFT: i32 = 118;
    const ROW: i32 = 26;
    const TOP: i32 = 66;
    const WIDTH: i32 = 960;
    let rows = i32::try_from(bands.len()).unwrap_or(0);
    let height = TOP + rows * ROW + 52;
    let most = bands.iter().flat_map(|band| &band.spans).map(|span| span.to).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    // The result is a pixel position within the picture, so it fits `i32`.
    #[allow(clippy::cast_possible_truncation)]
    let across = |value: f64| LEFT + (value / most * f64::from(WIDTH - LEFT - 24)).round() as i32;
    let colour = |kind: usize| {
        let digits = u32::from_str_radix(&colour(kind)[1..], 16).unwrap_or(0);
        let [_, red, green, blue] = digits.to_be_bytes();
        RGBColor(red, green, blue)
    };
    let mut svg = String::new();
    let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
    let draw = |svg: &mut String| -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let text = ("sans-serif", 13).into_font();
        root.draw(&Text::new(print_safe_line(title), (LEFT, 10), ("sans-serif", 17).into_font()))?;
        let mut at = LEFT;
        for (kind, name) in kinds.iter().enumerate() {
            root.draw(&Rectangle::new([(at, 40), (at + 22, 52)], colour(kind).filled()))?;
            root.draw(&Text::new(print_safe_line(name), (at + 28, 39), text.clone()))?;
            at += 60 + 8 * i32::try_from(name.chars().count()).unwrap_or(0);
        }
        let bottom = TOP + rows * ROW;
        for step in 0..=6 {
            let value = most * f64::from(step) / 6.0;
            let line = [(across(value), TOP - 4), (across(value), bottom + 4)];
            root.draw(&PathElement::new(line, BLACK.mix(0.15)))?;
            let place = (across(value) - 8, bottom + 8);
            root.draw(&Text::new(tick(value, false), place, text.clone()))?;
        }
        root.draw(&Text::new(print_safe_line(label), (WIDTH / 2, bottom + 28), text.clone()))?;
        for (row, band) in (0..).zip(bands) {
            let top = TOP + row * ROW;
            root.draw(&Text::new(print_safe_line(&band.name), (8, top + 5), text.clone()))?;
            for span in &band.spans {
                let corners = [(across(span.from), top + 2), (across(span.to), top + ROW - 4)];
                root.draw(&Rectangle::new(corners, colour(span.kind).filled()))?;
                root.draw(&Rectangle::new(corners, WHITE.stroke_width(1)))?;
            }
        }
        root.present()?;
        Ok(())
    };
    draw(&mut svg).map_err(|error| error.to_string())?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: Chart = Chart {
        title: "a <b>",
        x_label: "time (s)",
        y_label: "rate (Mbit/s)",
        x_log: false,
        y_log: false,
        standalone: true,
        size: (600, 300),
    };

    #[test]
    fn charts_are_well_formed_and_escape_names() {
        let line = Line { name: "</svg><script>".into(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let svg = lines(&CHART, &[line]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("<script>") && svg.contains("a &lt;b"));
        assert!(svg.contains("#0072B2"));
    }

    #[test]
    fn thinned_lines_keep_every_turn() {
        let line = |points: &str| format!("<polyline points=\"{points}\"/>\n");
        let found = thinned(&line("0,0 0,0 1,0 5,0 5,3 5,1 6,1 7,2 8,3 "));
        assert_eq!(found, line("0,0 5,0 5,3 5,1 6,1 7,2 8,3 "));
        assert_eq!(thinned("<text>a</text>\n"), "<text>a</text>\n");
    }

    /// Returns the y positions of horizontal strokes in the first line's colour: the ends of error
    /// bars.
    fn caps(svg: &str) -> Vec<i32> {
        let ours = svg.lines().filter(|line| line.starts_with("<line") && line.contains("#0072B2"));
        let number = |line: &str, key: &str| -> i32 {
            let (_, after) = line.split_once(&format!(" {key}=\"")).unwrap();
            after.split_once('"').unwrap().0.parse().unwrap()
        };
        let flat = ours.filter(|line| number(line, "y1") == number(line, "y2"));
        flat.map(|line| number(line, "y1")).collect()
    }

    #[test]
    fn error_bars_have_the_given_half_widths() {
        let points = vec![(0.0, 10.0), (1.0, 20.0)];
        let line = Line { name: "a".into(), points };
        let plain = lines(&CHART, std::slice::from_ref(&line)).unwrap();
        assert!(caps(&plain).is_empty());
        let svg = estimates(&CHART, &[line], &[vec![10.0, 5.0]]).unwrap();
        // The bars reach from 0 to 20 and from 15 to 25; the second is half as long.
        let mut caps = caps(&svg);
        caps.sort_unstable();
        let [top, near, bottom] = [caps[0], caps[1], caps[caps.len() - 1]];
        assert_eq!(caps.len(), 4, "{svg}");
        assert!(((bottom - top) * 4 / 5 - (bottom - near)).abs() <= 1, "{caps:?}");
        assert!((caps[2] - top - (bottom - near) / 2).abs() <= 1, "{caps:?}");
    }

    #[test]
    fn chart_without_data_is_empty() {
        for (x_log, y_log) in [(false, false), (true, true)] {
            let chart = Chart { x_log, y_log, ..CHART };
            assert!(lines(&chart, &[]).unwrap().contains("</svg>"));
            let zero = Line { name: "zero".into(), points: vec![(0.0, 0.0)] };
            assert!(lines(&chart, &[zero]).unwrap().contains("</svg>"));
        }
    }

    #[test]
    fn ticks_have_few_digits() {
        let labels = [0.0, 0.25, 1.0, 2.5, 120.0, 64_000.0, 2e6].map(|value| tick(value, false));
        assert_eq!(labels, ["0", "0.25", "1", "2.5", "120", "64k", "2M"]);
        assert_eq!([tick(2.0, true), tick(-4.0, true)], ["100", "1e-4"]);
        let labels =
            [-5.0, 0.001, 2.25, 12_500.0, 1.5e6, 4e9, 1e16].map(|value| tick(value, false));
        assert_eq!(labels, ["-5", "0.001", "2.25", "12.5k", "1.5M", "4G", "1e16"]);
    }

    #[test]
    fn ticks_of_an_axis_differ() {
        for most in [1.3, 7.0, 55.0, 19_000.0, 1.2e6, 7e6, 3e9] {
            for steps in [4.0, 5.0, 8.0] {
                let labels: Vec<_> =
                    (0..5).map(|k| tick(f64::from(k) * most / steps, false)).collect();
                let mut distinct = labels.clone();
                distinct.dedup();
                assert_eq!(labels, distinct);
            }
        }
    }

    #[test]
    fn all_lines_of_the_report_are_distinguishable() {
        let of = |k: u32| Line { name: k.to_string(), points: vec![(0.0, 0.0), (1.0, k.into())] };
        let all: Vec<_> = (0..24).map(of).collect();
        let svg = lines(&Chart { standalone: false, ..CHART }, &all).unwrap();
        assert!(!svg.contains("\"#0100"), "a placeholder was left");
        let strokes: std::collections::BTreeSet<_> = svg
            .lines()
            .filter(|line| line.starts_with("<polyline") && line.contains("stroke-width=\"2\""))
            .map(|line| line.split(" points").next().unwrap())
            .collect();
        assert_eq!(strokes.len(), 24);
    }

    #[test]
    fn bands_show_their_names_and_all_spans() {
        let spans =
            vec![Span { from: 0.0, to: 2.0, kind: 0 }, Span { from: 2.0, to: 6.0, kind: 1 }];
        let band = Band { name: "a<b".into(), spans };
        let svg = bands("t", "x", &["one".into(), "two".into()], &[band.clone(), band]).unwrap();
        assert_eq!(svg.matches(colour(0)).count(), 3, "the legend and two spans");
        assert!(svg.contains("a&lt;b") && svg.contains("two"));
        assert!(bands("t", "x", &[], &[]).is_ok());
    }

    #[test]
    fn non_finite_points_are_omitted_and_negative_points_are_drawn() {
        let points = vec![(0.0, -4.0), (f64::NAN, 1.0), (0.5, f64::INFINITY), (1.0, 2.0)];
        let svg = lines(&CHART, &[Line { name: "\u{1b}a".into(), points }]).unwrap();
        assert!(svg.contains("-4") && !svg.contains("NaN") && !svg.contains('\u{1b}'));
    }
}
