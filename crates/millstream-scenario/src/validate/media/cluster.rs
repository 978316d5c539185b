//! Validation of the cluster of media servers: the rules that types cannot express.

use std::net::SocketAddr;
use toml::Spanned;

use super::{address, check_range, value_and_span};
use crate::error::Problem;
use crate::file::media::{ClusterTable, MediaTable};
use crate::media::Cluster;
use crate::origin::is_origin;

/// The largest number of servers in a cluster.
const MAX_MEMBERS: usize = 32;

/// Validates the table in `media`; `rtsp` is the address of this server's RTSP listener.
pub(super) fn cluster(
    table: &ClusterTable,
    media: &MediaTable,
    rtsp: SocketAddr,
    problems: &mut Vec<Problem>,
) -> Option<Cluster> {
    let before = problems.len();
    let listen = address(Some(&table.listen), problems);
    let definite = |address: &SocketAddr| !address.ip().is_unspecified() && address.port() != 0;
    if listen.is_some_and(|listen| !definite(&listen)) {
        let message = format!(
            "`listen` = {} does not identify this server for the others",
            table.listen.get_ref()
        );
        let help = "one address of this host and a port, for example \"10.0.0.1:7946\"";
        problems.push(Problem::new(table.listen.span(), message).help(help));
    }
    let mut others: Vec<SocketAddr> = Vec::new();
    for member in table.members.get_ref() {
        let Some(at) = address(Some(member), problems) else { continue };
        if !definite(&at) || others.contains(&at) {
            let message =
                format!("member {at} is not the address of a single server, or is listed twice");
            let help = "each server's `listen` once, for example \"10.0.0.2:7946\"";
            problems.push(Problem::new(member.span(), message).help(help));
        } else if Some(at) != listen {
            others.push(at);
        }
    }
    if others.is_empty() || others.len() >= MAX_MEMBERS {
        let message = format!("a cluster of {} other servers", others.len());
        let help = format!("from 1 to {} besides this one in `members`", MAX_MEMBERS - 1);
        problems.push(Problem::new(table.members.span(), message).help(help));
    }
    let public = address(table.address.as_ref(), problems);
    if public.unwrap_or(rtsp).ip().is_unspecified() || public.is_some_and(|at| !definite(&at)) {
        let at = table.address.as_ref().map_or(table.listen.span(), Spanned::span);
        let message = "other servers cannot redirect clients to an unspecified address";
        let help =
            "`address` = one address of this host and its RTSP port, for example \"10.0.0.1:8554\"";
        problems.push(Problem::new(at, message).help(help));
    }
    if let Some(origin) = &table.origin {
        check_origin(origin, media, problems);
    }
    let dead_after = value_and_span(&table.dead_after, |time| time.0);
    let dead_after =
        check_range(dead_after, "`dead-after`", 200_000_000..=60_000_000_000, " ns", problems);
    (problems.len() == before).then_some(())?;
    Some(Cluster {
        listen: listen?,
        others,
        secret: table.secret.clone().into(),
        address: public,
        origin: table.origin.as_ref().map(|origin| origin.get_ref().clone()),
        dead_after_ns: dead_after.unwrap_or(1_000_000_000),
    })
}

/// Checks that browsers can open pages of this origin at the server.
fn check_origin(origin: &Spanned<String>, media: &MediaTable, problems: &mut Vec<Problem>) {
    if media.webrtc.is_none() {
        let message = "`origin` names the pages of `webrtc`, which the server does not have";
        let help = "add `webrtc` to [media], or remove the key";
        problems.push(Problem::new(origin.span(), message).help(help));
    }
    let (scheme, has) = if media.tls.is_some() { ("https", "has") } else { ("http", "has no") };
    let text = origin.get_ref();
    if !is_origin(text) || !text.starts_with(&format!("{scheme}://")) {
        let message = format!("`origin` = \"{text}\" is not an origin of this server");
        let help = format!(
            "scheme, host and port as browsers show them, without a path, for example \
             \"{scheme}://media1.example.org:8889\": the server {has} `tls`"
        );
        problems.push(Problem::new(origin.span(), message).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use crate::Cluster;

    const LISTEN: &str = "[media.cluster]\nlisten = \"10.0.0.1:7946\"\nsecret = \"s\"\n";

    #[test]
    fn members_may_include_the_server_itself() {
        let media = parse(&format!(
            "[media]\nwebrtc = \"10.0.0.1:80\"\n{LISTEN}\
             members = [\"10.0.0.1:7946\", \"10.0.0.2:7946\"]\naddress \
             = \"10.0.0.1:8554\"\norigin = \"http://a.example\"\n\
             dead-after = \"2 s\""
        ));
        let expected = Cluster {
            listen: "10.0.0.1:7946".parse().unwrap(),
            others: vec!["10.0.0.2:7946".parse().unwrap()],
            secret: "s".into(),
            address: Some("10.0.0.1:8554".parse().unwrap()),
            origin: Some("http://a.example".to_owned()),
            dead_after_ns: 2_000_000_000,
        };
        assert_eq!(media.unwrap().cluster, Some(expected));
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        let two = "members = [\"10.0.0.2:7946\"]";
        for (text, parts) in [
            (format!("{LISTEN}members = [\"10.0.0.1:7946\"]"), ["0 other servers", "from 1 to 31"]),
            (format!("{LISTEN}members = [\"b\"]"), ["`b` is not an address", "127.0.0.1"]),
            (
                format!("{LISTEN}members = [\"10.0.0.2:1\", \"10.0.0.2:1\"]"),
                ["10.0.0.2:1", "twice"],
            ),
            (
                format!("{LISTEN}{two}\norigin = \"https://a.example\""),
                ["\"https://a.example\" is not an origin", "add `webrtc`"],
            ),
            (
                format!("{LISTEN}{two}\norigin = \"http://a.example/\""),
                [
                    "\"http://a.example/\"",
                    "http://media1.example.org:8889\": the server has no `tls`",
                ],
            ),
            (format!("{LISTEN}{two}\ndead-after = \"1 ms\""), ["`dead-after`", "from 200000000"]),
            (
                format!("[media]\nlisten = \"0.0.0.0:8554\"\n{LISTEN}{two}"),
                ["an unspecified address", "`address` ="],
            ),
            (
                format!("[media.cluster]\nlisten = \"0.0.0.0:7\"\nsecret = \"s\"\n{two}"),
                ["does not identify this server", "10.0.0.1:7946"],
            ),
            (format!("[media.cluster]\nlisten = \"10.0.0.1:7\"\n{two}"), ["secret", "missing"]),
        ] {
            let error = parse(&text).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }
}
