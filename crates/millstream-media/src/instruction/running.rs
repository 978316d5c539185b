//! The processor's side of instructions: what is loaded, and what it says of frames.
//!
//! What an instruction computes, it computes between two decisions, in the processor's own thread:
//! fuel bounds by how much it can delay frames. Everything else about it is another thread's
//! (`building`).

use millstream_extension::Fault;
use std::os::unix::net::UnixStream;
use zerocopy::IntoBytes;

use super::building::{Builder, Built, Job, build};
use super::frame_view::FrameView;
use super::instruction_table::{Counter, InstructionTable, Outcome, STREAMS, Slot, State, Streams};
use super::{Loaded, MESSAGE_BYTES, MOST};
use crate::data_plane::drain;

/// What is to become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Drop,
    Pass,
    /// As an optional frame.
    Loosen,
}

/// An instruction that runs.
#[derive(Debug)]
struct Running {
    slot: Slot,
    version: u64,
    streams: Streams,
    loaded: Box<Loaded>,
}

/// All instructions of a processor; none by default.
#[derive(Debug)]
pub(crate) struct Instructions {
    work: Option<(InstructionTable, Builder)>,
    /// By slot.
    running: Vec<Option<Running>>,
    /// The version of each slot that was given to be built.
    asked: Vec<u64>,
    /// Streams of which some instruction sees the frames.
    seen: Streams,
    message: Vec<u8>,
}

impl Default for Instructions {
    fn default() -> Self {
        Self {
            work: None,
            running: Vec::new(),
            asked: Vec::new(),
            seen: [0; STREAMS / 64],
            message: Vec::new(),
        }
    }
}

impl Instructions {
    /// Those on `board`, compiled now, so that the first frame already finds them; one that was
    /// stopped stays so.
    pub(crate) fn open(board: InstructionTable, builder: Builder) -> Self {
        let mut instructions = Self {
            work: Some((board, builder)),
            running: (0..MOST).map(|_| None).collect(),
            asked: vec![0; MOST],
            message: Vec::with_capacity(MESSAGE_BYTES + 8),
            ..Self::default()
        };
        // Of a processor that is no more: nobody knows how far it came.
        if let Some((number, ..)) = board.called(&mut instructions.message) {
            board.reply(number, Outcome::Lost, &[]);
        }
        for (at, slot) in board.slots().enumerate() {
            instructions.asked[at] = slot.version();
            if slot.state().0 == State::Stopped {
                continue;
            }
            match build(board, at) {
                Some(built) => instructions.adopt(built),
                None => instructions.remove(at),
            }
        }
        instructions
    }

    /// Whether there can be any.
    pub(crate) fn is_open(&self) -> bool {
        self.work.is_some()
    }

    /// Rings when a module was compiled.
    pub(crate) fn bell(&self) -> Option<&UnixStream> {
        self.work.as_ref().map(|(_, builder)| &builder.bell)
    }

    /// Looks at what the host changed, and answers its call.
    pub(crate) fn attend(&mut self) {
        let Some((board, _)) = self.work else { return };
        for (at, slot) in board.slots().enumerate() {
            let version = slot.version();
            // One that is being written is told of again.
            if version % 2 == 1 || version == self.asked[at] {
                continue;
            }
            self.asked[at] = version;
            if slot.is_empty() {
                self.remove(at);
            } else if !self.job(Job::Build(at)) {
                self.asked[at] = u64::MAX;
            }
        }
        self.answer(board);
    }

    fn job(&self, job: Job) -> bool {
        self.work.as_ref().is_some_and(|(_, builder)| builder.jobs.try_send(job).is_ok())
    }

    /// Takes what was compiled.
    pub(crate) fn take_built(&mut self) {
        if let Some(bell) = self.bell() {
            drain(bell);
        }
        while let Some(built) =
            self.work.as_ref().and_then(|(_, builder)| builder.built.try_recv().ok())
        {
            self.adopt(built);
        }
        // What found no room among the jobs does now.
        self.attend();
    }

    /// From the next frame on it is what was compiled that runs.
    fn adopt(&mut self, built: Built) {
        let Some((board, _)) = self.work else { return };
        let slot = board.slot(built.slot);
        // Replaced or removed meanwhile.
        if built.version < self.asked[built.slot] && self.asked[built.slot] != u64::MAX {
            return;
        }
        self.asked[built.slot] = built.version;
        let new = match built.loaded {
            Ok(loaded) => {
                let (version, streams) = (built.version, built.given.streams);
                Some(Running { slot, version, streams, loaded })
            }
            Err(why) => {
                slot.dealt_with(built.version, State::Refused, &why);
                None
            }
        };
        let runs = new.is_some();
        self.put(built.slot, new);
        if runs {
            slot.dealt_with(built.version, State::Running, "");
        }
    }

