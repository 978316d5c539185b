//! The line that a port sends by: what it carries, until when, and when it lay idle.

/// How far ahead of time a line is given packets, ns. A thread that slept until then is often woken some 60 000 late, and the
/// line is not to lie idle meanwhile.
const AHEAD_NS: u64 = 100_000;
/// After how long a port that took nothing is tried again, ns.
const RETRY_NS: u64 = 10_000;

/// A line of a given rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    rate_bps: u64,
    overhead_bytes: u32,
    /// When it is done with all that it was given, ns.
    free_ns: u64,
    /// How long it had nothing to carry before that, ns.
    idle_ns: u64,
}

impl Line {
    /// An idle line; a packet takes `overhead_bytes` more than its length.
    pub(crate) fn new(rate_bps: u64, overhead_bytes: u32) -> Self {
        Self { rate_bps, overhead_bytes, free_ns: 0, idle_ns: 0 }
    }

    /// Packets that are given to it from now on leave at another rate.
    pub(crate) fn set_rate(&mut self, rate_bps: u64, overhead_bytes: u32) {
        self.rate_bps = rate_bps;
        self.overhead_bytes = overhead_bytes;
    }

    /// Whether it is to be given packets.
    #[inline]
    pub(crate) fn has_room(&self, now_ns: u64) -> bool {
        self.free_ns <= now_ns + AHEAD_NS
    }

    /// When that is worth asking again, ns.
    pub(crate) fn room_at_ns(&self, now_ns: u64) -> u64 {
        let free_ns = self.free_ns.saturating_sub(AHEAD_NS);
        if free_ns > now_ns { free_ns } else { now_ns + RETRY_NS }
    }

    /// How long it has had nothing to carry until `now_ns`, ns in all.
    #[inline]
    pub(crate) fn idle_ns(&self, now_ns: u64) -> u64 {
        self.idle_ns + now_ns.saturating_sub(self.free_ns)
    }

    /// It was given packets of these lengths, bytes, at `now_ns`.
    #[inline]
    pub(crate) fn carry(&mut self, now_ns: u64, lengths: impl Iterator<Item = u32>) {
        let bits = lengths.map(|bytes| u64::from(bytes + self.overhead_bytes)).sum::<u64>() * 8;
        let took_ns = (bits * 1_000_000_000).div_ceil(self.rate_bps.max(1));
        self.idle_ns = self.idle_ns(now_ns);
        self.free_ns = self.free_ns.max(now_ns) + took_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, Verdict};
    use crate::{
        Batch, InputPlan, OutputPlan, PathPlan, Plan, Process, Router, Stages, Step, WhenFull,
    };
    use millstream::catalogue::{DisciplineRow, Options, StructureName};
    use millstream::{Contract, Link};
    use proptest::prelude::*;

    /// Batches of the smallest packets, by a thread that sleeps until there is room, at rates at which a batch takes a fifth of
    /// a millisecond to some.
    #[test]
    fn a_line_is_not_idle_because_who_writes_wakes_late() {
        const LATE_NS: u64 = 80_000;
        for (rate_bps, batch) in [(9_600_000, 16), (24_000_000, 32), (45_000_000, 16)] {
            let mut line = Line::new(rate_bps, 0);
            let mut now_ns = 0;
            for _ in 0..1_000 {
                assert!(line.has_room(now_ns));
                line.carry(now_ns, std::iter::repeat_n(60, batch));
                now_ns = line.room_at_ns(now_ns) + LATE_NS;
            }
            assert_eq!(line.idle_ns(0), 0, "at {rate_bps} bits/s");
        }
    }

    /// What a packet of each path is: its number is its handle.
    const BYTES: u32 = 1_000;
    /// Packets of the path that comes and goes, at a time.
    const BURST: u64 = 40;
    const BATCH: u32 = 8;
    const WEIGHTS: [u32; 2] = [3, 5];

    /// A path that always has packets, and one that has a burst when it is told so, on a processor that
    /// is taken away for as long as `away_ns` says, anywhere.
    struct Interrupted {
        now_ns: u64,
        line: Line,
        away_ns: Vec<u64>,
        at: usize,
        burst: u64,
        /// Packets sent of each path since the burst came.
        sent: [u64; 2],
    }

    impl Interrupted {
        /// Work takes time, and so do others.
        fn work(&mut self) {
            self.at = (self.at + 1) % self.away_ns.len();
            self.now_ns += 1_000 + self.away_ns[self.at];
        }
    }

    impl Machine for Interrupted {
        const FREE_CLOCK: bool = false;

        fn now_ns(&mut self) -> u64 {
            self.work();
            self.now_ns
        }

