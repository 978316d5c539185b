//! Filters accept exactly the frames that libpcap accepts for an expression. Invalid and unbounded
//! expressions are refused by name.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use millstream_router::live::{BUFFER_BYTES, Classifier, Filters, Header};
use millstream_router::{PathId, PortId};
use millstream_scenario::{Match, RouterScenario};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;

const EXPRESSIONS: [&str; 16] = [
    "tcp port 80 and not host 10.0.0.9",
    "udp",
    "icmp[icmptype] = icmp-echo",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "src net 10.0.0.0/24 and dst net 10.2.0.0/16",
    "ip[6:2] & 0x1fff != 0",
    "ip[8] < 5 or ip[1] & 0xfc != 0",
    "portrange 1-1023",
    "greater 200",
    "ether[100:4] != 0 or ip[ip[0] % 7] = 3",
    "ip[2:2] / ip[9] > 4",
    "vlan 12 or ip6 or arp",
    "tcp port 80 and not host 10.0.0.9 or udp portrange 5000-6000",
    "ip[ip[2:2] - 4:4] = 0xdeadbeef or tcp[tcp[12] >> 2:2] & 0xff != 0",
    "ip[2:2] / ip[9] > 4 or ip[4:2] % ip[8] = 3 or greater 1500",
    "vlan and ip6 or arp or icmp[icmptype] = icmp-echo or pppoes or mpls",
];

/// Returns a scenario with one path per filter.
fn scenario(filters: &[&str]) -> RouterScenario {
    let mut text = "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbps\"\n\
                    address = \"10.1.0.1/24\"\n"
        .to_owned();
    for (path, filter) in filters.iter().enumerate() {
        text += &format!("[[path]]\nname = \"{path}\"\nmatch = {{ filter = '{filter}' }}\n");
    }
    RouterScenario::parse("test.toml", &text, Path::new("")).unwrap()
}

/// Returns a classifier with one filter.
fn classifier(filter: &str) -> Classifier {
    let filters = Filters::load(&scenario(&[filter])).unwrap();
    Classifier::new(vec![Match::default()]).with_filters(filters)
}

fn corpus() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for host in [1, 9] {
        let ip =
            || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, host], [10, 2, 0, host], 4);
        let mut write = |make: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = Vec::new();
            make(&mut frame);
            frames.push(frame);
        };
        for port in [53, 80, 4_000] {
            write(&|frame| ip().tcp(40_000, port, 1, 1).write(frame, &[3; 300]).unwrap());
            write(&|frame| ip().tcp(port, 40_000, 1, 1).syn().write(frame, &[]).unwrap());
            write(&|frame| ip().udp(40_000, port).write(frame, &[1; 30]).unwrap());
        }
        write(&|frame| ip().icmpv4_echo_request(1, 1).write(frame, &[7; 40]).unwrap());
    }
    // A fragment, options, a length beyond the frame, a truncated header.
    for (at, bytes) in [(20, [0x20, 5]), (14, [0x48, 0]), (16, [0xff, 0xff]), (14, [0x4f, 0x44])] {
        let mut frame = frames[0].clone();
        frame[at..at + 2].copy_from_slice(&bytes);
        frames.push(frame);
    }
    for frame in frames.clone() {
        frames.extend([14, 34, 38, 50].map(|length| frame[..length.min(frame.len())].to_vec()));
    }
    frames.push(vec![0xff; BUFFER_BYTES]);
    frames
}

/// Returns whether each frame passes libpcap's filter on a capture file.
fn passed(folder: &TempDir, expression: &str, frames: &[Vec<u8>]) -> Vec<bool> {
    let file = folder.path().join("frames.pcap");
    let dead = pcap::Capture::dead(pcap::Linktype::ETHERNET).unwrap();
    let mut out = dead.savefile(&file).unwrap();
    for (at, frame) in frames.iter().enumerate() {
        let len = u32::try_from(frame.len()).unwrap();
        let ts = libc::timeval { tv_sec: i64::try_from(at).unwrap(), tv_usec: 0 };
        out.write(&pcap::Packet::new(&pcap::PacketHeader { ts, caplen: len, len }, frame));
    }
    drop(out);
    let mut capture = pcap::Capture::from_file(&file).unwrap();
    capture.filter(expression, false).unwrap();
    let mut passed = vec![false; frames.len()];
    while let Ok(packet) = capture.next_packet() {
        passed[usize::try_from(packet.header.ts.tv_sec).unwrap()] = true;
    }
    passed
}

