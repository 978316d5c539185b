//! Each codec by WebRTC: files are played, published frames reach a viewer, and overload costs only
//! optional frames. str0m packetizes and assembles at the other end.

use super::{data, sum};
use crate::codecs::{
    CODECS, FRAMES, OVERLOADED, Video, assert_only_unreferenced_lost, clips, overloaded_rate,
};
use crate::player::{Server, assert_conserved, is_installed};
use crate::test_clips::TestClips;
use crate::webrtc::viewer::{Publisher, Viewer};
use std::time::{Duration, Instant};
use str0m::format::Codec;

impl TestClips {
    /// Serves the file of each codec under its name; with `live`, a live stream `live-NAME` of
    /// each, too.
    pub(crate) fn serve_webrtc(
        &self,
        videos: &[&Video],
        rate: &str,
        contract: &str,
        live: Option<&str>,
    ) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut text = format!(
            "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nwebrtc = \"127.0.0.1:0\"\n\
         placement = \"ni\"\n[link]\nrate = \"{rate}\"\noverhead = 28\n\
         [scheduler]\ndiscipline = \"dwcs\"\n[scenario]\nduration = \"1 s\"\n"
        );
        for Video { codec, file, .. } in videos {
            let file = format!("kind = \"mpeg\", file = \"{}\"", self.path(file).display());
            let source = format!(
                "kind = \"live\", rate = \"2 Mbps\", codec = \"{codec}\"{}",
                live.unwrap_or_default()
            );
            let both = [((*codec).to_owned(), file), (format!("live-{codec}"), source)];
            for (name, source) in both.into_iter().take(1 + usize::from(live.is_some())) {
                text += &format!(
                    "[[stream]]\nname = \"{name}\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
                 {contract}\nsource = {{ {source} }}\n"
                );
            }
        }
        let scenario = folder.path().join("media.toml");
        std::fs::write(&scenario, text).unwrap();
        Server::serve(&scenario, folder)
    }
}

fn str0m_codec(video: &Video) -> Codec {
    match video.codec {
        "h265" => Codec::H265,
        "av1" => Codec::Av1,
        "vp8" => Codec::Vp8,
        _ => Codec::Vp9,
    }
}

#[test]
fn a_viewer_gets_every_picture_of_each_codec() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let server = clips.serve_webrtc(
        &CODECS.iter().collect::<Vec<_>>(),
        "50 Mbps",
        "first-deadline = \"2 s\"",
        None,
    );
    let address = server.webrtc.unwrap();
    std::thread::scope(|scope| {
        for video in CODECS {
            scope.spawn(|| {
                let path = format!("/whep/{}", video.codec);
                let mut viewer = Viewer::open(address, &path, "").unwrap();
                viewer.receive_until(|viewer| viewer.closed);
                let name = format!("played-{}", video.codec);
                clips.write(video, &data(&viewer.frames), &name);
                let seen = clips.decoded_without_error(&name);
                assert_eq!(seen, clips.decoded_without_error(video.file), "{}", video.codec);
            });
        }
    });
    assert_conserved(&server.end());
}

#[test]
fn published_frames_of_each_codec_reach_a_viewer() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips();
    let server = clips.serve_webrtc(
        &CODECS.iter().collect::<Vec<_>>(),
        "50 Mbps",
        "first-deadline = \"500 ms\"",
        Some(""),
    );
    let address = server.webrtc.unwrap();
    std::thread::scope(|scope| {
        for video in CODECS {
            scope.spawn(|| {
                let payload = clips.video(video);
                let frames = payload.frames.iter().map(|frame| payload.frame(frame).to_vec());
                let codec = video.codec;
                let path = format!("live-{codec}");
                let mut publisher = Publisher::open_codec(
                    address,
                    &format!("/whip/{path}"),
                    frames.collect(),
                    str0m_codec(video),
                )
                .unwrap();
                while publisher.sent < 5 {
                    publisher.step();
                }
                let mut viewer = Viewer::open(address, &format!("/whep/{path}"), "").unwrap();
                let mut last = None;
                while last.is_none_or(|last: Instant| last.elapsed() < Duration::from_millis(1_500))
                {
                    publisher.step();
                    viewer.step();
                    if publisher.is_over() {
                        last.get_or_insert_with(Instant::now);
                    }
                }
                let name = format!("published-{codec}");
                clips.write(video, &data(&viewer.frames), &name);
                let seen = clips.checksums_of(&name);
                let all = clips.checksums_of(video.file);
                // It joins at a key frame; pictures that are shown before it are missing.
                assert!(seen.len() > 20, "{codec}: {}", seen.len());
                assert_eq!(seen, all[all.len() - seen.len()..], "{codec}");
            });
        }
    });
    let status = server.status();
    for live in status["live"].as_array().unwrap() {
        let ingested = &live["ingested"];
        assert_eq!(ingested["frames"], FRAMES, "{live}");
        assert_eq!(sum(&ingested["released"]), FRAMES as u64, "{live}");
    }
    assert_conserved(&server.end());
}

#[test]
fn overload_drops_only_unreferenced_frames_of_av1() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(FRAMES, "300k", "24");
    // Half of the frames are unreferenced, and none is hidden: their sizes differ less.
    let encoder = ["-c:v", "libsvtav1", "-preset", "10", "-g", "24", "-svtav1-params"];
    let from = ["-i", "clip.mpg", "-b:v", "300k", "-threads", "1"];
    clips.ffmpeg(&[&from[..], &encoder, &["pred-struct=1", "av1.ivf"]].concat());
    let video = CODECS.iter().find(|video| video.codec == "av1").unwrap();
    let rate = format!("{} bps", overloaded_rate(&clips.video(video)));
    let server = clips.serve_webrtc(&[video], &rate, OVERLOADED, None);
    let mut viewer = Viewer::open(server.webrtc.unwrap(), "/whep/av1", "").unwrap();
    viewer.receive_until(|viewer| viewer.closed);
    clips.write(video, &data(&viewer.frames), "seen");
    let seen = clips.decoded_without_error("seen");
    assert_only_unreferenced_lost(video, &clips, &server.end(), &seen);
}
