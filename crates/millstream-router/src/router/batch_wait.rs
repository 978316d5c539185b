//! Forwarding processes wait for a full batch while other processes have work.
//!
//! A run has a fixed cost of some packets, which small batches do not amortise. The wait is bounded
//! by the plan, and ends when no other process has work.

use super::NEVER;
use crate::ids::{IdVec, PathId};
use crate::router::plan::{Batch, PathPlan, Plan};

/// Returns the size of a full batch of `path`: at most half the input queue, so that waiting does
/// not fill it.
pub(super) fn full_batch(path: &PathPlan, batch: Batch) -> usize {
    path.input_queue.div_ceil(2).min(batch.packets) as usize
}

/// The state of a path's wait for a full batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BatchWait {
    #[default]
    No,
    /// The batch was complete in time; `BatchWaits::listed` still lists the path.
    Done,
    Yes,
}

/// The paths that wait for a full batch.
#[derive(Debug)]
pub(super) struct BatchWaits {
    /// The longest wait, ns; 0 if no path waits.
    longest_ns: u64,
    /// The number of inputs.
    inputs: usize,
    /// The state and the full batch of each path.
    paths: IdVec<PathId, (BatchWait, usize)>,
    /// The paths in state `Yes` or `Done`.
    listed: Vec<PathId>,
    /// The time when all waits end, ns.
    ends_ns: u64,
    /// The number of consecutive runs that moved no packet.
    empty_runs: usize,
}

impl BatchWaits {
    /// Creates the waits of the paths of `plan`: none waits.
    pub(super) fn new(plan: &Plan) -> Self {
        let full_batch = |path| (BatchWait::No, full_batch(path, plan.batch));
        Self {
            longest_ns: plan.batch.batch_wait_ns,
            inputs: plan.inputs.len(),
            paths: plan.paths.iter().map(full_batch).collect(),
            listed: Vec::with_capacity(plan.paths.len()),
            ends_ns: NEVER,
            empty_runs: 0,
        }
    }

    /// Switches to another plan; ends all waits.
    pub(super) fn reload(&mut self, plan: &Plan) {
        *self = Self { empty_runs: self.empty_runs, ..Self::new(plan) };
    }

    /// Returns the time when all waits end, ns.
    #[inline]
    pub(super) fn ends_ns(&self) -> u64 {
        self.ends_ns
    }

    /// Returns whether `path` waits for a full batch.
    #[inline]
    pub(super) fn is_waiting(&self, path: PathId) -> bool {
        self.paths[path].0 == BatchWait::Yes
    }

    /// Starts the wait of `path` if it has packets, but no full batch; returns whether it waits.
    #[inline]
    pub(super) fn begin(&mut self, path: PathId, packets: usize, now_ns: u64) -> bool {
        let (state, full_batch) = &mut self.paths[path];
        if self.longest_ns == 0 || packets == 0 || packets >= *full_batch {
            return false;
        }
        if *state == BatchWait::No {
            self.listed.push(path);
            if self.ends_ns == NEVER {
                self.ends_ns = now_ns.saturating_add(self.longest_ns);
            }
        }
        *state = BatchWait::Yes;
        true
    }

    /// Ends the wait of `path` if its queue of `packets` has just become a full batch; returns
    /// whether it waited.
    #[inline]
    pub(super) fn complete(&mut self, path: PathId, packets: usize) -> bool {
        let (state, full_batch) = &mut self.paths[path];
        let waited = packets == *full_batch && *state == BatchWait::Yes;
        if waited {
            *state = BatchWait::Done;
        }
        waited
    }

    /// Ends the wait of another path and returns the path. Call it until it returns `None`: then
    /// all waits have ended.
    #[inline]
    pub(super) fn end_next(&mut self) -> Option<PathId> {
        while let Some(path) = self.listed.pop() {
            if std::mem::take(&mut self.paths[path].0) == BatchWait::Yes {
                return Some(path);
            }
        }
        self.ends_ns = NEVER;
        None
    }

    /// Counts consecutive runs that moved no packet. With more runs than inputs, no packet is
    /// expected soon: returns whether to end all waits.
    #[inline]
    pub(super) fn count_run(&mut self, moved: u32) -> bool {
        self.empty_runs = if moved == 0 { self.empty_runs + 1 } else { 0 };
        self.empty_runs > self.inputs && !self.listed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::BatchWait;
    use crate::router::machine::{Accounting, Deferral, Flows, MultiCore, PacedLinks};
    use crate::router::plan::{InputPlan, OutputPlan, PathPlan};
    use millstream::catalogue::{DisciplineRow, Options, StructureName};
    use millstream::{Contract, Link as Wire};
    use proptest::prelude::*;

    const BATCH_WAIT_NS: u64 = 30_000;
    const RUN_NS: u64 = 1_000;
    const BATCH: u32 = 8;

    /// A machine with runs of a microsecond. Each read returns a given number of packets per path.
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

        fn receive(
            &mut self,
            _: InputId,
            most: usize,
            into: &mut Vec<(PathId, PacketHandle)>,
        ) -> usize {
            let Some(of) = self.reads.get(self.at) else { return 0 };
            self.at += 1;
            let paths = (0..2).flat_map(|path| {
                std::iter::repeat_n((PathId(path), PacketHandle::from_bits(path as u64)), of[path])
            });
            into.extend(paths.take(most));
            into.len()
        }

        fn forward(&mut self, _: PathId, _: &mut PacketHandle) -> Verdict {
            Verdict::Send(OutputId(0))
        }

        fn bytes(&self, _: PacketHandle) -> u32 {
            64
        }

        fn room(&mut self, _: OutputId, _: u64) -> usize {
            self.room
        }

        fn room_at_ns(&mut self, _: OutputId, now_ns: u64) -> u64 {
            now_ns
        }

        fn transmit(&mut self, _: OutputId, packets: &[PacketHandle]) -> usize {
            packets.len()
        }

        fn discard(&mut self, _: PacketHandle) {}
    }

