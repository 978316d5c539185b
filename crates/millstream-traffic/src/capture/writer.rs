//! Writes captures: pcap files with nanosecond timestamps (draft-ietf-opsawg-pcap).
//!
//! libpcap writes the file's header, for it alone knows the link type's number in files. The
//! packets are written here: libpcap's own writer forgets a failed write that it had buffered, and
//! a capture cut by a full disk would pass for a whole one.

use pcap::{Capture, Linktype, Precision};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::arrival::{FrameBytes, TrafficError};

/// Writes packets as a pcap file with nanosecond timestamps.
pub struct CaptureWriter {
    file: BufWriter<File>,
    path: PathBuf,
    failed: Option<io::Error>,
}

impl CaptureWriter {
    /// Writes to the file at `path`, which is replaced.
    pub(super) fn create(path: &Path, linktype: Linktype) -> Result<Self, TrafficError> {
        let cannot = |error: String| TrafficError::new(cannot_write(&error)).path(path);
        // libpcap takes `-` for standard output; here it is a file of that name.
        let path = if path == Path::new("-") { Path::new("./-") } else { path };
        // Opened before libpcap does, so that the reader of a pipe sees one writer that stays.
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| cannot(error.to_string()))?;
        let failed = |error: pcap::Error| cannot(error.to_string());
        let capture = Capture::dead_with_precision(linktype, Precision::Nano).map_err(failed)?;
        let mut header = capture.savefile(path).map_err(failed)?;
        header.flush().map_err(failed)?;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { file, path: path.to_path_buf(), failed: None })
    }

    /// Writes one packet, stamped with `time_ns`. Failures show in [`flush`](Self::flush).
    pub fn write(&mut self, time_ns: u64, frame: &FrameBytes) {
        if self.failed.is_none() {
            self.failed = self.write_packet(time_ns, frame).err();
        }
    }

    /// A packet's record (draft-ietf-opsawg-pcap): four words in the order of the header's, which
    /// is this machine's, then the captured bytes.
    fn write_packet(&mut self, time_ns: u64, frame: &FrameBytes) -> io::Result<()> {
        let word = |value: u64, what: &str| {
            u32::try_from(value).map_err(|_| io::Error::other(format!("{what} {value} too large")))
        };
        let captured = u64::try_from(frame.captured.len()).unwrap_or(u64::MAX);
        for value in [
            word(time_ns / 1_000_000_000, "a time in seconds of")?,
            word(time_ns % 1_000_000_000, "nanoseconds of")?,
            word(captured, "a frame in bytes of")?,
            frame.original_bytes,
        ] {
            self.file.write_all(&value.to_ne_bytes())?;
        }
        self.file.write_all(&frame.captured)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// If anything written so far did not reach the file; from then on, always.
    pub fn flush(&mut self) -> Result<(), TrafficError> {
        if self.failed.is_none() {
            self.failed = self.file.flush().err();
        }
        self.failed.as_ref().map_or(Ok(()), |error| {
            Err(TrafficError::new(cannot_write(&error.to_string())).path(&self.path))
        })
    }
}

fn cannot_write(error: &str) -> String {
    format!("cannot write: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_is_never_taken_for_success() {
        // A device that is always full; absent outside Linux.
        let Ok(full) = OpenOptions::new().append(true).open("/dev/full") else { return };
        assert!(CaptureWriter::create(Path::new("/dev/full"), Linktype::ETHERNET).is_err());
        let frame = FrameBytes { captured: vec![7; 100], original_bytes: 100 };
        for packets in [1, 1000, 100_000] {
            let copy = tempfile::NamedTempFile::new().unwrap();
            let mut writer = CaptureWriter::create(copy.path(), Linktype::ETHERNET).unwrap();
            writer.file = BufWriter::new(full.try_clone().unwrap());
            for time_ns in 0..packets {
                writer.write(time_ns, &frame);
            }
            assert!(writer.flush().is_err(), "{packets} packets");
            assert!(writer.flush().is_err(), "asked again");
        }
    }

    #[test]
    fn an_older_file_is_replaced_and_records_are_whole() {
        let copy = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(copy.path(), [1; 5000]).unwrap();
        let mut writer = CaptureWriter::create(copy.path(), Linktype::ETHERNET).unwrap();
        writer.write(3_000_000_007, &FrameBytes { captured: vec![9; 2], original_bytes: 65_535 });
        writer.flush().unwrap();
        let file = std::fs::read(copy.path()).unwrap();
        let record = [3u32, 7, 2, 65_535].map(u32::to_ne_bytes).concat();
        assert_eq!(file.len(), 24 + 16 + 2);
        assert_eq!(file[..4], 0xa1b2_3c4du32.to_ne_bytes());
        assert_eq!(file[24..], [&record[..], &[9, 9]].concat());
    }
}
