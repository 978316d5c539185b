//! The cost and the lateness of frames, by the number of clients, without load and with busy loops.
//!
//! The load is one busy loop per core. Scheduler and dispatch run in the host or in a separate
//! process.
//!
//! One receiver plays all clients and distinguishes them by their RTP source. It has real-time
//! priority where permitted, so that the lateness is the server's. Lateness is the arrival time of
//! a frame's last packet minus its number × the period, relative to the client's best frame.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod load;
mod playing;

use load::BusyLoops;
use millstream_media::{Report, run_data_plane_process};
use playing::{Playing, lateness};
use std::thread;
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_secs(6);

/// Serves `clients` clients for [`MEASURED`].
///
/// Returns the sorted lateness, µs, the server's report, and whether the receiver had real-time
/// priority.
fn measure(placement: &str, clients: usize, busy: usize) -> (Vec<u64>, Report, bool) {
    let loops = BusyLoops::start(busy);
    let playing = Playing::start(placement, clients, Instant::now());
    thread::sleep(MEASURED);
    let (arrivals, report, permitted) = playing.end();
    loops.stop();
    let late = lateness(&arrivals, Duration::ZERO);
    let late = late.values().flatten().map(|frame| frame.late.as_micros() as u64);
    let mut late: Vec<u64> = late.collect();
    late.sort_unstable();
    (late, report, permitted)
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("ni") {
        return run_data_plane_process().unwrap();
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "| placement | clients | busy loops | frames | lost | ns per frame | kernel ns per frame \
         | p50 late (µs) | p99 | max |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut trusted = true;
    for clients in [10, 50] {
        for busy in [0, cores] {
            for placement in ["host", "ni"] {
                let (late, report, permitted) = measure(placement, clients, busy);
                trusted &= permitted;
                let account = report.account;
                let sent: u64 = account.sent.iter().sum();
                let lost: u64 =
                    account.late.iter().chain(&account.full).sum::<u64>() + account.lost;
                let at = |part: usize| late.get(late.len() * part / 100).copied().unwrap_or(0);
                println!(
                    "| {placement} | {clients} | {busy} | {sent} | {lost} | {} | {} | {} | {} | \
                     {} |",
                    report.scheduling_ns / sent.max(1),
                    report.sending_ns / sent.max(1),
                    at(50),
                    at(99),
                    late.last().copied().unwrap_or(0),
                );
            }
        }
    }
    if !trusted {
        println!("\nThe receiver had no real-time priority: the lateness includes its own delays.");
    }
}
