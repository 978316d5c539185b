//! Instructions: WebAssembly modules that the data plane runs for host programs.
//!
//! Programs load, replace and remove them while clients play.
//!
//! ```text
//!  host program ── HTTP ──> API ── table in shared memory ──> runtime   per call and frame
//!                          (host)                             └ compiler   in its own thread
//! ```
//! The instruction table holds the modules themselves. So a replacement of the data plane or of the
//! server finds the loaded modules. API and data plane each validate the words that the other
//! writes.
//!
//! A module exports a memory `memory` and one or both of
//! - a function `filter` (i32) -> i32 and a global `frame` (i32), the address of [`FRAME_BYTES`]
//!   bytes. The data plane calls `filter` at the release of each frame of the module's streams,
//!   with the length of the [`FrameView`](crate::scheduler::frame_view::FrameView) at that
//!   address. The result is 0: drop the frame; 1: send it; 2: send it as an optional frame.
//! - a function `call` (i32) -> i32 and a global `message` (i32), the address of [`MESSAGE_BYTES`]
//!   bytes. A host program calls `call` with the length of the message at that address. The result
//!   is the length of the answer at that address.
//!
//! If a filter fails at a frame, the frame is sent unfiltered; so are all frames once the
//! instruction is stopped.
//!
//! Source: the Co-processor paper, section 3 (the distributed virtual communication machine: host
//! programs call instructions of the network interface, and extensions add instructions).

pub(crate) mod api;
pub(crate) mod compiler;
pub(crate) mod runtime;

use crate::scheduler::frame_view::FRAME_BYTES;
use crate::shared_memory::instruction_table::MESSAGE_BYTES;
use millstream_extension::{Buffer, Function, Limits, Module, ModuleError};

/// A compiled and started module, and its entry points.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) module: Module,
    pub(crate) filter: Option<(Function, Buffer)>,
    pub(crate) call: Option<(Function, Buffer)>,
}

impl Loaded {
    /// Compiles and starts a module.
    ///
    /// # Errors
    /// Fails if the module cannot be used.
    pub(crate) fn start(wasm: &[u8], limits: Limits) -> Result<Self, ModuleError> {
        let module = Module::start(wasm, limits)?;
        let hook = |function: &str, buffer: &str, bytes| {
            let exported = module.exports(function);
            exported
                .then(|| Ok((module.function(function)?, module.buffer(buffer, bytes)?)))
                .transpose()
        };
        let filter = hook("filter", "frame", FRAME_BYTES)?;
        let call = hook("call", "message", MESSAGE_BYTES)?;
        if filter.is_none() && call.is_none() {
            return Err(ModuleError::MissingExport("a function `filter` or `call`".to_owned()));
        }
        Ok(Self { module, filter, call })
    }
}

/// Test modules.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const LIMITS: Limits = Limits { memory_bytes: 1 << 17, fuel: 10_000, faults: 3 };

    /// Returns a module with these bodies of `filter` and `call`.
    pub(crate) fn module(filter: &str, call: &str) -> Vec<u8> {
        let text = format!(
            "(module (memory (export \"memory\") 1)
               (global (export \"frame\") i32 (i32.const 64))
               (global (export \"message\") i32 (i32.const 1024))
               (global $level (mut i32) (i32.const 0))
               (func (export \"filter\") (param $length i32) (result i32) {filter})
               (func (export \"call\") (param $length i32) (result i32) {call}))"
        );
        wat::parse_str(text).unwrap()
    }

    #[test]
    fn a_module_has_a_filter_or_a_call_or_both() {
        let both = module("(i32.const 1)", "(local.get $length)");
        let both = Loaded::start(&both, LIMITS).unwrap();
        assert!(both.filter.is_some() && both.call.is_some());
        let why = |text: &str| {
            Loaded::start(&wat::parse_str(text).unwrap(), LIMITS).unwrap_err().to_string()
        };
        assert!(why("(module)").contains("`filter` or `call`"));
        let func = "(func (export \"filter\") (param i32) (result i32) (i32.const 1))";
        assert!(why(&format!("(module {func})")).contains("`memory`"));
        let memory = "(memory (export \"memory\") 1)";
        assert!(why(&format!("(module {memory} {func})")).contains("`frame`"));
        let frame = "(global (export \"frame\") i32 (i32.const 65500))";
        assert!(why(&format!("(module {memory} {frame} {func})")).contains("no room"));
        let wrong = "(func (export \"call\"))";
        assert!(why(&format!("(module {memory} {wrong})")).contains("`call`"));
    }
}
