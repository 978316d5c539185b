//! The kernel's clocks, ns. All processes of a machine read the same times.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the time of the monotonic clock, ns since an arbitrary start.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Returns the time of the wall clock, ns since 1970.
#[inline]
#[must_use]
pub fn wall_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// Returns the CPU time of this thread, ns.
#[inline]
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the CPU time of this process, ns.
#[inline]
#[must_use]
pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// Returns the wall-clock time at which [`now_ns`] was or will be `at_ns`, as an NTP time stamp:
/// seconds since 1900 and a binary fraction, 32 bits each (RFC 3550, section 4).
#[must_use]
pub fn ntp_at(at_ns: u64) -> u64 {
    ntp(wall_ns().wrapping_add_signed(at_ns.wrapping_sub(now_ns()).cast_signed()))
}

fn ntp(wall_ns: u64) -> u64 {
    const SECONDS_1900_TO_1970: u64 = 2_208_988_800;
    let (seconds, rest) = (wall_ns / 1_000_000_000, wall_ns % 1_000_000_000);
    ((seconds + SECONDS_1900_TO_1970) << 32) | ((rest << 32) / 1_000_000_000)
}

/// Returns `ns` as the kernel's type, for a time to wait.
#[inline]
#[must_use]
pub fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}

#[inline]
fn nanoseconds(time: Timespec) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timespecs_are_exact() {
        for ns in [0, 999_999_999, 1_000_000_000, 3_000_000_001, u64::MAX] {
            assert_eq!(nanoseconds(timespec(ns)), ns);
        }
    }

    #[test]
    fn half_a_second_is_half_of_the_fraction() {
        let seconds = 2_208_988_800 + 7;
        assert_eq!(ntp(7_500_000_000), seconds << 32 | 1 << 31);
    }

    #[test]
    fn a_thread_uses_no_more_time_than_its_process() {
        assert!(thread_cpu_ns() <= process_cpu_ns());
    }
}
