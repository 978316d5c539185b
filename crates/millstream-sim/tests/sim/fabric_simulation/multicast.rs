//! Multicast classes: the end-points that get copies, the times, and the number of links used.

use std::collections::BTreeMap;

use millstream_sim::fabric::topology::folded_shuffle;
use millstream_sim::fabric::{
    Buffering, Crossbar, Forwarding, Queueing, Replication, SwitchParameters,
};

use super::support::{CROSSBAR, CUT_THROUGH, Journal, OUTPUT_QUEUED, Plan, star};

/// Runs `plan`, whose only class is multicast to `groups`, until all packets are delivered.
///
/// Returns the events and the number of transmissions.
fn run(plan: &Plan, groups: Vec<Vec<u32>>, replication: Replication) -> (Journal, u64) {
    let mut journal = Journal::default();
    let mut simulation = plan.simulation().unwrap();
    simulation.set_multicast(&[0], groups, replication);
    // The end of the run checks that all credits are back.
    assert!(!simulation.run(u64::MAX, &mut journal).unwrap());
    assert_eq!(simulation.packets_in_transit(), 0);
    (journal, simulation.hops())
}

#[test]
fn every_member_but_the_source_gets_each_packet_once() {
    let fifo = Crossbar { queueing: Queueing::Fifo, ..CROSSBAR };
    let fifo = SwitchParameters { buffering: Buffering::Combined(fifo), ..CUT_THROUGH };
    let store = SwitchParameters { forwarding: Forwarding::StoreAndForward, ..CUT_THROUGH };
    // End-point d leads the group of d, the next one and three distant ones.
    let group = |d: u32| [0, 1, 3, 7, 10].map(|distance| (d + distance) % 16).to_vec();
    let groups: Vec<Vec<u32>> = (0..16).map(group).collect();
    for switch in [CUT_THROUGH, store, fifo, OUTPUT_QUEUED] {
        for discipline in ["minbw", "fifo"] {
            let mut plan = Plan::poisson(folded_shuffle(4, 2).unwrap(), switch, 0.25, 512);
            plan.discipline = discipline;
            plan.stop_ns = 1_000_000;
            for replication in [Replication::Switches, Replication::Source] {
                let (journal, _) = run(&plan, groups.clone(), replication);
                assert!(journal.injected > 1_000);
                let mut expected = BTreeMap::<(u32, u64, u32), u32>::new();
                for (source, injection) in &journal.injections {
                    let group = &groups[injection.destination as usize];
                    for member in group.iter().filter(|member| *member != source) {
                        *expected.entry((*source, injection.time_ns, *member)).or_default() += 1;
                    }
                }
                let mut found = BTreeMap::<(u32, u64, u32), u32>::new();
                for of in &journal.deliveries {
                    *found.entry((of.source, of.injected_ns, of.destination)).or_default() += 1;
                }
                assert_eq!(found, expected, "{discipline}, {replication:?}, {switch:?}");
            }
        }
    }
}

#[test]
fn copies_cross_one_after_another_and_share_the_link_from_the_source() {
    // One packet in about 26 ms, so packets never wait for each other.
    let mut plan = Plan::poisson(star(4), CUT_THROUGH, 2e-5 / 4.0, 128);
    plan.stop_ns = 1_000_000_000;
    let all = vec![(0..4).collect::<Vec<u32>>(); 4];
    let latencies = |journal: &Journal| {
        let mut by_packet = BTreeMap::<(u32, u64), Vec<u64>>::new();
        for of in &journal.deliveries {
            let packet = by_packet.entry((of.source, of.injected_ns)).or_default();
            packet.push(of.time_ns - of.injected_ns);
        }
        by_packet.into_values().collect::<Vec<_>>()
    };
    let (journal, hops) = run(&plan, all.clone(), Replication::Switches);
    assert!(journal.injected > 10);
    assert_eq!(hops, 4 * journal.injected);
    // A link takes 512 ns, a crossbar 342 ns, the switch 145 ns. The first copy crosses as the
    // packet arrives, until its end is there; the others cross from the buffer.
    for found in latencies(&journal) {
        assert_eq!(found, [657, 657 + 512, 657 + 342 + 512]);
    }
    let (journal, hops) = run(&plan, all, Replication::Source);
    assert_eq!(hops, 6 * journal.injected);
    for found in latencies(&journal) {
        assert_eq!(found, [657, 657 + 512, 657 + 1_024]);
    }
}

#[test]
fn groups_of_one_are_unicast() {
    let mut plan = Plan::poisson(folded_shuffle(4, 2).unwrap(), CUT_THROUGH, 0.7, 300);
    plan.stop_ns = 200_000;
    let mut unicast = Journal::default();
    plan.simulation().unwrap().run(u64::MAX, &mut unicast).unwrap();
    let alone = (0..16).map(|member| vec![member]).collect();
    let (multicast, _) = run(&plan, alone, Replication::Switches);
    assert_eq!(multicast, unicast);
}

#[test]
fn a_group_of_the_source_alone_sends_nothing() {
    let mut plan = Plan::poisson(star(2), CUT_THROUGH, 0.5, 300);
    plan.stop_ns = 100_000;
    // End-point 1 only sends to end-point 0, whose group is end-point 1 itself.
    let (journal, hops) = run(&plan, vec![vec![1], vec![0]], Replication::Switches);
    assert!(journal.injected > 10);
    assert_eq!((journal.deliveries.len(), hops), (0, 0));
}
