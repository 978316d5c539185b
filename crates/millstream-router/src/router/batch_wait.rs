//! Forwarding processes wait for a whole batch while other processes have work.
//!
//! A run has a fixed cost of some packets, which small batches do not amortise. The wait is bounded
//! by the plan, and ends when no other process has work.

use super::{BatchWait, NEVER, Router};
use crate::router::machine::Machine;

impl<M: Machine> Router<M> {
    /// Starts the batch wait of `path` if it has packets, but no whole batch; returns whether it
    /// waits.
    #[inline]
    pub(super) fn wait_for_batch(&mut self, path: usize) -> bool {
        let of = &mut self.paths[path];
        let waiting = of.queue.len();
        if self.batch.gather_ns == 0 || waiting == 0 || waiting >= of.whole {
            return false;
        }
        if of.waiting_for_batch == BatchWait::No {
            self.waiting_for_batch.push(path);
            if self.batch_wait_ends_ns == NEVER {
                self.batch_wait_ends_ns = self.now_ns.saturating_add(self.batch.gather_ns);
            }
        }
        of.waiting_for_batch = BatchWait::Yes;
        true
    }

    /// Ends the batch wait of `path`: its batch is complete.
    #[inline]
    pub(super) fn batch_complete(&mut self, path: usize) {
        let of = &mut self.paths[path];
        if of.waiting_for_batch == BatchWait::Yes {
            of.waiting_for_batch = BatchWait::Done;
            self.refresh_path(path);
        }
    }

    /// Ends all batch waits.
    #[inline]
    pub(super) fn end_batch_waits(&mut self) {
        while let Some(path) = self.waiting_for_batch.pop() {
            let of = &mut self.paths[path];
            if std::mem::take(&mut of.waiting_for_batch) == BatchWait::Yes {
                self.refresh_path(path);
            }
        }
        self.batch_wait_ends_ns = NEVER;
    }

    /// Counts consecutive runs that moved no packet. With more runs than inputs, no packet is
    /// expected soon, and all batch waits end.
    #[inline]
    pub(super) fn count_empty_runs(&mut self, moved: u32) {
        self.empty_runs = if moved == 0 { self.empty_runs + 1 } else { 0 };
        if self.empty_runs > self.inputs.len() && !self.waiting_for_batch.is_empty() {
            self.end_batch_waits();
        }
    }

