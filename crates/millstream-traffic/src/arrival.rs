//! The contract between sources and whoever consumes them.

use std::fmt;
use std::path::PathBuf;

/// One packet arriving at the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrives, ns since the start of the run.
    pub time_ns: u64,
    /// The stream's position in the scenario file, from 0.
    pub stream: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// The captured frame, when the source is a capture file and the consumer asked to keep it.
    pub frame: Option<Box<FrameBytes>>,
}

/// A frame as it stands in a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameBytes {
    /// The captured bytes; shorter than the packet where the capture was cut by its snap length.
    pub captured: Vec<u8>,
    /// The length the packet had on the wire, bytes.
    pub original_bytes: u32,
}

/// A source of arrivals in time order.
pub trait Feed: Send {
    /// The next arrival; `None` when the source has ended. Times never decrease.
    ///
    /// # Errors
    /// When the input behind the source is unreadable or malformed.
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError>;
}

/// What is wrong with an input, where, and what would be right.
#[derive(Debug)]
pub struct TrafficError {
    /// The file, where the source reads one.
    pub path: Option<PathBuf>,
    /// Where in the file: `line 7`, `packet 12`, `byte 4096`.
    pub place: Option<String>,
    /// What was found, with the value.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TrafficError {}

impl TrafficError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { path: None, place: None, message: message.into(), help: None }
    }

    pub(crate) fn path(mut self, path: &std::path::Path) -> Self {
        self.path = Some(path.to_path_buf());
        self
    }

    pub(crate) fn place(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