        fn receive(&mut self, _: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize {
            let burst = self.burst.min(most as u64);
            self.burst -= burst;
            into.extend(
                (0..most as u64).map(|at| (usize::from(at < burst), u64::from(at < burst))),
            );
            most
        }

        fn forward(&mut self, _: usize, _: &mut u64) -> Verdict {
            Verdict::Send(0)
        }

        fn bytes(&self, _: u64) -> u32 {
            BYTES
        }

        fn room(&mut self, _: usize, now_ns: u64) -> usize {
            if self.line.has_room(now_ns) { usize::MAX } else { 0 }
        }

        fn idle_ns(&self, _: usize, now_ns: u64) -> u64 {
            self.line.idle_ns(now_ns)
        }

        fn room_at_ns(&mut self, _: usize, now_ns: u64) -> u64 {
            self.line.room_at_ns(now_ns)
        }

        fn transmit(&mut self, _: usize, packets: &[u64]) -> usize {
            self.work();
            for packet in packets {
                self.sent[usize::from(*packet == 1)] += 1;
            }
            self.line.carry(self.now_ns, packets.iter().map(|_| BYTES));
            packets.len()
        }

        fn discard(&mut self, _: u64) {}
    }

    fn plan(rate_bps: u64) -> Plan {
        let link = Link { rate_bps, overhead_bytes: 0 };
        Plan {
            stages: Stages::Three,
            batch: Batch { packets: BATCH, time_ns: u64::MAX, gather_ns: 0 },
            inputs: vec![InputPlan { reservation: 1, throttle: None, when_full: WhenFull::Drop }],
            paths: WEIGHTS
                .map(|weight| PathPlan {
                    drops: false,
                    reservation: 1,
                    input_queue: 64,
                    output_queue: 64,
                    outputs: vec![(0, Contract::new().weight(weight).expect("not 0"))],
                })
                .into(),
            outputs: vec![OutputPlan {
                reservation: 1,
                throttle: None,
                discipline: DisciplineRow::parse("wf2q+").expect("in the catalogue"),
                options: Options { link, ..Options::default() },
                structure: StructureName::Scan,
            }],
        }
    }

    fn step(router: &mut Router<Interrupted>) {
        if let Step::Idle { until_ns } = router.step() {
            let machine = router.machine_mut();
            machine.now_ns = machine.now_ns.max(until_ns);
            router.resume();
        }
    }

    #[test]
    fn nobody_pays_for_a_machine_that_stood_still() {
        let mut away_ns = vec![0; 10_000];
        away_ns[5_000] = 60_000_000_000;
        let line = Line::new(1_000_000_000, 0);
        let machine = Interrupted { now_ns: 0, line, away_ns, at: 0, burst: 0, sent: [0; 2] };
        let mut router = Router::new(&plan(1_000_000_000), machine).unwrap();
        while router.machine().now_ns < 60_000_000_000 {
            step(&mut router);
        }
        router.machine_mut().away_ns = vec![0];
        while router.machine().now_ns < 62_000_000_000 {
            step(&mut router);
        }
        // Some seconds later everybody runs again, whoever was running.
        let processes = [Process::Input(0), Process::Forward(0), Process::Output(0)];
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

        /// However the processor comes and goes, a path that comes back has its share of the line at once.
        #[test]
        fn who_comes_back_does_not_wait_for_time_that_nobody_had(
            rate_bps in 1_000_000..10_000_000_000u64,
            away_ns in proptest::collection::vec(
                prop_oneof![3 => Just(0), 1 => 0..200_000u64, 1 => 0..30_000_000u64], 1..50),
            rounds in 1..6usize,
        ) {
            let line = Line::new(rate_bps, 0);
            let machine = Interrupted { now_ns: 0, line, away_ns, at: 0, burst: 0, sent: [0; 2] };
            let mut router = Router::new(&plan(rate_bps), machine).unwrap();
            for _ in 0..rounds {
                let before = router.path(0).sent;
                while router.path(0).sent < before + 300 {
                    step(&mut router);
                }
                // All of it waits at the link before it is counted.
                router.machine_mut().burst = BURST;
                while router.machine().burst > 0 || router.waiting(1).0 > 0 {
                    step(&mut router);
                }
                router.machine_mut().sent = [0; 2];
                let waiting = router.waiting(1).1 as u64;
                while router.waiting(1).1 > 0 {
                    step(&mut router);
                }
                let [other, own] = router.machine().sent;
                prop_assert_eq!(own, waiting);
                let fair = own * u64::from(WEIGHTS[0]) / u64::from(WEIGHTS[1]);
                // Decisions are made by batches, so the link's time is ahead by what one of them takes; where that is less than
                // a run, by what two of them do.
                let most = fair + 3 * u64::from(BATCH);
                prop_assert!(other <= most, "{other} packets of the other for {own}");
            }
        }
    }
}
