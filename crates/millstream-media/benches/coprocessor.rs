//! The Co-processor paper's Figures 6 to 10 with the real server, for two clients under web load.
//!
//! Scheduler and dispatch run in the host, or in a separate process. The load is ten workers that
//! share requests, like the processes of the paper's web server. A request computes for an
//! exponential time of 5 ms in the mean. Requests arrive at random, at the rate that gives the
//! wanted utilisation of all cores. The first seconds have no load, to show what changes.
//!
//! Before that, the benchmark measures the cost of a frame on each of the paper's frame paths
//! (Figure 3, Table 4), in the server.
//!
//! `cargo bench --profile release -p millstream-media --bench coprocessor -- FOLDER` writes
//! `frame-paths.csv`, `live.csv` and `live-summary.csv`; with `paths` after FOLDER, only the first
//! of them. `make paper-coprocessor` calls it and draws the figures.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]

mod load;
mod playing;

use load::ticks;
use millstream_media::{frame_producer, run_data_plane_process};
use millstream_traffic::Random;
use playing::{Playing, lateness};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The duration of each experiment. The load starts after [`LOADED`].
const WHOLE: Duration = Duration::from_secs(30);
const LOADED: Duration = Duration::from_secs(6);

/// The start-up time that is not evaluated.
const SETTLED: Duration = Duration::from_secs(1);

const WORKERS: usize = 10;
const REQUEST: Duration = Duration::from_millis(5);

/// A request: its arrival time after the start of the load, and its computation time.
#[derive(Clone, Copy)]
struct Request {
    arrives_at: Duration,
    duration: Duration,
}

/// Returns requests that use the fraction `load` of `cores`.
fn requests(load: f64, cores: f64) -> Vec<Request> {
    let mut random = Random::new(1, 0);
    let mut arrives_at = Duration::ZERO;
    let mut all = Vec::new();
    while load > 0.0 && arrives_at < WHOLE {
        arrives_at += REQUEST.mul_f64(random.exponential() / (load * cores));
        all.push(Request { arrives_at, duration: REQUEST.mul_f64(random.exponential()) });
    }
    all
}

/// Returns the CPU time of this thread.
fn used() -> Duration {
    Duration::from_nanos(millstream_sync::clock::system::thread_cpu_ns())
}

/// Runs a worker: processes requests at their arrival times until `end`.
fn work(requests: &[Request], next: &AtomicUsize, from: Instant, end: Instant) {
    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
        thread::sleep((from + request.arrives_at).saturating_duration_since(Instant::now()));
        let begun = used();
        while used() - begun < request.duration {
            std::hint::spin_loop();
            if Instant::now() >= end {
                return;
            }
        }
    }
}

/// Runs one experiment. Appends a row per second to `series`, and a row under load to `summary`.
///
/// Returns whether the receiver had real-time priority.
fn experiment(placement: &str, percent: u32, series: &mut String, summary: &mut String) -> bool {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let requests = Arc::new(requests(f64::from(percent) / 100.0, cores as f64));
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let playing = Playing::start(placement, 2, begun);
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (requests, next) = (Arc::clone(&requests), Arc::clone(&next));
            thread::spawn(move || work(&requests, &next, begun + LOADED, begun + WHOLE))
        })
        .collect();
    let seconds = WHOLE.as_secs() as usize;
    let mut utilisation = Vec::new();
    let mut before = ticks();
    for second in 1..=seconds {
        thread::sleep(
            (begun + Duration::from_secs(second as u64)).saturating_duration_since(Instant::now()),
        );
        let now = ticks();
        utilisation.push((now.0 - before.0) as f64 * 100.0 / (now.1 - before.1).max(1) as f64);
        before = now;
    }
    let (arrivals, report, permitted) = playing.end();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let late = lateness(&arrivals, SETTLED);
    let arrivals: Vec<_> = arrivals.into_iter().filter(|arrival| arrival.at >= SETTLED).collect();
    let mut sources: Vec<u32> = late.keys().copied().collect();
    sources.sort_by_key(|source| late[source][0].at);
    assert_eq!(sources.len(), 2, "packets from both clients' sessions");
    for (second, used) in utilisation.iter().enumerate().skip(1) {
        let _ = write!(series, "{placement},{percent},{second},{used:.1}");
        for source in &sources {
            let inside = |at: Duration| at.as_secs() as usize == second;
            let bytes = arrivals.iter().filter(|a| a.source == *source && inside(a.at));
            let bits = 8 * bytes.map(|arrival| arrival.bytes).sum::<usize>();
            let waits = late[source].iter().filter(|frame| inside(frame.at));
            let waits: Vec<f64> = waits.map(|frame| frame.late.as_secs_f64() * 1e3).collect();
            let mean = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
            let worst = waits.iter().copied().fold(0.0, f64::max);
            let _ = write!(series, ",{:.1},{mean:.3},{worst:.3}", bits as f64 / 1e3);
        }
        series.push('\n');
    }
    let under_load = |at: Duration| at >= LOADED && at < WHOLE;
    let mut waits: Vec<f64> = late
        .values()
        .flatten()
        .filter(|frame| under_load(frame.at))
        .map(|frame| frame.late.as_secs_f64() * 1e3)
        .collect();
    waits.sort_by(f64::total_cmp);
    let part = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    let bytes = arrivals.iter().filter(|a| under_load(a.at)).map(|a| a.bytes).sum::<usize>();
    let rate = 8.0 * bytes as f64 / 2e3 / (WHOLE - LOADED).as_secs_f64();
    let loaded = &utilisation[LOADED.as_secs() as usize..];
    let account = report.account;
    let _ = writeln!(
        summary,
        "{placement},{percent},{:.1},{rate:.1},{:.3},{:.3},{:.3},{},{},{}",
        loaded.iter().sum::<f64>() / loaded.len() as f64,
        part(50),
        part(99),
        waits[waits.len() - 1],
        account.sent.iter().sum::<u64>(),
        account.late.iter().chain(&account.full).sum::<u64>() + account.lost,
        account.violations,
    );
    permitted
}

