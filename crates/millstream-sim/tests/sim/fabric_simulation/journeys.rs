//! Journeys against other listeners, the topology's routes, and closed formulas.

use std::collections::HashMap;

use millstream_sim::fabric::topology::folded_shuffle;
use millstream_sim::fabric::traffic::{ClassTraffic, Kind};
use millstream_sim::fabric::{
    Buffering, Buffers, Delivery, Forwarding, Journey, Journeys, SampledQuantity, Selection,
    StageKind, SwitchParameters,
};

use super::minbw;
use super::support::{CUT_THROUGH, Journal, OUTPUT_QUEUED, Plan, RATE_BPS};

const ALL: Selection = Selection {
    classes: Vec::new(),
    sources: Vec::new(),
    destinations: Vec::new(),
    connections: Vec::new(),
    time_ns: 0..u64::MAX,
    every: 1,
    first: usize::MAX,
};

/// Runs `plan` until all packets are delivered; the last result is the end of the run, ns.
fn run_with_journeys(plan: &Plan, selection: Selection) -> (Journeys, Journal, Buffers, u64) {
    let mut simulation = plan.simulation().unwrap();
    let classes = u8::try_from(plan.classes.len()).unwrap();
    let journeys = Journeys::new(&simulation, classes, selection);
    let buffers = Buffers::for_simulation(&simulation, true);
    let mut listeners = (journeys, (Journal::default(), buffers));
    assert!(!simulation.run(u64::MAX, &mut listeners).unwrap());
    let (journeys, (journal, buffers)) = listeners;
    let end_ns = journal.deliveries.iter().map(|delivery| delivery.time_ns).max().unwrap();
    (journeys, journal, buffers, end_ns)
}

fn loaded_plans() -> [Plan; 3] {
    let tree = || folded_shuffle(4, 2).unwrap();
    let mut minbw = minbw(Plan::poisson(tree(), CUT_THROUGH, 0.0, 64), 1.0);
    minbw.delay_ns = 20;
    let mut fifo = Plan::poisson(tree(), OUTPUT_QUEUED, 0.9, 512);
    let mut decided = Plan { discipline: "wfq", delay_ns: 10, ..fifo.clone() };
    for (plan, stop_ns) in [(&mut minbw, 300_000), (&mut fifo, 200_000), (&mut decided, 200_000)] {
        plan.stop_ns = stop_ns;
    }
    [minbw, fifo, decided]
}

/// Returns the delivery times, ns, by source, class, connection and injection time.
///
/// In these plans the key identifies a packet almost uniquely.
fn by_packet(deliveries: &[Delivery]) -> HashMap<(u32, u8, u32, u64), Vec<u64>> {
    let mut found = HashMap::<_, Vec<u64>>::new();
    for of in deliveries {
        let key = (of.source, of.class, of.connection, of.injected_ns);
        found.entry(key).or_default().push(of.time_ns);
    }
    found
}

/// Asserts that no two spans of one link overlap; a span is link, start and end.
fn assert_disjoint(mut spans: Vec<(u32, u64, u64)>) {
    assert!(spans.len() > 100);
    spans.sort_unstable();
    for pair in spans.windows(2) {
        let [(one, _, ends_ns), (other, begins_ns, _)] = [pair[0], pair[1]];
        assert!(one != other || begins_ns >= ends_ns, "link {one}: {pair:?}");
    }
}

