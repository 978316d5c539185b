//! What str0m's events mean for session control.

use rtp_types::RtpPacketBuilder;
use std::time::SystemTime;
use str0m::bwe::BweKind;
use str0m::media::Mid;
use str0m::rtp::RtpPacket;
use str0m::{Event, IceConnectionState, Rtc};

use super::Track;
use crate::rtp::low_u32;
use crate::webrtc::{AUDIO, VIDEO};

/// An event of a peer, for session control.
#[derive(Debug)]
pub(super) enum Signal {
    /// ICE and DTLS are complete.
    Connected,
    /// A request for a key frame.
    KeyFrame,
    /// The estimated rate of the path, bits/s.
    Estimate(u64),
    /// An RTP packet of a track: video or audio.
    Packet(usize, Vec<u8>),
    /// A sender report of a track: NTP time, 2^-32 s, and RTP time.
    Report(usize, u64, u32),
    /// The peer is lost or has closed.
    Disconnected,
}

impl Signal {
    /// Returns whether it may be dropped if too many wait: the peer repeats it, or its loss is that
    /// of a packet.
    pub(super) fn may_be_lost(&self) -> bool {
        !matches!(self, Self::Connected | Self::Disconnected)
    }
}

/// Returns what an event of str0m means for session control.
pub(super) fn signal(event: &Event, rtc: &Rtc, tracks: &[Option<Track>; 2]) -> Option<Signal> {
    let of = |mid: Mid| tracks.iter().position(|track| track.is_some_and(|track| track.mid == mid));
    match event {
        Event::Connected => Some(Signal::Connected),
        Event::IceConnectionStateChange(IceConnectionState::Disconnected) | Event::Closed => {
            Some(Signal::Disconnected)
        }
        Event::KeyframeRequest(request) => of(request.mid).map(|_| Signal::KeyFrame),
        Event::EgressBitrateEstimate(
            BweKind::Twcc { estimate, .. } | BweKind::Remb { estimate, .. },
        ) => Some(Signal::Estimate(estimate.as_u64())),
        Event::RtpPacket(packet) => {
            // The extension with the track's name is only in the first packets.
            let payload_type = packet.header.payload_type;
            let parameters = rtc.codec_config().find(|one| one.pt() == payload_type)?;
            let track = usize::from(parameters.spec().codec.is_audio());
            Some(Signal::Packet(track, plain_packet(packet, track)?))
        }
        Event::SenderFeedback(feedback) => {
            let info = &feedback.sender_info;
            let since = info.ntp_time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            let ntp =
                since.as_secs() << 32 | ((u64::from(since.subsec_nanos()) << 32) / 1_000_000_000);
            let rtp_time = low_u32(info.rtp_time.numer());
            Some(Signal::Report(of(feedback.mid)?, ntp, rtp_time))
        }
        _ => None,
    }
}

/// Returns a decrypted packet as the ingest reads it.
fn plain_packet(packet: &RtpPacket, track: usize) -> Option<Vec<u8>> {
    let header = &packet.header;
    RtpPacketBuilder::new()
        .payload_type(if track == 0 { VIDEO } else { AUDIO })
        .marker_bit(header.marker)
        .sequence_number(header.sequence_number)
        .timestamp(header.timestamp)
        .ssrc(*header.ssrc)
        .payload(&packet.payload[..])
        .write_vec()
        .ok()
}