fn agree(frames: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let folder = TempDir::new().unwrap();
    for expression in EXPRESSIONS {
        let classifier = classifier(expression);
        for (frame, passed) in frames.iter().zip(passed(&folder, expression, frames)) {
            if let Some(header) = Header::parse(frame) {
                let path = classifier.path(PortId(0), &header, frame);
                prop_assert_eq!(path, passed.then_some(PathId(0)), "{} of {:?}", expression, frame);
            }
        }
    }
    Ok(())
}

#[test]
fn filters_accept_the_frames_that_libpcap_accepts() {
    let frames = corpus();
    agree(&frames).unwrap();
    // Guards against a filter that accepts nothing.
    let web = classifier(EXPRESSIONS[0]);
    let mut held = 0;
    for frame in &frames {
        let Some(header) = Header::parse(frame) else { continue };
        let Ok(sliced) = SlicedPacket::from_ethernet(frame) else { continue };
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else { continue };
        let hosts = [ip.header().source(), ip.header().destination()];
        let is = match sliced.transport {
            Some(TransportSlice::Tcp(tcp)) => {
                [tcp.source_port(), tcp.destination_port()].contains(&80)
                    && !hosts.contains(&[10, 0, 0, 9])
            }
            _ => false,
        };
        assert_eq!(web.path(PortId(0), &header, frame).is_some(), is, "{frame:?}");
        held += usize::from(is);
    }
    assert!(held > 1);
}

#[test]
fn a_filter_adds_to_the_other_match_keys_and_the_first_matching_path_counts() {
    let filters = ["dst port 80", "udp", "host 10.0.0.9", "ip"];
    let filters = Filters::load(&scenario(&filters)).unwrap();
    let rule = |protocol| Match { protocol, ..Match::default() };
    let rules = vec![rule(Some(17)), rule(None), rule(Some(6)), rule(None)];
    let classifier = Classifier::new(rules).with_filters(filters);
    for (tcp, host, port, path) in
        [(false, 1, 80, 0), (false, 9, 81, 1), (true, 9, 80, 2), (true, 1, 80, 3)]
    {
        let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, host], [10, 2, 0, 1], 4);
        let mut frame = Vec::new();
        if tcp {
            ip.tcp(9, port, 1, 1).write(&mut frame, &[]).unwrap();
        } else {
            ip.udp(9, port).write(&mut frame, &[]).unwrap();
        }
        let header = Header::parse(&frame).unwrap();
        assert_eq!(
            classifier.path(PortId(0), &header, &frame),
            Some(PathId(path)),
            "{tcp} {host} {port}"
        );
    }
}

#[test]
fn invalid_and_unbounded_filters_are_refused_by_name() {
    let ports = |many: u32| (0..many).map(|k| format!("port {k}")).collect::<Vec<_>>().join(" or ");
    let (long, half) = (ports(220), ports(70));
    let refused = |filters: &[&str]| {
        let error = Filters::load(&scenario(filters)).unwrap_err();
        format!("{error}; {}", error.help.as_ref().unwrap())
    };
    for (filter, message) in [
        ("tcp prot 80", "syntax error"),
        ("port 65536", "65536"),
        ("udp and tcp", "expression rejects all packets"),
        ("ip protochain 6", "loops over headers"),
        ("inbound", "reads kernel metadata"),
        (&long, "instructions; at most 1024"),
    ] {
        let error = refused(&["udp", filter]);
        let named = format!("path `1`: `match`, `filter` = \"{}", &filter[..filter.len().min(60)]);
        assert!(error.contains(&named) && error.contains(message), "{filter}: {error}");
    }
    let error = refused(&[half.as_str(); 24]);
    assert!(error.contains("and 4096 in all"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn filters_accept_mutated_frames_as_libpcap_does(
        picks in vec(
            (any::<prop::sample::Index>(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)),
            1..60,
        ),
    ) {
        let corpus = corpus();
        let frames = picks.into_iter().map(|(pick, changes)| {
            let mut frame = pick.get(&corpus).clone();
            for (at, to) in changes {
                let at = at.index(frame.len());
                frame[at] = to;
            }
            frame
        });
        agree(&frames.collect::<Vec<_>>())?;
    }
}
