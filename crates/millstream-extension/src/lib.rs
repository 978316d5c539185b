//! Runs WebAssembly modules within limits of fuel and memory.
//!
//! A module imports nothing: it computes on numbers and on its own memory. *Fuel*, about one unit
//! an instruction, limits one call; its memory is limited in bytes. A call that meets a limit or
//! traps *faults*; the module can be called again. After [`Limits::faults`] consecutive faults the
//! module is *stopped*, and the caller must not call it again. What a fault means for a packet or a
//! frame is up to the caller.
//!
//! The interpreter is wasmi. It generates no code, so a module needs no executable memory, and
//! compile time is linear in its length.
//!
//! Sources: the Router paper, section 2.1 (extensions as forwarding functions); the Co-processor
//! paper, section 3 (extensions of the distributed virtual communication machine).

use std::fs::File;
use std::io::Read;
use std::path::Path;
use wasmi::{
    Config, EnforcedLimits, Engine, Extern, Instance, Linker, Memory, Store, StoreLimits,
    StoreLimitsBuilder, TrapCode, TypedFunc,
};

/// The fuel of a module's start function.
const START_FUEL: u64 = 10_000_000;
/// The stack of one call, bytes.
const STACK_BYTES: usize = 256 << 10;
/// The depth of one call, calls.
const MAX_CALL_DEPTH: usize = 256;
/// The largest number of elements in a table of functions.
const TABLE_ELEMENTS: usize = 65_536;

/// Limits of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of its memory, bytes.
    pub memory_bytes: u64,
    /// Fuel of one call.
    pub fuel: u32,
    /// Consecutive faults that stop the module.
    pub faults: u32,
}

/// The reason why a module cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// The module is not valid WebAssembly, has imports, or its start function failed.
    #[error("not a usable module: {0}")]
    Invalid(String),
    /// An export is missing.
    #[error("it does not export {0}")]
    MissingExport(String),
    /// A buffer does not fit into its memory.
    #[error("`{name}` = {at} leaves no room for a {name} in a memory of {memory} bytes")]
    BufferOutOfBounds {
        /// The global that holds the buffer's address.
        name: String,
        /// The buffer's address.
        at: usize,
        /// The buffer's length, bytes.
        bytes: usize,
        /// The memory's initial size, bytes.
        memory: usize,
    },
}

/// Deprecated alias of [`ModuleError`].
#[deprecated(note = "renamed to `ModuleError`")]
pub type Unusable = ModuleError;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The call ran out of fuel.
    #[error("all fuel consumed by WebAssembly")]
    OutOfFuel,
    /// The module's memory would have grown beyond its limit.
    #[error("memory limit exceeded")]
    OverMemory,
    /// Any other trap.
    #[error("{0}")]
    Trapped(String),
}

/// A function of a module: (i32) -> i32.
#[derive(Clone, Copy, Debug)]
pub struct Function(TypedFunc<i32, i32>);

/// A byte range of a module's memory that passes data in and out.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    at: usize,
    bytes: usize,
}

/// An instantiated module.
#[derive(Debug)]
pub struct Module {
    store: Store<StoreLimits>,
    instance: Instance,
    memory: Option<Memory>,
    limits: Limits,
    consecutive_faults: u32,
}

