//! Processes and queues: eligibility, selection and runs.
//!
//! | process | eligible while |
//! |---|---|
//! | input | it is awake and polled; with [`WhenFull::Wait`], every input queue has room |
//! | forwarding | its input queue is not empty and none of its output queues is full |
//! | output | a packet waits for the port, the port has room, and it does not sleep |
//!
//! A forwarding process never takes more packets than its output queues have room for, so no
//! finished packet is dropped at a full queue. Nothing is allocated once all queues have been
//! full.

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

/// Never.
const NEVER: u64 = u64::MAX;
/// Runs longer than this are checked for steal time, ns.
const LONG_RUN_NS: u64 = 200_000;
/// The longest run that is charged, ns. A virtual machine may be suspended; the process that ran
/// then must not pay for it.
const LONGEST_RUN_NS: u64 = 100_000_000;
/// What a packet took is averaged over about 2^3 batches.
const AVERAGE_SHIFT: u32 = 3;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The input process of this input.
    Input(usize),
    /// The forwarding process of this path.
    Forward(usize),
    /// The output process of this output.
    Output(usize),
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A process ran and moved this many packets.
    Ran(Process, u32),
    /// No process is eligible, and none will be before this time, ns, by time alone.
    Idle {
        /// The time; the greatest number if there is none.
        until_ns: u64,
    },
}

struct Input {
    /// Another core's router reads it.
    is_remote: bool,
    throttle: Option<Throttle>,
    when_full: WhenFull,
    counters: InputCounters,
}

struct Path {
    drops: bool,
    /// Another core's router runs its function.
    is_remote: bool,
    queue: VecDeque<u64>,
    limit: usize,
    /// Packets that the machine holds.
    held: usize,
    /// Its stream at each output; `None` where it has no queue.
    streams: Vec<Option<StreamId>>,
    /// The outputs at which it has a queue.
    outputs: Vec<usize>,
    output_limit: usize,
    /// Packets that each output queue must have room for before the process runs: one,
    /// or a batch.
    fit: usize,
    /// Listed among the paths that have room at an output again.
    freed: bool,
    /// Listed among the paths whose function has a deadline.
    timed: bool,
    /// What one packet took of late, ns.
    packet_ns: u64,
    waiting_for_batch: BatchWait,
    /// For how many packets it does: no more than half its queue, which would be full at once.
    whole: usize,
    /// The input queue holds more than `high_watermark` packets: it has no room, or none for
    /// a whole batch.
    full: bool,
    high_watermark: usize,
    counters: PathCounters,
}

/// Whether a path waits for a whole batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BatchWait {
    #[default]
    No,
    /// It did, and had it before its time was over; the router's list still has it.
    Done,
    Yes,
}

impl Path {
    /// Averages what a packet takes over some batches.
    #[inline]
    fn took(&mut self, packet_ns: u64) {
        let (more, less) =
            (packet_ns.saturating_sub(self.packet_ns), self.packet_ns.saturating_sub(packet_ns));
        self.packet_ns += more.div_ceil(1 << AVERAGE_SHIFT);
        self.packet_ns -= less.div_ceil(1 << AVERAGE_SHIFT);
    }
}

struct Output {
    /// Another core's router writes to it.
    is_remote: bool,
    /// When it last chose, rate caps held back all that waited.
    held_back: bool,
    throttle: Option<Throttle>,
    link: Link,
    time: LinkTime,
    /// The path of each of the link's streams.
    paths: Vec<usize>,
    /// Packets selected that the port did not take yet.
    staged: VecDeque<u64>,
    /// No packet that waits is longer, bytes: the longest since none waited.
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

/// What a plan is made into.
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
            // What is never filled is never full, and keeps no input waiting.
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

/// A router on a machine.
pub struct Router<M> {
    machine: M,
    stages: Stages,
    batch: Batch,
    /// Some of all that belongs to other cores' routers.
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
    /// Until when each process sleeps, ns; 0 if it does not.
    asleep_until_ns: Vec<u64>,
    /// Those that sleep.
    sleepers: Vec<usize>,
    /// The least of the times, and of those at which a path's function wants to run.
    next_wake_ns: u64,
    /// Paths whose function may want to run at some time without a packet.
    timed: Vec<usize>,
    processes: Vec<ProcessCounters>,
    /// Paths whose input queue is full.
    full: usize,
    /// Every input queue has room for at least this many packets.
    room: usize,
    /// Paths that gather a batch, and when all of them have waited for long enough, ns.
    waiting_for_batch: Vec<usize>,
    batch_wait_ends_ns: u64,
    /// Runs in a row that moved no packet.
    empty_runs: usize,
    read: Vec<(usize, u64)>,
    chosen: Vec<u64>,
    /// Packets at their function, and what it says of them.
    at_work: Vec<u64>,
    verdicts: Vec<Verdict>,
    /// Packets that a function made, and what it says of them.
    made: Vec<(Verdict, u64)>,
    /// Paths that have room at an output again.
    freed: Vec<usize>,
    late: Late,
}

impl<M: Machine> Router<M> {
    /// A router as `plan` says, on `machine`.
    ///
    /// # Errors
    /// If a path's contract lacks what an output's discipline needs.
    ///
    /// # Panics
    /// If the plan names an output that it does not have, or a queue or batch of none.
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

    /// Runs the process that comes first, if one is eligible.
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
        // The process waits for its batch only, not for room.
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

    /// Reads the machine's clock, after time has passed without a step.
    pub fn resume(&mut self) {
        self.now_ns = self.machine.now_ns();
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine, to change what lies outside the router.
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// How many inputs, paths and outputs there are.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.inputs.len(), self.paths.len(), self.outputs.len())
    }

    /// What an input process read.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn input(&self, input: usize) -> InputCounters {
        self.inputs[input].counters
    }

    /// Where the packets of a path went.
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

    /// Packets that wait in the queue of `path` at an output that is here.
    ///
    /// # Panics
    /// If there is no such path, or output.
    #[must_use]
    pub fn waiting_at(&self, path: usize, output: usize) -> usize {
        self.output_waiting(path, output)
    }

    /// Packets that an output has selected and its port has not taken. They count as sent.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    pub fn staged(&self, output: usize) -> usize {
        self.outputs[output].staged.len()
    }

    /// What a process used.
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

    /// The time that the link of `output` is told at `now_ns`.
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

    /// For how many more packets each output queue of `path` has room.
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

    /// Whether the output queues of `path` have room for what it is to have room for.
    #[inline]
    fn has_room(&self, path: usize) -> bool {
        self.stages != Stages::Three || self.output_room(path) >= self.paths[path].fit
    }

    /// Whether the function of `path` wants to run without a packet.
    #[inline]
    fn is_due(&self, path: usize) -> bool {
        self.machine.due_ns(path) <= self.now_ns
    }

    /// Makes a process eligible or not, as its queues are now.
    #[inline]
    fn refresh(&mut self, number: usize) {
        let eligible = self.is_eligible(self.process(number), number);
        self.cpu.set_eligible(number, self.worked_ns, eligible);
    }
}
