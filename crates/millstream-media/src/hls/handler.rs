//! Requests of HLS players.
//!
//! | request | does |
//! |---|---|
//! | GET /NAME/ | a page that plays a live stream, in browsers that play HLS |
//! | GET /NAME/index.m3u8 | the playlist of a live stream |
//! | GET /NAME/FILE.mp4 | a file that the playlist names |
//!
//! A request for a playlist may name a segment and a part (`_HLS_msn`, `_HLS_part`): it waits until
//! the playlist has them (RFC 8216bis, section 6.2.5.2). So does a request for the part that the
//! playlist announces. A request authenticates like one of WHEP. A token in the URL of a playlist
//! is also in those of its files.

use rtsp_types::Url;
use std::net::IpAddr;
use std::sync::Arc;

use super::Hls;
use super::presentation::{Presentation, Wanted};
use crate::http::{self, HttpRequest, HttpResponse, Parsed, gate};
use crate::live::Unavailable;
use crate::rtsp::access::AuthState;
use crate::rtsp::{RECORDINGS, Requester, RtspHandler};
use crate::wake_socket::AsWakeSocket;

/// The name of the playlist of each stream.
const PLAYLIST: &str = "index.m3u8";

/// The page, which takes the stream's name from its own address, and what it may load.
const PAGE: &str = include_str!("page.html");
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; media-src 'self' blob:; frame-ancestors 'self'";

/// The media types of playlists and of files.
const PLAYLIST_TYPE: &str = "application/vnd.apple.mpegurl";
const FILE_TYPE: &str = "video/mp4";

/// A response: its header and the pieces of its body.
type Pieces = Vec<Arc<[u8]>>;

/// The state from which requests of HLS players are answered.
pub(crate) struct HlsHandler<'a, 'b, B> {
    /// The state that RTSP and HLS share.
    pub(crate) shared: &'a mut RtspHandler<'b, B>,
    /// The server's address of the connection.
    pub(crate) local: IpAddr,
}

/// The answer to a request.
enum Answer {
    Response(HttpResponse),
    /// A file in pieces, which the responses to several players share.
    File(Pieces),
    /// The request is held.
    Held,
}

impl<B: AsWakeSocket> HlsHandler<'_, '_, B> {
    /// Consumes the first complete request from `input`. Returns the response in pieces, and
    /// whether the connection continues. Call it again once the response is written: the output of
    /// a connection is bounded by one response.
    pub(crate) fn process_request(
        &mut self,
        input: &mut Vec<u8>,
        pass: &mut AuthState,
        requester: Requester,
    ) -> (Pieces, bool) {
        let (request, length) = match http::parse(input, self.shared.request_bytes) {
            Parsed::Incomplete => return (Vec::new(), true),
            Parsed::Refused(response) => return (vec![header(&response, true, false)], false),
            Parsed::Request(request, length) => (request, length),
        };
        let answer = self.answer(&request, pass, requester);
        // A proxy may send requests of several clients on one connection.
        pass.forget_token();
        let is_head = request.method == "HEAD";
        let closes = request.closes || pass.is_exhausted();
        let pieces = match answer {
            // The request stays in the input until it can be answered.
            Answer::Held => return (Vec::new(), true),
            Answer::Response(response) => vec![header(&response, closes, is_head)],
            Answer::File(file) => {
                let mut pieces = vec![file_header(&file, closes)];
                pieces.extend(file.into_iter().filter(|_| !is_head));
                pieces
            }
        };
        self.shared.live.answered(requester.connection);
        input.drain(..length);
        (pieces, !closes)
    }

