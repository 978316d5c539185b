//! Confines `route`, `serve` and the processes of `serve` once their ports are open. It limits what
//! an exploit of a packet, request or module parser can do.
//!
//! | what | mechanism | applied when |
//! |---|---|---|
//! | privileges | capabilities, `no_new_privs` ([`capabilities`]) | ports are open |
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

/// Drops privileges and limits file access of this thread and its children. Returns what the kernel
/// does not support, for the log.
pub(crate) fn begin(kept: Kept, may: &Files) -> Result<Option<String>, Failure> {
    capabilities::give_up(kept)
        .map_err(|error| Failure::Run(miette::miette!("cannot give privileges up: {error}")))?;
    Ok(match files::limit(may) {
        Ok(Enforced::Fully | Enforced::Partly) => None,
        Ok(Enforced::Not) => Some("files are not limited: the kernel has no Landlock".to_owned()),
        Err(error) => Some(format!("files are not limited: {error}")),
    })
}

/// Drops privileges and limits file access of a router's thread. With `may_reopen` it keeps
/// CAP_NET_RAW to reopen an interface, and CAP_IPC_LOCK for memory shared with the kernel. `status`
/// is the address of the status page.
pub(crate) fn router(
    may_reopen: bool,
    status: Option<SocketAddr>,
) -> Result<Option<String>, Failure> {
    let reopen = CapabilitySet::NET_RAW | CapabilitySet::IPC_LOCK;
    let own = if may_reopen { reopen } else { CapabilitySet::empty() };
    let listens = status.map(|address| address.port());
    begin(Kept { own, ..Kept::NOTHING }, &Files { listens, ..Files::default() })
}

/// Confinement of a media server, in two steps.
#[derive(Debug)]
pub(crate) struct Server {
    kept: Kept,
    files: Files,
    program: Program,
}

impl Server {
    /// Returns the confinement for these settings. No capability is effective. Two stay permitted
    /// if the server may restart a data plane process, which needs real-time priority and locked
    /// memory.
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

    /// Call when the ports are open, before threads start.
    pub(crate) fn begin(&self) -> Result<Option<String>, Failure> {
        begin(self.kept, &self.files)
    }

    /// Call before the server runs.
    pub(crate) fn limit(&self) -> Result<(), LimitError> {
        system_calls::limit(self.program)
    }
}

/// Drops all privileges of a thread in a child process of `serve`.
pub(crate) fn thread_of_child() {
    if let Err(error) = capabilities::give_up(Kept::NOTHING) {
        eprintln!("cannot give privileges up: {error}");
    }
}

/// Confines a child process of `serve`, which inherited the limits on files.
pub(crate) fn child() {
    thread_of_child();
    if let Err(error) = system_calls::limit(Program::Child) {
        eprintln!("system calls are not limited: {error}");
    }
}
