//! Publishers by transport streams over UDP and SRT: ffmpeg sends them, and players decode the
//! pictures.

use crate::live::{assert_whole, serve, wait_for};
use crate::player::{Server, is_installed};
use crate::test_clips::TestClips;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The pictures that a player decodes.
const SEEN: usize = 30;

/// Makes `h264.mp4` with AAC and `mpeg.ts` with MPEG-1 video and MPEG audio, of 50 pictures.
fn clips() -> TestClips {
    let clips = TestClips::make(50, "300k", "12");
    let tone = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100:duration=2"];
    let copied = ["-map", "0:v", "-map", "1:a", "-ac", "2", "-b:a", "128k", "-c:v", "copy"];
    for (from, audio, to) in [("clip.mp4", "aac", "h264.mp4"), ("clip.mpg", "mp2", "mpeg.ts")] {
        // Program streams do not have the time of each picture.
        let from = ["-fflags", "+genpts", "-i", from];
        clips.ffmpeg(&[&from[..], &tone, &copied, &["-c:a", audio, to]].concat());
    }
    clips
}

/// Sends a file again and again to a URL, in real time.
fn send(clips: &TestClips, file: &str, to: &str) -> Child {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-re", "-stream_loop", "-1", "-i", file, "-c", "copy"]);
    ffmpeg.args(["-f", "mpegts", to]);
    ffmpeg.stdin(Stdio::null()).current_dir(&clips.folder).spawn().unwrap()
}

/// Returns the URL of an address that receives datagrams.
fn udp(to: SocketAddr) -> String {
    format!("udp://{to}?pkt_size=1316")
}

/// Returns a free UDP port.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Ends a sender, which says goodbye: a listener by SRT then accepts another at once.
fn end(mut child: Child) {
    let id = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
    child.wait().unwrap();
}

/// Asserts that a player sees pictures of a file that a publisher repeats.
fn assert_played(clips: &TestClips, server: &Server, stream: &str, file: &str) {
    let url = format!("rtsp://{}/{stream}", server.rtsp);
    let options = ["-rtsp_transport", "tcp"];
    let player = clips.decode_some(&url, &options, stream, &SEEN.to_string());
    let seen = clips.pictures(player, stream);
    let once = clips.all_pictures(file);
    let expected = [&once[..], &once[..]].concat();
    assert_eq!(seen.len(), SEEN, "{stream}");
    assert!(expected.windows(SEEN).any(|run| run == seen), "{stream}: {seen:?} of {once:?}");
}

#[test]
fn pictures_of_transport_streams_are_played_unchanged() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let x265 = "log-level=error:pools=none:frame-threads=1:keyint=12:bframes=2:open-gop=0";
    let to = ["-b:v", "300k", "-c:v", "libx265", "-x265-params", x265, "-tag:v", "hvc1"];
    clips.ffmpeg(&[&["-i", "clip.mp4"][..], &to, &["h265.mp4"]].concat());
    let source = |audio: &str| format!(", udp = \"127.0.0.1:0\", audio = \"{audio}\"");
    let (aac, mpeg) = (source("aac"), source("mpeg"));
    let streams = [
        ("h264", "h264", &aac[..]),
        ("mpeg", "mpeg", &mpeg[..]),
        ("h265", "h265", ", udp = \"127.0.0.1:0\""),
    ];
    let server = serve("placement = \"ni\"", &streams, &[]);
    let files = ["h264.mp4", "mpeg.ts", "h265.mp4"];
    let senders = [0, 1, 2].map(|at| send(&clips, files[at], &udp(server.udp[at])));
    wait_for(&server, "publishers", |status| {
        (0..5).all(|at| status["live"][at]["transport"] == "mpeg-ts")
    });
    for (at, (name, ..)) in streams.iter().enumerate() {
        assert_played(&clips, &server, name, files[at]);
    }
    let status = server.status();
    for live in status["live"].as_array().unwrap() {
        assert_whole(live);
        assert!(live["ingested"]["frames"].as_u64().unwrap() >= SEEN as u64, "{live}");
    }
    // Another sender is ignored while the first one sends.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(&[0x47; 188], server.udp[0]).unwrap();
    wait_for(&server, "a strange packet", |status| {
        status["live"][0]["ingested"]["strange_packets"] == 1
    });
    senders.into_iter().for_each(end);
    wait_for(&server, "no publishers", |status| {
        (0..5).all(|at| status["live"][at]["publisher"] == "")
    });
    let sender = send(&clips, files[0], &udp(server.udp[0]));
    wait_for(&server, "a publisher that is back", |status| {
        status["live"][0]["ingested"]["publications"] == 2
    });
    assert_played(&clips, &server, "h264", files[0]);
    end(sender);
    server.end();
}

