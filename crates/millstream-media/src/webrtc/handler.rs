//! Requests of browsers: WHEP, WHIP, and the pages that use them.
//!
//! | request | does |
//! |---|---|
//! | POST /whep/NAME | answers an offer to play a stream; 201 with `Location` |
//! | POST /whip/NAME | answers an offer to publish a live stream; 201 with `Location` |
//! | OPTIONS /session/ID | says whether a session to play exists, and where it could go on |
//! | DELETE /session/ID | ends either |
//! | GET /watch/NAME, /publish/NAME | a page that plays or publishes |
//!
//! A request authenticates like one of RTSP, or with `Authorization: Bearer TOKEN`. The server has
//! all its candidates in its answer and learns those of the client from its packets: PATCH is
//! refused.

use std::net::IpAddr;

use super::peers::Peers;
use super::{Client, Identity, Media, OfferError, Role, offer};
use crate::http::gate::{self, Allowed};
use crate::http::{self, HttpRequest, HttpResponse, Parsed};
use crate::live::Unavailable;
use crate::live::publishing::{AudioDescription, Track};
use crate::payload::Format;
use crate::rtp::CLOCK_RATE;
use crate::rtsp::access::AuthState;
use crate::rtsp::session::{AdmissionError, Transport, random_word};
use crate::rtsp::{DRAINING, OFFERED_WINDOW, REDIRECTED, Requester, RtspHandler};
use crate::wake_socket::AsWakeSocket;

/// The paths to which pages of other members of the cluster may send requests.
const OPEN_TO_MEMBERS: [&str; 2] = ["/whep/", "/session/"];

/// The pages for browsers; a page takes the stream's name from its own address.
const WATCH: &str = concat!(include_str!("page.html"), include_str!("watch.html"));
const PUBLISH: &str = concat!(include_str!("page.html"), include_str!("publish.html"));

/// The response header that tells the page whether the server of its session still runs.
const INSTANCE: &str = "X-Server-Instance";

/// The state from which requests of browsers are answered.
pub(crate) struct WebRtcHandler<'a, 'b, B> {
    /// The state that RTSP and WebRTC share.
    pub(crate) shared: &'a mut RtspHandler<'b, B>,
    pub(crate) peers: &'a mut Peers,
    /// The server's address of the connection.
    pub(crate) local: IpAddr,
    /// Whether the client keeps the connection open.
    pub(crate) open: bool,
}

impl<B: AsWakeSocket> WebRtcHandler<'_, '_, B> {
    /// Consumes complete requests from `input` and appends responses to `output`, at most `room`
    /// bytes. Returns whether the connection continues.
    pub(crate) fn process_input(
        &mut self,
        input: &mut Vec<u8>,
        output: &mut Vec<u8>,
        pass: &mut AuthState,
        room: usize,
        requester: Requester,
    ) -> bool {
        let before = output.len();
        loop {
            match http::parse(input, self.shared.request_bytes) {
                Parsed::Incomplete => return true,
                Parsed::Refused(response) => {
                    response.write(output, true, false);
                    return false;
                }
                Parsed::Request(request, length) => {
                    let response = self.answer(&request, pass, requester);
                    let response = response.header(INSTANCE, self.peers.instance());
                    // A proxy may send requests of several clients on one connection.
                    pass.forget_token();
                    // The request stays in the input and is answered when its stream is published.
                    if self.shared.live.is_held(requester.connection) {
                        return true;
                    }
                    self.shared.live.answered(requester.connection);
                    input.drain(..length);
                    let closes = request.closes || pass.is_exhausted();
                    response.write(output, closes, request.method == "HEAD");
                    if closes || output.len() - before > room {
                        return false;
                    }
                }
            }
        }
    }

