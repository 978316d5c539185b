//! The configuration of H.265 in an MP4 (ISO 14496-15, 8.3.2).
//!
//! `mp4parse` skips sample entries of codecs that it does not know, so this module finds their
//! configuration by the headers of boxes alone:
//!
//! ```text
//! moov ─ trak … ─ mdia ─ minf ─ stbl ─ stsd ─ hvc1 or hev1 ─ hvcC
//! ```
//! A box lies inside its parent; each level has at most [`MAX_BOXES`] boxes.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

/// The most boxes that are read of one level.
const MAX_BOXES: usize = 1 << 12;

/// The longest configuration, bytes: its parameter sets have 16-bit lengths but are small.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 16;

/// The bytes before the boxes in a `stsd` box, and in the sample entry of a video (ISO 14496-12,
/// 8.5.2 and 12.1.3).
const STSD_HEADER: u64 = 8;
const ENTRY_HEADER: u64 = 78;

type Name = [u8; 4];

/// Returns the configuration of each track, in the order of the tracks; `None` for those that are
/// not H.265. A box that cannot be read is skipped.
pub(super) fn h265_configurations(input: &mut (impl Read + Seek)) -> Vec<Option<Vec<u8>>> {
    let Ok(end) = input.seek(SeekFrom::End(0)) else { return Vec::new() };
    let tracks = children(input, 0..end, b"moov").into_iter().next().unwrap_or(0..0);
    let tracks = children(input, tracks, b"trak");
    tracks.into_iter().map(|track| configuration(input, track)).collect()
}

fn configuration(input: &mut (impl Read + Seek), track: Range<u64>) -> Option<Vec<u8>> {
    let mut at = track;
    for name in [b"mdia", b"minf", b"stbl", b"stsd"] {
        at = children(input, at, name).into_iter().next()?;
    }
    at.start += STSD_HEADER;
    let entries = [b"hvc1", b"hev1"].map(|name| children(input, at.clone(), name));
    let mut entry = entries.into_iter().flatten().next()?;
    entry.start += ENTRY_HEADER;
    let found = children(input, entry, b"hvcC").into_iter().next()?;
    let length = (found.end - found.start).min(MAX_CONFIGURATION_BYTES);
    input.seek(SeekFrom::Start(found.start)).ok()?;
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the contents of the boxes called `name` directly inside `of`.
fn children(input: &mut (impl Read + Seek), of: Range<u64>, name: &Name) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut at = of.start;
    for _ in 0..MAX_BOXES {
        let Some((is, contents)) = header(input, at, of.end) else { break };
        at = contents.end;
        if is == *name {
            found.push(contents);
        }
    }
    found
}

/// Returns the name and the contents of the box at `at`, which ends at most at `end`.
fn header(input: &mut (impl Read + Seek), at: u64, end: u64) -> Option<(Name, Range<u64>)> {
    let mut start = at.checked_add(8).filter(|start| *start <= end)?;
    input.seek(SeekFrom::Start(at)).ok()?;
    let (mut length, mut name) = ([0; 4], [0; 4]);
    input.read_exact(&mut length).ok()?;
    input.read_exact(&mut name).ok()?;
    let length = match u32::from_be_bytes(length) {
        // To the end of the parent.
        0 => end - at,
        1 => {
            start += 8;
            let mut length = [0; 8];
            input.read_exact(&mut length).ok()?;
            u64::from_be_bytes(length)
        }
        length => length.into(),
    };
    let last = at.checked_add(length).filter(|last| (start..=end).contains(last))?;
    Some((name, start..last))
}

/// Returns the size in bytes of the length field before each NAL unit, by a configuration.
pub(super) fn nal_length_bytes(configuration: &[u8]) -> Option<usize> {
    configuration.get(21).map(|byte| usize::from(byte & 3) + 1)
}

/// Returns the parameter sets of a configuration; those after a damaged length are left out.
pub(super) fn parameter_sets(configuration: &[u8]) -> Vec<&[u8]> {
    let mut sets = Vec::new();
    let Some((arrays, mut rest)) = configuration.get(22..).and_then(<[u8]>::split_first) else {
        return sets;
    };
    for _ in 0..*arrays {
        let Some(([_, high, low], mut more)) = rest.split_first_chunk() else { return sets };
        for _ in 0..u16::from_be_bytes([*high, *low]) {
            let split = more.split_first_chunk().and_then(|(length, more)| {
                more.split_at_checked(u16::from_be_bytes(*length).into())
            });
            let Some((set, after)) = split else { return sets };
            sets.push(set);
            more = after;
        }
        rest = more;
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn boxed(name: &Name, contents: &[u8]) -> Vec<u8> {
        let length = u32::try_from(contents.len() + 8).unwrap();
        [&length.to_be_bytes(), &name[..], contents].concat()
    }

    /// A file with a track of sound and one of H.265 with this configuration.
    fn file(configuration: &[u8]) -> Vec<u8> {
        let track = |entry: Vec<u8>| {
            let stsd = boxed(b"stsd", &[&[0; 8][..], &entry].concat());
            let mdia = boxed(b"mdia", &boxed(b"minf", &boxed(b"stbl", &stsd)));
            boxed(b"trak", &[boxed(b"tkhd", &[9; 20]), mdia].concat())
        };
        let entry = [&[0; 78][..], &boxed(b"hvcC", configuration)].concat();
        let tracks = [track(boxed(b"mp4a", &[0; 40])), track(boxed(b"hvc1", &entry))].concat();
        // The data has a 64-bit length.
        let data = [&[0, 0, 0, 1][..], b"mdat", &17u64.to_be_bytes(), b"x"].concat();
        [boxed(b"ftyp", b"isom"), data, boxed(b"moov", &tracks)].concat()
    }

    #[test]
    fn the_configuration_of_h265_is_found() {
        let sets = [&[2][..], &[0xa0, 0, 1, 0, 2, 0x40, 1], &[0xa1, 0, 1, 0, 3, 0x42, 1, 7]];
        let configuration = [&[1; 21][..], &[0xfb], &sets.concat()].concat();
        let found = h265_configurations(&mut Cursor::new(file(&configuration)));
        assert_eq!(found, [None, Some(configuration.clone())]);
        assert_eq!(nal_length_bytes(&configuration), Some(4));
        assert_eq!(parameter_sets(&configuration), [&[0x40, 1][..], &[0x42, 1, 7]]);
        assert_eq!(parameter_sets(&configuration[..31]), [[0x40, 1]]);
        assert!(parameter_sets(&[]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn changed_bytes_never_cause_a_panic(
            changes in proptest::collection::vec((0usize..260, 0u8..=255), 1..5),
        ) {
            let mut file = file(&[3; 40]);
            for (at, byte) in changes {
                if let Some(changed) = file.get_mut(at) {
                    *changed = byte;
                }
            }
            for found in h265_configurations(&mut Cursor::new(file)).into_iter().flatten() {
                let _ = (nal_length_bytes(&found), parameter_sets(&found));
            }
        }
    }
}
