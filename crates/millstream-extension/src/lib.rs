//! WebAssembly modules within limits, for whoever lets others extend it while it runs.
//!
//! A module imports nothing: it computes, on numbers and on its own memory. What one call may compute is
//! limited by *fuel*, about one unit an instruction; what its memory may grow to is limited in bytes. A
//! module that meets a limit or traps has *failed* at that call and can be called again; after so many
//! failures in a row it is *stopped*, and whoever runs it calls it no more. What a failure means to a packet
//! or a frame is theirs to say. The interpreter is wasmi: no code is generated, so a module needs no memory
//! that can be executed, and the time that compiling takes grows with its length alone.
//!
//! Sources: the Router paper, section 2.1 (extensions as forwarding functions); the Co-processor paper,
//! section 3 (extensions of the distributed virtual communication machine).

use std::fs::File;
use std::io::Read;
use std::path::Path;
use wasmi::{
    Config, EnforcedLimits, Engine, Extern, Instance, Linker, Memory, Store, StoreLimits,
    StoreLimitsBuilder, TrapCode, TypedFunc,
};

/// What a module may compute when it is loaded, in units of fuel.
const START_FUEL: u64 = 10_000_000;
/// What one call may use for its own variables and calls, bytes and calls deep.
const STACK_BYTES: usize = 256 << 10;
const CALLS_DEEP: usize = 256;
/// Elements in a table of functions.
const TABLE_ELEMENTS: usize = 65_536;

/// What a module may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most that its memory may grow to, bytes.
    pub memory_bytes: u64,
    /// What one call may compute, in units of fuel.
    pub fuel: u32,
    /// So many failures in a row stop it.
    pub faults: u32,
}

/// Why a module cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is no WebAssembly, imports something, or failed when it was started.
    #[error("not a module that can be used: {0}")]
    Unsound(String),
    /// It does not export something.
    #[error("it does not export {0}")]
    Lacks(String),
    /// A buffer does not fit into its memory.
    #[error("`{name}` = {at} leaves no room for a {name} in a memory of {memory} bytes")]
    NoRoom {
        /// The global that says where the buffer is.
        name: String,
        /// What it says.
        at: usize,
        /// What the buffer is to hold, bytes.
        bytes: usize,
        /// The memory at the start, bytes.
        memory: usize,
    },
}

/// How a module failed at a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It computed too long.
    #[error("all fuel consumed by WebAssembly")]
    OutOfFuel,
    /// Its memory was to grow beyond its limit.
    #[error("its memory was to grow beyond its limit")]
    OverMemory,
    /// It trapped in another way.
    #[error("{0}")]
    Trapped(String),
}

/// A function of a module, from one number to another.
#[derive(Clone, Copy, Debug)]
pub struct Function(TypedFunc<i32, i32>);

/// Bytes of a module's memory by which it is told things, and tells them.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    at: usize,
    bytes: usize,
}

/// A module, started.
#[derive(Debug)]
pub struct Module {
    store: Store<StoreLimits>,
    instance: Instance,
    memory: Option<Memory>,
    limits: Limits,
    faults_in_a_row: u32,
}

