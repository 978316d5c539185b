//! No frame makes the router's classification or its fast path panic, and the fast path changes
//! addresses, hops and IPv4's checksum only.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_router::live::{Classifier, Forwarder, Header, Hop, Routes};
use millstream_scenario::Match;

fuzz_target!(|frame: &[u8]| {
    if let Some(header) = Header::parse(frame) {
        let rule = Match { destination_port: Some(53), ..Match::default() };
        let _ = Classifier::new(vec![rule, Match::default()]).path(0, &header);
    }
    if let Some(header) = Header::parse_v6(frame) {
        let within = "2001:db8::/32".parse().ok();
        let rules = vec![Match { source: within, ..Match::default() }, Match::default()];
        let _ = Classifier::new(rules).path_v6(0, &header);
    }
    let mut routes = Routes::default();
    let hop = Hop { output: 0, from: [1; 6], to: [2; 6] };
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
});
