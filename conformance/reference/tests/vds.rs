//! Virtual deadline scheduling: what it guarantees, and its states by hand.

use millstream_reference::{Arrival, Outcome, StreamSpec, vds};

const SLOT_NS: u64 = 1000;
/// 125 bytes a slot.
const RATE_BPS: u64 = 1_000_000_000;

fn backlog(streams: &[StreamSpec], slots: usize) -> Outcome {
    let arrival = |stream| Arrival { time_ns: 0, stream, bytes: 125 };
    let arrivals: Vec<Arrival> = (0u32..)
        .zip(streams)
        .flat_map(|(stream, _)| std::iter::repeat_n(arrival(stream), slots))
        .collect();
    vds::run(RATE_BPS, 0, streams, &arrivals)
}

fn stream(period: u64, window: (u32, u32)) -> StreamSpec {
    StreamSpec::new(period * SLOT_NS, window)
}

/// Violations before the last decision with every stream backlogged.
fn violations(streams: &[StreamSpec], slots: usize) -> u64 {
    let outcome = backlog(streams, slots);
    outcome.decisions[slots - 1].violations.iter().sum()
}

#[test]
fn a_full_load_of_unit_jobs_is_never_violated() {
    // Every pair and triple of small contracts with Σ m/(k·T) = 1 exactly, or as much as fits.
    let mut contracts = Vec::new();
    for period in 1..=4u64 {
        for y in 1..=4u32 {
            contracts.extend((0..y).map(|x| (period, (x, y))));
        }
    }
    // 1/12 is a common measure of m/(k·T), with T and k up to 4: use 1/144.
    let load =
        |(period, (x, y)): (u64, (u32, u32))| u64::from(y - x) * 144 / (u64::from(y) * period);
    let mut sets = 0;
    for a in &contracts {
        for b in &contracts {
            for c in &contracts {
                if a <= b && b <= c && load(*a) + load(*b) + load(*c) == 144 {
                    let streams = [*a, *b, *c].map(|(period, window)| stream(period, window));
                    assert_eq!(violations(&streams, 300), 0, "{a:?} {b:?} {c:?}");
                    sets += 1;
                }
            }
        }
    }
    assert!(sets > 50, "{sets} sets");
}

#[test]
fn an_overload_is_violated() {
    assert!(violations(&[stream(1, (0, 1)), stream(3, (2, 3))], 100) > 0);
}

#[test]
fn states_deadlines_and_drops_by_hand() {
    // Wants 1 of 2 periods of 2 slots, drops; beside one that wants every slot.
    let mut first = stream(2, (1, 2));
    first.drop_late = true;
    let streams = [first, stream(1, (0, 1))];
    let arrivals = [(0, 0), (0, 0), (0, 0), (0, 1), (1, 1), (2, 1), (3, 1)];
    let arrivals: Vec<Arrival> = arrivals
        .map(|(slot, stream)| Arrival { time_ns: slot * SLOT_NS, stream, bytes: 125 })
        .into();
    let outcome = vds::run(RATE_BPS, 0, &streams, &arrivals);
    let rows: Vec<(u64, u32, u64, Option<u64>, &str)> = outcome
        .rows
        .iter()
        .map(|row| {
            let deadline = row.deadline_ns.map(|deadline| deadline / SLOT_NS);
            (row.time_ns / SLOT_NS, row.stream, row.packet, deadline, row.event)
        })
        .collect();
    let expected = [
        // Vd 4 and 1.
        (0, 1, 0, Some(1), "sent"),
        (1, 1, 1, Some(2), "sent"),
        // The first's period ended unserved: its head is dropped, k' = 1, Vd 4; the other's is 3.
        (2, 0, 0, Some(2), "dropped-late"),
        (2, 1, 2, Some(3), "sent"),
        // Vd 4 both: the head that arrived earlier.
        (3, 0, 1, Some(4), "sent"),
        // The window ended with m' = 0; the second has been charged from 3 to 4, a violation.
        (4, 1, 3, Some(5), "sent"),
        (5, 0, 2, Some(6), "sent"),
    ];
    assert_eq!(rows, expected);
    assert_eq!(outcome.missed, [1, 1]);
    assert_eq!(outcome.violations, [0, 1]);
}
