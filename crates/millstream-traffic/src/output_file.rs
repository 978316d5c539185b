//! Output files: written under a temporary name, synced, then renamed.
//!
//! ```text
//! create ──> .millstream-a1b2c3 in the same directory
//!        ── finish: fsync, rename, fsync of the directory ──> FILE
//!                                                    └── dropped: removed, FILE is unchanged
//! ```
//! A reader sees either the old file or the complete new one, even after a crash. Pipes, devices
//! and this process's standard output cannot be renamed, so they are written directly.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The maximum number of symbolic links followed in a row, as in Linux.
const MAX_LINKS: usize = 40;
const BUFFER_BYTES: usize = 1 << 16;

/// A file that appears under its name only when complete.
///
/// If it is dropped before [`finish`](Self::finish), it is removed and an older file of its name
/// remains.
#[derive(Debug)]
pub struct OutputFile {
    /// Buffered writer; declared before `temporary`, so it is closed first.
    file: BufWriter<File>,
    /// The temporary file and its final path; `None` if the file is written directly.
    temporary: Option<(NamedTempFile<()>, PathBuf)>,
    path: PathBuf,
}

impl OutputFile {
    /// Opens an output file for `path`.
    ///
    /// A symbolic link remains and its target is replaced. The mode of an older file is kept.
    ///
    /// # Errors
    /// Fails if the directory does not exist, or no file can be created in it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let opened = |file, temporary| {
            let file = BufWriter::with_capacity(BUFFER_BYTES, file);
            Self { file, temporary, path: path.to_owned() }
        };
        let existing = std::fs::metadata(path).ok();
        if let Some(existing) = &existing {
            if existing.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if let Some(standard) = standard_output(existing) {
                return Ok(opened(standard?, None));
            }
            if !existing.is_file() || is_descriptor(path) {
                return Ok(opened(OpenOptions::new().append(true).open(path)?, None));
            }
            // Open the old file for writing first: a write-protected file must not be replaced.
            OpenOptions::new().append(true).open(path)?;
        }
        let path = destination(path)?;
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut file = None;
        let temporary =
            tempfile::Builder::new().prefix(".millstream-").make_in(folder, |path| {
                file = Some(OpenOptions::new().append(true).create_new(true).open(path)?);
                Ok(())
            })?;
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        if let Some(existing) = existing {
            file.set_permissions(existing.permissions())?;
        }
        Ok(opened(file, Some((temporary, path))))
    }

    /// Truncates the file at `path` and writes it directly under its own name.
    ///
    /// Use it for output that a reader follows, or that has no end.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn create_in_place(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { file, temporary: None, path: path.to_owned() })
    }

    /// Returns the path that holds the bytes until [`finish`](Self::finish).
    pub(crate) fn written_path(&self) -> &Path {
        self.temporary.as_ref().map_or(&self.path, |(temporary, _)| temporary.path())
    }

    /// Syncs the file and renames it to its final name.
    ///
    /// # Errors
    /// Fails if not all bytes reached the disk; an older file then remains unchanged.
    pub fn finish(self) -> io::Result<()> {
        self.rename(|path| path)
    }

    /// Syncs the bytes written so far and keeps them as `FILE.partial`.
    ///
    /// A failed run therefore leaves no file that looks complete.
    ///
    /// # Errors
    /// Fails if not all bytes reached the disk; no file is kept then.
    pub fn keep_partial(self) -> io::Result<()> {
        self.rename(|path| {
            let mut partial = path.into_os_string();
            partial.push(".partial");
            partial.into()
        })
    }

    fn rename(mut self, name: impl FnOnce(PathBuf) -> PathBuf) -> io::Result<()> {
        self.file.flush()?;
        let Some((temporary, path)) = self.temporary else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        let path = name(path);
        temporary.persist(&path).map_err(|error| error.error)?;
        sync_folder(&path)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes all of `bytes` to `path`, atomically.
///
/// # Errors
/// See [`OutputFile::create`] and [`OutputFile::finish`].
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Syncs the directory of `path`, so a file created or renamed in it survives a machine crash.
///
/// # Errors
/// Fails if the directory cannot be opened or synced.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // Directories cannot be opened as files outside Unix.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Returns whether writing to `a` and `b` would write one file: by path, symbolic or hard link.
///
/// Character devices such as `/dev/null` never count as one file: their output does not mix.
#[must_use]
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) if is_character_device(&a) && is_character_device(&b) => false,
        (Ok(of_a), Ok(of_b)) => {
            identity(&of_a).zip(identity(&of_b)).is_some_and(|(a, b)| a == b)
                || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
        }
        (Err(_), Err(_)) => {
            matches!((destination(a), destination(b)), (Ok(a), Ok(b)) if a == b)
        }
        _ => false,
    }
}

