//! Wakers, rings and clocks of the live backends.
//!
//! | module | contents |
//! |---|---|
//! | [`waker`] | sleep and wake-up of a thread |
//! | [`ring`] | one thread writes, one reads, neither waits |
//! | [`channel`] | a ring whose ends wake each other, for threads with several rings |
//! | [`blocking`] | a channel whose ends block, for threads with one ring at a time |
//! | [`clock`] | clocks, ns |
//! | [`histogram`] | times that one thread counts and others read |
//! | [`atomic`] | atomics that loom can replace |
//!
//! Threads and processes of the pipeline, the router, the media server and the end-system share
//! state through these types. The types are independent of packets and schedulers. Loom explores
//! the interleavings of all but the futex waker (`models.rs`, run by `scripts/concurrency.sh`).

pub mod atomic;
pub mod blocking;
pub mod channel;
pub mod clock;
pub mod histogram;
pub mod ring;
pub mod waker;

#[cfg(all(test, loom))]
mod models;
