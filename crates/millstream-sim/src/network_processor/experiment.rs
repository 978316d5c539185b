//! The experiments of the paper's Figures 6, 7 and 8, run on the model.

use super::constants::{CLOCK_HZ, COMPUTE_PER_ACCESS};
use super::machine::Machine;
use super::pipeline::{SCHEDULING_ENGINE, pipeline_of, scheduler_alone_of};
use super::port::line_rate_bits_per_s;
use super::scheduler::{Cost, Scheduler};

/// The random seed of every experiment.
pub const SEED: u64 = 2002;

/// Cycles before the measurement: one millisecond, in which the pipeline fills.
const WARM_UP: u64 = CLOCK_HZ / 1000;

/// Cycles of a throughput measurement: five milliseconds.
const MEASURED: u64 = 5 * CLOCK_HZ / 1000;

/// Minimum number of packets of a scheduling-delay measurement.
const SCHEDULED: u64 = 10_000;

/// The result of a throughput measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Bytes per packet.
    pub bytes: u32,
    /// Transmitted packets per second.
    pub packets_per_s: u64,
    /// Busy time of the SRAM's command unit, per mille of all cycles.
    pub sram_busy_per_mille: u64,
}

impl Throughput {
    /// Returns the throughput in bits/s.
    #[must_use]
    pub fn bits_per_s(self) -> u64 {
        self.packets_per_s * u64::from(self.bytes) * 8
    }

    /// Returns whether the port ran at line rate, within 0.2 %.
    ///
    /// The tolerance covers the rounding of the measured time to cycles and packets.
    #[must_use]
    pub fn at_line_rate(self) -> bool {
        self.bits_per_s() * 1000 >= line_rate_bits_per_s(self.bytes) * 998
    }
}

/// Figure 6: returns the scheduler's cycles per packet without packet traffic, in hundredths.
#[must_use]
pub fn scheduling_delay(scheduler: Scheduler) -> u64 {
    scheduling_delay_of(&scheduler.into(), COMPUTE_PER_ACCESS)
}

/// See [`scheduling_delay`]; each memory access includes `compute` cycles of computation.
#[must_use]
pub fn scheduling_delay_of(cost: &Cost, compute: u64) -> u64 {
    let mut machine = scheduler_alone_of(cost, compute, SEED);
    let streams = cost.streams().unwrap_or(1);
    // Measure whole sweeps, so that each packet carries its share of them.
    let packets = SCHEDULED.next_multiple_of(streams as u64);
    machine.run_while(|machine| machine.finished(SCHEDULING_ENGINE, 0) < packets);
    machine.now() * 100 / packets
}

/// Figure 7: returns the throughput if scheduling takes `cycles` cycles per packet.
#[must_use]
pub fn throughput_at_cost(cycles: u64, bytes: u32) -> Throughput {
    throughput(Scheduler::FixedCycles(cycles), bytes)
}

/// Returns the maximum scheduling cycles per packet at line rate, to a multiple of 10.
///
/// Inverts Figure 7. Returns `None` if the port misses line rate even without scheduling cost.
#[must_use]
pub fn budget(bytes: u32) -> Option<u64> {
    budget_of(COMPUTE_PER_ACCESS, bytes)
}

/// See [`budget`]; each memory access between stages includes `compute` cycles of computation.
#[must_use]
pub fn budget_of(compute: u64, bytes: u32) -> Option<u64> {
    let fits = |cycles| {
        throughput_of(&Scheduler::FixedCycles(cycles).into(), compute, bytes).at_line_rate()
    };
    let (mut highest, mut exceeds) = (0, 400);
    if !fits(0) {
        return None;
    }
    while exceeds - highest > 1 {
        let middle = u64::midpoint(highest, exceeds);
        if fits(middle * 10) {
            highest = middle;
        } else {
            exceeds = middle;
        }
    }
    Some(highest * 10)
}

/// Figure 8: returns the throughput with `scheduler` and its number of active streams.
#[must_use]
pub fn throughput(scheduler: Scheduler, bytes: u32) -> Throughput {
    throughput_of(&scheduler.into(), COMPUTE_PER_ACCESS, bytes)
}

/// See [`throughput`]; each memory access includes `compute` cycles of computation.
#[must_use]
pub fn throughput_of(cost: &Cost, compute: u64, bytes: u32) -> Throughput {
    measure(pipeline_of(cost, compute, bytes, SEED), bytes)
}

/// Measures from the first departure after the warm-up to the first departure after the measured
/// time, so the interval holds whole packets.
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

/// The counters of a machine at a departure.
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
