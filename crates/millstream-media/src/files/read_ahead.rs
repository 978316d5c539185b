//! Frames read ahead of need: how they come from films' files to the processor.
//!
//! ```text
//! film's file ── reader ──> shelf (shared memory): a ring of frames a session ──> processor
//!                thread         <── how far each session is ──
//! ```
//! The reader is threads of the network interface processor (the Co-processor paper's path C) or a
//! process of its own, the producer (path B); neither the processor nor the reader knows which. Who
//! reads can be as slow as it likes: the processor looks at what is there and waits for nothing.

pub(crate) mod frame_cache;
pub(crate) mod media_file;
pub(crate) mod producer;
pub(crate) mod reader;
