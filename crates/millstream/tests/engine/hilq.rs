//! HILQ: the cases in which it must equal DWCS, and its guarantees beyond the order.

use crate::support::{run_engine, run_scheduler};
use millstream::catalogue::{DynScheduler, StructureName};
use millstream::{
    Accesses, Contract, ContractError, DwcsOptions, Event, Hilq, Late, Observer, Packet, Rejected,
    Sizes, StreamId, Window,
};
use millstream_reference::{Arrival, Discipline, Outcome, Overhead, Row, Spec, StreamSpec};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

const DWCS: Discipline =
    Discipline::Dwcs { loss_first: false, rtas99: false, lowest_denominator: false };

/// Returns a scenario on a link of 8 Gbit/s, on which a byte takes 1 ns.
fn spec(streams: Vec<StreamSpec>) -> Spec {
    Spec { discipline: DWCS, rate_bps: 8_000_000_000, overhead: Overhead::default(), streams }
}

fn hilq(sizes: Sizes) -> Hilq {
    Hilq::new(DwcsOptions::default(), sizes)
}

fn contract(period_ns: u64) -> Contract {
    let window = Window::new(1, 2).unwrap();
    Contract::new().period_ns(period_ns).unwrap().window(window).late(Late::Drop)
}

/// Sorts the rows of an instant: DWCS reports drops in stream order, HILQ in calendar order.
fn sorted(mut outcome: Outcome) -> Outcome {
    let key = |row: &Row| (row.time_ns, row.event == "sent", row.stream, row.packet);
    outcome.rows.sort_by_key(key);
    outcome
}

/// Generates streams with deadlines at the ends of distinct milliseconds. No decision is between a
/// deadline and the end of its millisecond: arrival times and service times are whole microseconds.
fn own_milliseconds() -> impl Strategy<Value = (Spec, Vec<Arrival>)> {
    let window = (0u32..6).prop_flat_map(|of| (0..=of, Just(of)));
    let stream = (2u64..6, window);
    let load = (any::<u32>(), 0u64..3, 100u32..4_000);
    let loads = proptest::collection::vec(load, 1..60);
    (proptest::collection::vec(stream, 1..6), loads).prop_map(|(streams, loads)| {
        let count = u64::try_from(streams.len()).unwrap();
        let mut rounds = 0;
        let mut arrivals: Vec<Arrival> = loads
            .into_iter()
            .map(|(stream, gap, microseconds)| {
                rounds += gap;
                let stream = u64::from(stream) % count;
                let time_ns = (rounds * count + stream) * MS;
                Arrival {
                    time_ns,
                    stream: u32::try_from(stream).unwrap(),
                    bytes: microseconds * 1_000,
                }
            })
            .collect();
        arrivals.sort_by_key(|arrival| arrival.time_ns);
        let stream = |(periods, window): (u64, _)| StreamSpec {
            drop_late: true,
            queue: Some(1),
            ..StreamSpec::new(periods * count * MS - 1, window)
        };
        (spec(streams.into_iter().map(stream).collect()), arrivals)
    })
}

