//! The data file of Flent, which plots the results of network tests.
//!
//! The file has the series of Flent's test `rrul_be_nflows`: the goodput of each TCP connection in
//! both directions, and the round-trip times of two pings, in steps of 200 ms. Version 4 of the
//! format, JSON without compression. Times are simulated: they begin in 1970.

use millstream::StreamId;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The step of the series, ns: Flent's default.
const STEP_NS: u64 = 200_000_000;
/// The names of the round-trip times of the first two sources that measure them.
const PINGS: [&str; 2] = ["Ping (ms) ICMP", "Ping (ms) UDP BE"];

/// What the file has of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlentStream {
    /// The data of this number of connections from the first sender, each a series.
    Download(u32),
    /// The data of connections in the other direction.
    Upload(u32),
    /// The round-trip times.
    Ping,
    /// Nothing.
    None,
}

/// Records the series of a run. Its memory grows with the run: 8 bytes for each step of a
/// connection, 16 for each round trip.
#[derive(Debug)]
pub struct FlentRecorder {
    /// The first series of each stream; `None` without any.
    first: Vec<Option<usize>>,
    series: Vec<Goodput>,
    pings: Vec<Ping>,
    /// The ping of each stream.
    ping: Vec<Option<usize>>,
}

/// The goodput of a connection.
#[derive(Debug)]
struct Goodput {
    name: String,
    is_upload: bool,
    /// The bytes in each step.
    bytes: Vec<u64>,
}

/// The round-trip times of a stream: when they were measured, and their lengths, ns.
#[derive(Debug)]
struct Ping {
    name: String,
    times: Vec<(u64, u64)>,
}

impl FlentRecorder {
    /// Returns a recorder of these streams, with their names.
    #[must_use]
    pub fn new(streams: impl IntoIterator<Item = (String, FlentStream)>) -> Self {
        let mut recorder =
            Self { first: Vec::new(), series: Vec::new(), pings: Vec::new(), ping: Vec::new() };
        let mut numbers = [0, 0];
        for (stream, kind) in streams {
            let (connections, is_upload) = match kind {
                FlentStream::Download(connections) => (connections, false),
                FlentStream::Upload(connections) => (connections, true),
                FlentStream::Ping | FlentStream::None => (0, false),
            };
            recorder.first.push((connections > 0).then_some(recorder.series.len()));
            for _ in 0..connections {
                let number = &mut numbers[usize::from(is_upload)];
                *number += 1;
                let direction = if is_upload { "upload" } else { "download" };
                let name = format!("TCP {direction} BE::{number}");
                recorder.series.push(Goodput { name, is_upload, bytes: Vec::new() });
            }
            let is_ping = kind == FlentStream::Ping;
            recorder.ping.push(is_ping.then_some(recorder.pings.len()));
            if is_ping {
                let known = PINGS.get(recorder.pings.len());
                let name = known.map_or(format!("Ping (ms) {stream}"), |name| (*name).to_owned());
                recorder.pings.push(Ping { name, times: Vec::new() });
            }
        }
        recorder
    }

    /// Records that the receiver of a stream's connection `member` got new data at `time_ns`.
    #[inline]
    pub fn delivered(&mut self, stream: StreamId, member: u32, time_ns: u64, bytes: u64) {
        let Some(first) = self.first.get(stream.index()).copied().flatten() else { return };
        let Some(series) = self.series.get_mut(first + member as usize) else { return };
        let step = usize::try_from(time_ns / STEP_NS).unwrap_or(usize::MAX);
        if series.bytes.len() <= step {
            series.bytes.resize(step + 1, 0);
        }
        series.bytes[step] += bytes;
    }

    /// Records a round trip of `rtt_ns` that a stream's source measured at `time_ns`.
    #[inline]
    pub fn round_trip(&mut self, stream: StreamId, time_ns: u64, rtt_ns: u64) {
        if let Some(ping) = self.ping.get(stream.index()).copied().flatten() {
            self.pings[ping].times.push((time_ns, rtt_ns));
        }
    }

