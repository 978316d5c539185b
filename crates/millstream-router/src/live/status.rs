//! Serves the router's status over HTTP: a dashboard, `/status` as JSON, `/metrics` for Prometheus.
//!
//! A request takes only a report of the counters from the router.

use millstream_report::http::{self, Answer};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use crate::live::control::Control;
use crate::live::metrics::metrics;

/// The longest wait for the router's report: on a busy machine the router may wait for a CPU.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves requests at `address` in its own thread; returns the bound address.
///
/// # Errors
/// Fails if the address cannot be bound.
pub fn serve(address: SocketAddr, control: Arc<Control>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    http::serve(listener, "/, /status and /metrics", move |path| {
        if !matches!(path, "/status" | "/metrics") {
            return Answer::NotFound;
        }
        match control.report(REPORT_TIMEOUT) {
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
