//! Streams with paths: each publisher takes one, and its players, recordings and hooks have its
//! name.

use crate::access::FRIENDS;
use crate::live::{USERS, wait_for};
use crate::player::{Player, Server, is_installed};
use crate::test_clips::TestClips;
use rtsp_types::StatusCode;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// The pictures that a player decodes.
const SEEN: usize = 30;

/// Serves `cam` with two paths, recorded, with a hook that appends event and stream to `log`; and
/// `plain`, a live stream without paths. The user `studio` may publish `cam`.
fn serve(clips: &TestClips) -> Server {
    let folder = &clips.folder;
    for (name, text) in [("users", USERS), ("tokens", FRIENDS)] {
        std::fs::write(clips.path(name), text).unwrap();
        std::fs::set_permissions(clips.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let stream = |name: &str, keys: &str| {
        format!(
            "[[stream]]\nname = \"{name}\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
             first-deadline = \"2 s\"\nsource = {{ kind = \"live\", rate = \"2 Mbps\"{keys} }}\n"
        )
    };
    let hook = |event: &str| {
        let script = "echo $MILLSTREAM_EVENT $MILLSTREAM_STREAM >> $0";
        let log = clips.path("log");
        format!(
            "[[media.hook]]\non = \"{event}\"\nstreams = [\"cam\"]\n\
             command = [\"sh\", \"-c\", '{script}', \"{}\"]\n",
            log.display()
        )
    };
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nplacement = \"ni\"\n\
         users = \"users\"\ntokens = \"tokens\"\n\
         recording = {{ folder = \"recordings\", size = \"1 GB\" }}\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n\
         [scenario]\nduration = \"1 s\"\n{}{}{}{}",
        stream("cam", ", paths = 2, wait = \"60 s\", record = true, publish = [\"studio\"]"),
        stream("plain", ""),
        hook("publish"),
        hook("read"),
    );
    let file = folder.path().join("media.toml");
    std::fs::write(&file, text).unwrap();
    Server::serve(&file, tempfile::tempdir().unwrap())
}

fn url(user: &str, server: SocketAddr, path: &str) -> String {
    format!("rtsp://{user}:open%20sesame@{server}/{path}")
}

/// Publishes a file again and again, in real time.
fn publish(clips: &TestClips, file: &str, transport: &str, url: &str) -> Child {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-re", "-stream_loop", "-1", "-i", file, "-c", "copy"]);
    ffmpeg.args(["-f", "rtsp", "-rtsp_transport", transport, url]);
    ffmpeg.stdin(Stdio::null()).stderr(Stdio::piped()).current_dir(&clips.folder);
    ffmpeg.spawn().unwrap()
}

/// Returns what ffmpeg says when its publication is refused.
fn refusal(mut publisher: Child) -> String {
    let mut text = String::new();
    publisher.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(!publisher.wait().unwrap().success());
    text
}

fn end(mut publisher: Child) {
    publisher.kill().unwrap();
    publisher.wait().unwrap();
}

/// Returns whether a path has a publisher.
fn is_published(status: &serde_json::Value, path: &str) -> bool {
    let mut live = status["live"].as_array().unwrap().iter();
    live.any(|live| live["stream"] == path && live["publisher"] != "")
}

#[test]
fn publishers_take_paths_until_they_and_their_players_are_gone() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(50, "300k", "12");
    let flipped = ["-i", "clip.mp4", "-vf", "hflip", "-c:v", "libx264", "-g", "12", "back.mp4"];
    clips.ffmpeg(&flipped);
    let server = serve(&clips);
    let rtsp = server.rtsp;
    let studio = |path: &str| url("studio", rtsp, path);
    assert!(server.page("/admission").contains("\ncam/*: mean rate 2000000 bits/s"));
    assert_eq!(server.status()["live"].as_array().unwrap().len(), 1, "no path has a name yet");
    // The permission is that of the stream; names of paths are checked, and shadow no stream.
    for (user, path, why) in [
        ("ann", "cam/front", "403"),
        ("studio", "cam", "404"),
        ("studio", "cam/.front", "404"),
        ("studio", "plain/front", "404"),
    ] {
        let said = refusal(publish(&clips, "clip.mp4", "tcp", &url(user, rtsp, path)));
        assert!(said.contains(why), "{path}: {said}");
    }
    let front = publish(&clips, "clip.mp4", "tcp", &studio("cam/front"));
    let back = publish(&clips, "back.mp4", "udp", &studio("cam/back"));
    let both = ["cam/front", "cam/back"];
    wait_for(&server, "both publish", |status| both.iter().all(|path| is_published(status, path)));
    let said = refusal(publish(&clips, "clip.mp4", "tcp", &studio("cam/side")));
    assert!(said.contains("503"), "{said}");
    let said = refusal(publish(&clips, "clip.mp4", "tcp", &studio("cam/front")));
    assert!(said.contains("455"), "{said}");
    // Each player gets the pictures of its path.
    let tcp = ["-rtsp_transport", "tcp"];
    let playing = ["cam/front", "cam/back"].map(|path| {
        let to = path.replace('/', "-");
        (clips.decode_some(&url("ann", rtsp, path), &tcp, &to, &SEEN.to_string()), to)
    });
    for ((player, to), file) in playing.into_iter().zip(["clip.mp4", "back.mp4"]) {
        let (seen, once) = (clips.pictures(player, &to), clips.all_pictures(file));
        let expected = [&once[..], &once[..]].concat();
        assert_eq!(seen.len(), SEEN);
        assert!(expected.windows(SEEN).any(|run| run == seen), "{to}: {seen:?} of {once:?}");
    }
    let metrics = server.page("/metrics");
    for (family, path) in
        [("live_frames", both[0]), ("frame_delay", both[1]), ("recorded", both[1])]
    {
        let has = |line: &str| line.contains(family) && line.contains(&format!("\"{path}\""));
        assert!(metrics.lines().any(has), "{family} of {path}: {metrics}");
    }
    // A player that waits for the publisher keeps the path.
    let mut waiting = Player::open(rtsp, "cam/front?token=letmein");
    assert_eq!(waiting.set_up(false).status(), StatusCode::Ok);
    waiting.play();
    end(front);
    wait_for(&server, "no publisher", |status| !is_published(status, "cam/front"));
    let said = refusal(publish(&clips, "clip.mp4", "tcp", &studio("cam/side")));
    assert!(said.contains("503"), "{said}");
    drop(waiting);
    wait_for(&server, "no client", |status| status["clients"] == serde_json::json!([]));
    let side = publish(&clips, "clip.mp4", "tcp", &studio("cam/side"));
    wait_for(&server, "a third path", |status| is_published(status, "cam/side"));
    let status = server.status();
    let live = status["live"].as_array().unwrap();
    let named = |name: &str| live.iter().find(|live| live["stream"] == name).unwrap();
    assert_eq!((live.len(), &named("plain")["publisher"]), (3, &"".into()), "{status}");
    for path in ["cam/side", "cam/back"] {
        assert_eq!(named(path)["ingested"]["publications"], 1, "its own counters: {status}");
    }
    // The recordings have the name of the path.
    let recorded = server.page("/recordings/cam/front");
    assert!(recorded.contains("\"file\":\"cam/front/20"), "{recorded}");
    let to = "recorded";
    let seen = clips.decode_some(&url("ann", rtsp, "recordings/cam/front"), &tcp, to, "10");
    assert_eq!(clips.pictures(seen, to), clips.all_pictures("clip.mp4")[..10]);
    let mut player = Player::open(rtsp, "recordings/cam/front?token=letmein");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    wait_for(&server, "it plays", |status| {
        let clients = status["clients"].as_array().unwrap();
        clients.iter().any(|client| client["stream"] == "recordings/cam/front/1")
    });
    end(side);
    end(back);
    let log = std::fs::read_to_string(clips.path("log")).unwrap();
    for line in ["publish cam/front", "read cam/back", "publish cam/side"] {
        assert!(log.lines().any(|logged| logged == line), "{line}: {log}");
    }
    server.end();
}
