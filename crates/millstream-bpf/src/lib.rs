//! The Millstream engine as a qdisc of the Linux kernel.
//!
//! `src/c/scheduler.h` is the scheduler in C, without packets. `src/c/qdisc.bpf.c` adds the packets
//! and makes it a BPF qdisc. [`Config`] holds the scheduler's numbers, computed from a scenario;
//! [`Rules`] holds the classification. [`NativeScheduler`] is the C scheduler compiled natively,
//! which the tests compare with the engine.

#[cfg(feature = "attach")]
pub mod attach;
mod config;
mod native;
mod rules;

pub use config::{Config, Unsupported};
pub use native::NativeScheduler;
pub use rules::{MAX_RULES, Rules, UnsupportedMatch};

/// The maximum number of streams of a qdisc.
pub const MAX_STREAMS: usize = 64;
