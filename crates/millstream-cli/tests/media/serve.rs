//! Tests of `millstream serve` with players: received frames, refusals, and recovery from crashes.

use crate::player::{self, Player, ReceivedFrame, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::{Method, StatusCode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const DEADLINE: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

fn numbers(value: &serde_json::Value) -> [u64; 3] {
    [0, 1, 2].map(|kind| value[kind].as_u64().unwrap())
}

fn kill_9(id: u32) {
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGKILL).unwrap();
}

/// Waits until a process has ended; a zombie has ended.
fn await_exit(id: u32) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        assert!(Instant::now() < end, "process {id} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_frame_arrives_complete_with_each_transport_and_placement() {
    for placement in ["host", "ni"] {
        let media = format!("placement = \"{placement}\"");
        let server = Server::start(60, "50 Mbps", &media, DEADLINE, "");
        let mut players = Player::udp_and_interleaved(server.rtsp, "film");
        for player in &mut players {
            player.watch(TIMEOUT);
            assert!(player.bye, "RTCP BYE at the end");
            let frames = player.frames();
            assert!(frames.iter().all(|frame| frame.whole), "{frames:?}");
            assert_eq!(Player::kinds(&frames), [10, 10, 40], "{placement}");
        }
        let account = server.end();
        assert_eq!(numbers(&account["frames"]["sent"]), [20, 20, 80], "{account}");
    }
}

#[test]
fn overload_drops_only_b_frames_and_the_counters_match() {
    // One pattern of the file is 13,800 bytes in 0.1 s, 1.15 Mbit/s with headers. Two of six
    // frames, B-frames, may be lost: 0.95 Mbit/s must arrive.
    let stream = format!("{DEADLINE}\nwindow = \"2/6\"");
    let server = Server::start(180, "3.1 Mbps", "", &stream, "");
    let mut players: Vec<Player> = (0..3).map(|_| Player::open(server.rtsp, "film")).collect();
    for player in &mut players {
        assert_eq!(player.set_up(false).status(), StatusCode::Ok);
        player.play();
    }
    let watching = players.into_iter().map(|mut player| {
        std::thread::spawn(move || {
            player.watch(TIMEOUT);
            assert!(player.bye);
            player.frames()
        })
    });
    let clients: Vec<Vec<ReceivedFrame>> =
        watching.collect::<Vec<_>>().into_iter().map(|watching| watching.join().unwrap()).collect();
    let account = server.end();
    let frames = &account["frames"];
    let kinds = clients.iter().map(|frames| Player::kinds(frames));
    let seen = kinds.fold([0; 3], |sum, kinds| [0, 1, 2].map(|kind| sum[kind] + kinds[kind]));
    assert_eq!(numbers(&frames["sent"]), seen, "{account}");
    let late = numbers(&frames["dropped_late"]);
    assert!(late[2] > 0, "{account}");
    assert!(clients.iter().flatten().all(|frame| frame.whole));
    // A machine that stalls the server for more than a millisecond can cause violations.
    if frames["violations"] == 0 {
        for frames in &clients {
            let received = player::coding_numbers(frames);
            let missing = (0..180).filter(|number| !received.contains(number));
            // Only the last two B-frames of each block of six may be lost.
            assert!(missing.clone().all(|number| matches!(number % 6, 4 | 5)), "{account}");
        }
        assert_eq!(late[..2], [0, 0], "{account}");
    }
}

#[test]
fn clients_beyond_the_capacity_are_refused_with_a_reason() {
    let stream = format!("{DEADLINE}\nwindow = \"2/6\"");
    let server = Server::start(60, "2.6 Mbps", "http = \"127.0.0.1:0\"", &stream, "");
    let mut admitted: Vec<Player> = (0..2).map(|_| Player::open(server.rtsp, "film")).collect();
    for player in &mut admitted {
        assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    }
    let mut third = Player::open(server.rtsp, "film");
    let refused = third.set_up(false);
    assert_eq!(refused.status(), StatusCode::NotEnoughBandwidth);
    let why = String::from_utf8(refused.body().clone()).unwrap();
    assert!(why.contains("of the link's 2600000 bits/s"), "{why}");
    // Admission offers a looser window, and accepts it.
    let offered = rtsp_types::HeaderName::try_from("X-Offered-Window").unwrap();
    let offered = refused.header(&offered).expect("an offer").as_str();
    assert!(["3/6", "4/6", "5/6"].contains(&offered), "{offered}");
    assert!(why.contains(&format!("/film/{offered} would be admitted: at most")), "{why}");
    let mut other = Player::open(server.rtsp, "film");
    other.set_url(server.rtsp, &format!("film/{offered}"));
    let described = other.ask(Method::Describe, &[]);
    assert_eq!(described.status(), StatusCode::Ok);
    assert_eq!(other.set_up(false).status(), StatusCode::Ok);
    other.play();
    other.watch(TIMEOUT);
    assert!(other.bye);
    let frames = other.frames();
    assert!(frames.iter().all(|frame| frame.whole));
    assert_eq!(Player::kinds(&frames)[0], 10);
    let page = server.page("/admission");
    assert!(page.contains(&format!("film/{offered}: ")), "{page}");
    assert_eq!(other.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    assert!(page.contains("1 refused") && page.contains("refused; the mandatory frames"), "{page}");
    assert!(server.page("/metrics").contains("millstream_media_refused_total 1"));
    assert!(server.page("/else").starts_with("HTTP/1.1 404"));
    // A closed session frees its slot.
    assert_eq!(admitted[0].ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    assert_eq!(third.set_up(false).status(), StatusCode::Ok);
    let account = server.end();
    assert_eq!((&account["admitted"], &account["refused"]), (&4.into(), &1.into()));
}

#[test]
fn a_player_can_pause_and_resume() {
    let server = Server::start(60, "50 Mbps", "", DEADLINE, "");
    let mut player = Player::open(server.rtsp, "film");
    let described = player.ask(Method::Describe, &[]);
    let description = String::from_utf8(described.body().clone()).unwrap();
    assert!(description.contains("a=rtpmap:32 MPV/90000"), "{description}");
    player.set_up(false);
    player.play();
    player.receive_frames(5);
    assert_eq!(player.ask(Method::Pause, &[]).status(), StatusCode::Ok);
    player.watch(Duration::from_millis(300));
    let before = player.frames().len();
    assert!(before < 60);
    assert_eq!(player.ask(Method::GetParameter, &[]).status(), StatusCode::Ok);
    player.play();
    player.watch(TIMEOUT);
    assert_eq!(before + player.frames().len(), 60);
    server.end();
}

#[test]
fn a_crashed_data_plane_is_replaced_and_clients_continue() {
    let media = "placement = \"ni\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, ", repeat = true");
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.receive_frames(1);
    player.frames();
    kill_9(server.data_plane.unwrap());
    assert!(server.line().contains("starting another"));
    player.receive_frames(20);
    let account = server.end();
    assert_eq!(account["processors"], 2, "{account}");
    // The number of lost frames depends on the time of the crash; all are accounted for.
    let frames = &account["frames"];
    let [sent, late, full] = ["sent", "dropped_late", "dropped_full"]
        .map(|what| numbers(&frames[what]).iter().sum::<u64>());
    let lost = frames["lost"].as_u64().unwrap() + frames["discarded"].as_u64().unwrap();
    assert_eq!(frames["released"], sent + late + full + lost, "{account}");
    assert_eq!(frames["unaccounted"], 0, "{account}");
}

#[test]
fn clients_of_a_dead_host_play_until_they_stop_reporting() {
    let media = "placement = \"ni\"\nidle-timeout = \"1 s\"";
    let mut server = Server::start(60, "50 Mbps", media, DEADLINE, ", repeat = true");
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.watch(Duration::from_millis(200));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    for _ in 0..5 {
        player.frames();
        player.report();
        // A round takes half a second, so all rounds take longer than the timeout.
        player.receive_frames(30);
    }
    // The player sends no more reports.
    await_exit(server.data_plane.unwrap());
}

#[test]
fn a_restarted_server_takes_over_its_clients() {
    let media = "placement = \"ni\"\nsocket = \"processor\"\nidle-timeout = \"20 s\"";
    let mut server = Server::start(60, "50 Mbps", media, DEADLINE, ", repeat = true");
    let data_plane = server.data_plane.unwrap();
    let mut players = Player::udp_and_interleaved(server.rtsp, "film");
    let player = &mut players[0];
    player.watch(Duration::from_millis(200));
    server.crash();
    player.watch(Duration::from_millis(500));
    let started = AtomicBool::new(false);
    let server = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !started.load(Ordering::Relaxed) {
                player.watch(Duration::from_millis(50));
            }
        });
        let server = server.restart();
        started.store(true, Ordering::Relaxed);
        server
    });
    assert_eq!(server.data_plane, Some(data_plane));
    // The interleaved client ended with its connection.
    assert_eq!(server.line(), "1 client taken over from the previous server");
    player.watch(Duration::from_millis(500));
    let frames = player.frames();
    // Frames continue after the crash without a gap.
    assert!(frames.len() > 40, "{} frames", frames.len());
    let last = frames.len() - 1;
    assert!(frames[..last].iter().all(|frame| frame.whole), "{frames:?}");

    // A second server must not take over a data plane that has a server.
    let mut second = Command::new(env!("CARGO_BIN_EXE_millstream"));
    let second = second.args(["serve", "--for", "1 s", "media.toml"]);
    let output = second.current_dir(server.path("").as_path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).replace("\n  │ ", " ");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("another server uses this data plane"), "{error}");

    // A new connection controls the session, and ends it.
    player.reconnect(server.rtsp, "film");
    assert_eq!(player.ask(Method::Pause, &[]).status(), StatusCode::Ok);
    player.watch(Duration::from_millis(300));
    player.frames();
    player.watch(Duration::from_millis(300));
    assert_eq!(player.frames(), []);
    player.play();
    player.watch(Duration::from_millis(300));
    assert!(!player.frames().is_empty());

    // The server replaces the data plane although it did not start it.
    kill_9(data_plane);
    assert!(server.line().contains("starting another"));
    player.watch(Duration::from_secs(1));
    assert!(player.frames().len() > 20);
    assert_eq!(player.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    let account = server.end();
    assert_eq!((&account["admitted"], &account["processors"]), (&1.into(), &2.into()));
}

