//! The server does nothing for an unauthenticated client, and does not panic.

use rtsp_types::headers::AUTHORIZATION;
use rtsp_types::{Message, Url};

use super::requests::WORDS;
use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "credentials",
    first_parser: "an RTSP request with a token or an Authorization header",
    seeds,
    words: WORDS,
    mutate: Mutation::text,
    admits: Some(shows_credentials),
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let digest = "DESCRIBE rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\nAuthorization: Digest \
                  username=\"a\", realm=\"millstream\", nonce=\"0\", uri=\"rtsp://h/film\", \
                  qop=auth, nc=00000001, cnonce=\"c\", \
                  response=\"00000000000000000000000000000000\"\r\n\r\n";
    let rfc_2069 = "SETUP rtsp://h/film/video RTSP/1.0\r\nCSeq: 2\r\n\
                    Transport: RTP/AVP;unicast;client_port=5000-5001\r\nAuthorization: Digest \
                    username=\"a\", realm=\"millstream\", nonce=\"0\", \
                    uri=\"rtsp://h/film/video\", response=\"0\"\r\n\r\n";
    let token = "DESCRIBE rtsp://h/film?token=x RTSP/1.0\r\nCSeq: 1\r\n\r\n";
    let texts =
        [digest.to_owned(), rfc_2069.to_owned(), token.to_owned(), token.repeat(2) + digest];
    texts.map(String::into_bytes).to_vec()
}

fn shows_credentials(input: &[u8]) -> bool {
    let Ok((Message::Request(request), _)) = Message::<Vec<u8>>::parse(input) else { return false };
    let has_token = |url: &Url| url.query_pairs().any(|(name, _)| name == "token");
    request.header(&AUTHORIZATION).is_some() || request.request_uri().is_some_and(has_token)
}

fn run(input: &[u8]) -> bool {
    let answers = millstream_media::fuzzing::guarded_requests(input);
    assert!(answers.is_empty() || answers.starts_with(b"RTSP/1.0 "));
    let text = String::from_utf8_lossy(&answers);
    // OPTIONS is answered for all clients; sessions and streams are not disclosed.
    let discloses =
        |line: &str| line.starts_with("Session:") || line == "Content-Type: application/sdp";
    assert!(!text.lines().any(discloses), "{text}");
    shows_credentials(input)
}
