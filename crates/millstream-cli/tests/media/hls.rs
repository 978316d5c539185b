//! HLS: players decode the pictures that were published, requests wait for the next part, and
//! requests without the right token are refused.

use crate::access::FRIENDS;
use crate::live::{USERS, wait_for};
use crate::player::{Server, is_installed, read_head};
use crate::serve::resident;
use crate::test_clips::TestClips;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The pictures that a player decodes, and the size of each, bytes.
const SEEN: usize = 30;
const PICTURE_BYTES: usize = 176 * 144 * 3 / 2;

const ACCESS: &str = "users = \"users\"\ntokens = \"tokens\"";

/// Serves `cam` with AAC and a path `front`, and a stream without H.264.
fn serve(clips: &TestClips, media: &str) -> Server {
    for (name, text) in [("users", USERS), ("tokens", FRIENDS)] {
        std::fs::write(clips.path(name), text).unwrap();
        std::fs::set_permissions(clips.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let stream = |name: &str, source: &str| {
        format!(
            "[[stream]]\nname = \"{name}\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
             first-deadline = \"2 s\"\nsource = {{ kind = \"live\", rate = \"2 Mbps\"{source} }}\n"
        )
    };
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nhls = \"127.0.0.1:0\"\n\
         placement = \"ni\"\n{media}\n[link]\nrate = \"50 Mbps\"\noverhead = 28\n\
         [scheduler]\ndiscipline = \"dwcs\"\n[scenario]\nduration = \"1 s\"\n{}{}",
        stream("cam", ", audio = \"aac\", paths = 1"),
        stream("other", ", codec = \"vp8\"")
    );
    let file = clips.path("media.toml");
    std::fs::write(&file, text).unwrap();
    Server::serve(&file, tempfile::tempdir().unwrap())
}

/// Publishes `sound.mp4` with ffmpeg in real time, again and again.
fn publish(clips: &TestClips, url: &str) -> Child {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-re", "-stream_loop", "-1", "-i", "sound.mp4", "-c", "copy"]);
    ffmpeg.args(["-f", "rtsp", "-rtsp_transport", "tcp", url]);
    ffmpeg.stdin(Stdio::null()).current_dir(&clips.folder).spawn().unwrap()
}

/// Makes `clip.mp4`, a key frame each second, and the same with AAC in `sound.mp4`.
fn clips() -> TestClips {
    let clips = TestClips::make(50, "300k", "25");
    let tone = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100:duration=2"];
    let to = ["-map", "0:v", "-map", "1:a", "-ac", "2", "-c:v", "copy", "-c:a", "aac", "sound.mp4"];
    clips.ffmpeg(&[&["-i", "clip.mp4"][..], &tone, &to].concat());
    clips
}

/// A connection of a player.
struct Connection(TcpStream, String);

impl Connection {
    fn new(server: &Server) -> Self {
        let address = server.hls.unwrap();
        Self(TcpStream::connect(address).unwrap(), address.to_string())
    }

    fn send(&mut self, line: &str, headers: &str) {
        write!(self.0, "{line} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.1).unwrap();
    }

    /// Receives a response: its status, header and body.
    fn receive(&mut self) -> (String, String, Vec<u8>) {
        let head = read_head(&mut self.0);
        let length = head.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        (head[9..12].to_owned(), head, body)
    }

    fn get(&mut self, path: &str) -> (String, String, Vec<u8>) {
        self.send(&format!("GET {path}"), "");
        self.receive()
    }

    /// Returns the playlist of `cam/front`.
    fn playlist(&mut self, query: &str) -> String {
        let (status, head, body) = self.get(&format!("/cam/front/index.m3u8{query}"));
        let text = String::from_utf8(body).unwrap();
        assert_eq!(status, "200", "{text}");
        assert!(head.contains("Content-Type: application/vnd.apple.mpegurl\r\n"), "{head}");
        text
    }
}

/// Returns the numbers after `tag` in a playlist, up to the next comma.
fn numbers(playlist: &str, tag: &str) -> Vec<f64> {
    let after = playlist.split(tag).skip(1);
    after.map(|text| text.split([',', '\n']).next().unwrap().parse().unwrap()).collect()
}

/// Asserts that no segment and no part is longer than the playlist promises.
fn assert_lengths(playlist: &str) {
    let [segment] = numbers(playlist, "#EXT-X-TARGETDURATION:")[..] else { panic!("{playlist}") };
    assert!(numbers(playlist, "#EXTINF:").iter().all(|of| of.round() <= segment), "{playlist}");
    let [part] = numbers(playlist, "PART-TARGET=")[..] else { panic!("{playlist}") };
    assert!(numbers(playlist, ",DURATION=").iter().all(|of| *of <= part), "{playlist}");
}

/// Returns the number of the open segment of a playlist, and its number of parts.
fn edge(playlist: &str) -> (u64, usize) {
    let first = playlist.split("#EXT-X-MEDIA-SEQUENCE:").nth(1).unwrap().lines().next().unwrap();
    let complete = playlist.matches("#EXTINF:").count() as u64;
    let open = playlist.rsplit("-segment-").next().unwrap();
    (first.parse::<u64>().unwrap() + complete, open.matches("#EXT-X-PART:").count())
}

/// Sends requests for a file of `bytes` bytes without reading, until no more are taken. Asserts
/// that the server does not keep the responses.
fn assert_not_kept(server: &Server, path: &str, bytes: usize) {
    let before_kb = resident(server.child.id());
    let mut player = Connection::new(server);
    player.0.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", player.1);
    let mut sent = 0;
    while player.0.write_all(request.as_bytes()).is_ok() {
        sent += 1;
    }
    assert!(sent * bytes > 200 << 20, "{sent} requests of {bytes} bytes");
    Connection::new(server).playlist("");
    let kept_kb = resident(server.child.id()).saturating_sub(before_kb);
    assert!(kept_kb < 20 << 10, "{kept_kb} kB for {sent} responses of {bytes} bytes");
}

/// Starts a server with users and tokens, and publishes `cam/front`.
fn serve_published(clips: &TestClips) -> (Server, Child) {
    let server = serve(clips, ACCESS);
    let publisher =
        publish(clips, &format!("rtsp://studio:open%20sesame@{}/cam/front", server.rtsp));
    wait_for(&server, "a publisher", |status| status["live"][0]["transport"] == "interleaved");
    (server, publisher)
}

/// Asserts that a run of the pictures of `sound.mp4` is what `player` writes the sums of to `file`.
fn assert_published(clips: &TestClips, player: Child, file: &str) {
    let seen = clips.pictures(player, file);
    let once = clips.all_pictures("sound.mp4");
    let expected = [&once[..], &once[..], &once[..]].concat();
    assert_eq!(seen.len(), SEEN, "{file}");
    assert!(expected.windows(SEEN).any(|run| run == seen), "{file}: {seen:?} of {once:?}");
}

#[test]
fn players_with_a_token_decode_the_published_pictures() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let (server, mut publisher) = serve_published(&clips);
    let at = server.hls.unwrap();
    let url = format!("http://{at}/cam/front/index.m3u8?token=letmein");
    let seen_by_ffmpeg = clips.decode_some(&url, &[], "ffmpeg.md5", &SEEN.to_string());
    // The tracks have both kinds of frames.
    let mut ffprobe = Command::new("ffprobe");
    ffprobe.args(["-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0", &url]);
    let codecs = String::from_utf8(ffprobe.output().unwrap().stdout).unwrap();
    assert!(codecs.starts_with("h264\naac\n") || codecs.starts_with("aac\nh264\n"), "{codecs}");
    assert_published(&clips, seen_by_ffmpeg, "ffmpeg.md5");
    let mut player = Connection::new(&server);
    let file = "x-part-1.mp4";
    for path in ["index.m3u8", "index.m3u8?token=guess", file, "x-part-1.mp4?token=guess"] {
        let (status, head, _) = player.get(&format!("/cam/front/{path}"));
        assert_eq!(status, "401", "{path}: {head}");
    }
    let mut refused = clips.decode_some(&url.replace("letmein", "guess"), &[], "refused", "1");
    assert!(!refused.wait().unwrap().success());
    let text = player.playlist("?token=letmein");
    let files = text.lines().filter(|line| line.contains(".mp4"));
    assert!(
        files.clone().count() > 3 && files.clone().all(|line| line.contains(".mp4?token=letmein"))
    );
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    let status = server.status();
    assert!(status["hls"][0]["frames"].as_u64().unwrap() > SEEN as u64, "{status}");
    let parts = "millstream_media_hls_total{stream=\"cam/front\",event=\"part\"} ";
    assert!(server.page("/metrics").contains(parts), "{}", server.page("/metrics"));
    assert!(status["hls"][0]["served_bytes"].as_u64().unwrap() > 10_000, "{status}");
    server.end();
}

#[test]
#[ignore = "make soak: needs GStreamer"]
fn gstreamer_decodes_the_published_pictures() {
    if !is_installed("ffmpeg") || !is_installed("gst-launch-1.0") {
        return;
    }
    let clips = clips();
    let (server, mut publisher) = serve_published(&clips);
    let url = format!("http://{}/cam/front/index.m3u8?token=letmein", server.hls.unwrap());
    let raw = clips.path("gst.yuv");
    let mut gst = Command::new("gst-launch-1.0");
    gst.args(["-q", "souphttpsrc", &format!("location={url}"), "!", "hlsdemux", "!"]);
    gst.args(["qtdemux", "!", "h264parse", "!", "avdec_h264", "!", "videoconvert", "!"]);
    gst.args(["video/x-raw,format=I420", "!", "filesink"]);
    let mut gst = gst.arg(format!("location={}", raw.display())).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let enough = (SEEN * PICTURE_BYTES) as u64;
    while std::fs::metadata(&raw).map_or(0, |file| file.len()) < enough {
        assert!(Instant::now() < end && gst.try_wait().unwrap().is_none(), "GStreamer");
        std::thread::sleep(Duration::from_millis(50));
    }
    gst.kill().unwrap();
    gst.wait().unwrap();
    let (sums, size) = ("gst.md5", ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "176x144"]);
    let seen_by_gst = clips.decode_some("gst.yuv", &size, sums, &SEEN.to_string());
    assert_published(&clips, seen_by_gst, sums);
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    server.end();
}

