//! Tests of paced links, and of routers that send over one.

/// Implements the optional traits of a machine with one output, paced by its field `link`.
macro_rules! paced_output {
    ($machine:ty) => {
        impl PacedLinks for $machine {
            fn run_room(
                &self,
                _: OutputId,
                now_ns: u64,
                given: (usize, u64),
                longest_bytes: u32,
                most: usize,
            ) -> usize {
                self.link.run_room(now_ns, given, longest_bytes, most)
            }

            fn wire_bytes(&self, _: OutputId, bytes: u32) -> u64 {
                self.link.wire_bytes(bytes)
            }

            fn idle_ns(&self, _: OutputId, now_ns: u64) -> u64 {
                self.link.idle_ns(now_ns)
            }
        }

        impl Accounting for $machine {}

        impl Deferral for $machine {}

        impl MultiCore for $machine {}

        impl Flows for $machine {}
    };
}

mod runs;

use super::*;
use crate::ids::{InputId, OutputId, PacketHandle, PathId};
use crate::live::{Classifier, Clock, Forwarder, LiveMachine, Pool, Port, PortError};
use crate::router::machine::{
    Accounting, Deferral, Flows, Machine, MultiCore, PacedLinks, Verdict,
};
use crate::{
    Batch, InputPlan, OutputPlan, PathPlan, Plan, Process, Router, Stages, Step, WhenFull,
};
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{Contract, Link};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// Returns how many packets of these lengths a run of `link` takes at `now_ns`, if the router knows
/// only the longest length.
fn run(link: &mut PacedLink, now_ns: u64, lengths: &[u32]) -> usize {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let (mut given, mut bytes) = (0, 0);
    loop {
        let more = link.run_room(now_ns, (given, bytes), longest, lengths.len() - given);
        if more == 0 {
            link.record_sent(now_ns, lengths[..given].iter().copied());
            return given;
        }
        bytes += lengths[given..given + more].iter().map(|of| link.wire_bytes(*of)).sum::<u64>();
        given += more;
    }
}

#[test]
fn a_run_is_one_packet_or_as_many_as_the_burst_holds() {
    const MBPS: u64 = 1_000_000;
    for (rate_bps, bytes, expected) in [
        (MBPS, 1_500, 1),
        (MBPS, 60, 1),
        (20 * MBPS, 1_500, 1),
        (20 * MBPS, 60, 4),
        (100 * MBPS, 1_500, 1),
        (100 * MBPS, 1_000, 1),
        (100 * MBPS, 625, 2),
        (1_000 * MBPS, 1_500, 8),
        (1_000 * MBPS, 60, 32),
        (10_000 * MBPS, 1_500, 32),
    ] {
        let mut link = PacedLink::new(Link::new(rate_bps, 0));
        assert_eq!(run(&mut link, 0, &[bytes; 32]), expected, "{rate_bps} bits/s, {bytes} bytes");
    }
    let mut link = PacedLink::new(Link::new(100 * MBPS, 0));
    // The burst is 1,250 bytes: after three short packets, the next may be the long one.
    assert_eq!(run(&mut link, 0, &[60, 60, 60, 60, 1_100]), 3);
    let mut link = PacedLink::new(Link::new(1_000 * MBPS, 38));
    assert_eq!(run(&mut link, 0, &[1_500; 32]), 8, "12,304 bytes with their overhead");
    link.set_burst(0);
    assert_eq!(run(&mut link, 1_000_000, &[1_500; 32]), 1);
    assert!(!link.has_room(1_000_001), "no packet is accepted ahead of time");
    link.set_burst(1_000_000);
    assert_eq!(run(&mut link, 2_000_000, &[1_500; 128]), 81);
}

/// A run that the batch limit ends continues until the burst is used up.
#[test]
fn consecutive_runs_count_as_one_until_the_burst_is_full() {
    let mut link = PacedLink::new(Link::new(1_000_000_000, 0));
    let mut packets = 0;
    for now_ns in 0..6 {
        packets += run(&mut link, now_ns, &[500; 5]);
    }
    assert_eq!(packets, 25, "100 us at 4 us each");
    assert!(!link.has_room(5));
    assert_eq!(link.room_at_ns(5), 90_000);
    assert_eq!(run(&mut link, 90_000, &[500; 25]), 25);
}