    fn remove(&mut self, at: usize) {
        let Some((board, _)) = self.work else { return };
        self.put(at, None);
        let slot = board.slot(at);
        if slot.is_empty() && slot.seen() != slot.version() {
            slot.clear_counters();
            slot.dealt_with(slot.version(), State::Loading, "");
        }
    }

    fn put(&mut self, at: usize, new: Option<Running>) {
        if let Some(old) = std::mem::replace(&mut self.running[at], new) {
            // Where it finds no room, its memory is given back here.
            let _ = self.job(Job::Forget(old.loaded));
        }
        self.seen = [0; STREAMS / 64];
        for running in self.running.iter().flatten().filter(|one| one.loaded.filter.is_some()) {
            for (all, own) in self.seen.iter_mut().zip(running.streams) {
                *all |= own;
            }
        }
    }

    /// Whether any sees the frames of a stream.
    #[inline]
    pub(crate) fn see(&self, stream: usize) -> bool {
        has(&self.seen, stream)
    }

    /// What becomes of a frame of a stream: each instruction of its stream in turn is asked until
    /// one drops it.
    pub(crate) fn judge(&mut self, stream: usize, look: &FrameView) -> Verdict {
        let mut verdict = Verdict::Pass;
        for at in 0..self.running.len() {
            let Some(running) = &mut self.running[at] else { continue };
            let Some(filter) = running.loaded.filter.filter(|_| has(&running.streams, stream))
            else {
                continue;
            };
            let module = &mut running.loaded.module;
            running.slot.count(Counter::Frames);
            module.write(filter.1, look.as_bytes());
            let length = i32::try_from(look.as_bytes().len()).unwrap_or(0);
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
                    self.failed(
                        at,
                        &format!("`filter` returned {other}, which is none of 0, 1, 2"),
                    );
                }
                Err(fault) => {
                    running.slot.count(counter(&fault));
                    self.failed(at, &fault.to_string());
                }
            }
        }
        verdict
    }

    /// It failed; after too many failures in a row it is gone until it is loaded again.
    #[cold]
    fn failed(&mut self, at: usize, why: &str) {
        let Some(running) = &mut self.running[at] else { return };
        if running.loaded.module.record_fault() {
            running.slot.dealt_with(running.version, State::Stopped, why);
            self.put(at, None);
        }
    }

    /// Answers the host's call, if there is one.
    fn answer(&mut self, board: InstructionTable) {
        let Some((number, at, version)) = board.called(&mut self.message) else { return };
        let Some(running) = self.running.get_mut(at).and_then(Option::as_mut) else {
            let stopped = at < MOST && board.slot(at).state().0 == State::Stopped;
            let outcome = if stopped { Outcome::Stopped } else { Outcome::None };
            return board.reply(number, outcome, &[]);
        };
        let Some(call) = running.loaded.call.filter(|_| running.version == version) else {
            return board.reply(number, Outcome::None, &[]);
        };
        running.slot.count(Counter::Calls);
        let module = &mut running.loaded.module;
        module.write(call.1, &self.message);
        let length = i32::try_from(self.message.len()).unwrap_or(0);
        let result = module.call(call.0, length);
        let answer = result.as_ref().ok().and_then(|length| usize::try_from(*length).ok());
        if let Some(answer) = answer.and_then(|length| module.read(call.1, length)) {
            board.reply(number, Outcome::Answered, answer);
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
        board.reply(number, outcome, &[]);
        self.failed(at, &why);
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
    use crate::instruction::instruction_table::NewInstruction;
    use crate::instruction::tests::{LIMITS, module};
    use crate::scheduler::client::Client;
    use crate::scheduler::optional_frames::Importance;
    use crate::shared_memory::region::Region;
    use crate::shared_memory::store::tests::{media, store};
    use std::io::Read;

    /// Drops B-frames, makes P-frames optional, fails at those of 112 bytes, one packet, with any
    /// other type.
    const FILTER: &str =
        "(if (i32.eq (i32.load (i32.const 68)) (i32.const 2)) (then (return (i32.const 0))))
        (if (i32.eq (i32.load (i32.const 72)) (i32.const 112)) (then unreachable))
        (i32.add (i32.load (i32.const 68)) (i32.const 1))";

    fn board() -> InstructionTable {
        Region::create_with(1, true).unwrap().0.board().unwrap()
    }

    fn given(streams: u64, filter: &str, call: &str) -> NewInstruction {
        let mut all = [0; STREAMS / 64];
        all[0] = streams;
        let wasm = module(filter, call);
        NewInstruction { name: "x".to_owned(), limits: LIMITS, streams: all, wasm }
    }

    fn open(board: InstructionTable) -> Instructions {
        Instructions::open(board, Builder::start(board, || ()).unwrap())
    }

    /// A frame of so important a kind and so many packets.
    fn look(importance: Importance, packets: u32) -> FrameView {
        let store = store(media(40, 1, 3), &[(importance, packets)]);
        let row = Region::create(1).unwrap().0.session(0);
        let mut client = Client::new(0, 0, store.media()[0], row);
        client.play(0, &store);
        let (frame, optional) = client.release(0, &store).unwrap();
        FrameView::new(&client, &frame, optional, 0, 0)
    }

    /// What was changed is there.
    fn wait(instructions: &mut Instructions) {
        instructions.attend();
        let mut bell = instructions.bell().unwrap().try_clone().unwrap();
        bell.set_nonblocking(false).unwrap();
        bell.read_exact(&mut [0]).unwrap();
        bell.set_nonblocking(true).unwrap();
        instructions.take_built();
    }

    #[test]
    fn what_a_filter_says_is_done_to_frames_of_its_streams() {
        let board = board();
        board.slot(3).write(&given(0b10, FILTER, "(i32.const 0)"));
        let mut instructions = open(board);
        assert!(instructions.see(1) && !instructions.see(0) && !instructions.see(STREAMS));
        let [i, p, b] = [Importance::I, Importance::P, Importance::B].map(|kind| look(kind, 3));
        assert_eq!(instructions.judge(1, &i), Verdict::Pass);
        assert_eq!(instructions.judge(1, &p), Verdict::Loosen);
        assert_eq!(instructions.judge(1, &b), Verdict::Drop);
        assert_eq!(instructions.judge(0, &b), Verdict::Pass);
        let count = |what| board.slot(3).counter(what);
        assert_eq!([Counter::Frames, Counter::Dropped, Counter::Loosened].map(count), [3, 1, 1]);
        assert_eq!(board.slot(3).state().0, State::Running);
    }

    #[test]
    fn after_failures_in_a_row_frames_go_as_if_it_were_not_there() {
        let board = board();
        let version = board.slot(0).write(&given(1, FILTER, "(i32.const 0)"));
        let mut instructions = open(board);
        let (bad, good, b) =
            (look(Importance::I, 1), look(Importance::I, 2), look(Importance::B, 1));
        for frame in [&bad, &bad, &good, &bad, &bad] {
            assert_eq!(instructions.judge(0, frame), Verdict::Pass);
        }
        assert_eq!(instructions.judge(0, &b), Verdict::Drop);
        for _ in 0..3 {
            assert_eq!(instructions.judge(0, &bad), Verdict::Pass);
        }
        assert!(!instructions.see(0));
        assert_eq!(instructions.judge(0, &b), Verdict::Pass);
        assert_eq!(board.slot(0).counter(Counter::Trapped), 7);
        assert_eq!((board.slot(0).state().0, board.slot(0).seen()), (State::Stopped, version));
        // A processor after this one leaves it so, until it is loaded again.
        let mut next = open(board);
        assert!(!next.see(0));
        board.slot(0).write(&given(1, FILTER, "(i32.const 0)"));
        wait(&mut next);
        assert_eq!(next.judge(0, &b), Verdict::Drop);
    }

    #[test]
    fn the_old_one_goes_on_until_the_new_one_is_there() {
        let board = board();
        let slot = board.slot(0);
        slot.write(&given(1, "(i32.const 0)", "(i32.const 0)"));
        let mut instructions = open(board);
        let frame = look(Importance::I, 1);
        slot.write(&given(1, "(i32.const 1)", "(i32.const 0)"));
        assert_eq!(instructions.judge(0, &frame), Verdict::Drop);
        wait(&mut instructions);
        assert_eq!(instructions.judge(0, &frame), Verdict::Pass);
        slot.remove();
        instructions.attend();
        assert!(!instructions.see(0) && slot.seen() == slot.version());
        assert_eq!(slot.counter(Counter::Frames), 0);
        // One that cannot be used is nobody's harm.
        slot.write(&NewInstruction {
            wasm: vec![1, 2, 3],
            ..given(1, "(i32.const 0)", "(i32.const 0)")
        });
        wait(&mut instructions);
        assert_eq!(slot.state().0, State::Refused);
    }

    #[test]
    fn calls_are_answered_between_frames_or_lost_with_the_processor() {
        let board = board();
        let call = "(i32.store8 (i32.const 1024) (i32.const 7)) (local.get $length)";
        let version = board.slot(2).write(&given(1, "(i32.const 1)", call));
        let lost = board.call(2, version, b"abc");
        let mut instructions = open(board);
        assert_eq!(board.answer(lost), Some((Outcome::Lost, vec![])));
        let mut ask = |slot, version| {
            let number = board.call(slot, version, b"abc");
            instructions.attend();
            board.answer(number).unwrap()
        };
        assert_eq!(ask(2, version), (Outcome::Answered, b"\x07bc".to_vec()));
        assert_eq!(ask(2, version + 2).0, Outcome::None);
        assert_eq!(ask(1, version).0, Outcome::None);
        assert_eq!(ask(usize::MAX, version).0, Outcome::None);
    }
}
