//! The host's side of instructions: loads those of the scenario, and serves programs over HTTP.
//!
//! ```text
//! PUT    /instructions/NAME?streams=A,B&memory=BYTES&fuel=N&faults=N   application/wasm: load
//! DELETE /instructions/NAME                                            remove
//! POST   /instructions/NAME                                application/octet-stream: call
//! ```
//! A thread of the HTTP server carries out one order at a time. It writes the order to the
//! instruction table, and the data plane writes its answer there. The API tries a module before it
//! replaces another one, so an unusable module changes nothing. A web page cannot send either
//! content type to another origin without a CORS preflight request.

use millstream_extension::Limits;
use millstream_report::http::{Answer, WriteMethod, WriteRequest};
use millstream_scenario::{Allowance, Instruction, Scenario};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Loaded;
use crate::MediaError;
use crate::files::library::stream_names;
use crate::shared_memory::instruction_table::{
    Counter, InstructionTable, MESSAGE_BYTES, MODULE_BYTES, NewInstruction, Outcome, STREAMS, Slot,
    State, Streams,
};
use crate::shared_memory::region::{GlobalField, Region};

/// The time that the data plane has to load a module or to answer a call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which the API polls the table for the answer.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The largest body of an order, bytes.
pub(crate) const BODY_BYTES: usize = MODULE_BYTES;

/// The state and counters of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InstructionStatus {
    /// The name of the instruction.
    pub name: String,
    /// `loading`, `running`, `stopped` or `refused`.
    pub state: String,
    /// The reason why it was stopped or refused; empty otherwise.
    pub why: String,
    /// The streams that it filters.
    pub streams: Vec<String>,
    /// The size of the module, bytes.
    pub module_bytes: usize,
    /// The limit of its memory, bytes.
    pub memory_bytes: u64,
    /// The limit of its computation per frame or call, in units of fuel.
    pub fuel: u32,
    /// The number of consecutive failures after which it is stopped.
    pub faults: u32,
    /// The number of frames that it was called for.
    pub frames: u64,
    /// The number of frames that it dropped.
    pub dropped: u64,
    /// The number of frames that it made optional.
    pub loosened: u64,
    /// The number of calls by programs.
    pub calls: u64,
    /// The number of frames and calls at which it used up its fuel.
    pub out_of_fuel: u64,
    /// The number of frames and calls at which its memory would have exceeded its limit.
    pub over_memory: u64,
    /// The number of frames and calls at which it trapped in another way.
    pub trapped: u64,
    /// The number of frames and calls at which its answer was invalid.
    pub bad_answer: u64,
}

/// Returns the status of every instruction; `streams` are the scenario's.
pub(crate) fn list(table: InstructionTable, streams: &[&str]) -> Vec<InstructionStatus> {
    table.slots().filter(|slot| !slot.is_empty()).map(|slot| status(slot, streams)).collect()
}

fn status(slot: Slot, streams: &[&str]) -> InstructionStatus {
    let (state, why) = slot.state();
    let (limits, seen) = (slot.limits(), slot.streams());
    let sees = |at: usize| seen.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1);
    InstructionStatus {
        name: slot.name(),
        state: match state {
            State::Loading => "loading",
            State::Running => "running",
            State::Stopped => "stopped",
            State::Refused => "refused",
        }
        .to_owned(),
        why,
        streams: (0..)
            .zip(streams)
            .filter(|(at, _)| sees(*at))
            .map(|(_, name)| (*name).to_owned())
            .collect(),
        module_bytes: slot.bytes(),
        memory_bytes: limits.memory_bytes,
        fuel: limits.fuel,
        faults: limits.faults,
        frames: slot.counter(Counter::Frames),
        dropped: slot.counter(Counter::Dropped),
        loosened: slot.counter(Counter::Loosened),
        calls: slot.counter(Counter::Calls),
        out_of_fuel: slot.counter(Counter::OutOfFuel),
        over_memory: slot.counter(Counter::OverMemory),
        trapped: slot.counter(Counter::Trapped),
        bad_answer: slot.counter(Counter::BadAnswer),
    }
}

/// Returns whether the scenario needs an instruction table, for its own instructions or programs.
pub(crate) fn needs_table(scenario: &Scenario) -> bool {
    scenario.media.instructions || !scenario.media.instruction.is_empty()
}

