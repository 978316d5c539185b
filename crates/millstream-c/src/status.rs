//! Results of calls: codes and their texts.

use std::ffi::CStr;

/// The result of a call: an outcome (0 and above) or an error (below 0) without effect.
pub type Status = i32;

/// Done.
pub const MS_OK: i32 = 0;
/// No packet may be sent now, or there is no time to report.
pub const MS_EMPTY: i32 = 1;
/// The packet was dropped at a full queue. It stays with the caller.
pub const MS_DROPPED_FULL: i32 = 2;
/// Queue management dropped the arriving packet. It stays with the caller.
pub const MS_DROPPED_AQM: i32 = 3;
/// A pointer is null or misaligned.
pub const MS_ERROR_POINTER: i32 = -1;
/// The `size` of a structure is not that of a known version.
pub const MS_ERROR_SIZE: i32 = -2;
/// There is no discipline of this name.
pub const MS_ERROR_DISCIPLINE: i32 = -3;
/// There is no structure of this name, or the discipline does not support it.
pub const MS_ERROR_STRUCTURE: i32 = -4;
/// A number is outside its range.
pub const MS_ERROR_RANGE: i32 = -5;
/// The discipline does not accept a contract.
pub const MS_ERROR_CONTRACT: i32 = -6;
/// There is no stream of this number.
pub const MS_ERROR_STREAM: i32 = -7;
/// The time is before that of an earlier call.
pub const MS_ERROR_TIME: i32 = -8;
/// Dropped packets fill the memory: take them by `ms_take_drops`.
pub const MS_ERROR_DROPS: i32 = -9;
/// The discipline does not support the call.
pub const MS_ERROR_UNSUPPORTED: i32 = -10;
/// A defect of the library. The scheduler accepts only `ms_scheduler_free`.
pub const MS_ERROR_INTERNAL: i32 = -11;

/// Returns a description of a code.
pub(crate) fn text(status: Status) -> &'static CStr {
    match status {
        MS_OK => c"done",
        MS_EMPTY => c"no packet may be sent now",
        MS_DROPPED_FULL => c"dropped at a full queue",
        MS_DROPPED_AQM => c"dropped by queue management",
        MS_ERROR_POINTER => c"a pointer is null or misaligned",
        MS_ERROR_SIZE => c"the size of a structure is not that of a known version",
        MS_ERROR_DISCIPLINE => c"no discipline of this name",
        MS_ERROR_STRUCTURE => c"no structure of this name for the discipline",
        MS_ERROR_RANGE => c"a number is outside its range",
        MS_ERROR_CONTRACT => c"the discipline does not accept a contract",
        MS_ERROR_STREAM => c"no stream of this number",
        MS_ERROR_TIME => c"the time is before that of an earlier call",
        MS_ERROR_DROPS => c"dropped packets fill the memory: take them by ms_take_drops",
        MS_ERROR_UNSUPPORTED => c"the discipline does not support the call",
        MS_ERROR_INTERNAL => c"a defect of the library: free the scheduler",
        _ => c"an unknown code",
    }
}
