//! Tests of WebRTC: a client of str0m plays files and live streams, and ffmpeg decodes what it got.

pub(crate) mod browser;
mod codecs;
mod media_thread;
mod on_demand;
mod paths;
pub(crate) mod viewer;

use crate::player::{Server, assert_conserved, is_installed, mangled, test_video};

use crate::test_clips::TestClips;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use viewer::{Publisher, Viewer, request};

/// Makes H.264 files without B-frames, as browsers play them, with a key frame every 12 frames.
pub(crate) fn clips(frames: usize) -> TestClips {
    let clips = TestClips::make(frames, "400k", "12");
    clips.ffmpeg(&["-i", "clip.mp4", "-c:v", "libx264", "-bf", "0", "-g", "12", "plain.ts"]);
    clips
}

/// Serves the files of `clips`, the live stream `live`, and two paths `room/NAME`.
fn serve(clips: &TestClips, media: &str, window: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), test_video(60)).unwrap();
    let stream = |name: &str, source: &str| {
        format!(
            "[[stream]]\nname = \"{name}\"\nperiod = \"40 ms\"\nwindow = \"{window}\"\n\
             late = \"drop\"\nfirst-deadline = \"2 s\"\nsource = {{ {source} }}\n"
        )
    };
    let file = |name: &str| format!("kind = \"mpeg\", file = \"{}\"", clips.path(name).display());
    let live = "kind = \"live\", rate = \"2 Mbps\", codec = \"h264\", audio = \"opus\"";
    let own = if media.contains("webrtc =") { "" } else { "webrtc = \"127.0.0.1:0\"" };
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n{own}\n\
         {media}\n[link]\nrate = \"50 Mbps\"\noverhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n\
         [scenario]\nduration = \"1 s\"\n{}{}{}{}{}",
        stream("plain", &file("plain.ts")),
        stream("again", &format!("{}, repeat = true", file("plain.ts"))),
        stream("old", &file("clip.mpg")),
        stream("live", &format!("{live}, record = {}", media.contains("recording ="))),
        stream("room", &format!("{live}, paths = 2")),
    );
    std::fs::write(folder.path().join("media.toml"), text).unwrap();
    Server::serve(&folder.path().join("media.toml").clone(), folder)
}

impl TestClips {
    /// Returns the coded frames of `plain.ts`.
    fn coded_frames(&self) -> Vec<Vec<u8>> {
        // Every frame begins with an access unit delimiter.
        let delimited = ["-c", "copy", "-bsf:v", "h264_mp4toannexb,h264_metadata=aud=insert"];
        self.ffmpeg(&[&["-i", "plain.ts"][..], &delimited, &["plain.h264"]].concat());
        let text = std::fs::read(self.path("plain.h264")).unwrap();
        let starts = text.windows(5).enumerate().filter(|(_, bytes)| *bytes == [0, 0, 0, 1, 9]);
        let starts: Vec<usize> = starts.map(|(at, _)| at).chain([text.len()]).collect();
        starts.windows(2).map(|at| text[at[0]..at[1]].to_vec()).collect()
    }

    /// Returns the checksums of the pictures in H.264 frames.
    fn decoded(&self, frames: &[Vec<u8>]) -> Vec<String> {
        std::fs::write(self.path("seen.h264"), frames.concat()).unwrap();
        self.pictures_of("seen.h264")
    }

    fn pictures_of(&self, file: &str) -> Vec<String> {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-i", file, "-an", "-fps_mode", "passthrough"]);
        ffmpeg.args(["-f", "framemd5", "-"]);
        let output = ffmpeg.current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let sums = text.lines().filter(|line| !line.starts_with('#'));
        sums.map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
    }

    /// Publishes a file with a tone as audio, in real time.
    fn publish_with_tone(&self, file: &str, url: &str) -> Child {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-re", "-i", file, "-f", "lavfi", "-i", "sine"]);
        ffmpeg.args(["-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "libopus"]);
        ffmpeg.args(["-shortest", "-f", "rtsp", "-rtsp_transport", "tcp", url]);
        ffmpeg.current_dir(&self.folder).stdin(Stdio::null()).spawn().unwrap()
    }
}

fn data(frames: &[str0m::media::MediaData]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.data.to_vec()).collect()
}

#[test]
fn a_viewer_gets_every_picture_of_a_file_and_its_session_ends_with_the_file() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(75);
    let server = serve(&clips, "", "0/1");
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/plain", "").unwrap();
    viewer.receive_until(|viewer| viewer.closed);
    assert_eq!(viewer.frames.len(), 75);
    // Headers, encryption and feedback, but no padding that the scheduler does not know of.
    let bytes: usize = viewer.frames.iter().map(|frame| frame.data.len()).sum();
    assert!(viewer.received_bytes < bytes * 5 / 4, "{} for {bytes}", viewer.received_bytes);
    assert_eq!(clips.decoded(&data(&viewer.frames)), clips.pictures_of("plain.ts"));
    let account = server.end();
    assert_conserved(&account);
    assert_eq!(account["frames"]["sent"], serde_json::json!([7, 68, 0]), "{account}");
}

