//! Validation of a path's `proxy`: the rules that types cannot express.

use std::net::SocketAddr;
use toml::Spanned;

use super::parse_as;
use crate::error::Problem;
use crate::file::router::{PathTable, ProxyTable};
use crate::router::{HostPattern, PathProxy, ProxyKind, RouterPort};
use crate::validate::check_range;

const CONNECTIONS: u32 = 256;
const HOST_CONNECTIONS: u32 = 64;
const MAX_CONNECTIONS: u32 = 1 << 14;
const BUFFER_BYTES: u32 = 32 << 10;
/// The range of `buffer`, bytes. A buffer below a few segments stalls a connection; one above the
/// maximum helps only on paths longer than the Earth.
const BUFFER_RANGE: std::ops::RangeInclusive<u64> = 4 << 10..=4 << 20;
/// The limit of all buffers of a path together, bytes; each connection has four.
const MAX_BUFFER_BYTES: u64 = 4 << 30;
/// The length of the longest host name, bytes (RFC 1035, section 2.3.4).
const NAME_BYTES: usize = 253;

/// Validates the proxy of `path`; returns `None` only if it reports a problem.
pub(super) fn proxy(
    spanned: &Spanned<ProxyTable>,
    path: &PathTable,
    ports: &[Option<RouterPort>],
    problems: &mut Vec<Problem>,
) -> Option<PathProxy> {
    let table = spanned.get_ref();
    let before = problems.len();
    let name = path.name.get_ref();
    let mut wrong = |message: String, help: &str| {
        problems.push(Problem::new(spanned.span(), message).help(help));
    };
    let protocol = path.r#match.protocol.as_ref().map(|text| text.get_ref().as_str());
    if !matches!(protocol, Some("tcp" | "6")) {
        let message = format!("path `{name}` has a `proxy` and matches more than TCP");
        wrong(message, "for example match = { protocol = \"tcp\", destination-port = 80 }");
    }
    for (key, given) in [("extension", path.extension.is_some()), ("to", path.to.is_some())] {
        if given {
            let message = format!("path `{name}` has both `{key}` and `proxy`");
            wrong(message, "take one out: a proxy routes packets to both ends of a connection");
        }
    }
    let classical = table.kind == ProxyKind::Classical;
    for (key, given) in [
        ("to", table.to.is_some()),
        ("hosts", !table.hosts.is_empty()),
        ("buffer", table.buffer.is_some()),
    ] {
        if given && !classical {
            wrong(
                format!("`{key}` of a transparent proxy"),
                "take it out: the client selects the server, and the proxy has no buffers",
            );
        }
    }
    if classical && table.to.is_none() && table.hosts.is_empty() {
        wrong(
            "a classical proxy without a server".to_owned(),
            "for example to = \"10.2.0.9:80\", or hosts = { \"a.example\" = \"10.2.0.9:80\" }",
        );
    }
    let server = |text: &Spanned<String>, problems: &mut Vec<Problem>| {
        let server: SocketAddr = parse_as(text, "an address and a port", "10.2.0.9:80", problems)?;
        let v6 = server.is_ipv6();
        let is_one = |port: &RouterPort| port.addresses.iter().any(|of| of.addr().is_ipv6() == v6);
        if server.port() == 0 || server.ip().is_unspecified() || server.ip().is_multicast() {
            let problem = Problem::new(text.span(), format!("no host can listen at {server}"));
            problems.push(problem.help("a host's address and a port, for example \"10.2.0.9:80\""));
        } else if ports.iter().all(Option::is_some) && !ports.iter().flatten().any(is_one) {
            let family = if v6 { "IPv6" } else { "IPv4" };
            let problem = Problem::new(
                text.span(),
                format!("the router has no {family} address for connections to {server}"),
            );
            problems.push(problem.help("give the egress port an `address`"));
        }
        Some(server)
    };
    let to = table.to.as_ref().and_then(|text| server(text, problems));
    let mut hosts = Vec::new();
    for (host, text) in &table.hosts {
        if let Some(server) = server(text, problems) {
            hosts.extend(pattern(host, problems).map(|host| (host, server)));
        }
    }
    let mut patterns = |list: &Option<Vec<Spanned<String>>>| -> Vec<HostPattern> {
        let list = list.iter().flatten();
        list.filter_map(|text| pattern(text, problems)).collect()
    };
    let (allow, deny) = (patterns(&table.allow), patterns(&table.deny));
    let connections = table.connections.as_ref();
    let connections =
        check_range(connections, CONNECTIONS, 1..=MAX_CONNECTIONS, "`connections`", problems);
    let each = table.host_connections.as_ref();
    let host_connections = check_range(
        each,
        HOST_CONNECTIONS.min(connections),
        1..=connections,
        "`host-connections`",
        problems,
    );
    let mut buffer_bytes = BUFFER_BYTES;
    if let Some(given) = &table.buffer {
        let bytes = given.get_ref().0;
        match u32::try_from(bytes).ok().filter(|_| BUFFER_RANGE.contains(&bytes)) {
            Some(bytes) => buffer_bytes = bytes,
            None => problems.push(
                Problem::new(given.span(), format!("a buffer of {bytes} bytes"))
                    .help("from \"4 KiB\" to \"4 MiB\""),
            ),
        }
    }
    let all = u64::from(connections) * u64::from(buffer_bytes) * 4;
    if classical && all > MAX_BUFFER_BYTES {
        let message = format!("{} MiB for the buffers of path `{name}`", all >> 20);
        let help = "fewer `connections`, or a smaller `buffer`; each connection has four";
        problems.push(Problem::new(spanned.span(), message).help(help));
    }
    let kind = table.kind;
    (problems.len() == before).then_some(PathProxy {
        kind,
        to,
        hosts,
        allow,
        deny,
        connections,
        host_connections,
        buffer_bytes,
    })
}

/// Parses a host name, or `*.` with a domain for all names below it.
fn pattern(text: &Spanned<String>, problems: &mut Vec<Problem>) -> Option<HostPattern> {
    let given = text.get_ref();
    let (name, is_wildcard) = match given.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (given.as_str(), false),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let ends = name.starts_with('.') || name.ends_with('.');
    if name.is_empty() || name.len() > NAME_BYTES || ends || !name.bytes().all(is_fit) {
        let problem = Problem::new(text.span(), format!("`{given}` is not a host name"));
        problems.push(
            problem.help("for example \"a.example\", or \"*.example\" for all names below it"),
        );
        return None;
    }
    Some(HostPattern { name: name.to_ascii_lowercase(), is_wildcard })
}
