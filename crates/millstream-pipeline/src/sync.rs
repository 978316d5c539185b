//! The synchronisation primitives that loom replaces.
//!
//! Under `cfg(loom)` every atomic, fence and reference count is loom's, which runs a model through
//! all its interleavings. Crossbeam's `Parker` switches by its own `cfg(crossbeam_loom)`.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};