/// 1,500 bytes at 20 Mbit/s take 600 µs. A run that is late by up to the burst costs no link time.
/// The next runs follow each other after 9/10 of 600 µs until the link is ahead again.
#[test]
fn the_link_catches_up_after_a_late_run_but_not_in_one_burst() {
    let mut link = PacedLink::new(Link::new(20_000_000, 0));
    let mut now_ns = 0;
    let mut gaps = Vec::new();
    for number in 0..12_u64 {
        assert_eq!(run(&mut link, now_ns, &[1_500; 32]), 1);
        let late_ns = if number == 4 { 100_000 } else { 0 };
        let next_ns = link.room_at_ns(now_ns) + late_ns;
        gaps.push((next_ns - now_ns) / 1_000);
        now_ns = next_ns;
    }
    assert_eq!(gaps, [540, 560, 600, 600, 700, 540, 560, 600, 600, 600, 600, 600]);
    assert_eq!(link.idle_ns(0), 0);
    // Delay beyond the burst is lost: the link was idle.
    let next_ns = now_ns + 5_000_000;
    run(&mut link, next_ns, &[1_500]);
    assert_eq!(link.idle_ns(0), 4_900_000);
    assert_eq!(link.room_at_ns(next_ns) - next_ns, 540_000);
}

/// A port whose transmit ring is full until `sends` is set.
struct Stalling {
    sends: Rc<Cell<bool>>,
}

impl Port for Stalling {
    fn receive(
        &mut self,
        _: &mut Pool,
        _: usize,
        _: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        packets.iter().for_each(|packet| pool.release(*packet));
        Ok(packets.len())
    }

    fn retry_pending(&mut self) -> bool {
        !self.sends.get()
    }
}

/// 1,500 bytes at 100 Mbit/s take 120 µs; packets leave at least 108 µs apart. If the device sends
/// the first packet after 500 µs, it gets the second 108 µs later.
#[test]
fn the_next_run_keeps_its_distance_from_a_run_that_the_device_delayed() {
    const MBPS: u64 = 1_000_000;
    let (clock, mock) = Clock::mock();
    let (sends, mut pool) = (Rc::new(Cell::new(false)), Pool::new(4));
    let packets = [(); 2].map(|()| pool.copy(&[0; 1_500]).unwrap());
    let port = Stalling { sends: Rc::clone(&sends) };
    let (classifier, function) = (Classifier::new(Vec::new()), Forwarder::default());
    let mut machine = LiveMachine::new(clock, pool, classifier, function);
    machine.add(port, [2, 0, 0, 0, 0, 1], Link::new(100 * MBPS, 0));
    assert_eq!(machine.transmit(OutputId(0), &packets[..1]), 1);
    mock.increment(499_999);
    assert_eq!(machine.room(OutputId(0), 499_999), 0, "the first packet is still in the ring");
    sends.set(true);
    mock.increment(1);
    assert_eq!(machine.room(OutputId(0), 500_000), 0, "the first packet has just left");
    assert_eq!(machine.room_at_ns(OutputId(0), 500_000), 608_000);
    assert_eq!(machine.room(OutputId(0), 607_999), 0);
    assert!(machine.room(OutputId(0), 608_000) > 0);
}

/// The length of every packet, bytes.
const BYTES: u32 = 1_000;
/// The packets of a burst of path 1.
const BURST: u64 = 40;
const BATCH: u32 = 8;
const WEIGHTS: [u32; 2] = [3, 5];

/// A machine on a CPU that is preempted for the times of `away_ns`, in turn. Path 0 always has
/// packets; path 1 has bursts. The handle of a packet is its path.
struct PreemptedMachine {
    now_ns: u64,
    link: PacedLink,
    away_ns: Vec<u64>,
    at: usize,
    burst: u64,
    /// The packets sent of each path since the burst arrived.
    sent: [u64; 2],
    /// The packets of the other path that were sent before the last packet of the burst: those
    /// behind it in the same batch delay nothing.
    sent_before: u64,
}

impl PreemptedMachine {
    fn new(link: PacedLink, away_ns: Vec<u64>) -> Self {
        Self { now_ns: 0, link, away_ns, at: 0, burst: 0, sent: [0; 2], sent_before: 0 }
    }

