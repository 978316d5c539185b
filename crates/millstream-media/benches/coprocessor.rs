//! The cost of a frame on each of the Co-processor paper's frame paths (Figure 3, Table 4), in the
//! server.
//!
//! `cargo bench --profile release -p millstream-media --bench coprocessor -- FOLDER` writes
//! `frame-paths.csv`. `make paper-coprocessor` calls it.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod playing;

use millstream_media::{frame_producer, run_data_plane_process};
use playing::{Playing, lateness};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

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
    match arguments.next() {
        Some(argument) if argument == "ni" => run_data_plane_process().unwrap(),
        Some(argument) if argument == "producer" => frame_producer().unwrap(),
        Some(folder) => paths(Path::new(&folder)),
        None => panic!("usage: coprocessor FOLDER"),
    }
}
