//! Tests of each codec beside MPEG and H.264: its optional frames are unreferenced, players get
//! every picture unchanged, and overload costs only optional frames.

use crate::live;
use crate::player::is_installed;
use crate::players::{Decoding, assert_same};
use crate::test_clips::TestClips;
use millstream_traffic::mpeg::{FrameKind, VideoPayload};
use std::process::Command;

/// A codec with the file that ffmpeg encodes for the tests.
struct Video {
    /// The name in scenario files.
    codec: &'static str,
    file: &'static str,
    /// The encoder with its options.
    encoder: &'static [&'static str],
    /// Whether the payload `mpeg-ts` may carry it.
    in_transport_streams: bool,
}

/// Two temporal layers: the upper one holds the frames that no other frame refers to. A group of
/// pictures begins with an open one, so players join at CRA pictures.
const H265: Video = Video {
    codec: "h265",
    file: "h265.mp4",
    encoder: &[
        "libx265",
        "-tag:v",
        "hvc1",
        "-x265-params",
        "log-level=error:pools=none:frame-threads=1:keyint=24:min-keyint=24:bframes=3:b-adapt=0:\
         temporal-layers=1:scenecut=0",
    ],
    in_transport_streams: true,
};

const CODECS: &[Video] = &[H265];

impl TestClips {
    /// Encodes `frames` frames at `rate` with each codec.
    fn of_codecs(frames: usize, rate: &str) -> Self {
        let clips = Self::make(frames, rate, "24");
        for video in CODECS {
            let from = ["-i", "clip.mpg", "-b:v", rate, "-threads", "1", "-c:v"];
            clips.ffmpeg(&[&from[..], video.encoder, &[video.file]].concat());
        }
        clips
    }

    /// Decodes a file; returns the checksums of its pictures. Fails if ffmpeg prints an error.
    fn decoded_without_error(&self, file: &str) -> Vec<String> {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-err_detect", "explode", "-i", file, "-fps_mode"]);
        ffmpeg.args(["passthrough", "-f", "framemd5", "-"]).current_dir(&self.folder);
        let output = ffmpeg.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && errors.is_empty(), "{file}: {errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        let sums = text.lines().filter(|line| !line.starts_with('#'));
        sums.map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
    }

    fn video(&self, video: &Video) -> VideoPayload {
        VideoPayload::open(&self.path(video.file), 1 << 24).unwrap()
    }
}

/// Returns whether `part` is `all` with some elements left out.
fn is_part(part: &[String], all: &[String]) -> bool {
    let mut rest = all.iter();
    part.iter().all(|one| rest.any(|other| other == one))
}

#[test]
fn frames_marked_as_unreferenced_can_be_left_out() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::of_codecs(75, "300k");
    for video in CODECS {
        let payload = clips.video(video);
        let all = clips.decoded_without_error(video.file);
        assert_eq!(payload.frames.len(), 75, "{}", video.file);
        assert_eq!(payload.frames[0].kind, FrameKind::I);
        let kept = |keep: &dyn Fn(usize) -> bool| {
            let frames = payload.frames.iter().enumerate().filter(|(number, _)| keep(*number));
            frames.map(|(_, frame)| payload.frame(frame).to_vec()).collect::<Vec<_>>()
        };
        let decode = |frames: &[Vec<u8>]| {
            std::fs::write(clips.path("kept"), frames.concat()).unwrap();
            clips.decoded_without_error("kept")
        };
        let frames = &payload.frames;
        let referenced = kept(&|number| frames[number].reference);
        assert!((25..60).contains(&referenced.len()), "{}: {}", video.file, referenced.len());
        let seen = decode(&referenced);
        assert_eq!(seen.len(), referenced.len(), "{}", video.file);
        assert!(is_part(&seen, &all), "{}", video.file);
        // Each of them alone, too, and every second one.
        let mut unreferenced = (0..75).filter(|number| !frames[*number].reference);
        let one = unreferenced.nth(3).unwrap();
        let seen = decode(&kept(&|number| number != one));
        assert!(seen.len() == 74 && is_part(&seen, &all), "{}", video.file);
        let seen = decode(&kept(&|number| frames[number].reference || number % 2 == 0));
        assert!(is_part(&seen, &all), "{}", video.file);
        // Without a P-frame, other pictures differ: the comparison finds what it should.
        let p = (0..75).find(|number| frames[*number].kind == FrameKind::P).unwrap();
        std::fs::write(clips.path("kept"), kept(&|number| number != p).concat()).unwrap();
        assert!(!is_part(&clips.checksums_of("kept"), &all), "{}", video.file);
    }
}

