//! The departures CSV: one row an event, in the order they happen.
//!
//! ```text
//! time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event
//! 0,video,0,1316,0,40000000,sent
//! ```
//!
//! Names are made CSV fields once, at the start; a row is then digits and copies, some 30 ns. The
//! writer has no buffer of its own, so nothing can be lost when it is dropped: every error of the
//! output comes back from the call that met it.

use millstream::Departure;
use std::io::{self, Write};

const HEADER: &[u8] = b"time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event\n";

/// Writes departures as CSV.
#[derive(Debug)]
pub struct DeparturesWriter<W> {
    output: W,
    /// The streams' names as CSV fields.
    names: Vec<Vec<u8>>,
    row: Vec<u8>,
}

impl<W: Write> DeparturesWriter<W> {
    /// Writes the header. `names` are those of the streams, in the order of their numbers.
    ///
    /// `output` should be buffered, as every row is one write; call [`flush`](Self::flush) at the
    /// end, since a buffer that is dropped cannot report a full disk.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn new(mut output: W, names: Vec<String>) -> io::Result<Self> {
        output.write_all(HEADER)?;
        let names = names.iter().map(|name| field(name)).collect::<io::Result<_>>()?;
        Ok(Self { output, names, row: Vec::with_capacity(256) })
    }

    /// Writes one row. The stream must be one of those named; a number beyond is an error of the
    /// program and asserted.
    ///
    /// # Errors
    /// Those of the output.
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

    /// The output, what is buffered in it not yet written out.
    pub fn into_inner(self) -> W {
        self.output
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// `name` as a CSV field, quoted where it must be.
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
    fn rows_are_the_file_format_and_awkward_names_are_quoted() {
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
    fn names_read_back_as_they_were() {
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
    fn a_full_disk_is_reported() {
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
        // What a buffer held back is reported by the flush.
        let buffered = io::BufWriter::with_capacity(1 << 16, Full);
        let mut writer = DeparturesWriter::new(buffered, vec![]).unwrap();
        assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        let (_, rest) = writer.into_inner().into_parts();
        assert!(rest.is_ok_and(|rest| rest == HEADER), "kept for the caller, not thrown away");
    }
}
