//! The server answers or closes every RTSP connection, without a panic.

use rtsp_types::Message;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "requests",
    first_parser: "a complete RTSP request",
    seeds,
    words: WORDS,
    mutate: Mutation::text,
    admits: Some(is_request),
    run,
};

pub(super) const WORDS: &[&[u8]] = &[
    b"OPTIONS",
    b"DESCRIBE",
    b"ANNOUNCE",
    b"SETUP",
    b"PLAY",
    b"RECORD",
    b"PAUSE",
    b"GET_PARAMETER",
    b"TEARDOWN",
    b"RTSP/1.0",
    b"rtsp://h/film",
    b"rtsp://h/live/video",
    b"rtsp://h/cam/a",
    b"/b/video",
    b"CSeq",
    b"Session",
    b"Transport",
    b"Range",
    b"Require",
    b"Accept",
    b"Content-Length",
    b"Content-Type",
    b"application/sdp",
    b"RTP/AVP",
    b"RTP/AVP/TCP",
    b"unicast",
    b"multicast",
    b"interleaved=0-1",
    b"client_port=5000-5001",
    b"mode=record",
    b"npt=0-",
    b"npt=now-",
    b"Authorization",
    b"Digest",
    b"Basic",
    b"username",
    b"realm",
    b"nonce",
    b"uri",
    b"response",
    b"qop=auth",
    b"algorithm=MD5",
    b"algorithm=SHA-256",
    b"token=x",
    b"\r\n",
    b"$\x00\x00\x04",
];

fn seeds() -> Vec<Vec<u8>> {
    let setup = "SETUP rtsp://h/film/video RTSP/1.0\r\nCSeq: 1\r\n\
                 Transport: RTP/AVP;unicast;client_port=5000-5001\r\n\r\n";
    let live = "SETUP rtsp://h/live/video RTSP/1.0\r\nCSeq: 3\r\n\
                Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n\r\n";
    let sdp = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
               m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
               a=fmtp:96 packetization-mode=1\r\n";
    let announce = format!(
        "ANNOUNCE rtsp://h/live RTSP/1.0\r\nCSeq: 2\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{sdp}",
        sdp.len()
    );
    let plain = |method: &str| {
        format!("{method} rtsp://h/film RTSP/1.0\r\nCSeq: 5\r\nRange: npt=1.5-\r\n\r\n")
    };
    let tone = |track: &str, session: &str| {
        let ports = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
        format!("SETUP rtsp://h/tone/{track} RTSP/1.0\r\nCSeq: 1\r\n{ports}{session}\r\n")
    };
    let both = sdp.to_owned()
        + "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/44100/2\r\n\
           a=fmtp:97 mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1210\r\n\
           a=control:streamid=1\r\n";
    let both = announce
        .replace(sdp, &both)
        .replace(&format!("Length: {}", sdp.len()), &format!("Length: {}", both.len()));
    let second = "SETUP rtsp://h/live/streamid=1 RTSP/1.0\r\nCSeq: 4\r\n\
                  Transport: RTP/AVP/TCP;unicast;interleaved=2-3;mode=record\r\n\r\n";
    let report = "$\u{3}\0\u{8}\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}";
    // Commands publish these paths on demand: the requests are held.
    let held = |method: &str, path: &str| {
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
        format!("{method} rtsp://h/cam/{path} RTSP/1.0\r\nCSeq: 6\r\n{transport}\r\n")
    };
    let texts = [
        held("DESCRIBE", "a") + &held("SETUP", "b/video") + &plain("OPTIONS"),
        announce.replace("/live", "/cam/a") + &held("DESCRIBE", "a") + &held("DESCRIBE", "c"),
        both + live + second + &plain("RECORD") + report,
        setup.to_owned(),
        announce.clone() + live,
        announce + live + &plain("RECORD"),
        plain("OPTIONS") + &plain("DESCRIBE"),
        setup.to_owned() + &plain("PLAY") + &plain("PAUSE") + &plain("TEARDOWN"),
        plain("GET_PARAMETER"),
        tone("video", "") + &tone("audio", "Session: 1\r\n"),
    ];
    texts.map(String::into_bytes).to_vec()
}

/// Returns whether the input starts with a complete request.
pub(super) fn is_request(input: &[u8]) -> bool {
    matches!(Message::<Vec<u8>>::parse(input), Ok((Message::Request(_), _)))
}

fn run(input: &[u8]) -> bool {
    let answers = millstream_media::fuzzing::requests(input);
    assert!(answers.is_empty() || answers.starts_with(b"RTSP/1.0 "));
    is_request(input)
}