    /// Writes the file of the run of a scenario that ended at `end_ns`.
    ///
    /// # Errors
    /// Fails if `output` does.
    pub fn write(&self, scenario: &str, end_ns: u64, mut output: impl Write) -> io::Result<()> {
        let steps = usize::try_from(end_ns.div_ceil(STEP_NS)).unwrap_or(usize::MAX).max(1);
        let x_values: Vec<f64> = (0..steps as u64).map(|step| seconds(step * STEP_NS)).collect();
        let (mut results, mut raw_values) = (Map::new(), Map::new());
        for series in &self.series {
            let values: Vec<f64> = (0..steps).map(|step| series.mbps(step)).collect();
            let raw = x_values.iter().zip(&values).map(|(t, val)| json!({ "t": t, "val": val }));
            raw_values.insert(series.name.clone(), raw.collect());
            results.insert(series.name.clone(), json!(values));
        }
        for ping in &self.pings {
            results.insert(ping.name.clone(), json!(ping.means(steps)));
            let raw = (1..).zip(&ping.times).map(|(seq, (time_ns, rtt_ns))| {
                json!({ "t": seconds(*time_ns), "val": milliseconds(*rtt_ns), "seq": seq })
            });
            raw_values.insert(ping.name.clone(), raw.collect());
        }
        self.add_sums(steps, &mut results);
        let of = |is_upload| self.series.iter().filter(|of| of.is_upload == is_upload).count();
        let units = |name: &String| if name.starts_with("Ping") { "ms" } else { "Mbits/s" };
        let meta = |name: &String| (name.clone(), json!({ "UNITS": units(name) }));
        let length = seconds(end_ns).ceil();
        let file = json!({
            "version": 4,
            "metadata": {
                "NAME": "rrul_be_nflows",
                "TITLE": scenario,
                "NOTE": "simulated by Millstream",
                "TIME": "1970-01-01T00:00:00.000000Z",
                "T0": "1970-01-01T00:00:00.000000Z",
                "HOST": "simulated",
                "LOCAL_HOST": "simulated",
                "IP_VERSION": 4,
                "FLENT_VERSION": null,
                "BATCH_NAME": null,
                "BATCH_TIME": null,
                "BATCH_TITLE": null,
                "BATCH_UUID": null,
                "DATA_FILENAME": null,
                "HOSTS": ["simulated"],
                "LENGTH": length,
                "TOTAL_LENGTH": length,
                "STEP_SIZE": seconds(STEP_NS),
                "TEST_PARAMETERS": {
                    "upload_streams": of(true).to_string(),
                    "download_streams": of(false).to_string(),
                },
                "SERIES_META": results.keys().map(meta).collect::<Map<String, Value>>(),
            },
            "x_values": x_values,
            "results": results,
            "raw_values": raw_values,
        });
        serde_json::to_writer(&mut output, &file)?;
        output.write_all(b"\n")
    }

    /// Adds the sums and means over connections and pings.
    fn add_sums(&self, steps: usize, results: &mut Map<String, Value>) {
        for (direction, is_upload) in [("download", false), ("upload", true)] {
            let of = || self.series.iter().filter(|of| of.is_upload == is_upload);
            let count = of().count();
            if count > 0 {
                let sums: Vec<f64> =
                    (0..steps).map(|step| of().map(|series| series.mbps(step)).sum()).collect();
                #[allow(clippy::cast_precision_loss)]
                let means: Vec<f64> = sums.iter().map(|sum| sum / count as f64).collect();
                results.insert(format!("TCP {direction} sum"), json!(sums));
                results.insert(format!("TCP {direction} avg"), json!(means));
            }
        }
        let total = |step| self.series.iter().map(|series| series.mbps(step)).sum::<f64>();
        if !self.series.is_empty() {
            results.insert("TCP totals".into(), (0..steps).map(total).collect());
        }
        let pings: Vec<_> = self.pings.iter().map(|ping| ping.means(steps)).collect();
        let mean = |step: usize| {
            let of: Vec<f64> = pings.iter().filter_map(|ping| ping[step]).collect();
            #[allow(clippy::cast_precision_loss)]
            let count = of.len() as f64;
            (!of.is_empty()).then(|| of.iter().sum::<f64>() / count)
        };
        if !pings.is_empty() {
            results
                .insert("Ping (ms) avg".into(), (0..steps).map(|step| json!(mean(step))).collect());
        }
    }
}

