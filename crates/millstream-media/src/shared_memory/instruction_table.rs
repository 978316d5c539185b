//! The instruction table: instructions and calls in the shared region.
//!
//! ```text
//! call: number, slot, version, bytes | answer: number, outcome, bytes | message | answer's bytes
//! slot 0: version, limits, name, streams | seen, state, counters, why | module      slot 1 …
//! ```
//! Each word has one writer. The host writes the call, and the first part and the module of a slot;
//! the data plane writes the rest. The host writes a slot under an odd version. A reader checks
//! that the version is even, and equal before and after. A slot without a module is empty.

use millstream_extension::Limits;
use millstream_scenario::Instruction;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number of instructions.
pub(crate) const MAX_INSTRUCTIONS: usize = Instruction::MAX_COUNT;
/// The largest module, bytes.
pub(crate) const MODULE_BYTES: usize = 256 << 10;
/// The largest message to an instruction, and the largest answer, bytes.
pub(crate) const MESSAGE_BYTES: usize = 4 << 10;
/// The largest name, bytes.
pub(crate) const NAME_BYTES: usize = 64;
/// The largest number of streams in a set; bit n is stream n of the scenario.
pub(crate) const STREAMS: usize = 4_096;
const WHY_BYTES: usize = 256;

/// The words of the call and its answer.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Call {
    // Written by the host.
    Number,
    Slot,
    Version,
    Bytes,
    // Written by the data plane.
    Answered,
    Outcome,
    AnswerBytes,
    Message = 8,
    Answer = 8 + MESSAGE_BYTES / 8,
}

/// The number of words before the slots.
pub(crate) const HEADER: usize = Call::Answer as usize + MESSAGE_BYTES / 8;

const NAME_AT: usize = 5;
const STREAMS_AT: usize = NAME_AT + NAME_BYTES / 8;
const PROCESSED_VERSION_AT: usize = STREAMS_AT + STREAMS / 64;

/// The words of a slot.
#[derive(Clone, Copy)]
#[repr(usize)]
enum SlotField {
    // Written by the host.
    Version,
    Bytes,
    Memory,
    Fuel,
    Faults,
    Name = NAME_AT,
    Streams = STREAMS_AT,
    // Written by the data plane.
    ProcessedVersion = PROCESSED_VERSION_AT,
    State,
    Counters,
    WhyBytes = PROCESSED_VERSION_AT + 2 + COUNTERS,
    Why,
    // Written by the host.
    Module = 128,
}

const _: () = assert!(SlotField::Why as usize + WHY_BYTES / 8 <= SlotField::Module as usize);
/// The number of words of a slot.
pub(crate) const SLOT: usize = SlotField::Module as usize + MODULE_BYTES / 8;
const COUNTERS: usize = 8;

/// A counter of an instruction. It counts from the first load under the instruction's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Counter {
    /// The frames that it was called for.
    Frames,
    /// The frames that it dropped.
    Dropped,
    /// The frames that it made optional.
    Loosened,
    /// The calls by host programs.
    Calls,
    /// The frames and calls at which it used up its fuel.
    OutOfFuel,
    /// The frames and calls at which its memory would have exceeded its limit.
    OverMemory,
    /// The frames and calls at which it trapped in another way.
    Trapped,
    /// The frames and calls at which its answer was invalid.
    BadAnswer,
}

/// The state of an instruction in the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    /// The data plane has not processed it yet.
    Loading,
    Running,
    /// Stopped after too many failures in a row.
    Stopped,
    /// Not loaded; the table holds the reason.
    Refused,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Outcome {
    Answered,
    /// The instruction does not exist, or it takes no calls.
    None,
    Stopped,
    OutOfFuel,
    OverMemory,
    Trapped,
    BadAnswer,
    /// The data plane died before or during the call.
    Lost,
}

const OUTCOMES: [Outcome; 8] = [
    Outcome::Answered,
    Outcome::None,
    Outcome::Stopped,
    Outcome::OutOfFuel,
    Outcome::OverMemory,
    Outcome::Trapped,
    Outcome::BadAnswer,
    Outcome::Lost,
];

