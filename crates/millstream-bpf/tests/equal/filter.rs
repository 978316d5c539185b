//! The C interpreter of filters equals that of libpcap, frame by frame.

use millstream_bpf::{MAX_FILTER_INSTRUCTIONS, compile_filter, native_filter};
use millstream_scenario::FilterError;
use pcap::{Capture, Linktype};
use proptest::collection::vec;
use proptest::prelude::*;

/// Expressions with all kinds of instructions that libpcap's compiler writes for Ethernet.
const EXPRESSIONS: [&str; 16] = [
    "udp",
    "tcp port 80 and not host 10.0.0.9",
    "ip6 and udp dst portrange 5000-6000",
    "net 10.1.0.0/16 or net fd00::/8",
    "ether[0] & 1 = 0 and ip[0] & 0xf != 5",
    "greater 100",
    "len <= 60",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "udp[8:4] = 0x1020304",
    "ip[2:2] * 3 + 7 > 500",
    "(ip[8] - 1) * 4 / (ip[9] & 3) = 8",
    "ip[ip[9] & 7] % (ip[1] & 3) = 1",
    "ip[4:2] << (ip[9] & 63) > 9 or ip[6:2] >> 3 = 2",
    "ip[1] ^ ip[9] = 17 or ip[1] | ip[9] = 255",
    "-ip[1] = 0xffffffff",
    "vlan 3 and ip or mpls",
];

/// Ethernet frames: IPv4, IPv6 or anything, of any length.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just([8_u8, 0]), Just([0x86, 0xdd]), Just([0x81, 0]), any::<[u8; 2]>()];
    let first = prop_oneof![Just(0x45_u8), Just(0x46), Just(0x60), any::<u8>()];
    let protocol = prop_oneof![Just(6_u8), Just(17), any::<u8>()];
    (vec(prop_oneof![0..20_u8, any::<u8>()], 0..120), kind, first, protocol).prop_map(
        |(mut bytes, kind, first, protocol)| {
            // The kind of frame, the first byte, and the protocols of IPv4 and IPv6.
            let known = [(12, kind[0]), (13, kind[1]), (14, first), (23, protocol), (20, protocol)];
            for (at, byte) in known {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_interpreter_equals_that_of_libpcap(frames in vec(frame(), 20), port in 0..9_000_u16) {
        let dead = Capture::dead(Linktype::ETHERNET).unwrap();
        let port = format!("udp port {port} or tcp src port {port}");
        for expression in EXPRESSIONS.into_iter().chain([port.as_str()]) {
            let program = compile_filter(expression).unwrap();
            let reference = dead.compile(expression, true).unwrap();
            for frame in &frames {
                let (native, reference) = (native_filter(&program, frame), reference.filter(frame));
                prop_assert_eq!(native, reference, "{} of {:?}", expression, frame);
            }
        }
    }
}

#[test]
fn a_filter_that_the_qdisc_cannot_run_is_refused() {
    assert!(matches!(compile_filter("udp prot 5"), Err(FilterError::Expression(_))));
    assert_eq!(compile_filter("ip6 protochain 6"), Err(FilterError::Loop));
    assert_eq!(compile_filter("inbound"), Err(FilterError::Metadata));
    let hosts = (0..200).map(|host| format!("host 10.9.0.{host}"));
    let long = compile_filter(&hosts.collect::<Vec<_>>().join(" or "));
    let Err(FilterError::Long(count)) = long else { panic!("{long:?}") };
    assert!(count > MAX_FILTER_INSTRUCTIONS, "{count}");
}
