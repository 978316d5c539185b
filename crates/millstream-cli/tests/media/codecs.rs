//! Tests of each codec beside MPEG and H.264: its optional frames are unreferenced, players get
//! every picture unchanged, and overload costs only optional frames.

use crate::live;
use crate::player::is_installed;
use crate::players::assert_same;
use crate::test_clips::TestClips;
use millstream_traffic::mpeg::{FrameKind, VideoPayload};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

/// A codec with the file that ffmpeg encodes for the tests.
pub(crate) struct Video {
    /// The name in scenario files.
    pub(crate) codec: &'static str,
    pub(crate) file: &'static str,
    /// The encoder with its options.
    encoder: &'static [&'static str],
    /// The name of the codec in IVF files; `None`: its frames form a byte stream.
    fourcc: Option<&'static [u8; 4]>,
    /// Whether ffmpeg of Debian 12 plays and publishes it over RTSP.
    has_rtsp: bool,
}

/// Two temporal layers: the upper one holds the frames that no other frame refers to. Groups of
/// pictures are open, so players join at CRA pictures.
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
    fourcc: None,
    has_rtsp: true,
};

/// A hierarchy with hidden frames, which later frames show.
const AV1: Video = Video {
    codec: "av1",
    file: "av1.ivf",
    encoder: &["libsvtav1", "-preset", "10", "-g", "24"],
    fourcc: Some(b"AV01"),
    has_rtsp: false,
};

/// Three temporal layers. No frame refers to one of the highest layer.
const LAYERS: &str = "ts_number_layers=3:ts_target_bitrate=120,180,300:ts_rate_decimator=4,2,1:\
                      ts_periodicity=4:ts_layer_id=0,2,1,2:ts_layering_mode=3";
const VP8: Video = Video {
    codec: "vp8",
    file: "vp8.ivf",
    encoder: &[
        "libvpx",
        "-deadline",
        "realtime",
        "-cpu-used",
        "8",
        "-g",
        "24",
        "-lag-in-frames",
        "0",
        "-auto-alt-ref",
        "0",
        "-error-resilient",
        "1",
        "-ts-parameters",
        LAYERS,
    ],
    fourcc: Some(b"VP80"),
    has_rtsp: true,
};
const VP9: Video = Video {
    codec: "vp9",
    file: "vp9.ivf",
    encoder: &[
        "libvpx-vp9",
        "-deadline",
        "realtime",
        "-cpu-used",
        "8",
        "-g",
        "24",
        "-lag-in-frames",
        "0",
        "-error-resilient",
        "1",
        "-qmin",
        "30",
        "-ts-parameters",
        LAYERS,
    ],
    fourcc: Some(b"VP90"),
    has_rtsp: true,
};

pub(crate) const CODECS: &[Video] = &[H265, AV1, VP8, VP9];

/// The number of frames of each file.
pub(crate) const FRAMES: usize = 75;

/// Returns the files of all codecs. Tests that run at the same time share them.
pub(crate) fn clips() -> Arc<TestClips> {
    static SHARED: Mutex<Weak<TestClips>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    if let Some(clips) = shared.upgrade() {
        return clips;
    }
    let clips = TestClips::make(FRAMES, "300k", "24");
    for video in CODECS {
        let from = ["-i", "clip.mpg", "-b:v", "300k", "-threads", "1", "-c:v"];
        clips.ffmpeg(&[&from[..], video.encoder, &[video.file]].concat());
    }
    let clips = Arc::new(clips);
    *shared = Arc::downgrade(&clips);
    clips
}

impl TestClips {
    /// Decodes a file; returns the checksums of its pictures. Fails if ffmpeg prints an error.
    pub(crate) fn decoded_without_error(&self, file: &str) -> Vec<String> {
        self.try_decoding(file).unwrap_or_else(|errors| panic!("{file}: {errors}"))
    }

