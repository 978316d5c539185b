//! Requests of publishers (RFC 2326, sections 10.3 and 10.11). ANNOUNCE describes the stream, SETUP
//! chooses the transport, RECORD starts it.
//!
//! A publication belongs to the connection that announced it and ends with it. A publisher
//! authenticates like a player. If the stream names its publishers, it must be one of them;
//! otherwise it must connect from this machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millstream_traffic::mpeg::Codec;
use rtsp_types::headers::{CONTENT_TYPE, SESSION, TRANSPORT, Transports};
use rtsp_types::{Method, Request, StatusCode};

use super::{Answer, Requester, RtspError, acceptable, name_of, ok, refuse};
use crate::live::Unavailable;
use crate::live::publishing::{AudioDescription, Publishing, Track};
use crate::payload::Format;
use crate::rtp::CLOCK_RATE;
use crate::rtsp::session::{Sessions, Transport, random_word};

/// The most parameter sets read from an announcement.
const MAX_SETS: usize = 4;

/// The rates of timestamps that audio may have, Hz.
const AUDIO_RATES: std::ops::RangeInclusive<u32> = 8_000..=96_000;

/// The most channels of audio.
const MAX_CHANNELS: u32 = 8;

/// The longest AAC configuration, hexadecimal digits.
const MAX_CONFIG: usize = 64;

/// The content of an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    video: Track,
    audio: Option<Track>,
}

/// The state from which publishers' requests are answered.
pub(crate) struct PublisherHandler<'a> {
    pub(super) live: &'a mut Publishing,
    pub(super) sessions: &'a mut Sessions,
    pub(super) idle_timeout_ns: u64,
    pub(super) now_ns: u64,
}

