//! Input by interrupts: packets are read as soon as they arrive, before any process is chosen.
//!
//! Models a router without scheduled input, for comparison: reading precedes all other work, and no
//! process is charged. Above some load, all cycles go into reading packets that full queues drop
//! later: receive livelock. Polled input is bounded by its reservation. Source: Router paper,
//! section 4.1 and Figure 5; Mogul and Ramakrishnan, *Eliminating Receive Livelock in an
//! Interrupt-driven Kernel*.

use super::NEVER;
use crate::ids::InputId;
use crate::router::plan::ReadMode;

/// The shortest interval between polls of an idle router, ns.
const SHORTEST_SLEEP_NS: u64 = 1_000;

/// The state of interrupt-driven input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interrupts {
    read_mode: ReadMode,
    /// The input that is polled first in the next round.
    next: usize,
    /// How long the router last slept, ns.
    slept_ns: u64,
}

impl Interrupts {
    /// Returns whether interrupts read the inputs.
    #[inline]
    pub(super) fn on(&self) -> bool {
        self.read_mode != ReadMode::Polled
    }

    /// Returns how inputs are read.
    pub(super) fn read_mode(&self) -> ReadMode {
        self.read_mode
    }

    /// Sets how inputs are read from now on.
    pub(super) fn set_read_mode(&mut self, read_mode: ReadMode) {
        self.read_mode = read_mode;
    }

    /// Returns the input to read next, in rotation over `inputs` inputs.
    pub(super) fn next_input(&mut self, inputs: usize) -> InputId {
        let input = self.next;
        self.next = (input + 1) % inputs;
        InputId(input)
    }

    /// Records that an input had packets: the router is not idle.
    pub(super) fn found_packets(&mut self) {
        self.slept_ns = 0;
    }

    /// Returns when an idle router polls its devices again, ns. Each interval without packets is
    /// twice as long as the one before.
    #[inline]
    pub(super) fn next_poll_ns(&mut self, now_ns: u64) -> u64 {
        let ReadMode::Interrupt { longest_sleep_ns: Some(longest_ns) } = self.read_mode else {
            return NEVER;
        };
        self.slept_ns = (self.slept_ns * 2).max(SHORTEST_SLEEP_NS).min(longest_ns);
        now_ns + self.slept_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_between_polls_double_up_to_the_limit_until_packets_arrive() {
        let mut interrupts = Interrupts::default();
        assert!(!interrupts.on());
        assert_eq!(interrupts.next_poll_ns(5), NEVER, "inputs are polled");
        interrupts.set_read_mode(ReadMode::Interrupt { longest_sleep_ns: Some(3_000) });
        assert!(interrupts.on());
        let polls = [0; 4].map(|now_ns| interrupts.next_poll_ns(now_ns));
        assert_eq!(polls, [1_000, 2_000, 3_000, 3_000]);
        interrupts.found_packets();
        assert_eq!(interrupts.next_poll_ns(10), 1_010);
        assert_eq!([(); 4].map(|()| interrupts.next_input(3)), [0, 1, 2, 0].map(InputId));
    }
}
