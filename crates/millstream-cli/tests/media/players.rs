//! `millstream serve` with players that people use, ffmpeg, GStreamer and VLC, and a browser at its
//! dashboard.
//!
//! `scripts/test-tools.sh` installs them where it may. GStreamer and VLC play in `make soak` only:
//! they keep their own time, and drop pictures where a busy machine stops them. Chromium, too: it
//! is large.

use crate::films::Films;
use crate::player::{Player, Server, is_there};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of a picture of the films.
const PICTURE: usize = 176 * 144 * 3 / 2;

/// Makes files of `frames` frames, H.264 in three containers.
fn films(frames: usize) -> Films {
    let films = Films::make(frames, "600k", "24");
    films.ffmpeg(&["-i", "clip.mp4", "-c", "copy", "clip.ts"]);
    films.ffmpeg(&["-i", "clip.mp4", "-c", "copy", "clip.h264"]);
    films
}

impl Films {
    /// Serves each file as it is by its name, and as a transport stream with `-ts` behind it, over
    /// and over if `repeat`; and once as a transport stream with `-once` behind it. The processor
    /// is apart, as what else the machine does must not make frames late.
    fn serve(&self, files: &[&str], rate: &str, stream: &str, repeat: bool) -> Server {
        self.serve_by("host", files, rate, stream, repeat)
    }

