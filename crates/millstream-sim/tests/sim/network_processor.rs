//! The network-processor model against hand calculations.

use millstream_sim::network_processor::constants::{CLOCK_HZ, CONTEXTS, SWAP_CYCLES};
use millstream_sim::network_processor::experiment::{
    Throughput, budget, budget_of, scheduling_delay, scheduling_delay_of, throughput,
    throughput_at_cost, throughput_of,
};
use millstream_sim::network_processor::pipeline::{SCHEDULING_ENGINE, pipeline, scheduler_alone};
use millstream_sim::network_processor::{
    Commands, Cost, Counted, Latency, Machine, MachineConfig, Memory, Operation, Program, QueueId,
    Scheduler, Source, Unit, line_rate_bits_per_s, wire_cycles,
};

/// Returns the cycles that engines with these numbers of contexts need for `packets` packets.
///
/// For each packet a context computes, then accesses an SRAM of fixed latency. All times are in
/// cycles.
fn duration(contexts: &[usize], compute: u64, latency: u64, occupancy: u64, packets: u64) -> u64 {
    let body = vec![Operation::Compute(compute), Operation::Access(Unit::Sram)];
    let program = Program::for_each(QueueId(0), body);
    let memory = |latency, occupancy| Memory::new(Latency::fixed(latency), occupancy);
    let mut machine = Machine::new(MachineConfig {
        engines: contexts.iter().map(|count| vec![program.clone(); *count]).collect(),
        queues: vec![(0, usize::try_from(packets).unwrap())],
        arrivals: None,
        bytes: 64,
        sram: memory(latency, occupancy),
        sdram: memory(0, 0),
        scratch: memory(0, 0),
        hash: memory(0, 0),
    });
    machine.run_while(|machine| machine.totals().consumed < packets);
    for (engine, count) in contexts.iter().enumerate() {
        let shares = (0..*count).map(|place| machine.finished(engine, place));
        let (least, most) = (shares.clone().min().unwrap(), shares.max().unwrap());
        assert!(most - least <= 1, "uneven round robin: {least} to {most} packets per context");
    }
    machine.now()
}

#[test]
fn one_context_waits_for_every_access() {
    assert_eq!(duration(&[1], 30, 20, 2, 1000), 1000 * (30 + SWAP_CYCLES + 20));
}

#[test]
fn four_contexts_hide_latency_behind_computation() {
    // The computation of three contexts covers the latency of the fourth. The engine is always
    // busy, so only the last access adds its latency.
    let computing = 30 + SWAP_CYCLES;
    assert_eq!(duration(&[CONTEXTS], 30, 20, 2, 1000), 1000 * computing + 20);
    // With this latency it does not: each turn of a context serves four packets, and the last
    // context starts 3 computations later.
    let (computing, turn) = (10 + SWAP_CYCLES, 10 + SWAP_CYCLES + 100);
    assert_eq!(duration(&[CONTEXTS], 10, 100, 2, 1000), 250 * turn + 3 * computing);
}

#[test]
fn engines_that_share_a_memory_wait_for_it() {
    // Two engines issue a command every 16 cycles; the memory starts one every 40.
    let alone = duration(&[CONTEXTS], 30, 40, 40, 500);
    let together = duration(&[CONTEXTS, CONTEXTS], 30, 40, 40, 1000);
    assert!((40_000..40_200).contains(&together), "{together}");
    assert!(together > alone * 19 / 10);
}

/// Creates a machine with memories of zero latency.
fn machine(engines: Vec<Vec<Program>>, queues: Vec<(usize, usize)>) -> Machine {
    let memory = || Memory::new(Latency::fixed(0), 0);
    Machine::new(MachineConfig {
        engines,
        queues,
        arrivals: None,
        bytes: 64,
        sram: memory(),
        sdram: memory(),
        scratch: memory(),
        hash: memory(),
    })
}

/// Returns the number of packets that a context has finished at each of `cycles`.
///
/// The context's sweep takes 1,000 cycles and covers at most `most` packets of 10 cycles each. Four
/// packets wait at the start; another arrives every 100 cycles.
fn swept(most: usize, cycles: [u64; 3]) -> [u64; 3] {
    let made = vec![Operation::Compute(100), Operation::Enqueue(QueueId(0))];
    let generator = Program { source: Source::Generated, ..Program::for_each(QueueId(0), made) };
    let (prologue, body) = (vec![Operation::Compute(1000)], vec![Operation::Compute(10)]);
    let source = Source::Queue(QueueId(0), most);
    let sweeper = Program { source, prologue, ..Program::for_each(QueueId(0), body) };
    let mut machine = machine(vec![vec![generator], vec![sweeper]], vec![(1000, 4)]);
    cycles.map(|cycle| {
        machine.run_while(|machine| machine.now() < cycle);
        machine.finished(1, 0)
    })
}

#[test]
fn a_sweep_covers_the_packets_waiting_at_its_start() {
    // Sweeps start at 0 with 4 packets, at 1,040 with the 10 that have arrived, at 2,140 with 11.
    assert_eq!(swept(1000, [2039, 3139, 3251]), [4, 14, 25]);
    // Three packets each: at 0, 1,030 and 2,060.
    assert_eq!(swept(3, [2029, 3059, 3091]), [3, 6, 9]);
}

