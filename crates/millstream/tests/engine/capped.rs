//! For the classes below it, a rate cap acts as a slower link. Less the time in which the link was
//! idle only because of the cap, departures equal those without the cap, to the nanosecond.

use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{ClassId, Contract, Link, MaxRate, Packet, StreamId, Tree};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroU64;

/// One byte per nanosecond.
const LINK: Link = Link::new(8_000_000_000, 0);

/// Streams with weights below a chain of classes with one discipline; each class has a cap: rate
/// and burst.
#[derive(Clone, Debug)]
struct Chain {
    discipline: &'static str,
    caps: Vec<(u64, u64)>,
    weights: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    time_ns: u64,
    stream: u32,
    bytes: u32,
}

impl Chain {
    fn build(&self, capped: bool) -> Tree {
        let row = DisciplineRow::parse(self.discipline).unwrap();
        let options = Options { link: LINK, ..Options::default() };
        let mut tree = Tree::new(row, StructureName::Scan, &options);
        let mut class = ClassId::ROOT;
        for &(rate_bps, burst_bytes) in &self.caps {
            let rate_bps = NonZeroU64::new(rate_bps).unwrap();
            let contract = Contract::new();
            let contract = match capped {
                true => contract.max_rate(MaxRate { rate_bps, burst_bytes }),
                false => contract,
            };
            class = tree.add_class(class, contract, row, StructureName::Scan, &options).unwrap();
        }
        for &weight in &self.weights {
            tree.add_stream(class, Contract::new().weight(weight).unwrap()).unwrap();
        }
        tree
    }
}

fn chains() -> impl Strategy<Value = Chain> {
    let discipline = prop_oneof![Just("wfq"), Just("wf2q"), Just("wf2q+"), Just("sfq")];
    let caps = proptest::collection::vec((200_000_000u64..9_000_000_000, 0u64..4_000), 1..4);
    let weights = proptest::collection::vec(1u32..7, 2..6);
    (discipline, caps, weights).prop_map(|(discipline, caps, weights)| Chain {
        discipline,
        caps,
        weights,
    })
}

/// Generates arrivals in time order: gap, stream, bytes. Some gaps are long, so that the class runs
/// empty.
fn scripts() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    let gap = prop_oneof![3 => 0u64..900, 1 => 0u64..9_000];
    proptest::collection::vec((gap, 0u32..5, 64u32..1500), 1..80)
}

/// Departures and arrivals of the run with caps. The times are of a clock that stops while the link
/// is idle because of a cap.
#[derive(Default)]
struct Capped {
    departures: Vec<(u64, StreamId, u64)>,
    arrivals: Vec<Arrival>,
    held_ns: u64,
}

/// Runs the chain with caps. The stopped clock shows one time for all packets that arrive while the
/// link is idle because of a cap. So ties are broken as without the cap.
fn run_capped(chain: &Chain, script: &[(u64, u32, u32)]) -> Capped {
    let mut tree = chain.build(true);
    let streams = u32::try_from(chain.weights.len()).unwrap();
    let mut time_ns = 0;
    let mut to_come: VecDeque<Arrival> = (script.iter())
        .map(|&(gap_ns, stream, bytes)| {
            time_ns += gap_ns;
            Arrival { time_ns, stream: stream % streams, bytes }
        })
        .collect();
    let mut run = Capped::default();
    // No packet arrives exactly at the end of a transmission.
    let mut free_ns = 0;
    loop {
        while to_come.front().is_some_and(|next| next.time_ns < free_ns) {
            let next = to_come.pop_front().unwrap();
            run.enqueue(&mut tree, next, next.time_ns);
        }
        let mut now_ns = free_ns;
        if tree.total_waiting() == 0 {
            let Some(next) = to_come.pop_front() else { return run };
            now_ns = next.time_ns.max(free_ns + 1);
            run.enqueue(&mut tree, next, now_ns);
        }
        let held_from_ns = now_ns;
        let mut gathered = now_ns > free_ns;
        let sent = loop {
            if let Some(sent) = tree.decide(now_ns, &mut ()) {
                break sent;
            }
            let open_ns = tree.next_eligible_ns().unwrap();
            assert!(open_ns > now_ns, "an open gate has a packet that is not served");
            let first_ns = to_come.front().map_or(u64::MAX, |next| next.time_ns.max(now_ns + 1));
            if !gathered && first_ns < open_ns {
                gathered = true;
                while to_come.front().is_some_and(|next| next.time_ns < open_ns) {
                    let next = to_come.pop_front().unwrap();
                    run.gather(&mut tree, next, first_ns, held_from_ns);
                }
            }
            now_ns = open_ns;
        };
        run.held_ns += now_ns - held_from_ns;
        run.departures.push((now_ns - run.held_ns, sent.stream, sent.packet));
        free_ns = now_ns + LINK.transmission_ns(sent.bytes);
        // Arrivals that were due while the link was idle arrive during the transmission.
        for late in to_come.iter_mut().take_while(|next| next.time_ns <= now_ns) {
            late.time_ns = now_ns + 1;
        }
    }
}

