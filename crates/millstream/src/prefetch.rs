//! Prefetching of entries that will be read soon.
//!
//! With a million streams, every state that a decision reads is a cache miss. The calendar knows
//! the next entries and prefetches them while it works on the current ones.

/// Prefetches the first cache line of `items[at]`. The index may be out of range: the hint is then
/// useless.
#[inline(always)]
#[allow(clippy::inline_always)]
pub fn prefetch<T>(items: &[T], at: usize) {
    prefetch_line(items.as_ptr().wrapping_add(at).cast());
}

/// Prefetches the cache lines of `items[at]`; see [`prefetch`].
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn prefetch_whole<T>(items: &[T], at: usize) {
    let item = items.as_ptr().wrapping_add(at).cast::<i8>();
    for begin in (0..size_of::<T>()).step_by(64) {
        prefetch_line(item.wrapping_add(begin));
    }
}

/// Prefetches the cache line at `address`.
#[inline(always)]
#[allow(unsafe_code, clippy::inline_always)]
fn prefetch_line(address: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint that neither reads nor writes; SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
