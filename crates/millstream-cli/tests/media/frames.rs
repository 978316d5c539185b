//! Read-ahead: frames are read during playback, by the data plane or by the frame reader process.
//! Covers the death of each process and changes to the media file. (`players.rs` compares the
//! pictures that ffmpeg decodes.)

use crate::player::{Player, Server, assert_conserved, test_video};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::StatusCode;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const STREAM: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

fn kill_9(id: u64) {
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGKILL).unwrap();
}

/// Returns the next line of standard error that contains `text`.
fn await_line(server: &Server, text: &str) -> String {
    let end = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < end, "no line with {text:?}");
        let line = server.line();
        if line.contains(text) {
            return line;
        }
    }
}

/// Waits for a frame reader process other than `before`; returns its id.
fn await_producer(server: &Server, before: Option<u64>) -> u64 {
    let end = Instant::now() + TIMEOUT;
    loop {
        let producer = server.status()["reading"]["producer"].as_u64();
        if let Some(producer) = producer.filter(|id| Some(*id) != before) {
            return producer;
        }
        assert!(Instant::now() < end, "no frame reader after {before:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process has ended; its new parent may not have reaped it yet.
fn await_exit(id: u64) {
    let end = Instant::now() + TIMEOUT;
    let runs = || {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some(!text.rsplit_once(") ")?.1.starts_with('Z'))
    };
    while runs() == Some(true) {
        assert!(Instant::now() < end, "process {id} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the number of frames that were not read in time.
fn unread(frames: &serde_json::Value) -> u64 {
    frames["unread"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum()
}

/// Returns the number of frames of connected clients that were not read in time.
fn lost(server: &Server) -> u64 {
    let status = server.status();
    status["clients"].as_array().unwrap().iter().map(|client| unread(&client["frames"])).sum()
}

/// Receives more frames on each player.
fn go_on(players: &mut [Player]) {
    for player in players {
        player.frames();
        player.receive_frames(40);
    }
}

#[test]
fn every_frame_arrives_complete_with_each_reader_and_transport() {
    for path in ["host", "producer", "ni"] {
        let media = format!(
            "placement = \"ni\"\nframe-path = \"{path}\"\nhttp = \"127.0.0.1:0\"\nsessions = 4"
        );
        let server = Server::start(60, "50 Mbps", &media, STREAM, "");
        let mut players = Player::udp_and_interleaved(server.rtsp, "film");
        let reading = server.status()["reading"].clone();
        assert_eq!(reading["path"], path, "{reading}");
        assert_eq!(reading["by"].as_str().unwrap().is_empty(), path == "host", "{reading}");
        for player in &mut players {
            player.watch(TIMEOUT);
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
fn data_plane_host_and_frame_reader_recover_from_kills() {
    for path in ["producer", "ni"] {
        let media = format!(
            "placement = \"ni\"\nframe-path = \"{path}\"\nhttp = \"127.0.0.1:0\"\nsocket \
             = \"processor\"\n\
             sessions = 4\nidle-timeout = \"20 s\""
        );
        let mut server = Server::start(60, "50 Mbps", &media, STREAM, ", repeat = true");
        let mut players = Player::udp_and_interleaved(server.rtsp, "film");
        go_on(&mut players);
        let old = server.data_plane.unwrap();
        kill_9(old.into());
        await_line(&server, "data plane process ended");
        go_on(&mut players);
        let mut producer = None;
        if path == "producer" {
            producer = Some(await_producer(&server, None));
            kill_9(producer.unwrap());
            await_line(&server, "frame producer ended");
            producer = Some(await_producer(&server, producer));
            go_on(&mut players);
        }
        server.crash();
        // An interleaved client ends with its connection.
        go_on(&mut players[..1]);
        let server = server.restart();
        players[0].report();
        go_on(&mut players[..1]);
        if let Some(old) = producer {
            // The frame reader of the dead server still reads; the new one waits for its end.
            assert_eq!(server.status()["reading"]["producer"], old);
            kill_9(old);
            producer = Some(await_producer(&server, Some(old)));
            go_on(&mut players[..1]);
        }
        let data_plane = server.data_plane.unwrap();
        drop(players);
        let account = server.end();
        assert_conserved(&account);
        await_exit(data_plane.into());
        if let Some(producer) = producer {
            await_exit(producer);
        }
    }
}

/// Serves two media files, which are read in place.
fn serve_two_videos(path: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut text = format!(
        "[scenario]\nduration = \"1 min\"\n[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"ni\"\n\
         frame-path = \"{path}\"\nread-ahead = \"100 ms\"\nhttp = \"127.0.0.1:0\"\nsessions = 4\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n\
         [scheduler]\ndiscipline = \"dwcs\"\n"
    );
    for name in ["film", "other"] {
        // The file is longer than the read-ahead, so that frames are read repeatedly.
        std::fs::write(folder.path().join(format!("{name}.m1v")), test_video(300)).unwrap();
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
fn a_damaged_media_file_affects_only_its_own_stream() {
    for (path, how, says) in [
        ("ni", "truncated", "truncated"),
        ("producer", "changed", "changed"),
        ("ni", "deleted", ""),
    ] {
        let server = serve_two_videos(path);
        let mut players = ["film", "other"].map(|name| {
            let mut player = Player::open(server.rtsp, name);
            assert_eq!(player.set_up(false).status(), StatusCode::Ok);
            player.play();
            player.receive_frames(5);
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
            assert!(line.contains("film.m1v") && line.contains("is dropped"), "{line}");
        }
        // Players read in turn, so that no socket buffer overflows, until the read-ahead frames are
        // played.
        let (begun, mut rounds) = (Instant::now(), 0);
        while rounds < 10 || (!says.is_empty() && lost(&server) == 0) {
            assert!(begun.elapsed() < TIMEOUT, "{how}: no frame is unread");
            players.iter_mut().for_each(|player| player.watch(Duration::from_millis(60)));
            rounds += 1;
        }
        let frames = players[1].frames();
        assert!(frames.len() > 30, "{how}: {} frames", frames.len());
        // The last frame may be incomplete.
        let before = &frames[..frames.len() - 1];
        assert!(before.iter().all(|frame| frame.whole), "{how}: {before:?}");
        // Received frames are complete, even if some are missing.
        let damaged = players[0].frames();
        let before = &damaged[..damaged.len() - 1];
        assert!(before.iter().all(|frame| frame.whole), "{how}: {before:?}");
        let account = server.end();
        assert_eq!(unread(&account["frames"]) > 0, how != "deleted", "{how}: {account}");
        assert_conserved(&account);
    }
}

#[test]
fn impossible_read_ahead_settings_are_errors_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), test_video(60)).unwrap();
    for (keys, parts) in [
        ("store = \"1 MB\"", ["256 sessions need", "reduce `sessions` or `read-ahead`"]),
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
