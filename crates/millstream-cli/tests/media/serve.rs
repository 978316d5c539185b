//! `millstream serve` from a player's side: what arrives, what is refused, what survives which
//! crash.

use crate::player::{self, Player, Seen, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::{Method, StatusCode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
const DEADLINE: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

fn numbers(value: &serde_json::Value) -> [u64; 3] {
    [0, 1, 2].map(|kind| value[kind].as_u64().unwrap())
}

fn kill_9(id: u32) {
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGKILL).unwrap();
}

/// Waits until the process is gone; a zombie is.
fn wait_gone(id: u32) {
    let end = Instant::now() + LONG;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        assert!(Instant::now() < end, "process {id} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_frame_arrives_whole_by_either_transport_and_placement() {
    for placement in ["host", "ni"] {
        let media = format!("placement = \"{placement}\"");
        let server = Server::start(60, "50 Mbps", &media, DEADLINE, "");
        let mut players = Player::both_ways(server.rtsp, "film");
        for player in &mut players {
            player.watch(LONG);
            assert!(player.bye, "the film's end is told");
            let frames = player.frames();
            assert!(frames.iter().all(|frame| frame.whole), "{frames:?}");
            assert_eq!(Player::kinds(&frames), [10, 10, 40], "{placement}");
        }
        let account = server.end();
        assert_eq!(numbers(&account["frames"]["sent"]), [20, 20, 80], "{account}");
    }
}

#[test]
fn what_does_not_fit_is_b_frames_and_what_arrives_is_what_was_counted() {
    // A round of the film is 13,800 bytes in 0.1 s, 1.15 Mb/s with headers; two of six frames, B,
    // may go: 0.95 Mb/s must come.
    let stream = format!("{DEADLINE}\nwindow = \"2/6\"");
    let server = Server::start(180, "3.1 Mbps", "", &stream, "");
    let mut players: Vec<Player> = (0..3).map(|_| Player::open(server.rtsp, "film")).collect();
    for player in &mut players {
        assert_eq!(player.set_up(false).status(), StatusCode::Ok);
        player.play();
    }
    let watching = players.into_iter().map(|mut player| {
        std::thread::spawn(move || {
            player.watch(LONG);
            assert!(player.bye);
            player.frames()
        })
    });
    let clients: Vec<Vec<Seen>> =
        watching.collect::<Vec<_>>().into_iter().map(|watching| watching.join().unwrap()).collect();
    let account = server.end();
    let frames = &account["frames"];
    let kinds = clients.iter().map(|frames| Player::kinds(frames));
    let seen = kinds.fold([0; 3], |sum, kinds| [0, 1, 2].map(|kind| sum[kind] + kinds[kind]));
    assert_eq!(numbers(&frames["sent"]), seen, "{account}");
    let late = numbers(&frames["dropped_late"]);
    assert!(late[2] > 0, "{account}");
    assert!(clients.iter().flatten().all(|frame| frame.whole));
    // A machine that stops the server for longer than a millisecond can cost more.
    if frames["violations"] == 0 {
        for frames in &clients {
            let there = player::coding_numbers(frames);
            let missing = (0..180).filter(|number| !there.contains(number));
            // Of each block of six the last two B-frames may go, and nothing else does.
            assert!(missing.clone().all(|number| matches!(number % 6, 4 | 5)), "{account}");
        }
        assert_eq!(late[..2], [0, 0], "{account}");
    }
}

#[test]
fn who_does_not_fit_is_refused_with_a_reason() {
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
    assert!(why.contains(&format!("/film/{offered} has room: at most")), "{why}");
    let mut other = Player::open(server.rtsp, "film");
    other.turn_to(server.rtsp, &format!("film/{offered}"));
    let described = other.ask(Method::Describe, &[]);
    assert_eq!(described.status(), StatusCode::Ok);
    assert_eq!(other.set_up(false).status(), StatusCode::Ok);
    other.play();
    other.watch(LONG);
    assert!(other.bye);
    let frames = other.frames();
    assert!(frames.iter().all(|frame| frame.whole));
    assert_eq!(Player::kinds(&frames)[0], 10);
    let page = server.page("/admission");
    assert!(page.contains(&format!("film/{offered}: ")), "{page}");
    assert_eq!(other.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    assert!(
        page.contains("1 refused") && page.contains("refused; the frames that must go"),
        "{page}"
    );
    assert!(server.page("/metrics").contains("millstream_media_refused_total 1"));
    assert!(server.page("/else").starts_with("HTTP/1.1 404"));
    // A closed session frees its slot.
    assert_eq!(admitted[0].ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    assert_eq!(third.set_up(false).status(), StatusCode::Ok);
    let account = server.end();
    assert_eq!((&account["admitted"], &account["refused"]), (&4.into(), &1.into()));
}

#[test]
fn a_player_may_pause_and_go_on() {
    let server = Server::start(60, "50 Mbps", "", DEADLINE, "");
    let mut player = Player::open(server.rtsp, "film");
    let described = player.ask(Method::Describe, &[]);
    let description = String::from_utf8(described.body().clone()).unwrap();
    assert!(description.contains("a=rtpmap:32 MPV/90000"), "{description}");
    player.set_up(false);
    player.play();
    player.watch_frames(5);
    assert_eq!(player.ask(Method::Pause, &[]).status(), StatusCode::Ok);
    player.watch(Duration::from_millis(300));
    let before = player.frames().len();
    assert!(before < 60);
    assert_eq!(player.ask(Method::GetParameter, &[]).status(), StatusCode::Ok);
    player.play();
    player.watch(LONG);
    assert_eq!(before + player.frames().len(), 60);
    server.end();
}

#[test]
fn a_processor_that_dies_is_replaced_and_clients_play_on() {
    let media = "placement = \"ni\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, ", repeat = true");
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.watch_frames(1);
    player.frames();
    kill_9(server.processor.unwrap());
    assert!(server.line().contains("starting another"));
    player.watch_frames(20);
    let account = server.end();
    assert_eq!(account["processors"], 2, "{account}");
    // How many frames the gap cost depends on when it came; none is unaccounted for.
    let frames = &account["frames"];
    let [sent, late, full] = ["sent", "dropped_late", "dropped_full"]
        .map(|what| numbers(&frames[what]).iter().sum::<u64>());
    let gone = frames["lost"].as_u64().unwrap() + frames["discarded"].as_u64().unwrap();
    assert_eq!(frames["released"], sent + late + full + gone, "{account}");
    assert_eq!(frames["unaccounted"], 0, "{account}");
}

#[test]
fn clients_play_on_when_the_host_dies_as_long_as_they_are_there() {
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
        // Half a second's: all rounds take longer than the timeout.
        player.watch_frames(30);
    }
    // It says no more that it is there.
    wait_gone(server.processor.unwrap());
}

#[test]
fn a_server_that_is_started_again_takes_its_clients_over() {
    let media = "placement = \"ni\"\nsocket = \"processor\"\nidle-timeout = \"20 s\"";
    let mut server = Server::start(60, "50 Mbps", media, DEADLINE, ", repeat = true");
    let processor = server.processor.unwrap();
    let mut players = Player::both_ways(server.rtsp, "film");
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
        let server = server.again();
        started.store(true, Ordering::Relaxed);
        server
    });
    assert_eq!(server.processor, Some(processor));
    // The other had its packets by the connection that is gone.
    assert_eq!(server.line(), "taken over from a server before: 1 clients");
    player.watch(Duration::from_millis(500));
    let frames = player.frames();
    // More than came before the crash, and none missing in between.
    assert!(frames.len() > 40, "{} frames", frames.len());
    let last = frames.len() - 1;
    assert!(frames[..last].iter().all(|frame| frame.whole), "{frames:?}");

    // A second server must not take what has one.
    let mut second = Command::new(env!("CARGO_BIN_EXE_millstream"));
    let second = second.args(["serve", "--for", "1 s", "media.toml"]);
    let output = second.current_dir(server.path("").as_path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).replace("\n  │ ", " ");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the server of the data plane there runs"), "{error}");

    // The session is asked for by a new connection, and ends with it.
    player.reconnect(server.rtsp, "film");
    assert_eq!(player.ask(Method::Pause, &[]).status(), StatusCode::Ok);
    player.watch(Duration::from_millis(300));
    player.frames();
    player.watch(Duration::from_millis(300));
    assert_eq!(player.frames(), []);
    player.play();
    player.watch(Duration::from_millis(300));
    assert!(!player.frames().is_empty());

    // The server did not start this processor, and replaces it all the same.
    kill_9(processor);
    assert!(server.line().contains("starting another"));
    player.watch(Duration::from_secs(1));
    assert!(player.frames().len() > 20);
    assert_eq!(player.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    let account = server.end();
    assert_eq!((&account["admitted"], &account["processors"]), (&1.into(), &2.into()));
}

#[test]
fn what_is_no_request_is_answered_or_closed_and_others_are_served() {
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
    // More connections than there may be: those beyond are closed, idle ones after a while.
    let idle: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.rtsp).unwrap()).collect();
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    }
    let mut player = Player::open(server.rtsp, "film");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    server.end();
}

