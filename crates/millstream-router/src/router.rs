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
mod interrupts;
mod link;
mod link_time;
pub(crate) mod machine;
pub(crate) mod plan;
mod reload;
mod remote_ownership;
mod runs;
mod sleep;
pub(crate) mod throttle;

use millstream::{ContractError, Departure, Observer, StreamId};
use std::collections::VecDeque;

use crate::router::counters::{InputCounters, PathCounters, ProcessCounters};
use crate::router::cpu::Cpu;
use crate::router::machine::{Machine, QueueId, Verdict};
use crate::router::plan::{Batch, Plan, Stages, WhenFull};
use crate::router::throttle::Throttle;
use interrupts::Interrupts;
use link::Link;
use link_time::LinkTime;
pub use remote_ownership::RemoteOwnership;

/// A time that is never reached, ns.
const NEVER: u64 = u64::MAX;
/// Runs longer than this are checked for steal time, ns.
const LONG_RUN_NS: u64 = 200_000;
/// The longest run that is charged, ns. A virtual machine may be suspended during a run; the
/// process must not be charged for it.
const LONGEST_RUN_NS: u64 = 100_000_000;
/// The time per packet is averaged over about 2^3 batches.
const AVERAGE_SHIFT: u32 = 3;

/// A process of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The input process of this input.
    Input(usize),
    /// The forwarding process of this path.
    Forward(usize),
    /// The output process of this output.
    Output(usize),
}

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

struct Input {
    /// Whether another core's router reads it.
    is_remote: bool,
    throttle: Option<Throttle>,
    when_full: WhenFull,
    counters: InputCounters,
}

struct Path {
    drops: bool,
    /// Whether another core's router runs its function.
    is_remote: bool,
    queue: VecDeque<u64>,
    limit: usize,
    /// The number of packets that the machine holds.
    held: usize,
    /// The path's stream at each output; `None` where it has no queue.
    streams: Vec<Option<StreamId>>,
    /// The outputs at which it has a queue.
    outputs: Vec<usize>,
    output_limit: usize,
    /// The room that each output queue must have before the process runs, packets: one, or a batch.
    fit: usize,
    /// Whether `Router::freed` lists the path.
    freed: bool,
    /// Whether `Router::timed` lists the path.
    timed: bool,
    /// The recent average time per packet, ns.
    packet_ns: u64,
    waiting_for_batch: BatchWait,
    /// The size of a whole batch: at most half the input queue, so that waiting does not fill it.
    whole: usize,
    /// Whether the input queue holds more than `high_watermark` packets: it cannot hold another
    /// packet, or another whole batch.
    full: bool,
    high_watermark: usize,
    counters: PathCounters,
}

/// The state of a path's wait for a whole batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BatchWait {
    #[default]
    No,
    /// The batch was complete in time; `Router::waiting_for_batch` still lists the path.
    Done,
    Yes,
}

impl Path {
    /// Updates the average time per packet.
    #[inline]
    fn took(&mut self, packet_ns: u64) {
        let (more, less) =
            (packet_ns.saturating_sub(self.packet_ns), self.packet_ns.saturating_sub(packet_ns));
        self.packet_ns += more.div_ceil(1 << AVERAGE_SHIFT);
        self.packet_ns -= less.div_ceil(1 << AVERAGE_SHIFT);
    }
}

struct Output {
    /// Whether another core's router writes to it.
    is_remote: bool,
    /// Whether rate caps held back all waiting packets at the last decision.
    held_back: bool,
    throttle: Option<Throttle>,
    link: Link,
    time: LinkTime,
    /// The path of each of the link's streams.
    paths: Vec<usize>,
    /// Selected packets that the port has not taken yet.
    staged: VecDeque<u64>,
    /// The length of the longest packet since the queues were last empty, bytes: no waiting packet
    /// is longer.
    longest_bytes: u32,
}

/// Packets that the link's discipline dropped during a decision.
#[derive(Default)]
struct Late(Vec<(StreamId, u64)>);

impl Observer for Late {
    fn dropped(&mut self, departure: &Departure) {
        self.0.push((departure.stream, departure.tag));
    }
}

