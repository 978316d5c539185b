//! The writer of the departures CSV file: one row per event, in the order of the events.
//!
//! ```text
//! time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event
//! 0,video,0,1316,0,40000000,sent
//! ```
//!
//! The writer converts names to CSV fields once, at the start. Writing a row then takes about 30 ns
//! of formatting and copying. The writer does not buffer, so dropping it loses no data: the call
//! that causes an error of the output returns it.

use millstream::Departure;
use std::io::{self, Write};

const HEADER: &[u8] = b"time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event\n";

/// Writes departures as CSV.
#[derive(Debug)]
pub struct DeparturesWriter<W> {
    output: W,
    /// The names of the streams as CSV fields.
    names: Vec<Vec<u8>>,
    row: Vec<u8>,
}

impl<W: Write> DeparturesWriter<W> {
    /// Creates a writer and writes the header. `names` has the names of the streams by number.
    ///
    /// `output` should be buffered: every row is one write. Call [`flush`](Self::flush) at the end,
    /// because a dropped buffer cannot report a full disk.
    ///
    /// # Errors
    /// Returns the errors of `output`.
    pub fn new(mut output: W, names: Vec<String>) -> io::Result<Self> {
        output.write_all(HEADER)?;
        let names = names.iter().map(|name| field(name)).collect::<io::Result<_>>()?;
        Ok(Self { output, names, row: Vec::with_capacity(256) })
    }

    /// Writes one row.
    ///
    /// # Errors
    /// Returns the errors of the output.
    ///
    /// # Panics
    /// Panics if the number of the stream is not below the number of names.
    #[inline]
    pub fn write(&mut self, departure: &Departure) -> io::Result<()> {
        let row = &mut self.row;
        row.clear();
        let mut digits = itoa::Buffer::new();
        let mut number = |row: &mut Vec<u8>, value: u64| {
            row.extend_from_slice(digits.format(value).as_bytes());
            row.push(b',');
        };
        number(row, departure.time_ns);
        row.extend_from_slice(&self.names[departure.stream.index()]);
        row.push(b',');
        number(row, departure.packet);
        number(row, u64::from(departure.bytes));
        number(row, departure.arrival_ns);
        match departure.deadline_ns {
            Some(deadline_ns) => number(row, deadline_ns),
            None => row.push(b','),
        }
        row.extend_from_slice(departure.event.name().as_bytes());
        row.push(b'\n');
        self.output.write_all(row)
    }

    /// Returns the output without flushing it.
    pub fn into_inner(self) -> W {
        self.output
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Returns `name` as a CSV field, quoted if necessary.
fn field(name: &str) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record([name])?;
    let mut field = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    field.pop();
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{Event, StreamId};

    #[test]
    fn rows_match_the_file_format_and_quote_names() {
        let names = vec!["plain".to_owned(), "a,\"b\"".to_owned()];
        let mut writer = DeparturesWriter::new(Vec::new(), names).unwrap();
        let mut departure = Departure {
            time_ns: 12,
            stream: StreamId(0),
            packet: 3,
            bytes: 65_535,
            arrival_ns: 0,
            deadline_ns: Some(u64::MAX),
            event: Event::Sent,
            tag: 9,
        };
        writer.write(&departure).unwrap();
        departure.stream = StreamId(1);
        departure.deadline_ns = None;
        departure.event = Event::DroppedFull;
        writer.write(&departure).unwrap();
        assert_eq!(
            String::from_utf8(writer.output).unwrap(),
            "time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event\n\
             12,plain,3,65535,0,18446744073709551615,sent\n\
             12,\"a,\"\"b\"\"\",3,65535,0,,dropped-full\n"
        );
    }

    #[test]
    fn names_survive_a_round_trip() {
        let names = ["", " ", "a,b", "a\"b", "a\nb", "größe", "#x"].map(str::to_owned);
        let mut text = HEADER.to_vec();
        for name in &names {
            text.extend(b"0,");
            text.extend(field(name).unwrap());
            text.extend(b",0,0,0,,sent\n");
        }
        let mut reader = csv::Reader::from_reader(text.as_slice());
        let found: Vec<String> =
            reader.records().map(|record| record.unwrap()[1].to_owned()).collect();
        assert_eq!(found, names);
    }

    #[test]
    fn full_disk_is_reported() {
        #[derive(Debug)]
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = DeparturesWriter::new(Full, vec![]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        // The flush reports the error of the buffered header.
        let buffered = io::BufWriter::with_capacity(1 << 16, Full);
        let mut writer = DeparturesWriter::new(buffered, vec![]).unwrap();
        assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        let (_, rest) = writer.into_inner().into_parts();
        assert!(rest.is_ok_and(|rest| rest == HEADER), "kept for the caller, not thrown away");
    }
}
