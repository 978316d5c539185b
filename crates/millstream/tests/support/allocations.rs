//! A counting allocator, for tests of memory use.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator with counters.
struct Counting;

thread_local! {
    /// The allocations of this thread: the test harness allocates in its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}
static ALL_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        ALL_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of this thread so far.
#[allow(dead_code)]
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns the number of allocations of all threads so far.
#[allow(dead_code)]
pub(crate) fn all_allocations() -> u64 {
    ALL_ALLOCATIONS.load(Ordering::Relaxed)
}

/// Returns the number of bytes currently allocated.
#[allow(dead_code)]
pub(crate) fn live_bytes() -> u64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}
