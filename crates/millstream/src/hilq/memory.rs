//! Counting memory accesses, for whoever wants to know.
//!
//! The paper measures its structures by their accesses to off-chip SRAM, about 20 cycles each
//! (Table 2), and keeps the level-one bitmaps in the on-chip scratchpad. The scheduler tells a
//! [`Memory`] of each; by default that is `()`, which the compiler leaves out.
//!
//! An access is one reference to one record: the network processor reads or writes up to eight
//! consecutive longwords at once, sets or clears a bit at once, and takes or returns an entry of a
//! free list at once.

/// Is told of accesses to memory.
pub trait Memory {
    /// So many accesses to off-chip memory.
    #[inline]
    fn sram(&mut self, accesses: u64) {
        let _ = accesses;
    }

    /// So many accesses to on-chip memory.
    #[inline]
    fn scratch(&mut self, accesses: u64) {
        let _ = accesses;
    }
}

/// Nobody counts.
impl Memory for () {}

/// Accesses so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// To off-chip memory.
    pub sram: u64,
    /// To on-chip memory.
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
