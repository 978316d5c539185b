//! Access rules and server selection by host name: from the Host of an HTTP/1 request or the server
//! name of a TLS hello.
//!
//! A connection is decided once, on its first bytes. Source: RFC 9112 section 3.2 (Host), RFC 6066
//! section 3 (server name).

use millstream_scenario::PathProxy;
use std::net::SocketAddr;

/// Request headers, at most; a request with more has no host.
const HEADERS: usize = 64;
/// The first byte of a TLS handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// The host name in a connection's first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ParsedHost {
    /// More bytes are needed.
    Incomplete,
    /// The host name.
    Name(String),
    /// The bytes contain no host name, or the protocol is unknown.
    Absent,
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Wait for more bytes.
    Wait,
    /// Accept it; the classical proxy connects to this server.
    Pass(Option<SocketAddr>),
    /// Reset it.
    Refuse,
}

/// Returns whether the decision depends on the host name.
pub(super) fn needs_host(of: &PathProxy) -> bool {
    !(of.hosts.is_empty() && of.allow.is_empty() && of.deny.is_empty())
}

/// Decides on a connection by its first bytes; `last` means that no more will come or fit.
pub(super) fn decide(of: &PathProxy, bytes: &[u8], last: bool) -> Decision {
    if !needs_host(of) {
        return Decision::Pass(of.to);
    }
    let name = match parse_host(bytes) {
        ParsedHost::Incomplete if !last => return Decision::Wait,
        ParsedHost::Name(name) => Some(name),
        ParsedHost::Incomplete | ParsedHost::Absent => None,
    };
    let Some(name) = name else {
        // A connection without a host name passes only if no rule requires one.
        let may = of.allow.is_empty() && (of.hosts.is_empty() || of.to.is_some());
        return if may { Decision::Pass(of.to) } else { Decision::Refuse };
    };
    let denied = of.deny.iter().any(|pattern| pattern.matches(&name));
    let allowed = of.allow.is_empty() || of.allow.iter().any(|pattern| pattern.matches(&name));
    if denied || !allowed {
        return Decision::Refuse;
    }
    let server = of.hosts.iter().find(|(pattern, _)| pattern.matches(&name)).map(|of| of.1);
    match server.or(of.to) {
        None if !of.hosts.is_empty() => Decision::Refuse,
        server => Decision::Pass(server),
    }
}

fn parse_host(bytes: &[u8]) -> ParsedHost {
    match bytes.first() {
        None => ParsedHost::Incomplete,
        Some(&TLS_HANDSHAKE) => server_name(bytes),
        Some(_) => http_host(bytes),
    }
}

/// Returns the server name of a TLS client hello.
fn server_name(mut bytes: &[u8]) -> ParsedHost {
    let mut acceptor = rustls::server::Acceptor::default();
    while !bytes.is_empty() {
        match acceptor.read_tls(&mut bytes) {
            Ok(count) if count > 0 => {}
            _ => return ParsedHost::Absent,
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                return hello
                    .server_name()
                    .map_or(ParsedHost::Absent, |name| ParsedHost::Name(name.into()));
            }
            Ok(None) => {}
            Err(_) => return ParsedHost::Absent,
        }
    }
    ParsedHost::Incomplete
}