    fn answer(
        &mut self,
        request: &HttpRequest,
        pass: &mut AuthState,
        requester: Requester,
    ) -> HttpResponse {
        let open = &OPEN_TO_MEMBERS;
        let allowed = gate::check(self.shared, self.local, request, pass, requester, open);
        let Allowed { url, member } = match allowed {
            Ok(allowed) => allowed,
            Err(refused) => return refused,
        };
        let path = url.path().to_owned();
        let (kind, name) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
        let response = match (request.method.as_str(), kind) {
            ("GET" | "HEAD", "watch") => {
                let others = self.shared.cluster.iter().flat_map(|of| of.other_origins());
                let page = http::page(WATCH, &policy(others));
                self.with_alternates(page, kind, name, requester)
            }
            ("GET" | "HEAD", "publish") => http::page(PUBLISH, &policy([])),
            ("OPTIONS", "whep" | "whip") => {
                HttpResponse::new(204).header("Accept-Post", "application/sdp")
            }
            ("POST", "whep") => match self.redirect(request, &url, name) {
                Some(redirect) => redirect,
                None => {
                    let response = self.play(request, name, requester);
                    self.shared.release_unused_places();
                    self.with_alternates(response, kind, name, requester)
                }
            },
            ("POST", "whip") => self.publish(request, name, pass.name(), requester),
            ("OPTIONS", "session") => self.describe(name, requester),
            ("DELETE", "session") => self.delete(name, requester),
            (_, "watch" | "publish") => allow("GET, HEAD"),
            (_, "whep" | "whip") => allow("POST, OPTIONS"),
            (_, "session") => allow("DELETE, OPTIONS"),
            _ => HttpResponse::text(404, "paths: /watch/NAME /publish/NAME /whep/NAME /whip/NAME"),
        };
        gate::permit(response, member.as_deref())
    }

    /// Returns why a new client is refused before its offer is read.
    fn reject(&mut self, request: &HttpRequest, requester: Requester) -> Option<HttpResponse> {
        if !is_sdp(request) {
            return Some(HttpResponse::text(415, "the offer must be application/sdp"));
        }
        // A client that no longer waits would keep a reservation until its peer times out. Later
        // aborts cannot be told from answers that were read: the kernel acknowledges both, and a
        // client of TLS that ignores the server's `close_notify` resets its connection, too.
        if !self.open {
            self.peers.count_refused_offer();
            return Some(HttpResponse::text(400, "the connection was closed before the answer"));
        }
        if self.shared.sessions.draining {
            self.shared.sessions.turned_away += 1;
            return Some(unavailable(DRAINING));
        }
        let why = self.peers.reject(requester.peer)?;
        self.shared.sessions.rejects.record(
            crate::pages::rejects::Reason::HalfOpen,
            requester.peer,
            self.shared.now_ns,
        );
        Some(unavailable(why).header("Retry-After", "1"))
    }

    /// Answers an offer, or says why not.
    fn negotiate(
        &mut self,
        request: &HttpRequest,
        media: &Media,
    ) -> Result<super::peers::Negotiated, HttpResponse> {
        let answered = offer::check(&request.body, media).and_then(|names| {
            let text = String::from_utf8_lossy(&request.body);
            self.peers.negotiate(&text, &names, self.local, media)
        });
        answered.map_err(|error| {
            self.peers.count_refused_offer();
            match error {
                OfferError::Malformed(why) => HttpResponse::text(400, why),
                OfferError::Unacceptable(why) => HttpResponse::text(406, why),
            }
        })
    }

    /// Returns what a viewer of a title may get, and the title of its audio; `None` if browsers do
    /// not play the video.
    pub(super) fn playable(&self, title: usize) -> Option<(Media, Option<usize>)> {
        let library = self.shared.library;
        let own = &library.titles[title];
        if !is_visible(own.format()) {
            return None;
        }
        let published =
            own.live.and_then(|live| self.shared.live.streams[live].ingest.parameters());
        let parameters = published.as_ref().or(own.parameters());
        let profile = parameters.and_then(|parameters| parameters.h264_profile);
        let audio = own.audio.map(|audio| (audio, &library.titles[audio]));
        let audio = audio.filter(|(_, title)| {
            let available = |live| self.shared.live.is_available(live);
            is_audible(title.format()) && title.live.is_none_or(available)
        });
        let media = Media {
            role: Role::Viewer,
            video: own.format(),
            profile,
            audio: audio.map(|(_, title)| title.format()),
            rate_bps: own.mean_bps + audio.map_or(0, |(_, title)| title.mean_bps),
        };
        Some((media, audio.map(|(audio, _)| audio)))
    }

