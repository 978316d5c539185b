//! Ctrl-C and requests to terminate.

use miette::miette;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Raises a flag at Ctrl-C or a request to terminate.
pub(crate) fn watch_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::Run(miette!("cannot watch for Ctrl-C: {error}")))?;
    Ok(interrupted)
}

/// Ctrl-C and requests to terminate, told apart.
pub(crate) struct Endings {
    /// At Ctrl-C.
    pub(crate) interrupted: Arc<AtomicBool>,
    /// At a request to terminate.
    pub(crate) terminated: Arc<AtomicBool>,
}

/// Raises one flag at Ctrl-C, the other at a request to terminate.
pub(crate) fn watch_endings() -> Result<Endings, Failure> {
    let watched = |signal| -> Result<_, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure::Run(miette!("cannot watch for signals: {error}")))?;
        Ok(flag)
    };
    Ok(Endings { interrupted: watched(SIGINT)?, terminated: watched(SIGTERM)? })
}