    fn answer(
        &mut self,
        request: &HttpRequest,
        pass: &mut AuthState,
        requester: Requester,
    ) -> Answer {
        let url = match gate::check(self.shared, self.local, request, pass, requester, &[]) {
            Ok(allowed) => allowed.url,
            Err(refused) => return Answer::Response(refused),
        };
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            let response = HttpResponse::text(405, "supported: GET, HEAD");
            return Answer::Response(response.header("Allow", "GET, HEAD"));
        }
        let path = url.path().trim_start_matches('/');
        match path.rsplit_once('/') {
            Some((_, "")) => Answer::Response(http::page(PAGE, POLICY)),
            Some((name, PLAYLIST)) => self.playlist(name, &url, requester),
            Some((name, file)) => self.file(name, file, requester),
            None => refuse(404, "paths: /NAME/ /NAME/index.m3u8"),
        }
    }

    fn playlist(&mut self, name: &str, url: &Url, requester: Requester) -> Answer {
        let now_ns = self.shared.now_ns;
        let wanted = match wanted(url) {
            Ok(wanted) => wanted,
            Err(why) => return refuse(400, why),
        };
        let found = match self.presentation(name, requester) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        let hls = &mut self.shared.live.hls;
        let Some(presentation) = hls.presentations.get_mut(found) else {
            return refuse(404, "no such stream");
        };
        presentation.watch(now_ns);
        if presentation.is_too_far(wanted) {
            return refuse(400, "`_HLS_msn` and `_HLS_part` are too far ahead of the playlist");
        }
        if !presentation.is_ready(wanted) {
            return hold(hls, (found, wanted), requester, now_ns);
        }
        match presentation.playlist(&token_query(url)) {
            Some(text) => Answer::Response(
                HttpResponse::new(200)
                    .header("Cache-Control", "no-cache")
                    .with_body(PLAYLIST_TYPE, text),
            ),
            None => refuse(404, "the publication has ended without a picture"),
        }
    }

    /// Returns the index of the presentation of the stream called `name`, which is published or has
    /// just ended.
    fn presentation(&mut self, name: &str, requester: Requester) -> Result<usize, Answer> {
        if name.starts_with(RECORDINGS) {
            return Err(refuse(404, "recordings are played by RTSP and WHEP"));
        }
        let title = self.shared.title(name, requester);
        // `title` holds the request until a command publishes the stream.
        if self.shared.live.is_held(requester.connection) {
            return Err(Answer::Held);
        }
        let live = &self.shared.live;
        let title = match title {
            Ok(title) => &self.shared.library.titles[title],
            Err(Unavailable::Busy(why)) => return Err(refuse(503, &why)),
            Err(Unavailable::Missing(why)) => {
                // Players of a publication that has ended learn it from the playlist.
                let of = |found: &usize| live.hls.presentations.get(*found);
                let ended = |found: &usize| of(found).is_some_and(Presentation::is_ended);
                let found = live.index_of(name).and_then(|stream| live.hls.of_live(stream));
                return found.filter(ended).ok_or_else(|| refuse(404, &why));
            }
        };
        let found = title.live.and_then(|stream| live.hls.of_live(stream));
        found.ok_or_else(|| refuse(406, "HLS plays live streams of H.264 only"))
    }

    fn file(&mut self, name: &str, file: &str, requester: Requester) -> Answer {
        let now_ns = self.shared.now_ns;
        let live = &mut *self.shared.live;
        let found = live.index_of(name).and_then(|stream| live.hls.of_live(stream));
        let Some(found) = found else { return refuse(404, "unknown file") };
        let hls = &mut live.hls;
        let Some(presentation) = hls.presentations.get_mut(found) else {
            return refuse(404, "unknown file");
        };
        if let Some(content) = presentation.file(file) {
            return Answer::File(content);
        }
        match presentation.part_number(file) {
            Some(number) if presentation.is_next_part(number) => {
                hold(hls, (found, Wanted::Part(number)), requester, now_ns)
            }
            _ => refuse(404, "unknown file, or one that the playlist lists no longer"),
        }
    }
}

/// Holds a request, or refuses it if its time is over.
fn hold(
    hls: &mut Hls,
    (found, wanted): (usize, Wanted),
    requester: Requester,
    now_ns: u64,
) -> Answer {
    if hls.held.has(requester.connection) {
        let response = HttpResponse::text(503, "the publisher sends no pictures");
        return Answer::Response(response.header("Retry-After", "1"));
    }
    let wait_ns = hls.presentations.get(found).map_or(0, Presentation::wait_ns);
    let until_ns = now_ns.saturating_add(wait_ns);
    hls.held.hold(requester.connection, (found, wanted), until_ns);
    Answer::Held
}

/// Returns what a request for a playlist waits for.
fn wanted(url: &Url) -> Result<Wanted, &'static str> {
    let number = |name: &str| {
        let mut pairs = url.query_pairs();
        let value = pairs.find(|(of, _)| of == name).map(|(_, value)| value.parse::<u64>());
        value.transpose().map_err(|_| "`_HLS_msn` and `_HLS_part` are whole numbers")
    };
    match (number("_HLS_msn")?, number("_HLS_part")?) {
        (None, None) => Ok(Wanted::First),
        (Some(sequence), part) => Ok(Wanted::Playlist { sequence, part }),
        (None, Some(_)) => Err("`_HLS_part` needs `_HLS_msn`"),
    }
}

/// Returns the query of the URLs of files: the token of a request for a playlist, if it has one.
fn token_query(url: &Url) -> String {
    let mut pairs = url.query_pairs();
    let token = pairs.find(|(name, _)| name == "token").map(|(_, token)| token);
    token.map_or_else(String::new, |token| {
        let mut query = form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
        query.append_pair("token", &token);
        query.finish()
    })
}

fn refuse(status: u16, why: &str) -> Answer {
    Answer::Response(HttpResponse::text(status, why))
}

fn header(response: &HttpResponse, closes: bool, is_head: bool) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    response.write(&mut bytes, closes, is_head);
    bytes.into()
}

/// Returns the header of the response with a file. Its name is of one publication only, so caches
/// may keep it.
fn file_header(file: &Pieces, closes: bool) -> Arc<[u8]> {
    let length = file.iter().map(|piece| piece.len()).sum();
    let response = HttpResponse::new(200)
        .header("Cache-Control", "max-age=3600")
        .header("Content-Type", FILE_TYPE);
    let mut bytes = Vec::new();
    response.write_header(&mut bytes, length, closes);
    bytes.into()
}