#[test]
fn lost_packets_are_sent_again() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(75);
    let server = serve(&clips, "", "0/1");
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/again", "").unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() >= 10);
    viewer.lost = 20;
    viewer.receive_until(|viewer| viewer.frames.len() >= 75);
    assert!(viewer.frames.iter().all(|frame| frame.contiguous));
    let times: Vec<u64> = viewer.frames.iter().map(|frame| frame.time.numer()).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 3_600), "{times:?}");
    viewer.frames.truncate(75);
    assert_eq!(clips.decoded(&data(&viewer.frames)), clips.pictures_of("plain.ts"));
    server.end();
}

/// Waits until a publisher's frames arrive.
fn wait_for_publisher(server: &Server) {
    let end = Instant::now() + Duration::from_secs(60);
    while server.status()["live"][0]["publisher"] == "" {
        assert!(Instant::now() < end, "{}", server.status());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_viewer_of_a_live_stream_gets_each_frame_that_the_scheduler_sent_and_its_audio() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(150);
    let server = serve(&clips, "placement = \"ni\"", "0/1");
    let address = server.webrtc.unwrap();
    assert_eq!(Viewer::open(address, "/whep/live", "").err().unwrap().status, 404);
    let url = format!("rtsp://{}/live", server.rtsp);
    let mut publisher = clips.publish_with_tone("plain.ts", &url);
    wait_for_publisher(&server);
    let mut viewer = Viewer::open(address, "/whep/live", "").unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() >= 24 && viewer.audio.len() >= 50);
    let status = server.status();
    let [video, audio] = [0, 1].map(|at| status["clients"][at].clone());
    assert_eq!((&video["transport"], &audio["transport"]), (&"webrtc".into(), &"webrtc".into()));
    assert!(video["path_bps"].as_u64().unwrap() > 0, "{video}");
    assert_eq!(status["webrtc"]["viewers"], 1, "{status}");
    while publisher.try_wait().unwrap().is_none() {
        viewer.receive_for(Duration::from_millis(50));
    }
    viewer.receive_for(Duration::from_secs(3));
    let sent = |client: &serde_json::Value| -> u64 {
        client["frames"]["sent"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
    };
    let status = server.status();
    let [video, audio] = [0, 1].map(|at| status["clients"][at].clone());
    assert_eq!(viewer.frames.len() as u64, sent(&video), "{video}");
    assert_eq!(viewer.audio.len() as u64, sent(&audio), "{audio}");
    // The first request ends the session, and the second one finds none. A viewer that did not
    // answer for as long as pictures are decoded could lose the session before.
    let delete = format!("DELETE {}", viewer.session);
    assert_eq!(request(address, &delete, "", "").status, 200);
    viewer.receive_until(|viewer| viewer.closed);
    assert_eq!(request(address, &delete, "", "").status, 404);
    // It has joined at a key frame, and gets the file's pictures from there to the end.
    let seen = clips.decoded(&data(&viewer.frames));
    let all = clips.pictures_of("plain.ts");
    assert_eq!(seen, all[all.len() - seen.len()..]);
    assert_eq!(seen.len() % 12, all.len() % 12, "the first frame is a key frame");
    let account = server.end();
    assert_conserved(&account);
    assert_eq!(account["frames"]["violations"], 0, "{account}");
}

#[test]
fn a_published_stream_is_played_and_its_publisher_gets_requests_for_key_frames() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(120);
    let frames = clips.coded_frames();
    assert_eq!(frames.len(), 120);
    let recording = "recording = { folder = \"recordings\", size = \"1 GB\" }";
    let server = serve(&clips, recording, "0/1");
    let address = server.webrtc.unwrap();
    let mut publisher = Publisher::open(address, "/whip/live", frames.clone()).unwrap();
    assert!(publisher.answer.contains("\r\nb=AS:1800\r\n"), "{}", publisher.answer);
    let second = Publisher::open(address, "/whip/live", Vec::new()).err().unwrap();
    assert_eq!(second.status, 409, "{second:?}");
    while publisher.sent < 5 {
        publisher.step();
    }
    assert_eq!(server.status()["live"][0]["transport"], "webrtc");
    let mut viewer = Viewer::open(address, "/whep/live", "").unwrap();
    let mut requested = false;
    while !publisher.is_over() {
        publisher.step();
        viewer.step();
        if viewer.frames.len() > 30 && !std::mem::replace(&mut requested, true) {
            viewer.request_key_frame();
        }
    }
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        publisher.step();
        viewer.step();
    }
    let status = server.status();
    let ingested = &status["live"][0]["ingested"];
    assert_eq!((&ingested["frames"], &ingested["lost_packets"]), (&120.into(), &0.into()));
    assert_eq!(sum(&ingested["released"]), 120, "{ingested}");
    assert!(publisher.key_frames_requested > 0, "{status}");
    let client = &status["clients"][0];
    assert_eq!(sum(&client["frames"]["sent"]), viewer.frames.len() as u64, "{client}");
    let seen = clips.decoded(&data(&viewer.frames));
    let all = clips.pictures_of("plain.ts");
    assert_eq!((seen.len() % 12, seen.len() > 80), (0, true));
    assert_eq!(seen, all[all.len() - seen.len()..]);
    // The recording of the publication has every picture.
    assert_eq!(request(address, &format!("DELETE {}", publisher.session), "", "").status, 200);
    let mut viewer = Viewer::open(address, "/whep/recordings/live", "").unwrap();
    viewer.receive_until(|viewer| viewer.closed);
    assert_eq!(clips.decoded(&data(&viewer.frames)), all);
    assert_conserved(&server.end());
}

