//! A stream that a command publishes on demand, played by WHEP.

use super::clips;
use super::viewer::Viewer;
use crate::on_demand::serve;
use crate::player::is_installed;

#[test]
fn an_offer_waits_for_the_command_that_publishes() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(50);
    let media = "webrtc = \"127.0.0.1:0\"";
    let server = serve(clips.folder.path(), "plain.ts", media, "");
    let address = server.webrtc.unwrap();
    let refused = Viewer::open(address, "/whep/broken", "").err().unwrap();
    assert_eq!(refused.status, 404);
    assert!(refused.body.contains("within 1 s"), "{}", refused.body);
    let mut viewer = Viewer::open(address, "/whep/cam", "").unwrap_or_else(|refused| {
        panic!("{}", refused.body);
    });
    viewer.receive_until(|viewer| viewer.frames.len() >= 10);
    assert_eq!(server.status()["hooks"][0]["started"], 1);
}
