//! The functions of the C library.
//!
//! # Safety
//! A pointer to a scheduler is null or came from [`ms_scheduler_new`] and was not freed, and no
//! other call uses that scheduler. Other pointers are null, or point to as many values as the
//! function says. Null and misaligned pointers are errors.
#![allow(unsafe_code)]
// The module has the one contract of all functions, which the header states for C.
#![allow(clippy::missing_safety_doc)]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::contract::{Contract, size_u32};
use crate::options::{Failure, Options};
use crate::packet::{Counters, Decision, MS_NONE, Packet};
use crate::pointer;
use crate::scheduler::{Scheduler, found};
use crate::status::{self, MS_ERROR_INTERNAL, MS_ERROR_SIZE, MS_OK, Status};
use crate::version::{MS_ABI_MAJOR, MS_ABI_MINOR, MS_ABI_PATCH};

/// Returns the version of the ABI: major << 16 | minor << 8 | patch. A program may run with a
/// library of its major version, and of its minor version or above.
#[unsafe(no_mangle)]
pub extern "C" fn ms_abi_version() -> u32 {
    MS_ABI_MAJOR << 16 | MS_ABI_MINOR << 8 | MS_ABI_PATCH
}

/// Returns a description of a result, in English, without a period. It is static.
#[unsafe(no_mangle)]
pub extern "C" fn ms_error_text(status: Status) -> *const c_char {
    status::text(status).as_ptr()
}

/// Sets the defaults. `size` is sizeof(ms_options).
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_SIZE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_options_init(options: *mut Options, size: usize) -> Status {
    // SAFETY: by the module's contract.
    unsafe { init(options, size, Options::default()) }
}

/// Sets the defaults. `size` is sizeof(ms_contract).
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_SIZE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_contract_init(contract: *mut Contract, size: usize) -> Status {
    // SAFETY: by the module's contract.
    unsafe { init(contract, size, Contract::default()) }
}

/// Writes the defaults of a structure of `size` bytes.
///
/// # Safety
/// See the module.
unsafe fn init<T>(target: *mut T, size: usize, default: T) -> Status {
    if size != size_of::<T>() {
        return MS_ERROR_SIZE;
    }
    // SAFETY: the memory has the size of T, by the check above and the module's contract.
    match unsafe { pointer::result(target) } {
        Ok(target) => {
            target.write(default);
            MS_OK
        }
        Err(status) => status,
    }
}

/// Makes a scheduler of `count` streams, numbered from 0, and writes it to `scheduler`. This call
/// allocates all memory.
///
/// If it fails, it writes null to `scheduler` and the reason to `message`, which has
/// `message_bytes` bytes and ends in a zero. `message` may be null; `MS_MESSAGE_BYTES` are enough.
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_SIZE`, `MS_ERROR_DISCIPLINE`, `MS_ERROR_STRUCTURE`,
/// `MS_ERROR_RANGE`, `MS_ERROR_CONTRACT`, `MS_ERROR_INTERNAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_scheduler_new(
    options: *const Options,
    contracts: *const Contract,
    count: usize,
    scheduler: *mut *mut Scheduler,
    message: *mut c_char,
    message_bytes: usize,
) -> Status {
    // SAFETY: by the module's contract.
    let Ok(target) = (unsafe { pointer::result(scheduler) }) else {
        return status::MS_ERROR_POINTER;
    };
    target.write(std::ptr::null_mut());
    // A scheduler that was not made has no state to observe.
    let made = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the module's contract.
        unsafe { make(options, contracts, count) }
    }));
    let failure = match made {
        Ok(Ok(made)) => {
            target.write(Box::into_raw(Box::new(made)));
            return MS_OK;
        }
        Ok(Err(failure)) => failure,
        Err(_) => MS_ERROR_INTERNAL.into(),
    };
    // SAFETY: by the module's contract.
    if let Ok(message) = unsafe { pointer::results(message, message_bytes) } {
        write_text(message, &failure.text);
    }
    failure.status
}

/// Reads the arguments of [`ms_scheduler_new`] and makes the scheduler.
///
/// # Safety
/// See the module.
unsafe fn make(
    options: *const Options,
    contracts: *const Contract,
    count: usize,
) -> Result<Scheduler, Failure> {
    // Reads the size alone first: an older structure may be shorter.
    // SAFETY: by the module's contract; `size` is the first field.
    let (options, names, contracts) = unsafe {
        check_size::<Options>(options.cast())?;
        let options = pointer::shared(options)?;
        if count > 0 {
            check_size::<Contract>(contracts.cast())?;
        }
        (options, options.names()?, pointer::array(contracts.cast_mut(), count)?)
    };
    if contracts.iter().any(|contract| contract.size != size_u32::<Contract>()) {
        return Err(MS_ERROR_SIZE.into());
    }
    Scheduler::new(options, &names, contracts)
}

