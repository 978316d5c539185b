//! Tests of `millstream serve` with ffmpeg, GStreamer and VLC, and of its dashboard with a browser.
//!
//! `scripts/test-tools.sh` installs these programs. GStreamer and VLC run only in `make soak`: they
//! keep their own time and drop pictures on a busy machine. Chromium also runs only there, because
//! it is large.

use crate::player::{Player, Server, is_installed};
use crate::test_clips::TestClips;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The bytes of a decoded picture.
const PICTURE: usize = 176 * 144 * 3 / 2;

/// Makes files of `frames` frames, H.264 in three containers.
fn clips(frames: usize) -> TestClips {
    let clips = TestClips::make(frames, "600k", "24");
    clips.ffmpeg(&["-i", "clip.mp4", "-c", "copy", "clip.ts"]);
    clips.ffmpeg(&["-i", "clip.mp4", "-c", "copy", "clip.h264"]);
    clips
}

impl TestClips {
    /// Serves each file under its name, and as a transport stream with the suffix `-ts`. Both
    /// repeat if `repeat`. The suffix `-once` is a transport stream without repetition.
    ///
    /// The data plane is a separate process: other work on the machine must not make frames late.
    pub(crate) fn serve(&self, files: &[&str], rate: &str, stream: &str, repeat: bool) -> Server {
        self.serve_by("host", files, rate, stream, repeat)
    }

    /// Serves the files like [`serve`](Self::serve), with the frame path `path`.
    fn serve_by(
        &self,
        path: &str,
        files: &[&str],
        rate: &str,
        stream: &str,
        repeat: bool,
    ) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut text = format!(
            "[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"ni\"\nframe-path = \"{path}\"\n\
             [link]\nrate = \"{rate}\"\noverhead = 28\n\
             [scheduler]\ndiscipline = \"dwcs\"\n"
        );
        for file in files {
            let variants = [
                ("", "elementary", repeat),
                ("-ts", "mpeg-ts", repeat),
                ("-once", "mpeg-ts", false),
            ];
            // Transport streams do not carry the codecs of IVF.
            let variants = if file.ends_with(".ivf") { &variants[..1] } else { &variants };
            for (ending, payload, repeat) in variants {
                text += &format!(
                    "[[stream]]\nname = \"{file}{ending}\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
                     {stream}\nsource = {{ kind = \"mpeg\", file = \"{}\", payload \
                     = \"{payload}\", \
                     repeat = {repeat} }}\n",
                    self.path(file).display()
                );
            }
        }
        text += "[scenario]\nduration = \"1 s\"\n";
        let scenario = folder.path().join("media.toml");
        std::fs::write(&scenario, text).unwrap();
        Server::serve(&scenario, folder)
    }

    /// Starts ffmpeg on `input`; it writes a checksum for each of at most `pictures` pictures.
    ///
    /// By UDP, ffmpeg handles RTCP BYE before unread packets. Streams that repeat send no BYE.
    pub(crate) fn start_decoding(
        &self,
        input: &str,
        options: &[&str],
        pictures: usize,
    ) -> Decoding {
        let sums = tempfile::NamedTempFile::new_in(&self.folder).unwrap();
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-y"]).args(options).args(["-i", input]);
        ffmpeg.args(["-an", "-fps_mode", "passthrough", "-f", "framemd5", "-frames:v"]);
        ffmpeg.arg(pictures.to_string()).arg(sums.path());
        Decoding { child: ffmpeg.current_dir(&self.folder).spawn().unwrap(), sums }
    }

    /// Returns the checksums of a file's pictures.
    pub(crate) fn checksums_of(&self, file: &str) -> Vec<String> {
        self.start_decoding(file, &[], 1 << 30).checksums()
    }
}

/// A running ffmpeg process. It writes checksums to a file, because a full pipe would block it.
pub(crate) struct Decoding {
    child: Child,
    sums: tempfile::NamedTempFile,
}

impl Decoding {
    /// Waits for the process; returns the checksums of its pictures.
    pub(crate) fn checksums(mut self) -> Vec<String> {
        assert!(self.child.wait().unwrap().success());
        let text = std::fs::read_to_string(self.sums.path()).unwrap();
        let sums = text.lines().filter(|line| !line.starts_with('#'));
        sums.map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
    }
}

/// Asserts that the pictures are equal; the message has the first one that differs.
pub(crate) fn assert_same(seen: &[String], expected: &[String], what: &str) {
    let differs = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    assert_eq!(differs, None, "{what}: the first picture that differs");
    assert_eq!(seen.len(), expected.len(), "{what}: pictures");
}

#[test]
fn ffmpeg_decodes_the_pictures_of_each_file() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(50);
    let files = ["clip.mpg", "clip.mp4", "clip.ts", "clip.h264"];
    let server = clips.serve(&files, "50 Mbps", "first-deadline = \"2 s\"", true);
    let expected = files.map(|file| clips.checksums_of(file));
    let playing: Vec<_> = ["udp", "tcp"]
        .iter()
        .flat_map(|transport| ["", "-ts"].map(|payload| (transport, payload)))
        .flat_map(|(transport, payload)| {
            files
                .iter()
                .zip(&expected)
                .map(move |(file, expected)| (transport, format!("{file}{payload}"), expected))
        })
        .map(|(transport, name, expected)| {
            let url = format!("rtsp://{}/{name}", server.rtsp);
            (
                transport,
                name,
                expected,
                clips.start_decoding(&url, &["-rtsp_transport", transport], expected.len()),
            )
        })
        .collect();
    for (transport, name, expected, child) in playing {
        let seen = child.checksums();
        assert!(seen.len() >= 50, "{name} by {transport}: {} pictures", seen.len());
        assert_same(&seen, expected, &format!("{name} by {transport}"));
    }
    server.end();
}

