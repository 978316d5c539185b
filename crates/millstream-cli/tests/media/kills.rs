//! Kills of each process at random moments: every frame is counted once, and no process, socket or
//! file remains. (`cluster.rs` kills servers of a cluster.)

use crate::player::{Player, Server, assert_conserved, await_files, files};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::{Method, StatusCode};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
const STREAM: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

/// A client that plays, takes 700 bytes of the first frame, which has 6,000, and nothing more.
const CLIENT: &str = r#"
import socket, sys, time
host, port, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
control = socket.create_connection((host, port))
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
for each in sockets:
    each.bind((host, 0))
ports = "-".join(str(each.getsockname()[1]) for each in sockets)
transport = {
    "udp": f"RTP/AVP;unicast;client_port={ports}",
    "tcp": "RTP/AVP/TCP;unicast;interleaved=0-1",
}
def ask(method, header):
    request = f"{method} rtsp://{host}:{port}/film RTSP/1.0\r\nCSeq: 1\r\n{header}\r\n\r\n"
    control.sendall(request.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += control.recv(1)
    return answer.decode()
session = ask("SETUP", f"Transport: {transport[way]}").split("Session: ")[1].split(";")[0]
ask("PLAY", f"Session: {session}")
(sockets[0] if way == "udp" else control).recv(700)
print("plays", flush=True)
time.sleep(600)
"#;

fn client(server: &Server, way: &str) -> Child {
    let (host, port) = (server.rtsp.ip().to_string(), server.rtsp.port().to_string());
    let mut command = Command::new("python3");
    let command = command.args(["-c", CLIENT, &host, &port, way]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "plays\n");
    child
}

fn metric(server: &Server, name: &str) -> String {
    let page = server.page("/metrics");
    let prefix = format!("millstream_media_{name} ");
    page.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().to_owned()
}

/// Waits for `count` sessions; returns whether the server reached it.
fn await_sessions(server: &Server, count: u64) -> bool {
    let end = Instant::now() + LONG;
    while metric(server, "sessions") != count.to_string() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    metric(server, "sessions") == count.to_string()
}

/// Waits until no client has anything of the server.
fn await_nobody(server: &Server) {
    assert!(await_sessions(server, 0), "{} sessions", metric(server, "sessions"));
    assert_eq!(metric(server, "reserved_bps"), "0");
}

#[test]
fn a_client_in_the_middle_of_a_frame() {
    for placement in ["host", "ni"] {
        let media =
            format!("placement = \"{placement}\"\nhttp = \"127.0.0.1:0\"\nidle-timeout = \"60 s\"");
        let server = Server::start(60, "50 Mbps", &media, STREAM, ", repeat = true");
        // Once through, so that whatever is opened at the start is open.
        let mut first = Player::open(server.rtsp, "film");
        assert_eq!(first.set_up(false).status(), StatusCode::Ok);
        first.play();
        first.watch_frames(1);
        drop(first);
        await_nobody(&server);
        let before = files(server.child.id());
        let processor = server.processor.map(|id| (id, files(id)));
        let mut other = Player::open(server.rtsp, "film");
        assert_eq!(other.set_up(false).status(), StatusCode::Ok);
        other.play();
        other.watch_frames(1);
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !killed.load(Ordering::Relaxed) {
                    other.watch(Duration::from_millis(20));
                }
            });
            for way in ["udp", "tcp"] {
                for mut client in [client(&server, way), client(&server, way)] {
                    client.kill().unwrap();
                    client.wait().unwrap();
                }
            }
            // They are gone long before the timeout.
            let gone = await_sessions(&server, 1);
            killed.store(true, Ordering::Relaxed);
            assert!(gone, "{} sessions", metric(&server, "sessions"));
        });
        // Who is left misses nothing.
        other.watch(Duration::from_millis(500));
        let frames = other.frames();
        assert!(frames.len() > 30, "{} frames", frames.len());
        // The last may not have come whole yet.
        assert!(frames[..frames.len() - 1].iter().all(|frame| frame.whole), "{frames:?}");
        assert_eq!(other.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
        drop(other);
        await_nobody(&server);
        for (id, files) in processor.into_iter().chain([(server.child.id(), before)]) {
            await_files(id, files);
        }
        let account = server.end();
        assert_eq!(account["admitted"], 6, "{account}");
        assert_conserved(&account);
    }
}

#[test]
fn the_processor_in_the_middle_of_a_frame_and_again() {
    // A frame of 6,000 bytes takes 10 ms on this link: any kill is in the middle of one.
    let media = "placement = \"ni\"\nhttp = \"127.0.0.1:0\"";
    let mut server = Server::start(60, "4.8 Mbps", media, STREAM, ", repeat = true");
    metric(&server, "sessions");
    let before = files(server.child.id());
    let mut players: Vec<Player> = (0..3).map(|_| Player::open(server.rtsp, "film")).collect();
    for player in &mut players {
        assert_eq!(player.set_up(false).status(), StatusCode::Ok);
        player.play();
    }
    for _ in 0..2 {
        players.iter_mut().for_each(|player| player.watch_frames(5));
        let of: Vec<_> = children(server.child.id());
        let [processor] = of[..] else { panic!("processors {of:?}") };
        server.processor = Some(processor);
        kill(Pid::from_raw(processor.try_into().unwrap()), Signal::SIGKILL).unwrap();
        assert!(server.line().contains("starting another"));
        for player in &mut players {
            player.frames();
            player.watch_frames(20);
        }
    }
    drop(players);
    await_nobody(&server);
    await_files(server.child.id(), before);
    let account = server.end();
    assert_eq!(account["processors"], 3, "{account}");
    assert_conserved(&account);
}

#[test]
fn the_host_and_then_its_clients() {
    let media = "placement = \"ni\"\nsocket = \"processor\"\nhttp = \"127.0.0.1:0\"\nidle-timeout \
     = \"2 s\"";
    let mut server = Server::start(60, "50 Mbps", media, STREAM, ", repeat = true");
    let processor = server.processor.unwrap();
    let mut players = Player::both_ways(server.rtsp, "film");
    players[0].watch_frames(5);
    // It has all that it opens at its start; clients are no files of it.
    let before = files(processor);
    server.crash();
    players[0].watch_frames(30);
    let server = server.again();
    assert_eq!(server.processor, Some(processor));
    players[0].frames();
    players[0].watch_frames(30);
    // Without a word: what was theirs is free after the timeout.
    drop(players);
    await_nobody(&server);
    await_files(processor, before);
    assert_conserved(&server.end());
}

/// Processes that a process has started and that run.
fn children(id: u32) -> Vec<u32> {
    let path = format!("/proc/{id}/task/{id}/children");
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}
