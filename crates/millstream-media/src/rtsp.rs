//! RTSP 1.0 (RFC 2326): requests, responses and the session changes that they cause.
//!
//! Each presentation has one stream: `rtsp://HOST/NAME` with a track `video`, and a track `audio` if
//! its file has audio. A session has one or both; each has a row of its own, and one clock. A
//! session belongs to the client address that created it; its packets go to that address only.

pub(crate) mod access;
pub(crate) mod authentication;
pub(crate) mod connection;
pub(crate) mod publish;
pub(crate) mod session;
pub(crate) mod tcp;
pub(crate) mod tls;

use rtsp_types::headers::{
    ACCEPT, CONTENT_BASE, CONTENT_TYPE, CSEQ, LOCATION, PUBLIC, RANGE, REQUIRE, RTP_INFO, SERVER,
    SESSION, TRANSPORT, UNSUPPORTED,
};
use rtsp_types::headers::{
    RtpLowerTransport, RtpProfile, RtpTransport, Transport as Offered, Transports,
};
use rtsp_types::{
    HeaderName, Message, Method, ParseError, Request, Response, ResponseBuilder, StatusCode,
    Version,
};
use std::net::{IpAddr, SocketAddr};

use crate::cluster::Cluster;
use crate::files::library::Library;
use crate::live::Unavailable;
use crate::live::publishing::Publishing;
use crate::rtp::low_u32;
use crate::rtsp::access::AuthState;
use crate::rtsp::authentication::Authenticator;
use crate::rtsp::publish::PublisherHandler;
use crate::rtsp::session::{AdmissionError, Sessions, Transport};
use crate::scheduler::client::{Client, Descriptor};
use crate::shared_memory::region::{RequestedState, SessionField, State};
use crate::wake_socket::AsWakeSocket;

const METHODS: &str =
    "OPTIONS, DESCRIBE, ANNOUNCE, SETUP, PLAY, RECORD, PAUSE, GET_PARAMETER, TEARDOWN";

/// Response header with status 453: the window x/y under which the client would be admitted.
pub(crate) const OFFERED_WINDOW: &str = "X-Offered-Window";

/// Why a draining server refuses clients.
pub(crate) const DRAINING: &str = "the server is draining: it admits no new clients";

/// URL prefix of a redirected stream: a redirected client is not redirected again.
pub(crate) const REDIRECTED: &str = "placed/";

/// The URL prefix of the recordings of a stream.
pub(crate) const RECORDINGS: &str = "recordings/";

/// The URL suffix of a stream's audio.
const AUDIO_TRACK: &str = "/audio";

/// The lowest client port that receives packets; lower ports belong to system services.
pub(crate) const LOWEST_PORT: u16 = 1024;

/// An RTSP response.
pub(crate) type Answer = Response<Vec<u8>>;

/// The state from which requests are answered.
pub(crate) struct RtspHandler<'a, B> {
    pub(crate) library: &'a Library,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) authenticator: &'a mut Authenticator,
    pub(crate) live: &'a mut Publishing,
    pub(crate) cluster: Option<&'a mut Cluster>,
    pub(crate) waker: &'a B,
    /// The source ports of RTP and RTCP.
    pub(crate) server_ports: (u16, u16),
    pub(crate) local: SocketAddr,
    pub(crate) idle_timeout_ns: u64,
    /// The longest request, bytes.
    pub(crate) request_bytes: usize,
    pub(crate) now_ns: u64,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    pub(crate) peer: IpAddr,
    pub(crate) connection: usize,
    /// Whether the connection is encrypted.
    pub(crate) secured: bool,
}

/// Why a request fails: status and message.
#[derive(Debug)]
pub(crate) struct RtspError(StatusCode, String);

impl RtspError {
    /// Returns the number of the status, and the message.
    pub(crate) fn parts(self) -> (u16, String) {
        (self.0.into(), self.1)
    }
}

fn refuse<T>(status: StatusCode, why: impl Into<String>) -> Result<T, RtspError> {
    Err(RtspError(status, why.into()))
}

fn ok() -> ResponseBuilder {
    Response::builder(Version::V1_0, StatusCode::Ok)
}