#[test]
fn stages_add_up_to_the_latency_and_nothing_overlaps_on_a_link() {
    for plan in loaded_plans() {
        let (journeys, journal, ..) = run_with_journeys(&plan, ALL);
        let followed = journeys.journeys();
        assert!(followed.len() > 1_000);
        assert_eq!(followed.len() as u64, journal.injected.min(10_000));
        assert_eq!(journeys.allowed(), journal.injected);
        let deliveries = by_packet(&journal.deliveries);
        let mut waited = [0_u64; 3];
        for journey in followed {
            let Journey { source, destination, class, connection, injected_ns, .. } = *journey;
            let delivered_ns = journey.delivered_ns.unwrap();
            let known = &deliveries[&(source, class, connection, injected_ns)];
            assert!(known.contains(&delivered_ns), "{journey:?}");
            let links: Vec<usize> = journey.hops.iter().map(|hop| hop.link as usize).collect();
            assert_eq!(links, plan.topology.path(source, destination).collect::<Vec<_>>());
            let mut at_ns = injected_ns;
            for stage in journey.stages() {
                assert_eq!(stage.begins_ns, at_ns, "{journey:?}");
                assert!(stage.ends_ns > at_ns);
                let took_ns = stage.ends_ns - at_ns;
                match stage.kind {
                    StageKind::SourceWait => waited[0] += took_ns,
                    StageKind::InputWait => waited[1] += took_ns,
                    StageKind::OutputWait => waited[2] += took_ns,
                    StageKind::Link | StageKind::LastLink => {}
                }
                at_ns = stage.ends_ns;
            }
            assert_eq!(at_ns, delivered_ns, "{journey:?}");
        }
        let crossbars = matches!(plan.switch.buffering, Buffering::Combined(_));
        assert!(waited[0] > 0 && waited[2] > 0 && (waited[1] > 0) == crossbars, "{waited:?}");
        let hops = || followed.iter().flat_map(|journey| &journey.hops);
        let sent = hops().map(|hop| (hop.link, hop.sent.unwrap()));
        assert_disjoint(sent.map(|(link, sent)| (link, sent.begins_ns, sent.ends_ns)).collect());
        let crossed = hops().filter_map(|hop| hop.transfer.map(|transfer| (hop.link, transfer)));
        let crossed: Vec<_> = crossed.map(|(link, of)| (link, of.begins_ns, of.ends_ns)).collect();
        assert_eq!(crossed.is_empty(), !crossbars);
        if crossbars {
            assert_disjoint(crossed);
        }
    }
}

#[test]
fn a_lone_packet_has_the_calculated_stages() {
    for (forwarding, buffering) in [
        (Forwarding::CutThrough, CUT_THROUGH.buffering),
        (Forwarding::CutThrough, Buffering::Output),
        (Forwarding::StoreAndForward, CUT_THROUGH.buffering),
        (Forwarding::StoreAndForward, Buffering::Output),
    ] {
        let switch = SwitchParameters { latency_ns: 145, forwarding, buffering };
        let mut plan = Plan::poisson(folded_shuffle(4, 3).unwrap(), switch, 2e-7, 128);
        plan.delay_ns = 100;
        plan.stop_ns = 20_000_000_000;
        let (journeys, ..) = run_with_journeys(&plan, ALL);
        assert!(journeys.journeys().len() > 100);
        let whole_ns = 128 * 8 * 1_000_000_000 / RATE_BPS;
        let hop_ns = match forwarding {
            Forwarding::CutThrough => 100 + 145,
            Forwarding::StoreAndForward => whole_ns + 100 + 145,
        };
        for journey in journeys.journeys() {
            let links = plan.topology.path(journey.source, journey.destination).count();
            let mut expected = vec![(StageKind::Link, hop_ns); links - 1];
            expected.push((StageKind::LastLink, whole_ns + 100));
            let stages = journey.stages();
            let found: Vec<_> =
                stages.iter().map(|stage| (stage.kind, stage.ends_ns - stage.begins_ns)).collect();
            assert_eq!(found, expected, "{journey:?}");
        }
    }
}