/// Checks the first field of a structure.
///
/// # Safety
/// See the module.
unsafe fn check_size<T>(size: *const u32) -> Result<(), Status> {
    // SAFETY: by the module's contract.
    let size = unsafe { pointer::shared(size) }?;
    if *size == size_u32::<T>() { Ok(()) } else { Err(MS_ERROR_SIZE) }
}

/// Writes as much of a text as fits, and a zero.
fn write_text(target: &mut [MaybeUninit<c_char>], text: &str) {
    let Some(last) = target.len().checked_sub(1) else { return };
    let length = text.floor_char_boundary(last);
    for (to, from) in target.iter_mut().zip(&text.as_bytes()[..length]) {
        to.write(c_char::from_ne_bytes([*from]));
    }
    target[length].write(0);
}

/// Frees a scheduler. Packets that it still has stay with the caller. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_scheduler_free(scheduler: *mut Scheduler) {
    if scheduler.is_null() {
        return;
    }
    // A panic while freeing leaks memory, but does not leave the library.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: it came from `Box::into_raw` and is freed once, by the module's contract.
        drop(unsafe { Box::from_raw(scheduler) });
    }));
}

/// Runs `call` on the scheduler.
///
/// # Safety
/// See the module.
unsafe fn with(
    scheduler: *mut Scheduler,
    call: impl FnOnce(&mut Scheduler) -> Result<Status, Status>,
) -> Status {
    // SAFETY: by the module's contract.
    match unsafe { pointer::exclusive(scheduler) } {
        Ok(scheduler) => scheduler.guard(call),
        Err(status) => status,
    }
}

/// Enqueues a packet of `bytes` bytes that arrives at `now_ns` in a stream. In a stream with flows
/// it belongs to the flow 0; use `ms_enqueue_packet` there.
///
/// `MS_OK`: the scheduler has the packet. `MS_DROPPED_FULL`, `MS_DROPPED_AQM`: it was dropped, is
/// counted, and stays with the caller.
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_STREAM`, `MS_ERROR_TIME`, `MS_ERROR_DROPS`,
/// `MS_ERROR_INTERNAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_enqueue(
    scheduler: *mut Scheduler,
    stream: u32,
    handle: u64,
    bytes: u32,
    now_ns: u64,
) -> Status {
    let packet = Packet { handle, stream, bytes, ..Packet::default() };
    // SAFETY: by the module's contract.
    unsafe { with(scheduler, |scheduler| scheduler.enqueue(&packet, now_ns)) }
}

/// Enqueues a packet with its flow. At a limit of the flows, packets of the longest flow are
/// dropped: `ms_take_drops` returns them.
///
/// Results and errors: see `ms_enqueue`; `MS_ERROR_RANGE` for the ECN field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_enqueue_packet(
    scheduler: *mut Scheduler,
    packet: *const Packet,
    now_ns: u64,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe { with(scheduler, |scheduler| scheduler.enqueue(pointer::shared(packet)?, now_ns)) }
}

/// Enqueues `count` packets that arrive at one instant, in order. Dropped ones stay with the
/// caller: the first `refused` of `packets` are then the dropped ones, in order; the others are
/// unspecified.
///
/// Errors: see `ms_enqueue_packet`. No packet was enqueued then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_enqueue_burst(
    scheduler: *mut Scheduler,
    packets: *mut Packet,
    count: usize,
    now_ns: u64,
    refused: *mut usize,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe {
        with(scheduler, |scheduler| {
            let (refused, packets) = (pointer::result(refused)?, pointer::array(packets, count)?);
            refused.write(scheduler.enqueue_burst(packets, now_ns)?);
            Ok(MS_OK)
        })
    }
}

/// Makes one decision at `now_ns`: drops late packets, then writes the packet to send to
/// `decision`. Call it whenever the link is free, even if no packet waits: that ends a busy period.
///
/// `MS_EMPTY`: no packet may be sent now. If packets wait, call again at the time of
/// `ms_next_eligible` or at the next arrival, whichever is first.
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_TIME`, `MS_ERROR_INTERNAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_dequeue(
    scheduler: *mut Scheduler,
    now_ns: u64,
    decision: *mut Decision,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe {
        with(scheduler, |scheduler| {
            let target = pointer::result(decision)?;
            let made = scheduler.dequeue(now_ns)?;
            Ok(found(made.map(|made| target.write(made)).is_some()))
        })
    }
}