    fn play(&mut self, request: &HttpRequest, name: &str, requester: Requester) -> HttpResponse {
        let library = self.shared.library;
        let name = name.strip_prefix(REDIRECTED).unwrap_or(name);
        if let Some(refused) = self.reject(request, requester) {
            return refused;
        }
        let title = match self.shared.title(name, requester) {
            Ok(title) => title,
            Err(Unavailable::Missing(why)) => return HttpResponse::text(404, why),
            Err(Unavailable::Busy(why)) => return unavailable(&why),
        };
        let Some((media, audio)) = self.playable(title) else {
            let why = "browsers play no MPEG-1/2 video and no transport streams; serve a file or a \
                       publisher with H.264, H.265, AV1, VP8 or VP9, without `payload`";
            return HttpResponse::text(406, why);
        };
        let negotiated = match self.negotiate(request, &media) {
            Ok(negotiated) => negotiated,
            Err(refused) => return refused,
        };
        let Some(place) = self.peers.next_place() else {
            return unavailable("the limit on sessions is reached");
        };
        let audio = audio.filter(|_| negotiated.has_audio());
        let now_ns = self.shared.now_ns;
        let transport = Transport::WebRtc(place);
        let sessions = &mut self.shared.sessions;
        let mut admit =
            |title, first| sessions.admit(library, title, first, transport, requester, now_ns);
        let video = match admit(title, None) {
            Ok(video) => video,
            Err(error) => return self.refuse(error),
        };
        let second = audio.map(|audio| admit(audio, Some(video))).transpose();
        let second = match second {
            Ok(second) => second,
            Err(error) => {
                self.shared.stop(video);
                return self.refuse(error);
            }
        };
        let id = self.shared.sessions.get(video).map(|session| session.id.clone());
        let id = id.unwrap_or_default();
        let client = Client::Viewer(video, second);
        self.create(negotiated, Identity { client, id, address: requester.peer })
    }

    fn publish(
        &mut self,
        request: &HttpRequest,
        name: &str,
        who: Option<&str>,
        requester: Requester,
    ) -> HttpResponse {
        let stream = match self.shared.publisher().may_publish(name, who, requester) {
            Ok(stream) => stream,
            Err(refused) => {
                let (status, why) = refused.parts();
                // HTTP has no 455, "method not valid in this state".
                return HttpResponse::text(if status == 455 { 409 } else { status }, why);
            }
        };
        let video = Format::of(self.shared.live.streams[stream].spec.codec);
        if !is_visible(video) {
            let why = "browsers publish no MPEG-1/2 video: set `codec` to \"h264\", \"h265\", \
                       \"av1\", \"vp8\" or \"vp9\"";
            return HttpResponse::text(406, why);
        }
        if let Some(refused) = self.reject(request, requester) {
            return refused;
        }
        let audio = self.shared.live.audio_of(stream);
        let format = audio.and_then(|audio| self.shared.live.streams[audio].spec.audio);
        let format = format.map(|(format, _)| format).filter(|format| is_audible(*format));
        let rate_bps = self.shared.live.streams[stream].spec.allowance.rate_bps;
        let media = Media { role: Role::Publisher, video, profile: None, audio: format, rate_bps };
        let negotiated = match self.negotiate(request, &media) {
            Ok(negotiated) => negotiated,
            Err(refused) => return refused,
        };
        let Some(place) = self.peers.next_place() else {
            return unavailable("the limit on sessions is reached");
        };
        let Some(id) = random_word() else {
            return unavailable("the kernel gives no random numbers");
        };
        let id = format!("{id:016x}");
        let audio = audio.zip(format).filter(|_| negotiated.has_audio());
        let tracks = [(stream, video_track())].into_iter();
        let tracks = tracks.chain(audio.map(|(audio, format)| (audio, audio_track(format))));
        for (stream, track) in tracks {
            let from = (place, requester.peer);
            self.shared.live.announce_webrtc(stream, from, (&id, track), self.shared.now_ns);
        }
        let client = Client::Publisher(stream);
        self.create(negotiated, Identity { client, id, address: requester.peer })
    }