/// Returns the host of an HTTP/1 request.
fn http_host(bytes: &[u8]) -> ParsedHost {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return ParsedHost::Incomplete,
        Err(_) => return ParsedHost::Absent,
    }
    let is_host = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("host");
    let mut hosts = request.headers.iter().filter(is_host);
    let given = hosts.next().and_then(|header| std::str::from_utf8(header.value).ok());
    if hosts.next().is_some() {
        return ParsedHost::Absent;
    }
    // The authority of an absolute target overrides the header (RFC 9112, section 3.2.2).
    let target = request.path.unwrap_or_default();
    let authority = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.split(['/', '?', '#']).next(),
        _ if request.method == Some("CONNECT") => Some(target),
        _ => given,
    };
    let Some(authority) = authority else { return ParsedHost::Absent };
    let authority = authority.rsplit('@').next().unwrap_or_default().trim();
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    };
    if name.is_empty() { ParsedHost::Absent } else { ParsedHost::Name(name.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_scenario::{HostPattern, ProxyKind};
    use proptest::prelude::*;

    fn pattern(text: &str) -> HostPattern {
        let is_wildcard = text.starts_with("*.");
        HostPattern { name: text.trim_start_matches("*.").to_owned(), is_wildcard }
    }

    fn rules(hosts: &[(&str, u16)], allow: &[&str], deny: &[&str], to: Option<u16>) -> PathProxy {
        let server = |port| SocketAddr::from(([10, 2, 0, 9], port));
        PathProxy {
            kind: ProxyKind::Classical,
            to: to.map(server),
            hosts: hosts.iter().map(|(name, port)| (pattern(name), server(*port))).collect(),
            allow: allow.iter().map(|name| pattern(name)).collect(),
            deny: deny.iter().map(|name| pattern(name)).collect(),
            connections: 1,
            host_connections: 1,
            buffer_bytes: 4_096,
        }
    }

    /// Builds a TLS 1.2 client hello with a server name.
    fn hello(name: &str) -> Vec<u8> {
        let length = |bytes: usize| u16::try_from(bytes).unwrap().to_be_bytes();
        let mut names = vec![0];
        names.extend(length(name.len()));
        names.extend(name.as_bytes());
        let mut extension = vec![0, 0];
        extension.extend(length(names.len() + 2));
        extension.extend(length(names.len()));
        extension.extend(names);
        // Signature algorithms are mandatory.
        extension.extend([0, 13, 0, 4, 0, 2, 4, 3]);
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 2, 0xc0, 0x2f, 1, 0]);
        body.extend(length(extension.len()));
        body.extend(extension);
        let mut handshake = vec![1, 0];
        handshake.extend(length(body.len()));
        handshake.extend(body);
        let mut record = vec![22, 3, 1];
        record.extend(length(handshake.len()));
        record.extend(handshake);
        record
    }

    #[test]
    fn host_names_are_parsed_and_truncated_input_is_incomplete() {
        let name = |bytes: &[u8]| parse_host(bytes);
        for (request, expected) in [
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "a.example"),
            ("GET / HTTP/1.1\r\nAccept: x\r\nhOsT:  A.example:8080 \r\n\r\n", "A.example"),
            ("GET http://b.example/x?y HTTP/1.1\r\nHost: a.example\r\n\r\n", "b.example"),
            ("CONNECT c.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", "c.example"),
            ("GET /x?u=http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "a.example"),
        ] {
            assert_eq!(
                name(request.as_bytes()),
                ParsedHost::Name(expected.to_owned()),
                "{request}"
            );
            for cut in 0..request.len() - 1 {
                assert_eq!(
                    name(&request.as_bytes()[..cut]),
                    ParsedHost::Incomplete,
                    "{cut} of {request}"
                );
            }
        }
        let record = hello("d.example");
        assert_eq!(name(&record), ParsedHost::Name("d.example".to_owned()));
        for cut in 0..record.len() - 1 {
            assert_eq!(name(&record[..cut]), ParsedHost::Incomplete, "{cut}");
        }
        let twice = b"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n";
        for nothing in [&b"\x00\x01"[..], b"SSH-2.0-x\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", twice] {
            assert_eq!(name(nothing), ParsedHost::Absent, "{nothing:?}");
        }
    }

    #[test]
    fn rules_select_the_server() {
        let ask = |rules: &PathProxy, host: &str| {
            decide(rules, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), false)
        };
        let pass = |port: u16| Decision::Pass(Some(SocketAddr::from(([10, 2, 0, 9], port))));
        let of = rules(&[("a.example", 1), ("*.b.example", 2)], &[], &["x.b.example"], Some(3));
        assert_eq!(ask(&of, "a.example"), pass(1));
        assert_eq!(ask(&of, "A.EXAMPLE."), pass(1));
        assert_eq!(ask(&of, "u.b.example"), pass(2));
        assert_eq!(ask(&of, "b.example"), pass(3), "a wildcard excludes its own domain");
        assert_eq!(ask(&of, "ub.example"), pass(3));
        assert_eq!(ask(&of, "x.b.example:80"), Decision::Refuse);
        assert_eq!(decide(&of, b"\x00", false), pass(3), "no host name");
        assert_eq!(decide(&of, b"GET", false), Decision::Wait);
        assert_eq!(decide(&of, b"GET", true), pass(3));
        let of = rules(&[("a.example", 1)], &[], &[], None);
        assert_eq!(ask(&of, "b.example"), Decision::Refuse);
        assert_eq!(decide(&of, b"\x00", false), Decision::Refuse);
        let of = rules(&[], &["a.example"], &[], Some(3));
        assert_eq!(ask(&of, "a.example"), pass(3));
        assert_eq!(ask(&of, "b.example"), Decision::Refuse);
        assert_eq!(decide(&of, b"\x00", false), Decision::Refuse);
        let of = rules(&[], &[], &[], Some(3));
        assert_eq!(decide(&of, b"", false), pass(3), "no host name is needed");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..3u8
        ) {
            if kind == 1 {
                let mut record = hello("a.example");
                for (at, byte) in bytes.iter().enumerate().take(4) {
                    let at = (at * 67 + usize::from(*byte)) % record.len();
                    record[at] = *byte;
                }
                bytes = record;
            } else if kind == 2 {
                bytes.splice(0..0, *b"GET / HTTP/1.1\r\nHost: ");
            }
            let _ = parse_host(&bytes);
        }
    }
}