/// Makes up to `most` decisions at one instant, for drivers that fill a transmit ring. Writes them
/// to `decisions` and their number, which may be 0, to `count`.
///
/// Errors: see `ms_dequeue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_dequeue_burst(
    scheduler: *mut Scheduler,
    now_ns: u64,
    decisions: *mut Decision,
    most: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe {
        with(scheduler, |scheduler| {
            let (count, targets) = (pointer::result(count)?, pointer::results(decisions, most)?);
            let mut made = 0;
            scheduler.dequeue_burst(now_ns, most, |decision| {
                targets[made].write(decision);
                made += 1;
            })?;
            count.write(made);
            Ok(MS_OK)
        })
    }
}

/// Returns dropped packets to their owner: writes up to `most` of them to `decisions`, in the order
/// of the drops, and their number, which may be 0, to `count`. Call it after each dequeue, and
/// after each enqueue to a stream with flows.
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_INTERNAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_take_drops(
    scheduler: *mut Scheduler,
    decisions: *mut Decision,
    most: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe {
        with(scheduler, |scheduler| {
            let (count, targets) = (pointer::result(count)?, pointer::results(decisions, most)?);
            let taken = scheduler.drops().min(most);
            for target in &mut targets[..taken] {
                target.write(scheduler.take_drop().unwrap_or_default());
            }
            count.write(taken);
            Ok(MS_OK)
        })
    }
}

/// Writes the time, ns, at which the next stream becomes eligible under its rate cap; `MS_NONE` and
/// `MS_EMPTY` if time makes no stream eligible.
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_INTERNAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_next_eligible(scheduler: *mut Scheduler, time_ns: *mut u64) -> Status {
    // SAFETY: by the module's contract.
    unsafe {
        with(scheduler, |scheduler| {
            let next_ns = scheduler.next_eligible_ns();
            pointer::result(time_ns)?.write(next_ns.unwrap_or(MS_NONE));
            Ok(found(next_ns.is_some()))
        })
    }
}

/// Allows (not 0) or forbids (0) the service of a stream. Deadlines of its packets still pass.
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_STREAM`, `MS_ERROR_TIME`, `MS_ERROR_INTERNAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_set_eligible(
    scheduler: *mut Scheduler,
    stream: u32,
    eligible: i32,
    now_ns: u64,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe { with(scheduler, |scheduler| scheduler.set_eligible(stream, eligible != 0, now_ns)) }
}

/// Returns credits of 64 bytes to a stream; no effect on a stream without flow control.
///
/// Errors: see `ms_set_eligible`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_add_credits(
    scheduler: *mut Scheduler,
    stream: u32,
    credits: u64,
    now_ns: u64,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe { with(scheduler, |scheduler| scheduler.add_credits(stream, credits, now_ns)) }
}

/// Charges the last packet sent from a stream with `extra_bytes` beyond its length; a negative
/// value is a refund. Call it before the stream is served again. wf2q+ and drr support it.
///
/// Errors: see `ms_set_eligible`; `MS_ERROR_UNSUPPORTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_charge(
    scheduler: *mut Scheduler,
    stream: u32,
    extra_bytes: i64,
    now_ns: u64,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe { with(scheduler, |scheduler| scheduler.charge(stream, extra_bytes, now_ns)) }
}

/// Writes the counters of a stream, its backlog included.
///
/// Errors: `MS_ERROR_POINTER`, `MS_ERROR_STREAM`, `MS_ERROR_INTERNAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_stream_counters(
    scheduler: *mut Scheduler,
    stream: u32,
    counters: *mut Counters,
) -> Status {
    // SAFETY: by the module's contract.
    unsafe {
        with(scheduler, |scheduler| {
            let target = pointer::result(counters)?;
            target.write(scheduler.counters(stream)?);
            Ok(MS_OK)
        })
    }
}

/// Returns the number of packets that wait in all streams; 0 if `scheduler` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_backlog(scheduler: *const Scheduler) -> u64 {
    // SAFETY: by the module's contract.
    unsafe { pointer::shared(scheduler) }.map_or(0, Scheduler::total_waiting)
}

/// Returns the number of streams; 0 if `scheduler` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_streams(scheduler: *const Scheduler) -> usize {
    // SAFETY: by the module's contract.
    unsafe { pointer::shared(scheduler) }.map_or(0, Scheduler::streams)
}

/// Returns the number of dropped packets that `ms_take_drops` has not returned; 0 if `scheduler` is
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_pending_drops(scheduler: *const Scheduler) -> usize {
    // SAFETY: by the module's contract.
    unsafe { pointer::shared(scheduler) }.map_or(0, Scheduler::drops)
}
