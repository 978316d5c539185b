//! Read-ahead: frames are read during playback, by the data plane or by the frame reader process.
//! Covers the death of each process and changes to the media file. (`players.rs` compares the
//! pictures that ffmpeg decodes.)

use crate::player::{Player, Server, assert_conserved, film};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::StatusCode;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
const STREAM: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

fn kill_9(id: u64) {
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGKILL).unwrap();
}

/// The next line of standard error that says so.
fn await_line(server: &Server, says: &str) -> String {
    let end = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < end, "nothing said {says:?}");
        let line = server.line();
        if line.contains(says) {
            return line;
        }
    }
}

/// Waits until a producer reads, another one than `before`; its process.
fn await_producer(server: &Server, before: Option<u64>) -> u64 {
    let end = Instant::now() + LONG;
    loop {
        let producer = server.status()["reading"]["producer"].as_u64();
        if let Some(producer) = producer.filter(|id| Some(*id) != before) {
            return producer;
        }
        assert!(Instant::now() < end, "no producer after {before:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process has ended; its new parent may not have reaped it yet.
fn await_gone(id: u64) {
    let end = Instant::now() + LONG;
    let runs = || {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some(!text.rsplit_once(") ")?.1.starts_with('Z'))
    };
    while runs() == Some(true) {
        assert!(Instant::now() < end, "process {id} is left behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Frames that were not read in time.
fn unread(frames: &serde_json::Value) -> u64 {
    frames["unread"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum()
}

/// Frames of clients that are there that were not read in time.
fn lost(server: &Server) -> u64 {
    let status = server.status();
    status["clients"].as_array().unwrap().iter().map(|client| unread(&client["frames"])).sum()
}

/// Receives more frames on each player.
fn go_on(players: &mut [Player]) {
    for player in players {
        player.frames();
        player.watch_frames(40);
    }
}

#[test]
fn every_frame_arrives_whole_by_each_reader_and_transport() {
    for path in ["host", "producer", "ni"] {
        let media = format!(
            "placement = \"ni\"\nframe-path = \"{path}\"\nhttp = \"127.0.0.1:0\"\nsessions = 4"
        );
        let server = Server::start(60, "50 Mbps", &media, STREAM, "");
        let mut players = Player::both_ways(server.rtsp, "film");
        let reading = server.status()["reading"].clone();
        assert_eq!(reading["path"], path, "{reading}");
        assert_eq!(reading["by"].as_str().unwrap().is_empty(), path == "host", "{reading}");
        for player in &mut players {
            player.watch(LONG);
            let frames = player.frames();
            assert_eq!(frames.len(), 60, "{path}");
            assert!(frames.iter().all(|frame| frame.whole), "{path}: {frames:?}");
        }
        drop(players);
        let account = server.end();
        assert_eq!(account["frames"]["unread"], serde_json::json!([0, 0, 0]), "{account}");
        assert_conserved(&account);
    }
}

#[test]
fn the_processor_the_host_and_the_producer_may_die() {
    for path in ["producer", "ni"] {
        let media = format!(
            "placement = \"ni\"\nframe-path = \"{path}\"\nhttp = \"127.0.0.1:0\"\nsocket \
             = \"processor\"\n\
             sessions = 4\nidle-timeout = \"20 s\""
        );
        let mut server = Server::start(60, "50 Mbps", &media, STREAM, ", repeat = true");
        let mut players = Player::both_ways(server.rtsp, "film");
        go_on(&mut players);
        let old = server.processor.unwrap();
        kill_9(old.into());
        await_line(&server, "data plane process is gone");
        go_on(&mut players);
        let mut producer = None;
        if path == "producer" {
            producer = Some(await_producer(&server, None));
            kill_9(producer.unwrap());
            await_line(&server, "producer of frames is gone");
            producer = Some(await_producer(&server, producer));
            go_on(&mut players);
        }
        server.crash();
        // Who has packets by its connection ends with it.
        go_on(&mut players[..1]);
        let server = server.again();
        players[0].report();
        go_on(&mut players[..1]);
        if let Some(old) = producer {
            // The dead server's still reads; the new one's waits for its end.
            assert_eq!(server.status()["reading"]["producer"], old);
            kill_9(old);
            producer = Some(await_producer(&server, Some(old)));
            go_on(&mut players[..1]);
        }
        let processor = server.processor.unwrap();
        drop(players);
        let account = server.end();
        assert_conserved(&account);
        await_gone(processor.into());
        if let Some(producer) = producer {
            await_gone(producer);
        }
    }
}

/// Serves two films, which are read where they are.
fn two_films(path: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut text = format!(
        "[scenario]\nduration = \"1 min\"\n[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"ni\"\n\
         frame-path = \"{path}\"\nread-ahead = \"100 ms\"\nhttp = \"127.0.0.1:0\"\nsessions = 4\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n\
         [scheduler]\ndiscipline = \"dwcs\"\n"
    );
    for name in ["film", "other"] {
        // Longer than what is read ahead, so that it is read again and again.
        std::fs::write(folder.path().join(format!("{name}.m1v")), film(300)).unwrap();
        text += &format!(
            "[[stream]]\nname = \"{name}\"\nlate = \"drop\"\nperiod = \"16.666666 ms\"\n\
             first-deadline = \"500 ms\"\n\
             source = {{ kind = \"mpeg\", file = \"{name}.m1v\", repeat = true }}\n"
        );
    }
    std::fs::write(folder.path().join("media.toml"), text).unwrap();
    Server::serve(&folder.path().join("media.toml").clone(), folder)
}

#[test]
fn a_film_whose_file_is_spoilt_harms_its_own_stream_alone() {
    for (path, how, says) in [
        ("ni", "truncated", "truncated"),
        ("producer", "changed", "changed"),
        ("ni", "deleted", ""),
    ] {
        let server = two_films(path);
        let mut players = ["film", "other"].map(|name| {
            let mut player = Player::open(server.rtsp, name);
            assert_eq!(player.set_up(false).status(), StatusCode::Ok);
            player.play();
            player.watch_frames(5);
            player
        });
        let file = server.path("film.m1v");
        let open = || OpenOptions::new().write(true).open(&file).unwrap();
        match how {
            "truncated" => open().set_len(1000).unwrap(),
            "changed" => {
                let length = open().metadata().unwrap().len();
                let zeros = vec![0; usize::try_from(length - 100_000).unwrap()];
                open().write_all_at(&zeros, 100_000).unwrap();
            }
            _ => std::fs::remove_file(&file).unwrap(),
        }
        if !says.is_empty() {
            let line = await_line(&server, says);
            assert!(line.contains("film.m1v") && line.contains("left out"), "{line}");
        }
        // By turns, so that no socket's buffer overflows; until what was read before is played.
        let (begun, mut rounds) = (Instant::now(), 0);
        while rounds < 10 || (!says.is_empty() && lost(&server) == 0) {
            assert!(begun.elapsed() < LONG, "{how}: no frame is unread");
            players.iter_mut().for_each(|player| player.watch(Duration::from_millis(60)));
            rounds += 1;
        }
        let frames = players[1].frames();
        assert!(frames.len() > 30, "{how}: {} frames", frames.len());
        // The last may not have come whole yet.
        let before = &frames[..frames.len() - 1];
        assert!(before.iter().all(|frame| frame.whole), "{how}: {before:?}");
        // Frames that came came whole, though not all came.
        let spoilt = players[0].frames();
        let before = &spoilt[..spoilt.len() - 1];
        assert!(before.iter().all(|frame| frame.whole), "{how}: {before:?}");
        let account = server.end();
        assert_eq!(unread(&account["frames"]) > 0, how != "deleted", "{how}: {account}");
        assert_conserved(&account);
    }
}

#[test]
fn what_cannot_be_read_ahead_is_an_error_that_says_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), film(60)).unwrap();
    for (keys, parts) in [
        ("store = \"1 MB\"", ["256 sessions need", "a shorter `read-"]),
        ("frame-folder = \"none\"", ["stream `film`", "none"]),
    ] {
        let file = folder.path().join("media.toml");
        let text = format!(
            "[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"ni\"\nframe-path = \"ni\"\n{keys}\n\
             [link]\n\
             rate = \"1 Mbps\"\n[scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\nname = \"film\"\n\
             {STREAM}\n\
             late = \"drop\"\nsource = {{ kind = \"mpeg\", file = \"film.m1v\" }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"));
        let output = command.args(["serve", "--for", "1 s"]).arg(&file).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap().replace("\n  │ ", " ");
        assert_eq!(output.status.code(), Some(2), "{error}");
        for part in parts {
            assert!(error.contains(part), "{error:?} lacks {part:?}");
        }
    }
}
