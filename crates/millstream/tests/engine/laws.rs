//! Properties independent of the reference: conservation, order, theoretical bounds.

use crate::support::{run_engine, scenarios};
use millstream::catalogue::{DISCIPLINES, Options, StructureName};
use millstream::{
    Contract, Dwcs, EdfFirst, Heap, Late, Observer, Packet, Scheduler, StreamId, Window,
};
use millstream_reference::{Arrival, Discipline, Overhead, Spec, StreamSpec};
use proptest::prelude::*;

const SLOT_NS: u64 = 1000;
/// The number of slots for which streams stay backlogged.
const SLOTS: u64 = 300;

fn spec(discipline: Discipline, streams: Vec<StreamSpec>) -> Spec {
    Spec { discipline, rate_bps: 1_000_000_000, overhead: Overhead::default(), streams }
}

/// Generates windows that require all, one or none of their requests, and a period with which
/// U = Σ (1 − x/y)·C/T is at most 1.
fn feasible_windows() -> impl Strategy<Value = (u64, Vec<(u32, u32)>)> {
    let window = (1u32..30).prop_flat_map(|of| {
        (prop_oneof![1 => Just(0), 6 => Just(of - 1), 1 => Just(of)], Just(of))
    });
    proptest::collection::vec(window, 1..16).prop_map(|windows| {
        let needed: f64 = windows.iter().map(|(x, y)| 1.0 - f64::from(*x) / f64::from(*y)).sum();
        let mut slots = 1u64;
        while needed > slots as f64 + 1e-9 {
            slots += 1;
        }
        (slots, windows)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn every_arrival_leaves_once_and_streams_keep_their_order((spec, arrivals) in scenarios()) {
        let outcome = run_engine(&spec, &arrivals, StructureName::Heap);
        prop_assert_eq!(outcome.rows.len(), arrivals.len());
        let mut served = vec![None; spec.streams.len()];
        let mut seen = std::collections::HashSet::new();
        let mut last_ns = 0;
        for row in &outcome.rows {
            prop_assert!(seen.insert((row.stream, row.packet)), "a packet departed twice");
            prop_assert!(row.time_ns >= row.arrival_ns && row.time_ns >= last_ns.min(row.time_ns));
            last_ns = row.time_ns;
            if row.event != "dropped-full" {
                let before = served[row.stream as usize].replace(row.packet);
                prop_assert!(before.is_none_or(|before| before < row.packet), "out of order");
            }
        }
    }

    #[test]
    fn the_link_never_idles_while_a_packet_waits((spec, arrivals) in scenarios()) {
        let outcome = run_engine(&spec, &arrivals, StructureName::Heap);
        let sent: Vec<_> = outcome.rows.iter().filter(|row| row.event == "sent").collect();
        let transmission = |bytes: u32| {
            spec.overhead.transmission_ns(bytes, spec.rate_bps)
        };
        for pair in sent.windows(2) {
            let free_ns = pair[0].time_ns + transmission(pair[0].bytes);
            prop_assert!(pair[1].time_ns >= free_ns, "two transmissions overlap");
            if pair[1].time_ns > free_ns {
                prop_assert!(pair[1].arrival_ns == pair[1].time_ns, "waited on an idle link");
            }
        }
    }

    #[test]
    fn no_window_is_violated_where_theory_says_so((slots, windows) in feasible_windows()) {
        let streams: Vec<_> =
            windows.iter().map(|window| StreamSpec::new(slots * SLOT_NS, *window)).collect();
        let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), Heap::default());
        for stream in &streams {
            let window = Window::new(stream.window.0, stream.window.1).unwrap();
            let contract = Contract::new().period_ns(stream.period_ns).unwrap().window(window);
            let stream = scheduler.add_stream(contract).unwrap();
            for _ in 0..SLOTS {
                scheduler.enqueue(0, stream, Packet::new(125)).unwrap();
            }
        }
        let mut violations = Violations(0);
        for slot in 0..SLOTS {
            scheduler.decide(slot * SLOT_NS, &mut violations);
        }
        prop_assert_eq!(violations.0, 0);
    }

    #[test]
    fn edf_meets_every_deadline_of_unit_packets_at_full_load(
        periods in proptest::collection::vec(1u64..12, 1..9),
    ) {
        // Periods are lengthened until Σ C/T ≤ 1; one packet per period, all starting together.
        let mut periods = periods;
        while periods.iter().map(|period| 1.0 / *period as f64).sum::<f64>() > 1.0 + 1e-9 {
            let shortest = periods.iter_mut().min().unwrap();
            *shortest += 1;
        }
        let streams: Vec<_> =
            periods.iter().map(|slots| StreamSpec::new(slots * SLOT_NS, (0, 0))).collect();
        let mut arrivals: Vec<Arrival> = (0u32..)
            .zip(&periods)
            .flat_map(|(stream, slots)| {
                let time_ns = move |k| k * slots * SLOT_NS;
                (0..400 / slots).map(move |k| Arrival { time_ns: time_ns(k), stream, bytes: 125 })
            })
            .collect();
        arrivals.sort_by_key(|arrival| arrival.time_ns);
        let outcome = run_engine(&spec(Discipline::Edf, streams), &arrivals, StructureName::Heap);
        prop_assert_eq!(outcome.missed.iter().sum::<u64>(), 0);
    }

    #[test]
    fn static_priority_never_serves_past_a_waiting_superior((spec, arrivals) in scenarios()) {
        let spec = Spec { discipline: Discipline::StaticPriority, ..spec };
        let outcome = run_engine(&spec, &arrivals, StructureName::DualHeap);
        let priority = |stream: u32| spec.streams[stream as usize].priority;
        let sent: Vec<_> = outcome.rows.iter().filter(|row| row.event == "sent").collect();
        for (at, row) in sent.iter().enumerate() {
            let overtaken = sent[at + 1..].iter().find(|later| {
                later.arrival_ns <= row.time_ns && priority(later.stream) < priority(row.stream)
            });
            prop_assert!(overtaken.is_none(), "{row:?} was served before {overtaken:?}");
        }
    }
}

