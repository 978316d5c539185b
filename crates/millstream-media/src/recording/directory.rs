//! The directory of the recordings: names of files, the list of files, and its limits.
//!
//! A file is `STREAM/2026-11-26T20-40-00.000Z.mp4`: the stream's name, which has only letters,
//! digits, `-`, `_` and `.`, and the UTC time of its first frame. A path of a stream with several
//! is a directory in that of its stream. It is made with the path's first file and removed with its
//! last. Only files with such names are listed, counted and removed. The list survives restarts,
//! since the directory is read at start.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files::library::is_name;

/// The ending of a file's name.
const ENDING: &str = ".mp4";

/// The most files that are listed. The oldest ones are removed beyond it.
const MAX_FILES: usize = 100_000;

/// The last ms of the year 9999, since 1970.
const MAX_TIME_MS: u64 = 253_402_300_799_999;

/// How many names are tried for a new file.
const NAMES: u64 = 1_000;

/// A file of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedFile {
    /// The stream's name.
    pub(crate) stream: String,
    /// The UTC time of its first frame, ms since 1970.
    pub(crate) start_ms: u64,
    /// The UTC time of its last frame, ms since 1970.
    pub(crate) end_ms: u64,
    /// Its size, bytes.
    pub(crate) bytes: u64,
    /// Whether it is still written.
    pub(crate) open: bool,
}

/// The list of files, ordered by their start.
#[derive(Debug, Default)]
struct Files {
    files: Vec<RecordedFile>,
    bytes: u64,
}

/// The directory of the recordings. Clones share the list.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    folder: PathBuf,
    max_bytes: u64,
    max_age_ms: Option<u64>,
    files: Arc<Mutex<Files>>,
}

/// Returns the name of the file of a recording that starts at this UTC time, ms since 1970.
pub(crate) fn file_name(start_ms: u64) -> String {
    // Other systems and shells treat colons specially.
    rfc3339(start_ms).replace(':', "-") + ENDING
}

/// Returns a UTC time, ms since 1970, as text of RFC 3339.
pub(crate) fn rfc3339(time_ms: u64) -> String {
    // The format has four digits for the year.
    let time = UNIX_EPOCH + Duration::from_millis(time_ms.min(MAX_TIME_MS));
    humantime::format_rfc3339_millis(time).to_string()
}

/// Returns the start in the name of a file, ms since 1970; `None` if it is no recording's.
fn start_of(name: &str) -> Option<u64> {
    let start_ms = parse_time(name.strip_suffix(ENDING)?)?;
    (file_name(start_ms) == name).then_some(start_ms)
}

/// Parses a UTC time as in RFC 3339, or as in the name of a file; returns ms since 1970.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let time = humantime::parse_rfc3339(&format!("{date}T{}", time.replace('-', ":"))).ok()?;
    Some(unix_ms(time))
}

/// Returns a UTC time as ms since 1970; 0 for earlier times.
pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether a directory's name can be a stream's, or that of a path.
fn is_stream(name: &str) -> bool {
    !name.is_empty() && is_name(name)
}

/// Returns the directories in `folder` that can be those of streams, or of the paths of one.
fn directories(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if is_stream(&name) && entry.file_type()?.is_dir() {
            found.push((entry.path(), name));
        }
    }
    Ok(found)
}

impl Directory {
    /// Opens the directory, makes those of `streams`, and reads the list of files.
    ///
    /// # Errors
    /// Fails if a directory cannot be made or read.
    pub(crate) fn open(
        folder: &Path,
        streams: &[&str],
        max_bytes: u64,
        max_age_ns: Option<u64>,
    ) -> io::Result<Self> {
        for stream in streams {
            fs::create_dir_all(folder.join(stream))?;
        }
        let mut files = Files::default();
        for (of_stream, stream) in directories(folder)? {
            read_stream(&of_stream, &stream, &mut files)?;
            for (of_path, path) in directories(&of_stream)? {
                read_stream(&of_path, &format!("{stream}/{path}"), &mut files)?;
            }
        }
        files.files.sort_by(|a, b| (a.start_ms, &a.stream).cmp(&(b.start_ms, &b.stream)));
        let max_age_ms = max_age_ns.map(|age_ns| age_ns / 1_000_000);
        let files = Arc::new(Mutex::new(files));
        Ok(Self { folder: folder.to_path_buf(), max_bytes, max_age_ms, files })
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the files that `holds` selects, the oldest first; at most `most`.
    pub(crate) fn list(
        &self,
        most: usize,
        holds: impl Fn(&RecordedFile) -> bool,
    ) -> Vec<RecordedFile> {
        self.files().files.iter().filter(|file| holds(file)).take(most).cloned().collect()
    }

    /// Returns the size of all files, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files().bytes
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, stream: &str, start_ms: u64) -> PathBuf {
        self.folder.join(stream).join(file_name(start_ms))
    }