#[test]
fn ffmpeg_decodes_the_pictures_of_each_codec() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::of_codecs(50, "300k");
    clips.ffmpeg(&["-i", "h265.mp4", "-c", "copy", "h265.ts"]);
    clips.ffmpeg(&["-i", "h265.mp4", "-c", "copy", "-f", "hevc", "h265.h265"]);
    let mut files = vec![("h265.ts", true), ("h265.h265", true)];
    files.extend(CODECS.iter().map(|video| (video.file, video.in_transport_streams)));
    let names: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
    let server = clips.serve(&names, "50 Mbps", "first-deadline = \"2 s\"", true);
    let mut playing = Vec::new();
    for (file, in_transport_streams) in files {
        let expected = clips.checksums_of(file);
        assert_eq!(expected.len(), 50, "{file}");
        for (transport, payload) in [("udp", ""), ("tcp", ""), ("tcp", "-ts")] {
            if payload.is_empty() || in_transport_streams {
                let name = format!("{file}{payload}");
                let url = format!("rtsp://{}/{name}", server.rtsp);
                let options = ["-rtsp_transport", transport];
                let child = clips.start_decoding(&url, &options, expected.len());
                playing.push((format!("{name} by {transport}"), expected.clone(), child));
            }
        }
    }
    for (name, expected, child) in playing {
        assert_same(&child.checksums(), &expected, &name);
    }
    server.end();
}

#[test]
fn overload_drops_only_unreferenced_frames_of_each_codec() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::of_codecs(100, "600k");
    for video in CODECS {
        let payload = clips.video(video);
        let all: u64 = payload.frames.iter().map(|frame| u64::from(frame.bytes)).sum();
        let unreferenced = payload.frames.iter().filter(|frame| !frame.reference);
        let optional: u64 = unreferenced.map(|frame| u64::from(frame.bytes)).sum();
        // With headers, what the unreferenced frames need does not fit.
        let rate = (all - optional / 2) * 8 / 4;
        let stream = "first-deadline = \"400 ms\"\nwindow = \"8/24\"";
        let server = clips.serve(&[video.file], &format!("{rate} bps"), stream, false);
        let url = format!("rtsp://{}/{}", server.rtsp, video.file);
        let child = clips.start_decoding(&url, &["-rtsp_transport", "tcp"], 100);
        let seen = Decoding::checksums(child);
        let account = server.end();
        let frames = &account["frames"];
        let late = [0, 1, 2].map(|kind| frames["dropped_late"][kind].as_u64().unwrap());
        assert!(late[2] > 0, "{}: {account}", video.file);
        // A machine that stalls the server for more than a millisecond can cause violations.
        if frames["violations"] == 0 {
            assert_eq!(late[..2], [0, 0], "{account}");
            assert_eq!(seen.len() as u64, 100 - late[2], "{}: {account}", video.file);
            assert!(is_part(&seen, &clips.checksums_of(video.file)), "{}", video.file);
        }
    }
}

#[test]
fn published_pictures_of_each_codec_are_played_unchanged() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::of_codecs(75, "300k");
    let streams: Vec<_> =
        CODECS.iter().map(|video| (video.codec, video.codec, ", wait = \"60 s\"")).collect();
    let server = live::serve("placement = \"ni\"", &streams, &[]);
    let url = |video: &Video| format!("rtsp://{}/{}", server.rtsp, video.codec);
    let publish = || {
        let begun = CODECS.iter().enumerate().map(|(at, video)| {
            clips.publish(video.file, if at % 2 == 0 { "tcp" } else { "udp" }, &url(video))
        });
        begun.collect::<Vec<_>>()
    };
    let publishers = publish();
    let mut playing = Vec::new();
    for (stream, video) in CODECS.iter().enumerate() {
        live::wait_for(&server, "a publisher", |status| live::is_published(status, stream));
        let child = clips.start_decoding(&url(video), &["-rtsp_transport", "tcp"], 60);
        playing.push((video, child));
    }
    // Publishes twice: the second time all clients play, however slow the machine is.
    for mut publisher in publishers {
        assert!(publisher.wait().unwrap().success());
    }
    let live_streams = 0..CODECS.len();
    live::wait_for(&server, "no publisher", |status| {
        live_streams.clone().all(|stream| !live::is_published(status, stream))
    });
    for mut publisher in publish() {
        assert!(publisher.wait().unwrap().success());
    }
    let status = server.status();
    for (video, child) in playing {
        let seen = child.checksums();
        let once = clips.checksums_of(video.file);
        let expected = [&once[..], &once[..]].concat();
        assert_eq!(seen.len(), 60, "{}", video.codec);
        assert!(expected.windows(60).any(|run| run == seen), "{}: {seen:?}", video.codec);
    }
    let account = server.end();
    for live in status["live"].as_array().unwrap() {
        live::assert_whole(live);
    }
    assert_eq!(account["frames"]["lost"], 0, "{account}");
}