/// The state that a router builds from a plan.
struct Parts {
    cpu: Cpu,
    inputs: Vec<Input>,
    paths: Vec<Path>,
    outputs: Vec<Output>,
}

impl Parts {
    fn new(plan: &Plan) -> Result<Self, ContractError> {
        assert!(plan.batch.packets > 0, "a batch of no packets");
        let mut cpu = Cpu::default();
        let mut outputs = Vec::new();
        for (number, output) in plan.outputs.iter().enumerate() {
            let leaving = plan.paths.iter().flat_map(|path| &path.outputs);
            let capped = leaving.filter(|of| of.0 == number).any(|of| of.1.is_limited());
            let link = Link::new(output.discipline, &output.options, output.structure);
            let throttle = output.throttle.map(Throttle::new);
            let (time, paths) = (LinkTime::new(output, capped), Vec::new());
            outputs.push(Output {
                is_remote: false,
                held_back: false,
                throttle,
                link,
                time,
                paths,
                staged: VecDeque::new(),
                longest_bytes: 0,
            });
        }
        for input in &plan.inputs {
            cpu.add(input.reservation)?;
        }
        let mut paths = Vec::new();
        for (number, path) in plan.paths.iter().enumerate() {
            let whole = path.input_queue.div_ceil(2).min(plan.batch.packets) as usize;
            let waits_for_batch = plan.batch.gather_ns > 0;
            // The queue of a dropping path stays empty: an infinite limit never blocks an input.
            let limit = if path.drops { usize::MAX } else { path.input_queue as usize };
            let queues = path.input_queue > 0 && path.output_queue > 0;
            assert!(path.drops || queues, "a queue of no packets");
            cpu.add(path.reservation)?;
            let mut streams = vec![None; outputs.len()];
            for (output, contract) in &path.outputs {
                let at = &mut outputs[*output];
                streams[*output] = Some(at.link.add_stream(contract.clone())?);
                at.paths.push(number);
            }
            paths.push(Path {
                drops: path.drops,
                is_remote: false,
                queue: VecDeque::with_capacity(path.input_queue as usize),
                limit,
                held: 0,
                streams,
                outputs: path.outputs.iter().map(|(output, _)| *output).collect(),
                output_limit: path.output_queue as usize,
                fit: if waits_for_batch {
                    whole.min(path.output_queue.div_ceil(2) as usize)
                } else {
                    1
                },
                freed: false,
                timed: false,
                packet_ns: 1,
                waiting_for_batch: BatchWait::No,
                whole,
                full: false,
                high_watermark: limit - if waits_for_batch { whole.max(1) } else { 1 },
                counters: PathCounters::default(),
            });
        }
        for output in &plan.outputs {
            cpu.add(output.reservation)?;
        }
        let inputs = plan.inputs.iter().map(|input| Input {
            is_remote: false,
            throttle: input.throttle.map(Throttle::new),
            when_full: input.when_full,
            counters: InputCounters::default(),
        });
        Ok(Self { cpu, inputs: inputs.collect(), paths, outputs })
    }
}

/// A router: the processes of a plan, scheduled on a machine.
pub struct Router<M> {
    machine: M,
    stages: Stages,
    batch: Batch,
    /// Whether other cores' routers own parts of the plan.
    parted: bool,
    cpu: Cpu,
    now_ns: u64,
    /// The CPU's virtual time: the sum of all runs, ns. Excludes steal time: no process was served
    /// in it.
    worked_ns: u64,
    inputs: Vec<Input>,
    interrupts: Interrupts,
    paths: Vec<Path>,
    outputs: Vec<Output>,
    /// The time until which each process sleeps, ns; 0 if it does not sleep.
    asleep_until_ns: Vec<u64>,
    /// The processes that sleep.
    sleepers: Vec<usize>,
    /// The earliest time in `asleep_until_ns`, and of the times at which a path's function is due.
    next_wake_ns: u64,
    /// The paths whose function may become due without a packet.
    timed: Vec<usize>,
    processes: Vec<ProcessCounters>,
    /// The number of paths whose input queue is full.
    full: usize,
    /// A lower bound of the packets that every input queue can still hold.
    room: usize,
    /// The paths that wait for a whole batch.
    waiting_for_batch: Vec<usize>,
    /// The time when all batch waits end, ns.
    batch_wait_ends_ns: u64,
    /// The number of consecutive runs that moved no packet.
    empty_runs: usize,
    read: Vec<(usize, u64)>,
    chosen: Vec<u64>,
    /// The packets of a batch at their function.
    at_work: Vec<u64>,
    /// The function's verdicts on the packets of a batch.
    verdicts: Vec<Verdict>,
    /// The packets that a function made, with its verdicts.
    made: Vec<(Verdict, u64)>,
    /// The paths that gained room at an output; their eligibility is updated after the decision.
    freed: Vec<usize>,
    late: Late,
}

