//! The stand-in for peers in a build without the feature `webrtc`.

use millstream_scenario::Placement;
use mio::Waker;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::offer::Names;
use super::{Identity, Media, OfferError};
use crate::MediaError;
use crate::data_plane::placement::SharedResources;
use crate::live::publishing::Publishing;
use crate::pages::status::WebRtcStatus;
use crate::rtsp::session::Sessions;
use crate::wake_socket::AsWakeSocket;

/// No peers.
#[derive(Debug)]
pub(crate) enum Peers {}

/// No negotiation.
#[derive(Debug)]
pub(crate) enum Negotiated {}

impl Peers {
    /// Fails: this build has no WebRTC.
    pub(crate) fn open(_: SocketAddr, _: usize) -> Result<Self, MediaError> {
        Err(MediaError::new("`webrtc` in [media]: this build has no WebRTC")
            .help("build with the cargo feature `webrtc`, or remove the key"))
    }

    pub(crate) fn instance(&self) -> &str {
        match *self {}
    }

    pub(crate) fn counts(&self) -> WebRtcStatus {
        match *self {}
    }

    pub(crate) fn count_refused_offer(&mut self) {
        match *self {}
    }

    pub(crate) fn reject(&self, _: IpAddr) -> Option<&'static str> {
        match *self {}
    }

    pub(crate) fn negotiate(
        &self,
        _: &str,
        _: &Names,
        _: IpAddr,
        _: &Media,
    ) -> Result<Negotiated, OfferError> {
        match *self {}
    }

    pub(crate) fn next_place(&self) -> Option<usize> {
        match *self {}
    }

    pub(crate) fn add(&mut self, _: Negotiated, _: Identity, _: u64) {
        match *self {}
    }

    pub(crate) fn start(
        &mut self,
        _: &SharedResources,
        _: Arc<Waker>,
        _: Placement,
    ) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn discard_outcomes(&mut self) {
        match *self {}
    }

    pub(crate) fn has_signals(&self) -> bool {
        match *self {}
    }

    pub(crate) fn apply(
        &mut self,
        _: &mut Sessions,
        _: &mut Publishing,
        _: &impl AsWakeSocket,
        _: u64,
    ) -> Result<(), MediaError> {
        match *self {}
    }

    pub(crate) fn tick(
        &mut self,
        _: &mut Sessions,
        _: &mut Publishing,
        _: &impl AsWakeSocket,
        _: u64,
    ) {
        match *self {}
    }

    pub(crate) fn end(&mut self) {
        match *self {}
    }
}

impl Negotiated {
    pub(crate) fn answer(&self) -> &str {
        match *self {}
    }

    pub(crate) fn has_audio(&self) -> bool {
        match *self {}
    }
}
