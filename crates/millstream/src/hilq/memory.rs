//! Counters of memory accesses.
//!
//! The paper measures its structures by their accesses to off-chip SRAM, about 20 cycles each
//! (Table 2), and keeps the level-one bitmaps in the on-chip scratchpad. The scheduler reports each
//! access to a [`Memory`]; the default is `()`, which compiles to nothing.
//!
//! An access is one reference to one record. In one access the network processor reads or writes up
//! to eight consecutive longwords, sets or clears a bit, or takes or returns an entry of a free
//! list.

/// Counts memory accesses.
pub trait Memory {
    /// Counts `accesses` accesses to off-chip memory.
    #[inline]
    fn sram(&mut self, accesses: u64) {
        let _ = accesses;
    }

    /// Counts `accesses` accesses to on-chip memory.
    #[inline]
    fn scratch(&mut self, accesses: u64) {
        let _ = accesses;
    }
}

/// Counts nothing.
impl Memory for () {}

/// The number of memory accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Accesses to off-chip memory.
    pub sram: u64,
    /// Accesses to on-chip memory.
    pub scratch: u64,
}

impl Memory for Accesses {
    #[inline]
    fn sram(&mut self, accesses: u64) {
        self.sram += accesses;
    }

    #[inline]
    fn scratch(&mut self, accesses: u64) {
        self.scratch += accesses;
    }
}
