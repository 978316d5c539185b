//! Serves the router's status over HTTP: a dashboard, `/status` as JSON, `/metrics` for Prometheus,
//! and the last hour and week as JSON.
//!
//! A request takes only a report of the counters from the router. A thread takes one a second for
//! the history.

use millstream_report::http::history::{Span, sample_each_second};
use millstream_report::http::{self, Answer};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::live::control::Control;
use crate::live::metrics::metrics;
use crate::live::sampler::PathSampler;

/// The longest wait for the router's report: on a busy machine the router may wait for a CPU.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves requests at `address` in its own thread; returns the bound address.
///
/// # Errors
/// Fails if the address cannot be bound.
pub fn serve(address: SocketAddr, control: Arc<Control>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let sampler = Arc::new(Mutex::new(PathSampler::default()));
    let (sampled, asked) = (Arc::clone(&sampler), Arc::clone(&control));
    thread::Builder::new().name("history".into()).spawn(move || sample(&asked, &sampled))?;
    let pages = "/, /status, /metrics, /history/hour and /history/week";
    http::serve(listener, pages, move |path| {
        let span = match path {
            "/history/hour" => Some(Span::Hour),
            "/history/week" => Some(Span::Week),
            "/status" | "/metrics" => None,
            _ => return Answer::NotFound,
        };
        if let Some(span) = span {
            let sampler = sampler.lock().unwrap_or_else(PoisonError::into_inner);
            return json(&sampler.page(span));
        }
        match control.report(REPORT_TIMEOUT) {
            None => Answer::Unavailable("the router does not answer".to_owned()),
            Some(report) if path == "/metrics" => Answer::Metrics(metrics(&report)),
            Some(mut report) => {
                sampler.lock().unwrap_or_else(PoisonError::into_inner).add_recent(&mut report);
                json(&report)
            }
        }
    })?;
    Ok(address)
}

fn json(what: &impl serde::Serialize) -> Answer {
    serde_json::to_string(what).map_or_else(|e| Answer::Unavailable(e.to_string()), Answer::Json)
}

/// Samples the router once a second until it is stopped.
fn sample(control: &Control, sampler: &Mutex<PathSampler>) {
    sample_each_second(|| {
        if let Some(report) = control.sample(REPORT_TIMEOUT) {
            sampler.lock().unwrap_or_else(PoisonError::into_inner).add(&report);
        }
        !control.stopped()
    });
}
