//! Tests of the answers to valid, invalid and slow requests.

use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

fn site() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    serve(listener, "/status and /metrics", |path| match path {
        "/status" => Answer::Json("{\"a\":1}".to_owned()),
        "/metrics" => Answer::Metrics("# EOF\n".to_owned()),
        "/broken" => Answer::Unavailable("not ready".to_owned()),
        _ => Answer::NotFound,
    })
    .unwrap();
    address
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
}

#[test]
fn pages_have_their_content_types() {
    let address = site();
    let status = get(address, "/status");
    assert!(status.starts_with("HTTP/1.1 200 OK\r\n"), "{status}");
    assert!(status.contains("application/json\r\n") && status.ends_with("\r\n\r\n{\"a\":1}"));
    assert!(get(address, "/status?since=1").ends_with("{\"a\":1}"), "a query changes nothing");
    assert!(get(address, "/metrics").contains("openmetrics-text"));
    assert!(get(address, "/broken").starts_with("HTTP/1.1 503 "));
    assert!(get(address, "/else").ends_with("the pages are /status and /metrics\n"));
    let head = ask(address, b"HEAD /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("content-length: 7\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn dashboard_is_self_contained() {
    let page = get(site(), "/");
    assert!(page.contains("text/html") && page.contains("script-src 'sha256-"), "{page}");
    assert!(!page.contains("unsafe-inline"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let allowed = page.matches("http://www.w3.org/2000/svg").count();
        let found = page.matches(outside).count();
        assert_eq!(found, if outside == "http://" { allowed } else { 0 }, "{outside}");
    }
}

#[test]
fn invalid_requests_and_foreign_hosts_are_refused() {
    let address = site();
    let post =
        ask(address, b"POST /status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    for (host, status) in [
        ("127.0.0.1:9", 200),
        ("[::1]", 200),
        ("LocalHost:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421),
        ("a b", 400),
        ("", 400),
        ("localhost:http", 400),
        ("user@localhost", 400),
        ("localhost, localhost", 400),
        ("localhost\r\nHost: localhost", 400),
        ("localhost\r\nhost: evil.example", 400),
    ] {
        let request = format!("GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = ask(address, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 16));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    for wrong in [b"\0\0\0\0\r\n\r\n".as_slice(), long.as_bytes(), many.as_bytes(), b"GET\r\n\r\n"]
    {
        let answer = ask(address, wrong);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

#[test]
fn requests_of_http_1_1_need_one_host() {
    let address = site();
    let none = ask(address, b"GET /status HTTP/1.1\r\n\r\n");
    assert!(none.starts_with("HTTP/1.1 400 "), "{none}");
    let old = ask(address, b"GET /status HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.0 200 "), "{old}");
    let absolute = b"GET http://evil.example/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let absolute = ask(address, absolute);
    assert!(absolute.starts_with("HTTP/1.1 421 "), "{absolute}");
}

/// Returns whether the server has closed the connection; the client has not read from it before.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[test]
fn oldest_incomplete_requests_are_closed_for_complete_ones() {
    let address = site();
    let mut half_open: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /status HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    let answer = get(address, "/status");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The server closed this many connections before it sent the answer.
    let must = half_open.len() - MAX_CONNECTIONS + 1;
    let closed: Vec<bool> = half_open.iter_mut().map(is_closed).collect();
    assert!(closed[..must].iter().all(|closed| *closed), "{closed:?}");
}

#[test]
fn write_requests_with_missing_bodies_are_closed_for_complete_ones() {
    let address = obedient();
    let request = b"PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc";
    let mut slow: Vec<_> = (0..MAX_CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    assert!(give(address, "POST", "", "abc").ends_with("cba"));
    assert!(is_closed(&mut slow[0]), "the oldest");
}

#[test]
fn idle_connections_do_not_block_requests() {
    let address = site();
    // More connections than the limit; none ends by itself.
    let idle: Vec<_> =
        (0..MAX_CONNECTIONS + 8).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(get(address, "/status").ends_with("{\"a\":1}"));
    drop(idle);
}

/// Starts a server that answers each write request with its contents.
fn obedient() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = Box::new(|request: WriteRequest| match request.method {
        WriteMethod::Put => {
            Answer::Text(format!("{} {} {}", request.path, request.query, request.content_type))
        }
        WriteMethod::Post => Answer::Bytes(request.body.iter().rev().copied().collect()),
        WriteMethod::Delete => Answer::Refused(409, "in use".to_owned()),
    });
    let handler = WriteHandler { max_bytes: 1000, handle };
    serve_with(listener, "/status", |_| Answer::NotFound, Some(handler)).unwrap();
    address
}

fn give(address: SocketAddr, method: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let request = format!(
        "{method} /a/b?c=d HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n\
         {body}"
    );
    ask(address, request.as_bytes())
}

#[test]
fn write_requests_have_path_query_type_and_body() {
    let address = obedient();
    let put = give(address, "PUT", "Content-Type: application/wasm\r\n", "");
    assert!(
        put.starts_with("HTTP/1.1 200 ") && put.ends_with("/a/b c=d application/wasm"),
        "{put}"
    );
    let post = give(address, "POST", "", "abc");
    assert!(post.contains("application/octet-stream") && post.ends_with("\r\n\r\ncba"), "{post}");
    let delete = give(address, "DELETE", "", "");
    assert!(delete.starts_with("HTTP/1.1 409 ") && delete.ends_with("in use\n"), "{delete}");
    assert!(give(address, "GET", "", "").starts_with("HTTP/1.1 404 "));
    assert!(give(address, "PATCH", "", "").starts_with("HTTP/1.1 405 "));
}

#[test]
fn browsers_and_long_bodies_are_refused() {
    let address = obedient();
    for header in
        ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: none\r\n"]
    {
        let answer = give(address, "POST", header, "abc");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{header}{answer}");
    }
    assert!(give(address, "POST", "", &"a".repeat(1000)).starts_with("HTTP/1.1 200 "));
    assert!(give(address, "POST", "", &"a".repeat(1001)).starts_with("HTTP/1.1 413 "));
    let chunked = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("200\r\n{}\r\n", "a".repeat(512));
    let answer = ask(address, (chunked.to_owned() + &chunk.repeat(2) + "0\r\n\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let foreign = "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n";
    assert!(ask(address, foreign.as_bytes()).starts_with("HTTP/1.1 421 "));
}
