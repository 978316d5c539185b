//! No bytes on a dashboard connection make a server panic. It answers every request that it can
//! parse, and rejects commands from browsers.

use millstream_media::fuzzing;
use std::sync::OnceLock;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "orders",
    first_parser: "the head of an HTTP request",
    seeds,
    words: &[
        b"GET",
        b"HEAD",
        b"PUT",
        b"POST",
        b"DELETE",
        b"/instructions",
        b"/instructions/x",
        b"/instructions/y",
        b"/status",
        b"?streams=film,live",
        b"&memory=131072",
        b"&fuel=1000",
        b"&faults=3",
        b"%2e",
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"Host",
        b"localhost",
        b"127.0.0.1",
        b"[::1]:80",
        b"Origin",
        b"Sec-Fetch-Site",
        b"Content-Type",
        b"Content-Length",
        b"Transfer-Encoding",
        b"chunked",
        b"Expect",
        b"100-continue",
        b"Connection",
        b"Upgrade",
        b"application/wasm",
        b"application/octet-stream",
        b"text/plain",
    ],
    mutate,
    admits: Some(has_head),
    run,
};

/// Returns a module with these bodies of `filter` and `call`.
fn module(filter: &str, call: &str) -> Vec<u8> {
    let text = format!(
        "(module (memory (export \"memory\") 1)
           (global (export \"frame\") i32 (i32.const 64))
           (global (export \"message\") i32 (i32.const 1024))
           (func (export \"filter\") (param $length i32) (result i32) {filter})
           (func (export \"call\") (param $length i32) (result i32) {call}))"
    );
    wat::parse_str(text).expect("a module")
}

fn order(head: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let (wasm, bytes) = ("application/wasm", "application/octet-stream");
    let module = module("(i32.const 1)", "(local.get $length)");
    let put = "PUT /instructions/x";
    let chunked = [
        &b"POST /instructions/x HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
        b"3\r\nabc\r\n0\r\n\r\n",
    ];
    vec![
        order(put, wasm, &module),
        order(&format!("{put}?streams=film&memory=131072&fuel=10&faults=2"), wasm, &module),
        order("POST /instructions/x", bytes, b"hello"),
        order("DELETE /instructions/x", "", b""),
        chunked.concat(),
        b"GET /instructions HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"PUT /instructions/x HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n".to_vec(),
    ]
}

/// Returns the offset of the body, if the head is complete.
fn body_at(input: &[u8]) -> Option<usize> {
    input.windows(4).position(|at| at == b"\r\n\r\n").map(|at| at + 4)
}

/// Changes the head as text or the body as bytes; Content-Length is mostly fixed up.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    let Some(at) = body_at(input) else {
        *input = mutation.seed();
        return;
    };
    let mut body = input.split_off(at);
    if mutation.one_in(3) {
        if !mutation.one_in(4) {
            mutation.bytes(&mut body);
        } else if let other = mutation.seed()
            && let Some(at) = body_at(&other)
        {
            body = other[at..].to_vec();
        }
    } else {
        mutation.text(input);
    }
    if !mutation.one_in(8) {
        let head = String::from_utf8_lossy(input).into_owned();
        let lines = head.split_inclusive('\n').map(|line| {
            let is_length = line.to_ascii_lowercase().starts_with("content-length:");
            if is_length { format!("Content-Length: {}\r\n", body.len()) } else { line.to_owned() }
        });
        *input = lines.collect::<String>().into_bytes();
    }
    input.extend(body);
}

fn has_head(input: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    httparse::Request::new(&mut headers).parse(input).is_ok_and(|status| status.is_complete())
}

fn run(input: &[u8]) -> bool {
    // Loads the instruction `x` first: most commands refer to it.
    static FIRST: OnceLock<Vec<u8>> = OnceLock::new();
    let first = FIRST.get_or_init(|| seeds().swap_remove(0));
    let answer = fuzzing::orders(&[first, input]);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "not an HTTP response");
    if has_origin(input) {
        let is_order = [&b"PUT "[..], b"POST ", b"DELETE "].iter().any(|o| input.starts_with(o));
        assert!(
            !is_order || !answer.starts_with(b"HTTP/1.1 200"),
            "a browser's command was executed"
        );
    }
    has_head(input)
}

/// Returns whether the head has the Origin field that browsers send.
fn has_origin(input: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let whole = request.parse(input).is_ok_and(|status| status.is_complete());
    whole && request.headers.iter().any(|header| header.name.eq_ignore_ascii_case("origin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_programs_are_executed_and_those_of_browsers_are_not() {
        let seeds = seeds();
        let answer = |at: usize| fuzzing::orders(&[&seeds[0], &seeds[at]]);
        let called = answer(2);
        let text = String::from_utf8_lossy(&called);
        assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("hello"), "{text}");
        assert!(answer(3).starts_with(b"HTTP/1.1 200 ") && answer(3).ends_with(b"removed\n"));
        assert!(answer(7).starts_with(b"HTTP/1.1 403 "));
    }
}