impl<B: AsWakeSocket> RtspHandler<'_, B> {
    /// Consumes complete messages from `input` and appends responses to `output`, at most `room`
    /// bytes. Returns whether the connection continues: a malformed message, a full output and
    /// exhausted password attempts end it.
    pub(crate) fn process_input(
        &mut self,
        input: &mut Vec<u8>,
        output: &mut Vec<u8>,
        pass: &mut AuthState,
        room: usize,
        requester: Requester,
    ) -> bool {
        let (before, mut used, mut open) = (output.len(), 0, true);
        while used < input.len() && open {
            let rest = &input[used..];
            // RFC 2326 allows empty lines between requests.
            if rest[0] == b'\r' || rest[0] == b'\n' {
                used += 1;
                continue;
            }
            let refused = match Message::<Vec<u8>>::parse(rest) {
                // Applies also to a request that arrived complete in one read.
                Ok((Message::Request(_), length)) if length > self.request_bytes => {
                    StatusCode::RequestMessageBodyTooLarge
                }
                Ok((Message::Request(request), length)) => {
                    let answer = self.answer(&request, pass, requester);
                    // The request stays in the input and is answered when its stream is published.
                    if self.live.is_held(requester.connection) {
                        break;
                    }
                    used += length;
                    let length = usize::try_from(answer.write_len()).unwrap_or(usize::MAX);
                    open = output.len() - before + length <= room
                        && answer.write(output).is_ok()
                        && !pass.is_exhausted();
                    continue;
                }
                Ok((Message::Data(data), length)) => {
                    used += length;
                    let (channel, packet) = (data.channel_id(), data.into_body());
                    self.live.interleaved(requester.connection, channel, &packet, self.now_ns);
                    continue;
                }
                // Responses to requests that the server never sends.
                Ok((_, length)) => {
                    used += length;
                    continue;
                }
                Err(ParseError::Incomplete(_)) if rest.len() <= self.request_bytes => break,
                Err(ParseError::Incomplete(_)) => StatusCode::RequestMessageBodyTooLarge,
                Err(ParseError::Error) => StatusCode::BadRequest,
            };
            let answer = Response::builder(Version::V1_0, refused).build(Vec::<u8>::new());
            let _ = answer.write(output);
            open = false;
        }
        input.drain(..used.min(input.len()));
        if self.live.take_frames_released() {
            self.waker.wake();
        }
        open
    }

    /// Executes `request` and returns the response.
    fn answer(
        &mut self,
        request: &Request<Vec<u8>>,
        pass: &mut AuthState,
        requester: Requester,
    ) -> Answer {
        // Only a number is echoed (RFC 2326, section 12.17), never any other value of the header.
        let sequence = request.header(&CSEQ).and_then(|header| header.as_str().parse::<u32>().ok());
        let result = if request.version() != Version::V1_0 {
            refuse(StatusCode::RTSPVersionNotSupported, "only RTSP/1.0 is supported")
        } else if sequence.is_none() {
            refuse(StatusCode::BadRequest, "CSeq is missing or not a number below 2^32")
        } else if let Some(required) = request.header(&REQUIRE) {
            let required = required.as_str().replace(char::is_control, "");
            Ok(Response::builder(Version::V1_0, StatusCode::OptionNotSupported)
                .header(UNSUPPORTED, required)
                .build(Vec::new()))
        } else {
            match self.authenticate(request, pass, requester) {
                Some(answer) => Ok(answer),
                None => match self.publisher().answer(request, pass.name(), requester) {
                    Some(answer) => answer,
                    None => self.execute(request, requester),
                },
            }
        };
        self.live.answered(requester.connection);
        let mut answer = result.unwrap_or_else(|RtspError(status, why)| {
            Response::builder(Version::V1_0, status)
                .header(CONTENT_TYPE, "text/plain")
                .build((why + "\n").into_bytes())
        });
        if let Some(sequence) = sequence {
            answer.insert_header(CSEQ, sequence.to_string());
        }
        answer.insert_header(SERVER, concat!("millstream/", env!("CARGO_PKG_VERSION")));
        answer
    }

    /// Returns the response to a request that is not authenticated. A request that was held was
    /// authenticated before: the nonce count of Digest would make it a replay.
    pub(crate) fn authenticate(
        &mut self,
        request: &Request<Vec<u8>>,
        pass: &mut AuthState,
        requester: Requester,
    ) -> Option<Answer> {
        if self.live.is_resumed(requester.connection) {
            return None;
        }
        let rejects = &mut self.sessions.rejects;
        self.authenticator.authenticate(request, pass, requester, rejects, self.now_ns)
    }

    /// Returns the part of the state from which publishers' requests are answered.
    pub(crate) fn publisher(&mut self) -> PublisherHandler<'_> {
        PublisherHandler {
            live: self.live,
            sessions: &mut *self.sessions,
            idle_timeout_ns: self.idle_timeout_ns,
            now_ns: self.now_ns,
        }
    }

    fn execute(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<Answer, RtspError> {
        if let Some(redirect) = self.redirect(request, requester) {
            return Ok(redirect);
        }
        match request.method() {
            Method::Options => Ok(ok().header(PUBLIC, METHODS).build(Vec::new())),
            Method::Describe => {
                let answer = self.describe(request, requester);
                self.release_unused_places();
                answer
            }
            Method::Setup => {
                let answer = self.set_up(request, requester);
                self.release_unused_places();
                answer
            }
            Method::Play => self.play(request, requester),
            Method::Pause => {
                let (number, id) = self.session(request, requester)?;
                self.request_state(number, RequestedState::Pause);
                Ok(ok().header(SESSION, id).build(Vec::new()))
            }
            // Clients send it as a keep-alive.
            Method::GetParameter if request.header(&SESSION).is_some() => {
                let (_, id) = self.session(request, requester)?;
                Ok(ok().header(SESSION, id).build(Vec::new()))
            }
            Method::GetParameter => Ok(ok().build(Vec::new())),
            Method::Teardown => {
                let (number, id) = self.session(request, requester)?;
                self.request_state(number, RequestedState::Stop);
                Ok(ok().header(SESSION, id).build(Vec::new()))
            }
            Method::Record => refuse(StatusCode::SessionNotFound, "no ANNOUNCE on this connection"),
            method => {
                let method: &str = method.into();
                refuse(
                    StatusCode::NotImplemented,
                    format!("unsupported method {method}; supported: {METHODS}"),
                )
            }
        }
    }

    /// Stops all tracks of the client of a session.
    pub(crate) fn stop(&mut self, number: usize) {
        self.request_state(number, RequestedState::Stop);
    }

    /// Requests a state of all tracks of the client of a session.
    fn request_state(&mut self, number: usize, state: RequestedState) {
        for track in self.sessions.tracks(number) {
            self.sessions.request_state(track, state, self.waker);
        }
    }

    /// Redirects the client to another server of the cluster: the one that plays its session, else
    /// the one with the most spare capacity. A client that was redirected here stays.
    fn redirect(&mut self, request: &Request<Vec<u8>>, requester: Requester) -> Option<Answer> {
        // Cluster addresses have no TLS listener.
        let cluster = self.cluster.as_deref_mut().filter(|_| !requester.secured)?;
        let session = request.header(&SESSION).map(|header| header.as_str());
        let name = name_of(request);
        let to = match (request.method(), session) {
            (_, Some(session)) => {
                let id = session.split(';').next().unwrap_or_default().trim();
                if self.sessions.find(id, requester.peer).is_some() {
                    return None;
                }
                cluster.owner(u64::from_str_radix(id, 16).ok()?, requester.peer)?
            }
            (method @ (Method::Describe | Method::Setup), None) => {
                let name = (!name.starts_with(REDIRECTED)).then_some(name)?;
                let title = self.library.titles.iter().position(|title| title.name == name)?;
                // A live stream exists only on the server of its publisher.
                if self.library.titles[title].live.is_some() {
                    return None;
                }
                // A client that received its DESCRIBE here stays if admission allows.
                let full = *method == Method::Setup;
                cluster.redirect_target(self.library, self.sessions, title, full)?
            }
            _ => return None,
        };
        let track = if is_audio_track(request) { AUDIO_TRACK } else { "" };
        let name = name.strip_prefix(REDIRECTED).unwrap_or(name);
        // The token is part of the redirect URL.
        let query = request.request_uri().and_then(rtsp_types::Url::query);
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("rtsp://{to}/{REDIRECTED}{name}{track}{query}");
        let found = Response::builder(Version::V1_0, StatusCode::Found);
        Some(found.header(LOCATION, url).build(Vec::new()))
    }

    /// Returns the title of the track that a request names: video unless it names audio.
    fn track(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<usize, RtspError> {
        // The second track of a player of recordings has the place of the first.
        let place = match request.header(&SESSION) {
            Some(_) => {
                let (first, _) = self.session(request, requester)?;
                let first = self.sessions.get(first).map(|session| session.title);
                first.and_then(|title| self.live.playbacks.video_of(title))
            }
            None => None,
        };
        let title = match place {
            Some(title) => title,
            None => self.title_of(request, requester)?,
        };
        if !is_audio_track(request) {
            return Ok(title);
        }
        let audio = self.library.titles[title].audio.filter(|audio| {
            self.library.titles[*audio].live.is_none_or(|live| self.live.is_available(live))
        });
        match audio {
            Some(audio) => Ok(audio),
            None => refuse(StatusCode::NotFound, "the stream has no audio"),
        }
    }

    /// Returns the title of the stream that a request names.
    fn title_of(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<usize, RtspError> {
        let name = name_of(request);
        let name = name.strip_prefix(REDIRECTED).unwrap_or(name);
        self.title(name, requester).or_else(|unavailable| match unavailable {
            Unavailable::Missing(why) => refuse(StatusCode::NotFound, why),
            Unavailable::Busy(why) => refuse(StatusCode::ServiceUnavailable, why),
        })
    }

    /// Returns the title of the stream with this name, or why it cannot be played.
    ///
    /// Reserves a place for a player of recordings, until the caller calls
    /// [`release_unused_places`](Self::release_unused_places). Holds the request if a command is to
    /// publish the stream first.
    pub(crate) fn title(&mut self, name: &str, requester: Requester) -> Result<usize, Unavailable> {
        if let Some(recording) = name.strip_prefix(RECORDINGS) {
            return self.live.reserve_recording(recording, self.sessions);
        }
        let mut titles = self.library.titles.iter();
        let found = titles.position(|title| title.path.is_none() && title.name == name);
        let live = match found {
            Some(title) => self.library.titles[title].live,
            None => self.path(name)?,
        };
        if let Some(live) = live {
            if self.live.on_demand.has(live) {
                self.demand(live, name, requester)?;
            } else if !self.live.is_available(live) {
                return Err(Unavailable::Missing(format!("no publisher for `{name}`")));
            }
        }
        let title = found.or_else(|| live.map(|live| self.live.streams[live].spec.title));
        title.ok_or_else(|| Unavailable::Missing(format!("unknown stream `{name}`")))
    }

    /// Returns the live stream of a path that has a place. A path that a command publishes on
    /// demand takes one.
    fn path(&mut self, name: &str) -> Result<Option<usize>, Unavailable> {
        let own = name.split_once('/').map_or(name, |(own, _)| own);
        if !self.live.has_paths(own) {
            return Ok(None);
        }
        let first = self.live.contract_of(name)?;
        if !self.live.on_demand.has(first) {
            return match self.live.index_of(name) {
                Some(live) => Ok(Some(live)),
                None => Err(Unavailable::Missing(format!("no publisher for `{name}`"))),
            };
        }
        if self.sessions.draining && self.live.index_of(name).is_none() {
            return Err(Unavailable::Busy(DRAINING.to_owned()));
        }
        self.live.claim(name, self.sessions).map(Some)
    }

    /// Requests a live stream that a command publishes on demand.
    fn demand(&mut self, live: usize, name: &str, requester: Requester) -> Result<(), Unavailable> {
        let Requester { peer, connection, .. } = requester;
        let published = self.live.streams[live].is_published();
        if !published && self.sessions.draining {
            return Err(Unavailable::Busy(DRAINING.to_owned()));
        }
        // The input of a held request waits with it, and with it the packets of a client that
        // publishes or plays on this connection.
        let is_busy = self.live.of_connection(connection).is_some()
            || !self.sessions.of_connection(connection).is_empty();
        if !published && is_busy {
            return Err(Unavailable::Missing(format!("no publisher for `{name}`")));
        }
        let client = (connection, peer);
        self.live.on_demand.request((live, name), client, published, self.now_ns)
    }

    /// Releases the places of recordings that the current request reserved without admitting a
    /// session.
    pub(crate) fn release_unused_places(&mut self) {
        self.live.playbacks.release_unused(self.sessions);
    }

    /// Returns the session that a request names, and its id.
    fn session(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<(usize, String), RtspError> {
        let Some(header) = request.header(&SESSION) else {
            return refuse(StatusCode::SessionNotFound, "the Session header is missing");
        };
        let id = header.as_str().split(';').next().unwrap_or_default().trim().to_owned();
        match self.sessions.find(&id, requester.peer) {
            Some(number) => {
                self.sessions.attach(number, requester.connection);
                Ok((number, id))
            }
            None => refuse(StatusCode::SessionNotFound, format!("unknown session `{id}`")),
        }
    }

    fn describe(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<Answer, RtspError> {
        let number = self.title_of(request, requester)?;
        self.describe_title(number, request)
    }

    fn describe_title(
        &self,
        number: usize,
        request: &Request<Vec<u8>>,
    ) -> Result<Answer, RtspError> {
        let title = &self.library.titles[number];
        let audio = title.audio.map(|audio| &self.library.titles[audio]);
        let audio =
            audio.filter(|audio| audio.live.is_none_or(|live| self.live.is_available(live)));
        let audio = audio.map(|audio| (audio, audio.live.map(|live| self.live.description(live))));
        let published = title.live.and_then(|live| self.live.streams[live].ingest.parameters());
        let accepted = request.header(&ACCEPT).map_or("*/*", |accept| accept.as_str());
        if !["application/sdp", "application/*", "*/*"].iter().any(|kind| accepted.contains(kind)) {
            return refuse(
                StatusCode::NotAcceptable,
                "descriptions are available as application/sdp only",
            );
        }
        let mut base = stream_url(request);
        if !base.ends_with('/') {
            base.push('/');
        }
        Ok(ok()
            .header(CONTENT_BASE, base)
            .header(CONTENT_TYPE, "application/sdp")
            .build(title.sdp(self.live.name_of(title), self.local.ip(), published, audio)))
    }

    fn set_up(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<Answer, RtspError> {
        let title = self.track(request, requester)?;
        let first = match request.header(&SESSION) {
            Some(_) => Some(self.first_track(request, requester, title)?),
            None => None,
        };
        let offered = match request.typed_header::<Transports>() {
            Ok(Some(offered)) => offered,
            Ok(None) => return refuse(StatusCode::BadRequest, "the Transport header is missing"),
            Err(_) => return refuse(StatusCode::BadRequest, "the Transport header is malformed"),
        };
        let transport = offered.iter().find_map(|offer| acceptable(offer, requester));
        let Some(transport) = transport else {
            let why = if requester.secured {
                "supported over TLS: RTP/AVP/TCP;interleaved=N-N, as datagrams are not encrypted"
            } else {
                "supported: RTP/AVP;unicast;client_port=N-N with ports from 1024 at your own \
                 address, or RTP/AVP/TCP;interleaved=N-N"
            };
            return refuse(StatusCode::UnsupportedTransport, why);
        };
        let peer = requester.peer;
        // The player has reconnected after a takeover: end the session that continued for it.
        let silent_since_takeover =
            |sessions: &Sessions| sessions.silent_since_takeover(peer, title, self.now_ns);
        let again = self.cluster.as_ref().and_then(|_| silent_since_takeover(self.sessions));
        if let Some(number) = again {
            self.sessions.request_state(number, RequestedState::Yield, self.waker);
        }
        let admitted =
            self.sessions.admit(self.library, title, first, transport, requester, self.now_ns);
        let number = match admitted {
            Ok(number) => number,
            Err(AdmissionError::Bandwidth(why, offer)) => return Ok(self.no_bandwidth(why, offer)),
            Err(AdmissionError::Draining) => {
                return refuse(StatusCode::ServiceUnavailable, DRAINING);
            }
            Err(AdmissionError::Full) => {
                return refuse(StatusCode::ServiceUnavailable, "the limit on sessions is reached");
            }
            Err(AdmissionError::Address(most)) => {
                let why = format!("your address has {most} sessions, the limit per address");
                return refuse(StatusCode::ServiceUnavailable, why);
            }
            Err(AdmissionError::NoRandom) => {
                return refuse(StatusCode::InternalServerError, "the system has no random numbers");
            }
        };
        let epoch = match first {
            Some(first) => self.sessions.region.session(first).get(SessionField::Epoch),
            // Epoch 1: the other servers need not look for the session that this one replaces.
            None => u64::from(again.is_some()),
        };
        self.sessions.region.session(number).set(SessionField::Epoch, epoch);
        if again.is_none()
            && let Some(cluster) = &mut self.cluster
        {
            cluster.record_start(peer, title, self.now_ns);
        }
        let ssrc = self.sessions.region.session(number).get(SessionField::Ssrc);
        let chosen = match transport {
            Transport::Udp(rtp, rtcp) => {
                let (from_rtp, from_rtcp) = self.server_ports;
                format!(
                    "RTP/AVP;unicast;client_port={rtp}-{rtcp};server_port={from_rtp}-{from_rtcp};\
                     ssrc={ssrc:08X}"
                )
            }
            Transport::Interleaved(rtp, rtcp) => {
                format!("RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp};ssrc={ssrc:08X}")
            }
            Transport::WebRtc(_) | Transport::Rtmp | Transport::MpegTs => String::new(),
        };
        let id = self.sessions.get(number).map(|session| session.id.clone()).unwrap_or_default();
        let timeout = self.idle_timeout_ns / 1_000_000_000;
        Ok(ok()
            .header(SESSION, format!("{id};timeout={timeout}"))
            .header(TRANSPORT, chosen)
            .build(Vec::new()))
    }

    /// Returns the session to which `title` can be added as the second track.
    fn first_track(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
        title: usize,
    ) -> Result<usize, RtspError> {
        let (first, _) = self.session(request, requester)?;
        let other = self.sessions.get(first).map(|session| session.title);
        let fits = other.is_some_and(|other| self.library.is_pair(other, title));
        if !fits || self.sessions.tracks(first).len() > 1 {
            let why = "a session has one track of video and one of audio, of the same stream";
            return refuse(StatusCode::AggregateOperationNotAllowed, why);
        }
        if self.sessions.region.session(first).requested_state() != RequestedState::Nothing {
            let why = "the session plays; set up both tracks before PLAY";
            return refuse(StatusCode::MethodNotValidInThisState, why);
        }
        Ok(first)
    }

    /// Returns the response to a client for which the link lacks bandwidth, with a looser window as
    /// an offer.
    fn no_bandwidth(&self, why: String, offer: Option<usize>) -> Answer {
        let answer = Response::builder(Version::V1_0, StatusCode::NotEnoughBandwidth)
            .header(CONTENT_TYPE, "text/plain");
        let Some(title) = offer.map(|offer| &self.library.titles[offer]) else {
            return answer.build((why + "\n").into_bytes());
        };
        let (lost, of) = title.window;
        let text = format!(
            "{why}\n/{} would be admitted: at most {lost} of {of} frames lost\n",
            title.name
        );
        let mut answer = answer.build(text.into_bytes());
        if let Ok(name) = HeaderName::from_static_str(OFFERED_WINDOW) {
            answer.insert_header(name, format!("{lost}/{of}"));
        }
        answer
    }

    fn play(
        &mut self,
        request: &Request<Vec<u8>>,
        requester: Requester,
    ) -> Result<Answer, RtspError> {
        let (number, id) = self.session(request, requester)?;
        let mut tracks = self.sessions.tracks(number);
        tracks.retain(|track| self.sessions.region.session(*track).state() != State::Ended);
        if tracks.is_empty() {
            let why = "the stream has ended; set up a new session";
            return refuse(StatusCode::MethodNotValidInThisState, why);
        }
        let uri = stream_url(request);
        let uri = uri.trim_end_matches('/').trim_end_matches("/video");
        let uri = uri.trim_end_matches(AUDIO_TRACK);
        let media = |track: usize| {
            let title = self.sessions.get(track).map_or(0, |session| session.title);
            (title, self.library.store.media()[title])
        };
        let next = |track: usize| self.sessions.region.session(track).get(SessionField::Next);
        let is_live = tracks.iter().any(|track| media(*track).1.live != 0);
        let starts = tracks.iter().map(|track| media(*track).1.release_ns(next(*track)));
        let start_ns = starts.min().unwrap_or(0);
        let info = |track: &usize| {
            let (title, media) = media(*track);
            let row = self.sessions.region.session(*track);
            let client = Client::new(*track, title, media, row);
            let time = if tracks.len() > 1 {
                client.rtp_time_at(row.get(SessionField::PhaseNs).wrapping_add(start_ns))
            } else {
                let first = Descriptor::numbered(next(*track));
                client.rtp_time(&first, &client.frame(&first, &self.library.store))
            };
            let sequence = row.get(SessionField::SequenceBase) + row.get(SessionField::Sequence);
            let sequence = low_u32(sequence) & 0xffff;
            let name = if client.is_audio() { "audio" } else { "video" };
            format!("url={uri}/{name};seq={sequence};rtptime={time}")
        };
        let answer = ok().header(SESSION, id);
        let answer = if is_live {
            // The first frame is not known yet.
            answer.header(RANGE, "npt=now-")
        } else {
            let info = tracks.iter().map(info).collect::<Vec<_>>().join(",");
            let start_ms = start_ns / 1_000_000;
            answer
                .header(RANGE, format!("npt={}.{:03}-", start_ms / 1_000, start_ms % 1_000))
                .header(RTP_INFO, info)
        };
        for track in tracks {
            self.sessions.request_state(track, RequestedState::Play, self.waker);
        }
        Ok(answer.build(Vec::new()))
    }
}

/// Returns a request's URL without the query, which may hold a token.
fn stream_url(request: &Request<Vec<u8>>) -> String {
    let plain = request.request_uri().cloned().map(|mut url| {
        url.set_query(None);
        url.to_string()
    });
    plain.unwrap_or_default()
}

/// Returns the stream's name in a request's URL.
fn name_of(request: &Request<Vec<u8>>) -> &str {
    let path = request.request_uri().map(|uri| uri.path()).unwrap_or_default();
    let name = path.trim_matches('/');
    without_track(name).unwrap_or(name)
}

/// Returns the name of the stream in the path of one of its tracks; `None` if the path names no
/// track.
fn without_track(path: &str) -> Option<&str> {
    let name = path.strip_suffix("/video").or_else(|| path.strip_suffix(AUDIO_TRACK))?;
    // `recordings/video` names the recordings of a stream called `video`.
    (name != RECORDINGS.trim_end_matches('/')).then_some(name)
}

/// Returns whether a request's URL names the audio of a stream.
fn is_audio_track(request: &Request<Vec<u8>>) -> bool {
    let path = request.request_uri().map(|uri| uri.path()).unwrap_or_default();
    let path = path.trim_matches('/');
    path.ends_with(AUDIO_TRACK) && without_track(path).is_some()
}

/// Returns an offered transport if the server supports it. Packets may go only to the client's own
/// address. A client connected over TLS gets no datagrams, as they would not be encrypted.
fn acceptable(offer: &Offered, requester: Requester) -> Option<Transport> {
    let Offered::Rtp(RtpTransport { profile: RtpProfile::Avp, lower_transport, params }) = offer
    else {
        return None;
    };
    let other_destination =
        params.destination.as_ref().is_some_and(|to| to.parse() != Ok(requester.peer));
    if params.multicast || other_destination || !params.dest_addr.is_empty() {
        return None;
    }
    match lower_transport {
        Some(RtpLowerTransport::Tcp) => {
            let (rtp, rtcp) = params.interleaved.unwrap_or((0, Some(1)));
            Some(Transport::Interleaved(rtp, rtcp.unwrap_or(rtp.checked_add(1)?)))
        }
        None | Some(RtpLowerTransport::Udp) if !requester.secured => {
            let (rtp, rtcp) = params.client_port?;
            let rtcp = rtcp.unwrap_or(rtp.checked_add(1)?);
            (rtp >= LOWEST_PORT && rtcp >= LOWEST_PORT).then_some(Transport::Udp(rtp, rtcp))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{requests, with_server};
    use rtsp_types::Url;

    fn status(input: &str) -> String {
        let answers = String::from_utf8(requests(input.as_bytes())).unwrap();
        answers.lines().filter(|line| line.starts_with("RTSP/1.0")).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn requests_get_the_expected_status() {
        let udp = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
        for (request, expected) in [
            ("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "200"),
            ("\r\n\r\nOPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "200"),
            ("OPTIONS * RTSP/1.0\r\n\r\n".to_owned(), "400"),
            ("OPTIONS * RTSP/2.0\r\nCSeq: 1\r\n\r\n".to_owned(), "505"),
            ("DESCRIBE rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "200"),
            ("DESCRIBE rtsp://h/flm RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "404"),
            (format!("SETUP rtsp://h/film/video RTSP/1.0\r\nCSeq: 1\r\n{udp}\r\n"), "200"),
            ("SETUP rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "400"),
            ("PLAY rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\nSession: 7\r\n\r\n".to_owned(), "454"),
            ("PLAY rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "454"),
            ("RECORD rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "454"),
            ("ANNOUNCE rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "404"),
            ("ANNOUNCE rtsp://h/live RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "415"),
            ("DESCRIBE rtsp://h/live RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "404"),
            ("DESCRIBE rtsp://h/cam/a RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "404"),
            ("ANNOUNCE rtsp://h/cam/a RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "415"),
            ("ANNOUNCE rtsp://h/cam RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "404"),
            ("REDIRECT rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(), "501"),
            ("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nRequire: x\r\n\r\n".to_owned(), "551"),
            ("OPTIONS * RTSP/1.0\r\nCSeq: 1, Session: 2\r\n\r\n".to_owned(), "400"),
            ("OPTIONS * RTSP/1.0\r\n\r\n".to_owned(), "400"),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
            (format!("OPTIONS * RTSP/1.0\r\nX: {}", "x".repeat(9000)), "413"),
            ("OPTIONS * RTSP/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n".into(), "400"),
            ("OPTIONS * RTSP/1.0\r\nCSeq: 1".to_owned(), ""),
        ] {
            let status = status(&request);
            let expected =
                if expected.is_empty() { String::new() } else { format!("RTSP/1.0 {expected}") };
            assert!(status.starts_with(&expected), "{request:?}: {status:?}");
        }
    }

    #[test]
    fn the_last_part_of_a_path_names_a_track_unless_it_names_recordings() {
        for (path, name, is_audio) in [
            ("film", "film", false),
            ("film/video", "film", false),
            ("film/audio/", "film", true),
            ("video", "video", false),
            ("audio/audio", "audio", true),
            ("recordings/video", "recordings/video", false),
            ("recordings/audio", "recordings/audio", false),
            ("recordings/audio/audio", "recordings/audio", true),
            ("recordings/cam/video", "recordings/cam", false),
        ] {
            let url = Url::parse(&format!("rtsp://h/{path}")).unwrap();
            let request = Request::builder(Method::Describe, Version::V1_0).request_uri(url);
            let request = request.build(Vec::new());
            assert_eq!((name_of(&request), is_audio_track(&request)), (name, is_audio), "{path}");
        }
    }

    #[test]
    fn held_requests_are_answered_in_order() {
        let describe = |name: &str, number: u32| {
            format!("DESCRIBE rtsp://h/{name} RTSP/1.0\r\nCSeq: {number}\r\n\r\n")
        };
        let said = [describe("cam/a", 1), describe("film", 2), describe("cam/b", 3)].concat();
        let answers = String::from_utf8(requests(said.as_bytes())).unwrap();
        assert_eq!(answers.matches("did not publish it within 10 s").count(), 2, "{answers}");
        let numbers = answers.lines().filter_map(|line| line.strip_prefix("CSeq: "));
        assert_eq!(numbers.collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(answers.matches("RTSP/1.0 200").count(), 1);
    }

    #[test]
    fn oversized_requests_are_rejected_even_in_one_read() {
        for (bytes, expected) in [(8 << 10, "RTSP/1.0 200"), ((8 << 10) + 1, "RTSP/1.0 413")] {
            let head = "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nX: ";
            let filling = "x".repeat(bytes - head.len() - 4);
            let status = status(&format!("{head}{filling}\r\n\r\n"));
            assert!(status.starts_with(expected), "{bytes}: {status}");
        }
        let body = "x".repeat(9_000);
        let long =
            format!("SET_PARAMETER * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 9000\r\n\r\n{body}");
        assert!(status(&long).starts_with("RTSP/1.0 413"));
    }

    #[test]
    fn packets_go_only_to_the_client() {
        for transport in [
            "RTP/AVP;multicast;client_port=5000-5001",
            "RTP/AVP;unicast;destination=10.9.9.9;client_port=5000-5001",
            "RTP/AVP;unicast;destination=victim.example;client_port=5000-5001",
            "RTP/AVP;unicast;dest_addr=\"10.9.9.9:5000\"/\"10.9.9.9:5001\";client_port=5000-5001",
            "RTP/AVP;unicast;client_port=53-54",
            "RTP/AVP;unicast;client_port=65535",
            "RTP/SAVP;unicast;client_port=5000-5001",
            "RTP/AVP;unicast",
        ] {
            let head = "SETUP rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\nTransport: ";
            let status = status(&format!("{head}{transport}\r\n\r\n"));
            assert!(status.starts_with("RTSP/1.0 461"), "{transport}: {status}");
        }
    }

    /// Returns the answers to these requests of one client, each `LINE|TRANSPORT`. From the first
    /// answer with a session on, they name it.
    fn answers(requests: &[&str]) -> Vec<String> {
        let client = std::net::IpAddr::from([10, 0, 0, 1]);
        let mut id = None;
        with_server(|talk| {
            let mut answer = |request: &&str| {
                let (line, transport) = request.split_once('|').unwrap_or((request, ""));
                let session = id.iter().map(|id| format!("Session: {id}\r\n")).collect::<String>();
                let request = format!("{line} RTSP/1.0\r\nCSeq: 1\r\n{session}{transport}\r\n");
                let answer = String::from_utf8(talk(client, request.as_bytes())).unwrap();
                let session = answer.split("Session: ").nth(1);
                let named = session.map(|rest| rest.split([';', '\r']).next().unwrap().to_owned());
                id = id.clone().or(named);
                answer
            };
            requests.iter().map(&mut answer).collect()
        })
    }

    #[test]
    fn a_session_has_a_track_of_video_and_one_of_audio() {
        let video =
            "SETUP rtsp://h/tone/video|Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
        let audio = "SETUP rtsp://h/tone/audio|Transport: RTP/AVP/TCP;unicast;interleaved=2-3\r\n";
        let film = "SETUP rtsp://h/film/video|Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
        let mute = "SETUP rtsp://h/film/audio|Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
        let [play, describe] = ["PLAY rtsp://h/tone", "DESCRIBE rtsp://h/tone"];
        let all = answers(&[describe, video, audio, play, audio, "TEARDOWN rtsp://h/tone", play]);
        for media in [
            "m=video 0 RTP/AVP 32\r\n",
            "a=control:video\r\n",
            "m=audio 0 RTP/AVP 97\r\n",
            "a=rtpmap:97 MPEG4-GENERIC/16000/1\r\n",
            // AAC-LC, 16 kHz, mono.
            "mode=AAC-hbr;config=1408;sizelength=13;indexlength=3;indexdeltalength=3\r\n",
            "a=control:audio\r\n",
        ] {
            assert!(all[0].contains(media), "{media}: {}", all[0]);
        }
        let status = |answer: &String| answer[9..12].to_owned();
        let statuses: Vec<String> = all.iter().map(status).collect();
        assert_eq!(statuses, ["200", "200", "200", "200", "459", "200", "454"]);
        for info in ["url=rtsp://h/tone/video;seq=", ",url=rtsp://h/tone/audio;seq=", "npt=0.000-"]
        {
            assert!(all[3].contains(info), "{info}: {}", all[3]);
        }
        // The tracks in the other order; audio alone; tracks of two streams; the same track twice.
        for (requests, expected) in [
            (&[audio, video, play][..], &["200", "200", "200"][..]),
            (&[audio, play, video], &["200", "200", "455"]),
            (&[audio, film], &["200", "459"]),
            (&[film, audio, film, mute], &["200", "459", "459", "404"]),
            (&[video, video], &["200", "459"]),
        ] {
            let statuses: Vec<String> = answers(requests).iter().map(status).collect();
            assert_eq!(statuses, expected, "{requests:?}");
        }
    }

    #[test]
    fn a_session_belongs_to_its_client_address() {
        with_server(|talk| {
            let [owner, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(std::net::IpAddr::from);
            let set_up = b"SETUP rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\
                           Transport: RTP/AVP;unicast;client_port=5000-5001\r\n\r\n";
            let answer = String::from_utf8(talk(owner, set_up)).unwrap();
            let id = answer.split("Session: ").nth(1).unwrap().split(';').next().unwrap();
            for method in ["PLAY", "PAUSE", "GET_PARAMETER", "TEARDOWN"] {
                let request =
                    format!("{method} rtsp://h/film RTSP/1.0\r\nCSeq: 2\r\nSession: {id}\r\n\r\n");
                let mut status = |peer| talk(peer, request.as_bytes())[..12].to_vec();
                assert_eq!(status(other), b"RTSP/1.0 454", "{method}");
                assert_eq!(status(owner), b"RTSP/1.0 200", "{method}");
            }
        });
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            words in proptest::collection::vec(proptest::sample::select(vec![
                "SETUP ", "PLAY ", "OPTIONS ", "rtsp://h/film", " RTSP/1.0\r\n", "CSeq: 1\r\n", "\r\n",
                "Transport: ", "RTP/AVP", ";client_port=", "99999", "-", "5000", "$", "\0\u{1}",
                "Content-Length: 9\r\n", "Session: ", ";interleaved=", "255",
            ]), 0..30),
        ) {
            let _ = requests(words.concat().as_bytes());
        }
    }
}