#[test]
fn invalid_requests_are_refused_or_closed_and_valid_clients_served() {
    let media = "connections = 20\nconnections-per-address = 20\nidle-timeout = \"1 s\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, "");
    let long = [b"OPTIONS * RTSP/1.0\r\nX: ".as_slice(), &[b'x'; 100_000]].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SETUP rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 999999\r\n\r\n",
        b"$\x00\xff\xff",
        &long,
        &[0; 5000],
    ] {
        let mut stream = TcpStream::connect(server.rtsp).unwrap();
        // The server may close before all is written.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"RTSP/1.0 4"), "{bytes:?}: {answer:?}");
    }
    // More connections than the limit: the excess is closed, and idle connections time out.
    let idle: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.rtsp).unwrap()).collect();
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    }
    let mut player = Player::open(server.rtsp, "film");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    server.end();
}

/// Returns the resident memory of a process, kB.
pub(crate) fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_idle_connections_cost_little_memory_and_do_not_disturb_players() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(4_096), most).unwrap();
    let server = Server::start(
        120,
        "50 Mbps",
        "connections = 1001\nconnections-per-address = 2000",
        DEADLINE,
        "",
    );
    let mut player = Player::open(server.rtsp, "film");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    let before = resident(server.child.id());
    let mut idle: Vec<TcpStream> =
        (0..1000).map(|_| TcpStream::connect(server.rtsp).unwrap()).collect();
    // The last connection is served.
    idle[999].write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    idle[999].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"RTSP/1.0 200");
    // One more connection evicts the oldest one without a request, which is the first.
    let mut beyond = TcpStream::connect(server.rtsp).unwrap();
    beyond.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
    beyond.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"RTSP/1.0 200");
    assert_eq!(idle[0].read(&mut [0; 10]).unwrap(), 0);
    let each = resident(server.child.id()).saturating_sub(before) * 1024 / 1000;
    assert!(each < 16 << 10, "{each} bytes a connection");
    player.play();
    player.watch(TIMEOUT);
    assert!(player.bye);
    let frames = player.frames();
    assert_eq!(frames.iter().filter(|frame| frame.whole).count(), 120);
    // Closed connections free their slots.
    drop(idle);
    let end = Instant::now() + TIMEOUT;
    loop {
        let mut next = TcpStream::connect(server.rtsp).unwrap();
        let _ = next.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        if next.read(&mut answer).is_ok_and(|count| count > 0) {
            break;
        }
        assert!(Instant::now() < end, "no free slot");
    }
    assert_eq!(server.end()["evicted"], 1);
}

