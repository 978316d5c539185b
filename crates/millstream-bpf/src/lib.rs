//! The Millstream engine as a qdisc of the Linux kernel.
//!
//! `src/c/scheduler.h` is the scheduler in C, without packets; `src/c/flows.h` has its flows.
//! `src/c/qdisc.bpf.c` adds the packets and makes it a BPF qdisc; `src/c/qdisc.bpf.o` is compiled
//! from them. [`Qdisc`] holds what a scenario says about it: [`Config`] holds the scheduler's
//! numbers, [`Rules`] the classification.
//! [`NativeScheduler`] is the C scheduler compiled natively, which the tests compare with the
//! engine.

#[cfg(feature = "attach")]
pub mod attach;
mod cgroup;
mod config;
mod filter;
mod native;
#[cfg(feature = "attach")]
mod root_qdisc;
mod rules;
mod scenario;
pub mod tc;

pub use cgroup::{Cgroup, CgroupError};
pub use config::{Config, Unsupported};
pub use filter::{MAX_FILTER_INSTRUCTIONS, MAX_INSTRUCTIONS, compile_filter};
pub use native::{NativeScheduler, native_filter};
pub use rules::{MAX_RULES, Rules, UnsupportedMatch};
pub use scenario::Qdisc;

/// The maximum number of streams of a qdisc.
pub const MAX_STREAMS: usize = 64;

/// The maximum number of flows of all streams together.
pub const MAX_FLOWS: usize = 4_096;