impl<M: Machine> Router<M> {
    /// Creates the router of `plan` on `machine`.
    ///
    /// # Errors
    /// If a path's contract lacks a field that an output's discipline needs.
    ///
    /// # Panics
    /// If the plan names an output that it does not have, or has a queue or batch of no packets.
    pub fn new(plan: &Plan, mut machine: M) -> Result<Self, ContractError> {
        let Parts { cpu, inputs, paths, outputs } = Parts::new(plan)?;
        let processes = plan.inputs.len() + plan.paths.len() + plan.outputs.len();
        let mut router = Self {
            now_ns: machine.now_ns(),
            machine,
            stages: plan.stages,
            batch: plan.batch,
            parted: false,
            worked_ns: 0,
            cpu,
            inputs,
            interrupts: Interrupts::default(),
            paths,
            outputs,
            asleep_until_ns: vec![0; processes],
            sleepers: Vec::with_capacity(processes),
            next_wake_ns: NEVER,
            timed: Vec::with_capacity(plan.paths.len()),
            processes: vec![ProcessCounters::default(); processes],
            full: 0,
            room: 0,
            waiting_for_batch: Vec::with_capacity(plan.paths.len()),
            batch_wait_ends_ns: NEVER,
            empty_runs: 0,
            read: Vec::new(),
            chosen: Vec::new(),
            at_work: Vec::new(),
            verdicts: Vec::new(),
            made: Vec::new(),
            freed: Vec::new(),
            late: Late::default(),
        };
        for number in 0..processes {
            router.refresh(number);
        }
        for output in 0..router.outputs.len() {
            router.link_time(output, router.now_ns);
        }
        Ok(router)
    }

