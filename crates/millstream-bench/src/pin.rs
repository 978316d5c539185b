//! Pins the measurements to one core.

/// Pins this thread to its current core. Returns the core, or `None` if pinning is unsupported;
/// times then vary more.
#[must_use]
pub fn pin_to_one_core() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        let core = rustix::thread::sched_getcpu();
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        rustix::thread::sched_setaffinity(None, &cores).ok().map(|()| core)
    }
    #[cfg(not(target_os = "linux"))]
    None
}
