//! No frame makes the router's classification or its fast path panic, and the fast path changes
//! addresses, hops and checksum only.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_router::live::{Classifier, Forwarder, Header, Hop, Routes};
use millstream_scenario::Match;

fuzz_target!(|frame: &[u8]| {
    if let Some(header) = Header::parse(frame) {
        let rule = Match { destination_port: Some(53), ..Match::default() };
        let _ = Classifier::new(vec![rule, Match::default()]).path(0, &header, frame);
    }
    let mut routes = Routes::default();
    let hop = Hop { output: 0, from: [1; 6], to: [2; 6] };
    routes.add("0.0.0.0/0".parse().expect("a prefix"), hop);
    let mut sent = frame.to_vec();
    if Forwarder::new(routes).forward(&mut sent).is_some() {
        assert_eq!(sent[12..22], frame[12..22]);
        assert_eq!(sent[23], frame[23]);
        assert_eq!(sent[26..], frame[26..]);
        assert_eq!(sent[22] + 1, frame[22]);
    }
});