    /// Decodes a file; returns the checksums of its pictures, or what ffmpeg prints.
    fn try_decoding(&self, file: &str) -> Result<Vec<String>, String> {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-err_detect", "explode", "-i", file, "-fps_mode"]);
        ffmpeg.args(["passthrough", "-f", "framemd5", "-"]).current_dir(&self.folder);
        let output = ffmpeg.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() || !errors.is_empty() {
            return Err(errors);
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let sums = text.lines().filter(|line| !line.starts_with('#'));
        Ok(sums.map(|line| line.rsplit(',').next().unwrap().to_owned()).collect())
    }

    /// Writes frames to a file that ffmpeg decodes.
    pub(crate) fn write(&self, video: &Video, frames: &[Vec<u8>], name: &str) {
        let mut file = Vec::new();
        if let Some(fourcc) = video.fourcc {
            file = [b"DKIF\0\0\x20\0", &fourcc[..], &[176, 0, 144, 0, 25, 0, 0, 0, 1, 0, 0, 0]]
                .concat();
            file.resize(32, 0);
        }
        for (frame, time) in frames.iter().zip(0u64..) {
            if video.fourcc.is_some() {
                file.extend(u32::try_from(frame.len()).unwrap().to_le_bytes());
                file.extend(time.to_le_bytes());
            }
            file.extend(frame);
        }
        std::fs::write(self.path(name), file).unwrap();
    }

    pub(crate) fn video(&self, video: &Video) -> VideoPayload {
        VideoPayload::open(&self.path(video.file), 1 << 24).unwrap()
    }
}

/// Returns whether `part` is `all` with some elements left out.
pub(crate) fn is_part(part: &[String], all: &[String]) -> bool {
    let mut rest = all.iter();
    part.iter().all(|one| rest.any(|other| other == one))
}

#[test]
fn frames_marked_as_unreferenced_can_be_left_out() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    for video in CODECS {
        let payload = clips.video(video);
        let all = clips.decoded_without_error(video.file);
        assert_eq!(payload.frames.len(), FRAMES, "{}", video.file);
        assert_eq!(payload.frames[0].kind, FrameKind::I);
        let kept = |keep: &dyn Fn(usize) -> bool| {
            let frames = payload.frames.iter().enumerate().filter(|(number, _)| keep(*number));
            frames.map(|(_, frame)| payload.frame(frame).to_vec()).collect::<Vec<_>>()
        };
        let decode = |frames: &[Vec<u8>]| {
            clips.write(video, frames, "kept");
            clips.decoded_without_error("kept")
        };
        let frames = &payload.frames;
        let referenced = kept(&|number| frames[number].reference);
        assert!((25..60).contains(&referenced.len()), "{}: {}", video.file, referenced.len());
        let seen = decode(&referenced);
        assert_eq!(seen.len(), referenced.len(), "{}", video.file);
        assert!(is_part(&seen, &all), "{}", video.file);
        // Each of them alone, too, and every second one.
        let mut unreferenced = (0..FRAMES).filter(|number| !frames[*number].reference);
        let one = unreferenced.nth(3).unwrap();
        let seen = decode(&kept(&|number| number != one));
        assert!(seen.len() == FRAMES - 1 && is_part(&seen, &all), "{}", video.file);
        let seen = decode(&kept(&|number| frames[number].reference || number % 2 == 0));
        assert!(is_part(&seen, &all), "{}", video.file);
        // Without a P-frame, other pictures differ: the comparison finds what it should.
        let p = (0..FRAMES).find(|number| frames[*number].kind == FrameKind::P).unwrap();
        clips.write(video, &kept(&|number| number != p), "kept");
        let seen = clips.try_decoding("kept");
        assert!(!seen.is_ok_and(|seen| is_part(&seen, &all)), "{}", video.file);
    }
}

