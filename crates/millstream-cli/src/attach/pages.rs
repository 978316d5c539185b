//! Serves the counters of a qdisc over HTTP: a dashboard, `/status` as JSON and `/metrics` for
//! Prometheus.

use millstream_bpf::attach::{self as qdisc, Status};
use millstream_report::http::{self, Answer};
use serde::Serialize;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::Output;
use super::metrics::metrics;
use crate::confine::capabilities::KeptCapabilities;
use crate::confine::{self, files::Files};
use crate::failure::Failure;
use crate::interrupt::watch_interrupts;
use crate::terminal::say;

/// The interval between checks for an interrupt.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// `/status`: the output of `--status --json`, with the time and the histograms from which the
/// dashboard computes rates and percentiles.
#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    output: Output<'a>,
    /// The time since this process began to serve, ns.
    elapsed_ns: u64,
    /// Packets sent by sojourn time, of each stream: see `StreamStatus::sojourn`.
    sojourn: Vec<&'a [u64]>,
}

/// Serves the counters of the qdisc of `interface` at `address` until Ctrl-C.
///
/// # Errors
/// Fails if the address cannot be bound or privileges cannot be dropped.
pub(super) fn serve(interface: &str, address: SocketAddr) -> Result<(), Failure> {
    let failed = |error| {
        Failure::Run(miette::miette!(
            help = "give another address to --listen, or stop the program that listens there",
            "cannot serve counters at {address}: {error}"
        ))
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    // Reading the maps needs no capability: their files belong to root, as does this process.
    if let Some(lacking) = confine::begin(KeptCapabilities::NOTHING, &Files::default())? {
        say(&format!("note: {lacking}"));
    }
    let interrupted = watch_interrupts()?;
    let (name, started) = (interface.to_owned(), Instant::now());
    let answer = move |path: &str| answer(path, &name, || qdisc::status(&name), started);
    http::serve(listener, "/, /status and /metrics", answer).map_err(failed)?;
    say(&format!("{interface}: serving counters at http://{bound}/"));
    while !interrupted.load(Ordering::Relaxed) {
        thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Answers a request for `path`.
fn answer<E: std::fmt::Display>(
    path: &str,
    interface: &str,
    read: impl Fn() -> Result<Status, E>,
    started: Instant,
) -> Answer {
    if !matches!(path, "/status" | "/metrics") {
        return Answer::NotFound;
    }
    let status = match read() {
        Ok(status) => status,
        Err(error) => return Answer::Unavailable(error.to_string()),
    };
    if path == "/metrics" {
        return Answer::Text(metrics(interface, &status));
    }
    let page = Page {
        output: Output::of(interface, &status),
        elapsed_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        sojourn: status.streams.iter().map(|stream| stream.sojourn.as_slice()).collect(),
    };
    serde_json::to_string(&page).map_or_else(|e| Answer::Unavailable(e.to_string()), Answer::Json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::tests::status;

    fn get(path: &str, status: Result<Status, &str>) -> Answer {
        answer(path, "eth0", || status.clone(), Instant::now())
    }

    #[test]
    fn status_is_that_of_the_command_with_the_histogram_and_a_time() {
        let Answer::Json(page) = get("/status", Ok(status())) else { panic!("no JSON") };
        let page: serde_json::Value = serde_json::from_str(&page).unwrap();
        assert_eq!(page["interface"], "eth0");
        assert_eq!(page["streams"][0]["sent"], 3);
        assert_eq!(page["streams"][0]["sojourn_p99_bound_ns"], 1 << 20);
        assert_eq!((&page["sojourn"][0][10], &page["sojourn"][0][19]), (&1.into(), &2.into()));
        assert!(page["elapsed_ns"].as_u64().is_some_and(|ns| ns < 60_000_000_000));
    }

    #[test]
    fn metrics_are_those_of_the_command() {
        assert_eq!(get("/metrics", Ok(status())), Answer::Text(metrics("eth0", &status())));
    }

    #[test]
    fn a_detached_qdisc_is_unavailable_and_other_pages_do_not_exist() {
        let gone = "no qdisc of Millstream is attached to eth0";
        assert_eq!(get("/status", Err(gone)), Answer::Unavailable(gone.into()));
        assert_eq!(get("/metrics", Err(gone)), Answer::Unavailable(gone.into()));
        assert_eq!(get("/history/hour", Ok(status())), Answer::NotFound);
    }
}
