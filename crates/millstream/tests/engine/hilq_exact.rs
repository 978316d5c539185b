//! `hilq-exact` equals `scan`, packet for packet: overload, drops, sparse arrivals, huge gaps,
//! ties, closed gates, and time near its end.

use crate::support::duel::{Choose, duel};
use crate::support::{Random, scaled};
use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{Contract, Packet, StreamId};

#[test]
fn random_lives_equal_those_of_a_scan() {
    for seed in 0..u64::from(scaled(30_000)) {
        duel(&mut Random(seed), 60);
    }
}

/// These runs are long enough for the ring to be rearranged, to grow and to fall behind.
#[test]
fn long_lives_equal_those_of_a_scan() {
    for seed in 0..u64::from(scaled(25)) {
        duel(&mut Random(1 << 40 | seed), 20_000);
    }
}

/// Removes and reinserts many of the streams of one deadline before a decision.
#[test]
fn gates_that_close_in_a_crowd_leave_the_schedule_that_of_a_scan() {
    for seed in 0..200 {
        let mut random = Random(2 << 40 | seed);
        let row = DisciplineRow::parse("dwcs").expect("in the catalogue");
        let build = |structure| -> Box<dyn DynScheduler + Send> {
            row.build(&Options::default(), structure)
        };
        let mut pair = [build(StructureName::Scan), build(StructureName::HilqExact)];
        for scheduler in &mut pair {
            for stream in 0..200 {
                let contract = Contract::new().period_ns(1000).expect("positive");
                scheduler.add_stream(contract).expect("complete");
                scheduler.enqueue(0, StreamId(stream), Packet::new(100)).expect("room");
            }
        }
        for _ in 0..400 {
            let stream = StreamId(u32::try_from(random.below(200)).expect("few"));
            let open = random.below(3) == 0;
            for scheduler in &mut pair {
                scheduler.set_eligible(0, stream, open);
            }
        }
        for _ in 0..200 {
            let sent = pair.each_mut().map(|scheduler| scheduler.decide(0, &mut ()));
            assert_eq!(sent[0], sent[1], "seed {seed}");
        }
    }
}

/// Deadlines of the last instant, "never", are after all others.
#[test]
fn a_deadline_that_never_passes_is_the_last() {
    for period_ns in [u64::MAX, u64::MAX - (1 << 40), 1 << 63, 1 << 62] {
        for near_is_first in [false, true] {
            let sent = [StructureName::Scan, StructureName::HilqExact].map(|structure| {
                let row = DisciplineRow::parse("dwcs").expect("in the catalogue");
                let mut scheduler = row.build(&Options::default(), structure);
                for period_ns in [period_ns, 2000, 1000] {
                    let contract = Contract::new().period_ns(period_ns).expect("positive");
                    scheduler.add_stream(contract).expect("complete");
                }
                let first: &[u32] = if near_is_first { &[2, 2, 0, 0] } else { &[0, 0] };
                let mut sent = Vec::new();
                for arrivals in [first, &[1]] {
                    for stream in arrivals {
                        let arrived = scheduler.enqueue(0, StreamId(*stream), Packet::new(100));
                        arrived.expect("room");
                    }
                    scheduler.decide_batch(0, 1, &mut (), &mut sent);
                }
                scheduler.decide_batch(0, 5, &mut (), &mut sent);
                sent
            });
            assert_eq!(sent[0], sent[1], "{period_ns} {near_is_first}");
        }
    }
}

/// A pause in which all deadlines pass changes the width of buckets, while misses are charged.
#[test]
fn after_a_pause_the_schedule_is_that_of_a_scan() {
    for (streams, pause_ns) in [(1_100, 1 << 22), (1_100, 1 << 50), (3_000, 1 << 30)] {
        for periods in [1, 1_000, 1 << 30] {
            let sent = [StructureName::Scan, StructureName::HilqExact].map(|structure| {
                let row = DisciplineRow::parse("dwcs").expect("in the catalogue");
                let mut scheduler = row.build(&Options::default(), structure);
                for stream in 0..streams {
                    let period_ns = 1_000_000 + stream * 48_271 * 48_271 % periods;
                    let mut contract = Contract::new().period_ns(period_ns).expect("positive");
                    if stream % 16 == 0 {
                        contract = contract.first_deadline_ns(u64::MAX);
                    }
                    scheduler.add_stream(contract).expect("complete");
                }
                let (mut now_ns, mut sent) = (0, Vec::new());
                for round in 0..6 {
                    for stream in 0..u32::try_from(streams).expect("few") {
                        let arrived = scheduler.enqueue(now_ns, StreamId(stream), Packet::new(1));
                        arrived.expect("room");
                    }
                    for _ in 0..80 {
                        scheduler.decide_batch(now_ns, 5, &mut (), &mut sent);
                        now_ns += 1_000;
                    }
                    now_ns += pause_ns >> (7 * (round % 3));
                }
                sent
            });
            let differing = sent[0].iter().zip(&sent[1]).position(|(a, b)| a != b);
            assert_eq!(differing, None, "{streams} {pause_ns} {periods}");
        }
    }
}