#[test]
fn ffmpeg_receives_every_frame_with_each_frame_path() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(50);
    // One file in a container, and one that is read in place.
    let files = ["clip.mp4", "clip.h264"];
    let expected = files.map(|file| clips.checksums_of(file));
    for path in ["producer", "ni"] {
        let server = clips.serve_by(path, &files, "50 Mbps", "first-deadline = \"2 s\"", true);
        let url = |file: &str| format!("rtsp://{}/{file}", server.rtsp);
        let playing = [("udp", 0, ""), ("tcp", 1, ""), ("tcp", 0, "-ts")];
        let playing = playing.map(|(transport, file, payload)| {
            let options = ["-rtsp_transport", transport];
            let name = format!("{}{payload}", files[file]);
            (file, clips.start_decoding(&url(&name), &options, expected[file].len()))
        });
        for (file, child) in playing {
            assert_same(&child.checksums(), &expected[file], &format!("{} by {path}", files[file]));
        }
        server.end();
    }
}

#[test]
fn frames_dropped_under_overload_do_not_damage_other_pictures() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(100);
    let stream = "first-deadline = \"1 s\"\nwindow = \"6/12\"";
    let server = clips.serve(&["clip.mpg"], "1.25 Mbps", stream, false);
    let expected = clips.checksums_of("clip.mpg");
    let names = ["clip.mpg", "clip.mpg-ts"];
    let playing = names.map(|name| {
        clips.start_decoding(
            &format!("rtsp://{}/{name}", server.rtsp),
            &["-rtsp_transport", "tcp"],
            100,
        )
    });
    let seen = playing.map(Decoding::checksums);
    let account = server.end();
    let frames = &account["frames"];
    let sum = |what: &str| (0..3).map(|kind| frames[what][kind].as_u64().unwrap()).sum::<u64>();
    assert_eq!(account["admitted"], 2, "{account}");
    assert!(sum("dropped_late") > 0, "{account}");
    // A machine that stalls the server for more than a millisecond can cause violations.
    if frames["violations"] == 0 {
        assert_eq!([&frames["dropped_late"][0], &frames["dropped_late"][1]], [0, 0], "{account}");
        assert_eq!(seen.iter().map(Vec::len).sum::<usize>() as u64, sum("sent"), "{account}");
        for (name, seen) in names.iter().zip(&seen) {
            let mut rest = expected.iter();
            assert!(seen.iter().all(|picture| rest.any(|e| e == picture)), "{name}");
        }
    }
}

