//! Tests of the media thread: it sends frames apart from session control.

use super::viewer::Viewer;
use super::{clips, serve};
use crate::confined::{SYS_NICE, own, real_time_threads};
use crate::player::{assert_conserved, is_installed};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap())
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
