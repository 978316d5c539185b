//! Ctrl-C and requests to terminate.

use miette::miette;
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
