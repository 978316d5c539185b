//! Audio with its video, received by ffmpeg: every frame of a file, at its time from the video.

use crate::player::{Player, Server, assert_conserved, is_installed};
use crate::test_clips::TestClips;
use rtsp_types::headers::RTP_INFO;
use rtsp_types::{Method, StatusCode};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The largest difference between audio and video in a file and as received, s.
pub(crate) const LIP_SYNC: f64 = 0.02;

/// The rate of the audio of files, Hz.
const AUDIO_RATE: f64 = 44_100.0;

/// The number of frames of video in a file, 2 s. Its audio begins 130 ms after its video.
const FRAMES: usize = 50;

/// Makes `NAME.ts` with audio of each codec of ffmpeg; the frequency changes, so frames differ.
fn clips(codecs: &[(&str, &str)]) -> TestClips {
    let clips = TestClips::make(FRAMES, "300k", "25");
    let tone = "aevalsrc=0.3*sin(2*PI*(200+100*floor(t*7))*t):s=44100:d=1.8";
    for (name, codec) in codecs {
        let audio = ["-f", "lavfi", "-itsoffset", "0.13", "-i", tone, "-map", "0:v", "-map", "1:a"];
        let to = ["-c:v", "copy", "-c:a", codec, "-b:a", "96k", &format!("{name}.ts")];
        clips.ffmpeg(&[&["-i", "clip.mp4"][..], &audio, &to].concat());
    }
    clips
}

/// Serves each file as `/NAME`, which repeats, and as `/NAME-once`.
fn serve(clips: &TestClips, names: &[&str], media: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"ni\"\n{media}\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n\
         [scenario]\nduration = \"1 s\"\n"
    );
    for name in names {
        for (ending, repeat) in [("", true), ("-once", false)] {
            text += &format!(
                "[[stream]]\nname = \"{name}{ending}\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
                 first-deadline = \"1 s\"\nsource = {{ kind = \"mpeg\", file = \"{}\", \
                 repeat = {repeat} }}\n",
                clips.path(&format!("{name}.ts")).display()
            );
        }
    }
    let file = folder.path().join("media.toml");
    std::fs::write(&file, text).unwrap();
    Server::serve(&file, folder)
}

/// A decoded frame: its time, s, and a checksum.
type Decoded = (f64, String);

