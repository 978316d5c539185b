//! Pointers of the caller as references: the checks that are possible.
//!
//! Every function here has the same contract: a pointer that is neither null nor misaligned points
//! to as many live values as stated, and no other thread uses them during the call.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::status::{MS_ERROR_POINTER, MS_ERROR_RANGE, Status};

/// The most bytes of a name, its end included.
const NAME_BYTES: usize = 64;

/// Returns the value behind `pointer`.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T, Status> {
    if !pointer.is_aligned() {
        return Err(MS_ERROR_POINTER);
    }
    // SAFETY: aligned, and null or live, by the module's contract.
    unsafe { pointer.as_ref() }.ok_or(MS_ERROR_POINTER)
}

/// Returns the value behind `pointer` for changes.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T) -> Result<&'a mut T, Status> {
    if !pointer.is_aligned() {
        return Err(MS_ERROR_POINTER);
    }
    // SAFETY: aligned, and null or live and unshared, by the module's contract.
    unsafe { pointer.as_mut() }.ok_or(MS_ERROR_POINTER)
}

/// Returns the memory behind `pointer` for a result.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn result<'a, T>(pointer: *mut T) -> Result<&'a mut MaybeUninit<T>, Status> {
    // SAFETY: `MaybeUninit<T>` has the layout of T and needs no valid value.
    unsafe { exclusive(pointer.cast()) }
}

/// Returns `count` values from `first` on. Null is allowed if there are none.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn array<'a, T>(first: *mut T, count: usize) -> Result<&'a mut [T], Status> {
    if count == 0 {
        return Ok(&mut []);
    }
    if first.is_null() || !first.is_aligned() {
        return Err(MS_ERROR_POINTER);
    }
    let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| isize::try_from(bytes).ok());
    bytes.ok_or(MS_ERROR_RANGE)?;
    // SAFETY: aligned, not null, no longer than an allocation, and live by the module's contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
}

/// Returns the memory of `count` results from `first` on. Null is allowed if there are none.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn results<'a, T>(
    first: *mut T,
    count: usize,
) -> Result<&'a mut [MaybeUninit<T>], Status> {
    // SAFETY: `MaybeUninit<T>` has the layout of T and needs no valid value.
    unsafe { array(first.cast(), count) }
}

/// Returns the text at `first` up to its zero, `None` if `first` is null. A text without a zero in
/// its first bytes is an error; those bytes must be live.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn name<'a>(first: *const c_char) -> Result<Option<&'a str>, Status> {
    if first.is_null() {
        return Ok(None);
    }
    for length in 0..NAME_BYTES {
        // SAFETY: no earlier byte is zero, so this one belongs to the text.
        if unsafe { *first.add(length) } == 0 {
            // SAFETY: the loop has read these bytes.
            let bytes = unsafe { std::slice::from_raw_parts(first.cast::<u8>(), length) };
            return std::str::from_utf8(bytes).map(Some).map_err(|_| MS_ERROR_RANGE);
        }
    }
    Err(MS_ERROR_RANGE)
}
