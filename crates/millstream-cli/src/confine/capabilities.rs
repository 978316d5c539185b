//! Capabilities: what a live program keeps once its ports are open, and what the processes that it
//! starts may have.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// What a program keeps, as far as it has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// In effect.
    pub(crate) own: CapabilitySet,
    /// Not in effect here, but in the programs that this one starts.
    pub(crate) children: CapabilitySet,
}

impl Kept {
    pub(crate) const NOTHING: Self =
        Self { own: CapabilitySet::empty(), children: CapabilitySet::empty() };
}

/// Gives up every capability but `kept`, and the way to any other. Each thread has its own: call it
/// before others are started, or in each.
///
/// # Errors
/// If the kernel does not allow it.
pub(crate) fn give_up(kept: Kept) -> Result<(), Errno> {
    let have = capabilities(None)?;
    let (own, children) = (have.permitted & kept.own, have.permitted & kept.children);
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    // Before the bounding set is emptied: what is inheritable must be in it.
    set_capabilities(None, CapabilitySets { inheritable: children, ..have })?;
    empty_bounding_set(have.effective)?;
    let sets = CapabilitySets { effective: own, permitted: own | children, inheritable: children };
    set_capabilities(None, sets)?;
    // Programs of another user than root have what is in this set.
    children.iter().try_for_each(|one| configure_capability_in_ambient_set(one, true))
}

/// Empties the set that bounds what a program can gain, which takes a capability itself; where that
/// is missing, `no_new_privs` has the same effect.
fn empty_bounding_set(effective: CapabilitySet) -> Result<(), Errno> {
    if !effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for one in CapabilitySet::all().iter() {
        // A kernel that does not know it says EINVAL.
        if capability_is_in_bounding_set(one).unwrap_or(false) {
            remove_capability_from_bounding_set(one)?;
        }
    }
    Ok(())
}
