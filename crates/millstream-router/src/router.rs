//! Processes and queues: eligibility, selection and runs.
//!
//! | process | eligible while |
//! |---|---|
//! | input | it is awake and polled; with [`WhenFull::Wait`], no input queue is full |
//! | forwarding | its input queue is not empty and none of its output queues is full |
//! | output | a packet waits for the port, the port has room, and it does not sleep |
//!
//! A forwarding process never takes more packets than its output queues can hold, so no finished
//! packet is dropped at a full queue. The router stops allocating once all queues have been full.

mod batch_wait;
pub(crate) mod counters;
pub(crate) mod cpu;
pub(crate) mod cpu_bound;
mod interrupts;
mod link;
mod link_time;
pub(crate) mod machine;
mod parts;
pub(crate) mod plan;
mod process;
mod reload;
mod remote_ownership;
mod runs;
mod sleepers;
pub(crate) mod throttle;

use millstream::ContractError;
use std::mem;

use crate::ids::{IdVec, InputId, OutputId, PacketHandle, PathId, ProcessId};
use crate::router::counters::{InputCounters, PathCounters, ProcessCounters};
use crate::router::cpu::Cpu;
use crate::router::machine::{Machine, QueueId, Verdict};
use crate::router::plan::{Batch, Plan, ReadMode, Stages, WhenFull};
use batch_wait::BatchWaits;
use interrupts::Interrupts;
use parts::{Input, LinkEvents, Output, Parts, Path};
pub use process::Process;
use process::ProcessNumbers;
use reload::Reload;
pub use remote_ownership::RemoteOwnership;
use sleepers::Sleepers;

/// A time that is never reached, ns.
const NEVER: u64 = u64::MAX;
/// Runs longer than this are checked for steal time, ns.
const LONG_RUN_NS: u64 = 200_000;
/// The longest run that is charged, ns. A virtual machine may be suspended during a run; the
/// process must not be charged for it.
const LONGEST_RUN_NS: u64 = 100_000_000;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A process ran and moved this many packets.
    Ran(Process, u32),
    /// No process is eligible.
    Idle {
        /// The earliest time at which a process becomes eligible without an arrival, ns;
        /// `u64::MAX` if there is none.
        until_ns: u64,
    },
}

/// A router: the processes of a plan, scheduled on a machine.
pub struct Router<M> {
    machine: M,
    stages: Stages,
    batch: Batch,
    /// Whether other cores' routers own parts of the plan.
    is_multi_core: bool,
    cpu: Cpu,
    now_ns: u64,
    /// The CPU's virtual time: the sum of all runs, ns. Excludes steal time: no process was served
    /// in it.
    virtual_ns: u64,
    inputs: IdVec<InputId, Input>,
    interrupts: Interrupts,
    paths: IdVec<PathId, Path>,
    outputs: IdVec<OutputId, Output>,
    sleepers: Sleepers,
    batch_waits: BatchWaits,
    numbers: ProcessNumbers,
    processes: IdVec<ProcessId, ProcessCounters>,
    /// The number of paths whose input queue is full.
    full: usize,
    /// A lower bound of the packets that every input queue can still hold.
    room: usize,
    read: Vec<(PathId, PacketHandle)>,
    chosen: Vec<PacketHandle>,
    /// The paths of chosen packets that go on to another output.
    passed_by: Vec<PathId>,
    /// The packets of a batch at their function.
    batch_packets: Vec<PacketHandle>,
    /// The function's verdicts on the packets of a batch.
    verdicts: Vec<Verdict>,
    /// The packets that a function made, with its verdicts.
    made: Vec<(Verdict, PacketHandle)>,
    /// The paths that gained room at an output; their eligibility is updated after the decision.
    freed: Vec<PathId>,
    events: LinkEvents,
    /// The processes that a wake-up concerns.
    woken: Vec<ProcessId>,
}