/// Kilobytes of memory that a process has.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_idle_connections_cost_little_and_disturb_nobody() {
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
    // The last is there: it is answered.
    idle[999].write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    idle[999].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"RTSP/1.0 200");
    // One more takes the place of the oldest that has asked for nothing, the first of them.
    let mut beyond = TcpStream::connect(server.rtsp).unwrap();
    beyond.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
    beyond.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"RTSP/1.0 200");
    assert_eq!(idle[0].read(&mut [0; 10]).unwrap(), 0);
    let each = resident(server.child.id()).saturating_sub(before) * 1024 / 1000;
    assert!(each < 16 << 10, "{each} bytes a connection");
    player.play();
    player.watch(LONG);
    assert!(player.bye);
    let frames = player.frames();
    assert_eq!(frames.iter().filter(|frame| frame.whole).count(), 120);
    // Those who go make room.
    drop(idle);
    let end = Instant::now() + LONG;
    loop {
        let mut next = TcpStream::connect(server.rtsp).unwrap();
        let _ = next.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        if next.read(&mut answer).is_ok_and(|count| count > 0) {
            break;
        }
        assert!(Instant::now() < end, "no place");
    }
    assert_eq!(server.end()["evicted"], 1);
}

#[test]
fn a_scanners_worth_of_requests_is_answered_or_closed() {
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
        // Nothing is answered at a length that would be worth an attack.
        assert!(answer.len() < 1_000, "{} bytes to {}", answer.len(), bytes.len());
    }
    assert_eq!(closed + refused + done, 1_000);
    assert!(closed > 50 && refused > 200 && done > 50, "{closed} {refused} {done}");
    let mut player = Player::open(server.rtsp, "film");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    player.watch(LONG);
    assert_eq!(Player::kinds(&player.frames()), [10, 10, 40]);
    server.end();
}