    /// The same, frames coming to the processor by `path`.
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
            for (ending, payload, repeat) in [
                ("", "elementary", repeat),
                ("-ts", "mpeg-ts", repeat),
                ("-once", "mpeg-ts", false),
            ] {
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
    /// By UDP it takes a goodbye before packets that it has not read; what has no end is safe from
    /// that.
    fn start_decoding(&self, input: &str, options: &[&str], pictures: usize) -> Decoding {
        let sums = tempfile::NamedTempFile::new_in(&self.folder).unwrap();
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-y"]).args(options).args(["-i", input]);
        ffmpeg.args(["-an", "-fps_mode", "passthrough", "-f", "framemd5", "-frames:v"]);
        ffmpeg.arg(pictures.to_string()).arg(sums.path());
        Decoding { child: ffmpeg.current_dir(&self.folder).spawn().unwrap(), sums }
    }

    /// The checksums of a file's pictures.
    fn checksums_of(&self, file: &str) -> Vec<String> {
        self.start_decoding(file, &[], 1 << 30).checksums()
    }
}

/// ffmpeg at work. What it says goes to a file, as a pipe that nobody reads would stop it.
struct Decoding {
    child: Child,
    sums: tempfile::NamedTempFile,
}

impl Decoding {
    /// The pictures' checksums, once it has ended.
    fn checksums(mut self) -> Vec<String> {
        assert!(self.child.wait().unwrap().success());
        let text = std::fs::read_to_string(self.sums.path()).unwrap();
        let sums = text.lines().filter(|line| !line.starts_with('#'));
        sums.map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
    }
}

/// Fails with the first picture that differs.
fn assert_same(seen: &[String], expected: &[String], what: &str) {
    let differs = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    assert_eq!(differs, None, "{what}: the first picture that differs");
    assert_eq!(seen.len(), expected.len(), "{what}: pictures");
}

#[test]
fn ffmpeg_gets_every_frame_as_it_stands_in_the_file() {
    if !is_there("ffmpeg") {
        return;
    }
    let films = films(50);
    let files = ["clip.mpg", "clip.mp4", "clip.ts", "clip.h264"];
    let server = films.serve(&files, "50 Mbps", "first-deadline = \"2 s\"", true);
    let expected = files.map(|file| films.checksums_of(file));
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
                films.start_decoding(&url, &["-rtsp_transport", transport], expected.len()),
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
fn ffmpeg_receives_every_frame_by_each_reader() {
    if !is_there("ffmpeg") {
        return;
    }
    let films = films(50);
    // In a container; and where it is.
    let files = ["clip.mp4", "clip.h264"];
    let expected = files.map(|file| films.checksums_of(file));
    for path in ["producer", "ni"] {
        let server = films.serve_by(path, &files, "50 Mbps", "first-deadline = \"2 s\"", true);
        let url = |file: &str| format!("rtsp://{}/{file}", server.rtsp);
        let playing = [("udp", 0, ""), ("tcp", 1, ""), ("tcp", 0, "-ts")];
        let playing = playing.map(|(transport, file, payload)| {
            let options = ["-rtsp_transport", transport];
            let name = format!("{}{payload}", files[file]);
            (file, films.start_decoding(&url(&name), &options, expected[file].len()))
        });
        for (file, child) in playing {
            assert_same(&child.checksums(), &expected[file], &format!("{} by {path}", files[file]));
        }
        server.end();
    }
}

#[test]
fn what_is_left_out_under_overload_leaves_the_other_pictures_as_they_are() {
    if !is_there("ffmpeg") {
        return;
    }
    let films = films(100);
    let stream = "first-deadline = \"1 s\"\nwindow = \"6/12\"";
    let server = films.serve(&["clip.mpg"], "1.25 Mbps", stream, false);
    let expected = films.checksums_of("clip.mpg");
    let names = ["clip.mpg", "clip.mpg-ts"];
    let playing = names.map(|name| {
        films.start_decoding(
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
    // A machine that stops the server for longer than a millisecond can cost more.
    if frames["violations"] == 0 {
        assert_eq!([&frames["dropped_late"][0], &frames["dropped_late"][1]], [0, 0], "{account}");
        assert_eq!(seen.iter().map(Vec::len).sum::<usize>() as u64, sum("sent"), "{account}");
        for (name, seen) in names.iter().zip(&seen) {
            let mut rest = expected.iter();
            assert!(seen.iter().all(|picture| rest.any(|e| e == picture)), "{name}");
        }
    }
}

/// What the page shows is what `/status` says, and the browser has nothing to complain of.
#[test]
#[ignore = "make soak: needs Chromium"]
fn a_browser_shows_each_client_s_numbers() {
    if !is_there("chromium") {
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
    player.watch_frames(30);
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

/// Where a player says what is wrong: a file beside `to`.
fn log(to: &Path) -> File {
    File::create(to.with_extension("log")).unwrap()
}

/// What a player said, once it has ended well.
fn said(mut child: Child, to: &Path) -> String {
    let ended = child.wait().unwrap();
    let said = std::fs::read(to.with_extension("log")).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ended.success(), "{said}");
    said
}

/// Plays a film with GStreamer, which writes its pictures into a file.
fn gstreamer(films: &Films, server: &Server, name: &str) -> (Child, PathBuf) {
    let to = films.path(&format!("{name}.yuv"));
    let mut gst = Command::new("gst-launch-1.0");
    gst.args(["-q", "rtspsrc", &format!("location=rtsp://{}/{name}", server.rtsp), "!"]);
    gst.args(["decodebin", "!", "videoconvert", "!", "video/x-raw,format=I420", "!"]);
    gst.args(["filesink", &format!("location={}", to.display())]);
    (gst.stderr(log(&to)).spawn().unwrap(), to)
}

/// Plays a film with VLC, which also writes the video that it got into a file.
fn vlc(folder: &Path, server: &Server, name: &str) -> (Child, PathBuf) {
    let to = folder.join(format!("{name}.vlc"));
    let mut vlc = Command::new("env");
    // VLC does not run as root.
    if nix::unistd::geteuid().is_root() {
        vlc.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    // Where it buffers less than a busy machine makes it wait, it starts its clock anew and drops
    // pictures.
    vlc.args(["cvlc", "-v", "--play-and-exit", "--no-audio", "--live-caching=5000"]);
    let file = format!("std{{access=file,mux=dummy,dst={}}}", to.display());
    vlc.args(["--vout", "dummy", "--sout", &format!("#duplicate{{dst={file},dst=display}}")]);
    vlc.arg(format!("rtsp://{}/{name}", server.rtsp)).env("HOME", folder);
    (vlc.stdout(Stdio::null()).stderr(log(&to)).spawn().unwrap(), to)
}

/// Ends a player once it has written so much; what it wrote and said.
fn ended(mut child: Child, to: &Path, bytes: usize) -> (Vec<u8>, String) {
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
    let players = ["ffmpeg", "gst-launch-1.0", "cvlc"].map(is_there);
    // Decoders differ in what they show last before a film begins anew.
    let films = films(frames + 12);
    let files = ["clip.mpg", "clip.mp4"];
    let server = films.serve(&files, "50 Mbps", "first-deadline = \"1 s\"", true);
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
                players[0].then(|| films.start_decoding(&url, &["-rtsp_transport", "udp"], frames)),
                players[1].then(|| gstreamer(&films, &server, name)),
                (players[2] && ts)
                    .then(|| vlc(others.path(), &server, &name.replace("-ts", "-once"))),
            )
        })
        .collect();
    let playing: Vec<_> = playing
        .into_iter()
        .map(|(ffmpeg, gstreamer, vlc)| {
            let said = |(child, to): (Child, PathBuf)| (said(child, &to), to);
            let ended = |(child, to): (Child, PathBuf)| ended(child, &to, frames * PICTURE);
            (ffmpeg.map(Decoding::checksums), gstreamer.map(ended), vlc.map(said))
        })
        .collect();
    let account = server.end();
    for kinds in ["dropped_late", "dropped_full"] {
        assert_eq!(account["frames"][kinds], serde_json::json!([0, 0, 0]), "{account}");
    }
    for (name, (ffmpeg, gstreamer, vlc)) in names.iter().zip(playing) {
        let file = name.strip_suffix("-ts").unwrap_or(name);
        let expected = films.checksums_of(file);
        assert_eq!(expected.len(), frames + 12);
        if let Some(seen) = ffmpeg {
            assert_same(&seen, &expected[..frames], &format!("{name} by ffmpeg"));
        }
        if let Some((bytes, said)) = gstreamer {
            assert!(!said.contains("ERROR"), "{said}");
            films.ffmpeg(&["-i", file, "-f", "rawvideo", "-fps_mode", "passthrough", "clip.yuv"]);
            let expected = std::fs::read(films.path("clip.yuv")).unwrap();
            let length = frames * PICTURE;
            assert!(bytes.len() >= length, "{name} by GStreamer: {} bytes", bytes.len());
            // Decoders of H.264 agree to the bit, those of MPEG-1 nearly.
            let tolerance = if file == "clip.mp4" { 0 } else { 16 };
            let differs =
                expected.iter().zip(&bytes[..length]).position(|(a, b)| a.abs_diff(*b) > tolerance);
            assert_eq!(differs.map(|at| at / PICTURE), None, "{name} by GStreamer");
        }
        if let Some((said, to)) = vlc {
            // Of the decoder, of the transport stream or of what was received.
            for trouble in ["decoder error", "corrupt", "discontinuity received", "Gap in seq_nr"] {
                assert!(!said.contains(trouble), "{name} by VLC: {said}");
            }
            let seen = films.checksums_of(to.to_str().unwrap());
            // Kept waiting by other work for longer than it buffers, it says so and drops pictures.
            if said.contains("is called too late") {
                eprintln!("{name} by VLC: it came too late itself; {} pictures", seen.len());
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
