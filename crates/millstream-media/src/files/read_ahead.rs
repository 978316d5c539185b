//! Read-ahead: moves frames from media files to the data plane before they are due.
//!
//! ```text
//! media file ── reader ──> frame cache (shared memory): a ring per session ──> data plane
//!               thread         <── the position of each session ──
//! ```
//! The reader is a set of threads of the data plane process (path C of the Co-processor paper), or
//! a separate process, the producer (path B). Both work alike. The reader may be arbitrarily slow:
//! the data plane uses the frames that are present and never waits for it.

pub(crate) mod media_file;
pub(crate) mod producer;
pub(crate) mod reader;