/// A set of streams: bit n is stream n of the scenario.
pub(crate) type Streams = [u64; STREAMS / 64];

/// An instruction as the host loads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewInstruction {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) streams: Streams,
    pub(crate) wasm: Vec<u8>,
}

/// The instruction table of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstructionTable {
    words: &'static [AtomicU64],
}

impl InstructionTable {
    /// The number of words of a table of [`MAX_INSTRUCTIONS`] slots.
    pub(crate) const WORDS: usize = HEADER + MAX_INSTRUCTIONS * SLOT;

    /// Returns the table in `words`, which must be at least [`WORDS`](Self::WORDS).
    pub(crate) fn new(words: &'static [AtomicU64]) -> Self {
        Self { words: &words[..Self::WORDS] }
    }

    /// Returns every slot.
    pub(crate) fn slots(self) -> impl ExactSizeIterator<Item = Slot> {
        (0..MAX_INSTRUCTIONS).map(move |at| self.slot(at))
    }

    /// Returns a slot; there are [`MAX_INSTRUCTIONS`].
    pub(crate) fn slot(self, at: usize) -> Slot {
        Slot { words: &self.words[HEADER + at * SLOT..][..SLOT] }
    }

    fn get(self, word: Call) -> u64 {
        self.words[word as usize].load(Ordering::Acquire)
    }

    fn set(self, word: Call, value: u64) {
        self.words[word as usize].store(value, Ordering::Release);
    }

    /// Host: calls `version` of a slot's instruction. Returns the call's number.
    pub(crate) fn call(self, slot: usize, version: u64, message: &[u8]) -> u64 {
        put(&self.words[Call::Message as usize..], message);
        self.set(Call::Slot, slot as u64);
        self.set(Call::Version, version);
        self.set(Call::Bytes, message.len() as u64);
        let number = self.get(Call::Number).wrapping_add(1);
        self.set(Call::Number, number);
        number
    }

    /// Host: returns the outcome of call `number`, or `None` if it is not answered yet.
    pub(crate) fn answer(self, number: u64) -> Option<(Outcome, Vec<u8>)> {
        if self.get(Call::Answered) != number {
            return None;
        }
        let outcome = usize::try_from(self.get(Call::Outcome)).ok();
        let outcome = outcome.and_then(|outcome| OUTCOMES.get(outcome)).unwrap_or(&Outcome::Lost);
        let bytes = length(self.get(Call::AnswerBytes), MESSAGE_BYTES);
        Some((*outcome, take(&self.words[Call::Answer as usize..], bytes)))
    }

    /// Data plane: returns the pending call's number, slot and version.
    ///
    /// Writes the call's message to `message`.
    pub(crate) fn pending_call(self, message: &mut Vec<u8>) -> Option<(u64, usize, u64)> {
        let number = self.get(Call::Number);
        if self.get(Call::Answered) == number {
            return None;
        }
        message.clear();
        let bytes = length(self.get(Call::Bytes), MESSAGE_BYTES);
        append(&self.words[Call::Message as usize..], bytes, message);
        let slot = usize::try_from(self.get(Call::Slot)).unwrap_or(usize::MAX);
        Some((number, slot, self.get(Call::Version)))
    }

    /// Data plane: answers call `number`.
    pub(crate) fn reply(self, number: u64, outcome: Outcome, bytes: &[u8]) {
        put(&self.words[Call::Answer as usize..Call::Answer as usize + MESSAGE_BYTES / 8], bytes);
        self.set(Call::AnswerBytes, bytes.len() as u64);
        self.set(Call::Outcome, outcome as u64);
        self.set(Call::Answered, number);
    }
}

/// A slot for an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    words: &'static [AtomicU64],
}

impl Slot {
    fn get(self, word: SlotField) -> u64 {
        self.words[word as usize].load(Ordering::Acquire)
    }

    fn set(self, word: SlotField, value: u64) {
        self.words[word as usize].store(value, Ordering::Release);
    }

    /// Returns the version of the slot; odd while it is being written.
    pub(crate) fn version(self) -> u64 {
        self.get(SlotField::Version)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.get(SlotField::Bytes) == 0
    }

