//! Hundreds of streams under fair queueing: every structure against a scan, with gates, charges,
//! ties and idle times.

use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{Contract, Departure, Link, Packet, StreamId};

const STREAMS: u32 = 300;

/// Returns the departures of a random load on `structure`.
fn departures(name: &str, structure: StructureName, seed: u64) -> Vec<Departure> {
    let link = Link::new(8_000_000_000, 0);
    let row = DisciplineRow::parse(name).unwrap();
    let mut scheduler = row.build(&Options { link, ..Options::default() }, structure);
    let mut random = seed;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % bound
    };
    for number in 0..STREAMS {
        // With an even seed, weights and lengths are equal, so tags are often equal.
        let weight = if seed.is_multiple_of(2) { 1 } else { 1 + number * number % 1_009 };
        scheduler.add_stream(Contract::new().weight(weight).unwrap()).unwrap();
    }
    let mut now_ns = 0;
    let mut sent = Vec::new();
    for _ in 0..6_000 {
        let stream = StreamId(u32::try_from(below(u64::from(STREAMS))).unwrap());
        match below(40) {
            0 => {
                for number in 0..STREAMS {
                    let bytes = if seed.is_multiple_of(2) { 500 } else { 64 + below(1_400) };
                    let packet = Packet::new(u32::try_from(bytes).unwrap());
                    scheduler.enqueue(now_ns, StreamId(number), packet).unwrap();
                }
            }
            1..4 => scheduler.set_eligible(now_ns, stream, false),
            4..10 => scheduler.set_eligible(now_ns, stream, true),
            10 => {
                let bound = 1 << below(30);
                now_ns += below(bound);
            }
            11 => {
                if let Some(Departure { stream, .. }) = sent.last() {
                    let extra = i64::try_from(below(2_000)).unwrap() - 30;
                    scheduler.charge(now_ns, *stream, extra);
                }
            }
            _ => {
                for _ in 0..below(16) {
                    let Some(departure) = scheduler.decide(now_ns, &mut ()) else { break };
                    now_ns += link.transmission_ns(departure.bytes);
                    sent.push(departure);
                }
            }
        }
    }
    sent
}

#[test]
fn every_structure_equals_a_scan() {
    for name in ["wf2q+", "scfq", "sfq"] {
        for seed in 0..4 {
            let expected = departures(name, StructureName::Scan, seed);
            assert!(expected.len() > 20_000, "{name} {seed}: {}", expected.len());
            for structure in [StructureName::WinnerTree, StructureName::Calendar] {
                let found = departures(name, structure, seed);
                let differing = expected.iter().zip(&found).position(|(a, b)| a != b);
                assert_eq!((differing, found.len()), (None, expected.len()), "{name} {seed}");
            }
        }
    }
}
