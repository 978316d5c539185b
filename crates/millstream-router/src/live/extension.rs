//! Extensions: WebAssembly modules that see the packets of a path before they are routed.
//!
//! A module exports a memory `memory`, a global `packet` (i32), the address of [`BUFFER_BYTES`] bytes of
//! that memory, and a function `process` (i32) -> i32; it imports nothing. For each packet its Ethernet
//! frame is copied to `packet`, and `process` is called with its length. It returns the length of the
//! frame that is to be routed, which it may have changed, or 0: the packet is dropped.
//!
//! What a module may compute for a packet (fuel), and what its memory may grow to, is limited. It has
//! failed at a packet when it meets one of these limits, traps, or returns a length that is none: that
//! packet is dropped. After so many failures in a row it is stopped, and every packet is dropped until
//! it is loaded again. Source: the Router paper, section 2.1 (extensions as forwarding functions).

use millstream_scenario::{PathExtension, RouterScenario};
use std::fs::File;
use std::io::Read;
use wasmi::{
    Config, EnforcedLimits, Engine, Extern, Linker, Memory, Module, Store, StoreLimits,
    StoreLimitsBuilder, TrapCode, TypedFunc,
};

use crate::live::pool::{BUFFER_BYTES, Pool};
use crate::live::port::PortError;

/// The largest module, bytes.
const MODULE_BYTES: u64 = 4 << 20;
/// What a module may compute when it is loaded, in units of fuel.
const START_FUEL: u64 = 10_000_000;
/// What one call may use for its own variables and calls, bytes and calls deep.
const STACK_BYTES: usize = 256 << 10;
const CALLS_DEEP: usize = 256;
/// Elements in a table of functions.
const TABLE_ELEMENTS: usize = 65_536;

/// What became of the packets that an extension was to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExtensionCounters {
    /// Packets that it was called for.
    pub called: u64,
    /// Of them, dropped because it said so.
    pub dropped: u64,
    /// Of those called for, dropped because it computed too long.
    pub out_of_fuel: u64,
    /// Dropped because its memory was to grow beyond its limit.
    pub over_memory: u64,
    /// Dropped because it trapped in another way.
    pub trapped: u64,
    /// Dropped because it returned a length that is negative or longer than a buffer.
    pub bad_length: u64,
    /// Dropped, without being called for, since it was stopped.
    pub while_stopped: u64,
    /// Whether it is stopped now.
    pub stopped: bool,
}

/// A module, loaded.
pub(super) struct Extension {
    path: String,
    limits: PathExtension,
    wasm: Vec<u8>,
    store: Store<StoreLimits>,
    memory: Memory,
    process: TypedFunc<i32, i32>,
    /// Where in its memory packets lie.
    at: usize,
    faults_in_a_row: u32,
    counters: ExtensionCounters,
}

