//! The headers that a decoder needs to start, and their form in SDP.
//!
//! | codec | headers | in SDP |
//! |---|---|---|
//! | H.264 | sequence and picture parameter set | RFC 6184, section 8.1 |
//! | H.265 | video, sequence and picture parameter set | RFC 7798, section 7.1 |
//! | AV1 | sequence header | – |
//! | MPEG-1/2 | sequence header with its extensions | – |
//!
//! VP8 and VP9 have none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millstream_traffic::mpeg::{Codec, Obu, obus, units};

/// The longest header that is stored, bytes.
const MAX_BYTES: usize = 1_024;

/// The start code of a NAL unit.
const START: [u8; 4] = [0, 0, 0, 1];

/// The parameters of a video stream in SDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VideoParameters {
    /// Parameters of the format.
    pub(crate) text: String,
    /// `profile_idc` of H.264.
    pub(crate) h264_profile: Option<u8>,
}

/// The latest headers of a stream that a decoder needs to start.
#[derive(Clone, Debug)]
pub(crate) struct ParameterSets {
    codec: Codec,
    /// The headers, in the order in which they precede a frame.
    sets: [Vec<u8>; 3],
}

/// Returns the place of a NAL unit among the headers of its codec; `None` if it is no header.
fn place(codec: Codec, nal: &[u8]) -> Option<usize> {
    let first = *nal.first()?;
    match (codec, first & 31, first >> 1 & 63) {
        (Codec::H264, 7, _) => Some(0),
        (Codec::H264, 8, _) => Some(1),
        (Codec::H265, _, kind @ 32..=34) => Some(usize::from(kind - 32)),
        _ => None,
    }
}

impl ParameterSets {
    pub(crate) fn new(codec: Codec) -> Self {
        Self { codec, sets: Default::default() }
    }

    /// The number of headers of the codec.
    fn count(&self) -> usize {
        match self.codec {
            Codec::Vp8 | Codec::Vp9 => 0,
            Codec::Mpeg | Codec::Av1 => 1,
            Codec::H264 => 2,
            Codec::H265 => 3,
        }
    }

    /// Stores a NAL unit, without start code, if it is a parameter set.
    pub(crate) fn store(&mut self, nal: &[u8]) {
        if let Some(place) = place(self.codec, nal) {
            self.keep(place, nal);
        }
    }

    fn keep(&mut self, place: usize, header: &[u8]) {
        let kept = &mut self.sets[place];
        if header.len() <= MAX_BYTES && header != kept.as_slice() {
            kept.clear();
            kept.extend_from_slice(header);
        }
    }

    /// Stores the headers of a frame. Returns whether it has a sequence header or parameter set.
    pub(crate) fn store_from(&mut self, frame: &[u8]) -> bool {
        match self.codec {
            Codec::Mpeg => return self.store_sequence_header(frame),
            Codec::Av1 => return self.store_obu(frame),
            Codec::Vp8 | Codec::Vp9 => return true,
            Codec::H264 | Codec::H265 => {}
        }
        let sequence = self.count() - 2;
        let mut has = false;
        for nal in units(frame) {
            has |= place(self.codec, &frame[nal.clone()]) == Some(sequence);
            self.store(&frame[nal]);
        }
        has
    }

    fn store_sequence_header(&mut self, frame: &[u8]) -> bool {
        let mut headers = units(frame).map(|unit| (unit.start, frame[unit.start]));
        let Some((start, _)) = headers.find(|(_, code)| *code == 0xb3) else { return false };
        let end = headers.find(|(_, code)| !matches!(code, 0xb2 | 0xb5)).map(|(at, _)| at);
        self.keep(0, &frame[start - 3..end.map_or(frame.len(), |end| end - 3)]);
        true
    }

    fn store_obu(&mut self, frame: &[u8]) -> bool {
        let found = obus(frame).find(Obu::is_sequence_header);
        if let Some(obu) = &found {
            self.keep(0, &frame[obu.range.clone()]);
        }
        found.is_some()
    }

    /// Returns the headers that are known; `None` if one is missing.
    fn complete(&self) -> Option<&[Vec<u8>]> {
        let sets = &self.sets[..self.count()];
        sets.iter().all(|set| !set.is_empty()).then_some(sets)
    }

    /// Writes the headers and `frame` to `whole`. Returns whether all headers are known.
    pub(crate) fn write_before(&self, frame: &[u8], whole: &mut Vec<u8>) -> bool {
        let Some(sets) = self.complete() else { return false };
        whole.clear();
        for set in sets {
            // Other headers are stored with their start codes or sizes.
            let has_start = matches!(self.codec, Codec::H264 | Codec::H265);
            whole.extend_from_slice(if has_start { &START } else { &[] });
            whole.extend_from_slice(set);
        }
        whole.extend_from_slice(frame);
        true
    }

    /// Returns the parameters for SDP, if the codec has some and all headers are known.
    pub(crate) fn parameters(&self) -> Option<VideoParameters> {
        let encoded = |set: &Vec<u8>| STANDARD.encode(set);
        match (self.codec, self.complete()?) {
            (Codec::H264, [sequence, picture]) => {
                let [_, profile, constraints, level, ..] = sequence[..] else { return None };
                let text = format!(
                    "profile-level-id={profile:02x}{constraints:02x}{level:02x};\
                     sprop-parameter-sets={},{}",
                    encoded(sequence),
                    encoded(picture)
                );
                Some(VideoParameters { text, h264_profile: Some(profile) })
            }
            (Codec::H265, [video, sequence, picture]) => {
                let text = format!(
                    "sprop-vps={};sprop-sps={};sprop-pps={}",
                    encoded(video),
                    encoded(sequence),
                    encoded(picture)
                );
                Some(VideoParameters { text, h264_profile: None })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_of_a_frame_precede_later_frames_and_are_written_to_sdp() {
        let h264 = [0, 0, 1, 0x67, 0x64, 0, 0x0d, 5, 0, 0, 1, 0x68, 7, 0, 0, 1, 0x65, 1];
        let h265 = [0, 0, 1, 0x40, 1, 2, 0, 0, 1, 0x42, 1, 3, 0, 0, 1, 0x44, 1, 4, 0, 0, 1, 0x26];
        for (codec, frame, text, profile) in [
            (
                Codec::H264,
                &h264[..],
                "profile-level-id=64000d;sprop-parameter-sets=Z2QADQU=,aAc=",
                Some(0x64),
            ),
            (Codec::H265, &h265, "sprop-vps=QAEC;sprop-sps=QgED;sprop-pps=RAEE", None),
        ] {
            let mut sets = ParameterSets::new(codec);
            assert!(!sets.store_from(&frame[..3]) && sets.parameters().is_none());
            assert!(sets.store_from(frame));
            let found = sets.parameters().unwrap();
            assert_eq!((found.text.as_str(), found.h264_profile), (text, profile));
            let mut whole = Vec::new();
            assert!(sets.write_before(b"x", &mut whole));
            let mut again = ParameterSets::new(codec);
            assert!(again.store_from(&whole[..whole.len() - 1]) && whole.ends_with(b"x"));
            assert_eq!(again.parameters().unwrap().text, text);
        }
    }
}
