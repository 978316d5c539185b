//! A batch of decisions at one instant equals single decisions, for every discipline on every
//! structure: services, misses and all later events.

use crate::support::scaled;
use millstream::catalogue::{DISCIPLINES, DynScheduler, Options};
use millstream::{Contract, Departure, Late, Link, MaxRate, Observer, Packet, StreamId, Window};
use proptest::collection::vec;
use proptest::prelude::*;
use std::num::NonZeroU64;

/// One byte per nanosecond.
const LINK: Link = Link::new(8_000_000_000, 3);
const STREAMS: u32 = 4;

/// The events of a scheduler, in order.
#[derive(Default, Debug, PartialEq, Eq)]
struct Events(Vec<(StreamId, u64, u64, u64)>, Vec<Departure>);

impl Observer for Events {
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        self.0.push((stream, now_ns, missed, violations));
    }

    fn dropped(&mut self, departure: &Departure) {
        self.1.push(*departure);
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// Packets arrive: stream, number, bytes.
    Arrive(u32, u32, u32),
    /// Up to this many decisions are made.
    Decide(usize),
    Pass(u64),
    Gate(u32, bool),
    Credits(u32, u64),
    /// The last service of a stream cost more than its length.
    Charge(u32, i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    // Stream 0 is preferred, so that it is sometimes the only active one.
    let stream = || prop_oneof![3 => Just(0u32), 2 => 1..STREAMS];
    let event = prop_oneof![
        4 => (stream(), 1..12u32, prop_oneof![Just(100u32), 0..1_600u32])
            .prop_map(|(stream, count, bytes)| Event::Arrive(stream, count, bytes)),
        5 => (1..9usize).prop_map(Event::Decide),
        3 => prop_oneof![0..300u64, 0..30_000u64].prop_map(Event::Pass),
        1 => (stream(), any::<bool>()).prop_map(|(stream, open)| Event::Gate(stream, open)),
        1 => (stream(), 1..40u64).prop_map(|(stream, credits)| Event::Credits(stream, credits)),
        1 => (stream(), -50..400i64).prop_map(|(stream, extra)| Event::Charge(stream, extra)),
    ];
    vec(event, 1..60)
}

/// A stream's weight and optional limits: credits; a rate and a burst.
type Terms = (u32, Option<u64>, Option<(u64, u64)>);

fn terms() -> impl Strategy<Value = Vec<Terms>> {
    let rate = proptest::option::weighted(0.15, (1_000_000..9_000_000_000u64, 0..4_000u64));
    let credits = proptest::option::weighted(0.15, 0..100u64);
    vec((1..7u32, credits, rate), STREAMS as usize)
}

fn contract(&(weight, credits, rate): &Terms) -> Contract {
    let contract = Contract::new().weight(weight).unwrap().quantum_bytes(700).unwrap();
    let contract = contract.period_ns(1_000 * u64::from(weight)).unwrap().priority(weight % 3);
    let contract = contract.window(Window::new(1, 3).unwrap());
    let contract = contract.late(if weight == 5 { Late::Drop } else { Late::Send });
    let contract = match credits {
        Some(credits) => contract.credits(credits),
        None => contract,
    };
    match rate {
        Some((rate_bps, burst_bytes)) => {
            let rate_bps = NonZeroU64::new(rate_bps).unwrap();
            contract.max_rate(MaxRate { rate_bps, burst_bytes })
        }
        None => contract,
    }
}

/// Returns the events of `scheduler`.
fn run(
    mut scheduler: Box<dyn DynScheduler + Send>,
    terms: &[Terms],
    events: &[Event],
    together: bool,
) -> (Events, u64, Option<u64>) {
    for terms in terms {
        scheduler.add_stream(contract(terms)).unwrap();
    }
    let (mut seen, mut sent, mut now_ns) = (Events::default(), Vec::new(), 0);
    for event in events {
        match *event {
            Event::Arrive(stream, count, bytes) => {
                for _ in 0..count {
                    scheduler.enqueue(now_ns, StreamId(stream), Packet::new(bytes)).unwrap();
                }
            }
            Event::Decide(most) if together => {
                let before = sent.len();
                scheduler.decide_batch(now_ns, most, &mut seen, &mut sent);
                assert!(sent.len() - before <= most);
            }
            Event::Decide(most) => {
                for _ in 0..most {
                    let Some(departure) = scheduler.decide(now_ns, &mut seen) else { break };
                    sent.push(departure);
                }
            }
            Event::Pass(ns) => now_ns += ns,
            Event::Gate(stream, open) => scheduler.set_eligible(now_ns, StreamId(stream), open),
            Event::Credits(stream, credits) => {
                scheduler.add_credits(now_ns, StreamId(stream), credits);
            }
            Event::Charge(stream, extra) => {
                scheduler.charge(now_ns, StreamId(stream), extra);
            }
        }
    }
    seen.1.extend(sent);
    (seen, scheduler.total_waiting(), scheduler.next_eligible_ns())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(1_500), ..ProptestConfig::default() })]

    #[test]
    fn a_batch_of_decisions_equals_single_decisions(terms in terms(), events in events()) {
        let table = (0..STREAMS).map(StreamId).collect();
        let options = Options { link: LINK, table, ..Options::default() };
        for row in DISCIPLINES {
            for structure in row.structures(&options) {
                let run = |together| run(row.build(&options, structure), &terms, &events, together);
                let (together, singly) = (run(true), run(false));
                prop_assert_eq!(together, singly, "{} {}", row.name, structure.name());
            }
        }
    }
}