    /// Ends all batch waits and chooses again: no other process has work.
    #[cold]
    pub(super) fn choose_batch_waiting(&mut self) -> Option<usize> {
        self.end_batch_waits();
        self.cpu.choose(self.worked_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::router::machine::{Accounting, Deferral, MultiCore, PacedLinks};
    use crate::router::plan::{InputPlan, OutputPlan, PathPlan};
    use millstream::catalogue::{DisciplineRow, Options, StructureName};
    use millstream::{Contract, Link as Wire};
    use proptest::prelude::*;

    const GATHER_NS: u64 = 30_000;
    const RUN_NS: u64 = 1_000;
    const BATCH: u32 = 8;

    /// A machine whose runs take a microsecond and whose reads have given numbers of packets per
    /// path.
    struct Scripted {
        now_ns: u64,
        reads: Vec<[usize; 2]>,
        at: usize,
        /// The number of packets that the port accepts.
        room: usize,
        /// The steal time of the next run, ns.
        away_ns: u64,
        /// The steal time of the last run, ns.
        steal_ns: u64,
    }

    impl Machine for Scripted {
        const FREE_CLOCK: bool = false;

        fn now_ns(&mut self) -> u64 {
            self.steal_ns = std::mem::take(&mut self.away_ns);
            self.now_ns += RUN_NS + self.steal_ns;
            self.now_ns
        }

        fn receive(&mut self, _: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize {
            let Some(of) = self.reads.get(self.at) else { return 0 };
            self.at += 1;
            let paths = (0..2).flat_map(|path| std::iter::repeat_n((path, path as u64), of[path]));
            into.extend(paths.take(most));
            into.len()
        }

        fn forward(&mut self, _: usize, _: &mut u64) -> Verdict {
            Verdict::Send(0)
        }

        fn bytes(&self, _: u64) -> u32 {
            64
        }

        fn room(&mut self, _: usize, _: u64) -> usize {
            self.room
        }

        fn room_at_ns(&mut self, _: usize, now_ns: u64) -> u64 {
            now_ns
        }

        fn transmit(&mut self, _: usize, packets: &[u64]) -> usize {
            packets.len()
        }

        fn discard(&mut self, _: u64) {}
    }

    impl Accounting for Scripted {
        fn steal_ns(&mut self, _: u64) -> u64 {
            self.steal_ns
        }
    }

    impl Deferral for Scripted {}

    impl PacedLinks for Scripted {}

    impl MultiCore for Scripted {}

    fn router(reads: Vec<[usize; 2]>) -> Router<Scripted> {
        let path = || PathPlan {
            drops: false,
            reservation: 1_000,
            input_queue: 64,
            output_queue: 64,
            outputs: vec![(0, Contract::new())],
        };
        let link = Wire { rate_bps: 1 << 40, overhead_bytes: 0 };
        let output = OutputPlan {
            reservation: 1_000,
            throttle: None,
            discipline: DisciplineRow::parse("wf2q+").expect("in the catalogue"),
            options: Options { link, ..Options::default() },
            structure: StructureName::Scan,
        };
        let plan = Plan {
            stages: Stages::Three,
            batch: Batch { packets: BATCH, time_ns: u64::MAX, gather_ns: GATHER_NS },
            inputs: vec![InputPlan {
                reservation: 1_000,
                throttle: None,
                when_full: WhenFull::Wait,
            }],
            paths: vec![path(), path()],
            outputs: vec![output],
        };
        Router::new(
            &plan,
            Scripted { now_ns: 0, reads, at: 0, room: usize::MAX, away_ns: 0, steal_ns: 0 },
        )
        .expect("contracts are whole")
    }

    #[test]
    fn a_single_packet_does_not_wait_for_a_batch() {
        let mut router = router(vec![[1, 0]]);
        for _ in 0..5 {
            router.step();
        }
        // One read, two empty polls, forwarding, output.
        assert_eq!(router.path(0).sent, 1);
    }

    /// Inputs that were polled during steal time are owed no service for it.
    #[test]
    fn a_newly_backlogged_process_does_not_wait_for_steal_time() {
        let mut router = router([vec![[0, 0]; 30], vec![[8, 0]]].concat());
        for _ in 0..20 {
            router.step();
        }
        router.machine_mut().away_ns = 1_000_000_000;
        while router.machine().at < 31 {
            router.step();
        }
        for _ in 0..12 {
            router.step();
        }
        assert_eq!(router.path(0).sent, 8);
    }

    #[test]
    fn a_sparse_path_is_forwarded_in_batches_while_other_processes_have_work() {
        let mut router = router(vec![[7, 1]; 1_000]);
        while router.machine().at < 1_000 {
            router.step();
        }
        let used = router.used(Process::Forward(1));
        assert!(used.packets > 900, "{used:?}");
        assert!(used.packets >= 4 * used.runs, "{used:?}");
    }

    /// A paused process would be owed all the time in which it could not run.
    #[test]
    fn a_process_that_waits_for_output_room_is_not_paused() {
        let mut paused = 0;
        for packets in 1..=8 {
            // Eight batches fill the output queue; the reads have more packets than that.
            let mut router = router(vec![[packets, 0]; 66_usize.div_ceil(packets)]);
            router.machine_mut().room = 0;
            let process = router.number(Process::Forward(0));
            for _ in 0..300 {
                router.step();
                paused += usize::from(router.cpu.paused(process));
                assert!(router.has_room(0) || !router.cpu.paused(process), "{packets} at a time");
            }
        }
        assert!(paused > 0);
    }

    proptest! {
        #[test]
        fn no_path_waits_longer_than_the_plan_allows(
            reads in proptest::collection::vec(
                (0..9usize, 0..9usize).prop_map(<[_; 2]>::from),
                1..300,
            ),
        ) {
            let many = reads.len();
            let mut router = router(reads);
            let mut since_ns = [None; 2];
            let mut steps = 0;
            while router.machine().at < many || steps < 100 {
                steps += usize::from(router.machine().at == many);
                let runs = [0, 1].map(|path| router.used(Process::Forward(path)).runs);
                router.step();
                let now_ns = router.machine().now_ns;
                for path in 0..2 {
                    let ran = router.used(Process::Forward(path)).runs > runs[path];
                    let waits = router.waiting(path).0 > 0;
                    let since = since_ns[path].filter(|_| waits && !ran);
                    since_ns[path] = since.or(waits.then_some(now_ns));
                    let waited_ns = since_ns[path].map_or(0, |since_ns| now_ns - since_ns);
                    // Before an eligible process, each of the four processes may run, some twice.
                    prop_assert!(waited_ns <= GATHER_NS + 8 * RUN_NS, "{waited_ns}");
                }
            }
            // A read takes at most a batch; the script drops the rest without counting it.
            let received = [0, 1].map(|path| router.path(path).received);
            let sent = [0, 1].map(|path| router.path(path).sent);
            prop_assert_eq!(sent, received, "nothing is left behind");
        }
    }
}
