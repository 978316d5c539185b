//! Router status by HTTP: a dashboard, `/status` as JSON, `/metrics` for Prometheus.
//!
//! The router itself is only asked for its counters.

use millstream_report::http::{self, Answer};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use crate::live::control::Control;
use crate::live::metrics::metrics;

/// How long the router may take to answer: on a busy machine it may have to wait for the processor.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers requests at `address` from a thread of its own; returns the address it listens at.
///
/// # Errors
/// If the address cannot be listened at.
pub fn serve(address: SocketAddr, control: Arc<Control>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    http::serve(listener, "/, /status and /metrics", move |path| {
        if !matches!(path, "/status" | "/metrics") {
            return Answer::NotFound;
        }
        match control.report(PATIENCE) {
            None => Answer::Unavailable("the router does not answer".to_owned()),
            Some(report) if path == "/metrics" => Answer::Metrics(metrics(&report)),
            Some(report) => match serde_json::to_string(&report) {
                Ok(json) => Answer::Json(json),
                Err(error) => Answer::Unavailable(error.to_string()),
            },
        }
    })?;
    Ok(address)
}
