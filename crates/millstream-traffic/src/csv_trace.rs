//! The arrivals CSV: `time_ns,stream,bytes`, with rows in time order.
//!
//! One pass over the file serves every stream that names it. Rows of equal time keep file order. An
//! invalid row is an error that names its line; no row is skipped. A row has at most 1 MiB, so an
//! open quote or a file without newlines cannot fill the memory.

use rustc_hash::FxHashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arrival::{Arrival, Feed, TrafficError};
use crate::read_progress::{ReadProgress, TrackedFile};

const HEADER: [&str; 3] = ["time_ns", "stream", "bytes"];

/// The maximum number of bytes read for one row.
const MAX_ROW_BYTES: usize = 1 << 20;

/// An input that fails when one row exceeds [`MAX_ROW_BYTES`].
struct Limited<R> {
    input: R,
    since_row: usize,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_row > MAX_ROW_BYTES {
            let message =
                format!("a row of more than {MAX_ROW_BYTES} bytes: is a quote left open?");
            return Err(io::Error::other(message));
        }
        let read = self.input.read(buffer)?;
        self.since_row += read;
        Ok(read)
    }
}

/// A feed of the rows of an arrivals CSV.
pub struct CsvTrace<R> {
    rows: csv::Reader<Limited<R>>,
    row: csv::ByteRecord,
    streams: FxHashMap<Vec<u8>, u32>,
    other_streams: Vec<String>,
    path: PathBuf,
    last_ns: u64,
}

impl CsvTrace<TrackedFile> {
    /// Opens the trace at `path` for `streams` (name and number).
    ///
    /// `other_streams` holds the names of the scenario's other streams, for error messages.
    /// `reading` receives the read progress.
    ///
    /// # Errors
    /// Fails if the file cannot be read or does not start with the header.
    pub fn open(
        path: &Path,
        streams: impl IntoIterator<Item = (String, u32)>,
        other_streams: Vec<String>,
        reading: Arc<ReadProgress>,
    ) -> Result<Self, TrafficError> {
        let file = TrackedFile::open(path, reading)
            .map_err(|error| TrafficError::new(error.to_string()).path(path))?;
        Self::new(file, path, streams, other_streams)
    }
}

impl<R: Read> CsvTrace<R> {
    /// Reads the trace from `input`; see [`CsvTrace::open`] for the other arguments.
    ///
    /// # Errors
    /// See [`CsvTrace::open`].
    pub fn new(
        input: R,
        path: &Path,
        streams: impl IntoIterator<Item = (String, u32)>,
        other_streams: Vec<String>,
    ) -> Result<Self, TrafficError> {
        let rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 17)
            .from_reader(Limited { input, since_row: 0 });
        let streams = streams.into_iter().map(|(name, number)| (name.into_bytes(), number));
        let mut trace = Self {
            rows,
            row: csv::ByteRecord::new(),
            streams: streams.collect(),
            other_streams,
            path: path.to_path_buf(),
            last_ns: 0,
        };
        let expected = format!("the first line must be `{}`", HEADER.join(","));
        let has_header = trace.read_row()?;
        if !has_header || trace.row.iter().map(trim).ne(HEADER.iter().map(|name| name.as_bytes())) {
            let found = if has_header {
                let fields: Vec<_> = trace.row.iter().map(text).collect();
                format!("the header is `{}`", fields.join(","))
            } else {
                "the file is empty".into()
            };
            return Err(trace.error(&found).help(expected));
        }
        Ok(trace)
    }

    fn read_row(&mut self) -> Result<bool, TrafficError> {
        self.rows.get_mut().since_row = 0;
        self.rows.read_byte_record(&mut self.row).map_err(|error| self.error(&error.to_string()))
    }

    /// Creates an error about the last row read.
    #[cold]
    fn error(&self, message: &str) -> TrafficError {
        let line = self.row.position().map_or(1, csv::Position::line);
        TrafficError::new(message).path(&self.path).place(format!("line {line}"))
    }

    #[cold]
    fn bad_number(&self, column: &str, field: &[u8], largest: u64) -> TrafficError {
        self.error(&format!("`{}` is not a valid {column}", text(field)))
            .help(format!("{column} must be a whole number from 0 to {largest}"))
    }

    #[cold]
    fn unknown_stream(&self, field: &[u8]) -> TrafficError {
        let name = text(field);
        if self.other_streams.contains(&name) {
            return self
                .error(&format!("stream `{name}` does not take its packets from this file"))
                .help("give it this file as its source, or take its rows out of the file");
        }
        let known = self.streams.keys().map(|known| text(known));
        let nearest = known.min_by_key(|known| strsim::levenshtein(known, &name));
        let help = nearest.map_or_else(
            || "the scenario has no streams".to_owned(),
            |near| format!("the scenario's nearest stream is `{near}`"),
        );
        self.error(&format!("unknown stream `{name}`")).help(help)
    }
}

