//! The thread that compiles modules, so that frames do not wait for it, and takes apart what is
//! replaced.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::instruction_table::{InstructionTable, NewInstruction};
use super::{Loaded, MOST};
use crate::data_plane::ring;

/// What the thread is to do.
pub(crate) enum Job {
    /// Compile what is in a slot.
    Build(usize),
    /// Give back its memory.
    Forget(Box<Loaded>),
}

/// A module that was compiled, or why not.
pub(crate) struct Built {
    pub(crate) slot: usize,
    pub(crate) version: u64,
    pub(crate) given: NewInstruction,
    pub(crate) loaded: Result<Box<Loaded>, String>,
}

/// The processor's end of the thread, which ends with it.
#[derive(Debug)]
pub(crate) struct Builder {
    pub(crate) jobs: SyncSender<Job>,
    pub(crate) built: Receiver<Built>,
    /// Rung when something was built.
    pub(crate) bell: UnixStream,
}

impl Builder {
    /// Starts the thread, which calls `begin` first. Its priority is that of the caller: a
    /// processor takes its own afterwards.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub(crate) fn start(board: InstructionTable, begin: fn()) -> io::Result<Self> {
        // As many jobs as there can be at once: what is in a slot, and what was.
        let (jobs, work) = sync_channel(2 * MOST);
        let (done, built) = sync_channel(MOST);
        let (bell, theirs) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let thread = std::thread::Builder::new().name("instructions".to_owned());
        thread.spawn(move || {
            begin();
            while let Ok(job) = work.recv() {
                let new = match job {
                    Job::Build(slot) => build(board, slot),
                    Job::Forget(old) => {
                        drop(old);
                        None
                    }
                };
                let Some(new) = new else { continue };
                if done.send(new).is_err() {
                    return;
                }
                ring(&theirs);
            }
        })?;
        Ok(Self { jobs, built, bell })
    }
}

/// What is in a slot, compiled; `None` if there is nothing, or it is being written: then whoever
/// writes it says when it is there.
pub(crate) fn build(board: InstructionTable, slot: usize) -> Option<Built> {
    let (version, given) = board.slot(slot).read()?;
    if given.wasm.is_empty() {
        return None;
    }
    let loaded = Loaded::start(&given.wasm, given.limits);
    let loaded = loaded.map(Box::new).map_err(|error| error.to_string());
    Some(Built { slot, version, given, loaded })
}
