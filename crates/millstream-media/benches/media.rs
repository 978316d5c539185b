//! What a frame costs and how late it arrives: clients by clients, unloaded and with a busy loop
//! for each core, scheduler and dispatch in the host or in a process of their own.
//!
//! All clients are one receiver, told apart by their RTP source; it has real-time priority where
//! that is permitted, so that what is late is the server. Lateness is the time of a frame's last
//! packet after its number × the period, the client's best one being 0.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod load;
mod player;

use load::BusyLoops;
use millstream_media::{Report, network_interface_processor};
use player::{Playing, lateness};
use std::thread;
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_secs(6);

/// Serves `clients` for a while; lateness sorted, µs, what the server says, whether time is to be
/// trusted.
fn measure(placement: &str, clients: usize, busy: usize) -> (Vec<u64>, Report, bool) {
    let loops = BusyLoops::start(busy);
    let playing = Playing::start(placement, clients, Instant::now());
    thread::sleep(MEASURED);
    let (arrivals, report, permitted) = playing.end();
    loops.stop();
    let late = lateness(&arrivals);
    let late = late.values().flatten().map(|(_, late)| late.as_micros() as u64);
    let mut late: Vec<u64> = late.collect();
    late.sort_unstable();
    (late, report, permitted)
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("ni") {
        return network_interface_processor().unwrap();
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "| placement | clients | busy loops | frames | lost | ns a frame | kernel, ns a frame | \
         p50 late (µs) | p99 | worst |"
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
        println!("\nThe receiver had no real-time priority: lateness is the receiver's, too.");
    }
}
