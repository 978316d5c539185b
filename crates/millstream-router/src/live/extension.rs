//! Extensions: WebAssembly modules that see the packets of a path before they are routed.
//!
//! A module imports nothing. It exports a memory `memory`, a function `process` (i32) -> i32 and a
//! global `packet` (i32), the address of [`BUFFER_BYTES`] bytes in the memory. The router copies
//! each Ethernet frame to `packet` and calls `process` with its length. `process` may change the
//! frame; it returns the new length, or 0 to drop the packet.
//!
//! Fuel per packet and memory size are limited. A call fails if it exceeds a limit, traps, or
//! returns an invalid length; the packet is dropped. Consecutive failures stop the module, and
//! every packet is dropped until it is loaded again. Source: the Router paper, section 2.1
//! (extensions as forwarding functions).

use millstream_extension::{Buffer, Fault, Function, Limits, Module, ModuleError};
use millstream_scenario::{PathExtension, RouterScenario};

use crate::error::PortError;
use crate::ids::{IdVec, PacketHandle, PathId};
use crate::net::pool::{BUFFER_BYTES, Pool};

/// The largest module, bytes.
const MODULE_BYTES: u64 = 4 << 20;

/// The packet counters of an extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExtensionCounters {
    /// Packets for which `process` was called.
    pub called: u64,
    /// Called packets dropped because `process` returned 0.
    pub dropped: u64,
    /// Called packets dropped because the call ran out of fuel.
    pub out_of_fuel: u64,
    /// Called packets dropped because the module exceeded its memory limit.
    pub over_memory: u64,
    /// Called packets dropped because the module trapped for another reason.
    pub trapped: u64,
    /// Called packets dropped because `process` returned a negative length or one above a buffer's.
    pub bad_length: u64,
    /// Packets dropped without a call because the module was stopped.
    pub while_stopped: u64,
    /// Whether the module is stopped now.
    pub stopped: bool,
}

/// A loaded module.
pub(super) struct Extension {
    path: String,
    limits: PathExtension,
    wasm: Vec<u8>,
    module: Module,
    process: Function,
    /// The packet buffer in the module's memory.
    packet: Buffer,
    counters: ExtensionCounters,
}

impl Extension {
    /// Reads, compiles and starts the module of the path called `path`.
    fn load(path: &str, limits: &PathExtension) -> Result<Self, PortError> {
        let file = limits.module.display();
        let wrong = |message: String| {
            PortError::of_path(path, format!("`extension`, `module` = \"{file}\": {message}"))
        };
        let wasm = millstream_extension::read(&limits.module, MODULE_BYTES).map_err(|error| {
            wrong(error).help("a WebAssembly module that this program may read")
        })?;
        let refused = |error: ModuleError| {
            let help = match error {
                ModuleError::Invalid(_) => {
                    "a WebAssembly module (.wasm) that imports nothing; its memory at the start is \
                     within `memory`"
                        .to_owned()
                }
                ModuleError::MissingExport(_) => {
                    "the book lists what a module exports: The programmable router, \
                     Extensions"
                        .to_owned()
                }
                ModuleError::BufferOutOfBounds { bytes, .. } => {
                    format!("an address with {bytes} bytes of memory after it")
                }
            };
            wrong(error.to_string()).help(help)
        };
        let most =
            Limits { memory_bytes: limits.memory_bytes, fuel: limits.fuel, faults: limits.faults };
        let module = Module::start(&wasm, most).map_err(refused)?;
        let process = module.function("process").map_err(refused)?;
        let packet = module.buffer("packet", BUFFER_BYTES).map_err(refused)?;
        let (path, limits, counters) = (path.to_owned(), limits.clone(), Default::default());
        Ok(Self { path, limits, wasm, module, process, packet, counters })
    }

    /// Runs the module on a packet; returns the packet to route, or `None` to drop it.
    pub(super) fn run(&mut self, pool: &mut Pool, packet: PacketHandle) -> Option<PacketHandle> {
        if self.counters.stopped {
            self.counters.while_stopped += 1;
            return None;
        }
        self.counters.called += 1;
        let frame = pool.frame(packet);
        self.module.write(self.packet, frame);
        let length = i32::try_from(frame.len()).ok()?;
        match self.module.call(self.process, length) {
            Ok(0) => {
                self.module.record_success();
                self.counters.dropped += 1;
                None
            }
            Ok(length) => {
                let length = usize::try_from(length).ok();
                let Some(frame) = length.and_then(|length| self.module.read(self.packet, length))
                else {
                    self.counters.bad_length += 1;
                    self.failed("`process` returned an invalid length");
                    return None;
                };
                let packet = pool.replace(packet, frame);
                self.module.record_success();
                Some(packet)
            }
            Err(fault) => {
                match fault {
                    Fault::OutOfFuel => self.counters.out_of_fuel += 1,
                    Fault::OverMemory => self.counters.over_memory += 1,
                    Fault::Trapped(_) => self.counters.trapped += 1,
                }
                self.failed(&fault.to_string());
                None
            }
        }
    }

    #[cold]
    fn failed(&mut self, why: &str) {
        if self.module.record_fault() {
            self.counters.stopped = true;
            log::error!(
                path = self.path;
                "the extension is stopped, its path drops every packet: {why}"
            );
        }
    }
}

/// The loaded extensions of all paths, in path order; empty if no path has one.
#[derive(Default)]
pub struct Extensions(IdVec<PathId, Option<Extension>>);

impl Extensions {
    /// Loads every configured module: compiles it and runs its start function.
    ///
    /// # Errors
    /// Fails if a module cannot be read or used.
    pub fn load(scenario: &RouterScenario) -> Result<Self, PortError> {
        let load = |path: &millstream_scenario::RouterPath| {
            let limits = path.extension.as_ref()?;
            Some(Extension::load(&path.name, limits))
        };
        let loaded: Result<IdVec<_, _>, _> =
            scenario.paths.iter().map(|path| load(path).transpose()).collect();
        let loaded = loaded?;
        Ok(Self(if loaded.iter().any(Option::is_some) { loaded } else { IdVec::new() }))
    }

    /// Copies the counters of `old`, and moves the state of unchanged extensions that are not
    /// stopped; path `n` was path `kept[n]`.
    pub(super) fn replace(&mut self, mut old: Self, kept: &[Option<PathId>]) {
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

    /// Returns the extension of a path, if it has one.
    #[inline]
    pub(super) fn of(&mut self, path: PathId) -> Option<&mut Extension> {
        self.0.get_mut(path)?.as_mut()
    }

    /// Returns the counters of a path's extension, if it has one.
    pub(super) fn counters(&self, path: PathId) -> Option<ExtensionCounters> {
        Some(self.0.get(path)?.as_ref()?.counters)
    }
}
