//! `/recordings`: the files of recorded streams.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recording::directory::{Directory, RecordedFile, file_name, rfc3339};

/// The most files of an answer.
const MAX_LISTED: usize = 10_000;

/// A file of a recorded stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingEntry {
    /// The stream's name.
    pub stream: String,
    /// The UTC time of its first frame, as in RFC 3339.
    pub start: String,
    /// The UTC time of its last frame.
    pub end: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// Whether it is complete.
    pub complete: bool,
    /// Its path in the directory of the recordings.
    pub file: String,
}

impl RecordingEntry {
    fn of(file: RecordedFile) -> Self {
        Self {
            start: rfc3339(file.start_ms),
            end: rfc3339(file.end_ms),
            bytes: file.bytes,
            complete: !file.open,
            file: format!("{}/{}", file.stream, file_name(file.start_ms)),
            stream: file.stream,
        }
    }
}

/// Returns the files of the stream called `stream`, or of all streams; the oldest first. Lists the
/// oldest ones only if there are too many.
pub(crate) fn list(directory: Option<&Directory>, stream: Option<&str>) -> Vec<RecordingEntry> {
    let is = |file: &RecordedFile| stream.is_none_or(|stream| file.stream == stream);
    let files = directory.map(|directory| directory.list(MAX_LISTED, is)).unwrap_or_default();
    files.into_iter().map(RecordingEntry::of).collect()
}
