//! Runs on several threads against runs on one: the calls of the listener and all results.

use std::num::NonZeroU64;

use millstream::{Contract, MaxRate};
use millstream_sim::fabric::topology::{
    Topology, dragonfly, fat_tree, folded_shuffle, mesh, shuffle, torus,
};
use millstream_sim::fabric::traffic::{ClassTraffic, Injection, Kind, PacketBytes};
use millstream_sim::fabric::{
    Arbiter, Buffering, Crossbar, Delivery, FabricError, FabricListener, Forwarding, PacketStep,
    Queueing, SwitchParameters,
};
use proptest::prelude::*;

use super::support::{CROSSBAR, CUT_THROUGH, LARGEST_BYTES, Plan, star};

/// A call of a listener.
#[derive(Debug, PartialEq)]
enum Call {
    Injected(u32, Injection),
    Delivered(Delivery),
    Step(PacketStep),
}

/// A listener that records all calls in order; with `STEPS` also the steps of packets.
#[derive(Debug, Default, PartialEq)]
struct Calls<const STEPS: bool>(Vec<Call>);

impl<const STEPS: bool> FabricListener for Calls<STEPS> {
    const STEPS: bool = STEPS;

    fn on_step(&mut self, packet_step: &PacketStep) {
        self.0.push(Call::Step(*packet_step));
    }

    fn injected(&mut self, source: u32, injection: &Injection) {
        self.0.push(Call::Injected(source, *injection));
    }

    fn delivered(&mut self, delivery: &Delivery) {
        self.0.push(Call::Delivered(*delivery));
    }
}

/// All results of a run.
#[derive(Debug, PartialEq)]
struct Results<const STEPS: bool> {
    calls: Calls<STEPS>,
    busy_ns: Vec<u64>,
    hops: u64,
    now_ns: u64,
    in_transit: usize,
    ended: Result<bool, FabricError>,
}

/// Runs `plan` in three parts, the last one to the end.
fn run<const STEPS: bool>(plan: &Plan, workers: usize) -> Results<STEPS> {
    let mut simulation = plan.simulation().unwrap();
    simulation.set_workers(workers);
    let mut calls = Calls::default();
    let parts = [plan.stop_ns / 3, plan.stop_ns / 2 + 1, u64::MAX];
    let mut ended = Ok(true);
    for until_ns in parts {
        if ended.is_ok() {
            ended = simulation.run(until_ns, &mut calls);
        }
    }
    Results {
        calls,
        busy_ns: simulation.busy_ns().collect(),
        hops: simulation.hops(),
        now_ns: simulation.now_ns(),
        in_transit: simulation.packets_in_transit(),
        ended,
    }
}

fn topologies() -> Vec<Topology> {
    vec![
        folded_shuffle(2, 3).unwrap(),
        folded_shuffle(4, 2).unwrap(),
        shuffle(3, 2).unwrap(),
        fat_tree(4).unwrap(),
        mesh(&[3, 2], 2).unwrap(),
        torus(&[4, 3], 1).unwrap(),
        torus(&[5], 2).unwrap(),
        dragonfly(1, 2, 1).unwrap(),
        star(5),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn results_do_not_depend_on_threads(
        topology in 0..topologies().len(),
        (load, bytes) in (0.1..1.5_f64, 1..=LARGEST_BYTES),
        (input, output) in (34..200_u32, 34..200_u32),
        (fifo, islip, cut_through) in any::<(bool, bool, bool)>(),
        output_queued in prop::bool::weighted(0.3),
        delay_ns in prop_oneof![Just(0), 1..300_u64],
        discipline in prop::sample::select(
            vec!["fifo", "static-priority", "wfq", "scfq", "wf2q+", "drr", "minbw"]),
        cap in prop::option::weighted(0.3, (50_000_000..1_000_000_000_u64).prop_map(
            |rate_bps| NonZeroU64::new(rate_bps).unwrap())),
        seed in any::<u64>(),
    ) {
        let of = Crossbar {
            input_credits: input,
            output_credits: output,
            queueing: if fifo { Queueing::Fifo } else { Queueing::VirtualOutput },
            arbiter: if islip { Arbiter::Islip } else { Arbiter::RoundRobin },
            ..CROSSBAR
        };
        let switch = SwitchParameters {
            latency_ns: 145,
            forwarding:
                if cut_through { Forwarding::CutThrough } else { Forwarding::StoreAndForward },
            buffering: if output_queued { Buffering::Output } else { Buffering::Combined(of) },
        };
        let mut plan = Plan::poisson(topologies().swap_remove(topology), switch, load, bytes);
        let class = |weight: u32| {
            Contract::new().weight(weight).unwrap().quantum_bytes(weight * LARGEST_BYTES).unwrap()
        };
        plan.classes = vec![class(3), class(1), class(2)];
        if let Some(rate_bps) = cap {
            let cap = MaxRate { rate_bps, burst_bytes: 2 * u64::from(LARGEST_BYTES) };
            plan.classes[1] = plan.classes[1].clone().max_rate(cap);
        }
        plan.traffic.push(ClassTraffic {
            load: load / 3.0,
            kind: Kind::Connections { bytes: 64, interval_ns: 20_480 },
        });
        plan.traffic.push(ClassTraffic {
            load: load / 4.0,
            kind: Kind::SelfSimilar {
                packet_bytes: PacketBytes::up_to(64, Some(LARGEST_BYTES)),
                sources: 4,
                peak_share: 1.0,
            },
        });
        plan.discipline = discipline;
        plan.delay_ns = delay_ns;
        plan.seed = seed;
        plan.stop_ns = 100_000;
        let one = run::<true>(&plan, 1);
        prop_assert!(!one.calls.0.is_empty());
        for workers in [2, 3, 4] {
            prop_assert_eq!(&run::<true>(&plan, workers), &one);
        }
        prop_assert_eq!(run::<false>(&plan, 2), run::<false>(&plan, 1));
    }
}

/// A deadlock is found at the same time by any number of threads.
#[test]
fn a_deadlock_does_not_depend_on_threads() {
    let tight = Crossbar { input_credits: 34, output_credits: 34, ..CROSSBAR };
    let switch = SwitchParameters { buffering: Buffering::Combined(tight), ..CUT_THROUGH };
    let ring = torus(&[6], 2).unwrap().on_one_layer();
    let mut plan = Plan::poisson(ring, switch, 1.0, LARGEST_BYTES);
    plan.stop_ns = 50_000_000;
    let one = run::<true>(&plan, 1);
    assert!(matches!(one.ended, Err(FabricError::Deadlock { .. })), "{:?}", one.ended);
    for workers in [2, 4] {
        assert_eq!(run::<true>(&plan, workers), one);
    }
}
