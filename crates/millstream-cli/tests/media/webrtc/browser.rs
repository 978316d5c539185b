//! Chromium plays and publishes: the pages `/watch/NAME` and `/publish/NAME`, and its statistics.

use super::viewer::request;
use super::{clips, serve, sum, wait_for_publisher};
use crate::codecs::{CODECS, Video};
use crate::player::{Server, assert_conserved, is_installed};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A headless browser with one page.
pub(crate) struct Browser {
    child: Child,
    lines: Receiver<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Opens a page.
    pub(crate) fn open(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
            .args(["--autoplay-policy=no-user-gesture-required"])
            .args(["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, lines) = channel();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in said.map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        Self { child, lines, _profile: profile }
    }

    /// Returns the first line of the log with this text.
    pub(crate) fn line_with(&self, text: &str) -> String {
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            let line = self.lines.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with `{text}`");
    }

    /// Returns the first statistics of the video for which `holds` is true.
    pub(crate) fn statistics_with(
        &self,
        holds: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        self.statistics_of("video", holds)
    }

    /// Returns the first statistics of a track, video or audio, for which `holds` is true.
    fn statistics_of(
        &self,
        kind: &str,
        holds: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let end = Instant::now() + Duration::from_secs(120);
        let mut last = String::new();
        while Instant::now() < end {
            let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) else { continue };
            assert!(!line.contains("Content Security Policy"), "{line}");
            let Some(at) = line.find(&format!("{{\"kind\":\"{kind}\"")) else { continue };
            let text = line[at..].split_inclusive('}').next().unwrap();
            let track: serde_json::Value = serde_json::from_str(text).unwrap();
            if holds(&track) {
                return track;
            }
            text.clone_into(&mut last);
        }
        panic!("the last statistics: {last}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Busy threads, one for each core, until it is dropped.
struct Load(std::sync::Arc<AtomicBool>);

impl Load {
    fn start() -> Self {
        let load = Self(std::sync::Arc::new(AtomicBool::new(true)));
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            let runs = load.0.clone();
            std::thread::spawn(move || while runs.load(Ordering::Relaxed) {});
        }
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Plays a file of `frames` frames to its end. Returns the server's account, and the browser's
/// statistics.
fn play(server: Server, frames: u64) -> (serde_json::Value, serde_json::Value) {
    let url = format!("http://{}/watch/plain#stats", server.webrtc.unwrap());
    let browser = Browser::open(&url);
    let video = browser.statistics_with(|video| video["framesReceived"] == frames);
    // The browser may hold the last frame until another follows.
    let decoded = |video: &serde_json::Value| {
        let ended = ["framesDecoded", "framesDropped"].map(|name| video[name].as_u64().unwrap());
        ended[0] + ended[1] >= frames - 1
    };
    let video = if decoded(&video) { video } else { browser.statistics_with(decoded) };
    (server.end(), video)
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_browser_decodes_every_frame() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(250);
    let (account, video) = play(serve(&clips, "placement = \"ni\"", "0/1"), 250);
    eprintln!("{video}");
    assert_conserved(&account);
    assert_eq!(sum(&account["frames"]["sent"]), 250, "{account}");
    assert_eq!((&video["packetsLost"], &video["freezeCount"]), (&0.into(), &0.into()), "{video}");
    assert!(video["framesDecoded"].as_u64().unwrap() >= 249, "{video}");
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_browser_gets_every_frame_of_a_minute_beside_a_full_load() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(1_500);
    let server = serve(&clips, "placement = \"ni\"", "0/1");
    let load = Load::start();
    let (account, video) = play(server, 1_500);
    drop(load);
    eprintln!("{video}");
    assert_conserved(&account);
    // What the browser decodes in time depends on its share of the processor.
    assert_eq!(sum(&account["frames"]["sent"]), 1_500, "{account}");
    assert_eq!(account["frames"]["violations"], 0, "{account}");
    assert_eq!(video["packetsLost"], 0, "{video}");
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_browser_publishes_its_camera_and_another_plays_it() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(25);
    let server = serve(&clips, "placement = \"ni\"", "0/1");
    let address = server.webrtc.unwrap();
    let _camera = Browser::open(&format!("http://{address}/publish/live"));
    wait_for_publisher(&server);
    let viewer = Browser::open(&format!("http://{address}/watch/live#stats"));
    let video = viewer.statistics_with(|video| video["framesDecoded"].as_u64() >= Some(100));
    // Opus has 50 frames a second.
    let audio = |audio: &serde_json::Value| audio["packetsReceived"].as_u64() >= Some(200);
    let audio = viewer.statistics_of("audio", audio);
    eprintln!("{video}\n{audio}");
    assert_eq!((&video["packetsLost"], &audio["packetsLost"]), (&0.into(), &0.into()), "{audio}");
    let status = server.status();
    assert_eq!(status["live"][0]["transport"], "webrtc", "{status}");
    assert_eq!(
        (&status["webrtc"]["viewers"], &status["webrtc"]["publishers"]),
        (&1.into(), &1.into())
    );
    let ingested = &status["live"][0]["ingested"];
    assert_eq!(ingested["lost_packets"], 0, "{ingested}");
    assert_eq!(ingested["strange_packets"], 0, "{ingested}");
    server.end();
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_page_plays_on_after_its_server_was_killed() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let media = format!("placement = \"ni\"\nsocket = \"media.socket\"\nwebrtc = \"{free}\"");
    let clips = clips(250);
    let mut server = serve(&clips, &media, "0/1");
    let browser = Browser::open(&format!("http://{free}/watch/again#stats"));
    let decoded = |least| move |of: &serde_json::Value| of["framesDecoded"].as_u64() >= Some(least);
    browser.statistics_with(decoded(100));
    server.crash();
    let server = server.restart();
    eprintln!("{}", browser.line_with("plays on at"));
    // The statistics of the next session begin at 0.
    let video = browser.statistics_with(|video| !decoded(100)(video) && decoded(25)(video));
    eprintln!("{video}");
    let status = server.status();
    assert_eq!(status["clients"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["webrtc"]["viewers"], 1, "{status}");
    // A session that its server ends is not begun again.
    let plain = Browser::open(&format!("http://{free}/watch/plain#stats"));
    plain.statistics_with(decoded(249));
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        assert!(server.status()["admitted"].as_u64() <= Some(2), "{}", server.status());
        std::thread::sleep(Duration::from_millis(200));
    }
    server.end();
}

/// Replaces the network and the clock of a page: packets arrive for 3 s and then no more, and no
/// server answers. Logs the time from the last packet to the next offer.
const SILENCE: &str = r#"<script>
  let clock = 0, packets = 0, last = 0, offers = 0;
  const soon = setTimeout;
  performance.now = () => clock;
  window.setTimeout = (then, ms) => soon(() => { clock += ms; then(); }, 0);
  AbortSignal.timeout = ms => ms;
  window.RTCPeerConnection = class {
    localDescription = { sdp: "" };
    addTransceiver() {}
    async setLocalDescription() {}
    async setRemoteDescription() {}
    async getStats() {
      if (clock < 3000) [packets, last] = [packets + 1, clock];
      return new Map([["t", { type: "transport", packetsReceived: packets }]]);
    }
    close() {}
  };
  const headers = { "Location": "/session/1", "X-Server-Instance": "1", "Link": LINK };
  window.fetch = async (url, { method, signal }) => {
    if (method === "POST" && offers++ === 0) {
      const get = name => headers[name] ?? null;
      return { status: 201, url: location.href, headers: { get }, text: async () => "" };
    }
    if (method === "POST") {
      console.log(`offered again after ${clock - last} ms`);
      return new Promise(() => {});
    }
    if (method === "OPTIONS") clock += signal;
    throw new Error("no answer");
  };
</script>"#;

/// Answers every request with this page; returns the server's address.
fn serve_text(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all((head.to_owned() + &page).as_bytes());
        }
    });
    address
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_page_without_another_server_waits_longer_for_its_own() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let server = serve(&clips(25), "", "0/1");
    let page = request(server.webrtc.unwrap(), "GET /watch/again", "", "").body;
    let other = "`<http://b/x>; rel=\"alternate\"`";
    for (link, offered) in [("null", "after 2000 ms"), (other, "after 1000 ms")] {
        let address = serve_text(SILENCE.replace("LINK", link) + &page);
        let browser = Browser::open(&format!("http://{address}/watch/again"));
        let line = browser.line_with("offered again");
        assert!(line.contains(offered), "{link}: {line}");
    }
    server.end();
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn browsers_publish_and_play_each_codec() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = crate::codecs::clips();
    // Chromium has H.265 only with hardware.
    let videos: Vec<&Video> = CODECS.iter().filter(|video| video.codec != "h265").collect();
    let server = clips.serve_webrtc(
        &videos,
        "50 Mbps",
        "first-deadline = \"500 ms\"",
        Some(", audio = \"opus\""),
    );
    let address = server.webrtc.unwrap();
    let status = |codec: &str| {
        let status = server.status();
        let streams = status["live"].as_array().unwrap();
        streams.iter().find(|live| live["stream"] == format!("live-{codec}")).unwrap().clone()
    };
    for Video { codec, .. } in videos {
        let camera = Browser::open(&format!("http://{address}/publish/live-{codec}"));
        let end = Instant::now() + Duration::from_secs(60);
        while status(codec)["publisher"] == "" {
            assert!(Instant::now() < end, "{codec}: {}", server.status());
            std::thread::sleep(Duration::from_millis(20));
        }
        let viewer = Browser::open(&format!("http://{address}/watch/live-{codec}#stats"));
        let video = viewer.statistics_with(|video| video["framesDecoded"].as_u64() >= Some(50));
        eprintln!("{codec}: {video}");
        assert_eq!(video["packetsLost"], 0, "{codec}: {video}");
        let ingested = &status(codec)["ingested"];
        eprintln!("{codec}: {ingested}");
        assert_eq!(ingested["strange_packets"], 0, "{codec}: {ingested}");
        assert_eq!(ingested["incomplete"], 0, "{codec}: {ingested}");
        drop((viewer, camera));
    }
    assert_conserved(&server.end());
}
