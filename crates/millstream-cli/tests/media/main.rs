//! The media server as its clients meet it: RTSP, RTP, pages, clusters, confinement.

#![allow(clippy::unwrap_used)]

mod access;
mod cluster;
mod confined;
mod films;
mod frames;
mod instructions;
mod kills;
mod live;
mod player;
mod players;
mod serve;
mod stall;
