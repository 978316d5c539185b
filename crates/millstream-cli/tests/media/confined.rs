//! Tests of the confinement of `millstream serve` and its child processes.
//!
//! `tests/route/main.rs` tests the confinement of `route`, and `src/confine/system_calls.rs` the
//! system call filters.

use crate::player::{Player, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::StatusCode;
use std::fs;
use std::time::{Duration, Instant};

const STREAM: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";
/// CAP_IPC_LOCK and CAP_SYS_NICE, which the server keeps if the test process has them.
pub(crate) const CHILDREN: u64 = 1 << 14 | SYS_NICE;
/// CAP_SYS_NICE.
pub(crate) const SYS_NICE: u64 = 1 << 23;

/// Returns a field of a thread's status file.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name}: {status}")).trim().to_owned()
}

/// Returns capabilities of this process.
pub(crate) fn own(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    u64::from_str_radix(&field(&status, name), 16).unwrap()
}

/// Returns the status of every thread of a process.
fn threads(id: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let status = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")));
    status.filter_map(Result::ok).collect()
}

/// Asserts that every thread of a process is confined within ten seconds.
///
/// `permitted` are the capabilities that the process keeps for its children.
pub(crate) fn assert_confined(id: u32, permitted: u64) {
    let bounding = if own("CapEff") >> 8 & 1 == 1 { 0 } else { own("CapBnd") };
    let sets = [
        ("CapEff", 0),
        ("CapPrm", permitted),
        ("CapInh", permitted),
        ("CapAmb", permitted),
        ("CapBnd", bounding),
    ];
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let threads = threads(id);
        let wrong = threads.iter().find(|status| {
            sets.iter().any(|(name, set)| field(status, name) != format!("{set:016x}"))
                || field(status, "NoNewPrivs") != "1"
                || field(status, "Seccomp") != "2"
        });
        match wrong {
            None if !threads.is_empty() => return,
            _ => assert!(Instant::now() < end, "{sets:x?}: {wrong:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the names of a server's threads in the class SCHED_FIFO.
pub(crate) fn real_time_threads(server: &Server) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    // A thread may end meanwhile.
    let stat = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let is_real_time = |stat: &String| {
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(38) == Some("1")
    };
    let name = |stat: String| stat.split(['(', ')']).nth(1).unwrap().to_owned();
    stat.filter(is_real_time).map(name).collect()
}

/// Plays ten frames.
fn play(server: &Server) {
    let mut player = Player::open(server.rtsp, "film");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    player.receive_frames(10);
}

#[test]
fn a_server_keeps_no_capability_in_any_thread() {
    let media = "http = \"127.0.0.1:0\"\ninstructions = true";
    let server = Server::start(60, "50 Mbps", media, STREAM, ", repeat = true");
    play(&server);
    assert!(server.page("/status").starts_with("HTTP/1.1 200"));
    let id = server.child.id();
    assert!(threads(id).len() >= 4, "threads for serving, dispatch, HTTP and compilation");
    assert_confined(id, 0);
    server.end();
}

#[test]
fn child_processes_keep_no_capability_even_after_a_restart() {
    let media = "placement = \"ni\"\nhttp = \"127.0.0.1:0\"\nframe-path = \"producer\"\n\
     instructions = true";
    let server = Server::start(60, "50 Mbps", media, STREAM, ", repeat = true");
    play(&server);
    let producer = || {
        let id = server.status()["reading"]["producer"].as_u64();
        id.and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0)
    };
    let id = server.child.id();
    assert_confined(id, own("CapPrm") & CHILDREN);
    let data_plane = server.data_plane.unwrap();
    assert_confined(data_plane, 0);
    let first = producer().expect("a producer");
    assert_confined(first, 0);
    let end = |id: u32| kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGKILL).unwrap();
    end(data_plane);
    end(first);
    let mut again = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while again.len() < 2 {
        assert!(Instant::now() < deadline, "not restarted: {again:?}");
        std::thread::sleep(Duration::from_millis(50));
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let children = children.split_whitespace().map(|id| id.parse::<u32>().unwrap());
        again = children.filter(|id| ![data_plane, first].contains(id)).collect();
    }
    for child in again {
        assert_confined(child, 0);
    }
    play(&server);
    server.end();
}
