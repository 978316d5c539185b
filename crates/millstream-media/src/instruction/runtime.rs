//! The data plane's side of instructions: the running modules, and their verdicts on frames.
//!
//! An instruction runs between two scheduling decisions, in the data plane's thread. Its fuel
//! bounds how much it can delay frames. All other work on instructions happens in another thread
//! (`compiler`).

use millstream_extension::Fault;
use std::os::unix::net::UnixStream;
use zerocopy::IntoBytes;

use super::Loaded;
use super::compiler::{CompiledModule, Compiler, Job, build};
use crate::scheduler::frame_filter::{FrameFilter, Verdict};
use crate::scheduler::frame_view::FrameView;
use crate::shared_memory::instruction_table::{
    Counter, InstructionTable, MAX_INSTRUCTIONS, MESSAGE_BYTES, Outcome, STREAMS, Slot, State,
    Streams,
};
use crate::shared_memory::region::{GlobalField, Region};
use crate::wake_socket::drain;

/// A running instruction.
#[derive(Debug)]
struct Running {
    slot: Slot,
    version: u64,
    streams: Streams,
    loaded: Box<Loaded>,
}

/// All instructions of a data plane; none by default.
#[derive(Debug)]
pub(crate) struct Instructions {
    work: Option<(InstructionTable, Compiler)>,
    /// The running instruction of each slot.
    running: Vec<Option<Running>>,
    /// The last version of each slot that was handed to the compiler.
    submitted: Vec<u64>,
    /// The streams that at least one instruction filters.
    filtered: Streams,
    message: Vec<u8>,
}

impl Default for Instructions {
    fn default() -> Self {
        Self {
            work: None,
            running: Vec::new(),
            submitted: Vec::new(),
            filtered: [0; STREAMS / 64],
            message: Vec::new(),
        }
    }
}

impl Instructions {
    /// Compiles the instructions in `table` now, so that they already see the first frame.
    ///
    /// An instruction that was stopped stays stopped.
    pub(crate) fn open(table: InstructionTable, compiler: Compiler) -> Self {
        let mut instructions = Self {
            work: Some((table, compiler)),
            running: (0..MAX_INSTRUCTIONS).map(|_| None).collect(),
            submitted: vec![0; MAX_INSTRUCTIONS],
            message: Vec::with_capacity(MESSAGE_BYTES + 8),
            ..Self::default()
        };
        // A pending call is from an earlier data plane, and its progress is unknown.
        if let Some((number, ..)) = table.pending_call(&mut instructions.message) {
            table.reply(number, Outcome::Lost, &[]);
        }
        for (at, slot) in table.slots().enumerate() {
            instructions.submitted[at] = slot.version();
            if slot.state().0 == State::Stopped {
                continue;
            }
            match build(table, at) {
                Some(built) => instructions.install(built),
                None => instructions.remove(at),
            }
        }
        instructions
    }

    /// Returns whether this data plane has an instruction table.
    fn is_open(&self) -> bool {
        self.work.is_some()
    }

    /// Returns the socket that is readable when a module was compiled.
    pub(crate) fn waker(&self) -> Option<&UnixStream> {
        self.work.as_ref().map(|(_, compiler)| &compiler.waker)
    }

    /// Processes the host's changes of the table, and answers its call.
    pub(crate) fn process_changes(&mut self) {
        let Some((table, _)) = self.work else { return };
        for (at, slot) in table.slots().enumerate() {
            let version = slot.version();
            // The host notifies again once it has written a slot with an odd version.
            if version % 2 == 1 || version == self.submitted[at] {
                continue;
            }
            self.submitted[at] = version;
            if slot.is_empty() {
                self.remove(at);
            } else if !self.job(Job::Build(at)) {
                self.submitted[at] = u64::MAX;
            }
        }
        self.answer(table);
    }

    fn job(&self, job: Job) -> bool {
        self.work.as_ref().is_some_and(|(_, compiler)| compiler.jobs.try_send(job).is_ok())
    }

    /// Installs the modules that the compiler thread has finished.
    pub(crate) fn install_built(&mut self) {
        if let Some(waker) = self.waker() {
            drain(waker);
        }
        while let Some(built) =
            self.work.as_ref().and_then(|(_, compiler)| compiler.built.try_recv().ok())
        {
            self.install(built);
        }
        // Retries jobs that did not fit into the compiler's queue.
        self.process_changes();
    }