/// Checks the mean backlog by Little's law, and that occupied credits never exceed the buffer.
#[test]
fn buffer_occupancy_matches_journeys() {
    for mut plan in loaded_plans() {
        plan.stop_ns /= 2;
        let (journeys, _, buffers, end_ns) = run_with_journeys(&plan, ALL);
        assert_eq!(journeys.allowed(), journeys.journeys().len() as u64, "some are not followed");
        let links = plan.topology.links().len();
        let mut waited = vec![0_u64; links];
        let mut held = vec![0_u64; links];
        for journey in journeys.journeys() {
            for (number, hop) in journey.hops.iter().enumerate() {
                let sent = hop.sent.unwrap();
                waited[hop.link as usize] +=
                    (sent.begins_ns - hop.wait_start_ns) * u64::from(journey.bytes);
                if let Some(transfer) = hop.transfer {
                    let before = journey.hops[number - 1];
                    held[before.link as usize] += (transfer.ends_ns
                        - before.sent.unwrap().begins_ns)
                        * u64::from(journey.bytes.div_ceil(64));
                }
            }
        }
        let crossbars = matches!(plan.switch.buffering, Buffering::Combined(_));
        let mut fullest = 0;
        for link in 0..links {
            let mean = buffers.backlog(link, end_ns).mean;
            assert!((mean * end_ns as f64 - waited[link] as f64).abs() < 1.0, "{link}: {mean}");
            let taken = (0..plan.classes.len()).filter_map(|of| buffers.occupied(link, of, end_ns));
            let taken: Vec<_> = taken.collect();
            assert_eq!(taken.is_empty(), !crossbars);
            let mean: f64 = taken.iter().map(|fill| fill.mean).sum();
            assert!((mean * end_ns as f64 - held[link] as f64).abs() < 10.0, "{link}: {mean}");
            fullest = fullest.max(taken.iter().map(|fill| fill.max).max().unwrap_or(0));
        }
        assert!(fullest <= 136 && (fullest > 100) == crossbars, "{fullest} of 136 credits");
        // The samples of each link and quantity are in time order.
        let mut last = HashMap::new();
        for sample in journeys.samples() {
            let before = last.insert((sample.link, sample.quantity), *sample);
            assert!(before.is_none_or(|before| before.time_ns <= sample.time_ns));
        }
        assert!(last.keys().any(|(_, of)| *of == SampledQuantity::BacklogBytes));
        assert_eq!(last.keys().any(|(_, of)| *of == SampledQuantity::OccupiedCredits), crossbars);
    }
}

#[test]
fn a_selection_filters_packets_and_counts_the_allowed() {
    let mut plan = Plan::poisson(folded_shuffle(4, 2).unwrap(), OUTPUT_QUEUED, 0.5, 512);
    plan.traffic = vec![ClassTraffic { load: 0.25, kind: Kind::Poisson { bytes: 512 } }; 2];
    plan.classes = vec![plan.classes[0].clone(); 2];
    plan.stop_ns = 400_000;
    let selection = Selection {
        classes: vec![1],
        sources: vec![0..=2, 7..=7],
        destinations: vec![4..=15],
        time_ns: 100_000..300_000,
        ..ALL
    };
    let (named, journal, ..) = run_with_journeys(&plan, selection.clone());
    let expected = journal.injections.iter().filter(|(source, injection)| {
        [0, 1, 2, 7].contains(source)
            && injection.class == 1
            && injection.destination >= 4
            && (100_000..300_000).contains(&injection.time_ns)
    });
    let expected = expected.count();
    assert!(expected > 30);
    assert_eq!(named.journeys().len(), expected);
    let (third, ..) = run_with_journeys(&plan, Selection { every: 3, first: 5, ..selection });
    assert_eq!(third.allowed(), expected as u64);
    let sparse: Vec<_> = named.journeys().iter().step_by(3).take(5).cloned().collect();
    assert_eq!(third.journeys(), sparse);
    let (each, ..) = run_with_journeys(&plan, Selection { first: 4, ..ALL });
    for class in 0..2 {
        assert_eq!(each.journeys().iter().filter(|of| of.class == class).count(), 4);
    }
}

/// A run that stops early leaves packets in transit; their stages end at the last known event.
#[test]
fn packets_under_way_at_the_end_have_no_delivery() {
    let [plan, ..] = loaded_plans();
    let mut simulation = plan.simulation().unwrap();
    let mut journeys = Journeys::new(&simulation, 7, ALL);
    assert!(simulation.run(100_000, &mut journeys).unwrap());
    let under_way = journeys.journeys().iter().filter(|of| of.delivered_ns.is_none());
    let under_way: Vec<_> = under_way.collect();
    assert_eq!(under_way.len(), simulation.packets_in_transit());
    assert!(under_way.iter().any(|of| of.stages().len() > 2));
    for journey in under_way {
        assert!(journey.stages().iter().all(|stage| stage.kind != StageKind::LastLink));
    }
}
