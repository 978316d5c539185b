//! Tests of the media thread: it sends frames apart from session control.

use super::viewer::Viewer;
use super::{clips, serve};
use crate::confined::own;
use crate::player::{Server, assert_conserved, is_installed};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::fs;

/// CAP_SYS_NICE.
const SYS_NICE: u64 = 1 << 23;

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap())
}

/// Returns the names of a server's threads in the class SCHED_FIFO.
fn real_time_threads(server: &Server) -> Vec<String> {
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

#[test]
fn viewers_get_frames_while_session_control_is_stopped() {
    if !is_installed("ffmpeg") {
        return;
    }
    let server = serve(&clips(75), "", "0/1");
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/again", "").unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() >= 5);
    // Stops the thread with the process's number, and no other one.
    let session_control = pid(server.child.id());
    match ptrace::seize(session_control, ptrace::Options::empty()) {
        // Yama may forbid it.
        Err(Errno::EPERM) => return,
        other => other.unwrap(),
    }
    ptrace::interrupt(session_control).unwrap();
    waitpid(session_control, Some(WaitPidFlag::__WALL)).unwrap();
    let before = viewer.frames.len();
    viewer.receive_until(|viewer| viewer.frames.len() >= before + 50);
    ptrace::detach(session_control, None).unwrap();
    assert!(viewer.frames.iter().all(|frame| frame.contiguous));
    let account = server.end();
    assert_conserved(&account);
    assert_eq!(account["frames"]["violations"], 0, "{account}");
}

#[test]
fn the_media_thread_has_the_class_of_the_data_plane() {
    if !is_installed("ffmpeg") || own("CapEff") & SYS_NICE == 0 {
        return;
    }
    let cases: [(_, &[&str]); 2] = [("", &[]), ("placement = \"ni\"", &["webrtc"])];
    for (media, expected) in cases {
        let server = serve(&clips(25), media, "0/1");
        assert_eq!(real_time_threads(&server), expected, "{media}");
        server.end();
    }
}

#[test]
fn viewers_play_on_after_a_kill_of_the_data_plane() {
    if !is_installed("ffmpeg") {
        return;
    }
    let server = serve(&clips(75), "placement = \"ni\"", "0/1");
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/again", "").unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() >= 5);
    kill(pid(server.data_plane.unwrap()), Signal::SIGKILL).unwrap();
    let before = viewer.frames.len();
    viewer.receive_until(|viewer| viewer.frames.len() >= before + 50);
    assert_conserved(&server.end());
}
