//! The interface between traffic sources and their consumers.

use millstream::flow_queue::Flow;
use std::fmt;
use std::path::PathBuf;

/// A packet's arrival at the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time, ns since the start of the run.
    pub time_ns: u64,
    /// Position of the stream in the scenario file, from 0.
    pub stream: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// The packet's flow and ECN field, if the source is a capture file and the consumer requested
    /// them.
    pub flow: Option<Flow>,
    /// The captured frame, if the source is a capture file and the consumer requested it.
    pub frame: Option<Box<FrameBytes>>,
}

/// A frame of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameBytes {
    /// The captured bytes; shorter than the packet if the snap length truncated it.
    pub captured: Vec<u8>,
    /// Length of the packet on the wire, bytes.
    pub original_bytes: u32,
}

/// A source of arrivals in time order.
pub trait Feed: Send {
    /// Replaces `next` by the next arrival, or by `None` when the source has ended. Times never
    /// decrease. An arrival is written in place: copying it right after stalls the processor.
    ///
    /// # Errors
    /// Fails if the source's input is unreadable or malformed; `next` has then any value.
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError>;

    /// Returns the next arrival, or `None` when the source has ended.
    ///
    /// # Errors
    /// See [`next_into`](Self::next_into).
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
        let mut next = None;
        self.next_into(&mut next)?;
        Ok(next)
    }
}

/// An error of an input: what is wrong, where, and a valid alternative.
#[derive(Debug)]
pub struct TrafficError {
    /// The file, if the source reads one.
    pub path: Option<PathBuf>,
    /// Position in the file: `line 7`, `packet 12`, `byte 4096`.
    pub place: Option<String>,
    /// The problem, with the invalid value.
    pub message: String,
    /// A valid alternative.
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
