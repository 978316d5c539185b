//! Recordings of published streams: their files hold the published pictures and sound, and a killed
//! server leaves playable files.

use crate::player::{Player, Server, is_installed};
use crate::test_clips::TestClips;
use rtsp_types::{Method, StatusCode};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Frames of the published clip, 2 s; a key frame each second.
const FRAMES: usize = 50;

const DESCRIBE: &str = "DESCRIBE rtsp://h/recordings/cam RTSP/1.0\r\nCSeq: 1\r\n\r\n";

/// A running server of the live stream `cam`, with the folder of its recordings.
struct Recorded {
    server: Server,
    clips: TestClips,
    recordings: PathBuf,
}

/// Makes `clip.mp4`, video with B-frames, and the same with the audio that `source` has:
/// `sound.mp4` with AAC or `sound.mkv` with Opus.
fn clips(source: &str) -> TestClips {
    let clips = TestClips::make(FRAMES, "300k", "25");
    let tone = "aevalsrc=0.3*sin(2*PI*(200+100*floor(t*7))*t):s=48000:d=2";
    let sounds = [("aac", "aac", "sound.mp4"), ("opus", "libopus", "sound.mkv")];
    for (_, codec, file) in sounds.into_iter().filter(|(name, ..)| source.contains(name)) {
        let sound = ["-f", "lavfi", "-i", tone, "-map", "0:v", "-map", "1:a", "-ac", "2"];
        let to = ["-c:v", "copy", "-c:a", codec, "-b:a", "96k", file];
        clips.ffmpeg(&[&["-i", "clip.mp4"][..], &sound, &to].concat());
    }
    clips
}

/// Starts a server that records `cam`; `settings` are those of the recording, `source` further ones
/// of the stream.
fn serve(settings: &str, source: &str) -> Recorded {
    let clips = clips(source);
    let folder = tempfile::tempdir().unwrap();
    let recordings = clips.path("recordings");
    let webrtc = if cfg!(feature = "webrtc") { "webrtc = \"127.0.0.1:0\"\n" } else { "" };
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nplacement = \"ni\"\n{webrtc}\
         recording = {{ folder = \"{}\", {settings} }}\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n\
         [scenario]\nduration = \"1 s\"\n\
         [[stream]]\nname = \"cam\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
         first-deadline = \"2 s\"\n\
         source = {{ kind = \"live\", rate = \"2 Mbps\", record = true{source} }}\n",
        recordings.display()
    );
    let file = folder.path().join("media.toml");
    std::fs::write(&file, text).unwrap();
    Recorded { server: Server::serve(&file, folder), clips, recordings }
}

impl Recorded {
    /// Publishes a file in real time.
    fn publish(&self, file: &str) -> Child {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-re", "-i", file, "-c", "copy", "-f", "rtsp"]);
        ffmpeg.args(["-rtsp_transport", "tcp", &format!("rtsp://{}/cam", self.server.rtsp)]);
        ffmpeg.stdin(Stdio::null()).current_dir(&self.clips.folder).spawn().unwrap()
    }