#[test]
fn requests_wait_for_the_next_part_and_the_end_is_announced() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let server = serve(&clips, "");
    let mut player = Connection::new(&server);
    for (line, headers, expected) in [
        ("GET /cam/front/index.m3u8", "", "404"),
        ("GET /unknown/index.m3u8", "", "404"),
        ("GET /recordings/cam/index.m3u8", "", "404"),
        ("GET /index.m3u8", "", "404"),
        ("POST /cam/front/index.m3u8", "", "405"),
        ("GET /cam/front/index.m3u8", "Origin: http://a.example\r\n", "403"),
        ("GET /cam/front/index.m3u8?_HLS_part=1", "", "400"),
        ("GET /cam/front/index.m3u8?_HLS_msn=x", "", "400"),
    ] {
        player.send(line, headers);
        let (status, _, body) = player.receive();
        assert_eq!(status, expected, "{line}: {}", String::from_utf8_lossy(&body));
    }
    let mut publisher = publish(&clips, &format!("rtsp://{}/cam/front", server.rtsp));
    wait_for(&server, "a publisher", |status| status["live"][0]["transport"] == "interleaved");
    // The first request waits for three segments.
    let text = player.playlist("");
    assert!(text.matches("#EXTINF:").count() >= 3, "{text}");
    assert!(text.contains("CAN-BLOCK-RELOAD=YES"), "{text}");
    assert_lengths(&text);
    let mut last = edge(&text);
    for _ in 0..7 {
        let next = player.playlist(&format!("?_HLS_msn={}&_HLS_part={}", last.0, last.1));
        let (sequence, parts) = edge(&next);
        assert!(sequence > last.0 || sequence == last.0 && parts > last.1, "{last:?}: {next}");
        last = (sequence, parts);
    }
    assert!(last.0 > edge(&text).0, "seven parts are more than a segment: {last:?}");
    // The announced part, then a file that there is, and one that is too far ahead.
    let text = player.playlist("");
    let hint = text.split("TYPE=PART,URI=\"").nth(1).unwrap().split('"').next().unwrap();
    let (status, head, body) = player.get(&format!("/cam/front/{hint}"));
    assert!(status == "200" && head.contains("Content-Type: video/mp4\r\n"), "{head}");
    assert_eq!(&body[4..8], b"moof");
    let file = text.lines().rfind(|line| line.contains("-segment-")).unwrap();
    player.send(&format!("HEAD /cam/front/{file}"), "");
    player.send(&format!("GET /cam/front/{file}"), "Connection: close\r\n");
    let mut bytes = Vec::new();
    player.0.read_to_end(&mut bytes).unwrap();
    let both = String::from_utf8_lossy(&bytes);
    assert_eq!(both.matches("HTTP/1.1 200 OK\r\n").count(), 2);
    let before = &text[..text.find(file).unwrap()];
    let parts = before[before.rfind("#EXTINF:").unwrap()..].len();
    let of_segment = before[..before.len() - parts].rsplit("#EXTINF:").next().unwrap();
    assert_eq!(both.matches("moof").count(), of_segment.matches("#EXT-X-PART:").count());
    // Requests without a pause are answered in order, more of them than a turn of the connection.
    let mut player = Connection::new(&server);
    let mut other = Connection::new(&server);
    let whole = player.get(&format!("/cam/front/{file}")).2;
    let count = (4 << 20) / whole.len();
    let host = player.1.clone();
    let request = format!("GET /cam/front/{file} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut sender = player.0.try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(request.repeat(count).as_bytes()));
    assert_eq!(other.get(&format!("/cam/front/{file}")).2, whole, "another player has its turn");
    (0..count).for_each(|number| assert_eq!(player.receive().2, whole, "{number} of {count}"));
    sending.join().unwrap().unwrap();
    assert_not_kept(&server, &format!("/cam/front/{file}"), whole.len());
    let mut player = Connection::new(&server);
    for path in
        [hint.replace("-part-", "-part-9"), format!("x{hint}"), "index.m3u8?_HLS_msn=99".into()]
    {
        let (status, ..) = player.get(&format!("/cam/front/{path}"));
        assert!(status == "404" || status == "400", "{path}: {status}");
    }
    // Players see the end at once, and again for a while.
    let (sequence, _) = edge(&player.playlist(""));
    player.send(&format!("GET /cam/front/index.m3u8?_HLS_msn={}", sequence + 1), "");
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    let (_, _, body) = player.receive();
    let ended = String::from_utf8(body).unwrap();
    assert!(ended.ends_with("#EXT-X-ENDLIST\n"), "{ended}");
    wait_for(&server, "no publisher", |status| status["live"][0]["publisher"] == "");
    assert!(player.playlist("").ends_with("#EXT-X-ENDLIST\n"));
    // Another publication has a playlist of its own, with later numbers.
    let mut publisher = publish(&clips, &format!("rtsp://{}/cam/front", server.rtsp));
    wait_for(&server, "a publisher", |status| status["live"][0]["transport"] == "interleaved");
    let again = player.playlist("");
    assert!(again.matches("#EXTINF:").count() >= 3 && !again.contains("ENDLIST"), "{again}");
    assert!(edge(&again).0 > edge(&ended).0, "{again}");
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    server.end();
}

