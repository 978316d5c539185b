//! Captured packets in queues by flow.

use etherparse::PacketBuilder;
use millstream::Departure;
use millstream_scenario::Scenario;
use millstream_sim::network::NetworkReport;
use millstream_sim::{Listener, link};
use millstream_traffic::FrameBytes;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

const US: u64 = 1_000;

/// The counts of departures, and the longest wait of packets of each length, µs.
#[derive(Debug, Default)]
struct Waits {
    departed: BTreeMap<(u32, &'static str), u64>,
    longest_us: BTreeMap<u32, u64>,
    marked: u64,
}

impl Listener for Waits {
    fn departed(&mut self, departure: &Departure, _: Option<&FrameBytes>) -> io::Result<()> {
        *self.departed.entry((departure.bytes, departure.event.name())).or_default() += 1;
        let waited_us = (departure.time_ns - departure.arrival_ns) / US;
        let longest_us = self.longest_us.entry(departure.bytes).or_default();
        *longest_us = waited_us.max(*longest_us);
        Ok(())
    }

    fn network(&mut self, report: NetworkReport) {
        self.marked = report.hops[0].marked;
    }
}

/// A packet of a capture: its time, µs, the host and port of its sender, its length, and its type
/// of service.
pub(crate) struct Captured {
    pub(crate) time_us: u64,
    pub(crate) from: (u8, u16),
    pub(crate) bytes: usize,
    pub(crate) service: u8,
}

/// Returns a capture of UDP packets that has the first 60 bytes of each.
pub(crate) fn capture(mut packets: Vec<Captured>) -> Vec<u8> {
    packets.sort_by_key(|packet| packet.time_us);
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 60, 1] {
        file.extend(word.to_le_bytes());
    }
    for Captured { time_us, from: (host, port), bytes, service } in packets {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let mut header = etherparse::Ipv4Header::new(0, 64, 17.into(), [10, 0, 0, host], [9; 4])
            .expect("no payload yet");
        header.dscp = (service >> 2).try_into().expect("six bits");
        header.ecn = (service & 3).try_into().expect("two bits");
        let packet = ethernet.ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
        let mut frame = Vec::new();
        packet.udp(port, 443).write(&mut frame, &vec![0; bytes - 42]).unwrap();
        let time_us = u32::try_from(time_us).unwrap();
        let (stored, length) = (frame.len().min(60), u32::try_from(frame.len()).unwrap());
        for word in [time_us / 1_000_000, time_us % 1_000_000, stored as u32, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&frame[..stored]);
    }
    file
}

/// Runs the capture on a link of 10 Mbit/s, in a stream with these keys.
fn run(packets: Vec<Captured>, keys: &str) -> Waits {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.pcap"), capture(packets)).unwrap();
    let text = format!(
        "[link]\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n[scheduler]\ndiscipline = \"fifo\"\n\
         [[stream]]\nname = \"all\"\n{keys}\nsource = {{ kind = \"pcap\", file = \"a.pcap\" }}\n"
    );
    let scenario = Scenario::parse("captured.toml", &text, Path::new(folder.path())).unwrap();
    let mut input = millstream_scenario::open(&scenario, false).unwrap();
    let mut waits = Waits::default();
    link::run(&scenario, input.feed.as_mut(), &mut waits).unwrap();
    waits
}

/// Four flows that send 200 packets of 1,500 bytes in 0.1 s, and a flow of 90 packets of 100 bytes,
/// each 10 ms.
fn sparse_beside_heavy(sparse: (u8, u16)) -> Vec<Captured> {
    let heavy = (0..800u16).map(|number| Captured {
        time_us: u64::from(number) * 125,
        from: (1, 1_000 + number % 4),
        bytes: 1_500,
        service: 0,
    });
    let sparse = (0..90).map(|number| Captured {
        time_us: number * 10_000,
        from: sparse,
        bytes: 100,
        service: 0,
    });
    heavy.chain(sparse).collect()
}

/// RFC 8290, section 3.1: a sparse flow passes the queues of the others. It waits for two packets
/// of 1.2 ms at most: that in transmission, and the next one, which was chosen before.
#[test]
fn a_sparse_flow_passes_heavy_ones() {
    let longest_us = |sparse, keys: &str| {
        let waits = run(sparse_beside_heavy(sparse), keys);
        assert_eq!(waits.departed, BTreeMap::from([((100, "sent"), 90), ((1_500, "sent"), 800)]));
        waits.longest_us[&100]
    };
    let (other_port, other_host) = ((1, 5_000), (2, 1_000));
    let by = |by: &str| format!("aqm = \"none\"\nflows = {{ by = \"{by}\" }}");
    assert_eq!(longest_us(other_port, ""), 860_800);
    assert_eq!(longest_us(other_port, &by("5-tuple")), 2_320);
    assert_eq!(longest_us(other_host, &by("source")), 2_320);
    // All packets have one source, one destination, one code point.
    assert_eq!(longest_us(other_port, &by("source")), 860_800);
    assert_eq!(longest_us(other_host, &by("destination")), 860_800);
    assert_eq!(longest_us(other_host, &by("dscp")), 860_800);
}

/// A host with one flow gets as much as another with four. At 10 Mbit/s 1,000 packets of 1.2 ms are
/// sent in 1.2 s: its 200 packets within 0.48 s, and with 1/5 of the link at the end.
#[test]
fn hosts_of_captured_packets_share_equally() {
    let longest_us = |keys: &str| {
        let packets = (0..1_000u16).map(|number| Captured {
            time_us: u64::from(number),
            from: if number % 5 == 0 { (2, 9) } else { (1, number % 5) },
            bytes: if number % 5 == 0 { 1_499 } else { 1_500 },
            service: 0,
        });
        let waits = run(packets.collect(), keys);
        (waits.longest_us[&1_499], waits.longest_us[&1_500])
    };
    let keys = |rest: &str| format!("aqm = \"none\"\nflows = {{ {rest} }}");
    assert_eq!(longest_us(&keys("hosts = \"source\"")), (476_445, 1_197_641));
    // All packets have one destination.
    assert_eq!(longest_us(&keys("hosts = \"destination\"")), (1_192_845, 1_197_641));
    assert_eq!(longest_us(&keys("")), (1_192_845, 1_197_641));
}

/// CoDel marks the packets of a flow with ECT(0) and drops those of another.
#[test]
fn the_ecn_field_of_captured_packets_decides_on_marks() {
    let packets = (0..2_000u16).map(|number| Captured {
        time_us: u64::from(number) * 500,
        from: (1, number % 2),
        bytes: if number % 2 == 0 { 1_499 } else { 1_500 },
        service: if number % 2 == 0 { 2 } else { 0 },
    });
    let waits = run(packets.collect(), "flows = {}");
    assert_eq!(waits.marked, 131);
    let expected =
        [((1_499, "sent"), 1_000), ((1_500, "dropped-aqm"), 116), ((1_500, "sent"), 884)];
    assert_eq!(waits.departed, BTreeMap::from(expected));
}
