//! The capabilities that a live program and its child processes keep once its ports are open.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The capabilities to keep, if the process has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptCapabilities {
    /// Effective in this process.
    pub(crate) own: CapabilitySet,
    /// Effective only in the programs that this process executes.
    pub(crate) children: CapabilitySet,
}

impl KeptCapabilities {
    pub(crate) const NOTHING: Self =
        Self { own: CapabilitySet::empty(), children: CapabilitySet::empty() };
}

/// Drops every capability except `kept`, and prevents gaining others.
///
/// Capabilities belong to a thread: call this before other threads start, or in each of them.
///
/// # Errors
/// Fails if the kernel refuses a change.
pub(crate) fn drop_capabilities(kept: KeptCapabilities) -> Result<(), Errno> {
    let have = capabilities(None)?;
    let (own, children) = (have.permitted & kept.own, have.permitted & kept.children);
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    // Before the bounding set is emptied: it limits what can become inheritable.
    set_capabilities(None, CapabilitySets { inheritable: children, ..have })?;
    empty_bounding_set(have.effective)?;
    let sets = CapabilitySets { effective: own, permitted: own | children, inheritable: children };
    set_capabilities(None, sets)?;
    // Programs of a user other than root get the ambient set.
    children.iter().try_for_each(|one| configure_capability_in_ambient_set(one, true))
}

/// Empties the bounding set, which limits the capabilities that a program can gain.
///
/// This needs CAP_SETPCAP. Without that capability, `no_new_privs` has an equal effect.
fn empty_bounding_set(effective: CapabilitySet) -> Result<(), Errno> {
    if !effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for one in CapabilitySet::all().iter() {
        // EINVAL: the kernel does not know the capability.
        if capability_is_in_bounding_set(one).unwrap_or(false) {
            remove_capability_from_bounding_set(one)?;
        }
    }
    Ok(())
}
