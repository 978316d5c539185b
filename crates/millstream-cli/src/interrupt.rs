//! Ctrl-C and requests to terminate.

use miette::miette;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;

/// Raises a flag at any of `signals`.
fn watch(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag))
            .map_err(|error| Failure::Run(miette!("cannot watch for signals: {error}")))?;
    }
    Ok(flag)
}

/// Raises a flag at Ctrl-C, a request to terminate, or when the terminal is gone.
pub(crate) fn watch_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    watch(&[SIGINT, SIGTERM, SIGHUP])
}

/// Ctrl-C and requests to terminate, told apart.
pub(crate) struct Endings {
    /// At Ctrl-C, or when the terminal is gone.
    pub(crate) interrupted: Arc<AtomicBool>,
    /// At a request to terminate.
    pub(crate) terminated: Arc<AtomicBool>,
}

/// Raises one flag at Ctrl-C, the other at a request to terminate.
pub(crate) fn watch_endings() -> Result<Endings, Failure> {
    Ok(Endings { interrupted: watch(&[SIGINT, SIGHUP])?, terminated: watch(&[SIGTERM])? })
}
