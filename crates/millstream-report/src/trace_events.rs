//! The writer of trace files for <https://ui.perfetto.dev> and `chrome://tracing`.
//!
//! Source: the *Trace Event Format* (JSON object form): complete slices (`X`), counters (`C`),
//! flows (`s`, `t`, `f`) and names (`M`). Its times are µs with three decimals, which keep the ns.
//! The writer outputs each event immediately, one per line.

use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, Write};

/// A row of the trace: a thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// The number of the process, which is a group of rows.
    pub group: u32,
    /// The number of the thread, which is the position of the row in its group.
    pub row: u32,
}

/// The position of a point within its arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrowPart {
    /// The first point.
    Begin,
    /// An intermediate point.
    Step,
    /// The last point.
    End,
}

/// Writes a trace file.
#[derive(Debug)]
pub struct TraceEventsWriter<W: Write> {
    output: W,
    empty: bool,
}

#[derive(Default, Serialize)]
struct Event<'a> {
    ph: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'a str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Value>,
}

/// Converts ns to µs, exact to the ns for eleven days.
#[allow(clippy::cast_precision_loss)]
fn us(time_ns: u64) -> Option<f64> {
    Some(time_ns as f64 / 1e3)
}

impl<W: Write> TraceEventsWriter<W> {
    /// Creates a writer and writes the start of the file.
    ///
    /// # Errors
    /// Returns the errors of `output`.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(b"{\"displayTimeUnit\": \"ns\", \"traceEvents\": [")?;
        Ok(Self { output, empty: true })
    }

    /// Names a group of rows; viewers sort groups by number.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn group(&mut self, group: u32, name: &str) -> io::Result<()> {
        self.metadata("process_name", group, 0, json!({ "name": name }))?;
        self.metadata("process_sort_index", group, 0, json!({ "sort_index": group }))
    }

    /// Names a row.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn row(&mut self, at: TraceRow, name: &str) -> io::Result<()> {
        self.metadata("thread_name", at.group, at.row, json!({ "name": name }))?;
        self.metadata("thread_sort_index", at.group, at.row, json!({ "sort_index": at.row }))
    }

    /// Writes a slice from `begins_ns` to `ends_ns` with the arguments `more`.
    ///
    /// The slices of a row must be disjoint or nested.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn slice(
        &mut self,
        at: TraceRow,
        (category, name): (&str, &str),
        (begins_ns, ends_ns): (u64, u64),
        more: Value,
    ) -> io::Result<()> {
        let (ts, dur) = (us(begins_ns), us(ends_ns.saturating_sub(begins_ns)));
        let (pid, tid, args) = (at.group, at.row, Some(more));
        let ph = "X";
        self.write(&Event { ph, name, cat: category, pid, tid, ts, dur, args, ..Event::default() })
    }

    /// Writes a point of arrow `id`, attached to the slice of its row at `time_ns`.
    ///
    /// All points of an arrow must have equal names and categories.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn arrow(
        &mut self,
        at: TraceRow,
        part: ArrowPart,
        (category, name): (&str, &str),
        id: u64,
        time_ns: u64,
    ) -> io::Result<()> {
        let (ph, bp) = match part {
            ArrowPart::Begin => ("s", None),
            ArrowPart::Step => ("t", None),
            ArrowPart::End => ("f", Some("e")),
        };
        let (pid, tid, ts, id) = (at.group, at.row, us(time_ns), Some(id));
        self.write(&Event { ph, name, cat: category, pid, tid, ts, id, bp, ..Event::default() })
    }

    /// Writes the value of a counter of a group, valid from `time_ns`.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn counter(
        &mut self,
        group: u32,
        name: &str,
        unit: &str,
        time_ns: u64,
        amount: u64,
    ) -> io::Result<()> {
        let args = Some(json!({ unit: amount }));
        let (pid, ts) = (group, us(time_ns));
        self.write(&Event { ph: "C", name, pid, ts, args, ..Event::default() })
    }

    /// Writes the end of the file with `more` as metadata, and flushes the output.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn finish(mut self, more: &Value) -> io::Result<()> {
        write!(self.output, "\n], \"otherData\": {more}}}\n")?;
        self.output.flush()
    }

    fn metadata(&mut self, name: &str, pid: u32, tid: u32, args: Value) -> io::Result<()> {
        self.write(&Event { ph: "M", name, pid, tid, args: Some(args), ..Event::default() })
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let between: &[u8] = if self.empty { b"\n" } else { b",\n" };
        self.empty = false;
        self.output.write_all(between)?;
        serde_json::to_writer(&mut self.output, event).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_json_with_times_exact_to_the_ns() {
        let mut bytes = Vec::new();
        let mut writer = TraceEventsWriter::new(&mut bytes).unwrap();
        let at = TraceRow { group: 1, row: 7 };
        writer.group(1, "li\"nks").unwrap();
        writer.row(at, "</script>\u{1}").unwrap();
        let times = [0, 1, 999, 1_237, 123_456_789_012_345];
        for time_ns in times {
            writer.slice(at, ("c", "s"), (time_ns, time_ns + 145), json!({"bytes": 64})).unwrap();
        }
        writer.arrow(at, ArrowPart::Begin, ("c", "a"), 3, 12).unwrap();
        writer.arrow(at, ArrowPart::End, ("c", "a"), 3, 13).unwrap();
        writer.counter(1, "waiting", "bytes", 5, 640).unwrap();
        writer.finish(&json!({"left out": 2})).unwrap();
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        assert_eq!(events[0]["args"]["name"], "li\"nks");
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        for (slice, time_ns) in slices.iter().zip(times) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let ns = |key: &str| (slice[key].as_f64().unwrap() * 1e3).round() as u64;
            assert_eq!((ns("ts"), ns("dur")), (time_ns, 145));
        }
        let arrows: Vec<_> = events.iter().filter(|event| event["id"] == 3).collect();
        assert_eq!((&arrows[0]["ph"], &arrows[1]["ph"]), (&json!("s"), &json!("f")));
        assert_eq!(events.last().unwrap()["args"], json!({"bytes": 640}));
        assert_eq!(file["otherData"]["left out"], 2);
    }

    #[test]
    fn file_without_events_is_json() {
        let mut bytes = Vec::new();
        TraceEventsWriter::new(&mut bytes).unwrap().finish(&json!({})).unwrap();
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(file["traceEvents"], json!([]));
    }
}
