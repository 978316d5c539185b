//! Read progress of the input files, for the progress display of long runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of bytes read over all input files; another thread may query them.
#[derive(Debug, Default)]
pub struct ReadProgress {
    read: AtomicU64,
    total: AtomicU64,
}

impl ReadProgress {
    /// Returns bytes read and total bytes; `None` if no file of known length is being read.
    #[must_use]
    pub fn bytes(&self) -> Option<(u64, u64)> {
        let total = self.total.load(Ordering::Relaxed);
        let read = self.read.load(Ordering::Relaxed).min(total);
        (total > 0).then_some((read, total))
    }

    /// Adds a file of `bytes` bytes to the total. Pipes and devices have no length and add none.
    pub(crate) fn add_total(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds `bytes` to the bytes read.
    #[inline]
    pub(crate) fn advance(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A file that reports its read progress.
#[derive(Debug)]
pub struct TrackedFile {
    file: File,
    reading: Arc<ReadProgress>,
}

impl TrackedFile {
    /// Opens `path` and adds its length to the total of `reading`.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn open(path: &Path, reading: Arc<ReadProgress>) -> io::Result<Self> {
        let file = File::open(path)?;
        reading.add_total(file.metadata()?.len());
        Ok(Self { file, reading })
    }
}

impl Read for TrackedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.reading.advance(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaptureFeed, CsvTrace, Feed};
    use std::io::Write;

    fn read_all(feed: &mut impl Feed) {
        while feed.next_arrival().unwrap().is_some() {}
    }

    #[test]
    fn reading_to_the_end_reaches_the_total() {
        let reading = Arc::<ReadProgress>::default();
        assert_eq!(reading.bytes(), None, "no file, no progress");
        let mut rows = tempfile::NamedTempFile::new().unwrap();
        write!(rows, "time_ns,stream,bytes\n{}", "1,a,2\n".repeat(1 << 16)).unwrap();
        let names = [("a".to_owned(), 0)];
        let mut trace =
            CsvTrace::open(rows.path(), names, Vec::new(), Arc::clone(&reading)).unwrap();
        let bytes = rows.path().metadata().unwrap().len();
        assert!(reading.bytes().is_some_and(|(read, total)| read < bytes && total == bytes));
        read_all(&mut trace);
        assert_eq!(reading.bytes(), Some((bytes, bytes)));

        let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/uplink.pcap");
        let mut feed = CaptureFeed::open(Path::new(capture), &[(0, None)], false)
            .unwrap()
            .with_progress(Arc::clone(&reading));
        read_all(&mut feed);
        let (read, total) = reading.bytes().unwrap();
        assert!(total - read < 100, "everything except the file's header: {read} of {total}");
    }
}