impl<R: Read + Send> Feed for CsvTrace<R> {
    #[inline]
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        *next = None;
        if !self.read_row()? {
            return Ok(());
        }
        if self.row.len() != HEADER.len() {
            let message = format!("{} fields instead of {}", self.row.len(), HEADER.len());
            return Err(self.error(&message).help(format!("columns: {}", HEADER.join(","))));
        }
        let (time, name, bytes) = (trim(&self.row[0]), trim(&self.row[1]), trim(&self.row[2]));
        let time_ns =
            number(time, u64::MAX).ok_or_else(|| self.bad_number("time_ns", time, u64::MAX))?;
        let largest = u64::from(u32::MAX);
        let bytes = number(bytes, largest)
            .and_then(|bytes| u32::try_from(bytes).ok())
            .ok_or_else(|| self.bad_number("bytes", bytes, largest))?;
        let stream = *self.streams.get(name).ok_or_else(|| self.unknown_stream(name))?;
        if time_ns < self.last_ns {
            let message = format!("time goes back from {} to {time_ns}", self.last_ns);
            return Err(self.error(&message).help("rows must be in time order"));
        }
        self.last_ns = time_ns;
        *next = Some(Arrival { time_ns, stream, bytes, flow: None, frame: None });
        Ok(())
    }
}

#[inline]
fn trim(field: &[u8]) -> &[u8] {
    field.trim_ascii()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Parses a decimal number of at most `largest`, digits only.
#[inline]
fn number(field: &[u8], largest: u64) -> Option<u64> {
    let (value, used) = <u64 as atoi::FromRadix10Checked>::from_radix_10_checked(field);
    value.filter(|value| used == field.len() && used > 0 && *value <= largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Result<CsvTrace<&[u8]>, TrafficError> {
        let streams = [("video".to_owned(), 0), ("größe".to_owned(), 1)];
        CsvTrace::new(text.as_bytes(), Path::new("a.csv"), streams, vec!["voice".into()])
    }

    fn read(text: &str) -> Result<Vec<(u64, u32, u32)>, TrafficError> {
        let mut trace = trace(text)?;
        let mut all = Vec::new();
        while let Some(arrival) = trace.next_arrival()? {
            all.push((arrival.time_ns, arrival.stream, arrival.bytes));
        }
        Ok(all)
    }

    #[test]
    fn rows_become_arrivals_in_file_order() {
        let rows = "time_ns,stream,bytes\n0,video,0\n7,größe,65535\r\n7,video,4294967295\n";
        assert_eq!(read(rows).unwrap(), [(0, 0, 0), (7, 1, 65_535), (7, 0, u32::MAX)]);
        assert_eq!(read("time_ns,stream,bytes\n").unwrap(), []);
    }

    #[test]
    fn errors_name_the_invalid_row() {
        for (rows, parts) in [
            ("", vec!["a.csv", "empty"]),
            ("a,b\n", vec!["line 1", "`a,b`"]),
            ("time_ns,stream,bytes\n1,video\n", vec!["line 2", "2 fields"]),
            ("time_ns,stream,bytes\n1,video,9\n-1,video,9\n", vec!["line 3", "`-1`", "time_ns"]),
            ("time_ns,stream,bytes\n1,video,4294967296\n", vec!["`4294967296`", "bytes"]),
            ("time_ns,stream,bytes\n99999999999999999999,video,1\n", vec!["not a valid time_ns"]),
            ("time_ns,stream,bytes\n5,video,1\n4,video,1\n", vec!["line 3", "from 5 to 4"]),
            ("time_ns,stream,bytes\n5,vidoe,1\n", vec!["line 2", "unknown stream `vidoe`"]),
            ("time_ns,stream,bytes\n5,voice,1\n", vec!["`voice` does not take"]),
        ] {
            let error = read(rows).unwrap_err();
            for part in parts {
                assert!(error.to_string().contains(part), "{error} lacks {part:?}");
            }
            assert!(error.help.is_some(), "{error} has no help");
        }
        assert!(
            read("time_ns,stream,bytes\n5,vidoe,1\n")
                .unwrap_err()
                .help
                .unwrap()
                .contains("`video`")
        );
    }

    #[test]
    fn an_endless_row_is_an_error_but_a_long_file_is_not() {
        let endless = io::repeat(b'7');
        let open = |input| CsvTrace::new(input, Path::new("a.csv"), [], vec![]).err().unwrap();
        assert!(open(Box::new(endless) as Box<dyn Read>).to_string().contains("quote"));
        let rows = "1,video,9\n".repeat(1 << 18);
        assert_eq!(read(&format!("time_ns,stream,bytes\n{rows}")).unwrap().len(), 1 << 18);
        let quoted = format!("time_ns,stream,bytes\n0,video,0\n1,\"video,9\n{rows}");
        let error = read(&quoted).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("quote"), "{error}");
    }

    #[test]
    fn a_byte_order_mark_and_quotes_are_ignored() {
        let rows = "\u{feff}time_ns,stream,bytes\n\"5\",\"video\",1\n";
        assert_eq!(read(rows).unwrap(), [(5, 0, 1)]);
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics_and_times_never_decrease(rows in "(time_ns,stream,bytes\n\
         )?([0-9]{0,3},(video|x),?[0-9]{0,3}\n){0,9}\\PC{0,9}") {
            if let Ok(mut trace) = trace(&rows) {
                let mut last_ns = 0;
                while let Ok(Some(arrival)) = trace.next_arrival() {
                    proptest::prop_assert!(arrival.time_ns >= last_ns);
                    last_ns = arrival.time_ns;
                }
            }
        }
    }
}