    /// Adds a peer and returns the response with the answer.
    fn create(&mut self, negotiated: super::peers::Negotiated, identity: Identity) -> HttpResponse {
        let answer = negotiated.answer().as_bytes().to_vec();
        let location = format!("/session/{}", identity.id);
        self.peers.add(negotiated, identity, self.shared.now_ns);
        HttpResponse::new(201)
            .header("Location", location)
            .header("Cache-Control", "no-store")
            .with_body("application/sdp", answer)
    }

    /// Returns the response to a client that is not admitted.
    fn refuse(&self, error: AdmissionError) -> HttpResponse {
        match error {
            AdmissionError::Bandwidth(why, offer) => {
                let Some(title) = offer.map(|offer| &self.shared.library.titles[offer]) else {
                    return unavailable(&why);
                };
                let (lost, of) = title.window;
                let name = &title.name;
                let text = format!(
                    "{why}\n/whep/{name} would be admitted: at most {lost} of {of} frames lost"
                );
                unavailable(&text).header(OFFERED_WINDOW, format!("{lost}/{of}"))
            }
            AdmissionError::Draining => unavailable("the server is draining"),
            AdmissionError::Full => unavailable("the limit on sessions is reached"),
            AdmissionError::Address(most) => {
                unavailable(&format!("your address has {most} sessions, the limit per address"))
            }
            AdmissionError::NoRandom => unavailable("the system has no random numbers"),
        }
    }

    fn delete(&mut self, id: &str, requester: Requester) -> HttpResponse {
        let session = self.shared.sessions.find_webrtc(id, requester.peer);
        let publisher = self.shared.live.webrtc_publication(id, requester.peer);
        if let Some(session) = session {
            self.shared.stop(session);
        } else if let Some(stream) = publisher {
            self.shared.live.leave(stream, self.shared.now_ns);
        } else {
            return HttpResponse::text(404, "unknown session");
        }
        HttpResponse::new(200)
    }
}

/// Returns what a page may load: its own script and style, and requests to this server and to those
/// of these origins.
fn policy<'a>(origins: impl IntoIterator<Item = &'a str>) -> String {
    let origins: String = origins.into_iter().map(|origin| format!(" {origin}")).collect();
    format!(
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
         connect-src 'self'{origins}; media-src blob: mediastream:; frame-ancestors 'self'"
    )
}

/// Returns whether the body of a request is an SDP description.
pub(super) fn is_sdp(request: &HttpRequest) -> bool {
    request.content_type.split(';').next().map(str::trim) == Some("application/sdp")
}

/// Returns whether WebRTC has this format of video.
fn is_visible(format: Format) -> bool {
    use Format::{Av1, H264, H265, Vp8, Vp9};
    matches!(format, H264 | H265 | Av1 | Vp8 | Vp9)
}

/// Returns whether browsers play and publish this format of audio.
fn is_audible(format: Format) -> bool {
    matches!(format, Format::Opus | Format::Pcmu | Format::Pcma)
}

fn video_track() -> Track {
    let clock_rate = u32::try_from(CLOCK_RATE).unwrap_or(u32::MAX);
    Track { payload_type: super::VIDEO, clock_rate, ..Track::default() }
}

fn audio_track(format: Format) -> Track {
    let (clock_rate, clock, parameters) = match format {
        Format::Opus => (48_000, "48000/2", Some("sprop-stereo=1")),
        _ => (8_000, "8000", None),
    };
    let description =
        AudioDescription { clock: clock.to_owned(), parameters: parameters.map(str::to_owned) };
    Track { payload_type: super::AUDIO, clock_rate, description, ..Track::default() }
}

fn allow(methods: &str) -> HttpResponse {
    HttpResponse::text(405, format!("supported: {methods}")).header("Allow", methods)
}

fn unavailable(why: &str) -> HttpResponse {
    HttpResponse::text(503, why)
}
