//! No frame makes classification, filters or the fast path panic. The fast path changes only
//! addresses, hop limit and IPv4 checksum. A VLAN tag that is removed is restored unchanged.

use millstream_router::live::{Classifier, Filters, Forwarder, Header, NextHop, Pool, Routes};
use millstream_router::{PathId, PortId};
use millstream_scenario::{Match, RouterScenario};
use std::path::Path;

use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "packet",
    first_parser: "an IPv4 or IPv6 header",
    seeds: frames,
    words: super::machine::WORDS,
    mutate: Mutation::frame,
    admits: Some(super::machine::is_ip),
    run,
};

fn frames() -> Vec<Vec<u8>> {
    let frames = seeds::frames(60).into_iter().chain(super::machine::frames());
    frames.filter(|frame| super::machine::is_ip(frame)).collect()
}

/// Filters with lengths, offsets and divisors taken from the packet.
const FILE: &str = r#"
[router]
[[port]]
name = "a"
kind = "tap"
rate = "1 Gbps"
address = "10.0.0.1/24"
[[path]]
name = "ports"
[path.match]
destination-port = 53
filter = "tcp port 80 and not host 10.0.0.9 or udp portrange 5000-6000"
[[path]]
name = "offsets"
match = { filter = "ip[ip[2:2] - 4:4] = 0xdeadbeef or tcp[tcp[12] >> 2:2] & 0xff != 0" }
[[path]]
name = "divisors"
match = { filter = "ip[2:2] / ip[9] > 4 or ip[4:2] % ip[8] = 3 or greater 1500" }
[[path]]
name = "other kinds"
match = { filter = "vlan and ip6 or arp or icmp[icmptype] = icmp-echo or pppoes or mpls" }
"#;

thread_local! {
    static CLASSIFIER: Classifier = {
        let scenario = RouterScenario::parse("fuzz.toml", FILE, Path::new("")).expect("a scenario");
        let rules = scenario.paths.iter().map(|path| path.matches).collect();
        Classifier::new(rules).with_filters(Filters::load(&scenario).expect("a valid scenario"))
    };
}

fn run(frame: &[u8]) -> bool {
    let mut pool = Pool::new(1);
    let tag = pool.copy(frame).and_then(|packet| {
        assert_eq!(pool.wire(packet), frame);
        let tag = Pool::tag(packet);
        assert_eq!(pool.frame(packet).len() + tag.map_or(0, |_| 4), frame.len());
        tag
    });
    if let Some(header) = Header::parse(frame) {
        let rule = Match { pcp: Some(5), vlan: Some(10), ..Match::default() };
        let path = Classifier::new(vec![rule]).path(PortId(0), &Header { tag, ..header }, frame);
        assert!(path.is_none() || tag.is_some());
        let rule = Match { destination_port: Some(53), ..Match::default() };
        let plain = Classifier::new(vec![rule, Match::default()]).path(PortId(0), &header, frame);
        let path = CLASSIFIER.with(|classifier| classifier.path(PortId(0), &header, frame));
        assert!(
            path != Some(PathId(0)) || plain == Some(PathId(0)),
            "a filter replaced the other keys of its match"
        );
    }
    if let Some(header) = Header::parse_v6(frame) {
        let within = "2001:db8::/32".parse().ok();
        let rules = vec![Match { source: within, ..Match::default() }, Match::default()];
        let _ = Classifier::new(rules).path_v6(PortId(0), &header, frame);
    }
    let mut routes = Routes::default();
    let hop = NextHop { output: PortId(0), from: [1; 6], to: [2; 6] };
    routes.add("0.0.0.0/0".parse().expect("a prefix"), hop);
    routes.add("::/0".parse().expect("a prefix"), hop);
    let mut sent = frame.to_vec();
    if Forwarder::new(routes).forward(&mut sent).is_none() {
        assert_eq!(sent, frame);
    } else if frame[12..14] == [0x86, 0xdd] {
        assert_eq!(sent[12..21], frame[12..21]);
        assert_eq!(sent[22..], frame[22..]);
        assert_eq!(sent[21] + 1, frame[21]);
    } else {
        assert_eq!(sent[12..22], frame[12..22]);
        assert_eq!(sent[23], frame[23]);
        assert_eq!(sent[26..], frame[26..]);
        assert_eq!(sent[22] + 1, frame[22]);
    }
    super::machine::is_ip(frame)
}
