//! Media files: loading, description (SDP), admission of their clients, and read-ahead of frames.

pub(crate) mod library;
pub(crate) mod read_ahead;
pub(crate) mod title_admission;