impl Extension {
    /// Reads, compiles and starts the module of the path called `path`.
    fn load(path: &str, limits: &PathExtension) -> Result<Self, PortError> {
        let file = limits.module.display();
        let wrong = |message: String| {
            PortError::of_path(path, format!("`extension`, `module` = \"{file}\": {message}"))
        };
        let wasm = read(limits).map_err(|error| {
            wrong(error).help("a WebAssembly module that this program may read")
        })?;
        let refused = |error: wasmi::Error| {
            wrong(format!("not a module that can be used: {error}")).help(
                "a WebAssembly module (.wasm) that imports nothing; its memory at the start is \
                 within `memory`",
            )
        };
        let mut config = Config::default();
        config.consume_fuel(true);
        config.compilation_mode(wasmi::CompilationMode::Eager);
        config.enforced_limits(EnforcedLimits::strict());
        config.set_max_stack_height(STACK_BYTES);
        config.set_max_recursion_depth(CALLS_DEEP);
        config.set_max_cached_stacks(1);
        let engine = Engine::new(&config);
        let module = Module::new(&engine, &wasm).map_err(refused)?;
        let memory_bytes = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
        let most = StoreLimitsBuilder::new()
            .memory_size(memory_bytes)
            .table_elements(TABLE_ELEMENTS)
            .instances(1)
            .memories(1)
            .tables(4)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&engine, most);
        store.limiter(|most| most);
        store.set_fuel(START_FUEL).map_err(refused)?;
        let linker = Linker::new(&engine);
        let instance = linker.instantiate_and_start(&mut store, &module).map_err(refused)?;
        let lacks = |what: &str| {
            wrong(format!("it does not export {what}"))
                .help("the book says what a module exports: The programmable router, Extensions")
        };
        let memory =
            instance.get_memory(&store, "memory").ok_or_else(|| lacks("a memory `memory`"))?;
        let process = instance
            .get_typed_func(&store, "process")
            .map_err(|_| lacks("a function `process` (i32) -> i32"))?;
        let address = instance.get_export(&store, "packet").and_then(Extern::into_global);
        let address = address.and_then(|global| global.get(&store).i32());
        let address = address.ok_or_else(|| lacks("a global `packet` (i32)"))?;
        // Addresses have no sign.
        let at = address.cast_unsigned() as usize;
        if at.saturating_add(BUFFER_BYTES) > memory.data_size(&store) {
            return Err(wrong(format!(
                "`packet` = {at} leaves no room for a packet in a memory of {} bytes",
                memory.data_size(&store)
            ))
            .help(format!("an address with {BUFFER_BYTES} bytes of memory behind it")));
        }
        let (path, limits) = (path.to_owned(), limits.clone());
        let (faults_in_a_row, counters) = (0, ExtensionCounters::default());
        Ok(Self { path, limits, wasm, store, memory, process, at, faults_in_a_row, counters })
    }

    /// Lets the module see a packet; returns the packet to be routed, or `None` if it is to be dropped.
    pub(super) fn run(&mut self, pool: &mut Pool, packet: u64) -> Option<u64> {
        if self.counters.stopped {
            self.counters.while_stopped += 1;
            return None;
        }
        self.counters.called += 1;
        let frame = pool.frame(packet);
        let place = self.at..self.at + frame.len();
        // The memory never shrinks.
        self.memory.data_mut(&mut self.store).get_mut(place)?.copy_from_slice(frame);
        let length = i32::try_from(frame.len()).ok()?;
        // It is never refused: fuel is counted.
        let _ = self.store.set_fuel(u64::from(self.limits.fuel));
        match self.process.call(&mut self.store, length) {
            Ok(0) => {
                self.faults_in_a_row = 0;
                self.counters.dropped += 1;
                None
            }
            Ok(length) => {
                let length = usize::try_from(length).ok().filter(|length| *length <= BUFFER_BYTES);
                let Some(length) = length else {
                    self.counters.bad_length += 1;
                    self.failed("it returned a length that is none");
                    return None;
                };
                self.faults_in_a_row = 0;
                let frame = self.memory.data(&self.store).get(self.at..self.at + length)?;
                Some(pool.replace(packet, frame))
            }
            Err(error) => {
                match error.as_trap_code() {
                    Some(TrapCode::OutOfFuel) => self.counters.out_of_fuel += 1,
                    Some(TrapCode::GrowthOperationLimited) => self.counters.over_memory += 1,
                    _ => self.counters.trapped += 1,
                }
                self.failed(&error.to_string());
                None
            }
        }
    }

    #[cold]
    fn failed(&mut self, why: &str) {
        self.faults_in_a_row += 1;
        if self.faults_in_a_row >= self.limits.faults {
            self.counters.stopped = true;
            log::error!(path = self.path; "the extension is stopped, its path drops all: {why}");
        }
    }
}

/// The bytes of a module.
fn read(limits: &PathExtension) -> Result<Vec<u8>, String> {
    let file = File::open(&limits.module).map_err(|error| format!("cannot be read: {error}"))?;
    let mut wasm = Vec::new();
    let read = file.take(MODULE_BYTES + 1).read_to_end(&mut wasm);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if wasm.len() as u64 > MODULE_BYTES {
        return Err(format!("larger than {MODULE_BYTES} bytes"));
    }
    Ok(wasm)
}

/// The extensions of all paths, in their order, loaded; none at all if no path has one.
#[derive(Default)]
pub struct Extensions(Vec<Option<Extension>>);

impl Extensions {
    /// Loads every module that the file names. It takes the time of compiling them, and what they compute
    /// when they are loaded.
    ///
    /// # Errors
    /// If a module cannot be read or used.
    pub fn load(scenario: &RouterScenario) -> Result<Self, PortError> {
        let load = |path: &millstream_scenario::RouterPath| {
            let limits = path.extension.as_ref()?;
            Some(Extension::load(&path.name, limits))
        };
        let loaded: Result<Vec<_>, _> =
            scenario.paths.iter().map(|path| load(path).transpose()).collect();
        let loaded = loaded?;
        Ok(Self(if loaded.iter().any(Option::is_some) { loaded } else { Vec::new() }))
    }

    /// Takes over from `old`; path `n` was path `kept[n]`. Counters go on; an extension of which nothing has
    /// changed, and that is not stopped, goes on with all that it remembers.
    pub(super) fn replace(&mut self, mut old: Self, kept: &[Option<usize>]) {
        for (new, was) in self.0.iter_mut().zip(kept) {
            let was = was.and_then(|was| old.0.get_mut(was)).and_then(Option::take);
            let (Some(new), Some(was)) = (new, was) else { continue };
            let same = was.limits == new.limits && was.wasm == new.wasm;
            if same && !was.counters.stopped {
                *new = was;
            } else {
                new.counters = ExtensionCounters { stopped: false, ..was.counters };
            }
        }
    }

    /// That of a path.
    #[inline]
    pub(super) fn of(&mut self, path: usize) -> Option<&mut Extension> {
        self.0.get_mut(path)?.as_mut()
    }

    /// What became of the packets of a path, if it has an extension.
    pub(super) fn counters(&self, path: usize) -> Option<ExtensionCounters> {
        Some(self.0.get(path)?.as_ref()?.counters)
    }
}