/// The duration of the measurement of each frame path, for [`PATH_CLIENTS`] clients.
const PATH: Duration = Duration::from_secs(10);
const PATH_CLIENTS: usize = 20;

/// Returns the CPU time of all threads of a process, ns.
fn cpu_time_ns(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let cpu_time_ns = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    cpu_time_ns.sum()
}

/// Measures a frame's cost and lateness on a path. Returns a row of `frame-paths.csv`.
///
/// The cost is that of the data plane and that of the producer.
fn path(path: &str) -> String {
    let playing = Playing::by(path, PATH_CLIENTS, Instant::now());
    thread::sleep(PATH);
    let ran_ns: Vec<u64> =
        playing.processes.iter().map(|process| process.map_or(0, cpu_time_ns)).collect();
    let (arrivals, report, _) = playing.end();
    let late = lateness(&arrivals, Duration::ZERO);
    let mut late: Vec<u64> =
        late.values().flatten().map(|frame| frame.late.as_nanos() as u64).collect();
    late.sort_unstable();
    let at = |part: usize| late[(late.len() - 1) * part / 100];
    let account = report.account;
    let sent = account.sent.iter().sum::<u64>().max(1);
    format!(
        "{path},{},{},{},{},{},{},{sent},{}\n",
        report.scheduling_ns / sent,
        report.sending_ns / sent,
        ran_ns[0] / sent,
        ran_ns[1] / sent,
        at(50),
        at(99),
        account.missed(),
    )
}

/// Measures the server's frame paths, A, C and B of the paper, and writes `frame-paths.csv`.
fn paths(folder: &Path) {
    let mut text = "path,scheduling_ns,kernel_ns,processor_ns,producer_ns,p50_late_ns,p99_late_ns,\
                    sent,missed\n"
        .to_owned();
    for name in ["host", "ni", "producer"] {
        text += &path(name);
        print!("{}", text.lines().last().map_or_else(String::new, |row| format!("{row}\n")));
    }
    std::fs::write(folder.join("frame-paths.csv"), text).unwrap();
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let folder = match arguments.next() {
        Some(argument) if argument == "ni" => return run_data_plane_process().unwrap(),
        Some(argument) if argument == "producer" => return frame_producer().unwrap(),
        Some(folder) => folder,
        None => panic!("usage: coprocessor FOLDER [paths]"),
    };
    paths(Path::new(&folder));
    if arguments.next().is_some_and(|only| only == "paths") {
        return;
    }
    let mut series = "placement,load,time_s,utilisation,s1_kbps,s1_mean_ms,s1_worst_ms,\
                      s2_kbps,s2_mean_ms,s2_worst_ms\n"
        .to_owned();
    let mut summary =
        "placement,load,utilisation,kbps,p50_ms,p99_ms,worst_ms,sent,lost,violations\n".to_owned();
    let mut trusted = true;
    for percent in [0, 45, 60, 96] {
        for placement in ["host", "ni"] {
            trusted &= experiment(placement, percent, &mut series, &mut summary);
            print!("{}", summary.lines().last().map_or_else(String::new, |row| format!("{row}\n")));
        }
    }
    let folder = Path::new(&folder);
    std::fs::write(folder.join("live.csv"), series).unwrap();
    std::fs::write(folder.join("live-summary.csv"), summary).unwrap();
    if !trusted {
        println!("The receiver had no real-time priority: the lateness includes its own delays.");
    }
}