    /// Runs the eligible process that the CPU scheduler selects, if any is eligible.
    #[inline]
    pub fn step(&mut self) -> Step {
        if self.next_wake_ns <= self.now_ns {
            self.wake();
        }
        if self.interrupts.on()
            && let Some(read) = self.interrupted()
        {
            return read;
        }
        if self.batch_wait_ends_ns <= self.now_ns {
            self.end_batch_waits();
        }
        let Some(number) = self.cpu.choose(self.worked_ns).or_else(|| self.choose_batch_waiting())
        else {
            let look_again_ns = self.interrupts.look_again_ns(self.now_ns);
            return Step::Idle { until_ns: self.next_wake_ns.min(look_again_ns) };
        };
        self.machine.dispatched();
        let process = self.process(number);
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
            self.paths[path].took(took_ns / u64::from(moved));
        }
        self.rest(process, number, moved);
        // A process that also waits for output room must not keep its tag.
        let waits_for_batch = match process {
            Process::Forward(path) => self.wait_for_batch(path) && self.has_room(path),
            _ => false,
        };
        self.count_empty_runs(moved);
        let eligible = self.is_eligible(process, number);
        self.worked_ns += took_ns;
        self.cpu.finish(number, self.worked_ns, took_ns, eligible);
        if waits_for_batch && !eligible && self.asleep_until_ns[number] == 0 {
            self.cpu.pause(number);
        }
        let counters = &mut self.processes[number];
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
        (self.inputs.len(), self.paths.len(), self.outputs.len())
    }

    /// Returns the counters of an input.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn input(&self, input: usize) -> InputCounters {
        self.inputs[input].counters
    }

    /// Returns the counters of a path.
    ///
    /// # Panics
    /// If there is no such path.
    #[must_use]
    pub fn path(&self, path: usize) -> PathCounters {
        self.paths[path].counters
    }

    /// Returns the packets in a path's input queue or held, and those in its local output queues.
    ///
    /// # Panics
    /// If there is no such path.
    #[must_use]
    pub fn waiting(&self, path: usize) -> (usize, usize) {
        let of = &self.paths[path];
        let here = of.outputs.iter().filter(|output| !self.outputs[**output].is_remote);
        let at_output = |output: &usize| self.output_waiting(path, *output);
        (of.queue.len() + of.held, here.map(at_output).sum())
    }

    /// Returns the number of packets in the queue of `path` at `output`.
    ///
    /// # Panics
    /// If there is no such path or output.
    #[must_use]
    pub fn waiting_at(&self, path: usize, output: usize) -> usize {
        self.output_waiting(path, output)
    }

    /// Returns the number of packets that an output has selected and its port has not taken. They
    /// count as sent.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    pub fn staged(&self, output: usize) -> usize {
        self.outputs[output].staged.len()
    }

    /// Returns the counters of a process.
    ///
    /// # Panics
    /// If there is no such process.
    #[must_use]
    pub fn used(&self, process: Process) -> ProcessCounters {
        self.processes[self.number(process)]
    }

    #[inline]
    fn process(&self, number: usize) -> Process {
        let forward = self.inputs.len();
        let output = forward + self.paths.len();
        if number < forward {
            Process::Input(number)
        } else if number < output {
            Process::Forward(number - forward)
        } else {
            Process::Output(number - output)
        }
    }

    #[inline]
    fn number(&self, process: Process) -> usize {
        match process {
            Process::Input(input) => input,
            Process::Forward(path) => self.inputs.len() + path,
            Process::Output(output) => self.inputs.len() + self.paths.len() + output,
        }
    }

    /// Updates and returns the link time of `output` at `now_ns`, ns.
    #[inline]
    fn link_time(&mut self, output: usize, now_ns: u64) -> u64 {
        let of = &mut self.outputs[output];
        let waiting = of.link.total_waiting() > 0 || !of.staged.is_empty();
        of.time.idle(self.machine.idle_ns(output, now_ns), waiting);
        of.time.at(now_ns)
    }

    #[inline]
    fn output_waiting(&self, path: usize, output: usize) -> usize {
        if self.outputs[output].is_remote {
            return self.machine.waiting_remote(QueueId::Output { path, output });
        }
        let stream = self.paths[path].streams[output];
        stream.map_or(0, |stream| self.outputs[output].link.waiting(stream) as usize)
    }

    /// Returns how many more packets every output queue of `path` can hold.
    #[inline]
    fn output_room(&self, path: usize) -> usize {
        let of = &self.paths[path];
        let room =
            |output: &usize| of.output_limit.saturating_sub(self.output_waiting(path, *output));
        of.outputs.iter().map(room).min().unwrap_or(usize::MAX)
    }

    #[inline]
    fn is_eligible(&self, process: Process, number: usize) -> bool {
        if self.asleep_until_ns[number] != 0 {
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
                (!of.queue.is_empty() && of.waiting_for_batch != BatchWait::Yes
                    || self.is_due(path))
                    && self.has_room(path)
            }
            Process::Output(output) => {
                let of = &self.outputs[output];
                !of.staged.is_empty() || of.link.total_waiting() > 0
            }
        }
    }

    /// Returns whether the output queues of `path` have enough room for it to run.
    #[inline]
    fn has_room(&self, path: usize) -> bool {
        self.stages != Stages::Three || self.output_room(path) >= self.paths[path].fit
    }

    /// Returns whether the function of `path` is due without a packet.
    #[inline]
    fn is_due(&self, path: usize) -> bool {
        self.machine.due_ns(path) <= self.now_ns
    }

    /// Updates the eligibility of a process from its queues.
    #[inline]
    fn refresh(&mut self, number: usize) {
        let eligible = self.is_eligible(self.process(number), number);
        self.cpu.set_eligible(number, self.worked_ns, eligible);
    }
}