#[test]
fn ffmpeg_decodes_the_pictures_of_each_codec() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    clips.ffmpeg(&["-i", "h265.mp4", "-c", "copy", "h265.ts"]);
    clips.ffmpeg(&["-i", "h265.mp4", "-c", "copy", "-f", "hevc", "h265.h265"]);
    let mut files = vec![("h265.ts", true), ("h265.h265", true)];
    let with_rtsp = CODECS.iter().filter(|video| video.has_rtsp);
    files.extend(with_rtsp.map(|video| (video.file, video.fourcc.is_none())));
    let names: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
    let server = clips.serve(&names, "50 Mbps", "first-deadline = \"2 s\"", true);
    let mut playing = Vec::new();
    for (file, in_transport_streams) in files {
        let expected = clips.checksums_of(file);
        assert_eq!(expected.len(), FRAMES, "{file}");
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

/// The contract of a client that may lose 8 of 24 frames.
pub(crate) const OVERLOADED: &str = "first-deadline = \"1 s\"\nwindow = \"8/24\"";

/// Returns the rate of a link, bits/s, on which a file's mandatory frames fit under [`OVERLOADED`],
/// and half of the others.
pub(crate) fn overloaded_rate(video: &VideoPayload) -> u64 {
    let (mut mandatory, mut optional) = (0, 0);
    for block in video.frames.chunks(24) {
        let mut unreferenced = 0;
        for frame in block.iter().rev() {
            // Packets have 1,388 bytes of a frame, and 40 of headers.
            let bytes = u64::from(frame.bytes) + 40 * u64::from(frame.bytes).div_ceil(1_380);
            unreferenced += u32::from(!frame.reference);
            let is_optional = !frame.reference && unreferenced <= 8;
            *(if is_optional { &mut optional } else { &mut mandatory }) += bytes;
        }
    }
    // A frame every 40 ms.
    (mandatory + optional / 2) * 8 * 25 / video.frames.len() as u64
}

#[test]
fn overload_drops_only_unreferenced_frames_of_each_codec() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = &clips();
    std::thread::scope(|scope| {
        for video in CODECS.iter().filter(|video| video.has_rtsp) {
            scope.spawn(|| {
                let rate = format!("{} bps", overloaded_rate(&clips.video(video)));
                let server = clips.serve(&[video.file], &rate, OVERLOADED, false);
                let url = format!("rtsp://{}/{}", server.rtsp, video.file);
                let child = clips.start_decoding(&url, &["-rtsp_transport", "tcp"], FRAMES);
                let seen = child.checksums();
                assert_only_unreferenced_lost(video, clips, &server.end(), &seen);
            });
        }
    });
}

/// Asserts that a client lost only frames of type B, at least one, and decoded the remaining ones.
pub(crate) fn assert_only_unreferenced_lost(
    video: &Video,
    clips: &TestClips,
    account: &serde_json::Value,
    seen: &[String],
) {
    let frames = &account["frames"];
    let number = |name: &str, kind: usize| frames[name][kind].as_u64().unwrap();
    // Frames that exceed the estimate of a viewer's path count as dropped at a full queue.
    let lost = [0, 1, 2].map(|kind| number("dropped_late", kind) + number("dropped_full", kind));
    assert!(lost[2] > 0, "{}: {account}", video.file);
    // A machine that stalls the server for more than a millisecond can cause violations.
    if frames["violations"] == 0 {
        assert_eq!(lost[..2], [0, 0], "{}: {account}", video.file);
        assert_eq!(seen.len() as u64, FRAMES as u64 - lost[2], "{}: {account}", video.file);
        // Each picture is as in the file: no frame to which another one refers is missing.
        assert!(is_part(seen, &clips.decoded_without_error(video.file)), "{}", video.file);
    }
}

#[test]
fn published_pictures_of_each_codec_are_played_unchanged() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let videos: Vec<&Video> = CODECS.iter().filter(|video| video.has_rtsp).collect();
    let streams: Vec<_> =
        videos.iter().map(|video| (video.codec, video.codec, ", wait = \"60 s\"")).collect();
    let server = live::serve("placement = \"ni\"", &streams, &[]);
    let url = |video: &Video| format!("rtsp://{}/{}", server.rtsp, video.codec);
    let publish = || {
        let begun = videos.iter().enumerate().map(|(at, video)| {
            clips.publish(video.file, if at % 2 == 0 { "tcp" } else { "udp" }, &url(video))
        });
        begun.collect::<Vec<_>>()
    };
    let publishers = publish();
    let mut playing = Vec::new();
    for (stream, video) in videos.iter().enumerate() {
        live::wait_for(&server, "a publisher", |status| live::is_published(status, stream));
        let child = clips.start_decoding(&url(video), &["-rtsp_transport", "tcp"], 60);
        playing.push((video, child));
    }
    // Publishes twice: the second time all clients play, however slow the machine is.
    for mut publisher in publishers {
        assert!(publisher.wait().unwrap().success());
    }
    let live_streams = 0..videos.len();
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
