//! Validation of the frame path from media files to the data plane, and of its dependent keys.

use crate::error::Problem;
use crate::file::media::{FramePathName, MediaTable};
use crate::media::{FramePath, Placement};

/// Returns the frame path and, if given, the read-ahead time, ns.
pub(super) fn frames(
    table: &MediaTable,
    placement: Placement,
    problems: &mut Vec<Problem>,
) -> (FramePath, Option<u64>) {
    let path = match table.frame_path.as_ref().map(|path| *path.get_ref()) {
        Some(FramePathName::Producer) => FramePath::Producer,
        Some(FramePathName::Ni) => FramePath::Ni,
        Some(FramePathName::Host) | None => FramePath::Host,
    };
    if let (Some(at), Placement::Host) = (&table.frame_path, placement)
        && path != FramePath::Host
    {
        let message = format!("`frame-path = \"{}\"` without `placement = \"ni\"`", path.name());
        let help =
            "only a separate data plane process gets frames past the host: placement = \"ni\"";
        problems.push(Problem::new(at.span(), message).help(help));
    }
    let read_ahead_at = table.read_ahead.as_ref().map(toml::Spanned::span);
    let folder_at = table.frame_folder.as_ref().map(toml::Spanned::span);
    for (key, at) in [("read-ahead", read_ahead_at), ("frame-folder", folder_at)] {
        if let (Some(at), FramePath::Host) = (at, path) {
            let message = format!("a `{key}` where the host reads whole media files");
            let help = "take it out, or frame-path = \"producer\" or \"ni\"";
            problems.push(Problem::new(at, message).help(help));
        }
    }
    let time = super::value_and_span(&table.read_ahead, |time| time.0);
    let range = 50_000_000..=60_000_000_000;
    (path, super::check_range(time, "`read-ahead`", range, " ns", problems))
}
