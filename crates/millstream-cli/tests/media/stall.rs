//! `millstream serve` to players that read too slowly or not at all, or take more than their share
//! of places.

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

const LONG: Duration = Duration::from_secs(30);
const DEADLINE: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"200 ms\"\nwindow = \"1/6\"";

/// Frames that the server may count as sent although the client does not read: what fits the
/// receive buffer (4 KB, which the kernel doubles), the unsent bytes that the kernel may hold (4
/// KiB and a segment), and what the RTP headers add. The film has 2.3 KB a frame.
const HIDDEN_FRAMES: u64 = 40;

/// A connection whose kernel takes a few kilobytes and no more.
fn narrow(server: &Server) -> TcpStream {
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
fn a_player_that_stops_reading_is_charged_and_closed_and_others_play_on() {
    for placement in ["host", "ni"] {
        let media =
            format!("placement = \"{placement}\"\nhttp = \"127.0.0.1:0\"\nstall-timeout = \"1 s\"");
        let server = Server::start(60, "50 Mbps", &media, DEADLINE, ", repeat = true");
        let mut honest = Player::open(server.rtsp, "film");
        assert_eq!(honest.set_up(true).status(), StatusCode::Ok);
        honest.play();
        let mut stalled = Player::over(narrow(&server), server.rtsp, "film");
        assert_eq!(stalled.set_up(true).status(), StatusCode::Ok);
        stalled.play();
        let done = AtomicBool::new(false);
        let (most_sent, gone) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    honest.watch(Duration::from_millis(50));
                }
            });
            let end = Instant::now() + LONG;
            let mut most_sent = 0;
            let gone = loop {
                assert!(Instant::now() < end, "the stalled player is still there");
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
        // Of about 75 frames in that time, few were taken for sent; the others are late, or went
        // with the client.
        assert!(most_sent <= HIDDEN_FRAMES, "{most_sent} sent, {gone}");
        assert!(sum(&gone, "sent") <= HIDDEN_FRAMES, "{gone}");
        let lost = sum(&gone, "late") + sum(&gone, "full");
        assert!(lost > 20 && gone["slow"].as_u64().unwrap() > 20, "{placement}: {gone}");
        assert!(gone["violations"].as_u64().unwrap() > 10, "{gone}");
        assert_eq!(
            gone["released"].as_u64().unwrap(),
            sum(&gone, "sent") + lost + gone["discarded"].as_u64().unwrap(),
            "{gone}"
        );
        // The other one: nothing was late by its connection.
        let status = server.status();
        let other = &status["clients"][0]["frames"];
        assert_eq!(other["slow"], 0, "{other}");
        assert!(sum(other, "sent") > 50, "{other}");
        assert!(server.page("/metrics").contains("millstream_media_stalled_total 1"));
        let mut rest = Vec::new();
        let _ = narrow_rest(stalled).read_to_end(&mut rest);
        let frames = honest.frames();
        assert!(frames.iter().rev().skip(1).all(|frame| frame.whole));
        let account = server.end();
        assert_eq!(account["stalled"], 1, "{account}");
        assert_conserved(&account);
    }
}

/// What a player's kernel still has; the connection is closed by the server.
fn narrow_rest(player: Player) -> TcpStream {
    let stream = player.into_control();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

#[test]
fn one_address_has_a_sixteenth_of_all_places_where_the_file_does_not_say() {
    let media = "connections = 96\nsessions = 80\nhttp = \"127.0.0.1:0\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, "");
    let mut players: Vec<Player> = (0..6).map(|_| Player::open(server.rtsp, "film")).collect();
    let status: Vec<StatusCode> =
        players.iter_mut().map(|player| player.set_up(true).status()).collect();
    assert_eq!(status[..5], [StatusCode::Ok; 5]);
    assert_eq!(status[5..], [StatusCode::ServiceUnavailable]);
    let mut beyond = TcpStream::connect(server.rtsp).unwrap();
    assert_eq!(beyond.read(&mut [0; 10]).unwrap_or(0), 0);
    // Another address has places of its own.
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
fn a_player_that_reads_at_half_the_rate_gets_frames_in_time_and_is_not_closed() {
    let media = "http = \"127.0.0.1:0\"\nstall-timeout = \"1 s\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, ", repeat = true");
    let mut player = Player::over(narrow(&server), server.rtsp, "film");
    assert_eq!(player.set_up(true).status(), StatusCode::Ok);
    player.play();
    let mut stream = player.into_control();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // The film has 138 KB/s.
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
    // About half of the frames can go. Those that would be too late are left out before they begin,
    // so a good part of the others is in time.
    assert!(slow > 20, "{frames}");
    assert!(sent > 30, "{frames}");
    assert_eq!(slow, sum(frames, "late") + sum(frames, "full"), "{frames}");
    assert_conserved(&server.end());
}
