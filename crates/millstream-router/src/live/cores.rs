//! The worker threads: one for each core but the first.
//!
//! Each thread opens its own ports, because devices need not be `Send`. It starts *on hold*. It
//! executes commands immediately while on hold, and within some dozen steps while forwarding.

use millstream_sync::waker::eventfd::Waker;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::PortError;
use crate::ids::CoreId;
use crate::io::port::Port;
use crate::live::core::Core;

/// The state that a worker's thread owns.
#[derive(Default)]
pub(super) struct WorkerState {
    /// The open ports, until the core is created.
    pub(super) ports: Vec<Box<dyn Port>>,
    pub(super) core: Option<Core>,
}

type Task = Box<dyn FnOnce(&mut WorkerState) + Send>;

enum Command {
    Do(Task),
    Go,
    Hold,
}

/// A handle to the thread of a core.
pub(super) struct Worker {
    number: CoreId,
    commands: Option<Sender<Command>>,
    waker: Arc<Waker>,
    /// The error that stopped forwarding without a `Hold` command.
    failed: Arc<Mutex<Option<PortError>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread of core `number`, pinned to CPU `processor`; `waker` wakes it.
    pub(super) fn start(
        number: CoreId,
        waker: Arc<Waker>,
        processor: usize,
    ) -> Result<Self, PortError> {
        let (commands, received) = channel();
        let failed = Arc::new(Mutex::new(None));
        let failure = Arc::clone(&failed);
        let work = move || {
            if let Err(error) = pin(number, processor) {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            work(&received, &failure);
        };
        let thread = thread::Builder::new().name(format!("core {number}")).spawn(work);
        let thread = thread.map_err(|error| core_error(number, &error.to_string()))?;
        Ok(Self { number, commands: Some(commands), waker, failed, thread: Some(thread) })
    }

    fn command(&self, command: Command) -> Result<(), PortError> {
        let sent = self.commands.as_ref().and_then(|commands| commands.send(command).ok());
        sent.ok_or_else(|| core_error(self.number, "its thread has ended"))?;
        self.waker.command();
        Ok(())
    }

    /// Runs `what` in the thread and returns its result.
    pub(super) fn state<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut WorkerState) -> R + Send + 'static,
    ) -> Result<R, PortError> {
        let (answer, answered) = channel();
        let work = move |state: &mut WorkerState| {
            // The caller waits for the result, so sending does not fail.
            let _ = answer.send(what(state));
        };
        self.command(Command::Do(Box::new(work)))?;
        answered.recv().map_err(|_| core_error(self.number, "its thread has ended"))
    }

    /// Runs `what` on the thread's core and returns its result. Fails if the core does not exist
    /// yet.
    pub(super) fn core<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, PortError> {
        let number = self.number;
        let what = move |state: &mut WorkerState| state.core.as_mut().map(what);
        self.state(what)?.ok_or_else(|| core_error(number, "its ports are not open yet"))
    }

    /// Starts forwarding.
    pub(super) fn go(&self) -> Result<(), PortError> {
        self.command(Command::Go)
    }

    /// Stops forwarding; the core is on hold when this returns.
    pub(super) fn hold(&self) -> Result<(), PortError> {
        self.command(Command::Hold)?;
        self.state(|_| ())
    }

    /// Takes the error that stopped forwarding, if any.
    pub(super) fn failure(&self) -> Option<PortError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The thread ends when the command channel closes.
        self.commands = None;
        self.waker.command();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn core_error(core: CoreId, why: &str) -> PortError {
    PortError { of: "core", ..PortError::new(&core.to_string(), why) }
}

/// Executes commands until the channel closes.
fn work(commands: &Receiver<Command>, failed: &Mutex<Option<PortError>>) {
    let mut state = WorkerState::default();
    while let Ok(command) = commands.recv() {
        match command {
            Command::Do(work) => work(&mut state),
            Command::Hold => {}
            Command::Go => {
                if let Err(error) = forward(&mut state, commands) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
    }
}

/// Forwards until a `Hold` command arrives or the channel closes.
fn forward(state: &mut WorkerState, commands: &Receiver<Command>) -> Result<(), PortError> {
    if let Some(core) = &mut state.core {
        core.begin();
    }
    loop {
        if state.core.as_ref().is_none_or(Core::command_pending) {
            loop {
                match commands.try_recv() {
                    Ok(Command::Do(work)) => work(state),
                    Ok(Command::Go) => {}
                    Ok(Command::Hold) => return Ok(()),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
                }
            }
        }
        let Some(core) = &mut state.core else { return Ok(()) };
        let round = core.round()?;
        if let Some(until_ns) = round.idle_until_ns {
            core.rest(round.now_ns, until_ns, u64::MAX);
        }
    }
}

/// Returns the CPUs that this thread may run on, in ascending order.
pub(super) fn processors() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

/// Pins this thread, of core `core`, to CPU `processor`.
pub(super) fn pin(core: CoreId, processor: usize) -> Result<(), PortError> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let pinned = rustix::thread::sched_setaffinity(None, &set);
    pinned.map_err(|error| {
        core_error(core, &format!("cannot pin its thread to CPU {processor}: {error}"))
    })
}

#[cfg(test)]
mod tests;
