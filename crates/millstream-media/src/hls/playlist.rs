//! The text of media playlists, by `quick_m3u8`.

use quick_m3u8::tag::hls::{
    Discontinuity, DiscontinuitySequence, Endlist, M3u, Map, MediaSequence, Part, PartInf,
    PreloadHint, PreloadHintType, ServerControl, Targetduration, Version,
};
use quick_m3u8::{HlsLine, Writer};
use std::io::{self, Write as _};

/// The version of the tags that are used: `EXT-X-PART` and its like (RFC 8216bis, section 8).
const VERSION: u64 = 9;

/// A part in a playlist.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedPart {
    pub(super) number: u64,
    pub(super) ticks: i64,
    /// Whether decoding can begin with it.
    pub(super) key: bool,
}

/// A segment in a playlist.
#[derive(Clone, Debug)]
pub(super) struct ListedSegment {
    pub(super) sequence: u64,
    /// The number of the declaration of its tracks.
    pub(super) tracks: u64,
    pub(super) discontinuity: bool,
    /// Its length, 1/90,000 s; `None`: it is not complete.
    pub(super) ticks: Option<i64>,
    /// Its parts, if they are listed.
    pub(super) parts: Vec<ListedPart>,
}

/// A media playlist.
#[derive(Clone, Debug)]
pub(super) struct Playlist<'a> {
    /// The beginning of the names of its files, and the query of their URLs with its `?`.
    pub(super) prefix: &'a str,
    pub(super) query: &'a str,
    /// The longest length of a segment, s, and that of a part, 1/90,000 s.
    pub(super) target_s: u32,
    pub(super) part_ticks: i64,
    /// The number of discontinuities before the first segment.
    pub(super) discontinuities: u64,
    pub(super) segments: Vec<ListedSegment>,
    /// The number of the next part; `None`: the publication has ended.
    pub(super) next_part: Option<u64>,
}

/// Returns the name of the file of a declaration of tracks.
pub(super) fn tracks_file(prefix: &str, number: u64) -> String {
    format!("{prefix}-tracks-{number}.mp4")
}

/// Returns the name of the file of a segment.
pub(super) fn segment_file(prefix: &str, sequence: u64) -> String {
    format!("{prefix}-segment-{sequence}.mp4")
}

/// Returns the name of the file of a part.
pub(super) fn part_file(prefix: &str, number: u64) -> String {
    format!("{prefix}-part-{number}.mp4")
}

/// Returns a length in s, to 10 µs.
fn seconds(ticks: i64) -> f64 {
    // Lengths of parts and segments are far below 2^53.
    let hundred_thousandths = (ticks.max(0) * 100_000 + 45_000) / 90_000;
    hundred_thousandths as f64 / 100_000.0
}

impl Playlist<'_> {
    /// Returns the text.
    ///
    /// # Errors
    /// Never fails: it writes to memory.
    pub(super) fn text(&self) -> io::Result<Vec<u8>> {
        let mut to = Writer::new(Vec::new());
        let url = |file: String| file + self.query;
        to.write_line(HlsLine::from(M3u))?;
        to.write_line(HlsLine::from(Version::new(VERSION)))?;
        to.write_line(HlsLine::from(Targetduration::new(self.target_s.into())))?;
        let part_s = seconds(self.part_ticks);
        // A player stays three parts behind the end, and without parts three segments.
        let control = ServerControl::builder()
            .with_can_block_reload()
            .with_hold_back(f64::from(self.target_s) * 3.0)
            .with_part_hold_back(seconds(self.part_ticks * 3))
            .finish();
        to.write_line(HlsLine::from(control))?;
        to.write_line(HlsLine::from(PartInf::new(part_s)))?;
        let first = self.segments.first().map_or(0, |segment| segment.sequence);
        to.write_line(HlsLine::from(MediaSequence::new(first)))?;
        to.write_line(HlsLine::from(DiscontinuitySequence::new(self.discontinuities)))?;
        let mut tracks = None;
        for segment in &self.segments {
            if segment.discontinuity {
                to.write_line(HlsLine::from(Discontinuity))?;
            }
            if tracks.replace(segment.tracks) != Some(segment.tracks) {
                let file = url(tracks_file(self.prefix, segment.tracks));
                to.write_line(HlsLine::from(Map::builder().with_uri(file).finish()))?;
            }
            for part in &segment.parts {
                let file = url(part_file(self.prefix, part.number));
                let tag = Part::builder().with_uri(file).with_duration(seconds(part.ticks));
                let tag = if part.key { tag.with_independent() } else { tag };
                to.write_line(HlsLine::from(tag.finish()))?;
            }
            if let Some(ticks) = segment.ticks {
                // The library leaves out the comma that RFC 8216, section 4.3.2.1, requires.
                writeln!(to.get_mut(), "#EXTINF:{},", seconds(ticks))?;
                to.write_uri(url(segment_file(self.prefix, segment.sequence)))?;
            }
        }
        match self.next_part {
            Some(number) => {
                let file = url(part_file(self.prefix, number));
                let hint = PreloadHint::builder().with_hint_type(PreloadHintType::Part);
                to.write_line(HlsLine::from(hint.with_uri(file).finish()))?;
            }
            None => {
                to.write_line(HlsLine::from(Endlist))?;
            }
        }
        Ok(to.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_playlist_has_segments_parts_and_the_next_part() {
        let part = |number, key| ListedPart { number, ticks: 18_000, key };
        let segment = |sequence, ticks, parts| ListedSegment {
            sequence,
            tracks: 3,
            discontinuity: sequence == 5,
            ticks,
            parts,
        };
        let mut playlist = Playlist {
            prefix: "ab",
            query: "?token=t",
            target_s: 1,
            part_ticks: 18_900,
            discontinuities: 2,
            segments: vec![
                segment(5, Some(90_001), vec![]),
                segment(6, Some(36_000), vec![part(11, true), part(12, false)]),
                segment(7, None, vec![part(13, true)]),
            ],
            next_part: Some(14),
        };
        let text = |of: &Playlist<'_>| String::from_utf8(of.text().unwrap()).unwrap();
        let head = "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:1\n\
                    #EXT-X-SERVER-CONTROL:HOLD-BACK=3.0,PART-HOLD-BACK=0.63,CAN-BLOCK-RELOAD=YES\n\
                    #EXT-X-PART-INF:PART-TARGET=0.21\n#EXT-X-MEDIA-SEQUENCE:5\n\
                    #EXT-X-DISCONTINUITY-SEQUENCE:2\n";
        let files = "#EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"ab-tracks-3.mp4?token=t\"\n\
                     #EXTINF:1.00001,\nab-segment-5.mp4?token=t\n\
                     #EXT-X-PART:URI=\"ab-part-11.mp4?token=t\",DURATION=0.2,INDEPENDENT=YES\n\
                     #EXT-X-PART:URI=\"ab-part-12.mp4?token=t\",DURATION=0.2\n\
                     #EXTINF:0.4,\nab-segment-6.mp4?token=t\n\
                     #EXT-X-PART:URI=\"ab-part-13.mp4?token=t\",DURATION=0.2,INDEPENDENT=YES\n";
        let hint = "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"ab-part-14.mp4?token=t\"\n";
        assert_eq!(text(&playlist), [head, files, hint].concat());
        playlist.next_part = None;
        assert_eq!(text(&playlist), [head, files, "#EXT-X-ENDLIST\n"].concat());
    }
}
