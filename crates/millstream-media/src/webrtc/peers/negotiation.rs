//! Answers to offers: codecs, tracks, and the start of the estimate of the path.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use str0m::bwe::Bitrate;
use str0m::change::SdpOffer;
use str0m::format::{CodecConfig, PayloadParams};
use str0m::media::Mid;
use str0m::{Candidate, IceCreds, Output, Rtc, RtcConfig, RtcError};

use super::Track;
use crate::payload::Format;
use crate::rtsp::session::random_word;
use crate::scheduler::client::ReportTime;
use crate::webrtc::offer::Names;
use crate::webrtc::{Media, OfferError, Role};

/// The payload types, their retransmissions and the profiles that are offered for H.264.
const H264: [(u8, u8, u32); 4] = [
    (127, 121, 0x0042_001f),
    (108, 109, 0x0042_e01f),
    (123, 119, 0x004d_001f),
    (114, 115, 0x0064_001f),
];

/// The same of H.265: Main and Main 10, both in the main tier up to this level, 30 times its
/// number.
const H265: [(u8, u8, u8); 2] = [(102, 103, 1), (104, 105, 2)];
const H265_LEVEL: u8 = 180;

/// The packets of a track that are kept to be sent again: their number and age, and the largest
/// share of repeated packets.
const RESENT_PACKETS: usize = 512;
const RESENT_TIME: Duration = Duration::from_secs(1);
const RESENT_SHARE: Option<f32> = Some(0.15);

/// An answered offer without a session.
#[derive(Debug)]
pub(crate) struct Negotiated {
    pub(super) rtc: Rtc,
    answer: String,
    pub(super) local: SocketAddr,
    pub(super) tracks: [Option<Track>; 2],
}

impl Negotiated {
    /// Returns the SDP answer.
    pub(crate) fn answer(&self) -> &str {
        &self.answer
    }

    /// Returns whether audio was agreed.
    pub(crate) fn has_audio(&self) -> bool {
        self.tracks[1].is_some()
    }
}

