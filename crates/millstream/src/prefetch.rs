//! Telling the processor what will be read soon.
//!
//! With a million streams each state that a decision touches comes from memory; the calendar knows
//! which ones are next, so they can be on their way while others are worked on.

/// Brings `items[at]` towards the cache; no effect if there is no such item.
#[inline(always)]
#[allow(unsafe_code, clippy::inline_always)]
pub(crate) fn prefetch<T>(items: &[T], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(item) = items.get(at) {
        // SAFETY: a prefetch is a hint that neither reads nor writes; SSE is part of x86-64.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
                core::ptr::from_ref(item).cast(),
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (items, at);
}
