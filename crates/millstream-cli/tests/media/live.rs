//! Tests of live streams: ffmpeg publishes a media file while ffmpeg plays it, and the pictures are
//! equal.

use crate::confined::{CHILDREN, SYS_NICE, assert_confined, own, real_time_threads};
use crate::player::{Player, Server, assert_conserved, is_installed, mangled, test_video};
use crate::test_clips::TestClips;
use rtsp_types::StatusCode;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The MD5 of `studio:millstream:open sesame` and of `ann:millstream:open sesame`.
pub(crate) const USERS: &str = "studio:millstream:fb7bde76a2f018823aaf74608b14db5e\n\
                     ann:millstream:4469aedbccd71d189d4ac664f28d4985\n";

/// Makes media files for publication.
fn clips(frames: usize) -> TestClips {
    TestClips::make(frames, "400k", "12")
}

impl TestClips {
    /// Publishes a file in real time.
    pub(crate) fn publish(&self, file: &str, transport: &str, url: &str) -> Child {
        let mut ffmpeg = Command::new("ffmpeg");
        // ffmpeg calls its payload format of VP9 experimental.
        ffmpeg.args(["-v", "error", "-re", "-i", file, "-c", "copy", "-strict", "-2"]);
        ffmpeg.args(["-f", "rtsp"]);
        ffmpeg.args(["-rtsp_transport", transport, url]);
        ffmpeg
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .current_dir(&self.folder)
            .spawn()
            .unwrap()
    }

    /// Decodes a file or a URL, and writes the checksum of each picture to `to`.
    fn decode(&self, input: &str, options: &[&str], to: &str) -> Child {
        self.decode_some(input, options, to, "1000000")
    }

    /// Decodes at most `most` pictures.
    pub(crate) fn decode_some(&self, input: &str, options: &[&str], to: &str, most: &str) -> Child {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg
            .args(["-v", "error", "-y"])
            .args(options)
            .args(["-i", input])
            .args(["-frames:v", most]);
        ffmpeg.args(["-an", "-fps_mode", "passthrough", "-f", "framemd5", to]);
        ffmpeg.stdin(Stdio::null()).current_dir(&self.folder).spawn().unwrap()
    }

    /// Waits for `child`; returns the checksums of its pictures.
    pub(crate) fn pictures(&self, mut child: Child, to: &str) -> Vec<String> {
        assert!(child.wait().unwrap().success(), "{to}");
        let text = std::fs::read_to_string(self.path(to)).unwrap();
        let sums = text.lines().filter(|line| !line.starts_with('#'));
        sums.map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
    }

    pub(crate) fn all_pictures(&self, file: &str) -> Vec<String> {
        let to = format!("{file}.all");
        self.pictures(self.decode(file, &[], &to), &to)
    }
}

/// Starts a server of live streams, each with its name, codec and further source settings.
pub(crate) fn serve(media: &str, streams: &[(&str, &str, &str)], files: &[(&str, &str)]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), test_video(60)).unwrap();
    let mut text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n{media}\n[link]\nrate = \"50 \
         Mbps\"\n\
         overhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n[scenario]\nduration = \"1 s\"\n"
    );
    text += "[[stream]]\nname = \"film\"\nperiod = \"16.666666 ms\"\nlate = \"drop\"\n\
             first-deadline = \"2 s\"\nsource = { kind = \"mpeg\", file = \"film.m1v\", repeat = \
             true }\n";
    for (name, codec, source) in streams {
        text += &format!(
            "[[stream]]\nname = \"{name}\"\nperiod = \"40 ms\"\nlate = \"drop\"\nfirst-deadline \
             = \"2 s\"\n\
             source = {{ kind = \"live\", rate = \"2 Mbps\", codec = \"{codec}\"{source} }}\n"
        );
    }
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
    }
    std::fs::write(folder.path().join("media.toml"), text).unwrap();
    Server::serve(&folder.path().join("media.toml").clone(), folder)
}