impl Goodput {
    /// Returns the rate in a step, Mbit/s.
    #[allow(clippy::cast_precision_loss)]
    fn mbps(&self, step: usize) -> f64 {
        let bytes = self.bytes.get(step).copied().unwrap_or(0);
        (bytes * 8) as f64 / 1e6 / seconds(STEP_NS)
    }
}

impl Ping {
    /// Returns the mean in each step, ms; `None` without a measurement.
    fn means(&self, steps: usize) -> Vec<Option<f64>> {
        let mut sums = vec![(0u64, 0u64); steps];
        for (time_ns, rtt_ns) in &self.times {
            let step = usize::try_from(time_ns / STEP_NS).unwrap_or(usize::MAX);
            if let Some((count, sum_ns)) = sums.get_mut(step) {
                *count += 1;
                *sum_ns += rtt_ns;
            }
        }
        let mean = |(count, sum_ns): (u64, u64)| Some(milliseconds(sum_ns.checked_div(count)?));
        sums.into_iter().map(mean).collect()
    }
}

#[allow(clippy::cast_precision_loss)]
fn seconds(time_ns: u64) -> f64 {
    time_ns as f64 / 1e9
}

#[allow(clippy::cast_precision_loss)]
fn milliseconds(time_ns: u64) -> f64 {
    time_ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_the_names_and_units_of_flent() {
        let streams = [
            ("down", FlentStream::Download(2)),
            ("call", FlentStream::None),
            ("up", FlentStream::Upload(1)),
            ("ping", FlentStream::Ping),
        ];
        let mut recorder = FlentRecorder::new(streams.map(|(name, kind)| (name.to_owned(), kind)));
        recorder.delivered(StreamId(0), 1, 399_999_999, 25_000);
        recorder.delivered(StreamId(1), 0, 0, 1);
        recorder.delivered(StreamId(2), 0, 400_000_000, 50_000);
        recorder.round_trip(StreamId(3), 0, 30_000_000);
        recorder.round_trip(StreamId(3), 100_000_000, 32_000_000);
        recorder.round_trip(StreamId(0), 0, 1);
        let mut text = Vec::new();
        recorder.write("s", 600_000_000, &mut text).unwrap();
        let file: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((&file["version"], &file["x_values"]), (&json!(4), &json!([0.0, 0.2, 0.4])));
        // 25,000 bytes in 0.2 s are 1 Mbit/s.
        let expected = json!({
            "TCP download BE::1": [0.0, 0.0, 0.0],
            "TCP download BE::2": [0.0, 1.0, 0.0],
            "TCP download sum": [0.0, 1.0, 0.0],
            "TCP download avg": [0.0, 0.5, 0.0],
            "TCP upload BE::1": [0.0, 0.0, 2.0],
            "TCP upload sum": [0.0, 0.0, 2.0],
            "TCP upload avg": [0.0, 0.0, 2.0],
            "TCP totals": [0.0, 1.0, 2.0],
            "Ping (ms) ICMP": [31.0, null, null],
            "Ping (ms) avg": [31.0, null, null],
        });
        assert_eq!(file["results"], expected);
        let raw = json!([
            { "t": 0.0, "val": 30.0, "seq": 1 },
            { "t": 0.1, "val": 32.0, "seq": 2 },
        ]);
        assert_eq!(file["raw_values"]["Ping (ms) ICMP"], raw);
        let parameters = json!({ "upload_streams": "1", "download_streams": "2" });
        assert_eq!(file["metadata"]["TEST_PARAMETERS"], parameters);
        assert_eq!(file["metadata"]["SERIES_META"]["TCP totals"]["UNITS"], "Mbits/s");
    }
}