impl<M: Machine> Router<M> {
    /// Creates the router of `plan` on `machine`.
    ///
    /// # Errors
    /// Fails if a path's contract lacks a field that an output's discipline needs.
    ///
    /// # Panics
    /// Panics if the plan names an output that it does not have, or has a queue or batch of no
    /// packets.
    pub fn new(plan: &Plan, mut machine: M) -> Result<Self, ContractError> {
        let Parts { cpu, inputs, paths, outputs } = Parts::new(plan)?;
        let numbers = ProcessNumbers::new(plan);
        let mut router = Self {
            now_ns: machine.now_ns(),
            machine,
            stages: plan.stages,
            batch: plan.batch,
            is_multi_core: false,
            virtual_ns: 0,
            cpu,
            inputs,
            interrupts: Interrupts::default(),
            paths,
            outputs,
            sleepers: Sleepers::new(numbers),
            batch_waits: BatchWaits::new(plan),
            numbers,
            processes: IdVec::repeat(ProcessCounters::default(), numbers.count()),
            full: 0,
            room: 0,
            read: Vec::new(),
            chosen: Vec::new(),
            passed_by: Vec::new(),
            batch_packets: Vec::new(),
            verdicts: Vec::new(),
            made: Vec::new(),
            freed: Vec::new(),
            events: LinkEvents::default(),
            woken: Vec::with_capacity(numbers.count()),
        };
        router.refresh_all();
        for output in router.outputs.ids() {
            router.link_time(output, router.now_ns);
        }
        Ok(router)
    }

    /// Runs the eligible process that the CPU scheduler selects, if any is eligible.
    #[inline]
    pub fn step(&mut self) -> Step {
        if self.sleepers.next_ns() <= self.now_ns {
            self.wake();
        }
        if self.interrupts.on()
            && let Some(read) = self.run_interrupted()
        {
            return read;
        }
        if self.batch_waits.ends_ns() <= self.now_ns {
            self.end_batch_waits();
        }
        let Some(id) = self.cpu.choose(self.virtual_ns).or_else(|| self.choose_batch_waiting())
        else {
            let next_poll_ns = self.interrupts.next_poll_ns(self.now_ns);
            return Step::Idle { until_ns: self.sleepers.next_ns().min(next_poll_ns) };
        };
        self.machine.dispatched();
        let process = self.numbers.process(id);
        let began_ns = self.now_ns;
        let moved = match process {
            Process::Input(input) => self.run_input(input),
            Process::Forward(path) => self.run_forward(path),
            Process::Output(output) => self.run_output(output),
        };
        self.now_ns = self.machine.now_ns();
        let mut took_ns = self.now_ns - began_ns;
        if took_ns > LONG_RUN_NS {
            took_ns -= self.machine.steal_ns(took_ns).min(took_ns);
            if !M::FREE_CLOCK {
                took_ns = took_ns.min(LONGEST_RUN_NS);
            }
        }
        if let Process::Forward(path) = process
            && !M::FREE_CLOCK
            && moved > 0
        {
            self.paths[path].record_packet_ns(took_ns / u64::from(moved));
        }
        self.throttle(process, id, moved);
        // A process that also waits for output room must not keep its tag.
        let waits_for_batch = match process {
            Process::Forward(path) => self.wait_for_batch(path) && self.has_room(path),
            _ => false,
        };
        if self.batch_waits.count_run(moved) {
            self.end_batch_waits();
        }
        let eligible = self.is_eligible(process, id);
        self.virtual_ns += took_ns;
        self.cpu.finish(id, self.virtual_ns, took_ns, eligible);
        if waits_for_batch && !eligible && !self.sleepers.is_asleep(id) {
            self.cpu.pause(id);
        }
        let counters = &mut self.processes[id];
        counters.runs += 1;
        counters.packets += u64::from(moved);
        counters.busy_ns += took_ns;
        Step::Ran(process, moved)
    }

    /// Reads the machine's clock. Call it after time has passed without a step.
    pub fn resume(&mut self) {
        self.now_ns = self.machine.now_ns();
    }

