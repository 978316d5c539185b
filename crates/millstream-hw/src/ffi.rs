//! The C interface of the reference: a handle and its functions.
//!
//! [`millstream_hw_new`] creates a handle and [`millstream_hw_free`] destroys it. A handle must be
//! used by one thread at a time. Stream numbers, modes and contracts are checked: invalid ones
//! return −1 and change nothing. Nothing unwinds into C: `extern "C"` aborts.
#![allow(unsafe_code)]

use std::ffi::c_int;

use millstream::StreamId;

use crate::model::{Attributes, Load, Mode, Reference, Settings};

/// Creates a reference without streams; null if the mode is invalid.
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

/// Destroys a reference. Null is allowed.
///
/// # Safety
/// `reference` came from [`millstream_hw_new`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_free(reference: *mut Reference) {
    if !reference.is_null() {
        // SAFETY: made by `Box::into_raw` and freed once, by the contract above.
        drop(unsafe { Box::from_raw(reference) });
    }
}

/// Adds a stream; returns its number or −1.
///
/// # Safety
/// `reference` is live and not used concurrently; `load` points to a [`Load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_load(reference: *mut Reference, load: *const Load) -> c_int {
    // SAFETY: both are live for the call and the reference is exclusive, by the contract above.
    let (reference, load) = unsafe { (&mut *reference, &*load) };
    reference.load(load).map_or(-1, number)
}

/// Enqueues a packet; returns 0, or −1 if the stream does not exist.
///
/// # Safety
/// `reference` is live and not used concurrently.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_enqueue(
    reference: *mut Reference,
    now: u64,
    stream: u32,
    bytes: u32,
) -> c_int {
    // SAFETY: it is live for the call and exclusive, by the contract above.
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
/// `reference` is live and not used concurrently.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_charge(reference: *mut Reference, now: u64) {
    // SAFETY: it is live for the call and exclusive, by the contract above.
    unsafe { &mut *reference }.charge(now);
}

/// Makes a decision; returns the stream whose head is sent, or −1.
///
/// # Safety
/// `reference` is live and not used concurrently.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_decide(reference: *mut Reference, now: u64) -> c_int {
    // SAFETY: it is live for the call and exclusive, by the contract above.
    unsafe { &mut *reference }.decide(now).map_or(-1, number)
}

/// Writes the attributes of a stream; returns 0, or −1 if the stream does not exist.
///
/// # Safety
/// `reference` is live; `attributes` points to memory for an [`Attributes`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millstream_hw_attributes(
    reference: *const Reference,
    stream: u32,
    attributes: *mut Attributes,
) -> c_int {
    // SAFETY: it is live for the call, by the contract above.
    let reference = unsafe { &*reference };
    let stream = StreamId(stream);
    if stream.index() >= reference.streams() {
        return -1;
    }
    // SAFETY: the memory is the caller's and large enough, by the contract above.
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
    fn invalid_arguments_are_rejected() {
        assert!(millstream_hw_new(4, false, false).is_null());
        let reference = millstream_hw_new(0, false, false);
        let load =
            Load { deadline: 0, period: 1, priority: 0, weight: 1, x: 2, y: 1, drop: 0, first: 0 };
        let mut attributes = Attributes::default();
        // SAFETY: the handle is live until freed below; the pointers are to locals.
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