#[test]
fn a_client_that_goes_away_without_a_word_is_forgotten() {
    let server = Server::start(60, "1.3 Mbps", "", DEADLINE, ", repeat = true");
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.watch(Duration::from_millis(200));
    drop(player);
    let end = Instant::now() + LONG;
    let mut next = Player::open(server.rtsp, "film");
    while next.set_up(false).status() != StatusCode::Ok {
        assert!(Instant::now() < end);
    }
    server.end();
}

#[test]
fn a_file_that_cannot_be_served_is_an_error_that_says_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.m1v");
    std::fs::write(&film, player::film(12)).unwrap();
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
fn a_file_in_the_place_of_the_socket_stays_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), player::film(12)).unwrap();
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
    assert!(error.contains("film.m1v") && error.contains("choose a place for `socket`"), "{error}");
    assert_eq!(std::fs::read(folder.path().join("film.m1v")).unwrap(), player::film(12));
}

/// `/status`, which the dashboard draws, and `millstream top` say of each client what it got.
#[test]
fn each_client_s_numbers_are_shown_while_it_plays() {
    for placement in ["host", "ni"] {
        let media = format!("http = \"127.0.0.1:0\"\nplacement = \"{placement}\"");
        let stream = format!("{DEADLINE}\nwindow = \"1/6\"");
        let server = Server::start(60, "50 Mbps", &media, &stream, ", repeat = true");
        let page = server.page("/");
        assert!(page.contains("text/html") && page.contains("script-src 'sha256-"), "{page}");
        let mut players = Player::both_ways(server.rtsp, "film");
        players.iter_mut().for_each(|player| player.watch_frames(20));
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
fn a_server_that_is_to_terminate_lets_films_play_out_and_begins_none() {
    let server = Server::start(120, "50 Mbps", "http = \"127.0.0.1:0\"", DEADLINE, "");
    let mut players = Player::both_ways(server.rtsp, "film");
    // One that does not play is not waited for.
    let mut idle = Player::open(server.rtsp, "film");
    assert_eq!(idle.set_up(false).status(), StatusCode::Ok);
    players[0].watch_frames(5);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.line(), "draining: 2 clients play on, for at most 30s");
    let mut late = Player::open(server.rtsp, "film");
    let refused = late.set_up(false);
    assert_eq!(refused.status(), StatusCode::ServiceUnavailable);
    let why = String::from_utf8(refused.body().clone()).unwrap();
    assert!(why.starts_with("the server is draining"), "{why}");
    let metrics = server.page("/metrics");
    for line in ["millstream_media_turned_away_total 1", "millstream_media_draining 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    // By turns: one that does not read for as long as `first-deadline` would lose frames.
    let end = Instant::now() + LONG;
    while players.iter().any(|player| !player.bye) {
        assert!(Instant::now() < end, "the film's end is told");
        players.iter_mut().for_each(|player| player.watch(Duration::from_millis(20)));
    }
    for player in &mut players {
        assert_eq!(player.frames().iter().filter(|frame| frame.whole).count(), 120);
    }
    assert_eq!(server.line(), "drained: no clip runs any more");
    let account = server.ended();
    assert_eq!((&account["turned_away"], &account["cut_off"]), (&1.into(), &0.into()), "{account}");
}

#[test]
fn films_that_do_not_end_are_cut_off_when_the_drain_has_lasted_long_enough() {
    for placement in ["host", "ni"] {
        let media = format!("placement = \"{placement}\"\ndrain-timeout = \"500 ms\"");
        let server = Server::start(60, "50 Mbps", &media, DEADLINE, ", repeat = true");
        let mut player = Player::open(server.rtsp, "film");
        player.set_up(false);
        player.play();
        player.watch_frames(5);
        server.signal(Signal::SIGTERM);
        player.watch(LONG);
        assert!(player.bye, "who is cut off is told so");
        assert_eq!(server.line(), "draining: 1 clients play on, for at most 500ms");
        assert_eq!(server.line(), "drained for 500ms: 1 clients are cut off");
        let account = server.ended();
        assert_eq!((&account["cut_off"], &account["processors"]), (&1.into(), &1.into()));
    }
}

#[test]
fn a_terminal_that_goes_away_ends_it_as_ctrl_c_does() {
    let server = Server::start(60, "50 Mbps", "", DEADLINE, ", repeat = true");
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.watch_frames(5);
    server.signal(Signal::SIGHUP);
    player.watch(LONG);
    assert!(player.bye);
    assert_eq!(server.ended()["turned_away"], 0);
}
