//! The fabric against closed formulas, queueing theory, and its own slower paths.

mod journeys;
mod link;
mod multicast;
mod support;
mod workers;

use millstream::{Contract, StreamId};
use millstream_sim::fabric::topology::{folded_shuffle, mesh, shuffle, torus};
use millstream_sim::fabric::traffic::{ClassTraffic, Kind, table_ii};
use millstream_sim::fabric::{
    Arbiter, Buffering, Crossbar, FabricError, Forwarding, Queueing, SwitchParameters,
};
use proptest::prelude::*;
use support::{CROSSBAR, CUT_THROUGH, LARGEST_BYTES, OUTPUT_QUEUED, Plan, RATE_BPS, star};

/// Returns `plan` with the seven classes of the MinBW paper at `load`.
fn minbw(plan: Plan, load: f64) -> Plan {
    let mut classes = vec![Contract::new().fmc()];
    classes.extend([17, 13, 13, 6, 2, 1].map(|weight| {
        let contract = Contract::new().weight(weight).unwrap();
        contract.quantum_bytes(weight * LARGEST_BYTES).unwrap()
    }));
    Plan { discipline: "minbw", classes, traffic: table_ii(load), ..plan }
}

fn crossbar(crossbar: Crossbar) -> SwitchParameters {
    SwitchParameters { buffering: Buffering::Combined(crossbar), ..CUT_THROUGH }
}

#[test]
fn a_lone_packet_has_the_calculated_latency() {
    // One packet every 40 ms in the whole network, so packets never wait for each other.
    for (bytes, forwarding, delay_ns, far_ns) in [
        (128, Forwarding::CutThrough, 0, 1_237),
        (2_176, Forwarding::CutThrough, 0, 9_429),
        (128, Forwarding::CutThrough, 100, 1_837),
        (128, Forwarding::StoreAndForward, 0, 6 * 512 + 725),
    ] {
        for buffering in [CUT_THROUGH.buffering, Buffering::Output] {
            let switch = SwitchParameters { latency_ns: 145, forwarding, buffering };
            let topology = folded_shuffle(4, 3).unwrap();
            let mut plan = Plan::poisson(topology, switch, 1.6e-9 * f64::from(bytes), bytes);
            plan.delay_ns = delay_ns;
            plan.stop_ns = 20_000_000_000;
            let journal = plan.deliveries();
            assert!(journal.deliveries.len() > 100);
            for delivery in &journal.deliveries {
                let links =
                    plan.topology.path(delivery.source, delivery.destination).count() as u64;
                let sent_ns = u64::from(bytes) * 4;
                let expected_ns = (links - 1) * 145
                    + links * delay_ns
                    + sent_ns * if forwarding == Forwarding::CutThrough { 1 } else { links };
                let took_ns = delivery.time_ns - delivery.injected_ns;
                assert_eq!(took_ns, expected_ns, "{bytes} bytes over {links} links");
                if links == 6 {
                    assert_eq!(took_ns, far_ns);
                }
            }
        }
    }
}

/// The reference case: 64 end-points, 80 % load, packets of 512 bytes.
///
/// Five independent simulators give a mean latency of 23.15 to 23.35 µs. Queueing theory gives a
/// mean wait of 4.096 µs at the source.
#[test]
fn the_reference_case_has_the_known_mean_latency() {
    let mut plan = Plan::poisson(folded_shuffle(4, 3).unwrap(), OUTPUT_QUEUED, 0.8, 512);
    plan.stop_ns = 100_000_000;
    let mean_us = plan.deliveries().mean_latency_ns() / 1e3;
    assert!((23.05..23.40).contains(&mean_us), "{mean_us} us");
    // With two end-points, a source's queue is M/D/1, and packets do not wait at the switch.
    let mut pair = Plan::poisson(star(2), OUTPUT_QUEUED, 0.8, 512);
    pair.stop_ns = 400_000_000;
    let wait_ns = pair.deliveries().mean_latency_ns() - f64::from(2 * 2_048 + 145);
    assert!((wait_ns / 4_096.0 - 1.0).abs() < 0.03, "{wait_ns} ns");
}