#[test]
fn requests_of_port_scanners_are_answered_or_closed() {
    let media = "connections = 20\nconnections-per-address = 20\nidle-timeout = \"2 s\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, "");
    let seeds: [&[u8]; 9] = [
        b"OPTIONS rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n",
        b"DESCRIBE rtsp://h/film RTSP/1.0\r\nCSeq: 2\r\nAccept: application/sdp\r\n\r\n",
        b"SETUP rtsp://h/film/video RTSP/1.0\r\nCSeq: 3\r\nTransport: RTP/AVP;unicast;client_port=5000-5001\r\n\r\n",
        b"PLAY rtsp://h/film RTSP/1.0\r\nCSeq: 4\r\nSession: 0123456789abcdef\r\nRange: npt=0-\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n",
        b"OPTIONS sip:nm SIP/2.0\r\nVia: SIP/2.0/TCP nm;branch=foo\r\nCall-ID: 50000\r\n\r\n",
        b"SETUP rtsp://h/film/2/6/video?token=x RTSP/1.0\r\nCSeq: 3\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x01\x14\x0a\x14",
        b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00Cookie: mstshash=nmap\r\n",
    ];
    let [mut closed, mut refused, mut done] = [0; 3];
    for bytes in player::mangled(&seeds, 1_000) {
        let mut stream = TcpStream::connect(server.rtsp).unwrap();
        let _ = stream.write_all(&bytes);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        match answer.get(..10) {
            None => closed += 1,
            Some(b"RTSP/1.0 2") => done += 1,
            Some(b"RTSP/1.0 4" | b"RTSP/1.0 5") => refused += 1,
            Some(_) => panic!("{:?}", String::from_utf8_lossy(&answer)),
        }
        // Answers are short, so that the server does not amplify attacks.
        assert!(answer.len() < 1_000, "{} bytes to {}", answer.len(), bytes.len());
    }
    assert_eq!(closed + refused + done, 1_000);
    assert!(closed > 50 && refused > 200 && done > 50, "{closed} {refused} {done}");
    let mut player = Player::open(server.rtsp, "film");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    player.watch(TIMEOUT);
    assert_eq!(Player::kinds(&player.frames()), [10, 10, 40]);
    server.end();
}

