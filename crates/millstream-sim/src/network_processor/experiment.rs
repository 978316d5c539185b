//! The paper's Figures 6, 7 and 8 on the model.

use super::constants::CLOCK_HZ;
use super::machine::Machine;
use super::pipeline::{SCHEDULING_ENGINE, pipeline, scheduler_alone};
use super::port::line_rate_bits_per_s;
use super::scheduler::Scheduler;

/// The seed of every experiment.
pub const SEED: u64 = 2002;

/// Cycles before anything is measured: a millisecond, in which the pipeline fills.
const WARM_UP: u64 = CLOCK_HZ / 1000;

/// Cycles for which throughput is measured: five milliseconds.
const MEASURED: u64 = 5 * CLOCK_HZ / 1000;

/// Packets for which scheduling delay is measured, at least.
const SCHEDULED: u64 = 10_000;

/// What a pipeline did while it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Bytes of a packet.
    pub bytes: u32,
    /// Packets a second that left.
    pub packets_per_s: u64,
    /// Cycles, of a thousand, for which the SRAM's command unit was busy.
    pub sram_busy_per_mille: u64,
}

impl Throughput {
    /// Bits/s of packets that left.
    #[must_use]
    pub fn bits_per_s(self) -> u64 {
        self.packets_per_s * u64::from(self.bytes) * 8
    }

    /// Whether the port carried what it can, to the two in a thousand that cycles and packets of
    /// the measured time allow.
    #[must_use]
    pub fn at_line_rate(self) -> bool {
        self.bits_per_s() * 1000 >= line_rate_bits_per_s(self.bytes) * 998
    }
}

/// Figure 6: cycles a packet that the scheduler takes without packet traffic, in hundredths.
#[must_use]
pub fn scheduling_delay(scheduler: Scheduler) -> u64 {
    let mut machine = scheduler_alone(scheduler, SEED);
    let streams = scheduler.streams().unwrap_or(1);
    // Whole sweeps, so that each packet bears its share of them.
    let packets = SCHEDULED.next_multiple_of(streams as u64);
    machine.run_while(|machine| machine.finished(SCHEDULING_ENGINE, 0) < packets);
    machine.now() * 100 / packets
}

/// Figure 7: throughput when scheduling takes so many cycles a packet.
#[must_use]
pub fn throughput_at_cost(cycles: u64, bytes: u32) -> Throughput {
    measure(pipeline(Scheduler::Given(cycles), bytes, SEED), bytes)
}

/// Figure 7 read the other way: the most cycles a packet, in tens, with which the port is full.
#[must_use]
pub fn budget(bytes: u32) -> Option<u64> {
    let (mut fits, mut exceeds) = (0, 400);
    if !throughput_at_cost(0, bytes).at_line_rate() {
        return None;
    }
    while exceeds - fits > 1 {
        let middle = u64::midpoint(fits, exceeds);
        if throughput_at_cost(middle * 10, bytes).at_line_rate() {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    Some(fits * 10)
}

/// Figure 8: throughput with a scheduler, its number of streams active.
#[must_use]
pub fn throughput(scheduler: Scheduler, bytes: u32) -> Throughput {
    measure(pipeline(scheduler, bytes, SEED), bytes)
}

/// Measures from the first packet that leaves after the warm-up to the first that leaves after the
/// measured time, so that whole packets leave in whole packet-times.
fn measure(mut machine: Machine, bytes: u32) -> Throughput {
    let first = next_departure_after(WARM_UP, &mut machine);
    let last = next_departure_after(first.now + MEASURED, &mut machine);
    let cycles = last.now - first.now;
    Throughput {
        bytes,
        packets_per_s: (last.sent - first.sent) * CLOCK_HZ / cycles,
        sram_busy_per_mille: (last.sram_busy - first.sram_busy) * 1000 / cycles,
    }
}

/// A machine's counters at a departure.
struct Reading {
    now: u64,
    sent: u64,
    sram_busy: u64,
}

fn next_departure_after(cycle: u64, machine: &mut Machine) -> Reading {
    machine.run_while(|machine| machine.now() < cycle);
    let sent = machine.totals().transmitted;
    machine.run_while(|machine| machine.totals().transmitted == sent);
    let totals = machine.totals();
    Reading { now: machine.now(), sent: totals.transmitted, sram_busy: machine.sram_busy() }
}
