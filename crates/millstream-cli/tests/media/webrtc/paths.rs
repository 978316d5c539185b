//! Paths of a stream that are published by WHIP and played by WHEP.

use super::viewer::{Publisher, Viewer};
use super::{clips, serve};
use crate::player::is_installed;

#[test]
fn browsers_publish_and_play_paths() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(50);
    let server = serve(&clips, "", "0/1");
    let address = server.webrtc.unwrap();
    let mut publisher = Publisher::open(address, "/whip/room/one", clips.coded_frames()).unwrap();
    let _second = Publisher::open(address, "/whip/room/two", Vec::new()).unwrap();
    for (path, status) in [("room/three", 503), ("room/one", 409), ("room", 404), ("room/.x", 404)]
    {
        let refused = Publisher::open(address, &format!("/whip/{path}"), Vec::new()).err().unwrap();
        assert_eq!(refused.status, status, "{path}: {refused:?}");
    }
    while publisher.sent < 3 {
        publisher.step();
    }
    assert_eq!(Viewer::open(address, "/whep/room/three", "").err().unwrap().status, 404);
    let mut viewer = Viewer::open(address, "/whep/room/one", "").unwrap();
    while viewer.frames.len() < 10 {
        assert!(!publisher.is_over(), "{} frames", viewer.frames.len());
        publisher.step();
        viewer.step();
    }
    let status = server.status();
    assert_eq!(status["clients"][0]["stream"], "room/one", "{status}");
    server.end();
}
