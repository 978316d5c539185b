//! Writes captures: pcap files with nanosecond timestamps (draft-ietf-opsawg-pcap).
//!
//! libpcap writes the file header, since only it knows the link type's number in files. This module
//! writes the packets: libpcap's own writer loses errors of buffered writes, so a capture truncated
//! by a full disk would look complete.

use pcap::{Capture, Linktype, Precision};
use std::io::{self, Write};

use crate::arrival::FrameBytes;
use crate::output_file::OutputFile;

/// A writer of pcap files with nanosecond timestamps.
///
/// It stores write errors; [`flush`](Self::flush) and [`finish`](Self::finish) return them.
pub struct CaptureWriter {
    file: OutputFile,
    failed: Option<io::Error>,
}

impl CaptureWriter {
    /// Writes the header to `file`, which must be empty.
    #[must_use]
    pub fn new(file: OutputFile, linktype: Linktype) -> Self {
        // `file` stays open, so the reader of a pipe sees no end of file after the header.
        let write = || -> Result<(), pcap::Error> {
            let capture = Capture::dead_with_precision(linktype, Precision::Nano)?;
            capture.savefile(file.written_path())?.flush()
        };
        let failed = write().err().map(|error| match error {
            pcap::Error::IoError(kind) => kind.into(),
            error => io::Error::other(error.to_string()),
        });
        Self { file, failed }
    }

    /// Writes one packet with timestamp `time_ns`; [`flush`](Self::flush) returns errors.
    pub fn write(&mut self, time_ns: u64, frame: &FrameBytes) {
        self.write_bytes(time_ns, &frame.captured, frame.original_bytes);
    }

    /// Writes a packet of `original_bytes` bytes with its first bytes, `captured`.
    pub fn write_bytes(&mut self, time_ns: u64, captured: &[u8], original_bytes: u32) {
        if self.failed.is_none() {
            self.failed = self.write_packet(time_ns, captured, original_bytes).err();
        }
    }

    /// Writes a packet record (draft-ietf-opsawg-pcap): four words, then the captured bytes.
    ///
    /// The words have the header's byte order, which is this machine's.
    fn write_packet(
        &mut self,
        time_ns: u64,
        captured: &[u8],
        original_bytes: u32,
    ) -> io::Result<()> {
        let word = |value: u64, what: &str| {
            u32::try_from(value)
                .map_err(|_| io::Error::other(format!("{value} {what} exceed 32 bits")))
        };
        let length = u64::try_from(captured.len()).unwrap_or(u64::MAX);
        for value in [
            word(time_ns / 1_000_000_000, "seconds of a timestamp")?,
            word(time_ns % 1_000_000_000, "nanoseconds of a timestamp")?,
            word(length, "bytes of a frame")?,
            original_bytes,
        ] {
            self.file.write_all(&value.to_ne_bytes())?;
        }
        self.file.write_all(captured)
    }

    /// Writes all buffered bytes to the file.
    ///
    /// # Errors
    /// Fails if any earlier write failed; all later calls then fail too.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.failed.is_none() {
            self.failed = self.file.flush().err();
        }
        let again = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        self.failed.as_ref().map_or(Ok(()), |error| Err(again(error)))
    }

    /// Syncs the capture and renames it to its final name.
    ///
    /// # Errors
    /// Fails if not all bytes reached the disk; an older file then remains unchanged.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.finish()
    }

    /// Keeps the packets written so far as `FILE.partial`.
    ///
    /// # Errors
    /// See [`finish`](Self::finish); on failure no file is kept.
    pub fn keep_partial(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.keep_partial()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn writer(path: &Path) -> CaptureWriter {
        CaptureWriter::new(OutputFile::create(path).unwrap(), Linktype::ETHERNET)
    }

    #[test]
    fn a_failed_write_is_always_reported() {
        // A device that is always full; absent outside Linux.
        let full = Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        assert!(writer(full).flush().is_err(), "the header");
        let frame = FrameBytes { captured: vec![7; 100], original_bytes: 100 };
        for packets in [1, 1000, 100_000] {
            let mut writer = writer(full);
            writer.failed = None;
            for time_ns in 0..packets {
                writer.write(time_ns, &frame);
            }
            assert!(writer.flush().is_err(), "{packets} packets");
            assert!(writer.flush().is_err(), "a second flush");
            assert!(writer.finish().is_err(), "the finish");
        }
    }

    #[test]
    fn an_older_file_is_replaced_and_records_are_whole() {
        let copy = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(copy.path(), [1; 5000]).unwrap();
        let mut writer = writer(copy.path());
        writer.write(3_000_000_007, &FrameBytes { captured: vec![9; 2], original_bytes: 65_535 });
        writer.flush().unwrap();
        assert_eq!(std::fs::read(copy.path()).unwrap(), [1; 5000], "before the finish");
        writer.finish().unwrap();
        let file = std::fs::read(copy.path()).unwrap();
        let record = [3u32, 7, 2, 65_535].map(u32::to_ne_bytes).concat();
        assert_eq!(file.len(), 24 + 16 + 2);
        assert_eq!(file[..4], 0xa1b2_3c4du32.to_ne_bytes());
        assert_eq!(file[24..], [&record[..], &[9, 9]].concat());
    }
}