    /// Makes the directory of a path. That of a stream exists from the start on.
    fn make_directory(&self, stream: &str) -> io::Result<()> {
        if !stream.contains('/') {
            return Ok(());
        }
        match fs::create_dir(self.folder.join(stream)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates a file of a stream for frames from `start_ms` on, or from the next ms for which
    /// there is none. Returns it with that time.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub(crate) fn create(&self, stream: &str, start_ms: u64) -> io::Result<(File, u64)> {
        self.make_directory(stream)?;
        let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
        for start_ms in (start_ms..).take(usize::try_from(NAMES).unwrap_or(usize::MAX)) {
            let path = self.path(stream, start_ms);
            match OpenOptions::new().write(true).create_new(true).open(path) {
                Ok(file) => {
                    let new = RecordedFile {
                        stream: stream.to_owned(),
                        start_ms,
                        end_ms: start_ms,
                        bytes: 0,
                        open: true,
                    };
                    let mut files = self.files();
                    let at = files.files.partition_point(|other| other.start_ms <= start_ms);
                    files.files.insert(at, new);
                    return Ok((file, start_ms));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    /// Adds `bytes` to the size of an open file, and sets the time of its last frame to `end_ms`.
    pub(crate) fn grown(&self, stream: &str, start_ms: u64, bytes: u64, end_ms: u64) {
        let mut files = self.files();
        files.bytes += bytes;
        if let Some(file) = files.find(stream, start_ms) {
            file.bytes += bytes;
            file.end_ms = end_ms.max(file.start_ms);
        }
    }

    /// Records that a file is complete. Returns its entry.
    pub(crate) fn closed(&self, stream: &str, start_ms: u64) -> Option<RecordedFile> {
        let mut files = self.files();
        let file = files.find(stream, start_ms)?;
        file.open = false;
        Some(file.clone())
    }

    /// Removes the oldest files until `more` bytes fit. Returns whether they fit.
    pub(crate) fn make_room(&self, more: u64) -> bool {
        loop {
            let oldest = {
                let files = self.files();
                if files.bytes.saturating_add(more) <= self.max_bytes
                    && files.files.len() < MAX_FILES
                {
                    return true;
                }
                files.files.iter().find(|file| !file.open).cloned()
            };
            let Some(oldest) = oldest else { return false };
            if !self.remove(&oldest) {
                return false;
            }
        }
    }

    /// Removes files that ended more than the longest age before `now_ms`.
    pub(crate) fn remove_old(&self, now_ms: u64) {
        let Some(oldest_ms) = self.max_age_ms.and_then(|age_ms| now_ms.checked_sub(age_ms)) else {
            return;
        };
        let old = |file: &RecordedFile| !file.open && file.end_ms < oldest_ms;
        for file in self.list(usize::MAX, old) {
            if !self.remove(&file) {
                return;
            }
        }
    }

    /// Returns the entry of a file.
    pub(crate) fn file(&self, stream: &str, start_ms: u64) -> Option<RecordedFile> {
        self.files().find(stream, start_ms).cloned()
    }

    /// Removes a file. Returns whether it is gone.
    pub(crate) fn remove(&self, file: &RecordedFile) -> bool {
        let path = self.path(&file.stream, file.start_ms);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                eprintln!("{}: cannot remove the recording: {error}", path.display());
                return false;
            }
        }
        if file.stream.contains('/') {
            // Fails unless it was the last file.
            let _ = fs::remove_dir(self.folder.join(&file.stream));
        }
        let mut files = self.files();
        files
            .files
            .retain(|other| (other.start_ms, &other.stream) != (file.start_ms, &file.stream));
        files.bytes = files.bytes.saturating_sub(file.bytes);
        true
    }
}

impl Files {
    fn find(&mut self, stream: &str, start_ms: u64) -> Option<&mut RecordedFile> {
        let from = self.files.partition_point(|file| file.start_ms < start_ms);
        let same_time = self.files[from..].iter_mut().take_while(|file| file.start_ms == start_ms);
        same_time.into_iter().find(|file| file.stream == stream)
    }
}

/// Adds the files of a stream to the list.
fn read_stream(folder: &Path, stream: &str, to: &mut Files) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let start = entry.file_name().to_str().and_then(start_of);
        let (Some(start_ms), Ok(metadata)) = (start, entry.metadata()) else { continue };
        if !metadata.is_file() {
            continue;
        }
        let end_ms = metadata.modified().map_or(start_ms, unix_ms).max(start_ms);
        let stream = stream.to_owned();
        to.bytes += metadata.len();
        to.files.push(RecordedFile {
            stream,
            start_ms,
            end_ms,
            bytes: metadata.len(),
            open: false,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_795_725_600_123;
    const NAME: &str = "2026-11-26T20-40-00.123Z.mp4";

    fn open(folder: &Path, max_bytes: u64, max_age_ns: Option<u64>) -> Directory {
        Directory::open(folder, &["cam", "door"], max_bytes, max_age_ns).unwrap()
    }

    /// Creates a complete file of `bytes` bytes.
    fn add(directory: &Directory, stream: &str, start_ms: u64, bytes: u64) -> u64 {
        let (_, start_ms) = directory.create(stream, start_ms).unwrap();
        directory.grown(stream, start_ms, bytes, start_ms + 10);
        directory.closed(stream, start_ms).unwrap();
        start_ms
    }

    fn starts(directory: &Directory) -> Vec<u64> {
        directory.list(usize::MAX, |_| true).iter().map(|file| file.start_ms).collect()
    }

    #[test]
    fn names_are_utc_times_and_other_names_are_ignored() {
        assert_eq!(file_name(START_MS), NAME);
        assert_eq!(start_of(NAME), Some(START_MS));
        for other in ["", ".mp4", "2026-11-26T20:40:00.123Z.mp4", "2026-11-26T20-40-00Z.mp4"] {
            assert_eq!(start_of(other), None, "{other}");
        }
        assert!(start_of("2026-13-26T20-40-00.123Z.mp4").is_none());
        assert!(["cam", "a.b-c_D"].into_iter().all(is_stream));
        assert!(!["", ".", "..", ".x", "a/b", "a b", "ä"].into_iter().any(is_stream));
    }

    #[test]
    fn the_oldest_complete_files_make_room_and_a_restart_finds_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let directory = open(folder.path(), 100, None);
        let (_, open_ms) = directory.create("door", 0).unwrap();
        let starts_ms: Vec<u64> =
            (1..4).map(|n| add(&directory, "cam", START_MS + n, 30)).collect();
        assert!(directory.make_room(10) && starts(&directory).len() == 4);
        assert!(directory.make_room(20));
        assert_eq!(starts(&directory), [&[open_ms], &starts_ms[1..]].concat());
        assert_eq!(directory.bytes(), 60);
        assert!(!directory.make_room(101), "an open file stays");
        assert_eq!((starts(&directory), directory.bytes()), (vec![open_ms], 0));
        add(&directory, "cam", START_MS, 0);
        std::fs::write(folder.path().join("cam").join("notes.txt"), "x").unwrap();
        std::fs::write(directory.path("cam", START_MS), "12345").unwrap();
        let again = open(folder.path(), 100, None);
        let found = again.list(usize::MAX, |file| file.stream == "cam");
        assert_eq!((found.len(), found[0].start_ms, found[0].bytes), (1, START_MS, 5));
        assert!(again.make_room(97));
        assert!(folder.path().join("cam").join("notes.txt").exists());
        assert!(!again.path("cam", START_MS).exists());
    }

    #[test]
    fn the_directory_of_a_path_exists_while_it_has_files() {
        let folder = tempfile::tempdir().unwrap();
        let directory = open(folder.path(), 100, None);
        let path = folder.path().join("cam").join("front");
        assert!(!path.exists());
        let (first, second) = (START_MS, START_MS + 5);
        assert_eq!(add(&directory, "cam/front", first, 30), first);
        assert_eq!(add(&directory, "cam/front", second, 30), second);
        assert!(path.join(NAME).exists());
        let again = open(folder.path(), 100, None);
        let found = again.list(9, |file| file.stream == "cam/front");
        assert_eq!(found.iter().map(|file| file.start_ms).collect::<Vec<_>>(), [first, second]);
        assert!(again.remove(&found[0]) && path.exists());
        assert!(again.remove(&found[1]) && !path.exists());
        assert!(folder.path().join("cam").exists());
    }

    #[test]
    fn two_files_never_share_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let directory = open(folder.path(), 100, None);
        let starts_ms = [0; 3].map(|_| directory.create("cam", START_MS).unwrap().1);
        assert_eq!(starts_ms, [START_MS, START_MS + 1, START_MS + 2]);
    }

    #[test]
    fn files_are_removed_by_age() {
        let folder = tempfile::tempdir().unwrap();
        let directory = open(folder.path(), 100, Some(1_000_000_000));
        for n in 0..3 {
            add(&directory, "cam", START_MS + n * 1_000, 1);
        }
        directory.create("door", START_MS).unwrap();
        directory.remove_old(START_MS + 2_500);
        assert_eq!(starts(&directory), [START_MS, START_MS + 2_000]);
        assert_eq!(directory.list(9, |file| file.open).len(), 1);
    }
}
