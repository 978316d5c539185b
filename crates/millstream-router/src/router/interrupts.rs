//! Input by interrupts: packets are read as soon as they arrive, before any process is chosen.
//!
//! Models a router without scheduled input, for comparison: reading precedes all other work, and no
//! process is charged. Above some load, all cycles go into reading packets that full queues drop
//! later: receive livelock. Polled input is bounded by its reservation. Source: Router paper,
//! section 4.1 and Figure 5; Mogul and Ramakrishnan, *Eliminating Receive Livelock in an
//! Interrupt-driven Kernel*.

use super::{NEVER, Process, Router, Step};
use crate::router::machine::Machine;
use crate::router::plan::Reading;

/// The shortest interval between polls of an idle router, ns.
const SHORTEST_SLEEP_NS: u64 = 1_000;

/// The state of interrupt-driven input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interrupts {
    reading: Reading,
    /// The input that is polled first in the next round.
    next: usize,
    /// How long the router last slept, ns.
    slept_ns: u64,
}

impl Interrupts {
    #[inline]
    pub(super) fn on(&self) -> bool {
        self.reading != Reading::Polled
    }

    /// Returns when an idle router polls its devices again, ns.
    #[inline]
    pub(super) fn look_again_ns(&mut self, now_ns: u64) -> u64 {
        let Reading::Interrupt { longest_sleep_ns: Some(longest_ns) } = self.reading else {
            return NEVER;
        };
        self.slept_ns = (self.slept_ns * 2).max(SHORTEST_SLEEP_NS).min(longest_ns);
        now_ns + self.slept_ns
    }
}

impl<M: Machine> Router<M> {
    /// Sets how inputs are read from now on; the default is [`Reading::Polled`].
    pub fn read_by(&mut self, reading: Reading) {
        self.interrupts.reading = reading;
        for input in 0..self.inputs.len() {
            self.refresh(input);
        }
    }

    /// Returns how inputs are read.
    #[must_use]
    pub fn reading(&self) -> Reading {
        self.interrupts.reading
    }

    /// Reads a batch from the next input that has packets; `None` if none has.
    #[cold]
    pub(super) fn interrupted(&mut self) -> Option<Step> {
        for _ in 0..self.inputs.len() {
            let input = self.interrupts.next;
            self.interrupts.next = (input + 1) % self.inputs.len();
            let began_ns = self.now_ns;
            let moved = self.run_input(input);
            if moved > 0 {
                self.machine.dispatched();
            }
            self.now_ns = self.machine.now_ns();
            if moved > 0 {
                self.interrupts.slept_ns = 0;
                let counters = &mut self.processes[input];
                counters.runs += 1;
                counters.packets += u64::from(moved);
                counters.busy_ns += self.now_ns - began_ns;
                return Some(Step::Ran(Process::Input(input), moved));
            }
        }
        None
    }
}
