//! Publishers by RTMP: ffmpeg publishes video and sound, and two players decode the pictures.

use crate::live::{USERS, wait_for};
use crate::player::{Server, is_installed};
use crate::test_clips::TestClips;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// The pictures that a player decodes.
const SEEN: usize = 30;

/// Serves `cam` with two paths and AAC, which the user `studio` may publish.
fn serve(clips: &TestClips) -> Server {
    std::fs::write(clips.path("users"), USERS).unwrap();
    std::fs::set_permissions(clips.path("users"), PermissionsExt::from_mode(0o600)).unwrap();
    let text = "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nrtmp = \"127.0.0.1:0\"\n\
         placement = \"ni\"\nusers = \"users\"\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n\
         [scenario]\nduration = \"1 s\"\n\
         [[stream]]\nname = \"cam\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
         first-deadline = \"2 s\"\n\
         source = { kind = \"live\", rate = \"2 Mbps\", audio = \"aac\", paths = 2, \
         publish = [\"studio\"] }\n";
    let file = clips.path("media.toml");
    std::fs::write(&file, text).unwrap();
    Server::serve(&file, tempfile::tempdir().unwrap())
}

/// Publishes a file again and again, in real time.
fn publish(clips: &TestClips, server: &Server, name: &str) -> Child {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-re", "-stream_loop", "-1", "-i", "sound.mp4", "-c", "copy"]);
    ffmpeg.args(["-f", "flv", &format!("rtmp://{}/{name}", server.rtmp.unwrap())]);
    ffmpeg.stdin(Stdio::null()).stderr(Stdio::piped()).current_dir(&clips.folder);
    ffmpeg.spawn().unwrap()
}

#[test]
fn pictures_published_by_rtmp_are_played_unchanged() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(50, "300k", "12");
    let tone = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100:duration=2"];
    let to = ["-map", "0:v", "-map", "1:a", "-ac", "2", "-c:v", "copy", "-c:a", "aac", "sound.mp4"];
    clips.ffmpeg(&[&["-i", "clip.mp4"][..], &tone, &to].concat());
    let server = serve(&clips);
    let password = "user=studio&pass=open%20sesame";
    for (name, why) in [
        ("cam/front".to_owned(), "add ?user=NAME&pass=PASSWORD"),
        ("cam/front?user=studio&pass=guess".to_owned(), "a wrong user or password"),
        ("cam/front?user=ann&pass=open%20sesame".to_owned(), "not in the stream's `publish`"),
        (format!("cam?{password}"), "has paths cam/NAME"),
    ] {
        let mut refused = publish(&clips, &server, &name);
        let mut text = String::new();
        refused.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(!refused.wait().unwrap().success() && text.contains(why), "{name}: {text}");
    }
    let mut publisher = publish(&clips, &server, &format!("cam/front?{password}"));
    wait_for(&server, "a publisher", |status| status["live"][0]["transport"] == "rtmp");
    let playing = ["one", "two"].map(|to| {
        let url = format!("rtsp://ann:open%20sesame@{}/cam/front", server.rtsp);
        let options = ["-rtsp_transport", "tcp"];
        (clips.decode_some(&url, &options, to, &SEEN.to_string()), to)
    });
    let once = clips.all_pictures("sound.mp4");
    let expected = [&once[..], &once[..]].concat();
    for (player, to) in playing {
        let seen = clips.pictures(player, to);
        assert_eq!(seen.len(), SEEN, "{to}");
        assert!(expected.windows(SEEN).any(|run| run == seen), "{to}: {seen:?} of {once:?}");
    }
    let status = server.status();
    let live = status["live"].as_array().unwrap();
    let names: Vec<_> = live.iter().map(|live| live["stream"].as_str().unwrap()).collect();
    assert_eq!(names, ["cam/front", "cam/front/audio"], "{status}");
    for live in live {
        crate::live::assert_whole(live);
        assert!(live["ingested"]["frames"].as_u64().unwrap() >= SEEN as u64, "{live}");
    }
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    wait_for(&server, "no publisher", |status| status["live"][0]["publisher"] == "");
    server.end();
}