/// Links on the first-come fast path deliver like links that ask their scheduler.
#[test]
fn first_come_links_match_scheduled_links() {
    for forwarding in [Forwarding::StoreAndForward, Forwarding::CutThrough] {
        let switch = SwitchParameters { forwarding, ..OUTPUT_QUEUED };
        let mut plan = Plan::poisson(folded_shuffle(4, 2).unwrap(), switch, 0.9, 512);
        plan.stop_ns = 3_000_000;
        let known = plan.deliveries();
        plan.discipline = "static-priority";
        assert_eq!(plan.deliveries(), known);
        assert!(known.deliveries.len() > 10_000);
    }
}

/// Returns the throughput of a switch of `ports` ports at full load, as a share of the links' rate.
fn saturation(ports: u16, of: Crossbar, stop_ns: u64) -> f64 {
    let switch = SwitchParameters { forwarding: Forwarding::StoreAndForward, ..crossbar(of) };
    let mut plan = Plan::poisson(star(ports), switch, 1.0, 512);
    plan.stop_ns = stop_ns;
    let mut simulation = plan.simulation().unwrap();
    let mut journal = support::Journal::default();
    simulation.run(stop_ns, &mut journal).unwrap();
    let from_ns = stop_ns / 4;
    let late = journal.deliveries.iter().filter(|delivery| delivery.time_ns > from_ns);
    late.count() as f64 * 2_048.0 / ((stop_ns - from_ns) as f64 * f64::from(ports))
}

/// Checks the saturation throughput of crossbars.
///
/// Head-of-line blocking limits a large switch to 2 − √2 = 58.6 % (Karol, Hluchyj and Morgan 1987)
/// and a small one to slightly more. Virtual output queues reach nearly 100 %.
#[test]
fn crossbars_saturate_where_theory_says() {
    let large =
        Crossbar { rate_bps: RATE_BPS, input_credits: 2_000, output_credits: 2_000, ..CROSSBAR };
    let blocked = saturation(64, Crossbar { queueing: Queueing::Fifo, ..large }, 20_000_000);
    assert!((0.575..0.605).contains(&blocked), "{blocked}");
    for arbiter in [Arbiter::RoundRobin, Arbiter::Islip] {
        let free = saturation(16, Crossbar { arbiter, ..large }, 40_000_000);
        assert!(free > 0.95, "{free} with {arbiter:?}");
    }
}

/// A table's turns name classes, whatever their channel numbers are.
///
/// Covers tables below a management channel and on the layers of a torus.
#[test]
fn a_table_serves_the_classes_that_it_names() {
    for (topology, managed) in [
        (star(3), true),
        (star(3), false),
        (torus(&[4], 1).unwrap(), true),
        (torus(&[4], 1).unwrap(), false),
    ] {
        let mut plan = Plan::poisson(topology, OUTPUT_QUEUED, 0.05, 512);
        plan.discipline = "table";
        plan.classes = vec![Contract::new(); 3];
        if managed {
            plan.classes[0] = Contract::new().fmc();
        }
        // Class 1 has three turns for each of class 2; each class alone nearly fills the links.
        plan.table = [0, 1, 1, 2, 1].map(StreamId).to_vec();
        plan.traffic.extend([ClassTraffic { load: 0.9, kind: Kind::Poisson { bytes: 512 } }; 2]);
        plan.stop_ns = 5_000_000;
        let mut journal = support::Journal::default();
        plan.simulation().unwrap().run(plan.stop_ns, &mut journal).unwrap();
        let delivered = |class: u8| {
            journal.deliveries.iter().filter(|delivery| delivery.class == class).count() as f64
        };
        let ratio = delivered(1) / delivered(2);
        assert!((2.0..4.0).contains(&ratio), "{ratio}");
    }
}

/// Every injected packet is delivered once, in order within a connection.
#[test]
fn nothing_is_lost_or_overtaken() {
    for switch in
        [CUT_THROUGH, SwitchParameters { forwarding: Forwarding::StoreAndForward, ..CUT_THROUGH }]
    {
        let mut plan = minbw(Plan::poisson(folded_shuffle(4, 3).unwrap(), switch, 0.0, 64), 1.0);
        plan.stop_ns = 2_000_000;
        plan.delay_ns = 20;
        let journal = plan.deliveries();
        assert_eq!(journal.injected, journal.deliveries.len() as u64);
        let mut last = std::collections::HashMap::new();
        for delivery in &journal.deliveries {
            let of = (delivery.source, delivery.connection, delivery.class, delivery.destination);
            let before = last.insert(of, delivery.injected_ns);
            assert!(before.is_none_or(|before| before <= delivery.injected_ns), "{delivery:?}");
        }
    }
}

