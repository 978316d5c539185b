//! The departures CSV: one row an event, in the order they happen.

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
    /// Writes the header; `output` should be buffered.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn new(mut output: W, names: Vec<String>) -> io::Result<Self> {
        output.write_all(HEADER)?;
        let names = names.iter().map(|name| field(name)).collect::<io::Result<_>>()?;
        Ok(Self { output, names, row: Vec::with_capacity(256) })
    }

    /// Writes one row.
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
    }
}