#[test]
fn a_slow_path_drops_optional_frames_only() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(250, "400k", "12");
    clips.ffmpeg(&[
        "-i", "clip.mp4", "-c:v", "libx264", "-bf", "0", "-g", "12", "-b:v", "1200k", "plain.ts",
    ]);
    let server = serve(&clips, "", "6/12");
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/again", "").unwrap();
    viewer.path_bps = 900_000;
    let slow = |server: &Server| server.status()["clients"][0]["frames"]["slow"].as_u64().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while slow(&server) < 20 {
        assert!(Instant::now() < end, "{}", server.status());
        viewer.receive_for(Duration::from_millis(500));
    }
    crate::confined::assert_confined(server.child.id(), 0);
    let status = server.status();
    let client = &status["clients"][0];
    assert!(client["path_bps"].as_u64().unwrap() < 1_200_000, "{client}");
    assert_eq!(client["frames"]["violations"], 0, "{client}");
    assert_eq!(client["frames"]["slow"], sum(&client["frames"]["full"]), "{client}");
    viewer.request_key_frame();
    viewer.receive_for(Duration::from_millis(500));
    assert!(server.status()["webrtc"]["key_frame_requests"].as_u64().unwrap() > 0);
    assert_conserved(&server.end());
}

fn sum(kinds: &serde_json::Value) -> u64 {
    let kinds = kinds.as_array().map(Vec::as_slice).unwrap_or_default();
    kinds.iter().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn requests_that_cannot_be_served_say_what_can() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(25);
    let server = serve(&clips, "", "0/1");
    let address = server.webrtc.unwrap();
    let open = |path: &str, headers: &str| Viewer::open(address, path, headers).err().unwrap();
    for (response, status, part) in [
        (open("/whep/none", ""), 404, "unknown stream `none`"),
        (open("/whep/live", ""), 404, "no publisher"),
        (open("/whep/old", ""), 406, "browsers play no MPEG-1/2 video"),
        (open("/whip/live", ""), 400, "must be sendonly"),
        (open("/whip/plain", ""), 404, "unknown live stream"),
        (open("/whep/plain", "Origin: http://other.example\r\n"), 403, "other origins"),
        (request(address, "POST /whep/plain", viewer::SDP, "v=1"), 400, "not SDP"),
        (request(address, "POST /whep/plain", "", "v=0"), 415, "application/sdp"),
        (request(address, "PATCH /session/1", "", ""), 405, "DELETE"),
        (request(address, "GET /", "", ""), 404, "/watch/NAME"),
        (request(address, "GET /watch/plain", "", ""), 200, "RTCPeerConnection"),
        (request(address, "GET /watch/plain", "Host: evil.example\r\n", ""), 400, "duplicate"),
        (request(address, "DELETE /session/1", "", ""), 404, "unknown session"),
    ] {
        assert_eq!(response.status, status, "{response:?}");
        assert!(response.body.contains(part), "{part}: {response:?}");
    }
    // A client that has closed its connection gets no session.
    server.signal(Signal::SIGSTOP);
    let child = Pid::from_raw(i32::try_from(server.child.id()).unwrap());
    waitpid(child, Some(WaitPidFlag::WUNTRACED)).unwrap();
    let (_, offer, _) = viewer::offer(&mut str0m::Rtc::builder().build(Instant::now()));
    let mut stream = TcpStream::connect(address).unwrap();
    let (sdp, length) = (viewer::SDP, offer.len());
    let head = format!("POST /whep/plain HTTP/1.1\r\nHost: {address}\r\n{sdp}Content-Length: ");
    stream.write_all(format!("{head}{length}\r\n\r\n{offer}").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    server.signal(Signal::SIGCONT);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("closed before the answer"), "{answer}");
    let status = server.status();
    assert_eq!(status["webrtc"]["refused_offers"], 3, "{status}");
    assert_eq!((&status["admitted"], &status["clients"][0]), (&0.into(), &serde_json::Value::Null));
    // Clients that never connect: 16 of an address.
    let open = |_| Viewer::open(address, "/whep/again", "").map(|viewer| viewer.session);
    let opened: Vec<_> = (0..17).map(open).collect();
    assert!(opened[..16].iter().all(Result::is_ok), "{opened:?}");
    let refused = opened[16].as_ref().unwrap_err();
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")), "{refused:?}");
    assert_eq!(server.status()["webrtc"]["half_open"], 16);
    server.end();
}