/// The page shows the values of `/status`, and the browser reports no error.
#[test]
#[ignore = "make soak: needs Chromium"]
fn a_browser_shows_each_client_s_numbers() {
    if !is_installed("chromium") {
        return;
    }
    let server = Server::start(
        60,
        "50 Mbps",
        "http = \"127.0.0.1:0\"",
        "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"",
        ", repeat = true",
    );
    let mut player = Player::open(server.rtsp, "film");
    player.set_up(false);
    player.play();
    player.receive_frames(30);
    player.ask(rtsp_types::Method::Pause, &[]);
    player.watch(Duration::from_millis(300));
    let frames = player.frames().len();
    let browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000"])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("http://{}/", server.http.unwrap()))
        .output()
        .unwrap();
    let [page, said] =
        [browser.stdout, browser.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(!said.contains("Content Security Policy") && !said.contains("Uncaught"), "{said}");
    let (_, table) = page.split_once("<table id=\"clients\">").expect("a table of clients");
    let (_, row) = table.split_once("<tbody>").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    for cell in ["film", "127.0.0.1, udp", "paused", &format!("<td>{frames}</td>")] {
        assert!(row.contains(cell), "{cell}: {row}");
    }
    assert!(page.contains(">live</span>"), "{page}");
    assert_eq!(server.status()["clients"][0]["frames"]["released"], frames);
    server.end();
}

/// Creates the log file of a player, beside `to`.
fn log(to: &Path) -> File {
    File::create(to.with_extension("log")).unwrap()
}

/// Waits until a player succeeds; returns its log.
fn log_of(mut child: Child, to: &Path) -> String {
    let ended = child.wait().unwrap();
    let said = std::fs::read(to.with_extension("log")).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ended.success(), "{said}");
    said
}

/// Plays a stream with GStreamer; returns the process and the file of decoded pictures.
fn gstreamer(clips: &TestClips, server: &Server, name: &str) -> (Child, PathBuf) {
    let to = clips.path(&format!("{name}.yuv"));
    let mut gst = Command::new("gst-launch-1.0");
    gst.args(["-q", "rtspsrc", &format!("location=rtsp://{}/{name}", server.rtsp), "!"]);
    gst.args(["decodebin", "!", "videoconvert", "!", "video/x-raw,format=I420", "!"]);
    gst.args(["filesink", &format!("location={}", to.display())]);
    (gst.stderr(log(&to)).spawn().unwrap(), to)
}