    /// Returns the machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Returns the machine, mutably: for changes outside the router.
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// Returns the numbers of inputs, paths and outputs.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        self.numbers.sizes()
    }

    /// Returns the counters of an input.
    ///
    /// # Panics
    /// Panics if `input` is out of range.
    #[must_use]
    pub fn input(&self, input: InputId) -> InputCounters {
        self.inputs[input].counters
    }

    /// Returns the counters of a path.
    ///
    /// # Panics
    /// Panics if `path` is out of range.
    #[must_use]
    pub fn path(&self, path: PathId) -> PathCounters {
        self.paths[path].counters
    }

    /// Returns the packets in a path's input queue or held, and those in its local output queues.
    ///
    /// # Panics
    /// Panics if `path` is out of range.
    #[must_use]
    pub fn waiting(&self, path: PathId) -> (usize, usize) {
        let of = &self.paths[path];
        let here = of.outputs.iter().filter(|output| !self.outputs[**output].is_remote);
        let at_output = |output: &OutputId| self.output_waiting(path, *output);
        (of.queue.len() + of.held, here.map(at_output).sum())
    }

    /// Returns the number of packets in the queue of `path` at `output`.
    ///
    /// # Panics
    /// Panics if `path` or `output` is out of range.
    #[must_use]
    pub fn waiting_at(&self, path: PathId, output: OutputId) -> usize {
        self.output_waiting(path, output)
    }

    /// Returns the number of packets that an output has selected and its port has not taken. They
    /// count as sent.
    ///
    /// # Panics
    /// Panics if `output` is out of range.
    #[must_use]
    pub fn staged(&self, output: OutputId) -> usize {
        self.outputs[output].staged.len()
    }

    /// Returns the counters of a process.
    ///
    /// # Panics
    /// Panics if the input, path or output of `process` is out of range.
    #[must_use]
    pub fn used(&self, process: Process) -> ProcessCounters {
        self.processes[self.numbers.id(process)]
    }

    /// Returns the packets in the input queue of `path`.
    ///
    /// # Panics
    /// Panics if `path` is out of range.
    pub fn queued(&self, path: PathId) -> impl Iterator<Item = PacketHandle> {
        self.paths[path].queue.iter().copied()
    }

    /// Sets how inputs are read from now on; the default is [`ReadMode::Polled`].
    pub fn set_read_mode(&mut self, read_mode: ReadMode) {
        self.interrupts.set_read_mode(read_mode);
        for input in self.inputs.ids() {
            self.refresh(self.numbers.id(Process::Input(input)));
        }
    }

    /// Returns how inputs are read.
    #[must_use]
    pub fn read_mode(&self) -> ReadMode {
        self.interrupts.read_mode()
    }

    /// Leaves the `remote` parts to the other routers of the plan from now on.
    ///
    /// # Panics
    /// Panics if the numbers of inputs, paths or outputs are not the plan's.
    pub fn set_remote_parts(&mut self, remote: &RemoteOwnership) {
        assert_eq!(remote.inputs.len(), self.inputs.len(), "one entry per input");
        assert_eq!(remote.paths.len(), self.paths.len(), "one entry per path");
        assert_eq!(remote.outputs.len(), self.outputs.len(), "one entry per output");
        for (input, remote) in self.inputs.iter_mut().zip(&remote.inputs) {
            input.is_remote = *remote;
        }
        for (path, remote) in self.paths.iter_mut().zip(&remote.paths) {
            path.is_remote = *remote;
        }
        for (output, remote) in self.outputs.iter_mut().zip(&remote.outputs) {
            output.is_remote = *remote;
        }
        self.is_multi_core = true;
        self.refresh_all();
    }

    /// Checks remote queues for room. Call it every few steps.
    pub fn refresh_remote_queues(&mut self) {
        for path in self.paths.ids() {
            let of = &self.paths[path];
            if !of.is_remote {
                if !of.queue.is_empty() {
                    self.refresh_path(path);
                }
            } else if of.full
                && self.machine.waiting_remote(QueueId::Path(path)) <= of.high_watermark
            {
                self.clear_full(path);
            }
        }
    }

    /// Switches to a plan with the same inputs and outputs. Path `n` of the new plan is the old
    /// plan's path `kept[n]`, if any: it keeps its packets and its counters. A kept queue may
    /// exceed its new limit until it drains. Queued output packets are enqueued again in the old
    /// discipline's order.
    ///
    /// Drops packets of paths that are removed or now drop, and those at outputs that their path
    /// has left. Call [`set_remote_parts`](Self::set_remote_parts) again afterwards. Returns the
    /// summed counters of removed paths.
    ///
    /// # Errors
    /// Fails if a path's contract lacks a field that an output's discipline needs. The router is
    /// unchanged then.
    ///
    /// # Panics
    /// Panics if the number of inputs or outputs differs, or `kept` does not fit the plans.
    pub fn reload(
        &mut self,
        plan: &Plan,
        kept: &[Option<PathId>],
    ) -> Result<PathCounters, ContractError> {
        assert_eq!(plan.inputs.len(), self.inputs.len(), "the number of inputs must not change");
        assert_eq!(plan.outputs.len(), self.outputs.len(), "the number of outputs must not change");
        assert_eq!(plan.paths.len(), kept.len(), "one entry per path");
        let parts = Parts::new(plan)?;
        let mut back = Vec::new();
        self.machine.give_back(true, &mut back);
        self.requeue_returned(&mut back);
        self.cpu = parts.cpu;
        self.stages = plan.stages;
        self.batch = plan.batch;
        self.is_multi_core = false;
        let mut reload = Reload::new(&mut self.machine, self.now_ns, kept, self.paths.len());
        self.processes = reload.processes(&self.processes, self.numbers);
        self.numbers = ProcessNumbers::new(plan);
        for (input, new) in self.inputs.iter_mut().zip(parts.inputs) {
            *input = Input { counters: input.counters, ..new };
        }
        let mut old_paths = mem::replace(&mut self.paths, parts.paths);
        let old_outputs = mem::replace(&mut self.outputs, parts.outputs);
        reload.move_outputs(old_outputs, &mut old_paths, &self.paths, &mut self.outputs);
        let removed = reload.move_paths(old_paths, &mut self.paths);
        self.room = 0;
        self.batch_waits.reload(plan);
        self.full = self.paths.iter().filter(|path| path.full).count();
        self.sleepers = Sleepers::new(self.numbers);
        // Functions may have other due times now.
        self.sleepers.watch_all();
        self.refresh_all();
        Ok(removed)
    }

    /// Updates and returns the link time of `output` at `now_ns`, ns.
    #[inline]
    fn link_time(&mut self, output: OutputId, now_ns: u64) -> u64 {
        let of = &mut self.outputs[output];
        let waiting = of.link.total_waiting() > 0 || !of.staged.is_empty();
        of.time.idle(self.machine.idle_ns(output, now_ns), waiting);
        of.time.at(now_ns)
    }

    #[inline]
    fn output_waiting(&self, path: PathId, output: OutputId) -> usize {
        if self.outputs[output].is_remote {
            return self.machine.waiting_remote(QueueId::Output { path, output });
        }
        let stream = self.paths[path].streams[output];
        stream.map_or(0, |stream| self.outputs[output].link.waiting(stream) as usize)
    }

    /// Returns how many more packets every output queue of `path` can hold.
    #[inline]
    fn output_room(&self, path: PathId) -> usize {
        let of = &self.paths[path];
        let room = |output: &OutputId| {
            let limit = match (of.has_flows, self.outputs[*output].is_remote) {
                (false, _) => of.output_limit,
                // The flows make room by themselves.
                (true, false) => return usize::MAX,
                // They do so when another core has taken the packet: as many may be in flight.
                (true, true) => 2 * of.output_limit,
            };
            limit.saturating_sub(self.output_waiting(path, *output))
        };
        of.outputs.iter().map(room).min().unwrap_or(usize::MAX)
    }

    #[inline]
    fn is_eligible(&self, process: Process, id: ProcessId) -> bool {
        if self.sleepers.is_asleep(id) {
            return false;
        }
        match process {
            Process::Input(input) => {
                let of = &self.inputs[input];
                let has_room = self.full == 0 || of.when_full == WhenFull::Drop;
                has_room && !of.is_remote && !self.interrupts.on()
            }
            Process::Forward(path) => {
                let of = &self.paths[path];
                let has_work = !of.queue.is_empty() && !self.batch_waits.is_waiting(path);
                (has_work || self.is_due(path)) && self.has_room(path)
            }
            Process::Output(output) => {
                let of = &self.outputs[output];
                !of.staged.is_empty() || of.link.total_waiting() > 0
            }
        }
    }

    /// Returns whether the output queues of `path` have enough room for it to run.
    #[inline]
    fn has_room(&self, path: PathId) -> bool {
        self.stages != Stages::Three || self.output_room(path) >= self.paths[path].fit
    }

    /// Returns whether the function of `path` is due without a packet.
    #[inline]
    fn is_due(&self, path: PathId) -> bool {
        self.machine.due_ns(path) <= self.now_ns
    }

    /// Updates the eligibility of a process from its queues.
    #[inline]
    fn refresh(&mut self, id: ProcessId) {
        let eligible = self.is_eligible(self.numbers.process(id), id);
        self.cpu.set_eligible(id, self.virtual_ns, eligible);
    }

    /// Updates the eligibility of the forwarding process of `path`, unless it is eligible.
    #[inline]
    fn refresh_path(&mut self, path: PathId) {
        let id = self.numbers.id(Process::Forward(path));
        if !self.cpu.eligible(id) {
            self.refresh(id);
        }
    }

    fn refresh_all(&mut self) {
        for id in self.numbers.ids() {
            self.refresh(id);
        }
    }

    /// Wakes the processes whose sleep ends or whose function is due.
    #[cold]
    fn wake(&mut self) {
        let mut woken = mem::take(&mut self.woken);
        self.sleepers.wake(self.now_ns, |path| self.machine.due_ns(path), &mut woken);
        for id in woken.drain(..) {
            self.refresh(id);
        }
        self.woken = woken;
    }

    /// Puts a process to sleep after its run, for as long as its throttle requires.
    #[inline]
    fn throttle(&mut self, process: Process, id: ProcessId, moved: u32) {
        let throttle = match process {
            Process::Input(input) => self.inputs[input].throttle.as_mut(),
            Process::Output(output) => self.outputs[output].throttle.as_mut(),
            Process::Forward(_) => return,
        };
        let Some(throttle) = throttle else { return };
        let waiting = match process {
            Process::Input(input) => self.machine.backlog(input),
            _ => 0,
        };
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        let sleep_ns = throttle.ran(moved.saturating_add(waiting));
        if sleep_ns > 0 {
            let until_ns = (self.now_ns + sleep_ns).max(self.sleepers.until_ns(id));
            self.sleepers.sleep(id, until_ns);
        }
    }

    /// Starts the batch wait of `path` if it has packets, but no full batch; returns whether it
    /// waits.
    #[inline]
    fn wait_for_batch(&mut self, path: PathId) -> bool {
        self.batch_waits.begin(path, self.paths[path].queue.len(), self.now_ns)
    }

    /// Ends all batch waits.
    #[inline]
    fn end_batch_waits(&mut self) {
        while let Some(path) = self.batch_waits.end_next() {
            self.refresh_path(path);
        }
    }

    /// Ends all batch waits and chooses again: no other process has work.
    #[cold]
    fn choose_batch_waiting(&mut self) -> Option<ProcessId> {
        self.end_batch_waits();
        self.cpu.choose(self.virtual_ns)
    }
}
