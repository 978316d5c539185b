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
use crate::live::publishing::Publishing;
use crate::payload::Format;
use crate::rtp::CLOCK_RATE;
use crate::rtsp::session::{Transport, random_word};

/// The most parameter sets read from an announcement.
const MAX_SETS: usize = 4;

/// The content of an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    payload_type: u8,
    /// The parameter sets of H.264.
    sets: Vec<Vec<u8>>,
}

/// The state from which publishers' requests are answered.
pub(super) struct PublisherHandler<'a> {
    pub(super) live: &'a mut Publishing,
    /// Whether the server drains: it accepts no more publishers.
    pub(super) draining: bool,
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
        let name = name_of(request);
        let Some(stream) = self.live.index_of(name) else {
            return refuse(StatusCode::NotFound, format!("unknown live stream `{name}`"));
        };
        let PublishPermission { may, why } = self.rights(stream, who, requester);
        if !may {
            return refuse(StatusCode::Forbidden, why);
        }
        if self.draining {
            return refuse(StatusCode::ServiceUnavailable, "the server is draining");
        }
        if self.live.of_connection(requester.connection).is_some() {
            let why = "this connection already publishes a stream";
            return refuse(StatusCode::MethodNotValidInThisState, why);
        }
        if self.live.streams[stream].publisher.is_some() {
            let why = format!("`{name}` already has a publisher");
            return refuse(StatusCode::MethodNotValidInThisState, why);
        }
        let kind = request.header(&CONTENT_TYPE).map_or("", |kind| kind.as_str());
        if !kind.starts_with("application/sdp") {
            return refuse(
                StatusCode::UnsupportedMediaType,
                "announcements must be application/sdp",
            );
        }
        match announced(request.body(), self.live.streams[stream].spec.codec) {
            Ok(Announced { payload_type, sets }) => {
                let from = (requester.connection, requester.peer);
                self.live.announce(stream, from, payload_type, sets, self.now_ns);
                Ok(ok().build(Vec::new()))
            }
            Err(why) => refuse(StatusCode::UnsupportedMediaType, why),
        }
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
            .strip_prefix(live.spec.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if !of_stream {
            let why = format!("this connection publishes `{}`", live.spec.name);
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
        let ports = live.ports;
        let Some(publisher) = live.publisher.as_mut().filter(|who| !who.recording) else {
            let why = "SETUP is not allowed after RECORD";
            return refuse(StatusCode::MethodNotValidInThisState, why);
        };
        let Some(id) = random_word() else {
            return refuse(StatusCode::InternalServerError, "the system has no random numbers");
        };
        if publisher.id.is_empty() {
            publisher.id = format!("{id:016x}");
        }
        publisher.transport = Some(transport);
        let chosen = match transport {
            Transport::Udp(rtp, rtcp) => format!(
                "RTP/AVP;unicast;client_port={rtp}-{rtcp};server_port={}-{};mode=record",
                ports.0, ports.1
            ),
            Transport::Interleaved(rtp, rtcp) => {
                format!("RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp};mode=record")
            }
        };
        let id = publisher.id.clone();
        let timeout = self.idle_timeout_ns / 1_000_000_000;
        Ok(ok()
            .header(SESSION, format!("{id};timeout={timeout}"))
            .header(TRANSPORT, chosen)
            .build(Vec::new()))
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

/// Parses the announcement of a stream with this codec. Returns the reason if it is not acceptable.
pub(crate) fn announced(body: &[u8], codec: Codec) -> Result<Announced, String> {
    let session = sdp_types::Session::parse(body)
        .map_err(|error| format!("the description is not SDP: {error}"))?;
    let [media] = &session.medias[..] else {
        let tracks = session.medias.len();
        return Err(format!("{tracks} tracks; exactly one video track is supported (ffmpeg: -an)"));
    };
    if media.media != "video" || !media.proto.starts_with("RTP/AVP") {
        return Err(format!(
            "a track of {} over {}; only video over RTP/AVP is supported",
            media.media, media.proto
        ));
    }
    let payload = media.fmt.trim();
    let payload_type = payload.parse::<u8>().ok().filter(|kind| *kind < 128);
    let Some(payload_type) = payload_type else {
        return Err(format!("payload type `{payload}`; it must be one number below 128"));
    };
    let of_payload = |name: &'static str| {
        let values = media.get_attribute_values(name).flatten();
        values.filter_map(|value| value.split_once(' ')).find(|(kind, _)| *kind == payload)
    };
    let format = Format::of(codec);
    let map = of_payload("rtpmap").map(|(_, map)| map.trim());
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
    let parameters = of_payload("fmtp").map_or("", |(_, parameters)| parameters);
    let value = |name: &str| {
        let all = parameters.split(';').filter_map(|one| one.trim().split_once('='));
        all.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    if value("packetization-mode").is_some_and(|mode| mode == "2") {
        return Err("packetization mode 2; only 0 and 1 are supported".to_owned());
    }
    let sets = value("sprop-parameter-sets").unwrap_or_default();
    let sets = sets.split(',').take(MAX_SETS).filter_map(|set| STANDARD.decode(set).ok());
    Ok(Announced { payload_type, sets: sets.filter(|set| !set.is_empty()).collect() })
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
        announced(text.as_bytes(), codec)
    }

    #[test]
    fn announcements_of_ffmpeg_are_parsed() {
        let found = of(FFMPEG, Codec::H264).unwrap();
        let sets = vec![vec![0x67, 0x64, 0, 0x0d, 5], vec![0x68, 7]];
        assert_eq!(found, Announced { payload_type: 96, sets });
        let mpeg = FFMPEG.split("a=rtpmap").next().unwrap().replace("AVP 96", "AVP 32");
        assert_eq!(of(&mpeg, Codec::Mpeg).unwrap().payload_type, 32);
        let named = mpeg.replace("AVP 32", "AVP 97") + "a=rtpmap:97 MPV/90000\r\n";
        assert_eq!(of(&named, Codec::Mpeg).unwrap().payload_type, 97);
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
            text.splice(at..end, bytes);
            for codec in [Codec::H264, Codec::Mpeg] {
                let _ = announced(&text, codec);
            }
        }
    }
}
