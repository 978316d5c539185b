//! HTTP/1.1 requests and responses (RFC 9112) of browsers and players, as far as WHEP, WHIP and HLS
//! need them. Other threads serve the pages of `http`.
//!
//! `httparse` parses the header. A body has a `Content-Length`; other transfer codings are refused.

pub(crate) mod gate;

use std::net::IpAddr;

/// The largest number of header fields.
const MAX_FIELDS: usize = 64;

/// The length of the longest body, bytes. Offers of browsers have 5 to 10 KB.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 10;

/// A complete request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path with the query.
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) origin: Option<String>,
    /// Whether a browser asks whether a page of another origin may send a request.
    pub(crate) is_preflight: bool,
    pub(crate) content_type: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Vec<u8>,
    /// Whether the client closes the connection after the response.
    pub(crate) closes: bool,
}

/// The result of parsing the bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// The request is not complete.
    Incomplete,
    /// A request and its length, bytes.
    Request(HttpRequest, usize),
    /// The connection must be closed after this response.
    Refused(HttpResponse),
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Creates a response with a line of text.
    pub(crate) fn text(status: u16, line: impl Into<String>) -> Self {
        Self::new(status).with_body("text/plain; charset=utf-8", (line.into() + "\n").into_bytes())
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        // A value may hold bytes of the request: no line break may end the header early.
        self.headers.push((name, value.into().replace(char::is_control, "")));
        self
    }

    pub(crate) fn with_body(self, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { body, ..self.header("Content-Type", content_type) }
    }

    /// Appends the response to `output`; `closes` announces the end of the connection. The response
    /// to HEAD has the header of that to GET and no body (RFC 9110, section 9.3.2).
    pub(crate) fn write(&self, output: &mut Vec<u8>, closes: bool, is_head: bool) {
        self.write_header(output, self.body.len(), closes);
        if !is_head {
            output.extend_from_slice(&self.body);
        }
    }

    /// Appends the header of the response with a body of `length` bytes to `output`.
    pub(crate) fn write_header(&self, output: &mut Vec<u8>, length: usize, closes: bool) {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        // A 204 has no body (RFC 9110, section 8.6).
        if self.status != 204 {
            head += &format!("Content-Length: {length}\r\n");
        }
        head += if closes { "Connection: close\r\n\r\n" } else { "\r\n" };
        output.extend_from_slice(head.as_bytes());
    }
}

/// Returns the response with a page that may load what `policy` permits.
pub(crate) fn page(text: &str, policy: &str) -> HttpResponse {
    HttpResponse::new(200)
        .header("Content-Security-Policy", policy)
        .header("X-Content-Type-Options", "nosniff")
        .header("Referrer-Policy", "no-referrer")
        .with_body("text/html; charset=utf-8", text.as_bytes().to_vec())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

/// Parses a request with a header of at most `header_bytes`.
pub(crate) fn parse(input: &[u8], header_bytes: usize) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let refused = |status, why: &str| Parsed::Refused(HttpResponse::text(status, why));
    let too_long = |bytes: usize| bytes > header_bytes;
    let header = match request.parse(input) {
        Ok(httparse::Status::Complete(header)) if !too_long(header) => header,
        Ok(httparse::Status::Partial) if !too_long(input.len()) => return Parsed::Incomplete,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return refused(431, &format!("the header is limited to {header_bytes} bytes"));
        }
        Err(_) => return refused(400, "not an HTTP/1.1 request"),
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let values = |name: &'static str| {
        let of_name = request.headers.iter().filter(move |f| f.name.eq_ignore_ascii_case(name));
        of_name.map(|field| field.value)
    };
    let first = |name| values(name).next().map(text);
    if values("Transfer-Encoding").next().is_some() {
        return refused(411, "send the body with Content-Length");
    }
    let mut lengths = values("Content-Length").map(|value| {
        // A sign or a list is ambiguous between parsers: digits only.
        let digits = value.iter().all(u8::is_ascii_digit);
        text(value).parse::<usize>().ok().filter(|_| digits)
    });
    let length = match (lengths.next(), lengths.next()) {
        (None, _) => 0,
        (Some(Some(length)), None) => length,
        _ => return refused(400, "Content-Length is not one number"),
    };
    if length > MAX_BODY_BYTES {
        return refused(413, &format!("the body is limited to {MAX_BODY_BYTES} bytes"));
    }
    let Some(body) = input.get(header..header + length) else { return Parsed::Incomplete };
    if values("Host").count() > 1 || values("Authorization").count() > 1 {
        return refused(400, "a duplicate header field");
    }
    let closes = request.version == Some(0)
        || values("Connection").any(|value| text(value).to_ascii_lowercase().contains("close"));
    let request = HttpRequest {
        method: request.method.unwrap_or_default().to_owned(),
        target: request.path.unwrap_or_default().to_owned(),
        host: first("Host").unwrap_or_default(),
        origin: first("Origin"),
        is_preflight: request.method == Some("OPTIONS")
            && values("Access-Control-Request-Method").next().is_some(),
        content_type: first("Content-Type").unwrap_or_default(),
        authorization: first("Authorization"),
        body: body.to_vec(),
        closes,
    };
    Parsed::Request(request, header + length)
}

/// Returns whether a host name, with or without a port, is that of this machine.
pub(crate) fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(input: &str) -> u16 {
        match parse(input.as_bytes(), 1_000) {
            Parsed::Incomplete => 0,
            Parsed::Request(..) => 200,
            Parsed::Refused(response) => response.status,
        }
    }

    #[test]
    fn a_request_ends_with_its_body() {
        let text = "POST /whep/a?token=t HTTP/1.1\r\nHost: h:1\r\ncontent-type: application/sdp\r\n\
                    Authorization: Bearer x\r\nContent-Length: 3\r\n\r\nv=0GET ";
        let Parsed::Request(request, length) = parse(text.as_bytes(), 1_000) else { panic!() };
        assert_eq!(length, text.len() - 4);
        let expected = HttpRequest {
            method: "POST".to_owned(),
            target: "/whep/a?token=t".to_owned(),
            host: "h:1".to_owned(),
            content_type: "application/sdp".to_owned(),
            authorization: Some("Bearer x".to_owned()),
            body: b"v=0".to_vec(),
            ..HttpRequest::default()
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn ambiguous_and_oversized_requests_are_refused() {
        let long = "x".repeat(1_000);
        for (text, expected) in [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), 200),
            ("GET / HTTP/1.1\r\n".to_owned(), 0),
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nv".to_owned(), 0),
            ("POST / HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\nv=".to_owned(), 400),
            ("POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\nv=".to_owned(), 400),
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nv=".to_owned(), 400),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 411),
            ("POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n".to_owned(), 413),
            (format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"), 431),
            (format!("GET / HTTP/1.1\r\nX: {long}"), 431),
            ("OPTIONS * RTSP/1.0\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(), 400),
        ] {
            assert_eq!(status(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn loopback_names() {
        for name in ["localhost", "localhost:80", "127.0.0.1:80", "[::1]:80", "127.9.9.9"] {
            assert!(is_loopback_name(name), "{name}");
        }
        for name in ["", "a.example", "127.0.0.1.example:80", "192.0.2.1", "[2001:db8::1]"] {
            assert!(!is_loopback_name(name), "{name}");
        }
    }

    #[test]
    fn header_values_have_no_line_breaks() {
        let mut output = Vec::new();
        HttpResponse::text(404, "no").header("X", "a\r\nSet-Cookie: b").write(
            &mut output,
            true,
            false,
        );
        let text = String::from_utf8(output).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n\
             X: aSet-Cookie: b\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n"
        );
    }
}
