//! A memory, or another unit that receives commands from engines.

use super::latency::Latency;

/// A memory that serves one command at a time, in order of issue.
#[derive(Clone, Debug)]
pub struct Memory {
    latency: Latency,
    occupancy: u64,
    free: u64,
    busy: u64,
}

impl Memory {
    /// Creates a memory with an answer time of `latency` and `occupancy` cycles between the starts
    /// of two commands.
    #[must_use]
    pub fn new(latency: Latency, occupancy: u64) -> Self {
        Self { latency, occupancy, free: 0, busy: 0 }
    }

    /// Issues a command at `now`; returns the cycle of its answer.
    pub(super) fn issue(&mut self, now: u64) -> u64 {
        let start = self.free.max(now);
        self.free = start + self.occupancy;
        self.busy += self.occupancy;
        start + self.latency.next()
    }

    /// Returns the number of busy cycles so far.
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_waits_for_the_previous_one() {
        let mut memory = Memory::new(Latency::fixed(20), 5);
        assert_eq!([memory.issue(100), memory.issue(100), memory.issue(102)], [120, 125, 130]);
        assert_eq!(memory.issue(500), 520);
        assert_eq!(memory.busy(), 20);
    }
}
