//! Runs a paper's scenarios and holds the parts of its page.

use miette::{IntoDiagnostic, WrapErr};
use millstream::{Departure, Event};
use millstream_report::chart::{self, Chart, Line};
use millstream_scenario::Scenario;
use millstream_sim::{Listener, link};
use std::io;
use std::path::Path;

use crate::claim::Claim;

/// A paper's generated files and claims.
pub(crate) struct Page {
    pub(crate) files: Vec<(String, String)>,
    pub(crate) claims: Vec<Claim>,
}

/// Reads a measured CSV file. In each row, `names` cells of text precede the numbers.
pub(crate) fn measured(
    folder: &Path,
    name: &str,
    names: usize,
) -> miette::Result<Vec<(String, Vec<f64>)>> {
    let path = folder.join("measured").join(name);
    let mut reader = csv::Reader::from_path(&path)
        .into_diagnostic()
        .wrap_err_with(|| format!("{}", path.display()))?;
    let row = |row: csv::StringRecord| -> miette::Result<_> {
        let name: Vec<&str> = row.iter().take(names).collect();
        let cells = row.iter().skip(names).map(|cell| {
            let number: Result<f64, _> = cell.parse();
            number.map_err(|_| miette::miette!("{}: `{cell}` is not a number", path.display()))
        });
        Ok((name.join(" "), cells.collect::<miette::Result<_>>()?))
    };
    reader.records().map(|record| row(record.into_diagnostic()?)).collect()
}

/// The served streams, in order of service.
pub(crate) struct Services {
    /// Stream numbers from 0, in order of service.
    pub(crate) streams: Vec<usize>,
    /// Start of each service, ns.
    pub(crate) times_ns: Vec<u64>,
    pub(crate) names: Vec<String>,
}

struct Collector(Services);

impl Listener for Collector {
    fn departed(
        &mut self,
        departure: &Departure,
        _: Option<&millstream_traffic::FrameBytes>,
    ) -> io::Result<()> {
        if departure.event == Event::Sent {
            self.0.streams.push(departure.stream.index());
            self.0.times_ns.push(departure.time_ns);
        }
        Ok(())
    }
}

/// Runs the scenario `file` to its end.
pub(crate) fn services(file: &Path) -> miette::Result<Services> {
    services_of(&Scenario::load(file)?)
}

/// Runs `scenario` to its end.
pub(crate) fn services_of(scenario: &Scenario) -> miette::Result<Services> {
    let names = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
    let mut collector = Collector(Services { streams: Vec::new(), times_ns: Vec::new(), names });
    let mut input = millstream_scenario::open(scenario, false).into_diagnostic()?;
    link::run(scenario, input.feed.as_mut(), &mut collector).into_diagnostic()?;
    Ok(collector.0)
}

impl Services {
    /// Returns the packets of each stream among the first `slots` served.
    pub(crate) fn counts(&self, slots: usize) -> Vec<usize> {
        let mut counts = vec![0; self.names.len()];
        self.streams.iter().take(slots).for_each(|stream| counts[*stream] += 1);
        counts
    }

    /// Returns each stream's share of all services so far, at about 300 instants up to `slots`.
    ///
    /// The paper plots bandwidth in this way: from time zero, on a logarithmic time axis.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn shares(&self, slots: usize) -> Vec<Line> {
        let mut counts = vec![0usize; self.names.len()];
        let mut points = vec![Vec::new(); self.names.len()];
        let mut next = 4.0;
        for (slot, stream) in self.streams.iter().take(slots).enumerate() {
            counts[*stream] += 1;
            let served = slot + 1;
            // The last 300 packet-times have all points, since a stream may join late.
            if served as f64 >= next || served + 300 > slots {
                next = (served as f64 * 1.03).max(next + 1.0);
                for (points, count) in points.iter_mut().zip(&counts) {
                    points.push((served as f64, *count as f64 / served as f64));
                }
            }
        }
        let line = |(name, points): (&String, Vec<(f64, f64)>)| Line { name: name.clone(), points };
        self.names.iter().zip(points).map(line).collect()
    }

    /// Returns the rate of each stream over time, MB/s, in `bins` equal bins.
    ///
    /// The bins cover the first `slots` services, each of `bytes` bytes.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn rates(&self, slots: usize, bytes: usize, bins: usize) -> Vec<Line> {
        let width = slots.div_ceil(bins);
        let times = &self.times_ns;
        let mut lines: Vec<Line> =
            self.names.iter().map(|name| Line { name: name.clone(), points: Vec::new() }).collect();
        for start in (0..slots.min(times.len())).step_by(width) {
            let end = (start + width).min(times.len() - 1);
            let seconds = (times[end] - times[start]) as f64 / 1e9;
            for (stream, line) in lines.iter_mut().enumerate() {
                let served = self.streams[start..end].iter().filter(|s| **s == stream).count();
                let middle_ms = (times[start] + times[end]) as f64 / 2e6;
                let rate = (served * bytes) as f64 / 1e6 / seconds.max(1e-9);
                line.points.push((middle_ms, rate));
            }
        }
        lines
    }
}

/// Draws a standalone figure; an axis is its label and whether it is logarithmic.
pub(crate) fn figure(
    title: &str,
    x_axis: (&str, bool),
    y_axis: (&str, bool),
    drawn: &[Line],
) -> miette::Result<String> {
    estimates(title, x_axis, y_axis, drawn, &[])
}

/// Draws a figure that is tall enough for the legend of many lines.
pub(crate) fn tall_figure(
    title: &str,
    x_axis: (&str, bool),
    y_axis: (&str, bool),
    drawn: &[Line],
) -> miette::Result<String> {
    sized((760, 640), title, x_axis, y_axis, drawn, &[])
}

/// Draws a figure with error bars of half-lengths `halves`, by line and point.
pub(crate) fn estimates(
    title: &str,
    x_axis: (&str, bool),
    y_axis: (&str, bool),
    drawn: &[Line],
    halves: &[Vec<f64>],
) -> miette::Result<String> {
    sized((760, 400), title, x_axis, y_axis, drawn, halves)
}

fn sized(
    size: (u32, u32),
    title: &str,
    (x_label, x_log): (&str, bool),
    (y_label, y_log): (&str, bool),
    drawn: &[Line],
    halves: &[Vec<f64>],
) -> miette::Result<String> {
    let chart = Chart { title, x_label, y_label, x_log, y_log, standalone: true, size };
    chart::estimates(&chart, drawn, halves).map_err(|error| miette::miette!("{title}: {error}"))
}