/// The RTCP BYE of a closed session comes from the data plane when another client may already have
/// the place of its connection.
#[test]
fn a_client_gets_no_packet_of_the_one_before_it() {
    let server = Server::start(60, "50 Mbps", "connections = 2", DEADLINE, ", repeat = true");
    for round in 0..40 {
        let mut player = Player::open(server.rtsp, "film");
        assert_eq!(player.set_up(true).status(), StatusCode::Ok);
        player.play();
        drop(player);
        let mut next = TcpStream::connect(server.rtsp).unwrap();
        next.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
        next.set_read_timeout(Some(TIMEOUT)).unwrap();
        let text = player::read_head(&mut next);
        assert!(text.starts_with("RTSP/1.0 200"), "round {round}: {text}");
        next.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let more = next.read(&mut [0; 400]);
        let nothing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(more.as_ref().is_err_and(nothing), "round {round}: {more:?}");
    }
    server.end();
}

#[test]
fn a_vanished_client_frees_its_bandwidth() {
    let server = Server::start(60, "1.3 Mbps", "", DEADLINE, ", repeat = true");
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.watch(Duration::from_millis(200));
    drop(player);
    let end = Instant::now() + TIMEOUT;
    let mut next = Player::open(server.rtsp, "film");
    while next.set_up(false).status() != StatusCode::Ok {
        assert!(Instant::now() < end);
    }
    server.end();
}