#[test]
fn a_publisher_by_srt_needs_the_passphrase_and_may_come_back() {
    if !is_installed("ffmpeg") || !is_installed("srt-live-transmit") {
        return;
    }
    let clips = clips();
    let [port, remote] = [free_port(), free_port()];
    // The encoder that the server calls waits for it.
    let encoder = send(&clips, "mpeg.ts", &format!("srt://127.0.0.1:{remote}?mode=listener"));
    let cam = format!(
        ", audio = \"aac\", srt = {{ address = \"127.0.0.1:{port}\", passphrase = \"secret\" }}"
    );
    let called = format!(
        ", srt = {{ address = \"127.0.0.1:{remote}\", mode = \"caller\", streamid = \"a\" }}"
    );
    let streams = [("cam", "h264", &cam[..]), ("remote", "mpeg", &called[..])];
    let server = serve("placement = \"ni\"", &streams, &[("secret", "open-sesame\n")]);
    let mut without = Command::new(env!("CARGO_BIN_EXE_millstream"));
    without.arg("serve").arg(server.path("media.toml")).env("PATH", "/nonexistent");
    let without = without.output().unwrap();
    let text = String::from_utf8_lossy(&without.stderr);
    assert_eq!(without.status.code(), Some(2), "{text}");
    for part in ["`cam`", "srt-live-transmit", "apt install srt-tools"] {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
    let url = |passphrase: &str| format!("srt://127.0.0.1:{port}?passphrase={passphrase}");
    wait_for(&server, "receivers by SRT", |status| {
        (0..2).all(|hook| status["hooks"][hook]["started"].as_u64() >= Some(1))
    });
    let is_published = |status: &serde_json::Value, stream: &str| {
        let live = status["live"].as_array().unwrap();
        live.iter().any(|of| of["stream"] == stream && of["transport"] == "mpeg-ts")
    };
    wait_for(&server, "the encoder", |status| is_published(status, "remote"));
    let receivers = || -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let is_one = |of: &PathBuf| {
            let command = std::fs::read_to_string(of.join("cmdline")).unwrap_or_default();
            command.starts_with("srt-live-transmit\0") && command.contains(&format!(":{port}?"))
        };
        all.filter(is_one)
            .filter_map(|of| std::fs::read_to_string(of.join("status")).ok())
            .collect()
    };
    let [receiver] = &receivers()[..] else { panic!("{:?}", receivers()) };
    for line in ["NoNewPrivs:\t1\n", "CapPrm:\t0000000000000000\n"] {
        assert!(receiver.contains(line), "{receiver} lacks {line:?}");
    }
    assert_played(&clips, &server, "remote", "mpeg.ts");
    end(encoder);
    let mut refused = send(&clips, "h264.mp4", &url("open-barley"));
    let mut result = None;
    wait_for(&server, "the end of a sender with another passphrase", |status| {
        assert!(!is_published(status, "cam"));
        result = refused.try_wait().unwrap();
        result.is_some()
    });
    assert!(!result.unwrap().success());
    for publications in 1..=2 {
        let sender = send(&clips, "h264.mp4", &url("open-sesame"));
        wait_for(&server, "a publisher", |status| {
            let of = &status["live"][0];
            of["ingested"]["publications"] == publications && of["publisher"] != ""
        });
        assert_played(&clips, &server, "cam", "h264.mp4");
        end(sender);
        wait_for(&server, "no publisher", |status| !is_published(status, "cam"));
    }
    server.end();
    assert_eq!(receivers(), [""; 0], "the programs end with the server");
}
