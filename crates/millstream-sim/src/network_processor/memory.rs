//! A memory, or another unit that engines send commands to.

use super::latency::Latency;

/// A memory that serves one command at a time, in the order in which they are issued.
#[derive(Clone, Debug)]
pub struct Memory {
    latency: Latency,
    occupancy: u64,
    free: u64,
    busy: u64,
}

impl Memory {
    /// A memory that answers after `latency` and can begin the next command `occupancy` cycles
    /// after the one before.
    #[must_use]
    pub fn new(latency: Latency, occupancy: u64) -> Self {
        Self { latency, occupancy, free: 0, busy: 0 }
    }

    /// Takes a command at `now`; the cycle at which it is answered.
    pub(super) fn issue(&mut self, now: u64) -> u64 {
        let start = self.free.max(now);
        self.free = start + self.occupancy;
        self.busy += self.occupancy;
        start + self.latency.next()
    }

    /// Cycles for which it was busy so far.
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_waits_for_the_one_before() {
        let mut memory = Memory::new(Latency::fixed(20), 5);
        assert_eq!([memory.issue(100), memory.issue(100), memory.issue(102)], [120, 125, 130]);
        assert_eq!(memory.issue(500), 520);
        assert_eq!(memory.busy(), 20);
    }
}
