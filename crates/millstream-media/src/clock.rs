//! The clocks: one that all processes of a machine share, and the wall's for RTCP.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of the monotonic clock, the same in every process.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Time that the processors have run this process, ns.
pub(crate) fn worked_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// The wall clock as an NTP time stamp: seconds since 1900 and a binary fraction, 32 bits each
/// (RFC 3550, section 4).
pub(crate) fn ntp_now() -> u64 {
    const SECONDS_1900_TO_1970: u64 = 2_208_988_800;
    let ns = nanoseconds(clock_gettime(ClockId::Realtime));
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    ((seconds + SECONDS_1900_TO_1970) << 32) | ((rest << 32) / 1_000_000_000)
}

/// A time to wait, ns.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}