#[test]
fn a_timer_starts_its_program_every_period() {
    let body = vec![Operation::Compute(10)];
    let timed = Program { source: Source::Timer(100), ..Program::for_each(QueueId(0), body) };
    let mut machine = machine(vec![vec![timed]], Vec::new());
    machine.run_while(|machine| machine.now() < 950);
    // The timer expires at 0, 100, …, 900.
    assert_eq!(machine.finished(0, 0), 10);
}

/// Schedulers faster than the port, as fast, and slower.
const SCHEDULERS: [Scheduler; 4] = [
    Scheduler::FixedCycles(0),
    Scheduler::FixedCycles(700),
    Scheduler::Hilq(50),
    Scheduler::Heap(500),
];

#[test]
fn packets_are_conserved_and_the_line_rate_is_never_exceeded() {
    for scheduler in SCHEDULERS {
        for bytes in [64, 128, 512, 1500] {
            let mut machine = pipeline(scheduler, bytes, 1);
            for step in 1..=40 {
                machine.run_while(|machine| machine.now() < step * 23_000);
                let totals = machine.totals();
                let accounted = totals.lost + totals.transmitted + machine.inside();
                assert_eq!(totals.entered, accounted, "{scheduler:?} {bytes} {totals:?}");
                assert_eq!(totals.consumed, 0);
                let wire =
                    totals.transmitted * (u64::from(bytes) + 20) * 8 * (CLOCK_HZ / 1_000_000);
                assert!(wire <= machine.now() * 1000, "{scheduler:?} {bytes} {totals:?}");
            }
            let totals = machine.totals();
            assert!(totals.transmitted > 0);
            assert!(totals.lost > 0 || bytes > 64, "{scheduler:?} loses no packet of 64 bytes");
        }
    }
}

#[test]
fn a_seed_gives_one_run() {
    let run = |seed| {
        let mut machine = scheduler_alone(Scheduler::Hilq(50), seed);
        machine.run_while(|machine| machine.finished(SCHEDULING_ENGINE, 0) < 1000);
        machine.now()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let run = |seed| {
        let mut machine = pipeline(Scheduler::Hilq(50), 256, seed);
        machine.run_while(|machine| machine.now() < 1_000_000);
        (machine.totals(), machine.sram_busy())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn the_scheduler_is_the_only_bottleneck() {
    // The handover takes three SRAM accesses of 17 + 1 + 20.9 cycles and one scratchpad access.
    let handover = 138;
    for bytes in [128, 256, 512, 1024] {
        for cost in [0, 200, 500, 900, 1500] {
            let Throughput { packets_per_s, .. } = throughput_at_cost(cost, bytes);
            let expected = CLOCK_HZ / wire_cycles(bytes).max(cost + handover);
            let off = packets_per_s.abs_diff(expected) * 1000 / expected;
            assert!(off <= 10, "{bytes} {cost}: {packets_per_s} for {expected}");
        }
        let expected = wire_cycles(bytes) - handover;
        assert!(budget(bytes).unwrap().abs_diff(expected) <= 15, "{bytes}");
    }
}

#[test]
fn scheduling_alone_takes_its_accesses() {
    for streams in [10, 100, 2000] {
        for scheduler in [Scheduler::Hilq(streams), Scheduler::Heap(streams)] {
            let expected = scheduler.accesses_per_packet() * (17.0 + 1.0 + 20.855);
            #[allow(clippy::cast_precision_loss)]
            let measured = scheduling_delay(scheduler) as f64 / 100.0;
            assert!((measured / expected - 1.0).abs() < 0.01, "{scheduler:?}: {measured}");
        }
    }
}

#[test]
fn hilq_fills_the_port_where_the_heap_does_not() {
    let hilq = throughput(Scheduler::Hilq(500), 512);
    assert!(hilq.at_line_rate() && hilq.bits_per_s() <= line_rate_bits_per_s(512) + 1_000_000);
    assert!(!throughput(Scheduler::Heap(500), 512).at_line_rate());
}

#[test]
fn counted_commands_take_their_time_and_computation_is_a_setting() {
    let counted = |decisions: &[(u32, u32)]| {
        let commands = |&(sram, scratch): &(u32, u32)| Commands { sram, scratch };
        let arrivals = vec![Commands { sram: 7, scratch: 1 }];
        let decisions = decisions.iter().map(commands).collect();
        Cost::Counted(Counted { streams: 50, arrivals, decisions })
    };
    // 14 SRAM accesses of 1 + 20.855 cycles and 2 of the scratchpad's 1 + 20, in two packets.
    for (compute, expected) in [(0, 174.0), (16, 302.0)] {
        for cost in [counted(&[(7, 1)]), counted(&[(10, 0), (4, 2)])] {
            #[allow(clippy::cast_precision_loss)]
            let measured = scheduling_delay_of(&cost, compute) as f64 / 100.0;
            assert!((measured / expected - 1.0).abs() < 0.01, "{cost:?}: {measured}");
        }
    }
    // 256 bytes at 302 cycles and a handover of 3 × 37.855 + 21.
    let run = throughput_of(&counted(&[(7, 1)]), 16, 256);
    let expected = CLOCK_HZ / wire_cycles(256).max(302 + 135);
    assert!(run.packets_per_s.abs_diff(expected) * 100 <= expected, "{run:?}, {expected}");
    // Without computation the handover takes 51 cycles less.
    assert_eq!((budget_of(17, 512), budget(512)), (Some(850), Some(850)));
    assert_eq!(budget_of(0, 512), Some(900));
}
