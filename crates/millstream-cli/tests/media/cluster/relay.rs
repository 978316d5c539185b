//! A server that pulls a live stream from another one, once for all its players.

use super::{Additions, TIMEOUT, await_metric, on, watch_more};
use crate::player::{Player, Server, is_installed};
use crate::test_clips::TestClips;
use rtsp_types::StatusCode;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program in a host's namespace; dropping this value ends it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_pulls_a_live_stream_once_for_all_its_players() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(250, "400k", "12");
    on(2, |hosts| {
        let pull = "on-demand = [\"ffmpeg\", \"-v\", \"error\", \"-rtsp_transport\", \"tcp\", \
                    \"-i\", \"rtsp://10.77.0.1:8554/cam\", \"-c\", \"copy\", \"-f\", \"rtsp\", \
                    \"-rtsp_transport\", \"tcp\", \"rtsp://127.0.0.1:8554/cam\"], \
                    on-demand-start = \"60 s\"";
        let server = |host: u8, keys: &str| {
            let stream = format!(
                "[[stream]]\nname = \"cam\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
                 first-deadline = \"2 s\"\n\
                 source = {{ kind = \"live\", rate = \"2 Mbps\", {keys} }}\n"
            );
            let additions =
                Additions { streams: &stream, listens_anywhere: true, ..Additions::default() };
            hosts.server_with(host, "50 Mbps", 7, additions)
        };
        let servers = [server(1, "wait = \"5 s\""), server(2, pull)];
        for server in &servers {
            await_metric(server, "cluster_members", 1);
        }
        let mut ffmpeg = Command::new("ip");
        ffmpeg.args(["netns", "exec", &hosts.name(1), "ffmpeg", "-v", "error", "-re"]);
        ffmpeg.args(["-stream_loop", "-1", "-i"]).arg(clips.path("clip.mp4"));
        ffmpeg.args(["-an", "-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp"]);
        ffmpeg.arg("rtsp://127.0.0.1:8554/cam").stdin(Stdio::null());
        let _publisher = Running(ffmpeg.spawn().unwrap());
        let is_published = |server: &Server| server.status()["live"][0]["publisher"] != "";
        let end = Instant::now() + TIMEOUT;
        while !is_published(&servers[0]) {
            assert!(Instant::now() < end, "{}", servers[0].status());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!is_published(&servers[1]));
        let edge = "10.77.0.2:8554".parse().unwrap();
        let mut players: Vec<Player> = (0..3)
            .map(|_| {
                let mut player = Player::open(edge, "cam");
                assert_eq!(player.set_up(false).status(), StatusCode::Ok);
                player.play();
                player
            })
            .collect();
        watch_more(&mut players, 50);
        let clients = |server: &Server| server.status()["clients"].as_array().unwrap().len();
        assert_eq!((clients(&servers[0]), clients(&servers[1])), (1, 3));
    });
}
