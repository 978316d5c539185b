//! Media files that are read during playback.
//!
//! An elementary stream is read in place. The video of any other file is unpacked once, into a file
//! without a name. Reads bypass the page cache (O_DIRECT) if the file system supports it. The
//! reader keeps the frames that it reads ahead, and media files are larger than the page cache.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// The block size of direct reads, bytes.
const BLOCK: usize = 4_096;

#[derive(Clone, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum ReadMode {
    /// Through the page cache.
    Cached,
    /// Direct, bypassing the page cache.
    Direct,
}

impl ReadMode {
    /// Returns the name of the mode with this number.
    pub(crate) fn name(number: u64) -> &'static str {
        if number == Self::Direct as u64 { "pread, O_DIRECT" } else { "pread" }
    }
}

/// A source of frames.
pub(crate) trait MediaFile: Send {
    /// Reads `length` bytes at offset `at`, or fewer if the file ends earlier.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    fn read(&mut self, at: u64, length: usize) -> io::Result<&[u8]>;

    /// Returns the location of the file, for error reports.
    fn name(&self) -> String;
}

/// A media file on disk.
pub(crate) struct DiskFile {
    file: File,
    buffer: Vec<Block>,
}

impl DiskFile {
    pub(crate) fn new(file: File) -> Self {
        Self { file, buffer: Vec::new() }
    }

    /// Returns the mode in which the file is read.
    pub(crate) fn read_mode(&self) -> ReadMode {
        let direct = fcntl_getfl(&self.file).is_ok_and(|flags| flags.contains(OFlags::DIRECT));
        if direct { ReadMode::Direct } else { ReadMode::Cached }
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
        let mut filled = 0;
        while filled < skipped + length {
            match self.file.read_at(&mut buffer[filled..], start + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                // Direct reads need whole blocks: after a partial block, an error means the file's
                // end.
                Err(_) if filled % BLOCK != 0 => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let end = filled.clamp(skipped, skipped + length);
        Ok(&self.buffer.as_bytes()[skipped..end])
    }

    fn name(&self) -> String {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        std::fs::read_link(link).map_or_else(|_| "?".to_owned(), |path| path.display().to_string())
    }
}

/// Returns the file to read the frames of the media file at `path` from, and the offset of `video`.
///
/// The file is the media file itself if it ends with `video`. Otherwise it is `unpacked` if given,
/// else a new file in `folder`.
///
/// # Errors
/// Fails if the media file cannot be read any more, or `folder` is full.
pub(crate) fn open_video(
    path: &Path,
    video: &[u8],
    unpacked: Option<(&File, u64)>,
    folder: &Path,
) -> io::Result<(File, u64)> {
    let mut own = File::open(path)?;
    if let Some(at) = find(&mut own, video)? {
        enable_direct_io(&own);
        return Ok((own, at));
    }
    if let Some((file, at)) = unpacked {
        let file = file.try_clone()?;
        file.sync_data()?;
        enable_direct_io(&file);
        return Ok((file, at));
    }
    let mut unpacked = tempfile::tempfile_in(folder)?;
    unpacked.write_all(video)?;
    unpacked.sync_data()?;
    enable_direct_io(&unpacked);
    Ok((unpacked, 0))
}

/// Returns the offset of `video` in `file` if the file ends with it.
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

/// Switches the file to direct reads if a trial read succeeds.
fn enable_direct_io(file: &File) {
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
    fn any_part_of_a_media_file_is_read_and_its_end_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..20_001u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let path = folder.path().join("film");
        std::fs::write(&path, [&[0, 0][..], &bytes].concat()).unwrap();
        // Reads in place, and from an unpacked copy because the file does not end with the video.
        for (video, at) in [(&bytes[..], 2), (&bytes[1..20_000], 0)] {
            let (file, start) = open_video(&path, video, None, folder.path()).unwrap();
            assert_eq!(start, at);
            let mut media_file = DiskFile::new(file);
            let all = video.len();
            for (from, length) in [(0, 10), (4_000, 200), (4_096, 4_096), (5, 12_000)] {
                assert_eq!(
                    media_file.read(start + from as u64, length).unwrap(),
                    &video[from..from + length]
                );
            }
            let last = media_file.read(start + all as u64 - 3, 100).unwrap();
            assert_eq!(last, &video[all - 3..]);
            assert!(media_file.read(start + all as u64 + 5_000, 100).unwrap().is_empty());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no file is left behind");
    }
}