    fn reset_counts(&mut self) {
        (self.sent, self.sent_before) = ([0; 2], 0);
    }

    /// Advances the clock by 1 µs of work and the next preemption.
    fn work(&mut self) {
        self.at = (self.at + 1) % self.away_ns.len();
        self.now_ns += 1_000 + self.away_ns[self.at];
    }
}

impl Machine for PreemptedMachine {
    const FREE_CLOCK: bool = false;

    fn now_ns(&mut self) -> u64 {
        self.work();
        self.now_ns
    }

    fn receive(
        &mut self,
        _: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize {
        let burst = self.burst.min(most as u64);
        self.burst -= burst;
        into.extend((0..most as u64).map(|at| {
            (PathId(usize::from(at < burst)), PacketHandle::from_bits(u64::from(at < burst)))
        }));
        most
    }

    fn forward(&mut self, _: PathId, _: &mut PacketHandle) -> Verdict {
        Verdict::Send(OutputId(0))
    }

    fn bytes(&self, _: PacketHandle) -> u32 {
        BYTES
    }

    fn room(&mut self, _: OutputId, now_ns: u64) -> usize {
        if self.link.has_room(now_ns) { usize::MAX } else { 0 }
    }

    fn room_at_ns(&mut self, _: OutputId, now_ns: u64) -> u64 {
        self.link.room_at_ns(now_ns)
    }

    fn transmit(&mut self, _: OutputId, packets: &[PacketHandle]) -> usize {
        self.work();
        for packet in packets {
            self.sent[usize::from(packet.to_bits() == 1)] += 1;
            if packet.to_bits() == 1 {
                self.sent_before = self.sent[0];
            }
        }
        self.link.record_sent(self.now_ns, packets.iter().map(|_| BYTES));
        packets.len()
    }

    fn discard(&mut self, _: PacketHandle) {}
}

paced_output!(PreemptedMachine);

fn plan(rate_bps: u64) -> Plan {
    let link = Link::new(rate_bps, 0);
    Plan {
        stages: Stages::Three,
        batch: Batch { packets: BATCH, time_ns: u64::MAX, batch_wait_ns: 0 },
        inputs: vec![InputPlan { reservation: 1, throttle: None, when_full: WhenFull::Drop }],
        paths: WEIGHTS
            .map(|weight| PathPlan {
                drops: false,
                reservation: 1,
                input_queue: 64,
                output_queue: 64,
                outputs: vec![(OutputId(0), Contract::new().weight(weight).expect("not 0"))],
            })
            .into(),
        outputs: vec![OutputPlan {
            reservation: 1,
            throttle: None,
            discipline: DisciplineRow::parse("wf2q+").expect("in the catalogue"),
            options: Options { link, ..Options::default() },
            structure: StructureName::Scan,
            is_ingress: false,
        }],
    }
}

fn step(router: &mut Router<PreemptedMachine>) {
    if let Step::Idle { until_ns } = router.step() {
        let machine = router.machine_mut();
        machine.now_ns = machine.now_ns.max(until_ns);
        router.resume();
    }
}

#[test]
fn every_process_runs_again_soon_after_the_machine_was_suspended() {
    let mut away_ns = vec![0; 10_000];
    away_ns[5_000] = 60_000_000_000;
    let link = PacedLink::new(Link::new(1_000_000_000, 0));
    let machine = PreemptedMachine::new(link, away_ns);
    let mut router = Router::new(&plan(1_000_000_000), machine).unwrap();
    while router.machine().now_ns < 60_000_000_000 {
        step(&mut router);
    }
    router.machine_mut().away_ns = vec![0];
    while router.machine().now_ns < 62_000_000_000 {
        step(&mut router);
    }
    // Every process runs in two more seconds, whichever ran during the suspension.
    let processes =
        [Process::Input(InputId(0)), Process::Forward(PathId(0)), Process::Output(OutputId(0))];
    let before = processes.map(|process| router.used(process));
    while router.machine().now_ns < 64_000_000_000 {
        step(&mut router);
    }
    for (process, before) in processes.into_iter().zip(before) {
        let used = router.used(process);
        assert!(used.packets > before.packets, "{process:?} does not run");
        assert!(used.busy_ns < 4_000_000_000, "{process:?} was charged {} ns", used.busy_ns);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Preemption of the CPU does not delay a path that becomes backlogged: it gets its share of
    /// the link at once.
    #[test]
    fn a_newly_backlogged_path_does_not_wait_for_steal_time(
        rate_bps in 1_000_000..10_000_000_000u64,
        away_ns in proptest::collection::vec(
            prop_oneof![3 => Just(0), 1 => 0..200_000u64, 1 => 0..30_000_000u64], 1..50),
        rounds in 1..6usize,
    ) {
        let link = PacedLink::new(Link::new(rate_bps, 0));
        let machine = PreemptedMachine::new(link, away_ns);
        let mut router = Router::new(&plan(rate_bps), machine).unwrap();
        for _ in 0..rounds {
            let before = router.path(PathId(0)).sent;
            while router.path(PathId(0)).sent < before + 300 {
                step(&mut router);
            }
            // Counting starts when the whole burst waits at the link.
            router.machine_mut().burst = BURST;
            while router.machine().burst > 0 || router.waiting(PathId(1)).0 > 0 {
                step(&mut router);
            }
            router.machine_mut().reset_counts();
            let waiting = router.waiting(PathId(1)).1 as u64;
            while router.waiting(PathId(1)).1 > 0 {
                step(&mut router);
            }
            let ([_, own], other) = (router.machine().sent, router.machine().sent_before);
            prop_assert_eq!(own, waiting);
            let fair = own * u64::from(WEIGHTS[0]) / u64::from(WEIGHTS[1]);
            // Decisions are made in batches, so the link's time is ahead by one batch. If a batch
            // takes less than a run, it is ahead by two batches.
            let most = fair + 3 * u64::from(BATCH);
            prop_assert!(other <= most, "path 0 sent {other} packets for {own} of path 1");
        }
    }
}

#[test]
fn the_time_by_which_a_lower_rate_is_slower_counts_as_idle_at_the_end() {
    // 1,000 bytes take 4 ms at 2 Mbit/s, 1 ms of them at the link's 8 Mbit/s.
    const MS: u64 = 1_000_000;
    let mut link = PacedLink::new(Link::new(8_000_000, 0));
    link.set_rate(2_000_000);
    link.record_sent(0, [1_000].into_iter());
    assert_eq!([0, 1, 2, 4, 6].map(|ms| link.idle_ns(ms * MS)), [0, 0, MS, 3 * MS, 5 * MS]);
    // The next packet is given 2 ms before the link is free.
    link.record_sent(2 * MS, [1_000].into_iter());
    assert_eq!([2, 3, 4, 8, 9].map(|ms| link.idle_ns(ms * MS)), [MS, MS, 2 * MS, 6 * MS, 7 * MS]);
    link.set_rate(9_000_000);
    link.record_sent(10 * MS, [1_000].into_iter());
    assert_eq!([10, 11, 12].map(|ms| link.idle_ns(ms * MS)), [8 * MS, 8 * MS, 9 * MS]);
    assert_eq!(link.sent_bytes(), 3_000);
}

proptest! {
    #[test]
    fn idle_time_never_grows_faster_than_time_or_shrinks(
        steps in proptest::collection::vec((0u64..3_000_000, 1u32..2_000, 1u64..9), 1..60),
    ) {
        let mut link = PacedLink::new(Link::new(8_000_000, 0));
        let (mut now_ns, mut busy_ns) = (0, 0);
        for (wait_ns, bytes, mbps) in steps {
            let before = link.idle_ns(now_ns);
            now_ns += wait_ns;
            let idle_ns = link.idle_ns(now_ns);
            prop_assert!((before..=before + wait_ns).contains(&idle_ns));
            link.set_rate(mbps * 1_000_000);
            link.record_sent(now_ns, [bytes].into_iter());
            prop_assert_eq!(link.idle_ns(now_ns), idle_ns);
            busy_ns += u64::from(bytes) * 1_000;
        }
        // Over all, only the transmissions at the link's rate are not idle.
        let end_ns = link.free_ns + 5;
        prop_assert_eq!(link.idle_ns(end_ns), end_ns - busy_ns);
    }
}
