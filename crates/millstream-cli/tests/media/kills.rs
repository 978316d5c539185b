//! Kills of each process at random moments: every frame is counted once, and no process, socket or
//! file remains. (`cluster.rs` kills servers of a cluster.)

use crate::player::{Player, Server, assert_conserved, await_open_files, count_open_files};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::{Method, StatusCode};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const STREAM: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

/// A client that plays and reads only 700 of the 6,000 bytes of the first frame.
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
    let end = Instant::now() + TIMEOUT;
    while metric(server, "sessions") != count.to_string() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    metric(server, "sessions") == count.to_string()
}

/// Waits until the server has no session and no reserved bandwidth.
fn await_no_sessions(server: &Server) {
    assert!(await_sessions(server, 0), "{} sessions", metric(server, "sessions"));
    assert_eq!(metric(server, "reserved_bps"), "0");
}

#[test]
fn clients_killed_within_a_frame_release_their_resources() {
    for placement in ["host", "ni"] {
        let media =
            format!("placement = \"{placement}\"\nhttp = \"127.0.0.1:0\"\nidle-timeout = \"60 s\"");
        let server = Server::start(60, "50 Mbps", &media, STREAM, ", repeat = true");
        // A first session, after which the server has opened all its permanent files.
        let mut first = Player::open(server.rtsp, "film");
        assert_eq!(first.set_up(false).status(), StatusCode::Ok);
        first.play();
        first.receive_frames(1);
        drop(first);
        await_no_sessions(&server);
        let before = count_open_files(server.child.id());
        let data_plane = server.data_plane.map(|id| (id, count_open_files(id)));
        let mut other = Player::open(server.rtsp, "film");
        assert_eq!(other.set_up(false).status(), StatusCode::Ok);
        other.play();
        other.receive_frames(1);
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
            // The server drops the killed clients long before the timeout.
            let gone = await_sessions(&server, 1);
            killed.store(true, Ordering::Relaxed);
            assert!(gone, "{} sessions", metric(&server, "sessions"));
        });
        // The remaining client loses nothing.
        other.watch(Duration::from_millis(500));
        let frames = other.frames();
        assert!(frames.len() > 30, "{} frames", frames.len());
        // The last frame may be incomplete.
        assert!(frames[..frames.len() - 1].iter().all(|frame| frame.whole), "{frames:?}");
        assert_eq!(other.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
        drop(other);
        await_no_sessions(&server);
        for (id, files) in data_plane.into_iter().chain([(server.child.id(), before)]) {
            await_open_files(id, files);
        }
        let account = server.end();
        assert_eq!(account["admitted"], 6, "{account}");
        assert_conserved(&account);
    }
}

#[test]
fn a_data_plane_killed_twice_within_a_frame_is_restarted() {
    // A frame of 6,000 bytes takes 10 ms on this link, so a kill is always within a frame.
    let media = "placement = \"ni\"\nhttp = \"127.0.0.1:0\"";
    let mut server = Server::start(60, "4.8 Mbps", media, STREAM, ", repeat = true");
    metric(&server, "sessions");
    let before = count_open_files(server.child.id());
    let mut players: Vec<Player> = (0..3).map(|_| Player::open(server.rtsp, "film")).collect();
    for player in &mut players {
        assert_eq!(player.set_up(false).status(), StatusCode::Ok);
        player.play();
    }
    for _ in 0..2 {
        players.iter_mut().for_each(|player| player.receive_frames(5));
        let of: Vec<_> = children(server.child.id());
        let [data_plane] = of[..] else { panic!("processors {of:?}") };
        server.data_plane = Some(data_plane);
        kill(Pid::from_raw(data_plane.try_into().unwrap()), Signal::SIGKILL).unwrap();
        assert!(server.line().contains("starting another"));
        for player in &mut players {
            player.frames();
            player.receive_frames(20);
        }
    }
    drop(players);
    await_no_sessions(&server);
    await_open_files(server.child.id(), before);
    let account = server.end();
    assert_eq!(account["processors"], 3, "{account}");
    assert_conserved(&account);
}

#[test]
fn sessions_of_vanished_clients_time_out_after_a_host_crash() {
    let media = "placement = \"ni\"\nsocket = \"processor\"\nhttp = \"127.0.0.1:0\"\nidle-timeout \
     = \"2 s\"";
    let mut server = Server::start(60, "50 Mbps", media, STREAM, ", repeat = true");
    let data_plane = server.data_plane.unwrap();
    let mut players = Player::udp_and_interleaved(server.rtsp, "film");
    players[0].receive_frames(5);
    // The data plane has opened all its permanent files; clients add none.
    let before = count_open_files(data_plane);
    server.crash();
    players[0].receive_frames(30);
    let server = server.restart();
    assert_eq!(server.data_plane, Some(data_plane));
    players[0].frames();
    players[0].receive_frames(30);
    // Without TEARDOWN, the timeout frees the sessions.
    drop(players);
    await_no_sessions(&server);
    await_open_files(data_plane, before);
    assert_conserved(&server.end());
}

/// Returns the child processes of a process.
fn children(id: u32) -> Vec<u32> {
    let path = format!("/proc/{id}/task/{id}/children");
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}
