//! The server answers or closes every connection of an HLS player, without a panic.

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "hls",
    first_parser: "a complete HTTP request",
    seeds,
    words: &[
        b"GET",
        b"HEAD",
        b"POST",
        b"/live/index.m3u8",
        b"/film/index.m3u8",
        b"/cam/a/index.m3u8",
        b"/recordings/live/index.m3u8",
        b"PREFIX-tracks-0.mp4",
        b"PREFIX-segment-1.mp4",
        b"PREFIX-part-10.mp4",
        b"PREFIX-part-11.mp4",
        b"?_HLS_msn=2",
        b"&_HLS_part=1",
        b"&token=a%22b",
        b"18446744073709551615",
        b"HTTP/1.0",
        b"Host: localhost",
        b"Origin: http://localhost",
        b"Authorization: Bearer x",
        b"Connection: close",
        b"\r\n\r\n",
    ],
    mutate: Mutation::text,
    admits: Some(is_request),
    run,
};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn seeds() -> Vec<Vec<u8>> {
    let files = ["tracks-0", "segment-0", "part-10", "part-11"];
    let files: String = files.iter().map(|file| get(&format!("/live/PREFIX-{file}.mp4"))).collect();
    let texts = [
        get("/live/index.m3u8") + &files,
        get("/live/index.m3u8?_HLS_msn=2&_HLS_part=0&token=x") + &get("/cam/a/index.m3u8"),
        get("/live/index.m3u8?_HLS_msn=3") + &get("/live/index.m3u8?_HLS_part=1"),
        get("/cam/a/index.m3u8?_HLS_msn=18446744073709551615&_HLS_part=0")
            + &get("/cam/a/index.m3u8?_HLS_msn=0"),
        get("/film/index.m3u8") + &get("/recordings/live/index.m3u8").replace("GET", "HEAD"),
    ];
    texts.map(String::into_bytes).to_vec()
}

/// Returns whether the input starts with a complete request header.
fn is_request(input: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    matches!(httparse::Request::new(&mut fields).parse(input), Ok(httparse::Status::Complete(_)))
}

fn run(input: &[u8]) -> bool {
    let answers = millstream_media::fuzzing::hls_requests(input);
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1.1 "));
    is_request(input)
}
