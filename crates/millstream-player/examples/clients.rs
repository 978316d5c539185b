//! Clients of any RTSP server: plays a track many times and judges every frame.
//!
//! Usage: `clients ADDRESS TRACK CLIENTS SETTLED-MS MEASURED-MS`. Prints `playing` when all clients
//! play, so that a load can start, and one line of results after SETTLED-MS and MEASURED-MS:
//!
//! ```text
//! frames,lost,on_time,p50_us,p99_us,max_us,bytes_per_s,used_percent,steal_percent,real_time
//! ```
//! A frame is on time if its last packet arrives within a period of its due time, which follows
//! from its RTP time. A lost frame is as late as the end of the measurement. *Used* is CPU time of
//! the whole machine without steal time.
//!
//! `papers/coprocessor/live.py` calls it.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use millstream_player::{Player, delays, receive};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The period of the film.
const PERIOD: Duration = Duration::from_millis(40);

/// The time after all clients play whose frames are ignored: servers send the first ones early.
const STARTING: Duration = Duration::from_millis(400);

/// The time after the measurement in which late frames still arrive.
const LATE: Duration = Duration::from_millis(500);

/// Plays track `track` of a server's `/clip`; RTP and RTCP go to `ports`.
fn client(address: SocketAddr, track: &str, ports: &str) -> Player {
    let mut player = Player::open(address, &format!("clip{track}"));
    let set_up = player.set_up_to(ports);
    assert!(set_up.status().is_success(), "{set_up:?}");
    player.set_url(address, "clip");
    player.play();
    player
}

/// Returns the machine's CPU time of all cores in ticks: used by this machine, taken from it by its
/// host (steal), and all.
fn processor_ticks() -> [u64; 3] {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let first = stat.lines().next().unwrap();
    let fields: Vec<u64> =
        first.split_whitespace().skip(1).take(8).map(|n| n.parse().unwrap()).collect();
    let all: u64 = fields.iter().sum();
    let [idle, steal] = [fields[3] + fields[4], fields[7]];
    [all - idle - steal, steal, all]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, track, clients, settled, measured] = &arguments[..] else {
        println!("run by papers/coprocessor/live.py");
        return;
    };
    let address: SocketAddr = address.parse().unwrap();
    let clients: u32 = clients.parse().unwrap();
    let [settled, measured] =
        [settled, measured].map(|ms| Duration::from_millis(ms.parse().unwrap()));
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let players: Vec<_> = (0..clients)
        .map(|_| {
            // Staggers the clients' start times.
            thread::sleep(PERIOD * 7 / 5 / 10);
            // Some servers refuse two sessions with the same ports.
            let [rtp, rtcp] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            let ports = [&rtp, &rtcp].map(|socket| socket.local_addr().unwrap().port().to_string());
            let over = Arc::clone(&stop);
            let receiver = thread::spawn(move || receive(&rtp, begun, &over));
            (client(address, track, &ports.join("-")), rtcp, receiver)
        })
        .collect();
    println!("playing");
    let started = begun.elapsed() + STARTING;
    thread::sleep(settled);
    let (from, before) = (begun.elapsed(), processor_ticks());
    thread::sleep(measured);
    let (to, after) = (begun.elapsed(), processor_ticks());
    thread::sleep(LATE);
    let end = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let (mut bytes, mut real_time, mut frames) = (0, true, Vec::new());
    for (_control, _rtcp, receiver) in players {
        let (mut arrivals, permitted) = receiver.join().unwrap();
        arrivals.retain(|arrival| arrival.at >= started);
        let inside = arrivals.iter().filter(|arrival| (from..to).contains(&arrival.at));
        bytes += inside.map(|arrival| arrival.bytes).sum::<usize>();
        real_time &= permitted;
        frames.extend(delays(&arrivals, PERIOD, from..to));
    }
    let lost = frames.iter().filter(|late| late.is_none()).count();
    let on_time = frames.iter().flatten().filter(|late| **late <= PERIOD).count();
    let mut late: Vec<u128> =
        frames.iter().map(|late| late.unwrap_or(end - from).as_micros()).collect();
    late.sort_unstable();
    let at = |part: usize| late[(late.len() - 1) * part / 100];
    let part = |of: usize| (after[of] - before[of]) as f64 * 100.0 / (after[2] - before[2]) as f64;
    println!(
        "{},{lost},{on_time},{},{},{},{:.0},{:.1},{:.2},{}",
        frames.len(),
        at(50),
        at(99),
        at(100),
        bytes as f64 / (to - from).as_secs_f64(),
        part(0),
        part(1),
        u8::from(real_time),
    );
}
