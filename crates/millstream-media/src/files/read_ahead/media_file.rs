//! Files that films' frames are read from while they play.
//!
//! A film that is an elementary stream is read where it is; of others, the video is unpacked once,
//! into a file without a name. Reading goes past the file system's cache (O_DIRECT) where the file
//! system can: what is read ahead is kept by the reader, and films are longer than caches.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// What disks are read by.
const BLOCK: usize = 4_096;

#[derive(Clone, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Way {
    /// By the file system's cache.
    Cached,
    /// Past it.
    Direct,
}

impl Way {
    /// What it is called.
    pub(crate) fn name(number: u64) -> &'static str {
        if number == Self::Direct as u64 { "pread, O_DIRECT" } else { "pread" }
    }
}

/// What frames are read from.
pub(crate) trait MediaFile: Send {
    /// `length` bytes from `at` on; fewer where it ends before.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, at: u64, length: usize) -> io::Result<&[u8]>;

    /// Where it is, for whoever is told of its failures.
    fn name(&self) -> String;
}

/// A film in a file.
pub(crate) struct DiskFile {
    file: File,
    buffer: Vec<Block>,
}

impl DiskFile {
    pub(crate) fn new(file: File) -> Self {
        Self { file, buffer: Vec::new() }
    }

    /// How it is read.
    pub(crate) fn way(&self) -> Way {
        let direct = fcntl_getfl(&self.file).is_ok_and(|flags| flags.contains(OFlags::DIRECT));
        if direct { Way::Direct } else { Way::Cached }
    }
}

impl MediaFile for DiskFile {
    fn read(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        let skipped = usize::try_from(at % BLOCK as u64).unwrap_or(0);
        let blocks = (skipped + length).div_ceil(BLOCK);
        if self.buffer.len() < blocks {
            self.buffer.resize(blocks, Block::new_zeroed());
        }
        let buffer = self.buffer[..blocks].as_mut_bytes();
        let start = at - skipped as u64;
        let mut there = 0;
        while there < skipped + length {
            match self.file.read_at(&mut buffer[there..], start + there as u64) {
                Ok(0) => break,
                Ok(bytes) => there += bytes,
                // Past the cache only whole blocks can be read: what was not one was the end.
                Err(_) if there % BLOCK != 0 => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let end = there.clamp(skipped, skipped + length);
        Ok(&self.buffer.as_bytes()[skipped..end])
    }

    fn name(&self) -> String {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        std::fs::read_link(link).map_or_else(|_| "?".to_owned(), |path| path.display().to_string())
    }
}

/// The file that the frames of a film at `path` are read from, whose video is `video`, and where
/// that begins in it: the film's own; or the one where it is `unpacked` already; or another in
/// `folder`.
///
/// # Errors
/// If the film cannot be read any more, or there is no room in `folder`.
pub(crate) fn file_of(
    path: &Path,
    video: &[u8],
    unpacked: Option<(&File, u64)>,
    folder: &Path,
) -> io::Result<(File, u64)> {
    let mut own = File::open(path)?;
    if let Some(at) = find(&mut own, video)? {
        go_direct(&own);
        return Ok((own, at));
    }
    if let Some((file, at)) = unpacked {
        let file = file.try_clone()?;
        file.sync_data()?;
        go_direct(&file);
        return Ok((file, at));
    }
    let mut unpacked = tempfile::tempfile_in(folder)?;
    unpacked.write_all(video)?;
    unpacked.sync_data()?;
    go_direct(&unpacked);
    Ok((unpacked, 0))
}

/// Where `video` begins in `file`, if that is what it ends with.
fn find(file: &mut File, video: &[u8]) -> io::Result<Option<u64>> {
    let Some(at) = file.metadata()?.len().checked_sub(video.len() as u64) else { return Ok(None) };
    file.seek(SeekFrom::Start(at))?;
    let mut part = vec![0; 1 << 16];
    for chunk in video.chunks(part.len()) {
        file.read_exact(&mut part[..chunk.len()])?;
        if part[..chunk.len()] != *chunk {
            return Ok(None);
        }
    }
    Ok(Some(at))
}

/// Reads past the cache from now on, if that can be done.
fn go_direct(file: &File) {
    let Ok(flags) = fcntl_getfl(file) else { return };
    let mut block = [Block::new_zeroed()];
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_ok()
        && file.read_at(block.as_mut_bytes(), 0).is_err()
    {
        let _ = fcntl_setfl(file, flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_film_is_read_and_its_end_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..20_001u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let path = folder.path().join("film");
        std::fs::write(&path, [&[0, 0][..], &bytes].concat()).unwrap();
        // As it is, and unpacked: the file holds something else.
        for (video, at) in [(&bytes[..], 2), (&bytes[1..20_000], 0)] {
            let (file, start) = file_of(&path, video, None, folder.path()).unwrap();
            assert_eq!(start, at);
            let mut film = DiskFile::new(file);
            let all = video.len();
            for (from, length) in [(0, 10), (4_000, 200), (4_096, 4_096), (5, 12_000)] {
                assert_eq!(
                    film.read(start + from as u64, length).unwrap(),
                    &video[from..from + length]
                );
            }
            let last = film.read(start + all as u64 - 3, 100).unwrap();
            assert_eq!(last, &video[all - 3..]);
            assert!(film.read(start + all as u64 + 5_000, 100).unwrap().is_empty());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no file is left behind");
    }
}