/// Writes the scenario's instructions to a new table.
///
/// # Errors
/// Fails if a module cannot be read or used, or there are more streams than the table supports.
pub(crate) fn load(table: InstructionTable, scenario: &Scenario) -> Result<(), MediaError> {
    let streams = stream_names(scenario).len();
    if streams > STREAMS {
        let message = format!("too many streams with instructions: {streams}");
        return Err(MediaError::new(message).help(format!("the limit is {STREAMS} streams")));
    }
    for (slot, instruction) in table.slots().zip(&scenario.media.instruction) {
        let Instruction { name, module, allowance, streams } = instruction;
        let file = scenario.folder.join(module);
        let wrong = |message: String| {
            let file = file.display();
            MediaError::new(format!("instruction `{name}`, `module` = \"{file}\": {message}"))
                .help("a WebAssembly module (.wasm), see the book: The media server, Instructions")
        };
        let wasm = millstream_extension::read(&file, MODULE_BYTES as u64).map_err(wrong)?;
        let limits = limits(*allowance);
        Loaded::start(&wasm, limits).map_err(|error| wrong(error.to_string()))?;
        let streams = streams.as_ref().map_or(ALL, |places| bits(places));
        slot.write(&NewInstruction { name: name.clone(), limits, streams, wasm });
    }
    Ok(())
}

/// The set of every stream.
pub(crate) const ALL: Streams = [u64::MAX; STREAMS / 64];

/// Returns the set of the streams with these indices.
fn bits(places: &[usize]) -> Streams {
    let mut streams = [0; STREAMS / 64];
    for place in places {
        streams[place / 64] |= 1 << (place % 64);
    }
    streams
}

pub(crate) fn limits(allowance: Allowance) -> Limits {
    let Allowance { memory_bytes, fuel, faults } = allowance;
    Limits { memory_bytes, fuel, faults }
}

/// The HTTP API for programs' orders.
pub(crate) struct ExtensionApi<W> {
    region: Region,
    /// The table if programs may give orders; the lock allows one order at a time.
    instruction_table: Option<Mutex<InstructionTable>>,
    streams: Vec<String>,
    /// Makes the data plane check the table.
    wake: W,
}

/// The HTTP status and reason of a refused order.
type Refusal = (u16, String);

impl<W: Fn()> ExtensionApi<W> {
    /// Creates the API; `streams` are the scenario's, and programs may give orders if `allowed`.
    pub(crate) fn new(region: Region, allowed: bool, streams: Vec<String>, wake: W) -> Self {
        let table = region.instruction_table().filter(|_| allowed);
        // A server that died during a write leaves an odd version.
        for slot in table
            .into_iter()
            .flat_map(InstructionTable::slots)
            .filter(|slot| slot.version() % 2 == 1)
        {
            slot.remove();
        }
        let api = Self { region, instruction_table: table.map(Mutex::new), streams, wake };
        api.wake();
        api
    }

    /// Carries out an order and returns the answer.
    pub(crate) fn execute(&self, order: &WriteRequest) -> Answer {
        let Some(name) = order.path.strip_prefix("/instructions/") else {
            return Answer::Refused(
                405,
                "only GET is allowed outside /instructions/NAME".to_owned(),
            );
        };
        let Some(table) = &self.instruction_table else {
            let why = "programs may not load or call instructions; `instructions = true` in \
             [media] allows it";
            return Answer::Refused(403, why.to_owned());
        };
        // A panic under the lock can have changed only the table; its readers validate it.
        let table = *table.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match order.method {
            WriteMethod::Put => self.put(table, name, order),
            WriteMethod::Post => self.call(table, name, order),
            WriteMethod::Delete => self.remove(table, name),
        };
        done.unwrap_or_else(|(status, why)| Answer::Refused(status, why))
    }

    /// Loads a module under a name, and replaces the instruction of that name.
    fn put(
        &self,
        table: InstructionTable,
        name: &str,
        order: &WriteRequest,
    ) -> Result<Answer, Refusal> {
        check_content_type(order, "application/wasm")?;
        if !Instruction::is_name(name) {
            return Err((
                400,
                format!("`{name}` is not a valid name: up to 64 letters, digits, - _ and ."),
            ));
        }
        let found = find(table, name);
        let slot = found.or_else(|| table.slots().find(|slot| slot.is_empty()));
        let Some(slot) = slot else {
            return Err((
                409,
                format!(
                    "the limit of {} instructions is reached; remove one",
                    Instruction::MAX_COUNT
                ),
            ));
        };
        // Parameters that the query does not name keep their values.
        let (mut limits, mut streams) = match found {
            Some(slot) => (slot.limits(), slot.streams()),
            None => (limits(Allowance::default()), ALL),
        };
        for (key, value) in form_urlencoded::parse(order.query.as_bytes()) {
            match &*key {
                "streams" => streams = self.named(&value)?,
                "memory" => limits.memory_bytes = number(&key, &value, &Allowance::MEMORY_BYTES)?,
                "fuel" => limits.fuel = number(&key, &value, &Allowance::FUEL)?,
                "faults" => limits.faults = number(&key, &value, &Allowance::FAULTS)?,
                _ => {
                    let why = format!("unknown `{key}`; known: streams, memory, fuel, faults");
                    return Err((400, why));
                }
            }
        }
        Loaded::start(&order.body, limits).map_err(|error| (422, error.to_string()))?;
        let wasm = order.body.clone();
        let version = slot.write(&NewInstruction { name: name.to_owned(), limits, streams, wasm });
        self.wake();
        self.until(|| (slot.processed_version() == version).then_some(()))?;
        let streams: Vec<&str> = self.streams.iter().map(String::as_str).collect();
        let status = status(slot, &streams);
        if status.state == "refused" {
            return Err((500, status.why));
        }
        serde_json::to_string(&status).map(Answer::Json).map_err(|error| (500, error.to_string()))
    }

