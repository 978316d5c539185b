//! MinBW has the same schedule as the equivalent tree: management channels and a class under static
//! priority.

use crate::support::scaled;
use millstream::catalogue::{DisciplineRow, DynScheduler, MinBwAlgorithm, Options, StructureName};
use millstream::{
    ClassId, Contract, Departure, Late, Link, MaxRate, Observer, Packet, StreamId, Tree, Window,
};
use proptest::prelude::*;
use std::num::NonZeroU64;

const LINK: Link = Link::new(2_000_000_000, 8);

/// A call of a scheduler.
#[derive(Clone, Debug)]
enum Step {
    Enqueue(u32, u32),
    Credits(u32, u64),
    Eligible(u32, bool),
    /// A decision this long after the link is free, ns; before it, if negative.
    Decide(i64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u32..7, 0u32..2_177).prop_map(|(stream, bytes)| Step::Enqueue(stream, bytes)),
        2 => (0u32..7, 0u64..60).prop_map(|(stream, credits)| Step::Credits(stream, credits)),
        1 => (0u32..7, any::<bool>()).prop_map(|(stream, open)| Step::Eligible(stream, open)),
        5 => prop_oneof![Just(0), 0i64..3_000, -500i64..0].prop_map(Step::Decide),
        2 => (0u64..8_000).prop_map(Step::Wait),
    ]
}

/// The limits of one stream: credits, a cap in Mbit/s, and whether it is a management channel.
type Limits = (Option<u64>, Option<u64>, bool);

fn limits() -> impl Strategy<Value = Limits> {
    (
        proptest::option::of(0u64..80),
        proptest::option::weighted(0.2, 1u64..3_000),
        proptest::bool::weighted(0.25),
    )
}

fn contract(weight: u32, &(credits, mbps, fmc): &Limits) -> Contract {
    let mut contract = Contract::new()
        .weight(weight)
        .and_then(|contract| contract.quantum_bytes(weight * 300))
        .and_then(|contract| contract.period_ns(u64::from(weight) * 1_500))
        .and_then(|contract| Ok(contract.window(Window::new(weight % 3, 5)?)))
        .unwrap()
        .priority(weight % 4)
        .late(if weight.is_multiple_of(2) { Late::Drop } else { Late::Send });
    if let Some(credits) = credits {
        contract = contract.credits(credits);
    }
    if let Some(mbps) = mbps {
        let rate_bps = NonZeroU64::new(mbps * 1_000_000).unwrap();
        contract = contract.max_rate(MaxRate { rate_bps, burst_bytes: 3_000 });
    }
    if fmc { contract.fmc() } else { contract }
}

/// Returns the tree of two classes. Management channels are ordered by arrival.
fn tree(options: &Options, discipline: &DisciplineRow, contracts: &[Contract]) -> Tree {
    let first = DisciplineRow::parse("static-priority").unwrap();
    let mut tree = Tree::new(first, StructureName::Scan, options);
    let lower = Contract::new().priority(1);
    let below =
        tree.add_class(ClassId::ROOT, lower, discipline, StructureName::Scan, options).unwrap();
    for contract in contracts {
        if contract.is_fmc() {
            tree.add_stream(ClassId::ROOT, contract.clone().priority(0)).unwrap();
        } else {
            tree.add_stream(below, contract.clone()).unwrap();
        }
    }
    tree
}

/// Misses and drops, in any order.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    missed: Vec<(u32, u64, u64, u64)>,
    dropped: Vec<(u32, u64, Option<u64>)>,
}

impl Observer for Heard {
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        self.missed.push((stream.0, now_ns, missed, violations));
        self.missed.sort_unstable();
    }

    fn dropped(&mut self, departure: &Departure) {
        self.dropped.push((departure.stream.0, departure.packet, departure.deadline_ns));
        self.dropped.sort_unstable();
    }
}

/// Applies `steps` to both schedulers and compares their results.
fn assert_alike(
    managed: &mut dyn DynScheduler,
    tree: &mut Tree,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let (mut now_ns, mut free_ns) = (0u64, 0u64);
    let (mut found, mut expected) = (Heard::default(), Heard::default());
    for step in steps {
        match *step {
            Step::Enqueue(stream, bytes) => {
                let packet = Packet::new(bytes);
                prop_assert_eq!(
                    managed.enqueue(now_ns, StreamId(stream), packet),
                    tree.enqueue(now_ns, StreamId(stream), packet)
                );
            }
            Step::Credits(stream, credits) => {
                managed.add_credits(now_ns, StreamId(stream), credits);
                tree.add_credits(now_ns, StreamId(stream), credits);
            }
            Step::Eligible(stream, open) => {
                managed.set_eligible(now_ns, StreamId(stream), open);
                tree.set_eligible(now_ns, StreamId(stream), open);
            }
            Step::Decide(after_ns) => {
                now_ns = now_ns.max(free_ns.saturating_add_signed(after_ns));
                let sent = managed.decide(now_ns, &mut found);
                prop_assert_eq!(sent, tree.decide(now_ns, &mut expected));
                prop_assert_eq!(&found, &expected);
                if let Some(sent) = sent {
                    free_ns = free_ns.max(now_ns) + LINK.transmission_ns(sent.bytes);
                }
            }
            Step::Wait(ns) => now_ns += ns,
        }
        prop_assert_eq!(managed.next_eligible_ns(), tree.next_eligible_ns());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(800), ..ProptestConfig::default() })]

    #[test]
    fn minbw_equals_its_tree(
        algorithm in proptest::sample::select(&MinBwAlgorithm::ALL[..]),
        streams in proptest::collection::vec((1u32..18, limits()), 7),
        steps in proptest::collection::vec(step(), 1..300),
        structure in 0usize..4,
    ) {
        let options = Options { link: LINK, algorithm, ..Options::default() };
        let contracts: Vec<_> =
            streams.iter().map(|(weight, limits)| contract(*weight, limits)).collect();
        let row = DisciplineRow::parse("minbw").unwrap();
        let structures = row.structures(&options);
        let mut minbw = row.build(&options, structures[structure % structures.len()]);
        for contract in &contracts {
            minbw.add_stream(contract.clone()).unwrap();
        }
        let row = DisciplineRow::parse(algorithm.name()).unwrap();
        assert_alike(minbw.as_mut(), &mut tree(&options, row, &contracts), &steps)?;
    }
}