    impl Accounting for Scripted {
        fn steal_ns(&mut self, _: u64) -> u64 {
            self.steal_ns
        }
    }

    impl Deferral for Scripted {}

    impl PacedLinks for Scripted {}

    impl MultiCore for Scripted {}

    impl Flows for Scripted {}

    fn router(reads: Vec<[usize; 2]>) -> Router<Scripted> {
        let path = || PathPlan {
            drops: false,
            reservation: 1_000,
            input_queue: 64,
            output_queue: 64,
            outputs: vec![(OutputId(0), Contract::new())],
        };
        let link = Wire::new(1 << 40, 0);
        let output = OutputPlan {
            reservation: 1_000,
            throttle: None,
            discipline: DisciplineRow::parse("wf2q+").expect("in the catalogue"),
            options: Options { link, ..Options::default() },
            structure: StructureName::Scan,
            is_ingress: false,
        };
        let plan = Plan {
            stages: Stages::Three,
            batch: Batch { packets: BATCH, time_ns: u64::MAX, batch_wait_ns: BATCH_WAIT_NS },
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
        .expect("the contracts are complete")
    }

    #[test]
    fn waits_end_when_complete_when_due_or_after_empty_runs() {
        let mut waits = BatchWaits {
            longest_ns: 100,
            inputs: 1,
            paths: IdVec::repeat((BatchWait::No, 4), 3),
            listed: Vec::new(),
            ends_ns: NEVER,
            empty_runs: 0,
        };
        assert!(!waits.begin(PathId(0), 0, 5), "no packet");
        assert!(!waits.begin(PathId(0), 4, 5), "a full batch");
        assert!(
            waits.begin(PathId(0), 3, 5)
                && waits.begin(PathId(1), 1, 9)
                && waits.begin(PathId(2), 1, 9)
        );
        assert_eq!(waits.ends_ns(), 105, "100 ns after the first");
        assert!(
            !waits.complete(PathId(0), 3)
                && waits.complete(PathId(0), 4)
                && !waits.is_waiting(PathId(0))
        );
        assert!(!waits.count_run(0) && !waits.count_run(8) && !waits.count_run(0));
        assert!(waits.count_run(0), "more empty runs than inputs");
        assert_eq!([(); 3].map(|()| waits.end_next()), [Some(PathId(2)), Some(PathId(1)), None]);
        assert_eq!(waits.ends_ns(), NEVER);
        assert!(!waits.count_run(0), "no path waits");
    }

    #[test]
    fn a_single_packet_does_not_wait_for_a_batch() {
        let mut router = router(vec![[1, 0]]);
        for _ in 0..5 {
            router.step();
        }
        // One read, two empty polls, forwarding, output.
        assert_eq!(router.path(PathId(0)).sent, 1);
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
        assert_eq!(router.path(PathId(0)).sent, 8);
    }

    #[test]
    fn a_sparse_path_is_forwarded_in_batches_while_other_processes_have_work() {
        let mut router = router(vec![[7, 1]; 1_000]);
        while router.machine().at < 1_000 {
            router.step();
        }
        let used = router.used(Process::Forward(PathId(1)));
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
            let process = router.numbers.id(Process::Forward(PathId(0)));
            for _ in 0..300 {
                router.step();
                paused += usize::from(router.cpu.paused(process));
                assert!(
                    router.has_room(PathId(0)) || !router.cpu.paused(process),
                    "{packets} at a time"
                );
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
                let runs = [0, 1].map(|path| router.used(Process::Forward(PathId(path))).runs);
                router.step();
                let now_ns = router.machine().now_ns;
                for path in 0..2 {
                    let ran = router.used(Process::Forward(PathId(path))).runs > runs[path];
                    let waits = router.waiting(PathId(path)).0 > 0;
                    let since = since_ns[path].filter(|_| waits && !ran);
                    since_ns[path] = since.or(waits.then_some(now_ns));
                    let waited_ns = since_ns[path].map_or(0, |since_ns| now_ns - since_ns);
                    // Before an eligible process, each of the four processes may run, some twice.
                    prop_assert!(waited_ns <= BATCH_WAIT_NS + 8 * RUN_NS, "{waited_ns}");
                }
            }
            // A read takes at most a batch; the script drops the rest without counting it.
            let received = [0, 1].map(|path| router.path(PathId(path)).received);
            let sent = [0, 1].map(|path| router.path(PathId(path)).sent);
            prop_assert_eq!(sent, received, "every received packet is sent");
        }
    }
}
