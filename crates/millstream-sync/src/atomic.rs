//! The synchronisation primitives that loom replaces.
//!
//! Under `cfg(loom)` all atomics, fences and reference counts are loom's, which runs a model
//! through all its interleavings. Crossbeam's `Parker` switches by its own `cfg(crossbeam_loom)`.

#[cfg(loom)]
pub use loom::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};
