//! The reference for C: a handle, and functions that take it.
//!
//! A handle comes from [`millstream_hw_new`] and ends with [`millstream_hw_free`]; in between it is
//! used from one thread at a time. Stream numbers, modes and contracts are checked here; what is
//! refused answers −1 and changes nothing. Nothing here unwinds into C: `extern "C"` aborts.

// C knows no references: that the pointers are what these functions gave out is the caller's word.
#![allow(unsafe_code)]

use std::ffi::c_int;

use millstream::StreamId;

use crate::model::{Attributes, Load, Mode, Reference, Settings};

/// A reference without streams, or null if there is no such mode.
#[unsafe(no_mangle)]
pub extern "C" fn millstream_hw_new(
    mode: u8,
    lowest_denominator: bool,
    rtas99: bool,
) -> *mut Reference {
    let Some(mode) = Mode::ALL.into_iter().find(|known| *known as u8 == mode) else {
        return std::ptr::null_mut();
    };
    Box::into_raw(Box::new(Reference::new(Settings { mode, lowest_denominator, rtas99 })))
}

/// Ends a reference. Null is allowed.
///
/// # Safety
/// `reference` came from [`millstream_hw_new`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_free(reference: *mut Reference) {
    if !reference.is_null() {
        // SAFETY: it was made by `Box::into_raw` and is freed once, as the caller says.
        drop(unsafe { Box::from_raw(reference) });
    }
}

/// Adds a stream; returns its number or −1.
///
/// # Safety
/// `reference` is live and used by nobody else meanwhile; `load` points to a [`Load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_load(reference: *mut Reference, load: *const Load) -> c_int {
    // SAFETY: both live for the call and the reference is ours alone, as the caller says.
    let (reference, load) = unsafe { (&mut *reference, &*load) };
    reference.load(load).map_or(-1, number)
}

/// A packet arrives; returns 0, or −1 if there is no such stream.
///
/// # Safety
/// `reference` is live and used by nobody else meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_enqueue(
    reference: *mut Reference,
    now: u64,
    stream: u32,
    bytes: u32,
) -> c_int {
    // SAFETY: it lives for the call and is ours alone, as the caller says.
    let reference = unsafe { &mut *reference };
    let stream = StreamId(stream);
    if stream.index() >= reference.streams() {
        return -1;
    }
    reference.enqueue(now, stream, bytes);
    0
}

/// Charges the deadlines that have passed at `now`.
///
/// # Safety
/// `reference` is live and used by nobody else meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_charge(reference: *mut Reference, now: u64) {
    // SAFETY: it lives for the call and is ours alone, as the caller says.
    unsafe { &mut *reference }.charge(now);
}

/// A decision: the stream whose head is sent, or −1.
///
/// # Safety
/// `reference` is live and used by nobody else meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_decide(reference: *mut Reference, now: u64) -> c_int {
    // SAFETY: it lives for the call and is ours alone, as the caller says.
    unsafe { &mut *reference }.decide(now).map_or(-1, number)
}

/// Writes what can be seen of a stream; returns 0, or −1 if there is no such stream.
///
/// # Safety
/// `reference` is live; `attributes` points to memory for an [`Attributes`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_attributes(
    reference: *const Reference,
    stream: u32,
    attributes: *mut Attributes,
) -> c_int {
    // SAFETY: it lives for the call, as the caller says.
    let reference = unsafe { &*reference };
    let stream = StreamId(stream);
    if stream.index() >= reference.streams() {
        return -1;
    }
    // SAFETY: the memory is the caller's and large enough, as the caller says.
    unsafe { attributes.write(reference.attributes(stream)) };
    0
}

fn number(stream: StreamId) -> c_int {
    c_int::try_from(stream.0).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_refused() {
        assert!(millstream_hw_new(4, false, false).is_null());
        let reference = millstream_hw_new(0, false, false);
        let load =
            Load { deadline: 0, period: 1, priority: 0, weight: 1, x: 2, y: 1, drop: 0, first: 0 };
        let mut attributes = Attributes::default();
        // SAFETY: the handle is live until freed at the end, the pointers are to locals.
        unsafe {
            assert_eq!(millstream_hw_load(reference, &raw const load), -1);
            assert_eq!(millstream_hw_enqueue(reference, 0, 0, 1), -1);
            assert_eq!(millstream_hw_attributes(reference, 0, &raw mut attributes), -1);
            assert_eq!(millstream_hw_decide(reference, 0), -1);
            millstream_hw_free(reference);
            millstream_hw_free(std::ptr::null_mut());
        }
    }
}