    /// Installs a compiled module, which runs from the next frame on.
    fn install(&mut self, built: CompiledModule) {
        let Some((table, _)) = self.work else { return };
        let slot = table.slot(built.slot);
        // The slot was replaced or removed during the compilation.
        if built.version < self.submitted[built.slot] && self.submitted[built.slot] != u64::MAX {
            return;
        }
        self.submitted[built.slot] = built.version;
        let new = match built.loaded {
            Ok(loaded) => {
                let (version, streams) = (built.version, built.given.streams);
                Some(Running { slot, version, streams, loaded })
            }
            Err(why) => {
                slot.set_processed(built.version, State::Refused, &why);
                None
            }
        };
        let runs = new.is_some();
        self.put(built.slot, new);
        if runs {
            slot.set_processed(built.version, State::Running, "");
        }
    }

    fn remove(&mut self, at: usize) {
        let Some((table, _)) = self.work else { return };
        self.put(at, None);
        let slot = table.slot(at);
        if slot.is_empty() && slot.processed_version() != slot.version() {
            slot.clear_counters();
            slot.set_processed(slot.version(), State::Loading, "");
        }
    }

    fn put(&mut self, at: usize, new: Option<Running>) {
        if let Some(old) = std::mem::replace(&mut self.running[at], new) {
            // If the queue is full, the module is dropped in this thread.
            let _ = self.job(Job::Discard(old.loaded));
        }
        self.filtered = [0; STREAMS / 64];
        for running in self.running.iter().flatten().filter(|one| one.loaded.filter.is_some()) {
            for (all, own) in self.filtered.iter_mut().zip(running.streams) {
                *all |= own;
            }
        }
    }

    /// Records a failure. Stops the instruction after too many consecutive ones.
    ///
    /// A stopped instruction runs again only after it is loaded again.
    #[cold]
    fn failed(&mut self, at: usize, why: &str) {
        let Some(running) = &mut self.running[at] else { return };
        if running.loaded.module.record_fault() {
            running.slot.set_processed(running.version, State::Stopped, why);
            self.put(at, None);
        }
    }

    /// Answers the host's pending call, if there is one.
    fn answer(&mut self, table: InstructionTable) {
        let Some((number, at, version)) = table.pending_call(&mut self.message) else { return };
        let Some(running) = self.running.get_mut(at).and_then(Option::as_mut) else {
            let stopped = at < MAX_INSTRUCTIONS && table.slot(at).state().0 == State::Stopped;
            let outcome = if stopped { Outcome::Stopped } else { Outcome::None };
            return table.reply(number, outcome, &[]);
        };
        let Some(call) = running.loaded.call.filter(|_| running.version == version) else {
            return table.reply(number, Outcome::None, &[]);
        };
        running.slot.count(Counter::Calls);
        let module = &mut running.loaded.module;
        module.write(call.1, &self.message);
        let length = i32::try_from(self.message.len()).unwrap_or(0);
        let result = module.call(call.0, length);
        let answer = result.as_ref().ok().and_then(|length| usize::try_from(*length).ok());
        if let Some(answer) = answer.and_then(|length| module.read(call.1, length)) {
            table.reply(number, Outcome::Answered, answer);
            return module.record_success();
        }
        let (outcome, counter, why) = match &result {
            Ok(length) => {
                let why = format!("`call` returned a length of {length}");
                (Outcome::BadAnswer, Counter::BadAnswer, why)
            }
            Err(fault) => (outcome(fault), counter(fault), fault.to_string()),
        };
        running.slot.count(counter);
        table.reply(number, outcome, &[]);
        self.failed(at, &why);
    }
}

impl FrameFilter for Instructions {
    #[inline]
    fn update(&mut self, region: Region) {
        if self.is_open() && region.take(GlobalField::InstructionsChanged) != 0 {
            self.process_changes();
        }
    }

    /// Returns whether any instruction filters the frames of a stream.
    #[inline]
    fn filters(&self, stream: usize) -> bool {
        has(&self.filtered, stream)
    }

