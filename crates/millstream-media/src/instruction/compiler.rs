//! The compiler thread: compiles modules and drops replaced ones, in parallel to the frames.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::Loaded;
use crate::shared_memory::instruction_table::{InstructionTable, MAX_INSTRUCTIONS, NewInstruction};
use crate::wake_socket::wake;

/// A job of the compiler thread.
pub(crate) enum Job {
    /// Compile the module in a slot.
    Build(usize),
    /// Drop a replaced module and free its memory.
    Discard(Box<Loaded>),
}

/// A compiled module, or the reason why it cannot be used.
pub(crate) struct CompiledModule {
    pub(crate) slot: usize,
    pub(crate) version: u64,
    pub(crate) given: NewInstruction,
    pub(crate) loaded: Result<Box<Loaded>, String>,
}

/// The data plane's end of the compiler thread; the thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Compiler {
    pub(crate) jobs: SyncSender<Job>,
    pub(crate) built: Receiver<CompiledModule>,
    /// Readable when a module was compiled.
    pub(crate) waker: UnixStream,
}

impl Compiler {
    /// Starts the thread, which calls `begin` first.
    ///
    /// It inherits the caller's priority; a data plane raises its own priority afterwards.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread or create a socket pair.
    pub(crate) fn start(table: InstructionTable, begin: fn()) -> io::Result<Self> {
        // Holds all possible jobs: per slot, one module to compile and one to drop.
        let (jobs, work) = sync_channel(2 * MAX_INSTRUCTIONS);
        let (done, built) = sync_channel(MAX_INSTRUCTIONS);
        let (waker, notifier) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        notifier.set_nonblocking(true)?;
        let thread = std::thread::Builder::new().name("instructions".to_owned());
        thread.spawn(move || {
            begin();
            while let Ok(job) = work.recv() {
                let new = match job {
                    Job::Build(slot) => build(table, slot),
                    Job::Discard(old) => {
                        drop(old);
                        None
                    }
                };
                let Some(new) = new else { continue };
                if done.send(new).is_err() {
                    return;
                }
                wake(&notifier);
            }
        })?;
        Ok(Self { jobs, built, waker })
    }
}

/// Compiles the module in a slot.
///
/// Returns `None` if the slot is empty or is being written; the host notifies the data plane again
/// when it has written the slot.
pub(crate) fn build(table: InstructionTable, slot: usize) -> Option<CompiledModule> {
    let (version, given) = table.slot(slot).read()?;
    if given.wasm.is_empty() {
        return None;
    }
    let loaded = Loaded::start(&given.wasm, given.limits);
    let loaded = loaded.map(Box::new).map_err(|error| error.to_string());
    Some(CompiledModule { slot, version, given, loaded })
}
