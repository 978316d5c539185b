//! Origins of web pages, as servers and browsers compare them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns whether a text is an origin of HTTP as browsers write it (RFC 6454, section 6.2): scheme
/// and host in lower case, the port unless it is the scheme's, and nothing behind it.
///
/// Such a text is also safe in a header field and in a content security policy.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let default_port = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return false,
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    is_host(host) && port.is_none_or(|port| port != default_port && is_port(port))
}

/// Returns whether a text is a port without a sign or leading zeros.
fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port != 0 && port.to_string() == text)
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address = inner.parse::<Ipv6Addr>();
        // Browsers write an embedded IPv4 address in hexadecimal.
        return address.is_ok_and(|address| address.to_string() == inner) && !inner.contains('.');
    }
    let is_label = |label: &str| {
        let is_known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(is_known)
    };
    // Browsers take a host for an IPv4 address if its last label is a number.
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.starts_with(|first: char| first.is_ascii_digit()) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    host.len() <= 253 && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_origins_are_origins() {
        for text in [
            "http://localhost",
            "http://10.0.0.1:8889",
            "https://media-1.example.org",
            "https://media1.example.org:8889",
            "http://[2001:db8::1]:8889",
            "http://[::1]",
        ] {
            assert!(is_origin(text), "{text}");
        }
        let long = format!("http://{}", "a.".repeat(127));
        for text in [
            "",
            "null",
            "a.example",
            "ftp://a.example",
            "http://",
            "http://a.example/",
            "http://a.example/watch",
            "http://a.example:80",
            "https://a.example:443",
            "http://a.example:08889",
            "http://a.example:+1",
            "http://a.example:0",
            "http://a.example:65536",
            "http://a.example:",
            "http://A.example",
            "HTTP://a.example",
            "http://a..example",
            "http://user@a.example",
            "http://a.example;script-src *",
            "http://a.example, http://b.example",
            "http://a.example\r\nX: y",
            "http://a_b",
            "http://*",
            "http://10.0.0.01",
            "http://10.1",
            "http://1",
            "http://[2001:DB8::1]",
            "http://[::ffff:10.0.0.1]",
            "http://[::1",
            "http://::1",
            &long,
        ] {
            assert!(!is_origin(text), "{text:?}");
        }
    }
}