impl From<RtcError> for OfferError {
    fn from(error: RtcError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Answers an offer to the server at `local`.
pub(super) fn negotiate(
    configuration: RtcConfig,
    local: SocketAddr,
    (offer, names): (&str, &Names),
    media: &Media,
) -> Result<Negotiated, OfferError> {
    let malformed = |error: String| OfferError::Malformed(error);
    let offer = SdpOffer::from_sdp_string(offer).map_err(|error| malformed(error.to_string()))?;
    let mut configuration =
        configuration.set_ice_lite(true).set_rtp_mode(true).clear_codecs().set_stats_interval(None);
    if media.role == Role::Viewer {
        // Twice the rate: no frame is dropped before there is an estimate.
        let rate = Bitrate::bps(media.rate_bps.saturating_mul(2));
        configuration = configuration.enable_bwe(Some(rate));
    }
    let words = || Some([random_word()?, random_word()?, random_word()?]);
    let [user, password @ ..] =
        words().ok_or_else(|| malformed("the system has no random numbers".to_owned()))?;
    // Those of the library are not from a cryptographic generator.
    let ufrag = format!("{user:016x}");
    let pass = format!("{:016x}{:016x}", password[0], password[1]);
    configuration = configuration.set_local_ice_credentials(IceCreds { ufrag, pass });
    enable_codecs(configuration.codec_config(), media);
    let mut rtc = configuration.build(Instant::now());
    let candidate = Candidate::host(local, "udp").map_err(|error| malformed(error.to_string()))?;
    rtc.add_local_candidate(candidate);
    drain(&mut rtc)?;
    let answer = rtc.sdp_api().accept_offer(offer)?;
    drain(&mut rtc)?;
    let tracks = [0, 1].map(|kind| track(&rtc, names[kind].as_deref()?.into(), media.profile));
    if tracks[0].is_none() {
        let profiles = match media.video {
            Format::H264 => "42001f, 42e01f, 4d001f, 64001f",
            Format::H265 => "1, 2",
            _ => "the main one",
        };
        return Err(OfferError::Unacceptable(format!(
            "the stream is {}; the offer has no profile that the server supports ({profiles})",
            media.video.encoding()
        )));
    }
    if media.role == Role::Viewer {
        for track in tracks.iter().flatten() {
            // The data plane has paced the packets.
            if let Some(stream) = rtc.direct_api().stream_tx_by_mid(track.mid, None) {
                stream.set_unpaced(true);
                stream.set_rtx_cache(RESENT_PACKETS, RESENT_TIME, RESENT_SHARE);
            }
            drain(&mut rtc)?;
        }
        // Probes may look for the stream's rate, but no padding is sent for longer: the scheduler
        // does not know of it.
        rtc.bwe().set_bitrate(Bitrate::ZERO, Bitrate::bps(media.rate_bps));
        drain(&mut rtc)?;
    }
    let answer = answer.to_sdp_string();
    let answer = match media.role {
        Role::Viewer => answer,
        Role::Publisher => with_bandwidth(&answer, media.rate_bps),
    };
    Ok(Negotiated { rtc, answer, local, tracks })
}

/// Limits the video of an answer to `rate_bps` (RFC 8866, section 5.8). A browser would otherwise
/// send at the rate of its path, and the policer would drop frames.
fn with_bandwidth(answer: &str, rate_bps: u64) -> String {
    let mut text = String::new();
    let mut is_video = false;
    for line in answer.split_inclusive("\r\n") {
        text += line;
        is_video = if line.starts_with("m=") { line.starts_with("m=video") } else { is_video };
        // Bandwidth follows the connection (section 5).
        if is_video && line.starts_with("c=") {
            // A tenth is for the headers, which the stream's rate includes.
            let kilobits = rate_bps / 1_000 * 9 / 10;
            text += &format!("b=AS:{}\r\n", kilobits.max(1));
        }
    }
    text
}

/// Ends a change of an `Rtc` that has no peer yet: there is nothing to send.
fn drain(rtc: &mut Rtc) -> Result<(), RtcError> {
    while !matches!(rtc.poll_output()?, Output::Timeout(_)) {}
    Ok(())
}

/// Enables the format of the video, and that of audio if browsers have it.
fn enable_codecs(codecs: &mut CodecConfig, media: &Media) {
    match media.video {
        Format::H265 => {
            for (payload_type, resent, profile) in H265 {
                codecs.add_h265(payload_type.into(), Some(resent.into()), profile, 0, H265_LEVEL);
            }
        }
        Format::Av1 => codecs.enable_av1(true),
        Format::Vp8 => codecs.enable_vp8(true),
        Format::Vp9 => codecs.enable_vp9(true),
        _ => {
            for (payload_type, resent, profile) in H264 {
                codecs.add_h264(payload_type.into(), Some(resent.into()), true, profile);
            }
        }
    }
    match media.audio {
        Some(Format::Opus) => codecs.enable_opus(true, false),
        Some(Format::Pcmu) => codecs.enable_pcmu(true, false),
        Some(Format::Pcma) => codecs.enable_pcma(true, false),
        _ => {}
    }
}

/// Returns the track of an agreed medium; prefers the H.264 profile of the stream.
fn track(rtc: &Rtc, mid: Mid, profile: Option<u8>) -> Option<Track> {
    let media = rtc.media(mid).filter(|media| !media.disabled())?;
    let agreed = media.remote_pts().iter().filter_map(|payload_type| {
        rtc.codec_config().find(|parameters| parameters.pt() == *payload_type)
    });
    let agreed: Vec<&PayloadParams> = agreed.collect();
    let is_preferred = |parameters: &&&PayloadParams| {
        let id = parameters.spec().format.profile_level_id;
        id.zip(profile).is_some_and(|(id, profile)| id >> 16 == u32::from(profile))
    };
    let chosen = agreed.iter().find(is_preferred).or(agreed.first())?;
    let clock_rate = chosen.spec().clock_rate.get();
    let payload_type = chosen.pt();
    Some(Track { mid, payload_type, clock_rate, instant: ReportTime::default() })
}

/// Returns the address for a peer's packets: the server's own, or for a wildcard address the one to
/// which the client has connected.
pub(super) fn candidate_address(bound: SocketAddr, connected: IpAddr) -> SocketAddr {
    if bound.ip().is_unspecified() { SocketAddr::new(connected, bound.port()) } else { bound }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_limits_the_video_of_an_answer() {
        let answer = "v=0\r\nm=audio 9 x 0\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\n\
                      m=video 9 x 96\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\n";
        let limited = "v=0\r\nm=audio 9 x 0\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\n\
                       m=video 9 x 96\r\nc=IN IP4 0.0.0.0\r\nb=AS:1800\r\na=mid:0\r\n";
        assert_eq!(with_bandwidth(answer, 2_000_000), limited);
    }
}
