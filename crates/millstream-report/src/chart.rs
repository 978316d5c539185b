//! Line charts as SVG.
//!
//! Colours are Okabe and Ito's, which colour-blind readers can tell apart; the eighth line takes
//! the first colour again. Ink is plain black, so that a page can recolour it for a dark theme with
//! one rule on the attribute.

use plotters::prelude::*;

/// Line colours, in order.
pub const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D"];

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Its points, in the axes' units.
    pub points: Vec<(f64, f64)>,
}

/// What a chart shows besides its lines.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    /// Above the chart; empty for none.
    pub title: &'a str,
    /// The horizontal axis, with its unit.
    pub x_label: &'a str,
    /// The vertical axis, with its unit.
    pub y_label: &'a str,
    /// Horizontal axis by powers of ten; points at 0 or below are left out.
    pub x_log: bool,
    /// The same for the vertical axis.
    pub y_log: bool,
    /// Draw a legend and a white ground, for a picture that stands alone.
    pub alone: bool,
    /// Width and height in pixels.
    pub size: (u32, u32),
}

/// The colour of line `index`.
#[must_use]
pub fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}

fn rgb(index: usize) -> RGBColor {
    let value = u32::from_str_radix(&colour(index)[1..], 16).unwrap_or(0);
    let [_, red, green, blue] = value.to_be_bytes();
    RGBColor(red, green, blue)
}

/// Draws `lines`. The same input gives the same bytes.
///
/// # Errors
/// If the drawing library refuses, which it has no reason to do.
pub fn lines(chart: &Chart, lines: &[Line]) -> Result<String, String> {
    let mut svg = String::new();
    draw(chart, lines, &mut svg).map_err(|error| error.to_string())?;
    Ok(describe(&svg, chart))
}

fn draw(chart: &Chart, lines: &[Line], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let drawn: Vec<_> = lines.iter().map(|line| transformed(chart, &line.points)).collect();
    let points = || drawn.iter().flatten().copied();
    let x_range = range(points().map(|point| point.0), chart.x_log);
    let y_range = range(points().map(|point| point.1), chart.y_log);
    let root = SVGBackend::with_string(svg, chart.size).into_drawing_area();
    if chart.alone {
        root.fill(&WHITE)?;
    }
    let mut builder = ChartBuilder::on(&root);
    builder.margin(12).x_label_area_size(46).y_label_area_size(74);
    if !chart.title.is_empty() {
        builder.caption(chart.title, ("sans-serif", 17));
    }
    // On a long logarithmic axis only whole powers of ten are labelled.
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
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&label(chart.x_log, x_whole))
        .y_label_formatter(&label(chart.y_log, y_whole))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    for (index, (line, points)) in lines.iter().zip(drawn.clone()).enumerate() {
        let colour = rgb(index);
        let series = LineSeries::new(points, colour.stroke_width(2));
        let annotation = context.draw_series(series)?;
        if chart.alone {
            annotation.label(&line.name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
            });
        }
    }
    if chart.alone {
        context
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.2))
            .label_font(("sans-serif", 13))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

fn transformed(chart: &Chart, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let scale = |value: f64, log: bool| if log { value.log10() } else { value };
    let drawable =
        |point: &&(f64, f64)| (!chart.x_log || point.0 > 0.0) && (!chart.y_log || point.1 > 0.0);
    points
        .iter()
        .filter(drawable)
        .map(|p| (scale(p.0, chart.x_log), scale(p.1, chart.y_log)))
        .collect()
}

/// From the least value (0 on a linear axis) to a little beyond the greatest; never empty.
fn range(values: impl Iterator<Item = f64>, log: bool) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return 0.0..1.0;
    }
    if log {
        return low - 0.02..high.max(low + 0.5) + 0.02;
    }
    0.0..if high > 0.0 { high * 1.04 } else { 1.0 }
}

/// A tick's label: plain numbers with few digits.
fn tick(value: f64, log: bool) -> String {
    let value = if log { 10f64.powf(value) } else { value };
    let magnitude = value.abs();
    if magnitude == 0.0 {
        "0".into()
    } else if magnitude >= 1e6 {
        format!("{:.0}M", value / 1e6)
    } else if magnitude >= 10_000.0 {
        format!("{:.0}k", value / 1e3)
    } else if magnitude >= 100.0 {
        format!("{value:.0}")
    } else if magnitude >= 0.995 {
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
    } else if magnitude < 0.001 {
        format!("{value:.0e}")
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').to_owned()
    }
}

/// Adds what a screen reader says.
fn describe(svg: &str, chart: &Chart) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let title = format!("{}: {} by {}", chart.title, chart.y_label, chart.x_label);
    match svg.find('>') {
        Some(at) => {
            let (head, rest) = svg.split_at(at + 1);
            format!("{head}\n<title>{}</title>{rest}", escaped(title.trim_start_matches(": ")))
        }
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: Chart = Chart {
        title: "a <b>",
        x_label: "time (s)",
        y_label: "rate (Mb/s)",
        x_log: false,
        y_log: false,
        alone: true,
        size: (600, 300),
    };

    #[test]
    fn charts_are_well_formed_and_hostile_names_are_text() {
        let line = Line { name: "</svg><script>".into(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let svg = lines(&CHART, &[line]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("<script>") && svg.contains("a &lt;b"));
        assert!(svg.contains("#0072B2"));
    }

    #[test]
    fn nothing_to_draw_is_an_empty_chart() {
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
    }
}
