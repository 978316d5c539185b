//! Memory that server and data plane share: session rows, message rings, the frame store, the frame
//! cache, rings of live frames and the instruction table.
//!
//! Both sides use this layer; it uses neither. It has no clock and no socket. The frame cache and
//! the message rings order their accesses with atomic words; a reader of the frame cache sleeps on
//! one of them.

pub(crate) mod frame_cache;
pub(crate) mod importance;
pub(crate) mod instruction_table;
pub(crate) mod live_frames;
pub(crate) mod region;
pub(crate) mod store;