impl Capped {
    fn enqueue(&mut self, tree: &mut Tree, arrival: Arrival, at_ns: u64) {
        tree.enqueue(at_ns, StreamId(arrival.stream), Packet::new(arrival.bytes)).unwrap();
        self.arrivals.push(Arrival { time_ns: at_ns - self.held_ns, ..arrival });
    }

    fn gather(&mut self, tree: &mut Tree, arrival: Arrival, at_ns: u64, held_from_ns: u64) {
        tree.enqueue(at_ns, StreamId(arrival.stream), Packet::new(arrival.bytes)).unwrap();
        self.arrivals.push(Arrival { time_ns: held_from_ns - self.held_ns, ..arrival });
    }
}

fn run_uncapped(chain: &Chain, arrivals: &[Arrival]) -> Vec<(u64, StreamId, u64)> {
    let mut tree = chain.build(false);
    let mut departures = Vec::new();
    let mut to_come = arrivals.iter().peekable();
    let mut free_ns = 0;
    loop {
        if tree.total_waiting() == 0 {
            let Some(next) = to_come.peek() else { return departures };
            free_ns = free_ns.max(next.time_ns);
        }
        while let Some(next) = to_come.next_if(|next| next.time_ns <= free_ns) {
            tree.enqueue(next.time_ns, StreamId(next.stream), Packet::new(next.bytes)).unwrap();
        }
        let sent = tree.decide(free_ns, &mut ()).unwrap();
        departures.push((free_ns, sent.stream, sent.packet));
        free_ns += LINK.transmission_ns(sent.bytes);
    }
}

proptest! {
    #[test]
    fn time_below_a_cap_stops_while_it_holds_all_back(chain in chains(), script in scripts()) {
        let capped = run_capped(&chain, &script);
        prop_assert_eq!(capped.departures.len(), script.len());
        prop_assert_eq!(capped.departures, run_uncapped(&chain, &capped.arrivals));
    }
}

/// Two streams of equal weight share a class with a hundredth of the link's rate. A stream becomes
/// active late: its packets alternate with those of the other stream, however long that stream was
/// alone in the class.
#[test]
fn a_late_stream_of_a_capped_class_does_not_wait_for_earlier_ones() {
    for discipline in ["wfq", "wf2q", "wf2q+"] {
        let chain = Chain { discipline, caps: vec![(80_000_000, 1_000)], weights: vec![1, 1] };
        let mut tree = chain.build(true);
        let (early, late) = (StreamId(0), StreamId(1));
        let mut now_ns = 0;
        for _ in 0..200 {
            tree.enqueue(0, early, Packet::new(1000)).unwrap();
        }
        let mut next = |tree: &mut Tree| loop {
            if let Some(sent) = tree.decide(now_ns, &mut ()) {
                now_ns += LINK.transmission_ns(sent.bytes);
                return (now_ns, sent.stream);
            }
            now_ns = tree.next_eligible_ns().unwrap();
        };
        for _ in 0..50 {
            next(&mut tree);
        }
        let (now_ns, _) = next(&mut tree);
        for _ in 0..20 {
            tree.enqueue(now_ns, late, Packet::new(1000)).unwrap();
        }
        let served: Vec<_> = (0..40).map(|_| next(&mut tree).1).collect();
        let late = served.iter().filter(|stream| **stream == late).count();
        assert!((19..=20).contains(&late), "{discipline}: {late} of 40");
    }
}
