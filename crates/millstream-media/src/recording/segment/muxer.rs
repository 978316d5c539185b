//! A muxer of fragments whose memory does not grow.
//!
//! `Fmp4SegmentMuxer` keeps an index of all its fragments for `mfra`, and copies it for each one. A
//! publication may last for months. So a copy of the muxer as it was after the declaration of the
//! tracks replaces it now and then. Empty samples, which no file has, carry the decoding times on.

use shiguredo_mp4::TrackKind;
use shiguredo_mp4::mux::{Fmp4SegmentMuxer, MuxError, Sample};
use std::num::NonZeroU32;

use super::sample;

/// The calls after which a muxer is replaced.
const MAX_CALLS: u32 = 256;

/// The offset of the sequence number in a fragment: after the headers of `moof` and of `mfhd`,
/// which is its first box, and version and flags (ISO 14496-12, 8.8.5).
const SEQUENCE_OFFSET: usize = 20;

/// A track, and the sum of the durations of its samples, in its unit of time.
#[derive(Debug)]
struct TrackTime {
    kind: TrackKind,
    scale: NonZeroU32,
    total: u64,
}

/// A muxer of fragments.
#[derive(Debug)]
pub(super) struct FragmentMuxer {
    /// The muxer after the declaration of the tracks.
    declared: Fmp4SegmentMuxer,
    muxer: Fmp4SegmentMuxer,
    /// The calls of `muxer` since it was `declared`.
    calls: u32,
    sequence: u32,
    tracks: Vec<TrackTime>,
}

impl FragmentMuxer {
    /// Creates a muxer of the tracks of `declared`, empty samples of no length.
    ///
    /// # Errors
    /// Fails if the library refuses the tracks.
    pub(super) fn new(declared: &[Sample]) -> Result<Self, MuxError> {
        let mut muxer = Fmp4SegmentMuxer::new()?;
        muxer.create_media_segment_metadata(declared)?;
        let track = |of: &Sample| TrackTime { kind: of.track_kind, scale: of.timescale, total: 0 };
        let tracks = declared.iter().map(track).collect();
        Ok(Self { declared: muxer.clone(), muxer, calls: 0, sequence: 1, tracks })
    }

    /// Returns the declaration of the tracks.
    ///
    /// # Errors
    /// Fails if the library cannot write it.
    pub(super) fn declaration(&self) -> Result<Vec<u8>, MuxError> {
        self.declared.init_segment_bytes()
    }

    /// Returns the header of the next fragment, which precedes the bytes of its samples.
    ///
    /// # Errors
    /// Fails if the library refuses the samples.
    pub(super) fn fragment(&mut self, samples: &[Sample]) -> Result<Vec<u8>, MuxError> {
        if self.calls >= MAX_CALLS {
            self.replace()?;
        }
        let mut header = self.muxer.create_media_segment_metadata(samples)?;
        self.calls += 1;
        self.sequence = self.sequence.wrapping_add(1);
        for track in &mut self.tracks {
            let of_track = samples.iter().filter(|sample| sample.track_kind == track.kind);
            track.total += of_track.map(|sample| u64::from(sample.duration)).sum::<u64>();
        }
        if let Some(place) = header.get_mut(SEQUENCE_OFFSET..SEQUENCE_OFFSET + 4) {
            place.copy_from_slice(&self.sequence.to_be_bytes());
        }
        Ok(header)
    }

    fn replace(&mut self) -> Result<(), MuxError> {
        let mut lead = Vec::new();
        for track in &self.tracks {
            let mut rest = track.total;
            loop {
                let lasts = rest.min(u32::MAX.into());
                let ticks = i64::try_from(lasts).unwrap_or(0);
                lead.push(sample(track.kind, track.scale, ticks));
                rest -= lasts;
                if rest == 0 {
                    break;
                }
            }
        }
        let mut muxer = self.declared.clone();
        muxer.create_media_segment_metadata(&lead)?;
        (self.muxer, self.calls) = (muxer, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::AudioConfig;
    use super::super::{scale, tests::sets};
    use super::*;
    use shiguredo_mp4::bitstream::h264::{H264SampleEntryConfig, LengthSize, build_avc1_box};
    use shiguredo_mp4::boxes::SampleEntry;

    /// Returns empty samples that declare H.264 and Opus.
    fn declared() -> [Sample; 2] {
        let [sequence, picture] = sets().try_into().unwrap();
        let config = H264SampleEntryConfig { length_size: LengthSize::FourBytes };
        let video = SampleEntry::Avc1(build_avc1_box(&[sequence], &[picture], &config).unwrap());
        let opus = AudioConfig::Opus { stereo: false };
        [(TrackKind::Video, scale(), video), (TrackKind::Audio, opus.sample_rate(), opus.entry())]
            .map(|(kind, scale, entry)| Sample {
                sample_entry: Some(entry),
                ..sample(kind, scale, 0)
            })
    }

    #[test]
    fn fragments_are_those_of_one_muxer_and_memory_does_not_grow() {
        let mut one = Fmp4SegmentMuxer::new().unwrap();
        one.create_media_segment_metadata(&declared()).unwrap();
        let mut muxer = FragmentMuxer::new(&declared()).unwrap();
        assert_eq!(muxer.declaration().unwrap(), one.init_segment_bytes().unwrap());
        let mut largest = [0, 0];
        for number in 0..4 * MAX_CALLS {
            // The times exceed 32 bits, and the sound pauses.
            let lasts = if number == 40 { u32::MAX.into() } else { 18_000 };
            let mut samples = vec![Sample {
                keyframe: number % 5 == 0,
                data_size: 7,
                ..sample(TrackKind::Video, scale(), lasts)
            }];
            let sound = sample(TrackKind::Audio, declared()[1].timescale, 960);
            samples.extend((0..number % 3).map(|_| Sample {
                data_offset: 7,
                data_size: 0,
                ..sound.clone()
            }));
            let header = muxer.fragment(&samples).unwrap();
            assert_eq!(header, one.create_media_segment_metadata(&samples).unwrap(), "{number}");
            let half = usize::from(number >= 2 * MAX_CALLS);
            largest[half] = largest[half].max(muxer.muxer.mfra_bytes().unwrap().len());
        }
        assert!(largest[1] <= largest[0] * 2 && largest[0] < 20_000, "{largest:?}");
        assert!(one.mfra_bytes().unwrap().len() > largest[1]);
    }
}