    /// Returns the name of the instruction.
    pub(crate) fn name(self) -> String {
        let bytes = take(&self.words[SlotField::Name as usize..], NAME_BYTES);
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }

    pub(crate) fn limits(self) -> Limits {
        let small = |word| u32::try_from(self.get(word)).unwrap_or(u32::MAX);
        let memory_bytes = self.get(SlotField::Memory);
        Limits { memory_bytes, fuel: small(SlotField::Fuel), faults: small(SlotField::Faults) }
    }

    /// Returns the size of the module, bytes.
    pub(crate) fn bytes(self) -> usize {
        length(self.get(SlotField::Bytes), MODULE_BYTES)
    }

    pub(crate) fn streams(self) -> Streams {
        std::array::from_fn(|at| {
            self.words[SlotField::Streams as usize + at].load(Ordering::Acquire)
        })
    }

    /// Host: writes an instruction to the slot. Returns its version.
    ///
    /// The name has at most [`NAME_BYTES`], the module at most [`MODULE_BYTES`].
    pub(crate) fn write(self, given: &NewInstruction) -> u64 {
        let version = self.begin();
        self.set(SlotField::Memory, given.limits.memory_bytes);
        self.set(SlotField::Fuel, given.limits.fuel.into());
        self.set(SlotField::Faults, given.limits.faults.into());
        let mut name = given.name.clone().into_bytes();
        name.resize(NAME_BYTES, 0);
        put(&self.words[SlotField::Name as usize..], &name);
        for (word, bits) in self.words[SlotField::Streams as usize..].iter().zip(given.streams) {
            word.store(bits, Ordering::Release);
        }
        put(&self.words[SlotField::Module as usize..], &given.wasm);
        self.set(SlotField::Bytes, given.wasm.len() as u64);
        self.set(SlotField::Version, version);
        version
    }

    /// Host: empties the slot. Returns the version of the empty slot.
    pub(crate) fn remove(self) -> u64 {
        let version = self.begin();
        self.set(SlotField::Bytes, 0);
        self.set(SlotField::Version, version);
        version
    }

    /// Makes the version odd and returns the next even one. Works also if a dead host left it odd.
    fn begin(self) -> u64 {
        let odd = self.version() | 1;
        self.set(SlotField::Version, odd);
        odd.wrapping_add(1)
    }

    /// Data plane: returns the version and the instruction, or `None` if it is being written.
    pub(crate) fn read(self) -> Option<(u64, NewInstruction)> {
        let version = self.version();
        let given = NewInstruction {
            name: self.name(),
            limits: self.limits(),
            streams: self.streams(),
            wasm: take(&self.words[SlotField::Module as usize..], self.bytes()),
        };
        (version.is_multiple_of(2) && self.version() == version).then_some((version, given))
    }

    /// Returns the version that the data plane processed last.
    pub(crate) fn processed_version(self) -> u64 {
        self.get(SlotField::ProcessedVersion)
    }

    /// Data plane: records that `version` was processed, and its state.
    pub(crate) fn set_processed(self, version: u64, state: State, why: &str) {
        let why = why.as_bytes();
        let why = &why[..why.len().min(WHY_BYTES)];
        put(&self.words[SlotField::Why as usize..], why);
        self.set(SlotField::WhyBytes, why.len() as u64);
        self.set(SlotField::State, state as u64);
        self.set(SlotField::ProcessedVersion, version);
    }

    /// Returns the instruction's state, and the reason for it.
    pub(crate) fn state(self) -> (State, String) {
        let why = take(
            &self.words[SlotField::Why as usize..],
            length(self.get(SlotField::WhyBytes), WHY_BYTES),
        );
        let state = match self.get(SlotField::State) {
            _ if self.processed_version() != self.version() => State::Loading,
            1 => State::Running,
            2 => State::Stopped,
            3 => State::Refused,
            _ => State::Loading,
        };
        (state, String::from_utf8_lossy(&why).into_owned())
    }

