//! Hand-calculated cases that the golden tables do not cover: counts, instants, queues, drops.

use millstream_reference::{Arrival, Discipline, Outcome, Overhead, Row, Spec, StreamSpec, run};

const DWCS: Discipline =
    Discipline::Dwcs { loss_first: false, rtas99: false, lowest_denominator: false };

/// Runs arrivals (time, stream, bytes) at 1 Gbit/s, where a packet of 125 bytes takes 1000 ns.
fn outcome(
    discipline: Discipline,
    streams: &[StreamSpec],
    arrivals: &[(u64, u32, u32)],
) -> Outcome {
    let spec = Spec {
        discipline,
        rate_bps: 1_000_000_000,
        overhead: Overhead::default(),
        streams: streams.to_vec(),
    };
    let arrival = |&(time_ns, stream, bytes): &_| Arrival { time_ns, stream, bytes };
    run(&spec, &arrivals.iter().map(arrival).collect::<Vec<_>>(), None)
}

/// Returns (time, stream, packet, deadline, event) of each row.
fn rows(outcome: &Outcome) -> Vec<(u64, u32, u64, Option<u64>, &'static str)> {
    let brief = |row: &Row| (row.time_ns, row.stream, row.packet, row.deadline_ns, row.event);
    outcome.rows.iter().map(brief).collect()
}

fn dropping(period_ns: u64, window: (u32, u32)) -> StreamSpec {
    StreamSpec { drop_late: true, ..StreamSpec::new(period_ns, window) }
}

#[test]
fn edf_counts_a_late_packet_once_and_keeps_its_deadline() {
    let streams = [StreamSpec::new(300, (0, 0))];
    let outcome = outcome(Discipline::Edf, &streams, &[(0, 0, 125), (0, 0, 125), (2000, 0, 125)]);
    let expected = [
        (0, 0, 0, Some(300), "sent"),
        (1000, 0, 1, Some(600), "sent"),
        (2000, 0, 2, Some(2300), "sent"),
    ];
    assert_eq!(rows(&outcome), expected);
    assert_eq!((outcome.missed[0], outcome.violations[0], outcome.end_ns), (1, 0, 3000));
}

#[test]
fn dwcs_charges_every_request_period_that_ended_and_violations_grow_the_window() {
    let streams = [StreamSpec::new(5000, (0, 1)), StreamSpec::new(400, (1, 3))];
    let mut late = streams.clone();
    late[0].first_deadline_ns = Some(100);
    let outcome = outcome(DWCS, &late, &[(0, 0, 125), (0, 1, 125)]);
    // At 1000 deadlines 400 and 800 have passed: 1/3 → 0/2, then a violation to 0/3.
    let expected = [(0, 0, 0, Some(100), "sent"), (1000, 1, 0, Some(1200), "sent")];
    assert_eq!(rows(&outcome), expected);
    assert_eq!((&outcome.missed[..], &outcome.violations[..]), (&[0, 2][..], &[0, 1][..]));
    assert_eq!(outcome.decisions[1].before[1], (0, 3, 1200));
}

#[test]
fn a_stream_of_window_constraint_nought_by_nought_misses_without_violations() {
    let streams = [StreamSpec::new(1000, (0, 0)), StreamSpec::new(1000, (0, 0))];
    let outcome = outcome(DWCS, &streams, &[(0, 0, 125), (0, 1, 125)]);
    // Stream 1 starts exactly at its deadline, which is too late.
    assert_eq!((outcome.missed, outcome.violations), (vec![0, 1], vec![0, 0]));
}

#[test]
fn late_packets_are_dropped_at_the_decision_in_stream_order_before_the_winner() {
    let streams = [dropping(500, (0, 2)), dropping(300, (0, 2)), StreamSpec::new(9000, (0, 2))];
    let arrivals = [(0, 2, 125), (1, 1, 125), (1, 1, 125), (1, 0, 125), (900, 0, 125)];
    let outcome = outcome(DWCS, &streams, &arrivals);
    let expected = [
        (0, 2, 0, Some(9000), "sent"),
        (1000, 0, 0, Some(501), "dropped-late"),
        (1000, 1, 0, Some(301), "dropped-late"),
        (1000, 1, 1, Some(601), "dropped-late"),
        (1000, 0, 1, Some(1400), "sent"),
    ];
    assert_eq!(rows(&outcome), expected);
    assert_eq!(outcome.missed, [1, 2, 0]);
}

#[test]
fn a_decision_that_drops_everything_serves_no_stream() {
    let streams = [dropping(500, (0, 1)), StreamSpec::new(5000, (0, 1))];
    let outcome = outcome(DWCS, &streams, &[(0, 1, 125), (1, 0, 125), (7000, 0, 125)]);
    let expected = [
        (0, 1, 0, Some(5000), "sent"),
        (1000, 0, 0, Some(501), "dropped-late"),
        (7000, 0, 1, Some(7500), "sent"),
    ];
    assert_eq!(rows(&outcome), expected);
    assert_eq!((outcome.decisions.len(), outcome.end_ns), (2, 8000));
}

#[test]
fn the_queue_limit_leaves_out_the_packet_in_service_and_drops_take_numbers() {
    let streams = [StreamSpec { queue: Some(1), ..StreamSpec::new(0, (0, 0)) }];
    let arrivals = [(0, 0, 125), (0, 0, 125), (500, 0, 125), (600, 0, 125), (2000, 0, 125)];
    let outcome = outcome(Discipline::Fifo, &streams, &arrivals);
    let expected = [
        (0, 0, 1, None, "dropped-full"),
        (0, 0, 0, None, "sent"),
        (600, 0, 3, None, "dropped-full"),
        (1000, 0, 2, None, "sent"),
        (2000, 0, 4, None, "sent"),
    ];
    assert_eq!(rows(&outcome), expected);
}

#[test]
fn simultaneous_arrivals_are_in_stream_order_and_precede_the_decision() {
    let streams = [StreamSpec::new(0, (0, 0)), StreamSpec::new(0, (0, 0))];
    let arrivals = [(0, 1, 125), (500, 1, 125), (500, 0, 125), (1000, 0, 0), (1000, 1, 0)];
    let outcome = outcome(Discipline::Fifo, &streams, &arrivals);
    let order: Vec<_> = outcome.rows.iter().map(|row| (row.time_ns, row.stream)).collect();
    // The two packets of no length both start at 3000.
    assert_eq!(order, [(0, 1), (1000, 0), (2000, 1), (3000, 0), (3000, 1)]);
    assert_eq!(outcome.end_ns, 3000);
}

#[test]
fn an_ineligible_head_does_not_block_a_later_eligible_arrival() {
    let once = StreamSpec { once_a_period: true, ..StreamSpec::new(10_000, (0, 0)) };
    let outcome = outcome(DWCS, &[once.clone(), once], &[(0, 0, 125), (0, 0, 125), (4000, 1, 125)]);
    let starts: Vec<_> = outcome.rows.iter().map(|row| (row.time_ns, row.stream)).collect();
    assert_eq!(starts, [(0, 0), (4000, 1), (10_000, 0)]);
}

#[test]
#[should_panic(expected = "DWCS needs a request period")]
fn dwcs_without_a_request_period_is_rejected() {
    let _ = outcome(DWCS, &[StreamSpec::new(0, (0, 1))], &[(0, 0, 125)]);
}