/// Waits until `holds` is true of `/status`.
pub(crate) fn wait_for(
    server: &Server,
    what: &str,
    mut holds: impl FnMut(&serde_json::Value) -> bool,
) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let status = server.status();
        if holds(&status) {
            return;
        }
        assert!(Instant::now() < end, "{what}: {status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn is_published(status: &serde_json::Value, stream: usize) -> bool {
    status["live"][stream]["publisher"] != ""
}

/// Asserts that every received frame was released and no packet was lost.
pub(crate) fn assert_whole(live: &serde_json::Value) {
    let of = &live["ingested"];
    let released: u64 = (0..3).map(|kind| of["released"][kind].as_u64().unwrap()).sum();
    let count = |name: &str| of[name].as_u64().unwrap();
    assert_eq!(count("frames"), released, "{live}");
    assert_eq!(count("lost_packets") + count("strange_packets") + count("beyond"), 0, "{live}");
}

/// A scripted publisher of MPEG-1 video.
struct Publisher {
    control: TcpStream,
    number: u16,
    frames: u32,
}

const ANNOUNCE: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=a\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                        m=video 0 RTP/AVP 32\r\na=control:streamid=0\r\n";

impl Publisher {
    fn connect(server: &Server) -> Self {
        let control = TcpStream::connect(server.rtsp).unwrap();
        control.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { control, number: 0, frames: 0 }
    }

    /// Sends a request; returns the answer.
    fn ask(&mut self, head: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let request = format!(
            "{head} RTSP/1.0\r\nCSeq: 1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        self.control.write_all(request.as_bytes()).unwrap();
        let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = self.control.read(&mut chunk).unwrap();
            assert!(count > 0, "closed");
            answer.extend_from_slice(&chunk[..count]);
        }
        String::from_utf8(answer).unwrap()
    }

    fn announce(&mut self, stream: &str) -> String {
        let head = format!("ANNOUNCE rtsp://h/{stream}");
        self.ask(&head, "Content-Type: application/sdp\r\n", ANNOUNCE)
    }

    /// Announces, sets up and records a stream, interleaved.
    fn begin(server: &Server, stream: &str) -> Self {
        let end = Instant::now() + TIMEOUT;
        let mut publisher = Self::connect(server);
        // The connection of a previous publisher may not be closed yet.
        while !publisher.announce(stream).starts_with("RTSP/1.0 200") {
            assert!(Instant::now() < end, "{}", publisher.announce(stream));
            std::thread::sleep(Duration::from_millis(20));
        }
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n";
        let answer = publisher.ask(&format!("SETUP rtsp://h/{stream}/streamid=0"), transport, "");
        let session = answer.split("Session: ").nth(1).unwrap().split(';').next().unwrap();
        let session = format!("Session: {session}\r\n");
        let answer = publisher.ask(&format!("RECORD rtsp://h/{stream}"), &session, "");
        assert!(answer.starts_with("RTSP/1.0 200"), "{answer}");
        publisher
    }

    /// Returns the next frame as an RTP packet; every sixth is an I-frame.
    fn packet(&mut self, bytes: usize) -> Vec<u8> {
        let kind = if self.frames.is_multiple_of(6) { 1 } else { 2 };
        let time = (self.frames * 3_600).to_be_bytes();
        let number = self.number.to_be_bytes();
        let mut packet =
            [&[0x80, 0x80 | 32][..], &number, &time, &[0, 0, 0, 7, 0, 0, 0, 0]].concat();
        packet.extend([0, 0, 1, 0, 0, kind << 3, 0xff, 0xf8, 0, 0, 0, 1, 1]);
        packet.extend(vec![9; bytes]);
        self.number = self.number.wrapping_add(1);
        self.frames += 1;
        packet
    }

    fn send(&mut self, packet: &[u8]) {
        let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
        self.control.write_all(&[&[b'$', 0][..], &length, packet].concat()).unwrap();
    }

