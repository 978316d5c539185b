//! Media files: loading, description (SDP), and read-ahead of frames.

pub(crate) mod library;
pub(crate) mod read_ahead;