impl PublisherHandler<'_> {
    /// Executes a publisher's request; `None` if the request is not a publisher's.
    pub(super) fn answer(
        &mut self,
        request: &Request<Vec<u8>>,
        who: Option<&str>,
        requester: Requester,
    ) -> Option<Result<Answer, RtspError>> {
        if *request.method() == Method::Announce {
            return Some(self.announce(request, who, requester));
        }
        let stream = self.live.of_connection(requester.connection)?;
        match request.method() {
            Method::Setup => Some(self.set_up_publisher(stream, request, requester)),
            Method::Record => Some(self.record(stream, request)),
            Method::Teardown => Some(self.check_publisher_session(stream, request).inspect(|_| {
                self.live.leave(stream, self.now_ns);
            })),
            Method::GetParameter | Method::SetParameter => {
                Some(self.check_publisher_session(stream, request))
            }
            _ => None,
        }
    }

    fn announce(
        &mut self,
        request: &Request<Vec<u8>>,
        who: Option<&str>,
        requester: Requester,
    ) -> Result<Answer, RtspError> {
        let stream = self.may_publish(name_of(request), who, requester)?;
        if self.live.of_connection(requester.connection).is_some() {
            let why = "this connection already publishes a stream";
            return refuse(StatusCode::MethodNotValidInThisState, why);
        }
        let kind = request.header(&CONTENT_TYPE).map_or("", |kind| kind.as_str());
        if !kind.starts_with("application/sdp") {
            return refuse(
                StatusCode::UnsupportedMediaType,
                "announcements must be application/sdp",
            );
        }
        let audio = self.live.audio_of(stream);
        let format = audio.and_then(|audio| self.live.streams[audio].spec.audio);
        let format = format.map(|(format, _)| format);
        match announced(request.body(), self.live.streams[stream].spec.codec, format) {
            Ok(Announced { video, audio: track }) => {
                let from = (requester.connection, requester.peer);
                self.live.announce(stream, from, video, self.now_ns);
                if let Some((audio, track)) = audio.zip(track) {
                    self.live.announce(audio, from, track, self.now_ns);
                }
                Ok(ok().build(Vec::new()))
            }
            Err(why) => refuse(StatusCode::UnsupportedMediaType, why),
        }
    }

    /// Returns the live stream of this name, if this client may publish it now. A path without a
    /// place takes one.
    pub(crate) fn may_publish(
        &mut self,
        name: &str,
        who: Option<&str>,
        requester: Requester,
    ) -> Result<usize, RtspError> {
        let unavailable = |unavailable| match unavailable {
            Unavailable::Missing(why) => RtspError(StatusCode::NotFound, why),
            Unavailable::Busy(why) => RtspError(StatusCode::ServiceUnavailable, why),
        };
        let stream = self.live.contract_of(name).map_err(unavailable)?;
        let PublishPermission { may, why } = self.rights(stream, who, requester);
        if !may {
            return refuse(StatusCode::Forbidden, why);
        }
        if self.sessions.draining {
            return refuse(StatusCode::ServiceUnavailable, "the server is draining");
        }
        let stream = self.live.claim(name, self.sessions).map_err(unavailable)?;
        if self.live.streams[stream].publisher.is_some() {
            let why = format!("`{name}` already has a publisher");
            return refuse(StatusCode::MethodNotValidInThisState, why);
        }
        Ok(stream)
    }

    fn rights(&self, stream: usize, who: Option<&str>, requester: Requester) -> PublishPermission {
        match &self.live.streams[stream].spec.publishers {
            None => PublishPermission {
                may: requester.peer.is_loopback(),
                why: "without `publish`, only publishers on the server's host are allowed",
            },
            Some(names) => PublishPermission {
                may: who.is_some_and(|who| names.iter().any(|name| name == who)),
                why: "your user or token is not in the stream's `publish`",
            },
        }
    }

    fn set_up_publisher(
        &mut self,
        stream: usize,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<Answer, RtspError> {
        let live = &mut self.live.streams[stream];
        let of_stream = name_of(request)
            .strip_prefix(live.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if !of_stream {
            let why = format!("this connection publishes `{}`", live.name);
            return refuse(StatusCode::MethodNotValidInThisState, why);
        }
        let offered = match request.typed_header::<Transports>() {
            Ok(Some(offered)) => offered,
            _ => {
                let why = "the Transport header is missing or malformed";
                return refuse(StatusCode::BadRequest, why);
            }
        };
        let Some(transport) = offered.iter().find_map(|offer| acceptable(offer, requester)) else {
            let why = "supported: RTP/AVP/TCP;interleaved=N-N or RTP/AVP;unicast;client_port=N-N";
            return refuse(StatusCode::UnsupportedTransport, why);
        };
        let track = self.track_of(stream, request);
        let live = &mut self.live.streams[track];
        let ports = live.ports;
        let Some(publisher) = live.publisher.as_mut().filter(|who| !who.recording) else {
            let why = "SETUP is not allowed after RECORD";
            return refuse(StatusCode::MethodNotValidInThisState, why);
        };
        let Some(id) = random_word() else {
            return refuse(StatusCode::InternalServerError, "the system has no random numbers");
        };
        publisher.transport = Some(transport);
        let chosen = match transport {
            Transport::Udp(rtp, rtcp) => format!(
                "RTP/AVP;unicast;client_port={rtp}-{rtcp};server_port={}-{};mode=record",
                ports.0, ports.1
            ),
            Transport::Interleaved(rtp, rtcp) => {
                format!("RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp};mode=record")
            }
            Transport::WebRtc(_) | Transport::Rtmp | Transport::MpegTs => String::new(),
        };
        // The session of both tracks is that of the video.
        let Some(publisher) = self.live.streams[stream].publisher.as_mut() else {
            return refuse(StatusCode::MethodNotValidInThisState, "no announcement");
        };
        if publisher.id.is_empty() {
            publisher.id = format!("{id:016x}");
        }
        let id = publisher.id.clone();
        let timeout = self.idle_timeout_ns / 1_000_000_000;
        Ok(ok()
            .header(SESSION, format!("{id};timeout={timeout}"))
            .header(TRANSPORT, chosen)
            .build(Vec::new()))
    }

    /// Returns the stream of the announced track that a SETUP names: the video's or the audio's.
    fn track_of(&self, stream: usize, request: &Request<Vec<u8>>) -> usize {
        let path = request.request_uri().map(|uri| uri.path()).unwrap_or_default();
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let names = |audio: &usize| {
            let publisher = self.live.streams[*audio].publisher.as_ref();
            publisher.is_some_and(|publisher| publisher.track.control == last)
        };
        self.live.audio_of(stream).filter(names).unwrap_or(stream)
    }

    fn record(&mut self, stream: usize, request: &Request<Vec<u8>>) -> Result<Answer, RtspError> {
        let answer = self.check_publisher_session(stream, request)?;
        self.live.record(stream, self.now_ns);
        Ok(answer)
    }

    /// Checks the session of a request on a publication that is set up, and returns the response.
    fn check_publisher_session(
        &mut self,
        stream: usize,
        request: &Request<Vec<u8>>,
    ) -> Result<Answer, RtspError> {
        let named = request.header(&SESSION).map(|header| header.as_str());
        let named = named.and_then(|header| header.split(';').next()).unwrap_or_default().trim();
        let publisher = self.live.streams[stream].publisher.as_mut();
        let Some(publisher) = publisher.filter(|who| !who.id.is_empty() && who.id == named) else {
            return refuse(StatusCode::SessionNotFound, format!("unknown session `{named}`"));
        };
        publisher.last_received_ns = self.now_ns;
        Ok(ok().header(SESSION, publisher.id.as_str()).build(Vec::new()))
    }
}

/// Whether a client may publish, and the message if not.
struct PublishPermission {
    may: bool,
    why: &'static str,
}

/// Parses the announcement of a stream with this codec, and this format of audio if it may have
/// audio. Returns the reason if it is not acceptable.
pub(crate) fn announced(
    body: &[u8],
    codec: Codec,
    audio: Option<Format>,
) -> Result<Announced, String> {
    let session = sdp_types::Session::parse(body)
        .map_err(|error| format!("the description is not SDP: {error}"))?;
    let tracks = session.medias.len();
    let is = |kind: &'static str| session.medias.iter().filter(move |media| media.media == kind);
    let (video, sound) = (is("video").next(), is("audio").next());
    let supported = match audio {
        None if tracks != 1 => {
            let why = "exactly one video track is supported (ffmpeg: -an)";
            return Err(format!("{tracks} tracks; {why}"));
        }
        None => "only video",
        Some(_) if tracks > 2 || tracks != is("video").count() + is("audio").count() => {
            return Err(format!("{tracks} tracks; supported are one of video and one of audio"));
        }
        Some(_) => "only video and audio",
    };
    let other = session.medias.iter().find(|media| {
        let known = media.media == "video" || audio.is_some() && media.media == "audio";
        !known || !media.proto.starts_with("RTP/AVP")
    });
    if let Some(media) = other {
        return Err(format!(
            "a track of {} over {}; {supported} over RTP/AVP is supported",
            media.media, media.proto
        ));
    }
    let Some(video) = video else { return Err("no track of video".to_owned()) };
    if tracks == 2 && sound.is_none() {
        return Err("two tracks of video; supported are one of video and one of audio".to_owned());
    }
    let audio = sound.zip(audio).map(|(media, format)| announced_audio(media, format));
    Ok(Announced { video: announced_video(video, codec)?, audio: audio.transpose()? })
}

/// Returns the payload type of a track and its text.
fn payload_type(media: &sdp_types::Media) -> Result<(u8, &str), String> {
    let payload = media.fmt.trim();
    let payload_type = payload.parse::<u8>().ok().filter(|kind| *kind < 128);
    payload_type
        .map(|payload_type| (payload_type, payload))
        .ok_or_else(|| format!("payload type `{payload}`; it must be one number below 128"))
}

/// Returns the value of an attribute of a track for its payload type.
fn of_payload<'a>(
    media: &'a sdp_types::Media,
    payload: &str,
    name: &'static str,
) -> Option<&'a str> {
    let values = media.get_attribute_values(name).flatten();
    let mut values = values.filter_map(|value| value.split_once(' '));
    values.find(|(kind, _)| *kind == payload).map(|(_, value)| value.trim())
}