/// Decodes a file or stream; returns the frames of video and of audio.
fn decode(folder: &Path, input: &str, options: &[&str]) -> [Vec<Decoded>; 2] {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-copyts"]).args(options).args(["-i", input]);
    ffmpeg.args(["-map", "0:v", "-map", "0:a", "-fps_mode", "passthrough"]);
    ffmpeg.args(["-enc_time_base:v", "1:90000"]);
    let output = ffmpeg.args(["-f", "framemd5", "-"]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut scales = [1.0; 2];
    let mut decoded = [Vec::new(), Vec::new()];
    for line in text.lines() {
        if let Some((stream, scale)) = line.strip_prefix("#tb ").and_then(|l| l.split_once(": ")) {
            let (part, whole) = scale.split_once('/').unwrap();
            let scale: [f64; 2] = [part, whole].map(|number| number.trim().parse().unwrap());
            scales[stream.parse::<usize>().unwrap()] = scale[0] / scale[1];
        } else if !line.starts_with('#') {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let stream: usize = fields[0].parse().unwrap();
            let time: f64 = fields[2].parse().unwrap();
            decoded[stream].push((time * scales[stream], fields[5].to_owned()));
        }
    }
    decoded
}

/// Returns the time of each frame from the first frame of video, s.
fn times(video: &[Decoded], frames: &[Decoded]) -> Vec<f64> {
    frames.iter().map(|frame| frame.0 - video[0].0).collect()
}

fn checksums(frames: &[Decoded]) -> Vec<&str> {
    frames.iter().map(|frame| frame.1.as_str()).collect()
}

/// Asserts that the frames have the times `expected`, to the lip-sync limit.
fn assert_in_time(seen: &[f64], expected: impl Iterator<Item = f64>, what: &str) {
    for (at, (seen, expected)) in seen.iter().zip(expected).enumerate() {
        let off = seen - expected;
        assert!(off.abs() <= LIP_SYNC, "{what}: frame {at} is {off} s from its time in the file");
    }
}

#[test]
fn ffmpeg_decodes_every_frame_of_audio_at_its_time() {
    if !is_installed("ffmpeg") {
        return;
    }
    let codecs = [("aac", "aac"), ("mp2", "mp2"), ("mp3", "libmp3lame")];
    let clips = clips(&codecs);
    let names = codecs.map(|(name, _)| name);
    let server = serve(&clips, &names, "");
    let folder = clips.folder.path();
    let mut sent = 0;
    for name in names {
        let expected = decode(folder, &format!("{name}.ts"), &[]);
        let offset = times(&expected[0], &expected[1])[0];
        assert!((0.05..0.2).contains(&offset), "{name}: the file's own offset is {offset} s");
        // By TCP the goodbye follows the last frame.
        let url = format!("rtsp://{}/{name}-once", server.rtsp);
        let seen = decode(folder, &url, &["-rtsp_transport", "tcp"]);
        for track in [0, 1] {
            assert_eq!(checksums(&seen[track]), checksums(&expected[track]), "{name}, {track}");
            let expected = times(&expected[0], &expected[track]);
            assert_in_time(&times(&seen[0], &seen[track]), expected.into_iter(), name);
            sent += seen[track].len() as u64;
        }
        // The second round begins 2 s after the first one, for both tracks.
        let url = format!("rtsp://{}/{name}", server.rtsp);
        let round = expected[1].len();
        let seen = decode(folder, &url, &["-rtsp_transport", "udp", "-t", "3.2"]);
        assert_eq!(checksums(&seen[1])[..round], checksums(&expected[1]), "{name} by UDP");
        assert!(seen[0].len() > FRAMES && seen[1].len() > round, "{name} by UDP");
        for track in [0, 1] {
            let expected = times(&expected[0], &expected[track]);
            let again = expected.iter().map(|time| time + 2.0);
            let both = expected.iter().copied().chain(again);
            assert_in_time(&times(&seen[0], &seen[track]), both, &format!("{name} by UDP"));
        }
    }
    let account = server.end();
    assert_conserved(&account);
    let frames = &account["frames"];
    assert!(
        frames["sent"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>() > sent
    );
    for kinds in ["dropped_late", "dropped_full", "unread"] {
        assert_eq!(frames[kinds], serde_json::json!([0, 0, 0]), "{account}");
    }
    assert_eq!((&account["admitted"], &frames["violations"]), (&6.into(), &0.into()), "{account}");
}

/// Audio stays in memory when the video is read ahead from its file.
#[test]
fn audio_is_whole_with_each_frame_path() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(&[("aac", "aac")]);
    let folder = clips.folder.path();
    let expected = decode(folder, "aac.ts", &[]);
    for path in ["producer", "ni"] {
        let server = serve(&clips, &["aac"], &format!("frame-path = \"{path}\""));
        let url = format!("rtsp://{}/aac-once", server.rtsp);
        let seen = decode(folder, &url, &["-rtsp_transport", "tcp"]);
        for track in [0, 1] {
            assert_eq!(checksums(&seen[track]), checksums(&expected[track]), "{path}, {track}");
        }
        assert_conserved(&server.end());
    }
}

/// The stream's audio in the scenario, ffmpeg's encoder, and its options.
const LIVE: [(&str, &str, &[&str]); 4] = [
    ("aac", "aac", &["-ar", "44100"]),
    ("opus", "libopus", &["-ar", "48000"]),
    ("mpeg", "mp2", &["-ar", "44100", "-b:a", "128k"]),
    ("pcma", "pcm_alaw", &["-ar", "8000", "-ac", "1"]),
];

/// Audio with a click each second. The picture of [`FLASHES`] turns white at the same time.
const CLICKS: &str = "aevalsrc=if(lt(mod(t\\,1)\\,0.1)\\,sin(2*PI*1000*t)\\,0):s=48000";
const FLASHES: &str = "color=black:s=64x48:r=25,\
                       drawbox=t=fill:color=white:enable=lt(mod(t\\,1)\\,0.1)";

/// Returns the times at which picture and sound of a recording begin to be bright and loud, s.
fn onsets(folder: &Path, file: &str) -> [Vec<f64>; 2] {
    let filters = [
        ("-vf", "signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-", "YAVG="),
        (
            "-af",
            "aresample=48000,asetnsamples=96,astats=metadata=1:reset=1,\
                 ametadata=print:key=lavfi.astats.Overall.RMS_level:file=-",
            "RMS_level=",
        ),
    ];
    filters.map(|(kind, filter, key)| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-copyts", "-i", file, kind, filter]);
        ffmpeg.arg(if kind == "-vf" { "-an" } else { "-vn" }).args(["-f", "null", "-"]);
        let output = ffmpeg.current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let (mut time, mut before, mut onsets) = (0.0, false, Vec::new());
        for line in text.lines() {
            if let Some((_, at)) = line.split_once("pts_time:") {
                time = at.trim().parse().unwrap();
            } else if let Some((_, level)) = line.split_once(key) {
                let level: f64 = level.trim().parse().unwrap_or(f64::NEG_INFINITY);
                let on = if kind == "-vf" { level > 100.0 } else { level > -9.0 };
                if on && !before {
                    onsets.push(time);
                }
                before = on;
            }
        }
        onsets
    })
}