    fn remove(&self, table: InstructionTable, name: &str) -> Result<Answer, Refusal> {
        let slot = find(table, name).ok_or_else(|| unknown_instruction(name))?;
        let version = slot.remove();
        self.wake();
        self.until(|| (slot.processed_version() == version).then_some(()))?;
        Ok(Answer::Text("removed\n".to_owned()))
    }

    fn call(
        &self,
        table: InstructionTable,
        name: &str,
        order: &WriteRequest,
    ) -> Result<Answer, Refusal> {
        check_content_type(order, "application/octet-stream")?;
        if order.body.len() > MESSAGE_BYTES {
            return Err((413, format!("the message exceeds {MESSAGE_BYTES} bytes")));
        }
        let (at, slot) = table
            .slots()
            .enumerate()
            .find(|(_, slot)| has_name(*slot, name))
            .ok_or_else(|| unknown_instruction(name))?;
        let number = table.call(at, slot.version(), &order.body);
        self.wake();
        let (outcome, answer) = self.until(|| table.answer(number))?;
        let failed = |why: &str| Err((500, format!("`{name}` {why}")));
        match outcome {
            Outcome::Answered => Ok(Answer::Bytes(answer)),
            Outcome::None => Err((404, format!("`{name}` exports no `call`, or is still loading"))),
            Outcome::Stopped => Err((409, format!("`{name}` is stopped; load it again"))),
            Outcome::OutOfFuel => failed("exhausted its fuel"),
            Outcome::OverMemory => failed("exceeded its memory limit"),
            Outcome::Trapped => failed("trapped"),
            Outcome::BadAnswer => failed("returned an invalid length"),
            Outcome::Lost => Err((503, "the data plane restarted during the call".to_owned())),
        }
    }

    /// Returns the set of the streams in a comma-separated list of names.
    fn named(&self, list: &str) -> Result<Streams, Refusal> {
        let names = list.split(',').filter(|name| !name.is_empty());
        let place = |name: &str| {
            let found = self.streams.iter().position(|stream| stream == name);
            found.ok_or_else(|| {
                (400, format!("unknown stream `{name}`; known: {}", self.streams.join(", ")))
            })
        };
        Ok(bits(&names.map(place).collect::<Result<Vec<_>, _>>()?))
    }

    fn wake(&self) {
        self.region.set(GlobalField::InstructionsChanged, 1);
        (self.wake)();
    }

    /// Polls `there` until it returns a value, for at most [`ANSWER_TIMEOUT`].
    fn until<T>(&self, there: impl Fn() -> Option<T>) -> Result<T, Refusal> {
        let end = Instant::now() + ANSWER_TIMEOUT;
        loop {
            if let Some(found) = there() {
                return Ok(found);
            }
            if Instant::now() > end {
                return Err((503, "the data plane did not answer in time".to_owned()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn find(table: InstructionTable, name: &str) -> Option<Slot> {
    table.slots().find(|slot| has_name(*slot, name))
}

fn has_name(slot: Slot, name: &str) -> bool {
    !slot.is_empty() && slot.name() == name
}

fn unknown_instruction(name: &str) -> Refusal {
    (404, format!("unknown instruction `{name}`"))
}

/// Checks the content type of an order.
///
/// A browser sends a preflight request before it sends this type to another origin; the server does
/// not answer that.
fn check_content_type(order: &WriteRequest, kind: &str) -> Result<(), Refusal> {
    if order.content_type == kind {
        return Ok(());
    }
    Err((415, format!("Content-Type is `{}`; {kind} is required", order.content_type)))
}

fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    key: &str,
    value: &str,
    range: &std::ops::RangeInclusive<T>,
) -> Result<T, Refusal> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    let why = || {
        format!("`{key}` = {value}: it must be a number from {} to {}", range.start(), range.end())
    };
    number.ok_or_else(|| (400, why()))
}
