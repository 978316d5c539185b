//! Media files: reading, description, and frames read ahead of need.

pub(crate) mod library;
pub(crate) mod read_ahead;
