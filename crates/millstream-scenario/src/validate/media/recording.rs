//! Validation of the recording of live streams: its directory, limits and streams.

use toml::Spanned;

use crate::error::Problem;
use crate::file::File;
use crate::file::media::RecordingTable;
use crate::media::Recording;
use crate::source::Source;

/// The default length of a file, ns.
const SEGMENT_NS: u64 = 60_000_000_000;

/// The default of `players`.
const PLAYERS: u32 = 4;

/// The range of `size`, bytes: at least a few seconds of several streams.
const SIZES: std::ops::RangeInclusive<u64> = 16_000_000..=1 << 50;

/// The range of `segment`, ns.
const SEGMENTS: std::ops::RangeInclusive<u64> = 1_000_000_000..=86_400_000_000_000;

/// The range of `keep`, ns: a minute to ten years.
const AGES: std::ops::RangeInclusive<u64> = 60_000_000_000..=315_360_000_000_000_000;

/// Validates `recording` of `[media]`.
pub(super) fn recording(table: &Spanned<RecordingTable>, problems: &mut Vec<Problem>) -> Recording {
    let table = table.get_ref();
    if table.folder.get_ref().is_empty() {
        let problem = Problem::new(table.folder.span(), "`folder` names no directory");
        problems.push(problem.help("a directory, for example folder = \"recordings\""));
    }
    let size = Some((table.size.get_ref().0, table.size.span()));
    let size = super::check_range(size, "`size`", SIZES, " B", problems);
    let keep = super::value_and_span(&table.keep, |time| time.0);
    let segment = super::value_and_span(&table.segment, |time| time.0);
    let players = super::value_and_span(&table.players, |count| u64::from(*count));
    let players = super::check_range(players, "`players`", 0..=256, "", problems);
    Recording {
        folder: table.folder.get_ref().into(),
        max_bytes: size.unwrap_or(*SIZES.start()),
        max_age_ns: super::check_range(keep, "`keep`", AGES, " ns", problems),
        segment_ns: super::check_range(segment, "`segment`", SEGMENTS, " ns", problems)
            .unwrap_or(SEGMENT_NS),
        players: players.and_then(|count| u32::try_from(count).ok()).unwrap_or(PLAYERS),
    }
}

/// Checks that recorded streams have a directory for their recordings.
pub(in crate::validate) fn check_recorded_streams(file: &File, problems: &mut Vec<Problem>) {
    let media = file.media.as_ref().map(Spanned::get_ref);
    if media.is_some_and(|media| media.recording.is_some()) {
        return;
    }
    let sources = file.stream.iter().map(|stream| &stream.get_ref().source);
    let is_recorded = |source: &Source| matches!(source, Source::Live(live) if live.record);
    let recorded = sources.filter(|source| source.source.as_ref().is_some_and(is_recorded));
    problems.extend(recorded.map(|source| {
        Problem::new(source.span.clone(), "`record` without `recording` in [media]")
            .help("[media]\nrecording = { folder = \"recordings\", size = \"10 GB\" }")
    }));
}