    /// Returns the verdict on a frame: calls the stream's instructions in turn until one drops it.
    fn verdict_on(&mut self, stream: usize, view: &FrameView) -> Verdict {
        let mut verdict = Verdict::Pass;
        for at in 0..self.running.len() {
            let Some(running) = &mut self.running[at] else { continue };
            let Some(filter) = running.loaded.filter.filter(|_| has(&running.streams, stream))
            else {
                continue;
            };
            let module = &mut running.loaded.module;
            running.slot.count(Counter::Frames);
            module.write(filter.1, view.as_bytes());
            let length = i32::try_from(view.as_bytes().len()).unwrap_or(0);
            match module.call(filter.0, length) {
                Ok(0) => {
                    module.record_success();
                    running.slot.count(Counter::Dropped);
                    return Verdict::Drop;
                }
                Ok(1) => module.record_success(),
                Ok(2) => {
                    module.record_success();
                    running.slot.count(Counter::Loosened);
                    verdict = Verdict::Loosen;
                }
                Ok(other) => {
                    running.slot.count(Counter::BadAnswer);
                    self.failed(at, &format!("`filter` returned {other}, not 0, 1 or 2"));
                }
                Err(fault) => {
                    running.slot.count(counter(&fault));
                    self.failed(at, &fault.to_string());
                }
            }
        }
        verdict
    }
}

fn has(streams: &Streams, stream: usize) -> bool {
    streams.get(stream / 64).is_some_and(|bits| bits >> (stream % 64) & 1 == 1)
}

fn counter(fault: &Fault) -> Counter {
    match fault {
        Fault::OutOfFuel => Counter::OutOfFuel,
        Fault::OverMemory => Counter::OverMemory,
        Fault::Trapped(_) => Counter::Trapped,
    }
}