/// The MD5 of `ann:millstream:open sesame`, and the SHA-256 of `open sesame`.
const USERS: &str = "ann:millstream:4469aedbccd71d189d4ac664f28d4985\n";
pub(crate) const TOKENS: &str =
    "bob:41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb\n";

/// Writes a file that only its owner may read; returns its path.
pub(crate) fn secret(clips: &TestClips, name: &str, text: &str) -> String {
    let path = clips.path(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path.display().to_string()
}

#[test]
fn offers_need_a_token() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(25);
    let server = serve(&clips, &format!("tokens = \"{}\"", secret(&clips, "t", TOKENS)), "0/1");
    let address = server.webrtc.unwrap();
    let refused = Viewer::open(address, "/whep/plain", "").err().unwrap();
    assert_eq!((refused.status, refused.header("WWW-Authenticate")), (401, Some("Bearer")));
    let wrong = Viewer::open(address, "/whep/plain", "Authorization: Bearer sesame\r\n");
    assert_eq!(wrong.err().unwrap().status, 401);
    let bearer = "Authorization: Bearer open sesame\r\n";
    assert!(Viewer::open(address, "/whep/plain", bearer).is_ok());
    assert!(Viewer::open(address, "/whep/plain?token=open%20sesame", "").is_ok());
    assert_eq!(request(address, "GET /watch/plain", "", "").status, 401);
    // A connection does not keep the token of one request: a proxy serves several clients.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let twice = format!(
        "GET /watch/plain?token=open%20sesame HTTP/1.1\r\nHost: {address}\r\n\r\n\
         GET /watch/plain HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(twice.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let lines = answers.lines().filter(|line| line.contains("HTTP/1.1 "));
    let statuses: Vec<&str> = lines.map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(statuses, ["200", "401"], "{answers}");
    server.end();
}

#[test]
fn pages_need_a_password_and_are_encrypted_with_tls() {
    if !["ffmpeg", "openssl", "curl"].into_iter().all(is_installed) {
        return;
    }
    let clips = clips(25);
    let [certificate, key] =
        crate::access::certificate().map(|(name, text)| secret(&clips, name, &text));
    let media = format!(
        "users = \"{}\"\ntls = {{ listen = \"127.0.0.1:0\", certificate = \"{certificate}\", \
         key = \"{key}\" }}",
        secret(&clips, "users", USERS)
    );
    let server = serve(&clips, &media, "0/1");
    let url = |scheme: &str| format!("{scheme}://{}/watch/plain", server.webrtc.unwrap());
    let status = |user: &str, url: String| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "20", "--digest"]);
        curl.args(["-u", user, "--cacert", &certificate, &url]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    assert_eq!(status("ann:open sesame", url("https")), "200");
    assert_eq!(status("ann:sesame", url("https")), "401");
    assert_eq!(status("ann:open sesame", url("http")), "000");
    server.end();
}