#[test]
fn an_unsupported_file_is_an_error_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.m1v");
    std::fs::write(&film, player::test_video(12)).unwrap();
    for (change, parts) in [
        ("", vec!["period of 40000000 ns", "16666666"]),
        ("late = \"send\"", vec!["dropped whole", "late = \"drop\""]),
        ("name", vec!["valid in a URL"]),
    ] {
        let name = if change == "name" { "a film" } else { "film" };
        let late = if change.starts_with("late") { change } else { "late = \"drop\"" };
        let file = folder.path().join("media.toml");
        let text = format!(
            "[media]\nlisten = \"127.0.0.1:0\"\n[link]\nrate = \"1 Mbps\"\n[scheduler]\n\
             discipline = \"dwcs\"\n[[stream]]\nname = \"{name}\"\nperiod = \"40 ms\"\n{late}\n\
             source = {{ kind = \"mpeg\", file = \"film.m1v\" }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        let output = command.args(["serve", "--for", "1 s"]).arg(&file).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap().replace("\n  │ ", " ");
        assert_eq!(output.status.code(), Some(2), "{error}");
        for part in parts {
            assert!(error.contains(part), "{error:?} lacks {part:?}");
        }
    }
}

#[test]
fn a_file_at_the_path_of_the_socket_is_kept_and_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), player::test_video(12)).unwrap();
    let file = folder.path().join("media.toml");
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"ni\"\nsocket = \"film.m1v\"\n[link]\n\
         rate = \"1 Gbps\"\n[scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\nname = \"film\"\n\
         late = \"drop\"\n{DEADLINE}\nsource = {{ kind = \"mpeg\", file = \"film.m1v\" }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    let command = command.args(["serve", "--for", "1 s"]).arg(&file).current_dir(&folder);
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap().replace("\n  │ ", " ");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("film.m1v") && error.contains("set `socket` to an unused path"),
        "{error}"
    );
    assert_eq!(std::fs::read(folder.path().join("film.m1v")).unwrap(), player::test_video(12));
}