/// Plays a stream with VLC; returns the process and the file of received video.
fn vlc(folder: &Path, server: &Server, name: &str) -> (Child, PathBuf) {
    let to = folder.join(format!("{name}.vlc"));
    let mut vlc = Command::new("env");
    // VLC does not run as root.
    if nix::unistd::geteuid().is_root() {
        vlc.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    // With a smaller buffer, VLC resets its clock and drops pictures on a busy machine.
    vlc.args(["cvlc", "-v", "--play-and-exit", "--no-audio", "--live-caching=5000"]);
    let file = format!("std{{access=file,mux=dummy,dst={}}}", to.display());
    vlc.args(["--vout", "dummy", "--sout", &format!("#duplicate{{dst={file},dst=display}}")]);
    vlc.arg(format!("rtsp://{}/{name}", server.rtsp)).env("HOME", folder);
    (vlc.stdout(Stdio::null()).stderr(log(&to)).spawn().unwrap(), to)
}

/// Ends a player once it has written `bytes` bytes; returns its output and its log.
fn output_and_log(mut child: Child, to: &Path, bytes: usize) -> (Vec<u8>, String) {
    let end = Instant::now() + Duration::from_secs(300);
    let written = || std::fs::metadata(to).map_or(0, |file| file.len());
    while written() < bytes as u64 && Instant::now() < end && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    child.wait().unwrap();
    let said = std::fs::read(to.with_extension("log")).unwrap();
    (std::fs::read(to).unwrap(), String::from_utf8_lossy(&said).into_owned())
}

/// Plays both files with every player and payload format that it supports, in parallel.
fn all_play(frames: usize) {
    let players = ["ffmpeg", "gst-launch-1.0", "cvlc"].map(is_installed);
    // Decoders differ in the last pictures before a file repeats.
    let clips = clips(frames + 12);
    let files = ["clip.mpg", "clip.mp4"];
    let server = clips.serve(&files, "50 Mbps", "first-deadline = \"1 s\"", true);
    let names: Vec<String> = files
        .iter()
        .flat_map(|file| ["", "-ts"].map(|payload| format!("{file}{payload}")))
        .collect();
    // VLC writes as another user.
    let others = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(others.path(), open).unwrap();
    let playing: Vec<_> = names
        .iter()
        .map(|name| {
            let url = format!("rtsp://{}/{name}", server.rtsp);
            let ts = name.ends_with("-ts");
            (
                players[0].then(|| clips.start_decoding(&url, &["-rtsp_transport", "udp"], frames)),
                players[1].then(|| gstreamer(&clips, &server, name)),
                (players[2] && ts)
                    .then(|| vlc(others.path(), &server, &name.replace("-ts", "-once"))),
            )
        })
        .collect();
    let playing: Vec<_> = playing
        .into_iter()
        .map(|(ffmpeg, gstreamer, vlc)| {
            let said = |(child, to): (Child, PathBuf)| (log_of(child, &to), to);
            let ended =
                |(child, to): (Child, PathBuf)| output_and_log(child, &to, frames * PICTURE);
            (ffmpeg.map(Decoding::checksums), gstreamer.map(ended), vlc.map(said))
        })
        .collect();
    let account = server.end();
    for kinds in ["dropped_late", "dropped_full"] {
        assert_eq!(account["frames"][kinds], serde_json::json!([0, 0, 0]), "{account}");
    }
    for (name, (ffmpeg, gstreamer, vlc)) in names.iter().zip(playing) {
        let file = name.strip_suffix("-ts").unwrap_or(name);
        let expected = clips.checksums_of(file);
        assert_eq!(expected.len(), frames + 12);
        if let Some(seen) = ffmpeg {
            assert_same(&seen, &expected[..frames], &format!("{name} by ffmpeg"));
        }
        if let Some((bytes, said)) = gstreamer {
            assert!(!said.contains("ERROR"), "{said}");
            clips.ffmpeg(&["-i", file, "-f", "rawvideo", "-fps_mode", "passthrough", "clip.yuv"]);
            let expected = std::fs::read(clips.path("clip.yuv")).unwrap();
            let length = frames * PICTURE;
            assert!(bytes.len() >= length, "{name} by GStreamer: {} bytes", bytes.len());
            // H.264 decoders agree exactly, MPEG-1 decoders nearly.
            let tolerance = if file == "clip.mp4" { 0 } else { 16 };
            let differs =
                expected.iter().zip(&bytes[..length]).position(|(a, b)| a.abs_diff(*b) > tolerance);
            assert_eq!(differs.map(|at| at / PICTURE), None, "{name} by GStreamer");
        }
        if let Some((said, to)) = vlc {
            // Errors of the decoder, of the transport stream, and of the reception.
            for error in ["decoder error", "corrupt", "discontinuity received", "Gap in seq_nr"] {
                assert!(!said.contains(error), "{name} by VLC: {said}");
            }
            let seen = clips.checksums_of(to.to_str().unwrap());
            // If other work delays VLC beyond its buffer, it logs this and drops pictures.
            if said.contains("is called too late") {
                eprintln!("{name} by VLC: delayed by other work; {} pictures", seen.len());
                assert!(seen.len() > frames / 2, "{said}");
            } else {
                assert_same(&seen, &expected, &format!("{name} by VLC: {said}"));
            }
        }
    }
}

#[test]
#[ignore = "takes more than a minute; make soak runs it"]
fn ffmpeg_gstreamer_and_vlc_play_a_minute() {
    all_play(1_500);
}