/// Returns a parameter of a format.
fn parameter<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    let mut all = parameters.split(';').filter_map(|one| one.trim().split_once('='));
    all.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Returns the last part of the URL of a track's SETUP.
fn control(media: &sdp_types::Media) -> String {
    let control = media.get_attribute_values("control").flatten().next().unwrap_or_default();
    control.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

fn announced_audio(media: &sdp_types::Media, format: Format) -> Result<Track, String> {
    let (payload_type, payload) = payload_type(media)?;
    let default = match format {
        Format::MpegAudio => "MPA/90000",
        Format::Pcmu => "PCMU/8000",
        Format::Pcma => "PCMA/8000",
        _ => "",
    };
    let is_default = payload_type == format.payload_type();
    let map = of_payload(media, payload, "rtpmap");
    let map = map.or(Some(default).filter(|_| is_default)).unwrap_or_default();
    let mut parts = map.split('/');
    let name = parts.next().unwrap_or_default();
    let clock_rate = parts.next().and_then(|rate| rate.parse::<u32>().ok());
    let channels = parts.next().map_or(Some(1), |channels| channels.parse::<u32>().ok());
    let rate_fits = |rate: &u32| match format {
        Format::Opus => *rate == 48_000,
        Format::MpegAudio => u64::from(*rate) == CLOCK_RATE,
        Format::Aac => AUDIO_RATES.contains(rate),
        _ => *rate == 8_000,
    };
    let channels = channels.filter(|channels| match format {
        Format::Opus => *channels == 2,
        Format::Pcmu | Format::Pcma => *channels == 1,
        _ => (1..=MAX_CHANNELS).contains(channels),
    });
    let encoding = format.encoding();
    let fits = name.eq_ignore_ascii_case(encoding);
    let Some((clock_rate, channels)) = clock_rate.filter(rate_fits).zip(channels).filter(|_| fits)
    else {
        let why = format!("the stream's `audio` requires {encoding}");
        return Err(format!("audio of payload type {payload_type} is `{map}`; {why}"));
    };
    let parameters = of_payload(media, payload, "fmtp").unwrap_or_default();
    let parameters = match format {
        Format::Aac => Some(aac_parameters(parameters)?),
        Format::Opus if parameter(parameters, "sprop-stereo") == Some("1") => {
            Some("sprop-stereo=1".to_owned())
        }
        _ => None,
    };
    let clock = match channels {
        1 => clock_rate.to_string(),
        channels => format!("{clock_rate}/{channels}"),
    };
    let description = AudioDescription { clock, parameters };
    let control = control(media);
    Ok(Track { payload_type, clock_rate, sets: Vec::new(), control, description })
}

/// Returns the parameters of AAC for players; packets are forwarded as they are, so their headers
/// must be those of mode AAC-hbr.
fn aac_parameters(parameters: &str) -> Result<String, String> {
    for (name, expected) in
        [("mode", "AAC-hbr"), ("sizelength", "13"), ("indexlength", "3"), ("indexdeltalength", "3")]
    {
        let value = parameter(parameters, name).unwrap_or_default();
        if !value.eq_ignore_ascii_case(expected) {
            return Err(format!("AAC with {name}=`{value}`; it must be {expected}"));
        }
    }
    let config = parameter(parameters, "config").unwrap_or_default();
    let is_hex = config.chars().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || !(4..=MAX_CONFIG).contains(&config.len()) {
        return Err("AAC without a valid `config`".to_owned());
    }
    Ok(format!(
        "streamtype=5;profile-level-id=1;mode=AAC-hbr;config={config};sizelength=13;\
         indexlength=3;indexdeltalength=3"
    ))
}

fn announced_video(media: &sdp_types::Media, codec: Codec) -> Result<Track, String> {
    let (payload_type, payload) = payload_type(media)?;
    let format = Format::of(codec);
    let map = of_payload(media, payload, "rtpmap");
    let expected = format!("{}/{CLOCK_RATE}", format.encoding());
    let fits = match map {
        Some(map) => map.eq_ignore_ascii_case(&expected),
        None => payload_type == format.payload_type() && codec == Codec::Mpeg,
    };
    if !fits {
        let map = map.unwrap_or("without rtpmap");
        return Err(format!(
            "payload type {payload_type} is {map}; the stream's `codec` requires {expected}"
        ));
    }
    let parameters = of_payload(media, payload, "fmtp").unwrap_or_default();
    if parameter(parameters, "packetization-mode").is_some_and(|mode| mode == "2") {
        return Err("packetization mode 2; only 0 and 1 are supported".to_owned());
    }
    if parameter(parameters, "sprop-max-don-diff").is_some_and(|most| most != "0") {
        return Err("H.265 with sprop-max-don-diff; only packets in decoding order are supported"
            .to_owned());
    }
    let sets = ["sprop-parameter-sets", "sprop-vps", "sprop-sps", "sprop-pps"];
    let sets = sets.iter().filter_map(|name| parameter(parameters, name));
    let sets = sets.flat_map(|sets| sets.split(',')).take(MAX_SETS);
    let sets = sets.filter_map(|set| STANDARD.decode(set).ok());
    Ok(Track {
        payload_type,
        clock_rate: u32::try_from(CLOCK_RATE).unwrap_or(u32::MAX),
        sets: sets.filter(|set| !set.is_empty()).collect(),
        control: control(media),
        description: AudioDescription::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FFMPEG: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=No Name\r\nc=IN IP4 127.0.0.1\r\n\
     t=0 0\r\n\
        a=tool:libavformat 59.27.100\r\nm=video 0 RTP/AVP 96\r\nb=AS:600\r\na=rtpmap:96 \
        H264/90000\r\n\
        a=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z2QADQU=,aAc=; \
        profile-level-id=64000D\r\n\
        a=control:streamid=0\r\n";

    fn of(text: &str, codec: Codec) -> Result<Announced, String> {
        announced(text.as_bytes(), codec, None)
    }

    #[test]
    fn announcements_of_ffmpeg_are_parsed() {
        let found = of(FFMPEG, Codec::H264).unwrap();
        let sets = vec![vec![0x67, 0x64, 0, 0x0d, 5], vec![0x68, 7]];
        let (video, audio) = (found.video, found.audio);
        assert_eq!((video.payload_type, video.sets, audio), (96, sets, None));
        let mpeg = FFMPEG.split("a=rtpmap").next().unwrap().replace("AVP 96", "AVP 32");
        assert_eq!(of(&mpeg, Codec::Mpeg).unwrap().video.payload_type, 32);
        let named = mpeg.replace("AVP 32", "AVP 97") + "a=rtpmap:97 MPV/90000\r\n";
        assert_eq!(of(&named, Codec::Mpeg).unwrap().video.payload_type, 97);
    }

    #[test]
    fn the_parameter_sets_of_h265_are_read() {
        let sets = "sprop-vps=QAEC; sprop-sps=QgED; sprop-pps=RAEE";
        let old = "packetization-mode=1; sprop-parameter-sets=Z2QADQU=,aAc=; \
                   profile-level-id=64000D";
        let text = FFMPEG.replace("H264", "H265").replace(old, sets);
        let found = of(&text, Codec::H265).unwrap().video.sets;
        assert_eq!(found, [[0x40, 1, 2], [0x42, 1, 3], [0x44, 1, 4]]);
        let reordered = text.replace(sets, "sprop-max-don-diff=2");
        assert!(of(&reordered, Codec::H265).unwrap_err().contains("decoding order"));
    }

    const AAC: &str = "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/44100/2\r\n\
        a=fmtp:97 profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;\
        indexdeltalength=3; config=121056E500\r\na=control:streamid=1\r\n";

    #[test]
    fn announced_audio_is_described_to_players() {
        let of = |audio: &str, format| {
            announced([FFMPEG, audio].concat().as_bytes(), Codec::H264, Some(format))
        };
        let [opus, pcma] = [
            "m=audio 0 RTP/AVP 101\r\na=rtpmap:101 opus/48000/2\r\n\
            a=fmtp:101 sprop-stereo=1\r\n",
            "m=audio 0 RTP/AVP 8\r\n",
        ];
        let mpeg = "m=audio 0 RTP/AVP 14\r\n";
        let aac = "streamtype=5;profile-level-id=1;mode=AAC-hbr;config=121056E500;sizelength=13;\
            indexlength=3;indexdeltalength=3";
        for (text, format, payload_type, rate, clock, parameters) in [
            (AAC, Format::Aac, 97, 44_100, "44100/2", Some(aac)),
            (opus, Format::Opus, 101, 48_000, "48000/2", Some("sprop-stereo=1")),
            (pcma, Format::Pcma, 8, 8_000, "8000", None),
            (mpeg, Format::MpegAudio, 14, 90_000, "90000", None),
        ] {
            let track = of(text, format).unwrap().audio.unwrap();
            assert_eq!((track.payload_type, track.clock_rate), (payload_type, rate));
            let AudioDescription { clock: found, parameters: others } = track.description;
            assert_eq!((&found[..], others.as_deref()), (clock, parameters), "{text}");
        }
        assert_eq!(of(AAC, Format::Aac).unwrap().audio.unwrap().control, "streamid=1");
        assert_eq!(of("", Format::Aac).unwrap().audio, None);
        for (text, format, part) in [
            (AAC.to_owned(), Format::Opus, "requires opus"),
            (AAC.replace("hbr", "lbr"), Format::Aac, "must be AAC-hbr"),
            (AAC.replace("121056E500", "12\u{fc}"), Format::Aac, "config"),
            (AAC.replace("44100", "7"), Format::Aac, "requires MPEG4-GENERIC"),
            (AAC.replace("44100/2", "44100/99"), Format::Aac, "requires MPEG4-GENERIC"),
            (AAC.replace("m=audio", "m=text"), Format::Aac, "one of audio"),
            (AAC.replace("m=audio", "m=video"), Format::Aac, "two tracks of video"),
            ([AAC, AAC].concat(), Format::Aac, "3 tracks"),
        ] {
            let why = of(&text, format).unwrap_err();
            assert!(why.contains(part), "{why:?} lacks {part:?}");
        }
    }

    #[test]
    fn unsupported_announcements_are_rejected_with_the_supported_form() {
        let audio = "m=audio 0 RTP/AVP 14\r\n";
        for (text, codec, part) in [
            (FFMPEG.to_owned() + audio, Codec::H264, "-an"),
            (FFMPEG.to_owned(), Codec::Mpeg, "requires MPV/90000"),
            (FFMPEG.replace("H264", "H265"), Codec::H264, "requires H264/90000"),
            (FFMPEG.replace("mode=1", "mode=2"), Codec::H264, "0 and 1"),
            (FFMPEG.replace("m=video", "m=audio"), Codec::H264, "only video"),
            (FFMPEG.replace("RTP/AVP 96", "RTP/AVP 96 97"), Codec::H264, "one number"),
            (FFMPEG.replace("RTP/AVP 96", "RTP/AVP 300"), Codec::H264, "below 128"),
            ("v=1".to_owned(), Codec::H264, "not SDP"),
            (String::new(), Codec::H264, "not SDP"),
        ] {
            let why = of(&text, codec).unwrap_err();
            assert!(why.contains(part), "{why:?} lacks {part:?}");
        }
    }

    #[test]
    fn a_stream_has_one_local_publisher_that_follows_the_protocol() {
        use crate::fuzzing::with_server;
        use std::net::IpAddr;
        let announce = |stream: &str| {
            format!(
                "ANNOUNCE rtsp://h/{stream} RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n\
                 Content-Length: {}\r\n\r\n{FFMPEG}",
                FFMPEG.len()
            )
        };
        let request =
            |head: &str, header: &str| format!("{head} RTSP/1.0\r\nCSeq: 1\r\n{header}\r\n\r\n");
        let [here, there] = [[127, 0, 0, 1], [10, 0, 0, 1]].map(IpAddr::from);
        let setup = |stream: &str, transport: &str| {
            let head = format!("SETUP rtsp://h/{stream}/streamid=0");
            request(&head, &format!("Transport: {transport};mode=record"))
        };
        let (tcp, session) = ("RTP/AVP/TCP;unicast;interleaved=0-1", "Session: 77");
        let setups = [setup("film", tcp), setup("live", "RTP/SAVP"), setup("live", tcp)];
        let records = [("RECORD", session), ("TEARDOWN", session)]
            .map(|(method, header)| request(&format!("{method} rtsp://h/live"), header));
        // Each row is a connection.
        for (peer, said, expected) in [
            (there, announce("live"), "403"),
            (here, announce("film"), "404"),
            (here, announce("live") + &announce("live"), "200 455"),
            (here, announce("live"), "455"),
        ] {
            let mut statuses = Vec::new();
            with_server(|talk| {
                // Another connection publishes the stream already.
                if expected == "455" {
                    talk(here, announce("live").as_bytes());
                }
                statuses = statuses_of(&talk(peer, said.as_bytes()));
            });
            assert_eq!(statuses.join(" "), expected, "{said}");
        }
        with_server(|talk| {
            let said = [&[announce("live")][..], &setups, &records].concat().concat();
            let statuses = statuses_of(&talk(here, said.as_bytes()));
            assert_eq!(statuses.join(" "), "200 455 461 200 454 454");
        });
    }

    fn statuses_of(answers: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(answers).into_owned();
        let lines = text.lines().filter_map(|line| line.strip_prefix("RTSP/1.0 "));
        lines.map(|line| line[..3].to_owned()).collect()
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_announcements_do_not_panic(
            at in 0usize..400, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..8),
        ) {
            let mut text = FFMPEG.as_bytes().to_vec();
            let at = at.min(text.len());
            let end = (at + bytes.len()).min(text.len());
            text.splice(at..end, bytes.iter().copied());
            for codec in [Codec::H264, Codec::H265, Codec::Mpeg] {
                let _ = announced(&text, codec, None);
            }
            let mut text = AAC.as_bytes().to_vec();
            let at = at.min(text.len());
            let end = (at + bytes.len()).min(text.len());
            text.splice(at..end, bytes);
            let text = [FFMPEG.as_bytes(), &text].concat();
            for format in [Format::Aac, Format::Opus, Format::MpegAudio, Format::Pcmu] {
                let _ = announced(&text, Codec::H264, Some(format));
            }
        }
    }
}
