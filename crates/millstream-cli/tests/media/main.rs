//! End-to-end tests of the media server: RTSP, RTP, HTTP pages, clusters, confinement.

#![allow(clippy::unwrap_used)]

mod access;
mod audio;
mod cluster;
mod codecs;
mod confined;
mod frames;
mod hls;
mod hooks;
mod instructions;
mod kills;
mod live;
mod on_demand;
mod openapi;
mod paths;
mod player;
mod players;
mod recording;
mod rtmp;
mod serve;
mod stall;
mod test_clips;
mod transport_stream;
#[cfg(feature = "webrtc")]
mod webrtc;
