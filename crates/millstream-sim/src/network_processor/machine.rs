//! The machine: engines, memories, queues and ports, driven by events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::constants::SWAP_CYCLES;
use super::memory::Memory;
use super::microengine::{ContextId, Microengine, Progress};
use super::port::Port;
use super::program::{Operation, Program, QueueId, Source, Unit};
use super::queue::Queue;

/// The components of a machine.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// Programs of each engine's contexts, at most four per engine.
    pub engines: Vec<Vec<Program>>,
    /// Capacity and initial length of each queue.
    pub queues: Vec<(usize, usize)>,
    /// Queue that the receiving port fills at line rate; packets without room are lost.
    pub arrivals: Option<QueueId>,
    /// Length of every packet, bytes.
    pub bytes: u32,
    /// The SRAM.
    pub sram: Memory,
    /// The SDRAM.
    pub sdram: Memory,
    /// The scratchpad.
    pub scratch: Memory,
    /// The hash unit.
    pub hash: Memory,
}

/// Packet counters of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets received from the wire, produced by a program, or present at the start.
    pub entered: u64,
    /// Packets received from the wire that found no room.
    pub lost: u64,
    /// Packets sent on the wire.
    pub transmitted: u64,
    /// Packets consumed by a program that does not pass them on.
    pub consumed: u64,
}

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet has arrived from the wire.
    Arrived,
    /// The wait of this engine's context has ended: engine, context.
    Woken(usize, usize),
    /// The packet of this engine's context has left on the wire: engine, context.
    Sent(usize, usize),
    /// The current context of this engine continues.
    Step(usize),
    /// This engine is free for another context.
    Free(usize),
}

/// A model of a network processor.
#[derive(Clone, Debug)]
pub struct Machine {
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Number of events scheduled so far; it orders the events of one cycle.
    scheduled: u64,
    engines: Vec<Microengine>,
    queues: Vec<Queue>,
    arrivals: Option<QueueId>,
    receiver: Port,
    transmitter: Port,
    sram: Memory,
    sdram: Memory,
    scratch: Memory,
    hash: Memory,
    totals: Totals,
}

/// When a context continues after an operation.
enum Next {
    /// Immediately.
    Now,
    /// The context continues after a scheduled event, and keeps its engine.
    Later,
    /// The context continues when it is woken; its engine is free after this number of cycles.
    Swapped(u64),
}

impl Machine {
    /// Creates a machine at cycle 0.
    #[must_use]
    pub fn new(config: MachineConfig) -> Self {
        let entered = config.queues.iter().map(|(_, waiting)| *waiting as u64).sum();
        let mut machine = Self {
            now: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            engines: config.engines.iter().map(|programs| Microengine::new(programs)).collect(),
            queues: config.queues.iter().map(|(room, full)| Queue::new(*room, *full)).collect(),
            arrivals: config.arrivals,
            receiver: Port::new(config.bytes),
            transmitter: Port::new(config.bytes),
            sram: config.sram,
            sdram: config.sdram,
            scratch: config.scratch,
            hash: config.hash,
            totals: Totals { entered, ..Totals::default() },
        };
        if machine.arrivals.is_some() {
            let first = machine.receiver.transmit(0);
            machine.schedule(first, Event::Arrived);
        }
        for engine in 0..machine.engines.len() {
            machine.schedule(0, Event::Free(engine));
        }
        machine
    }

    /// Returns the current cycle.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the packet counters.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the number of packets in queues and contexts.
    #[must_use]
    pub fn inside(&self) -> u64 {
        let queued: usize = self.queues.iter().map(|queue| queue.waiting).sum();
        let contexts = self.engines.iter().flat_map(|engine| &engine.contexts);
        (queued + contexts.filter(|context| context.holds_packet).count()) as u64
    }

    /// Returns the number of finished body runs of context `context` on `engine`.
    #[must_use]
    pub fn finished(&self, engine: usize, context: usize) -> u64 {
        self.engines[engine].contexts[context].finished
    }

    /// Returns the cycles for which the SRAM's command unit was busy.
    #[must_use]
    pub fn sram_busy(&self) -> u64 {
        self.sram.busy()
    }