impl Module {
    /// Compiles and starts a module. It takes the time of compiling, and what the module computes when it is
    /// started.
    ///
    /// # Errors
    /// If it is no module, imports something, fails when it is started or needs more than `limits` allows.
    pub fn start(wasm: &[u8], limits: Limits) -> Result<Self, Unusable> {
        let unsound = |error: wasmi::Error| Unusable::Unsound(error.to_string());
        let mut config = Config::default();
        config.consume_fuel(true);
        config.compilation_mode(wasmi::CompilationMode::Eager);
        config.enforced_limits(EnforcedLimits::strict());
        config.set_max_stack_height(STACK_BYTES);
        config.set_max_recursion_depth(CALLS_DEEP);
        config.set_max_cached_stacks(1);
        let engine = Engine::new(&config);
        let module = wasmi::Module::new(&engine, wasm).map_err(unsound)?;
        let most = StoreLimitsBuilder::new()
            .memory_size(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX))
            .table_elements(TABLE_ELEMENTS)
            .instances(1)
            .memories(1)
            .tables(4)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&engine, most);
        store.limiter(|most| most);
        store.set_fuel(START_FUEL).map_err(unsound)?;
        let linker = Linker::new(&engine);
        let instance = linker.instantiate_and_start(&mut store, &module).map_err(unsound)?;
        let memory = instance.get_memory(&store, "memory");
        Ok(Self { store, instance, memory, limits, faults_in_a_row: 0 })
    }

    /// Its function called `name`, (i32) -> i32.
    ///
    /// # Errors
    /// If it has none.
    pub fn function(&self, name: &str) -> Result<Function, Unusable> {
        let found = self.instance.get_typed_func(&self.store, name);
        found
            .map(Function)
            .map_err(|_| Unusable::Lacks(format!("a function `{name}` (i32) -> i32")))
    }

    /// Whether it exports anything called `name`.
    #[must_use]
    pub fn exports(&self, name: &str) -> bool {
        self.instance.get_export(&self.store, name).is_some()
    }

    /// So many bytes of its memory, `memory`, from the address on that its global `name` (i32) holds.
    ///
    /// # Errors
    /// If it exports no such memory or global, or there is no room.
    pub fn buffer(&self, name: &str, bytes: usize) -> Result<Buffer, Unusable> {
        let memory = self.memory.ok_or_else(|| Unusable::Lacks("a memory `memory`".to_owned()))?;
        let global = self.instance.get_export(&self.store, name).and_then(Extern::into_global);
        let address = global.and_then(|global| global.get(&self.store).i32());
        let address = address.ok_or_else(|| Unusable::Lacks(format!("a global `{name}` (i32)")))?;
        // Addresses have no sign.
        let at = address.cast_unsigned() as usize;
        let memory = memory.data_size(&self.store);
        if at.saturating_add(bytes) > memory {
            return Err(Unusable::NoRoom { name: name.to_owned(), at, bytes, memory });
        }
        Ok(Buffer { at, bytes })
    }

    /// Calls one of its functions.
    ///
    /// # Errors
    /// If it failed; [`failed`](Self::failed) is to be told so.
    pub fn call(&mut self, function: Function, argument: i32) -> Result<i32, Fault> {
        // It is never refused: fuel is counted.
        let _ = self.store.set_fuel(u64::from(self.limits.fuel));
        function.0.call(&mut self.store, argument).map_err(|error| match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => Fault::OutOfFuel,
            Some(TrapCode::GrowthOperationLimited) => Fault::OverMemory,
            _ => Fault::Trapped(error.to_string()),
        })
    }

    /// Writes to the beginning of a buffer; what does not fit is left out.
    pub fn write(&mut self, to: Buffer, bytes: &[u8]) {
        let length = bytes.len().min(to.bytes);
        let memory = self.memory.map(|memory| memory.data_mut(&mut self.store));
        // The memory never shrinks.
        if let Some(place) = memory.and_then(|memory| memory.get_mut(to.at..to.at + length)) {
            place.copy_from_slice(&bytes[..length]);
        }
    }

    /// The first `length` bytes of a buffer; `None` if it has not as many.
    #[must_use]
    pub fn read(&self, from: Buffer, length: usize) -> Option<&[u8]> {
        let memory = self.memory.filter(|_| length <= from.bytes)?;
        memory.data(&self.store).get(from.at..from.at + length)
    }

    /// It did what it was called for.
    pub fn worked(&mut self) {
        self.faults_in_a_row = 0;
    }

    /// It failed, by a fault or by an answer that is none. Returns whether it is stopped by that.
    #[cold]
    pub fn failed(&mut self) -> bool {
        self.faults_in_a_row = self.faults_in_a_row.saturating_add(1);
        self.faults_in_a_row >= self.limits.faults
    }
}

/// The bytes of a module's file, at most `most` of them.
///
/// # Errors
/// If it cannot be read or is longer, in words.
pub fn read(file: &Path, most: u64) -> Result<Vec<u8>, String> {
    let file = File::open(file).map_err(|error| format!("cannot be read: {error}"))?;
    let mut wasm = Vec::new();
    let read = file.take(most.saturating_add(1)).read_to_end(&mut wasm);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if wasm.len() as u64 > most {
        return Err(format!("larger than {most} bytes"));
    }
    Ok(wasm)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { memory_bytes: 2 << 16, fuel: 10_000, faults: 2 };

    /// A module with a page of memory whose `work` has this body; its buffer is the page's last eight bytes.
    fn module(body: &str) -> Module {
        let text = format!(
            "(module (memory (export \"memory\") 1)
               (global (export \"buffer\") i32 (i32.const 65528))
               (func (export \"work\") (param $number i32) (result i32) {body}))"
        );
        Module::start(&wat::parse_str(text).unwrap(), LIMITS).unwrap()
    }

    #[test]
    fn it_computes_on_numbers_and_on_its_buffer() {
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
    fn at_its_limits_it_fails_and_can_be_called_again() {
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
        assert!(!module.failed());
        module.worked();
        assert!(!module.failed() && module.failed(), "two in a row");
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let start = |text: &str| Module::start(&wat::parse_str(text).unwrap(), LIMITS);
        let why = |result: Result<Module, Unusable>| result.unwrap_err().to_string();
        assert!(why(Module::start(b"\0asm", LIMITS)).contains("not a module"));
        let imports = "(module (import \"a\" \"b\" (func)))";
        assert!(why(start(imports)).contains("not a module"));
        assert!(why(start("(module (memory 3))")).contains("not a module"), "beyond its memory");
        let loops = "(module (func $f (loop $again (br $again))) (start $f))";
        assert!(why(start(loops)).contains("not a module"));
        let empty = start("(module)").unwrap();
        assert!(empty.function("work").unwrap_err().to_string().contains("`work`"));
        assert!(empty.buffer("buffer", 1).unwrap_err().to_string().contains("memory"));
        assert!(!empty.exports("work"));
        let module = module("(i32.const 0)");
        let no_room = module.buffer("buffer", 9).unwrap_err();
        assert!(no_room.to_string().contains("`buffer` = 65528 leaves no room"), "{no_room}");
    }
}