    /// Waits until `holds` is true of the recording's state in `/status`.
    fn wait_for(&self, what: &str, holds: impl Fn(&serde_json::Value) -> bool) {
        let end = Instant::now() + TIMEOUT;
        loop {
            let status = self.server.status();
            if holds(&status["recordings"][0]) {
                return;
            }
            assert!(Instant::now() < end, "{what}: {}", status["recordings"]);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the recordings have a free place: a session that has ended keeps its place for
    /// up to a tick of the host.
    fn wait_for_place(&self) {
        let end = Instant::now() + TIMEOUT;
        while status(self.server.rtsp, DESCRIBE) == "503" {
            assert!(Instant::now() < end, "no free place");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the status of the answer to a request.
fn status(address: SocketAddr, request: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[9..]).into_owned()
}

/// Returns the files of `cam` in order.
fn files(recordings: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(recordings.join("cam")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Reads a file or URL with ffmpeg. Returns the checksums of its decoded pictures and of its coded
/// frames of audio: decoded audio would have noise that depends on earlier frames.
fn frames(clips: &TestClips, options: &[&str], input: &str) -> [Vec<String>; 2] {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-y"]).args(options).args(["-i", input]);
    ffmpeg.args(["-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "video.md5"]);
    ffmpeg.args(["-map", "0:a?", "-c", "copy", "-f", "framemd5", "audio.md5"]);
    let output = ffmpeg.current_dir(&clips.folder).output().unwrap();
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    ["video.md5", "audio.md5"].map(|sums| {
        let text = std::fs::read_to_string(clips.path(sums)).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        // Side data may follow.
        lines.map(|line| line.split(',').nth(5).unwrap().trim().to_owned()).collect()
    })
}

/// Asserts that `seen` is a part of `all` that lacks at most some frames at both ends: sound before
/// the first picture, and what ffmpeg does not send at its end.
fn assert_sound(seen: &[String], all: &[String]) {
    assert!(seen.len() + 8 >= all.len(), "{} of {} frames", seen.len(), all.len());
    let other = seen.iter().position(|frame| !all.contains(frame));
    assert!(all.windows(seen.len()).any(|run| run == seen), "frame {other:?} is another one");
}

#[test]
fn recorded_pictures_and_sound_are_those_published() {
    if !is_installed("ffmpeg") {
        return;
    }
    for (codec, clip) in [("aac", "sound.mp4"), ("opus", "sound.mkv")] {
        let recorded = serve("size = \"1 GB\"", &format!(", audio = \"{codec}\""));
        assert!(recorded.publish(clip).wait().unwrap().success());
        recorded.wait_for("a file", |of| of["files"] == 1);
        let status = recorded.server.status();
        let of = &status["recordings"][0];
        assert_eq!((&of["lost_frames"], &of["failures"]), (&0.into(), &0.into()), "{of}");
        let page = recorded.server.page("/recordings/cam");
        let list: serde_json::Value =
            serde_json::from_str(page.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        recorded.server.end();
        let files = files(&recorded.recordings);
        assert_eq!((files.len(), list[0]["complete"].as_bool()), (1, Some(true)), "{list}");
        assert!(files[0].ends_with(list[0]["file"].as_str().unwrap()), "{list}");
        assert_eq!(list[0]["bytes"], std::fs::metadata(&files[0]).unwrap().len());
        let [seen, published] = [&files[0], &recorded.clips.path(clip)]
            .map(|file| frames(&recorded.clips, &[], file.to_str().unwrap()));
        assert_eq!(seen[0], published[0], "{codec}");
        assert_sound(&seen[1], &published[1]);
    }
}

#[test]
fn files_follow_each_other_without_a_gap() {
    if !is_installed("ffmpeg") {
        return;
    }
    let recorded = serve("size = \"1 GB\", segment = \"1 s\"", "");
    assert!(recorded.publish("clip.mp4").wait().unwrap().success());
    recorded.wait_for("two files", |of| of["files"] == 2);
    let metrics = recorded.server.page("/metrics");
    assert!(
        metrics.contains(
            "millstream_media_recorded_frames_total{stream=\"cam\",event=\"recorded\"} 50"
        ),
        "{metrics}"
    );
    recorded.server.end();
    let files = files(&recorded.recordings);
    let pictures = |file: &PathBuf| frames(&recorded.clips, &[], file.to_str().unwrap())[0].clone();
    let seen: Vec<String> = files.iter().flat_map(pictures).collect();
    assert_eq!(seen, pictures(&recorded.clips.path("clip.mp4")));
}

#[test]
fn a_killed_server_leaves_a_playable_file() {
    if !is_installed("ffmpeg") {
        return;
    }
    let mut recorded = serve("size = \"1 GB\"", ", audio = \"aac\"");
    let mut publisher = recorded.publish("sound.mp4");
    recorded.wait_for("a fragment", |of| of["bytes"].as_u64() > Some(20_000));
    recorded.server.child.kill().unwrap();
    recorded.server.child.wait().unwrap();
    let _ = publisher.kill();
    publisher.wait().unwrap();
    let files = files(&recorded.recordings);
    let [seen, all] = [&files[0], &recorded.clips.path("sound.mp4")]
        .map(|file| frames(&recorded.clips, &[], file.to_str().unwrap())[0].clone());
    assert!(seen.len() >= 20 && all.starts_with(&seen), "{} pictures", seen.len());
}

#[test]
fn recordings_are_played_from_their_start_and_from_a_given_time() {
    if !is_installed("ffmpeg") {
        return;
    }
    let settings = "size = \"1 GB\", segment = \"1 s\", players = 1";
    let recorded = serve(settings, ", audio = \"aac\"");
    assert!(recorded.publish("sound.mp4").wait().unwrap().success());
    recorded.wait_for("two files", |of| of["files"] == 2);
    let files = files(&recorded.recordings);
    let published = frames(&recorded.clips, &[], "sound.mp4");
    let play = |path: &str| {
        let url = format!("rtsp://{}/recordings/{path}", recorded.server.rtsp);
        frames(&recorded.clips, &["-rtsp_transport", "tcp"], &url)
    };
    let [video, audio] = play("cam");
    assert_eq!(video, published[0]);
    assert_sound(&audio, &published[1]);
    // The stream has one place for players.
    recorded.wait_for_place();
    let [mut first, mut second] =
        [(); 2].map(|()| Player::open(recorded.server.rtsp, "recordings/cam"));
    assert_eq!(first.set_up(false).status(), StatusCode::Ok);
    assert_eq!(second.set_up(false).status(), StatusCode::ServiceUnavailable);
    assert_eq!(first.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    recorded.wait_for_place();
    // The name of the last file is its start.
    let last = files[1].file_stem().unwrap().to_str().unwrap();
    assert_eq!(play(&format!("cam/{last}"))[0], published[0][25..]);
    for missing in ["cam/soon", "cam/2999-01-01T00:00:00Z", "film"] {
        let mut player = Player::open(recorded.server.rtsp, &format!("recordings/{missing}"));
        assert_eq!(player.set_up(false).status(), StatusCode::NotFound, "{missing}");
    }
    recorded.wait_for_place();
    // Refused requests keep no place.
    let set_up = "SETUP rtsp://h/recordings/cam RTSP/1.0\r\nCSeq: 1\r\n\r\n";
    let whep = "POST /whep/recordings/cam HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\
                Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(status(recorded.server.rtsp, set_up), "400");
    assert_eq!(status(recorded.server.rtsp, DESCRIBE), "200");
    if let Some(address) = recorded.server.webrtc {
        assert_eq!(status(address, whep), "415");
        assert_eq!(status(recorded.server.rtsp, DESCRIBE), "200");
    }
    let account = recorded.server.end();
    for missed in ["dropped_late", "dropped_full"] {
        assert_eq!(account["frames"][missed], serde_json::json!([0, 0, 0]), "{account}");
    }
}