impl Module {
    /// Compiles and instantiates a module, and runs its start function.
    ///
    /// # Errors
    /// Fails if the module is invalid, has imports or exceeds `limits`, or if its start function
    /// fails.
    pub fn start(wasm: &[u8], limits: Limits) -> Result<Self, ModuleError> {
        let invalid = |error: wasmi::Error| ModuleError::Invalid(error.to_string());
        let mut config = Config::default();
        config.consume_fuel(true);
        config.compilation_mode(wasmi::CompilationMode::Eager);
        config.enforced_limits(EnforcedLimits::strict());
        config.set_max_stack_height(STACK_BYTES);
        config.set_max_recursion_depth(MAX_CALL_DEPTH);
        config.set_max_cached_stacks(1);
        let engine = Engine::new(&config);
        let module = wasmi::Module::new(&engine, wasm).map_err(invalid)?;
        let store_limits = StoreLimitsBuilder::new()
            .memory_size(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX))
            .table_elements(TABLE_ELEMENTS)
            .instances(1)
            .memories(1)
            .tables(4)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&engine, store_limits);
        store.limiter(|limits| limits);
        store.set_fuel(START_FUEL).map_err(invalid)?;
        let linker = Linker::new(&engine);
        let instance = linker.instantiate_and_start(&mut store, &module).map_err(invalid)?;
        let memory = instance.get_memory(&store, "memory");
        Ok(Self { store, instance, memory, limits, consecutive_faults: 0 })
    }

    /// Returns the exported function `name`, (i32) -> i32.
    ///
    /// # Errors
    /// Fails if the module has no such export.
    pub fn function(&self, name: &str) -> Result<Function, ModuleError> {
        let found = self.instance.get_typed_func(&self.store, name);
        found
            .map(Function)
            .map_err(|_| ModuleError::MissingExport(format!("a function `{name}` (i32) -> i32")))
    }

    /// Returns whether the module has an export called `name`.
    #[must_use]
    pub fn exports(&self, name: &str) -> bool {
        self.instance.get_export(&self.store, name).is_some()
    }

    /// Returns the buffer of `bytes` bytes at the address in the exported global `name` (i32), in
    /// the exported memory `memory`.
    ///
    /// # Errors
    /// Fails if an export is missing or the buffer does not fit.
    pub fn buffer(&self, name: &str, bytes: usize) -> Result<Buffer, ModuleError> {
        let memory = self
            .memory
            .ok_or_else(|| ModuleError::MissingExport("a memory `memory`".to_owned()))?;
        let global = self.instance.get_export(&self.store, name).and_then(Extern::into_global);
        let address = global.and_then(|global| global.get(&self.store).i32());
        let address = address
            .ok_or_else(|| ModuleError::MissingExport(format!("a global `{name}` (i32)")))?;
        // Addresses are unsigned.
        let at = address.cast_unsigned() as usize;
        let memory = memory.data_size(&self.store);
        if at.saturating_add(bytes) > memory {
            return Err(ModuleError::BufferOutOfBounds {
                name: name.to_owned(),
                at,
                bytes,
                memory,
            });
        }
        Ok(Buffer { at, bytes })
    }

    /// Calls a function.
    ///
    /// # Errors
    /// Fails if the call faults. The caller reports the fault by
    /// [`record_fault`](Self::record_fault).
    pub fn call(&mut self, function: Function, argument: i32) -> Result<i32, Fault> {
        // Cannot fail: fuel metering is enabled.
        let _ = self.store.set_fuel(u64::from(self.limits.fuel));
        function.0.call(&mut self.store, argument).map_err(|error| match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => Fault::OutOfFuel,
            Some(TrapCode::GrowthOperationLimited) => Fault::OverMemory,
            _ => Fault::Trapped(error.to_string()),
        })
    }

    /// Writes `bytes`, truncated to the buffer's length, to the start of a buffer.
    pub fn write(&mut self, to: Buffer, bytes: &[u8]) {
        let length = bytes.len().min(to.bytes);
        let memory = self.memory.map(|memory| memory.data_mut(&mut self.store));
        // In bounds: a memory never shrinks.
        if let Some(place) = memory.and_then(|memory| memory.get_mut(to.at..to.at + length)) {
            place.copy_from_slice(&bytes[..length]);
        }
    }

    /// Returns the first `length` bytes of a buffer, or `None` if it is shorter.
    #[must_use]
    pub fn read(&self, from: Buffer, length: usize) -> Option<&[u8]> {
        let memory = self.memory.filter(|_| length <= from.bytes)?;
        memory.data(&self.store).get(from.at..from.at + length)
    }

    /// Resets the count of consecutive faults.
    pub fn record_success(&mut self) {
        self.consecutive_faults = 0;
    }

    /// Counts a fault or an invalid result. Returns whether the module is now stopped.
    #[cold]
    pub fn record_fault(&mut self) -> bool {
        self.consecutive_faults = self.consecutive_faults.saturating_add(1);
        self.consecutive_faults >= self.limits.faults
    }
}

