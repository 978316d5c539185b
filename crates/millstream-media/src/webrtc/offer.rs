//! Checks of SDP offers, before the WebRTC library sees them.
//!
//! An offer has one track of video, at most one of audio, and nothing else: no data channel.

use std::collections::BTreeSet;

use super::{Media, OfferError, Role};
use crate::payload::Format;
use crate::rtp::CLOCK_RATE;

/// The protocol of WebRTC's tracks (RFC 8829).
const PROTOCOL: &str = "UDP/TLS/RTP/SAVPF";

/// The names (`a=mid`) of an offer's tracks of video and audio.
pub(super) type Names = [Option<String>; 2];

/// Checks an offer of a client. Returns the names of its tracks.
pub(super) fn check(body: &[u8], media: &Media) -> Result<Names, OfferError> {
    let malformed = |why: String| Err(OfferError::Malformed(why));
    let session = match sdp_types::Session::parse(body) {
        Ok(session) => session,
        Err(error) => return malformed(format!("the offer is not SDP: {error}")),
    };
    let tracks = |kind| session.medias.iter().filter(move |track| track.media == kind);
    let [videos, audios] = ["video", "audio"].map(|kind| tracks(kind).count());
    if videos != 1 || audios > 1 || videos + audios != session.medias.len() {
        return malformed(format!(
            "{} tracks, {videos} of video and {audios} of audio; supported are one of video, at \
             most one of audio, and no data channel",
            session.medias.len()
        ));
    }
    if let Some(track) = session.medias.iter().find(|track| track.proto != PROTOCOL) {
        return malformed(format!("a track over {}; supported is {PROTOCOL}", track.proto));
    }
    let names = ["video", "audio"].map(|kind| {
        let track = tracks(kind).next()?;
        track.get_attribute_values("mid").flatten().next().map(|name| name.trim().to_owned())
    });
    let Some(video) = tracks("video").next().filter(|_| names[0].is_some()) else {
        return malformed("the video has no name, `a=mid`".to_owned());
    };
    let (wrong, right) = match media.role {
        Role::Viewer => (["sendonly", "inactive"], "recvonly"),
        Role::Publisher => (["recvonly", "inactive"], "sendonly"),
    };
    if let Some(direction) = wrong.into_iter().find(|name| has(video, name)) {
        return malformed(format!("the video is {direction}; it must be {right}"));
    }
    if !offers(video, media.video) {
        let offered: BTreeSet<&str> = maps(video).map(|(_, name)| name).collect();
        let offered: Vec<&str> = offered.into_iter().take(16).collect();
        let encoding = media.video.encoding();
        let mode = if media.video == Format::H264 { " with packetization-mode=1" } else { "" };
        return Err(OfferError::Unacceptable(format!(
            "the stream is {encoding}; the offer has no {encoding}/{CLOCK_RATE}{mode}, only: {}",
            offered.join(", ")
        )));
    }
    Ok(names)
}

fn has(track: &sdp_types::Media, attribute: &str) -> bool {
    track.attributes.iter().any(|one| one.attribute == attribute)
}

/// Returns the payload types of a track with their encodings.
fn maps(track: &sdp_types::Media) -> impl Iterator<Item = (&str, &str)> {
    let values = track.get_attribute_values("rtpmap").flatten();
    values.filter_map(|value| value.trim().split_once(' '))
}

/// Returns whether a track offers this format of video.
fn offers(track: &sdp_types::Media, format: Format) -> bool {
    let formats = || track.get_attribute_values("fmtp").flatten();
    let mode = |payload: &str| {
        let of = |value: &str| {
            let (of, parameters) = value.trim().split_once(' ')?;
            let mut parameters = parameters.split(';').map(str::trim);
            (of == payload && parameters.any(|one| one == "packetization-mode=1")).then_some(())
        };
        formats().find_map(of).is_some()
    };
    let name = format!("{}/{CLOCK_RATE}", format.encoding());
    maps(track).any(|(payload, map)| {
        map.eq_ignore_ascii_case(&name) && (format != Format::H264 || mode(payload))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An offer in the form of browsers, to play video and audio.
    pub(crate) const OFFER: &str = "v=0\r\no=- 46117 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
        a=group:BUNDLE 0 1\r\na=msid-semantic: WMS\r\n\
        m=video 9 UDP/TLS/RTP/SAVPF 96 102\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
        a=ice-pwd:0123456789abcdef01234567\r\n\
        a=fingerprint:sha-256 00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:\
        16:17:18:19:1A:1B:1C:1D:1E:1F\r\n\
        a=setup:actpass\r\na=mid:0\r\na=recvonly\r\na=rtcp-mux\r\na=rtpmap:96 VP8/90000\r\n\
        a=rtpmap:102 H264/90000\r\n\
        a=fmtp:102 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f\r\n\
        m=audio 9 UDP/TLS/RTP/SAVPF 111 0\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
        a=ice-pwd:0123456789abcdef01234567\r\n\
        a=fingerprint:sha-256 00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:\
        16:17:18:19:1A:1B:1C:1D:1E:1F\r\n\
        a=setup:actpass\r\na=mid:1\r\na=recvonly\r\na=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n\
        a=rtpmap:0 PCMU/8000\r\n";

    const MEDIA: Media = Media {
        role: Role::Viewer,
        video: Format::H264,
        profile: None,
        audio: Some(Format::Opus),
        rate_bps: 1,
    };

    #[test]
    fn offers_are_checked_and_errors_name_what_is_supported() {
        let names = ["0", "1"].map(|name| Some(name.to_owned()));
        assert_eq!(check(OFFER.as_bytes(), &MEDIA), Ok(names.clone()));
        let publisher = Media { role: Role::Publisher, ..MEDIA };
        let sending = OFFER.replace("recvonly", "sendrecv");
        assert_eq!(check(sending.as_bytes(), &publisher), Ok(names));
        let audio = OFFER.split("m=audio").nth(1).unwrap();
        for (text, media, part) in [
            ("v=1".to_owned(), MEDIA, "not SDP"),
            (OFFER.replace("recvonly", "inactive"), MEDIA, "must be recvonly"),
            (OFFER.to_owned(), publisher, "must be sendonly"),
            (OFFER.replace("a=mid:0\r\n", ""), MEDIA, "`a=mid`"),
            (OFFER.replace("SAVPF", "AVP"), MEDIA, "supported is UDP/TLS/RTP/SAVPF"),
            (format!("{OFFER}m=audio{audio}"), MEDIA, "2 of audio"),
            (
                format!("{OFFER}m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n"),
                MEDIA,
                "no data channel",
            ),
            (
                format!("v=0\r\no=- 1 2 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=audio{audio}"),
                MEDIA,
                "0 of video",
            ),
        ] {
            match check(text.as_bytes(), &media) {
                Err(OfferError::Malformed(why)) => assert!(why.contains(part), "{why:?}: {part:?}"),
                other => panic!("{part}: {other:?}"),
            }
        }
        let h265 = Media { video: Format::H265, ..MEDIA };
        assert!(check(OFFER.replace("H264", "H265").as_bytes(), &h265).is_ok());
        assert!(check(OFFER.as_bytes(), &h265).is_err());
        for text in [
            OFFER.replace("packetization-mode=1", "packetization-mode=0"),
            OFFER.replace("H264", "H265"),
        ] {
            match check(text.as_bytes(), &MEDIA) {
                Err(OfferError::Unacceptable(why)) => assert!(why.contains("VP8/90000"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