/// Generates contended scenarios with any streams that HILQ supports.
fn loads() -> impl Strategy<Value = (Spec, Vec<Arrival>)> {
    let window = (0u32..40).prop_flat_map(|of| (0..=of, Just(of)));
    let queue = proptest::option::weighted(0.2, 0u32..5);
    let stream = (MS..=99 * MS, window, queue).prop_map(|(period_ns, window, queue)| StreamSpec {
        drop_late: true,
        queue,
        ..StreamSpec::new(period_ns, window)
    });
    let load = (0u64..9, 0u32..3_000_000, any::<u32>());
    let loads = proptest::collection::vec(load, 1..200);
    (proptest::collection::vec(stream, 1..9), loads).prop_map(|(streams, loads)| {
        let mut time_ns = 0;
        let arrivals = loads
            .into_iter()
            .map(|(gap, bytes, stream)| {
                time_ns += gap.saturating_sub(5) * 700_000;
                let stream = stream % u32::try_from(streams.len()).unwrap();
                Arrival { time_ns, stream, bytes }
            })
            .collect();
        (spec(streams), arrivals)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn it_equals_dwcs_where_every_deadline_has_a_millisecond_of_its_own(
        (spec, arrivals) in own_milliseconds(),
    ) {
        let sizes = Sizes { segments: 2_000, ..Sizes::PAPER };
        let found = run_scheduler(&mut hilq(sizes), &spec, &arrivals);
        let expected = run_engine(&spec, &arrivals, StructureName::Scan);
        prop_assert_eq!(sorted(found), sorted(expected));
    }

    #[test]
    fn every_arrival_leaves_once_in_its_streams_order_and_no_more_than_a_segment_late(
        (spec, arrivals) in loads(),
    ) {
        let mut scheduler = hilq(Sizes::PAPER);
        let outcome = run_scheduler(&mut scheduler, &spec, &arrivals);
        prop_assert_eq!(outcome.rows.len(), arrivals.len());
        let mut seen = std::collections::HashSet::new();
        let mut left = vec![None; spec.streams.len()];
        for row in &outcome.rows {
            prop_assert!(seen.insert((row.stream, row.packet)), "a packet departed twice");
            match (row.event, row.deadline_ns) {
                ("dropped-full", deadline_ns) => {
                    prop_assert_eq!(deadline_ns, None);
                    continue;
                }
                ("sent", Some(deadline_ns)) => {
                    prop_assert!(row.time_ns / MS <= deadline_ns / MS, "sent after its segment");
                }
                (_, Some(deadline_ns)) => {
                    prop_assert!(row.time_ns > deadline_ns, "dropped before its deadline");
                }
                _ => prop_assert!(false, "a departure has no deadline"),
            }
            let before = left[row.stream as usize].replace(row.packet);
            prop_assert!(before.is_none_or(|before| before < row.packet), "out of order");
        }
        let full = outcome.rows.iter().filter(|row| row.event == "dropped-full").count();
        let Rejected { queue, memory, horizon } = scheduler.rejected();
        prop_assert_eq!(queue + memory + horizon, full as u64);
    }

    #[test]
    fn memory_is_bounded_and_what_finds_none_is_rejected(
        (spec, arrivals) in loads(),
        (packets, basic_queues, extended_queues) in (1u32..20, 1u32..6, 0u32..4),
    ) {
        let sizes = Sizes {
            packets,
            basic_queues,
            basic_packets: 2,
            extended_queues,
            extended_packets: 3,
            ..Sizes::PAPER
        };
        let mut scheduler = hilq(sizes);
        for stream in &spec.streams {
            let mut contract = contract(stream.period_ns);
            contract = stream.queue.into_iter().fold(contract, |c, limit| c.queue(limit));
            scheduler.add_stream(contract).unwrap();
        }
        let mut rejected = 0;
        for (at, arrival) in arrivals.iter().enumerate() {
            let stream = StreamId(arrival.stream);
            let before = scheduler.rejected();
            let result = scheduler.enqueue(arrival.time_ns, stream, Packet::new(1));
            rejected += u64::from(result.is_err());
            if scheduler.rejected().memory > before.memory {
                let (basic, extended) = scheduler.queues_in_use();
                prop_assert!(
                    scheduler.total_waiting() == u64::from(packets)
                        || basic == basic_queues as usize
                        || extended == extended_queues as usize,
                    "rejected although memory is free"
                );
            }
            prop_assert!(scheduler.total_waiting() <= u64::from(packets));
            let streams = (0..).zip(&spec.streams);
            let sum = streams.map(|(s, _)| scheduler.waiting(StreamId(s))).sum::<u32>();
            prop_assert_eq!(u64::from(sum), scheduler.total_waiting());
            if at % 3 == 0 {
                scheduler.decide(arrival.time_ns, &mut ());
            }
        }
        let Rejected { queue, memory, horizon } = scheduler.rejected();
        prop_assert_eq!(queue + memory + horizon, rejected);
        scheduler.decide(u64::MAX, &mut ());
        prop_assert_eq!(scheduler.total_waiting(), 0);
        prop_assert_eq!(scheduler.queues_in_use(), (0, 0));
    }
}

#[derive(Default)]
struct Heard {
    missed: u64,
    dropped: Vec<u64>,
}

impl Observer for Heard {
    fn missed(&mut self, _: StreamId, _: u64, missed: u64, _: u64) {
        self.missed += missed;
    }

    fn dropped(&mut self, departure: &millstream::Departure) {
        assert_eq!(departure.event, Event::DroppedLate);
        self.dropped.push(departure.packet);
    }
}

#[test]
fn a_deadline_beyond_the_calendar_is_rejected_and_takes_no_place() {
    let mut scheduler = hilq(Sizes::PAPER);
    let stream = scheduler.add_stream(contract(40 * MS)).unwrap();
    for (packet, deadline_ms) in [(0, 40), (1, 80)] {
        assert_eq!(scheduler.enqueue(0, stream, Packet::new(1)), Ok(packet), "{deadline_ms} ms");
    }
    let rejected = scheduler.enqueue(0, stream, Packet { bytes: 7, tag: 9 }).unwrap_err();
    assert_eq!((rejected.event, rejected.packet, rejected.tag), (Event::DroppedFull, 2, 9));
    assert_eq!(scheduler.rejected(), Rejected { horizon: 1, ..Rejected::default() });
    // 21 ms later, a deadline of 120 ms is within the calendar.
    assert_eq!(scheduler.enqueue(21 * MS, stream, Packet::new(1)), Ok(3));
    let sent: Vec<_> = std::iter::from_fn(|| scheduler.decide(21 * MS, &mut ())).collect();
    assert_eq!(sent.iter().map(|sent| sent.packet).collect::<Vec<_>>(), [0, 1, 3]);
    assert_eq!(sent[2].deadline_ns, Some(120 * MS));
}

#[test]
fn the_search_goes_back_for_an_earlier_packet() {
    let mut scheduler = hilq(Sizes::PAPER);
    let [far, farther, near] =
        [90, 95, 5].map(|ms| scheduler.add_stream(contract(ms * MS)).unwrap());
    for stream in [far, farther] {
        scheduler.enqueue(0, stream, Packet::new(1)).unwrap();
    }
    let next = |scheduler: &mut Hilq| scheduler.decide(0, &mut ()).unwrap().stream;
    assert_eq!(next(&mut scheduler), far, "90 ms is the earliest deadline");
    scheduler.enqueue(0, near, Packet::new(1)).unwrap();
    assert_eq!([next(&mut scheduler), next(&mut scheduler)], [near, farther]);
}

#[test]
fn what_is_left_of_a_passed_segment_has_missed() {
    let mut scheduler = hilq(Sizes::PAPER);
    let stream = scheduler.add_stream(contract(10 * MS)).unwrap();
    for _ in 0..4 {
        scheduler.enqueue(500_000, stream, Packet::new(1)).unwrap();
    }
    let mut events = Heard::default();
    // Deadlines are 10.5, 20.5, 30.5 and 40.5 ms; the second's millisecond has not ended.
    let sent = scheduler.decide(20 * MS + 900_000, &mut events).unwrap();
    assert_eq!((sent.packet, events.missed, &events.dropped[..]), (1, 1, &[0][..]));
    assert!(scheduler.decide(41 * MS, &mut events).is_none());
    assert_eq!((events.missed, &events.dropped[..]), (3, &[0, 2, 3][..]));
    assert_eq!(scheduler.total_waiting(), 0);
}

#[test]
fn an_arrival_after_a_passed_segment_has_the_slot_of_the_window_after_the_miss() {
    let mut scheduler = hilq(Sizes::PAPER);
    let window = |lost, of| contract(10 * MS).window(Window::new(lost, of).unwrap());
    let missing = scheduler.add_stream(window(1, 2)).unwrap();
    let other = scheduler.add_stream(window(1, 3)).unwrap();
    scheduler.enqueue(0, missing, Packet::new(1)).unwrap();
    for stream in [other, missing] {
        scheduler.enqueue(11 * MS, stream, Packet::new(1)).unwrap();
    }
    assert_eq!(scheduler.waiting(missing), 2, "the drop is not reported yet");
    let mut events = Heard::default();
    assert_eq!(scheduler.decide(11 * MS, &mut events).unwrap().stream, missing, "0/1 precedes 1/3");
    assert_eq!((events.dropped, scheduler.waiting(missing)), (vec![0], 0));
}

#[test]
fn contracts_that_it_cannot_honour_are_refused() {
    let mut scheduler = hilq(Sizes::PAPER);
    let mut attribute = |contract: Contract| match scheduler.add_stream(contract).unwrap_err() {
        ContractError::Unfit { attribute, .. } | ContractError::Missing { attribute } => attribute,
        other => panic!("{other}"),
    };
    assert_eq!(attribute(Contract::new().late(Late::Drop)), "period");
    assert_eq!(attribute(contract(MS - 1)), "period");
    assert_eq!(attribute(contract(99 * MS + 1)), "period");
    assert_eq!(attribute(contract(MS).late(Late::Send)), "late");
    assert_eq!(attribute(contract(MS).credits(3)), "credits");
    assert!(scheduler.add_stream(contract(99 * MS)).is_ok());
    assert!(scheduler.add_stream(contract(MS)).is_ok());
}

#[test]
fn accesses_to_memory_do_not_grow_with_streams() {
    let of = |streams: u32| {
        let (options, memory) = (DwcsOptions::default(), Accesses::default());
        let mut scheduler = Hilq::with_memory(options, Sizes::PAPER, memory);
        for stream in 0..streams {
            let window = Window::new(stream % 20, 29).unwrap();
            scheduler.add_stream(contract(30 * MS).window(window)).unwrap();
            scheduler.enqueue(0, StreamId(stream), Packet::new(1)).unwrap();
        }
        while scheduler.decide(0, &mut ()).is_some() {}
        scheduler.memory().sram / u64::from(streams)
    };
    assert!(of(10) <= 20 && of(4_000) <= of(10), "{} and {}", of(10), of(4_000));
}
