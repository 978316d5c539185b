//! FIFO, static priority, EDF, DWCS and VDS equal the reference with credits, rate caps and a
//! management channel, departure by departure, on every structure.

use crate::support::{Collector, contract, scaled, scenarios, settings};
use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{ClassId, Contract, MaxRate, Packet, StreamId, Tree};
use millstream_reference::fair::{CreditReturn, StreamSpec};
use millstream_reference::{Arrival, Gating, Outcome, Spec, run_gated, vds};
use proptest::prelude::*;
use std::num::NonZeroU64;

/// Limits of streams and returns of credits.
fn gatings(streams: usize) -> impl Strategy<Value = Gating> {
    let credits = proptest::option::weighted(0.4, 0u64..12);
    let rate = prop_oneof![Just(8_000_000u64), 1_000_000u64..400_000_000];
    let shaper = proptest::option::weighted(0.25, (rate, 0u64..600));
    let gates = proptest::collection::vec((credits, shaper), streams);
    let count = u32::try_from(streams).unwrap();
    let back = (0u64..40_000, 0..count, 0u64..9);
    let returns = proptest::collection::vec(back, 0..25);
    (gates, returns, any::<bool>()).prop_map(move |(gates, returns, fmc)| {
        let gate = |(credits, shaper)| StreamSpec { credits, shaper, ..StreamSpec::new(1, 1) };
        let mut gated: Vec<_> = gates.into_iter().map(gate).collect();
        gated[streams - 1].fmc = fmc && streams > 1;
        let back = |(time_ns, stream, credits)| CreditReturn {
            time_ns: time_ns / 250 * 250,
            stream,
            credits,
        };
        let mut returns: Vec<_> = returns.into_iter().map(back).collect();
        returns.sort_by_key(|back| back.time_ns);
        Gating { streams: gated, returns }
    })
}

fn gated() -> impl Strategy<Value = (Spec, Gating, Vec<Arrival>)> {
    scenarios().prop_flat_map(|(spec, arrivals)| {
        (gatings(spec.streams.len()), Just((spec, arrivals)))
            .prop_map(|(gating, (spec, arrivals))| (spec, gating, arrivals))
    })
}

fn held_back(contract: Contract, gate: &StreamSpec) -> Contract {
    let mut contract = match gate.credits {
        Some(credits) => contract.credits(credits),
        None => contract,
    };
    if let Some((rate_bps, burst_bytes)) = gate.shaper {
        let rate_bps = NonZeroU64::new(rate_bps).unwrap();
        contract = contract.max_rate(MaxRate { rate_bps, burst_bytes });
    }
    contract
}

/// Returns the scheduler for `spec`: below a root that serves the management channel first, if
/// there is one.
fn scheduler(
    name: &str,
    structure: StructureName,
    options: &Options,
    spec: &Spec,
    gating: &Gating,
) -> Box<dyn DynScheduler> {
    let row = DisciplineRow::parse(name).unwrap();
    let link = crate::support::link(spec);
    let options = &Options { link, ..options.clone() };
    let streams = spec.streams.iter().zip(&gating.streams);
    let contracts = streams.map(|(stream, gate)| (held_back(contract(stream), gate), gate.fmc));
    if !gating.streams.iter().any(|gate| gate.fmc) {
        let mut scheduler = row.build(options, structure);
        for (contract, _) in contracts {
            scheduler.add_stream(contract).unwrap();
        }
        return scheduler;
    }
    let root = DisciplineRow::parse("static-priority").unwrap();
    let mut tree = Tree::new(root, StructureName::Scan, options);
    let below = Contract::new().priority(1);
    let class = tree.add_class(ClassId::ROOT, below, row, structure, options).unwrap();
    for (contract, fmc) in contracts {
        let (parent, contract) =
            if fmc { (ClassId::ROOT, contract.priority(0)) } else { (class, contract) };
        tree.add_stream(parent, contract).unwrap();
    }
    Box::new(tree)
}

/// Runs until nothing waits, or no event is left.
fn run(
    scheduler: &mut dyn DynScheduler,
    spec: &Spec,
    gating: &Gating,
    arrivals: &[Arrival],
) -> Outcome {
    let link = crate::support::link(spec);
    let mut collector = Collector::new(spec.streams.len());
    let mut returns = gating.returns.iter().peekable();
    let mut arrivals = arrivals.iter().peekable();
    let mut free_ns = 0;
    loop {
        loop {
            let return_ns = returns.peek().map_or(u64::MAX, |back| back.time_ns);
            let arrival_ns = arrivals.peek().map_or(u64::MAX, |arrival| arrival.time_ns);
            if return_ns.min(arrival_ns) > free_ns {
                break;
            }
            if return_ns <= arrival_ns {
                let back = returns.next().unwrap();
                scheduler.add_credits(back.time_ns, StreamId(back.stream), back.credits);
            } else {
                let arrival = arrivals.next().unwrap();
                let packet = Packet::new(arrival.bytes);
                let stream = StreamId(arrival.stream);
                if let Err(full) = scheduler.enqueue(arrival.time_ns, stream, packet) {
                    collector.row(&full);
                }
            }
        }
        if let Some(sent) = scheduler.decide(free_ns, &mut collector) {
            collector.row(&sent);
            free_ns += link.transmission_ns(sent.bytes);
            collector.outcome.end_ns = free_ns;
            continue;
        }
        let events = [
            returns.peek().map(|back| back.time_ns),
            arrivals.peek().map(|arrival| arrival.time_ns),
            scheduler.next_eligible_ns(),
        ];
        match events.into_iter().flatten().min() {
            Some(event_ns) => free_ns = free_ns.max(event_ns),
            None => return collector.outcome,
        }
    }
}

/// Checks that the engine's outcome under `name` is `expected` on every structure.
fn compare(
    name: &str,
    options: &Options,
    scenario: &(Spec, Gating, Vec<Arrival>),
    expected: Outcome,
) -> Result<(), TestCaseError> {
    let (spec, gating, arrivals) = scenario;
    let expected = Outcome { decisions: Vec::new(), ..expected };
    for structure in DisciplineRow::parse(name).unwrap().structures(options) {
        let mut scheduler = scheduler(name, structure, options, spec, gating);
        let found = run(scheduler.as_mut(), spec, gating, arrivals);
        prop_assert_eq!(&found, &expected, "{} on {}", name, structure.name());
    }
    Ok(())
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: scaled(cases), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(6_000))]

    /// Four in five cases are DWCS; the others are disciplines without settings.
    #[test]
    fn held_back_streams_equal_the_reference(scenario in gated()) {
        let (spec, gating, arrivals) = &scenario;
        let (name, options) = settings(spec);
        compare(name, &options, &scenario, run_gated(spec, gating, arrivals))?;
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn held_back_streams_under_vds_equal_the_reference(scenario in gated()) {
        let (spec, gating, arrivals) = &scenario;
        let expected =
            vds::run_gated(spec.rate_bps, spec.overhead, &spec.streams, gating, arrivals);
        compare("vds", &Options::default(), &scenario, expected)?;
    }
}
