//! Reloads while packets are queued: every lost packet is counted.

use crate::support::{input, output};
use millstream::{Contract, Link};
use millstream_router::live::{
    Classifier, Clock, Forwarder, LiveMachine, MemoryPort, NextHop, Pool, Routes,
};
use millstream_router::{Batch, InputId, OutputId, PathId, PathPlan, Plan, PortId, Router, Stages};
use millstream_scenario::Match;
use proptest::collection::vec;
use proptest::prelude::*;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BUFFERS: u32 = 500;
const DISCIPLINES: [&str; 5] = ["fifo", "wf2q+", "drr", "static-priority", "scfq"];

/// Returns a frame to UDP port `port`; the source address is a serial number.
fn frame(port: u16, number: u32) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([4; 6], ROUTER);
    let builder = builder.ipv4(number.to_be_bytes(), [10, 2, 0, 1], 9).udp(1, port);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &[0; 18]).unwrap();
    bytes
}

/// Returns a plan whose paths are named by the UDP port that they match; the path `drops` drops
/// packets.
fn plan(paths: &[u16], drops: u16, queue: u32, discipline: &str) -> (Plan, Classifier, Forwarder) {
    let contract = || Contract::new().quantum_bytes(1_514).unwrap();
    let plan = Plan {
        stages: Stages::Three,
        batch: Batch { packets: 8, time_ns: u64::MAX, batch_wait_ns: 50_000 },
        inputs: vec![input(10), input(1)],
        paths: paths
            .iter()
            .map(|path| {
                let drops = *path == drops;
                PathPlan {
                    reservation: 5,
                    drops,
                    input_queue: if drops { 0 } else { queue },
                    output_queue: if drops { 0 } else { queue },
                    outputs: (!drops).then(|| (OutputId(1), contract())).into_iter().collect(),
                }
            })
            .collect(),
        outputs: vec![output(1, discipline, 1_000_000), output(10, discipline, 1_000_000)],
    };
    let rule = |port: &u16| Match { destination_port: Some(*port), ..Match::default() };
    let mut routes = Routes::default();
    routes
        .add("0.0.0.0/0".parse().unwrap(), NextHop { output: PortId(1), from: ROUTER, to: [9; 6] });
    (plan, Classifier::new(paths.iter().map(rule).collect()), Forwarder::new(routes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn kept_paths_keep_their_packets_in_order_and_every_drop_is_counted(
        plans in vec((Just((0..6u16).collect::<Vec<_>>()).prop_shuffle(), 1..6usize, 1..40u32,
                      0..DISCIPLINES.len(), 0..200usize, 0..9u16), 2..6),
    ) {
        let frames: Vec<_> = (0..3_000u32).map(|k| frame((k % 6) as u16, k)).collect();
        let mut names: Vec<u16> = plans[0].0[..plans[0].1].to_vec();
        let discipline = DISCIPLINES[plans[0].3];
        let (first, classifier, function) = plan(&names, plans[0].5, plans[0].2, discipline);
        let clock = Clock::default();
        let mut machine = LiveMachine::new(clock, Pool::new(BUFFERS), classifier, function);
        machine.add(MemoryPort::new(frames, 3_000), ROUTER, Link::new(1_000_000_000, 0));
        machine.add(MemoryPort::default().keeping(), ROUTER, Link::new(100_000_000_000, 0));
        let mut router = Router::new(&first, machine).unwrap();
        let mut gone = millstream_router::PathCounters::default();
        for (order, many, queue, discipline, steps, drops) in &plans {
            for _ in 0..*steps {
                router.step();
                router.resume();
            }
            let next = order[..*many].to_vec();
            let kept: Vec<_> =
                next.iter().map(|name| names.iter().position(|old| old == name)).collect();
            let kept: Vec<_> = kept.into_iter().map(|old| old.map(PathId)).collect();
            let held = |router: &Router<_>, path| -> usize {
                let (before, after) = router.waiting(path);
                before + after
            };
            let before: Vec<_> = kept.iter().map(|old| old.map(|old| {
                (held(&router, old), router.path(old))
            })).collect();
            let discipline = DISCIPLINES[*discipline];
            let (plan, classifier, function) = plan(&next, *drops, *queue, discipline);
            gone.add(&router.reload(&plan, &kept).unwrap());
            router.machine_mut().reconfigure(classifier, function);
            for (path, before) in before.into_iter().enumerate() {
                let (waiting, mut counters) = before.unwrap_or_default();
                let drops = next[path] == *drops;
                counters.dropped_by_reload += if drops { waiting as u64 } else { 0 };
                prop_assert_eq!(held(&router, PathId(path)), if drops { 0 } else { waiting });
                prop_assert_eq!(router.path(PathId(path)), counters);
            }
            names = next;
        }
        let mut steps = 0u64;
        while (0..names.len()).any(|path| router.waiting(PathId(path)) != (0, 0))
            || router.machine().counters(PortId(0)).received < 3_000
            || router.staged(OutputId(1)) > 0
        {
            router.step();
            router.resume();
            steps += 1;
            prop_assert!(steps < 100_000_000, "the router does not drain");
        }
        for path in 0..names.len() {
            gone.add(&router.path(PathId(path)));
        }
        prop_assert_eq!(gone.received, gone.departed());
        let unclassified = router.input(InputId(0)).unclassified;
        prop_assert_eq!(gone.received + unclassified, 3_000);
        prop_assert_eq!(router.machine().counters(PortId(1)).transmitted, gone.sent);
        prop_assert_eq!(router.machine().free_buffers(), BUFFERS as usize);
        // Each flow keeps its order.
        let mut last = [0; 6];
        for frame in router.machine_mut().port_mut(PortId(1)).kept() {
            let number = u32::from_be_bytes([frame[26], frame[27], frame[28], frame[29]]) + 1;
            let flow = usize::from(frame[37]);
            prop_assert!(number > last[flow], "flow {flow}: {number} after {}", last[flow]);
            last[flow] = number;
        }
    }
}