    /// Sends frames in real time until `holds` is true of `/status`.
    fn send_until(&mut self, server: &Server, mut holds: impl FnMut(&serde_json::Value) -> bool) {
        let end = Instant::now() + TIMEOUT;
        while !holds(&server.status()) {
            assert!(Instant::now() < end, "{}", server.status());
            let packet = self.packet(500);
            self.send(&packet);
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

/// Returns a playing UDP client of a stream.
fn player_of(server: &Server, stream: &str) -> Player {
    let mut player = Player::open(server.rtsp, stream);
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    player
}

/// Returns the number of frames sent to the only client of `stream`.
fn sent(status: &serde_json::Value, stream: &str) -> u64 {
    let clients = status["clients"].as_array().unwrap();
    let client = clients.iter().find(|client| client["stream"] == stream);
    let of = |client: &serde_json::Value| {
        (0..3).map(|kind| client["frames"]["sent"][kind].as_u64().unwrap()).sum()
    };
    client.map_or(0, of)
}

#[test]
fn a_published_stream_is_received_in_the_class_of_the_data_plane() {
    let cores = std::thread::available_parallelism().unwrap().get();
    if own("CapEff") & SYS_NICE == 0 || cores == 1 {
        return;
    }
    let live: &[_] = &[("live", "mpeg", ", wait = \"60 s\"")];
    for (media, expected) in [("placement = \"ni\"", 1), ("", 0)] {
        let server = serve(media, live, &[]);
        assert_eq!(real_time_threads(&server).len(), 0, "{media}");
        let mut publisher = Publisher::begin(&server, "live");
        publisher.send_until(&server, |status| is_published(status, 0));
        // The class follows within an interval between checks for timeouts.
        publisher.send_until(&server, |_| real_time_threads(&server).len() == expected);
        let player = player_of(&server, "live");
        publisher.send_until(&server, |status| sent(status, "live") > 10);
        publisher.send_until(&server, |_| real_time_threads(&server).len() == expected);
        if let Some(data_plane) = server.data_plane {
            assert_confined(server.child.id(), own("CapPrm") & CHILDREN);
            assert_confined(data_plane, 0);
        }
        drop((publisher, player));
        let end = Instant::now() + TIMEOUT;
        while !real_time_threads(&server).is_empty() {
            assert!(Instant::now() < end, "{media}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_conserved(&server.end());
    }
}

#[test]
fn published_pictures_are_played_unchanged() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(75);
    let wait = ", wait = \"60 s\"";
    let streams = [("h264", "h264", wait), ("mpeg", "mpeg", wait)];
    // The data plane is a separate process: other work on the machine must not make frames late.
    let server = serve("placement = \"ni\"", &streams, &[]);
    let files = ["clip.mp4", "clip.mpg"];
    let url = |stream: usize| format!("rtsp://{}/{}", server.rtsp, streams[stream].0);
    // Publishes twice: the second time all clients play, however slow the machine is.
    let publish = || {
        let transports = ["tcp", "udp"].iter().enumerate();
        let begun = transports.map(|(at, transport)| clips.publish(files[at], transport, &url(at)));
        begun.collect::<Vec<_>>()
    };
    let end = |publishers: Vec<Child>| {
        for mut publisher in publishers {
            assert!(publisher.wait().unwrap().success());
        }
    };
    let publishers = publish();
    let mut playing = Vec::new();
    for (stream, (name, ..)) in streams.iter().enumerate() {
        wait_for(&server, "a publisher", |status| is_published(status, stream));
        for transport in ["udp", "tcp"] {
            let to = format!("{name}-{transport}");
            let options = ["-rtsp_transport", transport];
            playing.push((stream, clips.decode_some(&url(stream), &options, &to, "60"), to));
        }
    }
    end(publishers);
    wait_for(&server, "no publisher", |status| (0..2).all(|stream| !is_published(status, stream)));
    // Some clients may have finished.
    wait_for(&server, "all play", |status| {
        let clients = status["clients"].as_array().unwrap();
        status["admitted"] == 4 && clients.iter().all(|client| client["state"] == "playing")
    });
    end(publish());
    let status = server.status();
    let playing: Vec<_> = playing
        .into_iter()
        .map(|(stream, player, to)| (stream, clips.pictures(player, &to), to))
        .collect();
    let account = server.end();
    for live in status["live"].as_array().unwrap() {
        assert_whole(live);
    }
    for missed in ["dropped_late", "dropped_full"] {
        assert_eq!(account["frames"][missed], serde_json::json!([0, 0, 0]), "{account}");
    }
    assert_eq!(account["frames"]["lost"], 0, "{account}");
    for (stream, seen, to) in playing {
        let once = clips.all_pictures(files[stream]);
        let expected = [&once[..], &once[..]].concat();
        if to.ends_with("tcp") {
            assert_eq!(seen.len(), 60, "{to}");
            assert!(expected.windows(60).any(|run| run == seen), "{to}: {seen:?} of {expected:?}");
        } else {
            // A player that is delayed by other work loses datagrams.
            let whole = seen.iter().filter(|picture| expected.contains(picture)).count();
            assert!(whole >= 30, "{to}: {whole} correct pictures");
        }
    }
}

#[test]
fn clients_resume_when_the_publisher_returns_and_a_second_publisher_is_refused() {
    if !is_installed("ffmpeg") {
        return;
    }
    // A player on a loaded machine connects within the 3 s of the first publication.
    let clips = clips(75);
    let server = serve("placement = \"ni\"", &[("live", "h264", ", wait = \"60 s\"")], &[]);
    let url = format!("rtsp://{}/live", server.rtsp);
    assert_eq!(Player::open(server.rtsp, "live").set_up(false).status(), StatusCode::NotFound);
    let mut first = clips.publish("clip.mp4", "tcp", &url);
    wait_for(&server, "a publisher", |status| is_published(status, 0));
    let player = clips.decode(&url, &["-rtsp_transport", "tcp"], "seen");
    let refused = Publisher::connect(&server).announce("live");
    assert!(refused.starts_with("RTSP/1.0 455"), "{refused}");
    assert!(first.wait().unwrap().success());
    wait_for(&server, "no publisher", |status| !is_published(status, 0));
    let mut second = clips.publish("clip.mp4", "udp", &url);
    assert!(second.wait().unwrap().success());
    wait_for(&server, "all is sent", |status| {
        let client = &status["clients"][0];
        !is_published(status, 0) && client["queued"] == 0 && {
            let released = &status["live"][0]["ingested"]["released"];
            let released: u64 = (0..3).map(|kind| released[kind].as_u64().unwrap()).sum();
            released == 150 && sent(status, "live") >= 75
        }
    });
    assert_whole(&server.status()["live"][0]);
    // The server sends RTCP BYE to waiting clients.
    server.end();
    let (seen, once) = (clips.pictures(player, "seen"), clips.all_pictures("clip.mp4"));
    let expected = [&once[..], &once[..]].concat();
    assert!(seen.len() > 75, "{} pictures", seen.len());
    assert_eq!(seen, expected[expected.len() - seen.len()..]);
}

#[test]
fn a_publisher_above_its_rate_affects_only_its_own_stream() {
    let server = serve("placement = \"ni\"", &[("live", "mpeg", "")], &[]);
    let mut publisher = Publisher::begin(&server, "live");
    let (mut film, live) = (player_of(&server, "film"), player_of(&server, "live"));
    wait_for(&server, "both play", |status| {
        let clients = status["clients"].as_array().unwrap();
        clients.iter().filter(|client| client["state"] == "playing").count() == 2
    });
    for _ in 0..1_000 {
        let packet = publisher.packet(1_000);
        publisher.send(&packet);
    }
    film.receive_frames(60);
    wait_for(&server, "all packets", |status| status["live"][0]["ingested"]["packets"] == 1_000);
    wait_for(&server, "all is sent", |status| {
        let released = &status["live"][0]["ingested"]["released"];
        let released: u64 = (0..3).map(|kind| released[kind].as_u64().unwrap()).sum();
        released > 20 && sent(status, "live") == released
    });
    let of = server.status()["live"][0]["ingested"].clone();
    // One second at the allowed rate is released, and more only if sending took longer.
    assert!(of["beyond"].as_u64().unwrap() > 500, "{of}");
    drop(live);
    let account = server.end();
    for kinds in ["dropped_late", "dropped_full"] {
        assert_eq!(account["frames"][kinds], serde_json::json!([0, 0, 0]), "{account}");
    }
    assert_eq!(account["frames"]["lost"], 0, "{account}");
}

#[test]
fn only_named_users_publish() {
    let source = ", publish = [\"studio\"], wait = \"1 s\"";
    let streams = [("named", "h264", source), ("local", "h264", "")];
    let server = serve("users = \"users\"", &streams, &[("users", USERS)]);
    let refused = Publisher::connect(&server).announce("local");
    assert!(refused.starts_with("RTSP/1.0 401"), "{refused}");
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(12);
    for (user, stream, expected) in
        [("ann", "named", false), ("studio", "named", true), ("ann", "local", true)]
    {
        let url = format!("rtsp://{user}:open%20sesame@{}/{stream}", server.rtsp);
        let publisher = clips.publish("clip.mp4", "tcp", &url).wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&publisher.stderr);
        assert_eq!(publisher.status.success(), expected, "{user} of {stream}: {errors}");
        assert_eq!(errors.contains("403"), !expected, "{errors}");
    }
    assert_eq!(server.end()["ingested"]["publications"], 2);
}

#[test]
fn mangled_publisher_input_is_survived_and_counted() {
    let server = serve("", &[("live", "mpeg", "")], &[]);
    let announce = format!(
        "ANNOUNCE rtsp://h/live RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{ANNOUNCE}",
        ANNOUNCE.len()
    );
    for bytes in mangled(&[announce.as_bytes()], 150) {
        let mut control = TcpStream::connect(server.rtsp).unwrap();
        let _ = control.write_all(&bytes);
    }
    wait_for(&server, "no publisher", |status| !is_published(status, 0));
    let mut publisher = Publisher::begin(&server, "live");
    let mut good =
        Publisher { control: publisher.control.try_clone().unwrap(), number: 0, frames: 0 };
    let seeds: Vec<Vec<u8>> = (0..12).map(|_| good.packet(40)).collect();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    for packet in mangled(&seeds, 600) {
        publisher.send(&packet);
    }
    publisher.number = 30_000;
    publisher.send_until(&server, |status| status["live"][0]["ingested"]["released"][0] != 0);
    let status = server.status();
    let of = &status["live"][0]["ingested"];
    let count = |name: &str| of[name].as_u64().unwrap();
    let released: u64 = (0..3).map(|kind| of["released"][kind].as_u64().unwrap()).sum();
    let dropped = count("incomplete") + count("before_entry") + count("beyond");
    assert_eq!(count("frames"), released + dropped, "{of}");
    assert!(count("strange_packets") > 0, "{of}");
    server.end();
}

#[test]
fn the_example_is_checked_and_simulated() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/media/live.toml");
    for command in ["check", "run"] {
        let mut millstream = Command::new(env!("CARGO_BIN_EXE_millstream"));
        let output = millstream.arg(command).arg(&example).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command}: {printed}");
        assert!(printed.contains("live"), "{command}: {printed}");
    }
}

#[test]
fn a_host_crash_ends_live_streams_unless_a_socket_lets_the_next_host_resume_them() {
    for (socket, resumes) in [("", false), ("socket = \"s\"\n", true)] {
        let media = format!("placement = \"ni\"\n{socket}");
        let mut server = serve(&media, &[("live", "mpeg", ", wait = \"60 s\"")], &[]);
        let mut publisher = Publisher::begin(&server, "live");
        let mut player = player_of(&server, "live");
        publisher.send_until(&server, |status| sent(status, "live") >= 7);
        let before = sent(&server.status(), "live");
        server.crash();
        if !resumes {
            player.watch(TIMEOUT);
            assert!(player.bye, "RTCP BYE");
            continue;
        }
        let server = server.restart();
        let mut publisher = Publisher::begin(&server, "live");
        publisher.send_until(&server, |status| sent(status, "live") > before + 7);
        assert!(!player.bye);
        server.end();
    }
}
