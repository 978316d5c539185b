//! Virtual deadline scheduling: its guarantee, and hand-calculated states.

use millstream_reference::{Arrival, Outcome, Overhead, StreamSpec, vds};

const SLOT_NS: u64 = 1000;
/// Link rate, bits/s: 125 bytes per slot.
const RATE_BPS: u64 = 1_000_000_000;

fn backlog(streams: &[StreamSpec], slots: usize) -> Outcome {
    let arrival = |stream| Arrival { time_ns: 0, stream, bytes: 125 };
    let arrivals: Vec<Arrival> = (0u32..)
        .zip(streams)
        .flat_map(|(stream, _)| std::iter::repeat_n(arrival(stream), slots))
        .collect();
    vds::run(RATE_BPS, Overhead::default(), streams, &arrivals)
}

fn stream(period: u64, window: (u32, u32)) -> StreamSpec {
    StreamSpec::new(period * SLOT_NS, window)
}

/// Returns the violations before the last decision, with every stream backlogged.
fn violations(streams: &[StreamSpec], slots: usize) -> u64 {
    let outcome = backlog(streams, slots);
    outcome.decisions[slots - 1].violations.iter().sum()
}

#[test]
fn a_full_load_of_unit_jobs_is_never_violated() {
    // Every triple of small contracts with Σ m/(k·T) = 1.
    let mut contracts = Vec::new();
    for period in 1..=4u64 {
        for y in 1..=4u32 {
            contracts.extend((0..y).map(|x| (period, (x, y))));
        }
    }
    // For T and k up to 4, m/(k·T) is a multiple of 1/144.
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
    // The first stream requires 1 of 2 periods of 2 slots and drops late packets; the second
    // requires every slot.
    let mut first = stream(2, (1, 2));
    first.drop_late = true;
    let streams = [first, stream(1, (0, 1))];
    let arrivals = [(0, 0), (0, 0), (0, 0), (0, 1), (1, 1), (2, 1), (3, 1)];
    let arrivals: Vec<Arrival> = arrivals
        .map(|(slot, stream)| Arrival { time_ns: slot * SLOT_NS, stream, bytes: 125 })
        .into();
    let outcome = vds::run(RATE_BPS, Overhead::default(), &streams, &arrivals);
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
        // The first's period ended without service: its head is dropped, k' = 1, Vd 4; the other's
        // Vd is 3.
        (2, 0, 0, Some(2), "dropped-late"),
        (2, 1, 2, Some(3), "sent"),
        // Both have Vd 4: the head that arrived earlier is served.
        (3, 0, 1, Some(4), "sent"),
        // The first's window ended with m' = 0. The second was charged for the period from 3 to 4,
        // a violation.
        (4, 1, 3, Some(5), "sent"),
        (5, 0, 2, Some(6), "sent"),
    ];
    assert_eq!(rows, expected);
    assert_eq!(outcome.missed, [1, 1]);
    assert_eq!(outcome.violations, [0, 1]);
}

fn at(slot: u64, stream: u32, slots: u32) -> Arrival {
    Arrival { time_ns: slot * SLOT_NS, stream, bytes: 125 * slots }
}

#[test]
fn a_period_without_a_request_is_not_counted() {
    let mut first = stream(2, (0, 2));
    first.drop_late = true;
    let streams = [first, stream(1, (0, 1))];
    let outcome = vds::run(
        RATE_BPS,
        Overhead::default(),
        &streams,
        &[at(0, 0, 1), at(0, 1, 4), at(10, 0, 1)],
    );
    // The packet is dropped at 4: its period from 0 to 2 is missed and counted. The period from 2
    // had no request.
    assert_eq!(outcome.rows[1].event, "dropped-late");
    assert_eq!(outcome.decisions[1].before[0], (2, 1, 12 * SLOT_NS));
    assert_eq!(outcome.violations, [0, 0]);
}

#[test]
fn a_second_packet_in_a_period_has_the_lowest_precedence() {
    let streams = [stream(4, (0, 1)), stream(10, (0, 1))];
    let arrivals = [at(0, 0, 1), at(1, 0, 1), at(1, 1, 1), at(9, 0, 1)];
    let outcome = vds::run(RATE_BPS, Overhead::default(), &streams, &arrivals);
    let order: Vec<u32> = outcome.rows.iter().map(|row| row.stream).collect();
    assert_eq!(order, [0, 1, 0, 0]);
    // The period from 0 has not ended, so m' = 0 and k' = 1; at 9 the next window has begun.
    assert_eq!(outcome.rows[2].deadline_ns, Some(4 * SLOT_NS));
    assert_eq!(outcome.decisions[2].before[0], (0, 1, 4 * SLOT_NS));
    assert_eq!(outcome.decisions[3].before[0], (1, 1, 13 * SLOT_NS));
    assert_eq!(outcome.violations, [0, 0]);
}