struct Violations(u64);

impl Observer for Violations {
    fn missed(&mut self, _: StreamId, _: u64, _: u64, violations: u64) {
        self.0 += violations;
    }
}

#[test]
fn a_closed_gate_holds_a_stream_back_while_its_deadlines_are_charged() {
    let row = DISCIPLINES.iter().find(|row| row.name == "dwcs").unwrap();
    for structure in row.structures(&Options::default()) {
        let mut scheduler = row.build(&Options::default(), structure);
        let contract = || Contract::new().period_ns(10).unwrap().window(Window::new(1, 2).unwrap());
        let held = scheduler.add_stream(contract()).unwrap();
        let free = scheduler.add_stream(contract().late(Late::Drop)).unwrap();
        for stream in [held, held, free] {
            scheduler.enqueue(0, stream, Packet::new(1)).unwrap();
        }
        scheduler.set_eligible(0, held, false);
        assert_eq!(scheduler.decide(0, &mut ()).unwrap().stream, free);
        let mut violations = Violations(0);
        assert!(scheduler.decide(35, &mut violations).is_none());
        assert_eq!(violations.0, 2, "deadlines 10, 20 and 30 passed; one loss was allowed");
        assert_eq!(scheduler.waiting(held), 2);
        scheduler.set_eligible(36, held, true);
        let sent = scheduler.decide(36, &mut ()).unwrap();
        assert_eq!((sent.stream, sent.deadline_ns), (held, Some(40)));
    }
}

#[test]
fn batches_are_the_same_decisions_and_arrivals() {
    let contract = || Contract::new().period_ns(5).unwrap().window(Window::new(1, 3).unwrap());
    let make = || {
        let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), Heap::default());
        for _ in 0..4 {
            scheduler.add_stream(contract().queue(3)).unwrap();
        }
        scheduler
    };
    let arrivals: Vec<_> = (0..20).map(|k| (StreamId(k % 4), Packet::new(k))).collect();
    let (mut one, mut many) = (make(), make());
    let mut full = Vec::new();
    many.enqueue_batch(7, &arrivals, |_, departure| full.push(departure));
    let dropped: Vec<_> =
        arrivals.iter().filter_map(|(stream, p)| one.enqueue(7, *stream, *p).err()).collect();
    assert_eq!(full, dropped);
    assert_eq!(full.len(), 8);
    let mut sent = Vec::new();
    assert_eq!(many.decide_batch(9, 5, &mut (), |departure| sent.push(departure)), 5);
    assert_eq!(many.decide_batch(9, 50, &mut (), |departure| sent.push(departure)), 7);
    let singly: Vec<_> = std::iter::from_fn(|| one.decide(9, &mut ())).collect();
    assert_eq!(sent, singly);
}