#[test]
fn published_audio_is_played_in_time_with_its_video() {
    if !is_installed("ffmpeg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut text = "[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"ni\"\n\
         http = \"127.0.0.1:0\"\n[link]\nrate = \"50 Mbps\"\noverhead = 28\n\
         [scheduler]\ndiscipline = \"dwcs\"\n[scenario]\nduration = \"1 s\"\n"
        .to_owned();
    for (audio, ..) in LIVE {
        text += &format!(
            "[[stream]]\nname = \"{audio}\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
             first-deadline = \"1 s\"\nsource = {{ kind = \"live\", rate = \"2 Mbit/s\", \
             audio = \"{audio}\" }}\n"
        );
    }
    let file = folder.path().join("media.toml");
    std::fs::write(&file, text).unwrap();
    let server = Server::serve(&file, folder);
    let recordings = tempfile::tempdir().unwrap();
    let publishers = LIVE.map(|(audio, encoder, options)| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-re", "-f", "lavfi", "-i", FLASHES, "-re", "-f", "lavfi"]);
        ffmpeg.args(["-i", CLICKS, "-c:v", "libx264", "-preset", "ultrafast", "-g", "12"]);
        ffmpeg.args(["-bf", "2", "-c:a", encoder]).args(options).args(["-f", "rtsp"]);
        let transport = if audio == "opus" { "udp" } else { "tcp" };
        let url = format!("rtsp://{}/{audio}", server.rtsp);
        ffmpeg.args(["-rtsp_transport", transport, &url]).spawn().unwrap()
    });
    let end = Instant::now() + Duration::from_secs(30);
    let frames = |of: &str| {
        let status = server.status();
        let live = status["live"].as_array().unwrap().clone();
        let found = live.iter().find(|live| live["stream"] == of).unwrap().clone();
        found["ingested"]["released"][0].as_u64().unwrap()
    };
    for (audio, ..) in LIVE {
        while frames(&format!("{audio}/audio")) == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let players = LIVE.map(|(audio, ..)| {
        let mut ffmpeg = Command::new("ffmpeg");
        let transport = if audio == "aac" { "udp" } else { "tcp" };
        ffmpeg.args(["-v", "error", "-copyts", "-rtsp_transport", transport, "-t", "6", "-i"]);
        ffmpeg.arg(format!("rtsp://{}/{audio}", server.rtsp)).args(["-c:v", "ffv1"]);
        ffmpeg.args(["-fps_mode", "passthrough", "-c:a", "pcm_s16le"]);
        ffmpeg.arg(format!("{audio}.mkv")).current_dir(&recordings);
        ffmpeg.spawn().unwrap()
    });
    for mut player in players {
        assert!(player.wait().unwrap().success());
    }
    let status = server.status();
    for live in status["live"].as_array().unwrap() {
        for what in ["beyond", "incomplete", "strange_packets", "lost_packets"] {
            assert_eq!(live["ingested"][what], 0, "{what}: {live}");
        }
    }
    for mut publisher in publishers {
        publisher.kill().unwrap();
        publisher.wait().unwrap();
    }
    for (audio, ..) in LIVE {
        let [flashes, clicks] = onsets(recordings.path(), &format!("{audio}.mkv"));
        assert!(flashes.len() > 3 && clicks.len() > 3, "{audio}: {flashes:?}, {clicks:?}");
        // The recording may end between a flash and its click, which are a second from the next
        // ones. The first sender reports may arrive after the first frames.
        let until = clicks[clicks.len() - 1] + 0.5;
        let last = flashes.iter().rev().filter(|flash| **flash < until).take(3);
        for flash in last {
            let off =
                clicks.iter().map(|click| click - flash).min_by(|a, b| a.abs().total_cmp(&b.abs()));
            let off = off.unwrap();
            assert!(off.abs() <= LIP_SYNC, "{audio}: the click is {off} s from the flash");
        }
    }
    let account = server.end();
    assert_conserved(&account);
    assert_eq!(account["frames"]["violations"], 0, "{account}");
}

/// Sets up both tracks of `/aac` by UDP; returns the player of the video and that of the audio.
fn set_up(server: &Server) -> [Player; 2] {
    let mut video = Player::open(server.rtsp, "aac/video");
    assert_eq!(video.set_up(false).status(), StatusCode::Ok);
    let mut audio = video.other_track(server.rtsp, "aac/audio");
    assert_eq!(audio.set_up(false).status(), StatusCode::Ok);
    video.set_url(server.rtsp, "aac");
    [video, audio]
}

/// Returns the RTP times of the tracks in an answer to PLAY: video, audio.
pub(crate) fn start_times(answer: &rtsp_types::Response<Vec<u8>>) -> [u32; 2] {
    let info = answer.header(&RTP_INFO).unwrap().as_str().to_owned();
    ["/video;", "/audio;"].map(|track| {
        let (_, rest) = info.split_once(track).unwrap();
        let (_, time) = rest.split_once("rtptime=").unwrap();
        time.split(',').next().unwrap().parse().unwrap()
    })
}

/// Receives packets until both tracks have a new sender report. Returns the distance between the
/// positions in the file that the reports give for one instant, s.
///
/// `start` has the RTP times of the same position. The rate of the audio's is in Hz.
pub(crate) fn skew(players: &mut [Player; 2], start: [u32; 2], audio_rate: f64) -> f64 {
    players.iter_mut().for_each(|player| player.sender_report = None);
    let end = Instant::now() + Duration::from_secs(20);
    while players.iter().any(|player| player.sender_report.is_none()) {
        assert!(Instant::now() < end, "no sender reports");
        players.iter_mut().for_each(|player| player.watch(Duration::from_millis(50)));
        players.iter().for_each(Player::report);
    }
    let reports = players.each_ref().map(|player| player.sender_report.unwrap());
    let rates = [90_000.0, audio_rate];
    let [video, audio] = [0, 1].map(|track| {
        let (ntp, rtp) = reports[track];
        let since = ntp.wrapping_sub(reports[0].0).cast_signed();
        let position = f64::from(rtp.wrapping_sub(start[track]).cast_signed()) / rates[track];
        position - since as f64 / 2f64.powi(32)
    });
    (video - audio).abs()
}

#[test]
fn both_tracks_continue_together_after_pauses_and_kills() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(&[("aac", "aac")]);
    let media = "http = \"127.0.0.1:0\"\nsocket = \"data-plane\"\nidle-timeout = \"60 s\"";
    let mut server = serve(&clips, &["aac"], media);
    let mut players = set_up(&server);
    let mut start = [0; 2];
    for round in 0..3 {
        let answer = players[0].ask(Method::Play, &[]);
        assert_eq!(answer.status(), StatusCode::Ok);
        start = start_times(&answer);
        let skew = skew(&mut players, start, AUDIO_RATE);
        assert!(skew < LIP_SYNC / 10.0, "round {round}: {skew} s");
        players.iter_mut().for_each(|player| player.receive_frames(10));
        players.iter_mut().for_each(|player| drop(player.frames()));
        if round < 2 {
            assert_eq!(players[0].ask(Method::Pause, &[]).status(), StatusCode::Ok);
            std::thread::sleep(Duration::from_millis(123));
        }
    }
    let data_plane = nix::unistd::Pid::from_raw(i32::try_from(server.data_plane.unwrap()).unwrap());
    nix::sys::signal::kill(data_plane, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(skew(&mut players, start, AUDIO_RATE) < LIP_SYNC / 10.0, "in the next data plane");
    server.crash();
    assert!(skew(&mut players, start, AUDIO_RATE) < LIP_SYNC / 10.0, "without a server");
    let server = server.restart();
    let streams = || -> Vec<String> {
        let status = server.status();
        let clients = status["clients"].as_array().unwrap();
        clients.iter().map(|client| client["stream"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(streams(), ["aac", "aac/audio"]);
    players.iter_mut().for_each(|player| drop(player.frames()));
    players.iter_mut().for_each(|player| player.receive_frames(10));
    // A request for the session stops both tracks.
    players[0].reconnect(server.rtsp, "aac");
    assert_eq!(players[0].ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    let end = Instant::now() + Duration::from_secs(10);
    while !streams().is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(streams(), Vec::<String>::new());
    let account = server.end();
    assert_conserved(&account);
}
