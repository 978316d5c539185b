//! The server answers or closes every connection of a browser, without a panic: HTTP, the checks of
//! offers, and the WebRTC library behind them.

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "browsers",
    first_parser: "a complete HTTP request",
    seeds,
    words: WORDS,
    mutate,
    admits: Some(is_request),
    run,
};

const WORDS: &[&[u8]] = &[
    b"GET",
    b"POST",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"/whep/film",
    b"/whep/live",
    b"/whip/live",
    b"/watch/live",
    b"/session/0",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"Host: localhost",
    b"Origin: http://localhost",
    b"Access-Control-Request-Method: POST",
    b"Content-Type: application/sdp",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Authorization: Bearer x",
    b"\r\n",
    b"\r\n\r\n",
    b"m=video 9 UDP/TLS/RTP/SAVPF 102",
    b"m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
    b"a=recvonly",
    b"a=sendonly",
    b"a=ice-ufrag:abcd",
    b"a=ice-options:trickle",
    b"a=candidate:1 1 udp 1 127.0.0.1 9 typ host",
    b"a=setup:actpass",
    b"a=mid:0",
    b"a=rtcp-mux",
    b"a=group:BUNDLE 0",
    b"a=extmap:1 urn:ietf:params:rtp-hdrext:sdes:mid",
    b"a=ssrc:1 cname:x",
    b"a=rtpmap:102 H264/90000",
    b"a=rtpmap:103 rtx/90000",
    b"a=fmtp:103 apt=102",
    b"a=rtcp-fb:102 transport-cc",
    b"packetization-mode=1",
    b"profile-level-id=42e01f",
    b"a=simulcast:send h;l",
];

/// Returns an offer of one track of video in this direction.
fn offer(direction: &str) -> String {
    let byte = |n: u8| format!("{n:02X}");
    let fingerprint = (0..32).map(byte).collect::<Vec<_>>().join(":");
    format!(
        "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         m=video 9 UDP/TLS/RTP/SAVPF 102 103\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
         a=ice-pwd:0123456789abcdef01234567\r\na=fingerprint:sha-256 {fingerprint}\r\n\
         a=setup:actpass\r\na=mid:0\r\na={direction}\r\na=rtcp-mux\r\n\
         a=extmap:1 urn:ietf:params:rtp-hdrext:sdes:mid\r\n\
         a=rtpmap:102 H264/90000\r\na=rtcp-fb:102 transport-cc\r\na=rtcp-fb:102 nack pli\r\n\
         a=fmtp:102 packetization-mode=1;profile-level-id=42e01f\r\n\
         a=rtpmap:103 rtx/90000\r\na=fmtp:103 apt=102\r\n"
    )
}

fn request(line: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sdp\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

fn seeds() -> Vec<Vec<u8>> {
    let play = request("POST /whip/live", &offer("sendonly"));
    let texts = [
        play.clone(),
        request("POST /whep/live", &offer("recvonly")),
        play + &request("POST /whep/live", &offer("recvonly")),
        request("POST /whep/film", &offer("recvonly")),
        request("GET /watch/live?token=x", "") + &request("DELETE /session/0", ""),
        request("OPTIONS /whep/live", "") + &request("PATCH /session/0", ""),
        request("OPTIONS /session/0", "") + &request("POST /whep/placed/live", &offer("recvonly")),
    ];
    texts.map(String::into_bytes).to_vec()
}

/// Changes the offer of a single request, or any text; the offer's length stays valid.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    let header = input.windows(4).position(|end| end == b"\r\n\r\n");
    let Some((line, mut body)) = header.filter(|_| !mutation.one_in(4)).and_then(|at| {
        let line = std::str::from_utf8(&input[..at]).ok()?.split(" HTTP/").next()?;
        Some((line.to_owned(), input[at + 4..].to_vec()))
    }) else {
        return mutation.text(input);
    };
    mutation.text(&mut body);
    *input = request(&line, "").into_bytes();
    let head = String::from_utf8_lossy(input).replace(": 0\r\n", &format!(": {}\r\n", body.len()));
    *input = [head.as_bytes(), &body].concat();
}

/// Returns whether the input starts with a complete request header.
fn is_request(input: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    matches!(httparse::Request::new(&mut fields).parse(input), Ok(httparse::Status::Complete(_)))
}

fn run(input: &[u8]) -> bool {
    let answers = millstream_media::fuzzing::browser_requests(input);
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1.1 "));
    // The server survives a panic of the library, and says this.
    assert!(!String::from_utf8_lossy(&answers).contains("cannot be processed"));
    is_request(input)
}
