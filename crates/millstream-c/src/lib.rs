//! The Millstream engine as a C library: `libmillstream.so`, `libmillstream.a` and `millstream.h`.
//!
//! ```text
//! C program ── ms_enqueue, ms_dequeue ──> functions ── checked ──> scheduler ──> engine
//!                                           └ pointer                └ counters, drops
//! ```
//!
//! The functions translate: pointers to references, codes to enumerations, panics to an error. A
//! [`Scheduler`] adds what an observer does in Rust: it counts, and keeps dropped packets until
//! their owner takes them. `cbindgen.toml` has the rules for callers, which the header begins with.

mod contract;
mod functions;
mod options;
mod packet;
mod pointer;
mod scheduler;
mod status;
mod version;

pub use contract::{
    Contract, MS_AQM_COBALT, MS_AQM_CODEL, MS_AQM_DUALPI2, MS_AQM_NONE, MS_AQM_PIE, MS_AQM_RED,
    MS_LATE_DROP, MS_LATE_SEND, MS_UNLIMITED,
};
pub use functions::{
    ms_abi_version, ms_add_credits, ms_backlog, ms_charge, ms_contract_init, ms_dequeue,
    ms_dequeue_burst, ms_enqueue, ms_enqueue_burst, ms_enqueue_packet, ms_error_text,
    ms_next_eligible, ms_options_init, ms_pending_drops, ms_scheduler_free, ms_scheduler_new,
    ms_set_eligible, ms_stream_counters, ms_streams, ms_take_drops,
};
pub use options::{
    MS_DWCS_EDF_FIRST, MS_DWCS_HIGHEST_DENOMINATOR, MS_DWCS_LOSS_FIRST, MS_DWCS_LOWEST_DENOMINATOR,
    MS_DWCS_RTAS99, MS_DWCS_STANDARD, MS_FRAMING_ATM, MS_FRAMING_NONE, MS_FRAMING_PTM,
    MS_MESSAGE_BYTES, MS_MOST_PACKETS, MS_MOST_RATE_BPS, MS_MOST_STREAMS, Options,
};
pub use packet::{
    Counters, Decision, MS_ECN_CAPABLE, MS_ECN_CONGESTED, MS_ECN_NOT_CAPABLE, MS_ECN_SCALABLE,
    MS_EVENT_AQM, MS_EVENT_FULL, MS_EVENT_LATE, MS_EVENT_SENT, MS_NONE, Packet,
};
pub use scheduler::Scheduler;
pub use status::{
    MS_DROPPED_AQM, MS_DROPPED_FULL, MS_EMPTY, MS_ERROR_CONTRACT, MS_ERROR_DISCIPLINE,
    MS_ERROR_DROPS, MS_ERROR_INTERNAL, MS_ERROR_POINTER, MS_ERROR_RANGE, MS_ERROR_SIZE,
    MS_ERROR_STREAM, MS_ERROR_STRUCTURE, MS_ERROR_TIME, MS_ERROR_UNSUPPORTED, MS_OK, Status,
};
pub use version::{MS_ABI_MAJOR, MS_ABI_MINOR, MS_ABI_PATCH};