/// Reads a module file of at most `max_bytes` bytes.
///
/// # Errors
/// Fails with a message if the file cannot be read or is longer.
pub fn read(file: &Path, max_bytes: u64) -> Result<Vec<u8>, String> {
    let file = File::open(file).map_err(|error| format!("cannot be read: {error}"))?;
    let mut wasm = Vec::new();
    let read = file.take(max_bytes.saturating_add(1)).read_to_end(&mut wasm);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if wasm.len() as u64 > max_bytes {
        return Err(format!("larger than {max_bytes} bytes"));
    }
    Ok(wasm)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { memory_bytes: 2 << 16, fuel: 10_000, faults: 2 };

    /// Returns a module with one page of memory and the given body of `work`; its buffer is the
    /// page's end.
    fn module(body: &str) -> Module {
        let text = format!(
            "(module (memory (export \"memory\") 1)
               (global (export \"buffer\") i32 (i32.const 65528))
               (func (export \"work\") (param $number i32) (result i32) {body}))"
        );
        Module::start(&wat::parse_str(text).unwrap(), LIMITS).unwrap()
    }

    #[test]
    fn computes_on_numbers_and_on_its_buffer() {
        let mut module = module(
            "(i32.store8 (i32.const 65528) (i32.add (i32.load8_u (i32.const 65528)) (i32.const 1)))
             (i32.mul (local.get $number) (i32.const 2))",
        );
        let (work, buffer) =
            (module.function("work").unwrap(), module.buffer("buffer", 8).unwrap());
        module.write(buffer, b"abcdefghi");
        assert_eq!(module.call(work, -21), Ok(-42));
        assert_eq!(module.read(buffer, 8), Some(&b"bbcdefgh"[..]));
        assert_eq!(module.read(buffer, 9), None);
    }

    #[test]
    fn a_faulted_module_can_be_called_again() {
        let mut module = module(
            "(if (i32.eq (local.get $number) (i32.const 1)) (then (loop $again (br $again))))
             (if (i32.eq (local.get $number) (i32.const 2))
               (then (loop $again (drop (memory.grow (i32.const 1))) (br $again))))
             (if (i32.eq (local.get $number) (i32.const 3)) (then unreachable))
             (i32.const 7)",
        );
        let work = module.function("work").unwrap();
        assert_eq!(module.call(work, 1), Err(Fault::OutOfFuel));
        assert_eq!(module.call(work, 2), Err(Fault::OverMemory));
        assert!(matches!(module.call(work, 3), Err(Fault::Trapped(_))));
        assert_eq!(module.call(work, 4), Ok(7));
        assert!(!module.record_fault());
        module.record_success();
        assert!(!module.record_fault() && module.record_fault(), "two consecutive faults");
    }

    #[test]
    fn unusable_modules_are_reported() {
        let start = |text: &str| Module::start(&wat::parse_str(text).unwrap(), LIMITS);
        let why = |result: Result<Module, ModuleError>| result.unwrap_err().to_string();
        assert!(why(Module::start(b"\0asm", LIMITS)).contains("not a usable module"));
        let imports = "(module (import \"a\" \"b\" (func)))";
        assert!(why(start(imports)).contains("not a usable module"));
        assert!(
            why(start("(module (memory 3))")).contains("not a usable module"),
            "over the memory limit"
        );
        let loops = "(module (func $f (loop $again (br $again))) (start $f))";
        assert!(why(start(loops)).contains("not a usable module"));
        let empty = start("(module)").unwrap();
        assert!(empty.function("work").unwrap_err().to_string().contains("`work`"));
        assert!(empty.buffer("buffer", 1).unwrap_err().to_string().contains("memory"));
        assert!(!empty.exports("work"));
        let module = module("(i32.const 0)");
        let too_long = module.buffer("buffer", 9).unwrap_err();
        assert!(too_long.to_string().contains("`buffer` = 65528 leaves no room"), "{too_long}");
    }
}