#[test]
fn same_seed_same_deliveries() {
    let mut plan = minbw(Plan::poisson(folded_shuffle(4, 2).unwrap(), CUT_THROUGH, 0.0, 64), 1.2);
    plan.stop_ns = 1_000_000;
    let once = plan.deliveries();
    assert_eq!(plan.deliveries(), once);
    plan.seed = 2;
    assert_ne!(plan.deliveries(), once);
}

/// A ring of switches deadlocks on one layer; the error names the links of the cycle.
///
/// On the two layers of its routes the network does not deadlock.
#[test]
fn a_deadlock_is_named() {
    let tight = Crossbar { input_credits: 34, output_credits: 34, ..CROSSBAR };
    let ring = torus(&[6], 2).unwrap();
    let mut plan = Plan::poisson(ring.clone().on_one_layer(), crossbar(tight), 1.0, LARGEST_BYTES);
    plan.stop_ns = 50_000_000;
    let error = plan.simulation().unwrap().run(u64::MAX, &mut ()).unwrap_err();
    let FabricError::Deadlock { cycle, .. } = &error else { panic!("{error}") };
    assert!(cycle.contains("switch 0 to switch 1 (layer 0)"), "{error}");
    plan.topology = ring;
    plan.deliveries();
}

#[test]
fn invalid_parameters_are_rejected() {
    let plan =
        |switch| Plan::poisson(star(4), switch, 0.1, 64).simulation().err().unwrap().to_string();
    let slow = Crossbar { rate_bps: RATE_BPS / 2, ..CROSSBAR };
    assert_eq!(
        plan(crossbar(slow)),
        "a crossbar of 1000000000 bits/s is slower than a link of 2000000000 bits/s"
    );
    let small = Crossbar { output_credits: 33, ..CROSSBAR };
    assert_eq!(
        plan(crossbar(small)),
        "a buffer of 33 credits is too small: a packet of 2176 bytes needs 34"
    );
    assert_eq!(
        plan(SwitchParameters { latency_ns: 0, ..CUT_THROUGH }),
        "the switches' latency and the links' delay are both 0; one must be at least 1 ns"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every fabric drains, and no latency is below the minimum.
    #[test]
    fn fabrics_drain(
        shape in 0..4_usize,
        load in 0.1..1.5_f64,
        bytes in 1..=LARGEST_BYTES,
        (input, output) in (34..200_u32, 34..200_u32),
        fifo in any::<bool>(),
        islip in any::<bool>(),
        cut_through in any::<bool>(),
        delay_ns in 0..300_u64,
        discipline in prop::sample::select(vec!["fifo", "wfq", "drr", "minbw"]),
    ) {
        let topology = match shape {
            0 => star(5),
            1 => shuffle(3, 2).unwrap(),
            2 => mesh(&[3, 2], 2).unwrap(),
            _ => torus(&[4, 3], 1).unwrap(),
        };
        let of = Crossbar {
            input_credits: input,
            output_credits: output,
            queueing: if fifo { Queueing::Fifo } else { Queueing::VirtualOutput },
            arbiter: if islip { Arbiter::Islip } else { Arbiter::RoundRobin },
            ..CROSSBAR
        };
        let forwarding =
            if cut_through { Forwarding::CutThrough } else { Forwarding::StoreAndForward };
        let mut plan = Plan::poisson(
            topology, SwitchParameters { forwarding, ..crossbar(of) }, load, bytes);
        let class = |weight: u32| {
            Contract::new().weight(weight).unwrap().quantum_bytes(weight * LARGEST_BYTES).unwrap()
        };
        plan.classes = vec![class(3), class(1)];
        plan.traffic.push(ClassTraffic { load: load / 3.0, kind: Kind::Poisson { bytes: 64 } });
        plan.discipline = discipline;
        plan.delay_ns = delay_ns;
        plan.stop_ns = 300_000;
        let journal = plan.deliveries();
        prop_assert_eq!(journal.injected, journal.deliveries.len() as u64);
        for delivery in &journal.deliveries {
            let links = plan.topology.path(delivery.source, delivery.destination).count() as u64;
            let least_ns = u64::from(delivery.bytes) * 4 + (links - 1) * 145 + links * delay_ns;
            prop_assert!(delivery.time_ns - delivery.injected_ns >= least_ns);
        }
    }
}