    /// Runs while `condition` holds, or until no event is left.
    pub fn run_while(&mut self, condition: impl Fn(&Self) -> bool) {
        while condition(self) {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.now = at;
            self.handle(event);
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, self.scheduled, event)));
        self.scheduled += 1;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrived => self.arrive(),
            Event::Woken(engine, context) => self.wake_context(engine, context),
            Event::Sent(engine, context) => {
                self.totals.transmitted += 1;
                self.engines[engine].contexts[context].holds_packet = false;
                self.wake_context(engine, context);
            }
            Event::Step(engine) => self.step(engine),
            Event::Free(engine) => {
                self.engines[engine].running = false;
                self.dispatch(engine);
            }
        }
    }

    fn wake_context(&mut self, engine: usize, context: usize) {
        self.engines[engine].contexts[context].ready = true;
        if !self.engines[engine].running {
            self.dispatch(engine);
        }
    }

    fn arrive(&mut self) {
        let next = self.receiver.transmit(self.now);
        self.schedule(next, Event::Arrived);
        self.totals.entered += 1;
        let Some(QueueId(queue)) = self.arrivals else { return };
        if self.queues[queue].full() {
            self.totals.lost += 1;
        } else {
            let woken = self.queues[queue].put();
            self.wake(woken);
        }
    }

    fn wake(&mut self, context: Option<ContextId>) {
        if let Some(ContextId { engine, context }) = context {
            self.schedule(self.now, Event::Woken(engine, context));
        }
    }

    /// Runs the next ready context on an idle engine.
    fn dispatch(&mut self, engine: usize) {
        if let Some(context) = self.engines[engine].next_ready() {
            self.engines[engine].current = context;
            self.engines[engine].running = true;
            self.step(engine);
        }
    }

    /// Runs an engine's current context until it must wait.
    fn step(&mut self, engine: usize) {
        let id = ContextId { engine, context: self.engines[engine].current };
        loop {
            match self.advance(id) {
                Next::Now => {}
                Next::Later => break,
                Next::Swapped(cycles) => {
                    self.engines[engine].contexts[id.context].ready = false;
                    self.schedule(self.now + cycles, Event::Free(engine));
                    break;
                }
            }
        }
    }

    /// Executes one step of a context.
    fn advance(&mut self, id: ContextId) -> Next {
        let context = &mut self.engines[id.engine].contexts[id.context];
        match context.progress {
            Progress::Requesting => self.request_work(id),
            Progress::Prologue(at, packets) => {
                if let Some(operation) = context.program.prologue.get(at).copied() {
                    context.progress = Progress::Prologue(at + 1, packets);
                    self.operate(id, operation)
                } else {
                    context.progress = Progress::Dequeuing(packets);
                    Next::Now
                }
            }
            Progress::Dequeuing(packets) => self.take(id, packets),
            Progress::Body(at, after) => {
                if let Some(operation) = context.program.operation(context.finished, at) {
                    context.progress = Progress::Body(at + 1, after);
                    self.operate(id, operation)
                } else {
                    context.finished += 1;
                    if std::mem::take(&mut context.holds_packet) {
                        self.totals.consumed += 1;
                    }
                    context.progress =
                        if after > 0 { Progress::Dequeuing(after) } else { Progress::Requesting };
                    Next::Now
                }
            }
        }
    }

    /// Requests work for a context from its source.
    fn request_work(&mut self, id: ContextId) -> Next {
        let now = self.now;
        let context = &mut self.engines[id.engine].contexts[id.context];
        match context.program.source {
            Source::Generated => {
                context.progress = Progress::Prologue(0, 1);
                Next::Now
            }
            Source::Timer(period) => {
                if now < context.timer {
                    let at = context.timer;
                    self.schedule(at, Event::Woken(id.engine, id.context));
                    return Next::Swapped(0);
                }
                context.timer += period;
                context.progress = Progress::Prologue(0, 1);
                Next::Now
            }
            Source::Queue(QueueId(queue), most) => {
                let queue = &mut self.queues[queue];
                if queue.waiting == 0 {
                    queue.wait_for_packet(id);
                    return Next::Swapped(0);
                }
                context.progress = Progress::Prologue(0, queue.waiting.min(most));
                Next::Now
            }
        }
    }

    /// Gives a context the next of `packets` packets.
    fn take(&mut self, id: ContextId, packets: usize) -> Next {
        let context = &mut self.engines[id.engine].contexts[id.context];
        let mut woken = None;
        match context.program.source {
            Source::Queue(QueueId(queue), _) => {
                if self.queues[queue].waiting == 0 {
                    // Another context took the packet first.
                    context.progress = Progress::Requesting;
                    return Next::Now;
                }
                woken = self.queues[queue].take();
                context.holds_packet = true;
            }
            Source::Generated => {
                self.totals.entered += 1;
                context.holds_packet = true;
            }
            Source::Timer(_) => {}
        }
        context.progress = Progress::Body(0, packets - 1);
        self.wake(woken);
        Next::Now
    }

    fn operate(&mut self, id: ContextId, operation: Operation) -> Next {
        let context = &mut self.engines[id.engine].contexts[id.context];
        match operation {
            Operation::Compute(cycles) => {
                self.schedule(self.now + cycles, Event::Step(id.engine));
                Next::Later
            }
            Operation::Access(unit) => {
                let memory = match unit {
                    Unit::Sram => &mut self.sram,
                    Unit::Sdram => &mut self.sdram,
                    Unit::Scratch => &mut self.scratch,
                    Unit::Hash => &mut self.hash,
                };
                let answered = memory.issue(self.now + SWAP_CYCLES);
                self.schedule(answered, Event::Woken(id.engine, id.context));
                Next::Swapped(SWAP_CYCLES)
            }
            Operation::Enqueue(QueueId(queue)) => {
                if self.queues[queue].full() {
                    self.queues[queue].wait_for_room(id);
                    // Repeat the operation when woken.
                    context.progress = match context.progress {
                        Progress::Body(at, after) => Progress::Body(at - 1, after),
                        other => other,
                    };
                    return Next::Swapped(0);
                }
                context.holds_packet = false;
                let woken = self.queues[queue].put();
                self.wake(woken);
                Next::Now
            }
            Operation::Transmit => {
                let sent = self.transmitter.transmit(self.now);
                self.schedule(sent, Event::Sent(id.engine, id.context));
                Next::Swapped(0)
            }
        }
    }
}
