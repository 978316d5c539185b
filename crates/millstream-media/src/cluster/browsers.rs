//! Browsers in a cluster: the origins of the members' pages, and the members where a viewer can
//! play on.
//!
//! Every server tells the others at which origin browsers reach it. A page of any member may send
//! requests to every other one, also when the page's own server is dead: the origin of a dead
//! member stays known.

use millstream_scenario::is_origin;
use std::net::{IpAddr, SocketAddr};

use super::{Cluster, Member, weight};
use crate::files::library::Library;
use crate::rtsp::session::Sessions;

/// The most members that a response names to a viewer.
const MAX_ALTERNATES: usize = 8;

/// Returns the origin at which browsers reach a server that listens for them at `webrtc`, over TLS
/// if `tls`. `given` is the scenario's. `public` is the address at which clients reach the server,
/// in place of a wildcard address. `None`: browsers on other hosts cannot reach it.
pub(crate) fn own_origin(
    webrtc: SocketAddr,
    tls: bool,
    given: Option<&str>,
    public: IpAddr,
) -> Option<String> {
    if let Some(given) = given {
        return Some(given.to_owned());
    }
    if webrtc.ip().is_loopback() && !public.is_loopback() {
        return None;
    }
    let ip = if webrtc.ip().is_unspecified() { public } else { webrtc.ip() };
    let (scheme, default_port) = if tls { ("https", 443) } else { ("http", 80) };
    let authority = match SocketAddr::new(ip, webrtc.port()) {
        address if address.port() != default_port => address.to_string(),
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    Some(format!("{scheme}://{authority}")).filter(|origin| is_origin(origin))
}

/// Reads the end of a status message, with the origin of its sender's pages. A server without
/// WebRTC sends none, and an earlier version sends no such end.
pub(super) fn parse_origin(rest: &[u8]) -> Option<String> {
    let origin = postcard::from_bytes::<Option<&str>>(rest).ok()??;
    is_origin(origin).then(|| origin.to_owned())
}

/// Returns whether a server with pages at `own` names an origin to viewers. The URLs of their
/// requests contain tokens, so a server with TLS names members with TLS only. The members refuse
/// the pages of a server without an origin, so it names none.
fn names(own: Option<&str>, origin: &str) -> bool {
    own.is_some_and(|own| own.starts_with("http:") || origin.starts_with("https:"))
}

impl Cluster {
    /// Returns the origin of this server's pages, if browsers reach it.
    pub(crate) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Returns the origins of the other members' pages, also of dead members.
    pub(crate) fn other_origins(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter_map(|member| member.origin.as_deref())
    }

    /// Returns the origins of the other members that are alive, for a client at `peer` that plays
    /// `title`: those with room first. Each client has an order of its own, so that the clients of
    /// a dead server spread over the others.
    pub(crate) fn alternates(&self, title: Option<usize>, peer: IpAddr) -> Vec<&str> {
        let there = self.members.iter().filter(|member| member.alive);
        let mut there: Vec<_> = there
            .filter_map(|member| {
                let status = member.status.as_ref()?;
                let free = title.and_then(|title| status.free_sessions.get(title));
                let is_full = free.is_some_and(|free| *free == 0);
                let key = (is_full, weight(&peer.to_string(), member.address));
                Some((key, member.origin.as_deref().filter(|origin| names(self.origin(), origin))?))
            })
            .collect();
        there.sort_unstable();
        there.into_iter().map(|(_, origin)| origin).take(MAX_ALTERNATES).collect()
    }

    /// Returns the origin to which a new viewer of `title` is redirected: that of the server with
    /// the most spare capacity among those with WebRTC, if it has more than this server.
    pub(crate) fn redirect_origin(
        &mut self,
        library: &Library,
        sessions: &mut Sessions,
        title: usize,
    ) -> Option<String> {
        let own = self.origin.clone();
        let is_named = |member: &Member| {
            member.origin.as_deref().is_some_and(|origin| names(own.as_deref(), origin))
        };
        let best = self.take_place(library, sessions, title, false, is_named)?;
        best.origin.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Status, fuzzing};
    use super::*;

    #[test]
    fn the_own_origin_follows_from_the_address() {
        let public = IpAddr::from([192, 0, 2, 1]);
        for (webrtc, tls, origin) in [
            ("10.0.0.1:8889", false, "http://10.0.0.1:8889"),
            ("10.0.0.1:8889", true, "https://10.0.0.1:8889"),
            ("10.0.0.1:80", false, "http://10.0.0.1"),
            ("10.0.0.1:80", true, "https://10.0.0.1:80"),
            ("[2001:db8::1]:8889", false, "http://[2001:db8::1]:8889"),
            ("[2001:db8::1]:443", true, "https://[2001:db8::1]"),
            ("0.0.0.0:8889", false, "http://192.0.2.1:8889"),
            ("[::]:8889", false, "http://192.0.2.1:8889"),
        ] {
            let found = own_origin(webrtc.parse().unwrap(), tls, None, public);
            assert_eq!(found.as_deref(), Some(origin), "{webrtc}");
        }
        let loopback = "127.0.0.1:8889".parse().unwrap();
        assert_eq!(own_origin(loopback, false, None, public), None);
        let found = own_origin(loopback, false, None, loopback.ip());
        assert_eq!(found.as_deref(), Some("http://127.0.0.1:8889"));
        let given = Some("https://media1.example.org");
        let found = own_origin("0.0.0.0:443".parse().unwrap(), true, given, public);
        assert_eq!(found.as_deref(), given);
    }

    fn status(free: u32) -> Status {
        Status {
            catalogue: [7; 32],
            rtsp: SocketAddr::from(([127, 0, 0, 2], 554)),
            rounds: 1,
            free_sessions: vec![free],
        }
    }

    #[test]
    fn members_of_either_version_read_each_others_status() {
        let mut buffer = [0; 300];
        let mut member = fuzzing::server().members.remove(0);
        member.origin = Some("http://before".to_owned());
        let earlier = postcard::to_slice(&status(3), &mut buffer).unwrap();
        member.take_status(earlier, [7; 32]);
        assert_eq!((&member.origin, member.status.is_some()), (&None, true));
        let later = (status(3), Some("http://a:1"));
        let later = postcard::to_slice(&later, &mut buffer).unwrap();
        assert_eq!(postcard::from_bytes::<Status>(later).unwrap().free_sessions, [3]);
        member.take_status(later, [7; 32]);
        assert_eq!(member.origin.as_deref(), Some("http://a:1"));
        // A member with other streams shares nothing.
        member.take_status(later, [8; 32]);
        assert_eq!((member.origin, member.status.is_some()), (None, false));
    }

    #[test]
    fn members_with_room_are_named_first_and_dead_ones_not() {
        let mut cluster = fuzzing::server();
        for (member, origin) in cluster.members.iter_mut().zip(["http://a", "http://b"]) {
            (member.alive, member.origin) = (true, Some(origin.to_owned()));
        }
        let named = |cluster: &mut Cluster, free: [u32; 2]| {
            for (member, free) in cluster.members.iter_mut().zip(free) {
                member.status = Some(status(free));
            }
            let clients = (1..=9).map(|host| IpAddr::from([10, 0, 0, host]));
            let mut orders: Vec<String> =
                clients.map(|peer| cluster.alternates(Some(0), peer).join(" ")).collect();
            orders.sort_unstable();
            orders.dedup();
            orders
        };
        assert_eq!(named(&mut cluster, [0, 1]), ["http://b http://a"]);
        assert_eq!(named(&mut cluster, [1, 0]), ["http://a http://b"]);
        // Clients differ in their order.
        assert_eq!(named(&mut cluster, [1, 1]), ["http://a http://b", "http://b http://a"]);
        cluster.members[0].alive = false;
        assert_eq!(named(&mut cluster, [1, 1]), ["http://b"]);
        assert_eq!(cluster.other_origins().collect::<Vec<_>>(), ["http://a", "http://b"]);
        cluster.members[1].origin = None;
        assert_eq!(named(&mut cluster, [1, 1]), [""]);
    }

    #[test]
    fn a_server_with_tls_names_members_with_tls_only() {
        let mut cluster = fuzzing::server();
        let origins = ["http://a", "https://b"];
        for (member, origin) in cluster.members.iter_mut().zip(origins) {
            (member.alive, member.status) = (true, Some(status(2)));
            member.origin = Some(origin.to_owned());
        }
        for (own, named) in [
            (None, &[][..]),
            (Some("http://me"), &origins[..]),
            (Some("https://me"), &origins[1..]),
        ] {
            cluster.origin = own.map(ToOwned::to_owned);
            let mut found = cluster.alternates(Some(0), IpAddr::from([10, 0, 0, 1]));
            found.sort_unstable();
            assert_eq!(found, named, "{own:?}");
        }
    }

    #[test]
    fn only_origins_are_read_from_a_status() {
        let plain = |origin: Option<&str>| {
            let mut buffer = [0; 300];
            postcard::to_slice(&origin, &mut buffer).unwrap().to_vec()
        };
        assert_eq!(parse_origin(&plain(Some("http://a:1"))).as_deref(), Some("http://a:1"));
        // A later version may append more.
        let longer = [plain(Some("http://a:1")), vec![7]].concat();
        assert_eq!(parse_origin(&longer).as_deref(), Some("http://a:1"));
        for rest in [
            Vec::new(),
            plain(None),
            plain(Some("http://a:1/")),
            plain(Some("http://a;b")),
            vec![1, 200],
            vec![1, 1, 0xff],
            vec![9],
        ] {
            assert_eq!(parse_origin(&rest), None, "{rest:?}");
        }
    }
}