#[test]
fn a_playlist_waits_for_the_command_that_publishes() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let media = "hls = \"127.0.0.1:0\"";
    let server = crate::on_demand::serve(clips.folder.path(), "clip.mp4", media, "");
    let mut player = Connection::new(&server);
    let (status, _, body) = player.get("/cam/index.m3u8");
    let text = String::from_utf8(body).unwrap();
    assert_eq!((status.as_str(), text.matches("#EXTINF:").count()), ("200", 3), "{text}");
    let (status, ..) = player.get("/broken/index.m3u8");
    assert_eq!(status, "404", "its command publishes nothing");
    // The requests of a player keep the command running.
    let started = |server: &Server| server.status()["hooks"][0]["started"].as_u64();
    let (sequence, _) = edge(&text);
    let (status, ..) = player.get(&format!("/cam/index.m3u8?_HLS_msn={}", sequence + 1));
    assert_eq!((status.as_str(), started(&server)), ("200", Some(1)));
    // A request after the end of the command starts it again, and waits for its publication.
    let id = std::fs::read_to_string(clips.path("log.id")).unwrap();
    assert!(Command::new("kill").args(["-9", id.trim()]).status().unwrap().success());
    wait_for(&server, "no publisher", |status| status["live"][0]["publisher"] == "");
    let (status, _, body) = player.get("/cam/index.m3u8");
    let again = String::from_utf8(body).unwrap();
    assert!(status == "200" && !again.contains("ENDLIST"), "{again}");
    assert!(edge(&again).0 > sequence && started(&server) == Some(2), "{again}");
    server.end();
}

#[test]
#[cfg(feature = "webrtc")]
#[ignore = "make soak: needs Chromium"]
fn a_browser_plays_the_page_without_dropping_a_frame() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let (server, mut publisher) = serve_published(&clips);
    let page = format!("http://{}/cam/front/?token=letmein#stats", server.hls.unwrap());
    let browser = crate::webrtc::browser::Browser::open(&page);
    let video = browser.statistics_with(|video| video["frames"].as_u64() >= Some(250));
    assert_eq!(video["dropped"], 0, "{video}");
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    server.end();
}