fn outcome(fault: &Fault) -> Outcome {
    match fault {
        Fault::OutOfFuel => Outcome::OutOfFuel,
        Fault::OverMemory => Outcome::OverMemory,
        Fault::Trapped(_) => Outcome::Trapped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction::tests::{LIMITS, module};
    use crate::scheduler::client::Client;
    use crate::shared_memory::importance::Importance;
    use crate::shared_memory::instruction_table::NewInstruction;
    use crate::shared_memory::store::tests::{media, store};
    use std::io::Read;

    /// A filter that drops B-frames and makes P-frames optional.
    ///
    /// It traps at other frames of 112 bytes, which is one packet.
    const FILTER: &str =
        "(if (i32.eq (i32.load (i32.const 68)) (i32.const 2)) (then (return (i32.const 0))))
        (if (i32.eq (i32.load (i32.const 72)) (i32.const 112)) (then unreachable))
        (i32.add (i32.load (i32.const 68)) (i32.const 1))";

    fn instruction_table() -> InstructionTable {
        Region::create_with(1, true).unwrap().0.instruction_table().unwrap()
    }

    fn given(streams: u64, filter: &str, call: &str) -> NewInstruction {
        let mut all = [0; STREAMS / 64];
        all[0] = streams;
        let wasm = module(filter, call);
        NewInstruction { name: "x".to_owned(), limits: LIMITS, streams: all, wasm }
    }

    fn open(table: InstructionTable) -> Instructions {
        Instructions::open(table, Compiler::start(table, || ()).unwrap())
    }

    /// Returns the view of a frame of this importance and number of packets.
    fn view_of(importance: Importance, packets: u32) -> FrameView {
        let store = store(media(40, 1, 3), &[(importance, packets)]);
        let row = Region::create(1).unwrap().0.session(0);
        let mut client = Client::new(0, 0, store.media()[0], row);
        client.play(0, &store, None);
        let (frame, optional) = client.release(0, &store).unwrap();
        FrameView::new(&client, &frame, optional, 0, 0)
    }

    /// Waits until a change of the table has been compiled and installed.
    fn wait(instructions: &mut Instructions) {
        instructions.process_changes();
        let mut waker = instructions.waker().unwrap().try_clone().unwrap();
        waker.set_nonblocking(false).unwrap();
        waker.read_exact(&mut [0]).unwrap();
        waker.set_nonblocking(true).unwrap();
        instructions.install_built();
    }

    #[test]
    fn a_filter_decides_on_the_frames_of_its_streams_only() {
        let table = instruction_table();
        table.slot(3).write(&given(0b10, FILTER, "(i32.const 0)"));
        let mut instructions = open(table);
        assert!(
            instructions.filters(1) && !instructions.filters(0) && !instructions.filters(STREAMS)
        );
        let [i, p, b] = [Importance::I, Importance::P, Importance::B].map(|kind| view_of(kind, 3));
        assert_eq!(instructions.verdict_on(1, &i), Verdict::Pass);
        assert_eq!(instructions.verdict_on(1, &p), Verdict::Loosen);
        assert_eq!(instructions.verdict_on(1, &b), Verdict::Drop);
        assert_eq!(instructions.verdict_on(0, &b), Verdict::Pass);
        let count = |what| table.slot(3).counter(what);
        assert_eq!([Counter::Frames, Counter::Dropped, Counter::Loosened].map(count), [3, 1, 1]);
        assert_eq!(table.slot(3).state().0, State::Running);
    }

    #[test]
    fn consecutive_failures_stop_an_instruction() {
        let table = instruction_table();
        let version = table.slot(0).write(&given(1, FILTER, "(i32.const 0)"));
        let mut instructions = open(table);
        let (bad, good, b) =
            (view_of(Importance::I, 1), view_of(Importance::I, 2), view_of(Importance::B, 1));
        for frame in [&bad, &bad, &good, &bad, &bad] {
            assert_eq!(instructions.verdict_on(0, frame), Verdict::Pass);
        }
        assert_eq!(instructions.verdict_on(0, &b), Verdict::Drop);
        for _ in 0..3 {
            assert_eq!(instructions.verdict_on(0, &bad), Verdict::Pass);
        }
        assert!(!instructions.filters(0));
        assert_eq!(instructions.verdict_on(0, &b), Verdict::Pass);
        assert_eq!(table.slot(0).counter(Counter::Trapped), 7);
        assert_eq!(
            (table.slot(0).state().0, table.slot(0).processed_version()),
            (State::Stopped, version)
        );
        // A new data plane keeps it stopped until it is loaded again.
        let mut next = open(table);
        assert!(!next.filters(0));
        table.slot(0).write(&given(1, FILTER, "(i32.const 0)"));
        wait(&mut next);
        assert_eq!(next.verdict_on(0, &b), Verdict::Drop);
    }

    #[test]
    fn the_old_module_runs_until_the_new_one_is_compiled() {
        let table = instruction_table();
        let slot = table.slot(0);
        slot.write(&given(1, "(i32.const 0)", "(i32.const 0)"));
        let mut instructions = open(table);
        let frame = view_of(Importance::I, 1);
        slot.write(&given(1, "(i32.const 1)", "(i32.const 0)"));
        assert_eq!(instructions.verdict_on(0, &frame), Verdict::Drop);
        wait(&mut instructions);
        assert_eq!(instructions.verdict_on(0, &frame), Verdict::Pass);
        slot.remove();
        instructions.process_changes();
        assert!(!instructions.filters(0) && slot.processed_version() == slot.version());
        assert_eq!(slot.counter(Counter::Frames), 0);
        // An unusable module is refused without further effect.
        slot.write(&NewInstruction {
            wasm: vec![1, 2, 3],
            ..given(1, "(i32.const 0)", "(i32.const 0)")
        });
        wait(&mut instructions);
        assert_eq!(slot.state().0, State::Refused);
    }

    #[test]
    fn calls_are_answered_or_lost_with_the_data_plane() {
        let table = instruction_table();
        let call = "(i32.store8 (i32.const 1024) (i32.const 7)) (local.get $length)";
        let version = table.slot(2).write(&given(1, "(i32.const 1)", call));
        let lost = table.call(2, version, b"abc");
        let mut instructions = open(table);
        assert_eq!(table.answer(lost), Some((Outcome::Lost, vec![])));
        let mut ask = |slot, version| {
            let number = table.call(slot, version, b"abc");
            instructions.process_changes();
            table.answer(number).unwrap()
        };
        assert_eq!(ask(2, version), (Outcome::Answered, b"\x07bc".to_vec()));
        assert_eq!(ask(2, version + 2).0, Outcome::None);
        assert_eq!(ask(1, version).0, Outcome::None);
        assert_eq!(ask(usize::MAX, version).0, Outcome::None);
    }
}