#[test]
fn viewers_at_once_get_every_frame() {
    if !is_installed("ffmpeg") {
        return;
    }
    let viewers = std::env::var("MILLSTREAM_VIEWERS").map_or(8, |text| text.parse().unwrap());
    let clips = clips(250);
    let media = format!("sessions-per-address = {viewers}\nconnections-per-address = {viewers}");
    let server = serve(&clips, &media, "0/1");
    let address = server.webrtc.unwrap();
    let cpu_ns = || server.status()["cpu"]["host_ns"].as_u64().unwrap();
    let before_ns = cpu_ns();
    std::thread::scope(|scope| {
        let play = || {
            let mut viewer = Viewer::open(address, "/whep/plain", "").unwrap();
            viewer.receive_until(|viewer| viewer.closed);
            assert_eq!(viewer.frames.len(), 250);
            viewer.received_bytes
        };
        let playing: Vec<_> = (0..viewers)
            .map(|_| {
                let playing = scope.spawn(play);
                // At most 16 may be connecting.
                std::thread::sleep(Duration::from_millis(50));
                playing
            })
            .collect();
        let bytes = playing.into_iter().map(|playing| playing.join().unwrap()).sum::<usize>();
        let frames = 250 * viewers;
        let each_ns = (cpu_ns() - before_ns) / frames;
        eprintln!("{viewers} viewers: {frames} frames, {bytes} B, {each_ns} ns of CPU a frame");
    });
    let account = server.end();
    assert_conserved(&account);
    assert_eq!(sum(&account["frames"]["sent"]), 250 * viewers, "{account}");
}

#[test]
fn a_viewer_plays_on_after_a_crash_of_the_data_plane() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(75);
    let server = serve(&clips, "placement = \"ni\"", "0/1");
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/again", "").unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() >= 25);
    let data_plane = i32::try_from(server.data_plane.unwrap()).unwrap();
    kill(Pid::from_raw(data_plane), Signal::SIGKILL).unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() >= 100);
    let status = server.status();
    assert_eq!((&status["processors"], &status["webrtc"]["viewers"]), (&2.into(), &1.into()));
    let account = server.end();
    assert_conserved(&account);
    assert!(account["frames"]["lost"].as_u64().unwrap() < 25, "{account}");
}

#[test]
fn strange_datagrams_are_counted_and_disturb_no_viewer() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(75);
    let server = serve(&clips, "", "0/1");
    let address = server.webrtc.unwrap();
    let mut viewer = Viewer::open(address, "/whep/again", "").unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() >= 10);
    // A request of STUN, a ClientHello of DTLS, RTP and RTCP.
    let stun = [&[0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12], &[0, 6, 0, 4], b"ab:c"];
    let (stun, dtls) = (stun.concat(), [&[22, 254, 253, 0, 0][..], &[0; 30]].concat());
    let (rtp, rtcp) =
        ([0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0x65], [0x80, 200, 0, 1, 9, 9, 9, 9]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let strange = mangled(&[&stun, &dtls, &rtp, &rtcp], 1_000);
    for (number, datagram) in strange.iter().enumerate() {
        socket.send_to(datagram, address).unwrap();
        if number % 50 == 0 {
            viewer.step();
        }
    }
    let frames = viewer.frames.len();
    viewer.receive_until(|viewer| viewer.frames.len() >= frames + 50);
    assert!(viewer.frames.iter().all(|frame| frame.contiguous));
    let status = server.status();
    assert_eq!(status["webrtc"]["stray_datagrams"], strange.len(), "{status}");
    assert_conserved(&server.end());
}

#[test]
fn a_wildcard_address_serves_ipv4_and_ipv6() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(25);
    let server = serve(&clips, "webrtc = \"[::]:0\"", "0/1");
    let port = server.webrtc.unwrap().port();
    for address in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(address.parse().unwrap(), port);
        let mut viewer = Viewer::open(address, "/whep/plain", "").unwrap();
        viewer.receive_until(|viewer| viewer.closed);
        assert_eq!(viewer.frames.len(), 25, "{address}");
    }
    server.end();
}

#[test]
fn a_viewer_that_vanishes_is_removed() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(25);
    let server = serve(&clips, "idle-timeout = \"2 s\"", "0/1");
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/again", "").unwrap();
    viewer.receive_until(|viewer| viewer.frames.len() > 60);
    assert_eq!(server.status()["webrtc"]["viewers"], 1);
    drop(viewer);
    let end = Instant::now() + Duration::from_secs(60);
    while server.status()["clients"][0] != serde_json::Value::Null {
        assert!(Instant::now() < end, "{}", server.status());
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = server.status();
    assert_eq!((&status["webrtc"]["viewers"], &status["reserved_bps"]), (&0.into(), &0.into()));
    assert_conserved(&server.end());
}
