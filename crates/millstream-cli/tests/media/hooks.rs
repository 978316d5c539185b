//! Hooks: commands run on publish, read, complete recordings and their ends, and nothing of the
//! network is part of a command.

use crate::player::{Player, Server, is_installed};
use crate::test_clips::TestClips;
use rtsp_types::StatusCode;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server of the live stream `cam` with a hook on each event, which appends its variables
/// to `log`, and one that runs while the stream is published.
fn serve(folder: &Path, log: &Path) -> Server {
    let script = "echo $MILLSTREAM_EVENT $MILLSTREAM_STREAM $MILLSTREAM_PEER $MILLSTREAM_TRANSPORT \
                  ${MILLSTREAM_FILE##*/cam/20} >> $0";
    let mut text = String::from(
        "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n\
         recording = { folder = \"recordings\", size = \"1 GB\" }\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n\
         [scenario]\nduration = \"1 s\"\n\
         [[stream]]\nname = \"cam\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
         first-deadline = \"2 s\"\n\
         source = { kind = \"live\", rate = \"2 Mbps\", record = true }\n",
    );
    for event in ["publish", "unpublish", "read", "unread", "segment"] {
        let log = log.display();
        text += &format!(
            "[[media.hook]]\non = \"{event}\"\ncommand = [\"sh\", \"-c\", '{script}', \"{log}\"]\n"
        );
    }
    let running =
        "echo begin >> $0; trap \"echo end >> $0; exit\" TERM; while :; do sleep 0.1; done";
    for command in [&["sh", "-c", running, log.to_str().unwrap()][..], &["/nonexistent/program"]] {
        text += &format!(
            "[[media.hook]]\non = \"publish\"\nwhile = true\nstreams = [\"cam\"]\n\
             command = {command:?}\n"
        );
    }
    let file = folder.join("media.toml");
    std::fs::write(&file, text).unwrap();
    Server::serve(&file, tempfile::tempdir().unwrap())
}

/// Waits until the log has these lines in any order, and no others.
fn wait_for(log: &Path, expected: &[&str]) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        let fits = |(line, expected): (&&str, &&str)| line.starts_with(expected);
        if lines.len() == expected.len() && lines.iter().zip(&expected).all(fits) {
            return;
        }
        assert!(Instant::now() < end, "{lines:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn commands_run_on_each_event_and_end_with_what_began_them() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(50, "300k", "25");
    let log = clips.path("log");
    let mut server = serve(clips.folder.path(), &log);
    let publish = || {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-re", "-stream_loop", "-1", "-i", "clip.mp4", "-c", "copy"]);
        ffmpeg.args(["-f", "rtsp", "-rtsp_transport", "tcp"]);
        ffmpeg.arg(format!("rtsp://{}/cam", server.rtsp)).stdin(Stdio::null());
        ffmpeg.current_dir(&clips.folder).spawn().unwrap()
    };
    let mut publisher = publish();
    let mut expected = vec!["begin", "publish cam 127.0.0.1 interleaved"];
    wait_for(&log, &expected);
    let mut player = Player::open(server.rtsp, "cam");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    expected.push("read cam 127.0.0.1 udp");
    wait_for(&log, &expected);
    drop(player);
    expected.push("unread cam 127.0.0.1 udp");
    wait_for(&log, &expected);
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    expected.extend(["end", "segment cam 2", "unpublish cam 127.0.0.1 interleaved"]);
    wait_for(&log, &expected);
    let hooks = server.status()["hooks"].clone();
    let of = |at: usize, counter: &str| hooks[at][counter].as_u64().unwrap();
    assert_eq!((of(0, "started"), of(0, "succeeded"), of(6, "failed")), (1, 1, 1), "{hooks}");
    assert!(server.page("/metrics").contains("millstream_media_hooks_total{hook=\"6\""));
    // A killed server ends the command that runs while the stream is published.
    let mut publisher = publish();
    expected.extend(["begin", "publish cam 127.0.0.1 interleaved"]);
    wait_for(&log, &expected);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let _ = publisher.kill();
    publisher.wait().unwrap();
    expected.push("end");
    wait_for(&log, &expected);
}