/// Returns the path that a write to `path` would create or replace.
///
/// Follows symbolic links, also a last one with a missing target.
fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let parent = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let folder = parent.canonicalize()?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let whole = folder.join(name);
        match std::fs::read_link(&whole) {
            // `join` replaces `folder` if the target is absolute.
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(whole),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns whether `path` names a file descriptor of this process: a rename would not reach its
/// reader.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/proc"].iter().any(|folder| path.starts_with(folder))
}

#[cfg(unix)]
fn identity(of: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((of.dev(), of.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(unix)]
fn is_character_device(of: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    of.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_character_device(_: &Metadata) -> bool {
    false
}

/// Returns a duplicate of standard output or standard error if `existing` describes that file.
///
/// The duplicate shares the file position, so later output follows the bytes written here.
#[cfg(unix)]
fn standard_output(existing: &Metadata) -> Option<io::Result<File>> {
    use std::os::fd::AsFd;
    let of = |handle: std::os::fd::BorrowedFd<'_>| {
        let file = File::from(handle.try_clone_to_owned().ok()?);
        let same = identity(&file.metadata().ok()?) == identity(existing);
        (same && !is_character_device(existing)).then_some(file)
    };
    of(io::stdout().as_fd()).or_else(|| of(io::stderr().as_fd())).map(Ok)
}

#[cfg(not(unix))]
fn standard_output(_: &Metadata) -> Option<io::Result<File>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_only_when_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(file);
        assert_eq!(names(folder.path()), ["out"], "dropped: nothing is left behind");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        write_file(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        file.keep_partial().unwrap();
        assert_eq!(names(folder.path()), ["out", "out.partial"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn missing_directories_and_directory_names_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let error = OutputFile::create(&folder.path().join("no/out")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let error = OutputFile::create(folder.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn links_modes_pipes_and_devices_are_kept() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out"), folder.path().join("link"));
        symlink("out", &link).unwrap();
        write_file(&link, b"1").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "1", "a dangling link's target is created");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_file(&link, b"2").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write_file(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        write_file(Path::new("/dev/null"), b"gone").unwrap();
        if let Ok(mut full) = OutputFile::create(Path::new("/dev/full")) {
            full.write_all(b"x").unwrap();
            assert_eq!(full.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }

    #[cfg(unix)]
    #[test]
    fn one_file_by_two_names_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("d")).unwrap();
        assert!(is_same_file(&at("new"), &at("d/../new")), "neither file exists");
        assert!(!is_same_file(&at("new"), &at("newer")));
        std::os::unix::fs::symlink("new", at("dangling")).unwrap();
        assert!(is_same_file(&at("new"), &at("dangling")));
        fs::write(at("new"), "").unwrap();
        fs::hard_link(at("new"), at("hard")).unwrap();
        for other in ["new", "d/../new", "dangling", "hard"] {
            assert!(is_same_file(&at("new"), &at(other)), "{other}");
        }
        assert!(!is_same_file(&at("new"), &at("absent")));
        let null = Path::new("/dev/null");
        assert!(!is_same_file(null, null), "the device discards all output");
    }
}
