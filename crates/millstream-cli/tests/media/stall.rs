//! Tests of `millstream serve` with players that read too slowly or not at all, and of the default
//! limits per address.

use crate::player::{Player, Server, assert_conserved, connect_from};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};
use rtsp_types::StatusCode;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const DEADLINE: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"200 ms\"\nwindow = \"1/6\"";

/// The largest number of frames that the server counts as sent although the client does not read.
///
/// They fit the receive buffer (4 KB, which the kernel doubles) and the unsent bytes in the kernel
/// (4 KiB and a segment), with their RTP headers. A frame has 2.3 KB on average.
const MAX_UNREAD_FRAMES: u64 = 40;

/// Connects with a receive buffer of a few kilobytes.
fn connect_with_small_buffer(server: &Server) -> TcpStream {
    let flags = SockFlag::SOCK_CLOEXEC;
    let stream = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    setsockopt(&stream, sockopt::RcvBuf, &4096).unwrap();
    connect(stream.as_raw_fd(), &SockaddrStorage::from(server.rtsp)).unwrap();
    stream.into()
}

fn sum(frames: &serde_json::Value, what: &str) -> u64 {
    frames[what].as_array().unwrap().iter().map(|kind| kind.as_u64().unwrap()).sum()
}

#[test]
fn a_stalled_player_is_charged_and_closed_and_other_players_continue() {
    for placement in ["host", "ni"] {
        let media =
            format!("placement = \"{placement}\"\nhttp = \"127.0.0.1:0\"\nstall-timeout = \"1 s\"");
        let server = Server::start(60, "50 Mbps", &media, DEADLINE, ", repeat = true");
        let mut honest = Player::open(server.rtsp, "film");
        assert_eq!(honest.set_up(true).status(), StatusCode::Ok);
        honest.play();
        let mut stalled = Player::over(connect_with_small_buffer(&server), server.rtsp, "film");
        assert_eq!(stalled.set_up(true).status(), StatusCode::Ok);
        stalled.play();
        let done = AtomicBool::new(false);
        let (most_sent, gone) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    honest.watch(Duration::from_millis(50));
                }
            });
            let end = Instant::now() + TIMEOUT;
            let mut most_sent = 0;
            let gone = loop {
                assert!(Instant::now() < end, "the stalled player is still connected");
                let status = server.status();
                let clients = status["clients"].as_array().unwrap();
                if let Some(client) = clients.iter().find(|client| client["client"] == 1) {
                    most_sent = most_sent.max(sum(&client["frames"], "sent"));
                } else if status["gone"]["released"] != 0 {
                    assert_eq!(status["stalled"], 1, "{status}");
                    break status["gone"].clone();
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            done.store(true, Ordering::Relaxed);
            watching.join().unwrap();
            (most_sent, gone)
        });
        // Of about 75 frames in that time, few are counted as sent; the rest is late, or discarded
        // with the client.
        assert!(most_sent <= MAX_UNREAD_FRAMES, "{most_sent} sent, {gone}");
        assert!(sum(&gone, "sent") <= MAX_UNREAD_FRAMES, "{gone}");
        let lost = sum(&gone, "late") + sum(&gone, "full");
        assert!(lost > 20 && gone["slow"].as_u64().unwrap() > 20, "{placement}: {gone}");
        assert!(gone["violations"].as_u64().unwrap() > 10, "{gone}");
        assert_eq!(
            gone["released"].as_u64().unwrap(),
            sum(&gone, "sent") + lost + gone["discarded"].as_u64().unwrap(),
            "{gone}"
        );
        // The connection of the other player made no frame late.
        let status = server.status();
        let other = &status["clients"][0]["frames"];
        assert_eq!(other["slow"], 0, "{other}");
        assert!(sum(other, "sent") > 50, "{other}");
        assert!(server.page("/metrics").contains("millstream_media_stalled_total 1"));
        let mut rest = Vec::new();
        let _ = connection_of(stalled).read_to_end(&mut rest);
        let frames = honest.frames();
        assert!(frames.iter().rev().skip(1).all(|frame| frame.whole));
        let account = server.end();
        assert_eq!(account["stalled"], 1, "{account}");
        assert_conserved(&account);
    }
}

/// Returns a player's connection, for reading its buffer after the server has closed it.
fn connection_of(player: Player) -> TcpStream {
    let stream = player.into_control();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

#[test]
fn by_default_one_address_has_a_sixteenth_of_all_slots() {
    let media = "connections = 96\nsessions = 80\nhttp = \"127.0.0.1:0\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, "");
    let mut players: Vec<Player> = (0..6).map(|_| Player::open(server.rtsp, "film")).collect();
    let status: Vec<StatusCode> =
        players.iter_mut().map(|player| player.set_up(true).status()).collect();
    assert_eq!(status[..5], [StatusCode::Ok; 5]);
    assert_eq!(status[5..], [StatusCode::ServiceUnavailable]);
    let mut beyond = TcpStream::connect(server.rtsp).unwrap();
    assert_eq!(beyond.read(&mut [0; 10]).unwrap_or(0), 0);
    // Another address has its own slots.
    let mut other = connect_from("127.0.0.2", server.rtsp);
    other.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    other.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"RTSP/1.0 200");
    let metrics = server.page("/metrics");
    let reason = "millstream_media_refusals_total{reason=\"connections-per-address\"} 1";
    assert!(metrics.contains(reason), "{metrics}");
    let account = server.end();
    assert_eq!(account["too_many_connections"], 1, "{account}");
    assert_eq!(account["too_many_sessions"], 1, "{account}");
}

#[test]
fn a_player_that_reads_at_half_the_rate_gets_frames_on_time_and_is_not_closed() {
    let media = "http = \"127.0.0.1:0\"\nstall-timeout = \"1 s\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, ", repeat = true");
    let mut player = Player::over(connect_with_small_buffer(&server), server.rtsp, "film");
    assert_eq!(player.set_up(true).status(), StatusCode::Ok);
    player.play();
    let mut stream = player.into_control();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // The file has 138 KB/s.
    let (begun, mut read) = (Instant::now(), 0.0);
    let mut chunk = [0; 1000];
    while begun.elapsed() < Duration::from_secs(4) {
        if read < begun.elapsed().as_secs_f64() * 70_000.0 {
            let count = stream.read(&mut chunk).unwrap_or(0);
            read += f64::from(u32::try_from(count).unwrap());
        } else {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let status = server.status();
    assert_eq!(status["stalled"], 0, "{status}");
    let frames = &status["clients"][0]["frames"];
    let (sent, slow) = (sum(frames, "sent"), frames["slow"].as_u64().unwrap());
    // The path carries about half of the frames. Late frames are dropped before their
    // transmission, which leaves time for the rest.
    assert!(slow > 20, "{frames}");
    assert!(sent > 30, "{frames}");
    // On a busy machine a frame can be late although its client reads in time, and frames are lost
    // while the counters are read one by one.
    let lost = sum(frames, "late") + sum(frames, "full");
    assert!(lost.abs_diff(slow) <= 2 + lost / 50, "{frames}");
    assert_conserved(&server.end());
}
