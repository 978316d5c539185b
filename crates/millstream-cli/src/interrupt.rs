//! SIGINT, SIGTERM and SIGHUP as flags.

use miette::miette;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;

/// Sets a flag at any of `signals`.
fn watch(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag))
            .map_err(|error| Failure::Run(miette!("cannot watch for signals: {error}")))?;
    }
    Ok(flag)
}

/// Sets a flag at SIGINT, SIGTERM or SIGHUP.
pub(crate) fn watch_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    watch(&[SIGINT, SIGTERM, SIGHUP])
}

/// Separate flags for interruption and termination.
#[cfg(feature = "live")]
pub(crate) struct ShutdownSignals {
    /// Set at SIGINT or SIGHUP.
    pub(crate) interrupted: Arc<AtomicBool>,
    /// Set at SIGTERM.
    pub(crate) terminated: Arc<AtomicBool>,
}

/// Sets one flag at SIGINT or SIGHUP, the other at SIGTERM.
#[cfg(feature = "live")]
pub(crate) fn watch_shutdown_signals() -> Result<ShutdownSignals, Failure> {
    Ok(ShutdownSignals { interrupted: watch(&[SIGINT, SIGHUP])?, terminated: watch(&[SIGTERM])? })
}
