//! FLV tags, the messages of RTMP with media (Adobe Flash Video File Format 10.1, annex E).
//!
//! ```text
//! tag:   type, 24 bits of size, 24 + 8 bits of ms, stream id, body, size of the tag
//! video: frame type and codec, 0 (configuration) or 1 (NAL units), 24 bits of composition time
//! audio: format, 0 (configuration) or 1 (frame)
//! ```

/// The size of the file header with the size that follows it, and of a tag's header, bytes.
const FILE_HEADER: usize = 13;
const TAG_HEADER: usize = 11;

/// The size of the field that follows each tag, bytes.
const TAG_SIZE: usize = 4;

/// The types of tags with media.
const AUDIO: u8 = 8;
const VIDEO: u8 = 9;

/// The numbers of H.264 and AAC.
const AVC: u8 = 7;
const AAC: u8 = 10;

/// A tag with media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// The configuration record of H.264 (ISO/IEC 14496-15).
    VideoConfig(&'a [u8]),
    /// NAL units, each after its length; the times of decoding and presentation, ms.
    Video { decode_ms: u32, present_ms: u32, units: &'a [u8] },
    /// The AudioSpecificConfig of AAC.
    AudioConfig(&'a [u8]),
    /// A frame of AAC.
    Audio { present_ms: u32, frame: &'a [u8] },
    /// Media of another codec: `video` or `audio`.
    Other(&'static str),
}

/// Returns the tags with media in `flv`, which may begin with a file header.
pub(super) fn tags(flv: &[u8]) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = match flv.strip_prefix(b"FLV") {
        Some(_) => flv.get(FILE_HEADER..).unwrap_or_default(),
        None => flv,
    };
    std::iter::from_fn(move || {
        loop {
            let header = rest.get(..TAG_HEADER)?;
            let number = |at: usize| {
                let bytes = &header[at..at + 3];
                u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
            };
            let end = TAG_HEADER + usize::try_from(number(1)).ok()?;
            let body = rest.get(TAG_HEADER..end)?;
            let (kind, time_ms) = (header[0], u32::from(header[7]) << 24 | number(4));
            rest = rest.get(end + TAG_SIZE..).unwrap_or_default();
            if let Some(tag) = media(kind, time_ms, body) {
                return Some(tag);
            }
        }
    })
}

/// Returns the media in the body of a tag.
fn media(kind: u8, time_ms: u32, body: &[u8]) -> Option<Tag<'_>> {
    match (kind, body) {
        // The highest bit announces the codecs of Enhanced RTMP.
        (VIDEO, [first, ..]) if first & 0x8f != AVC => Some(Tag::Other("video")),
        (VIDEO, [_, 0, _, _, _, config @ ..]) => Some(Tag::VideoConfig(config)),
        (VIDEO, [_, 1, a, b, c, units @ ..]) => {
            // 24 bits, signed.
            let offset_ms = i32::from_be_bytes([*a, *b, *c, 0]) >> 8;
            let present_ms = time_ms.wrapping_add_signed(offset_ms);
            Some(Tag::Video { decode_ms: time_ms, present_ms, units })
        }
        (AUDIO, [first, ..]) if first >> 4 != AAC => Some(Tag::Other("audio")),
        (AUDIO, [_, 0, config @ ..]) => Some(Tag::AudioConfig(config)),
        (AUDIO, [_, 1, frame @ ..]) => Some(Tag::Audio { present_ms: time_ms, frame }),
        // Metadata and the end of a sequence.
        _ => None,
    }
}

/// Appends NAL units to `frame`, each after a start code instead of its length of `length_bytes`.
/// Returns `None` if they are malformed.
pub(super) fn annex_b(mut units: &[u8], length_bytes: usize, frame: &mut Vec<u8>) -> Option<()> {
    while !units.is_empty() {
        let length = units.get(..length_bytes)?;
        let length = length.iter().fold(0, |value, byte| value << 8 | usize::from(*byte));
        let end = length_bytes.checked_add(length)?;
        let unit = units.get(length_bytes..end)?;
        if !unit.is_empty() {
            frame.extend_from_slice(&[0, 0, 0, 1]);
            frame.extend_from_slice(unit);
        }
        units = &units[end..];
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tag.
    fn tag(kind: u8, time_ms: u32, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(body.len()).unwrap().to_be_bytes();
        let [high, time @ ..] = time_ms.to_be_bytes();
        [&[kind][..], &size[1..], &time, &[high, 0, 0, 0], body, &[0; 4]].concat()
    }

    #[test]
    fn tags_have_their_times_and_media() {
        let file = [&b"FLV\x01\x05\0\0\0\x09\0\0\0\0"[..]].concat();
        let metadata = tag(18, 0, b"onMetaData");
        let config = tag(VIDEO, 0, &[0x17, 0, 0, 0, 0, 1, 2]);
        let video = tag(VIDEO, 0x0102_0304, &[0x27, 1, 0xff, 0xff, 0xfe, 9]);
        let later = tag(VIDEO, 40, &[0x27, 1, 0, 0, 80, 9]);
        let sound = [tag(AUDIO, 5, &[0xaf, 0, 0x12, 0x10]), tag(AUDIO, 6, &[0xaf, 1, 7])].concat();
        let others = [tag(VIDEO, 0, &[0x90, b'h']), tag(AUDIO, 0, &[0x2f, 1])].concat();
        let ends =
            [tag(VIDEO, 0, &[0x17, 2, 0, 0, 0]), tag(VIDEO, 0, &[]), vec![VIDEO, 0]].concat();
        let flv = [file, metadata, config, video, later, sound, others, ends].concat();
        let decode_ms = 0x0102_0304;
        let expected = [
            Tag::VideoConfig(&[1, 2]),
            Tag::Video { decode_ms, present_ms: decode_ms - 2, units: &[9] },
            Tag::Video { decode_ms: 40, present_ms: 120, units: &[9] },
            Tag::AudioConfig(&[0x12, 0x10]),
            Tag::Audio { present_ms: 6, frame: &[7] },
            Tag::Other("video"),
            Tag::Other("audio"),
        ];
        assert_eq!(tags(&flv).collect::<Vec<_>>(), expected);
        for cut in 0..flv.len() {
            let _ = tags(&flv[..cut]).count();
        }
    }

    #[test]
    fn units_get_start_codes() {
        let mut frame = vec![5];
        let units = [0, 0, 0, 2, 0x65, 1, 0, 0, 0, 0, 0, 0, 0, 1, 7];
        assert_eq!(annex_b(&units, 4, &mut frame), Some(()));
        assert_eq!(frame, [5, 0, 0, 0, 1, 0x65, 1, 0, 0, 0, 1, 7]);
        assert_eq!(annex_b(&[0, 1, 7], 2, &mut frame), Some(()));
        for (units, length_bytes) in [(&[0, 0, 0, 3, 1][..], 4), (&[0, 0], 4), (&[9, 1], 1)] {
            assert_eq!(annex_b(units, length_bytes, &mut Vec::new()), None);
        }
    }
}
