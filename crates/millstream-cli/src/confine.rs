//! The confinement of live programs: what `route`, `serve` and the processes that `serve` starts may still do once
//! their ports are open. A hole in what reads packets, requests or modules is worth less.
//!
//! | what | by | from when on |
//! |---|---|---|
//! | privileges | capabilities, `no_new_privs` ([`capabilities`]) | ports are open, no thread was started |
//! | files, TCP ports | Landlock, where the kernel has it ([`files`]) | the same |
//! | system calls | seccomp ([`system_calls`]) | the program runs |

pub(crate) mod capabilities;
pub(crate) mod files;
pub(crate) mod system_calls;

use millstream_scenario::{FramePath, Media, Placement};
use rustix::thread::CapabilitySet;
use std::net::SocketAddr;

use crate::failure::Failure;
use capabilities::Kept;
use files::{Enforced, Files};
use system_calls::{LimitError, Program};

/// Gives up privileges and limits files, for this thread and those that it starts. Returns what the kernel cannot
/// do, for the log.
pub(crate) fn begin(kept: Kept, may: &Files) -> Result<Option<String>, Failure> {
    capabilities::give_up(kept)
        .map_err(|error| Failure::Run(miette::miette!("cannot give privileges up: {error}")))?;
    Ok(match files::limit(may) {
        Ok(Enforced::Fully | Enforced::Partly) => None,
        Ok(Enforced::Not) => Some("files are not limited: the kernel has no Landlock".to_owned()),
        Err(error) => Some(format!("files are not limited: {error}")),
    })
}

/// Drops privileges and limits file access of a router's thread. With `may_reopen`
/// it keeps CAP_NET_RAW, to open an interface again, and CAP_IPC_LOCK, for memory shared with the
/// kernel. `status` is the address that counters are served at later.
pub(crate) fn router(
    may_reopen: bool,
    status: Option<SocketAddr>,
) -> Result<Option<String>, Failure> {
    let reopen = CapabilitySet::NET_RAW | CapabilitySet::IPC_LOCK;
    let own = if may_reopen { reopen } else { CapabilitySet::empty() };
    let listens = status.map(|address| address.port());
    begin(Kept { own, ..Kept::NOTHING }, &Files { listens, ..Files::default() })
}

/// A media server: before it starts threads and processes, and once it runs.
#[derive(Debug)]
pub(crate) struct Server {
    kept: Kept,
    files: Files,
    program: Program,
}

impl Server {
    /// Of a server of these settings. It has no capability in effect. A network interface processor that it may
    /// have to start again takes a real-time priority and locks its memory: for that two are kept.
    pub(crate) fn of(media: &Media) -> Self {
        let apart = matches!(media.placement, Placement::Ni { .. });
        let starts_itself = apart || media.frame_path == FramePath::Producer;
        let children = if apart {
            CapabilitySet::SYS_NICE | CapabilitySet::IPC_LOCK
        } else {
            CapabilitySet::empty()
        };
        let removes = media.socket.clone();
        Self {
            kept: Kept { children, ..Kept::NOTHING },
            program: Program::Server { children: starts_itself, socket: removes.is_some() },
            files: Files { starts_itself, removes, listens: None },
        }
    }

    /// Call it when the ports are open, before a thread is started.
    pub(crate) fn begin(&self) -> Result<Option<String>, Failure> {
        begin(self.kept, &self.files)
    }

    /// Call it when the server is to run.
    pub(crate) fn limit(&self) -> Result<(), LimitError> {
        system_calls::limit(self.program)
    }
}

/// Gives up all privileges of a thread of a process that `serve` started.
pub(crate) fn thread_of_child() {
    if let Err(error) = capabilities::give_up(Kept::NOTHING) {
        eprintln!("cannot give privileges up: {error}");
    }
}

/// Confines a process that `serve` started, which inherited the limits of files.
pub(crate) fn child() {
    thread_of_child();
    if let Err(error) = system_calls::limit(Program::Child) {
        eprintln!("system calls are not limited: {error}");
    }
}