/// `/status`, which the dashboard draws, and `millstream top` show the counters of each client.
#[test]
fn status_and_top_show_each_client_during_playback() {
    for placement in ["host", "ni"] {
        let media = format!("http = \"127.0.0.1:0\"\nplacement = \"{placement}\"");
        let stream = format!("{DEADLINE}\nwindow = \"1/6\"");
        let server = Server::start(60, "50 Mbps", &media, &stream, ", repeat = true");
        let page = server.page("/");
        assert!(page.contains("text/html") && page.contains("script-src 'sha256-"), "{page}");
        let mut players = Player::udp_and_interleaved(server.rtsp, "film");
        players.iter_mut().for_each(|player| player.receive_frames(20));
        players.iter_mut().for_each(|player| {
            assert_eq!(player.ask(Method::Pause, &[]).status(), StatusCode::Ok);
            player.watch(Duration::from_millis(300));
        });
        let status = server.status();
        assert_eq!(status["placement"], placement);
        assert_eq!(status["cpu"]["ni_ns"].is_u64(), placement == "ni", "{status}");
        assert!(status["cpu"]["host_ns"].as_u64().unwrap() > 0, "{status}");
        let clients = status["clients"].as_array().unwrap();
        assert_eq!(clients.len(), 2, "{status}");
        for (player, (client, transport)) in
            players.iter_mut().zip(clients.iter().zip(["udp", "interleaved"]))
        {
            assert_eq!(client["transport"], transport);
            assert_eq!((&client["state"], &client["queued"]), (&"paused".into(), &0.into()));
            let frames = player.frames();
            assert_eq!(
                client["frames"]["sent"],
                serde_json::json!(Player::kinds(&frames)),
                "{client}"
            );
            let lost: u64 = ["late", "full"]
                .iter()
                .flat_map(|why| client["frames"][why].as_array().unwrap())
                .map(|count| count.as_u64().unwrap())
                .sum();
            let released = client["frames"]["released"].as_u64().unwrap();
            assert_eq!(released, frames.len() as u64 + lost, "{client}");
            let window = &client["window"];
            assert_eq!((&window["may_lose"], &window["of"]), (&1.into(), &6.into()));
            assert_eq!(window["released"], (released - 1) % 6 + 1, "{client}");
        }
        let top = |options: &[&str]| {
            let address = server.http.unwrap().to_string();
            let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
            command.args(["top", &address, "--every", "20 ms", "--looks", "1"]).args(options);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let text = top(&[]);
        assert!(text.contains("2 clients") && text.contains("paused"), "{text}");
        assert!(text.contains("all ") && text.contains("violations"), "{text}");
        assert_eq!(text.contains("NI process"), placement == "ni", "{text}");
        let json: serde_json::Value = serde_json::from_str(&top(&["--json"])).unwrap();
        assert_eq!(json["clients"], status["clients"]);
        server.end();
    }
}

#[test]
fn a_draining_server_finishes_running_clips_and_admits_no_client() {
    let server = Server::start(120, "50 Mbps", "http = \"127.0.0.1:0\"", DEADLINE, "");
    let mut players = Player::udp_and_interleaved(server.rtsp, "film");
    // The drain does not wait for a client that does not play.
    let mut idle = Player::open(server.rtsp, "film");
    assert_eq!(idle.set_up(false).status(), StatusCode::Ok);
    players[0].receive_frames(5);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.line(), "draining: 2 clients continue for at most 30s");
    let mut late = Player::open(server.rtsp, "film");
    let refused = late.set_up(false);
    assert_eq!(refused.status(), StatusCode::ServiceUnavailable);
    let why = String::from_utf8(refused.body().clone()).unwrap();
    assert!(why.starts_with("the server is draining"), "{why}");
    let metrics = server.page("/metrics");
    for line in ["millstream_media_turned_away_total 1", "millstream_media_draining 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    // Players read in turn: a player that does not read within `first-deadline` loses frames.
    let end = Instant::now() + TIMEOUT;
    while players.iter().any(|player| !player.bye) {
        assert!(Instant::now() < end, "RTCP BYE at the end");
        players.iter_mut().for_each(|player| player.watch(Duration::from_millis(20)));
    }
    for player in &mut players {
        assert_eq!(player.frames().iter().filter(|frame| frame.whole).count(), 120);
    }
    assert_eq!(server.line(), "drained: no clip is playing");
    let account = server.wait_for_exit();
    assert_eq!((&account["turned_away"], &account["cut_off"]), (&1.into(), &0.into()), "{account}");
}

#[test]
fn running_clips_are_cut_off_at_the_drain_timeout() {
    for placement in ["host", "ni"] {
        let media = format!("placement = \"{placement}\"\ndrain-timeout = \"500 ms\"");
        let server = Server::start(60, "50 Mbps", &media, DEADLINE, ", repeat = true");
        let mut player = Player::open(server.rtsp, "film");
        player.set_up(false);
        player.play();
        player.receive_frames(5);
        server.signal(Signal::SIGTERM);
        player.watch(TIMEOUT);
        assert!(player.bye, "a client that is cut off gets RTCP BYE");
        assert_eq!(server.line(), "draining: 1 clients continue for at most 500ms");
        assert_eq!(server.line(), "drain timeout of 500ms: disconnecting 1 clients");
        let account = server.wait_for_exit();
        assert_eq!((&account["cut_off"], &account["processors"]), (&1.into(), &1.into()));
    }
}

#[test]
fn sighup_ends_the_server_like_ctrl_c() {
    let server = Server::start(60, "50 Mbps", "", DEADLINE, ", repeat = true");
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.receive_frames(5);
    server.signal(Signal::SIGHUP);
    player.watch(TIMEOUT);
    assert!(player.bye);
    assert_eq!(server.wait_for_exit()["turned_away"], 0);
}
