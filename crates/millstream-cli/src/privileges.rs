//! What the router may do once its ports are open: as little as possible.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::failure::Failure;

/// Gives up every capability but CAP_NET_RAW, and CAP_IPC_LOCK for memory shared with the kernel, which are kept, if
/// they are there, where an interface may have to be opened again; and the way to any other. To be called before other threads are started:
/// each has its own.
pub(crate) fn give_up(may_reopen: bool) -> Result<(), Failure> {
    let failed = |error: rustix::io::Errno| {
        Failure::Run(miette::miette!("cannot give privileges up: {error}"))
    };
    let have = rustix::thread::capabilities(None).map_err(failed)?.permitted;
    let reopen = CapabilitySet::NET_RAW | CapabilitySet::IPC_LOCK;
    let wanted = if may_reopen { reopen } else { CapabilitySet::empty() };
    let kept = have & wanted;
    set_no_new_privs(true).map_err(failed)?;
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable };
    set_capabilities(None, sets).map_err(failed)
}