    /// Data plane: increments a counter.
    pub(crate) fn count(self, what: Counter) {
        let word = &self.words[SlotField::Counters as usize + what as usize];
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Data plane: resets all counters to 0.
    pub(crate) fn clear_counters(self) {
        for word in &self.words[SlotField::Counters as usize..][..COUNTERS] {
            word.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn counter(self, what: Counter) -> u64 {
        self.words[SlotField::Counters as usize + what as usize].load(Ordering::Relaxed)
    }
}

/// Returns a length that another process wrote, limited to `most`.
fn length(words: u64, most: usize) -> usize {
    usize::try_from(words).unwrap_or(most).min(most)
}

fn put(to: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in to.iter().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(eight), Ordering::Release);
    }
}

fn take(from: &[AtomicU64], bytes: usize) -> Vec<u8> {
    let mut taken = Vec::with_capacity(bytes.next_multiple_of(8));
    append(from, bytes, &mut taken);
    taken
}

fn append(from: &[AtomicU64], bytes: usize, to: &mut Vec<u8>) {
    for word in &from[..bytes.div_ceil(8)] {
        to.extend(word.load(Ordering::Acquire).to_le_bytes());
    }
    to.truncate(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn instruction_table() -> InstructionTable {
        let words: Vec<AtomicU64> =
            (0..InstructionTable::WORDS).map(|_| AtomicU64::new(0)).collect();
        InstructionTable::new(words.leak())
    }

    #[test]
    fn a_slot_is_read_whole_or_not_at_all() {
        let slot = instruction_table().slot(MAX_INSTRUCTIONS - 1);
        assert!(slot.is_empty());
        let mut streams = [0; STREAMS / 64];
        streams[63] = 1 << 63;
        let given = NewInstruction {
            name: "x".repeat(NAME_BYTES),
            limits: Limits { memory_bytes: 1 << 17, fuel: 10_000, faults: 3 },
            streams,
            wasm: (0..=255).cycle().take(MODULE_BYTES).collect(),
        };
        let version = slot.write(&given);
        assert_eq!(slot.read(), Some((version, given.clone())));
        assert_eq!(slot.state().0, State::Loading);
        slot.set_processed(version, State::Refused, &"why".repeat(200));
        assert_eq!(slot.state(), (State::Refused, "why".repeat(86)[..256].to_owned()));
        let short = NewInstruction { name: "y".to_owned(), wasm: vec![1; 9], ..given };
        assert_eq!(slot.write(&short), version + 2);
        assert_eq!(slot.read().unwrap().1, short);
        // A host that died during a write leaves an odd version.
        slot.set(SlotField::Version, version + 3);
        assert_eq!(slot.read(), None);
        assert_eq!(slot.remove(), version + 4);
        assert!(slot.is_empty());
    }

    #[test]
    fn a_call_is_answered_once() {
        let (table, mut message) = (instruction_table(), Vec::new());
        assert_eq!(table.pending_call(&mut message), None);
        let number = table.call(3, 8, b"hello");
        assert_eq!(table.answer(number), None);
        assert_eq!(table.pending_call(&mut message), Some((number, 3, 8)));
        assert_eq!(message, b"hello");
        table.reply(number, Outcome::Answered, b"good day");
        assert_eq!(table.answer(number), Some((Outcome::Answered, b"good day".to_vec())));
        assert_eq!(table.pending_call(&mut message), None);
        assert_ne!(table.call(0, 0, &[]), number);
    }

    #[test]
    fn no_words_of_another_process_cause_a_panic() {
        let table = instruction_table();
        for word in table.words {
            word.store(u64::MAX - 1, Ordering::Relaxed);
        }
        let slot = table.slot(0);
        assert_eq!(slot.read().unwrap().1.wasm.len(), MODULE_BYTES);
        slot.state();
        table.call(1, 2, &[3]);
        let (number, slot, _) = table.pending_call(&mut Vec::new()).unwrap();
        assert_eq!(slot, 1);
        table.reply(number, Outcome::Lost, &[1; MESSAGE_BYTES]);
        assert_eq!(table.answer(number).unwrap().1, [1; MESSAGE_BYTES]);
    }
}
