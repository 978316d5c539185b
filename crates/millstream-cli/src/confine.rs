//! Confines `route`, `serve` with its processes, and `attach --listen`, once their ports are open.
//! It limits what an exploit of a packet, request or module parser can do.
//!
//! | what | mechanism | applied when |
//! |---|---|---|
//! | privileges | capabilities, `no_new_privs` ([`capabilities`]) | ports are open |
//! | files, TCP ports | Landlock, if the kernel has it ([`files`]) | ports are open |
//! | system calls | seccomp ([`system_calls`]), except of `attach` | the program runs |

pub(crate) mod capabilities;
pub(crate) mod files;
pub(crate) mod system_calls;

use millstream_scenario::{FramePath, Live, Placement, Scenario, Source};
use rustix::thread::CapabilitySet;
use std::net::SocketAddr;

use crate::failure::Failure;
use capabilities::KeptCapabilities;
use files::{Enforcement, Files};
use system_calls::{LimitError, Program};

/// Drops privileges and limits file access of this thread and its children. Returns what the kernel
/// does not support, for the log.
pub(crate) fn begin(kept: KeptCapabilities, may: &Files) -> Result<Option<String>, Failure> {
    capabilities::drop_capabilities(kept)
        .map_err(|error| Failure::Run(miette::miette!("cannot drop privileges: {error}")))?;
    Ok(match files::limit(may) {
        Ok(Enforcement::Fully | Enforcement::Partly) => None,
        Ok(Enforcement::Not) => {
            Some("files are not limited: the kernel has no Landlock".to_owned())
        }
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
    begin(
        KeptCapabilities { own, ..KeptCapabilities::NOTHING },
        &Files { listens, ..Files::default() },
    )
}

/// The confinement of a media server, in two steps.
#[derive(Debug)]
pub(crate) struct Server {
    kept: KeptCapabilities,
    files: Files,
    program: Program,
}

impl Server {
    /// Returns the confinement for these settings. No capability is effective. Two stay permitted
    /// if the server may restart a data plane process, which needs real-time priority and locked
    /// memory.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let media = &scenario.media;
        let apart = matches!(media.placement, Placement::Ni { .. });
        let executes_itself = apart || media.frame_path == FramePath::Producer;
        let children = if apart {
            CapabilitySet::SYS_NICE | CapabilitySet::IPC_LOCK
        } else {
            CapabilitySet::empty()
        };
        let removes = media.socket.clone();
        let records = media.recording.as_ref().map(|to| scenario.folder.join(&to.folder));
        let has_paths = |live: &Live| live.record && live.path.is_some();
        let directories = scenario
            .streams
            .iter()
            .any(|stream| matches!(&stream.source, Source::Live(live) if has_paths(live)));
        Self {
            kept: KeptCapabilities { children, ..KeptCapabilities::NOTHING },
            program: Program::Server {
                children: executes_itself,
                removes: removes.is_some() || records.is_some(),
                records: records.is_some(),
                directories,
            },
            files: Files { executes_itself, removes, records, directories, ..Files::default() },
        }
    }

    /// Drops privileges and limits file access. Call when the ports are open, before threads start.
    pub(crate) fn begin(&self) -> Result<Option<String>, Failure> {
        begin(self.kept, &self.files)
    }

    /// Limits the system calls. Call before the server runs.
    pub(crate) fn limit(&self) -> Result<(), LimitError> {
        system_calls::limit(self.program)
    }
}

/// Drops all privileges of a thread in a child process of `serve`.
pub(crate) fn confine_child_thread() {
    if let Err(error) = capabilities::drop_capabilities(KeptCapabilities::NOTHING) {
        eprintln!("cannot drop privileges: {error}");
    }
}

/// Confines a child process of `serve`, which inherited the limits on files.
pub(crate) fn confine_child_process() {
    confine_child_thread();
    if let Err(error) = system_calls::limit(Program::Child) {
        eprintln!("system calls are not limited: {error}");
    }
}
