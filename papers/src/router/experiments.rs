//! The experiments of the paper's section 4.

use millstream_router::model::{Costs, FunctionCost};
use millstream_router::{InputId, OutputId, PathId, Process, ReadMode, Stages, WhenFull};

use super::machine::{
    FORWARD_NS, Flow, INPUT_NS, LINE_PPS, OUTPUT_NS, PaperMachine, SINGLE, SIXTEEN, Setup,
    THROTTLE, THROTTLED, reservation, with_overhead,
};

/// The cost of an interrupt, ns.
///
/// At 48 Kpps a packet's interrupt and its other costs saturate the paper's CPU. The cost is
/// derived from this number, not predicted.
const INTERRUPT_NS: u64 = 1_000_000 / 48 - FORWARD_NS - OUTPUT_NS;

/// The reservation of each of the two flows in section 4.3, packets/s.
pub(super) const RESERVED_PPS: u64 = 90_000;

/// Minimum reservation of a best-effort function, thousands of cycles per second: 1 %.
const MIN_BEST_EFFORT: u32 = 4_500;
/// Reservation of best effort in section 4.5, packets/s: about the remainder.
const BEST_EFFORT_PPS: u64 = 117_000;

/// Names of the routers of Table 2 and Figure 5.
pub(super) const OVERHEADS: [&str; 5] = [
    "interrupts",
    "polling, 1 process, batch 16",
    "polling, 2 processes, batch 16",
    "polling, 3 processes, batch 16",
    "polling, 3 processes, batch 1",
];

/// Returns the rate of a router of Figure 5 under the load of three sources, Kpps.
///
/// Processes have equal shares, and all flows take the IP fast path.
pub(super) fn overhead(machine: &PaperMachine, router: usize, offered_pps: u64) -> f64 {
    equal_shares(machine, router, offered_pps).total_kpps()
}

fn equal_shares(machine: &PaperMachine, router: usize, offered_pps: u64) -> Setup {
    let flow = |output| Flow {
        offered_pps: offered_pps / 3,
        work: FunctionCost::Fixed(machine.forward_ns),
        output,
        input: 1_000,
        forward: 1_000,
        weight: 1,
    };
    let mut setup =
        Setup::new(machine, (0..3).map(|at| flow(OutputId(at))).collect(), vec![1_000; 3]);
    setup.stages = [Stages::Three, Stages::One, Stages::Two, Stages::Three, Stages::Three][router];
    setup.batch = if router == 4 { SINGLE } else { SIXTEEN };
    if router == 0 {
        // The interrupt reads and classifies.
        setup.costs = Costs { interrupt_ns: Some(INTERRUPT_NS), input_ns: 0, ..machine.costs };
    }
    setup
}

/// Returns the rate at loads beyond those of the paper's sources, Kpps.
///
/// The router has three processes and batches of 16. With interrupts, reading costs as much as in
/// an input process, and there are no empty polls.
pub(super) fn overload(by_interrupts: bool, offered_pps: u64) -> f64 {
    let mut setup = equal_shares(&PaperMachine::printed(), 3, offered_pps);
    if by_interrupts {
        setup.read_mode = ReadMode::Interrupt { longest_sleep_ns: None };
        setup.costs = Costs { poll_ns: 0, ..setup.costs };
    }
    setup.total_kpps()
}

/// Returns the packets per run of input, forwarding and output processes at full load.
///
/// The router has three processes and batches of 16.
#[allow(clippy::cast_precision_loss)]
pub(super) fn mean_batches() -> [f64; 3] {
    let router = equal_shares(&PaperMachine::printed(), 3, 3 * LINE_PPS).run().router;
    let stages: [fn(usize) -> Process; 3] = [
        |at| Process::Input(InputId(at)),
        |at| Process::Forward(PathId(at)),
        |at| Process::Output(OutputId(at)),
    ];
    stages.map(|stage| {
        let used = (0..3).map(|at| router.used(stage(at)));
        let (packets, runs) =
            used.fold((0, 0), |sum, used| (sum.0 + used.packets, sum.1 + used.runs));
        packets as f64 / runs as f64
    })
}

/// Returns the rate of Table 3, Kpps: one flow at line rate through two processes.
///
/// `forward_ns` is the cost of the forwarding process, output included. `share` is its share
/// relative to the input process.
pub(super) fn best_effort(
    machine: &PaperMachine,
    forward_ns: u64,
    share: u32,
    throttled: bool,
) -> f64 {
    let flow = Flow {
        offered_pps: LINE_PPS,
        work: FunctionCost::Fixed(forward_ns - machine.costs.output_ns),
        output: OutputId(0),
        input: 1_000,
        forward: 1_000 * share,
        weight: 1,
    };
    let mut setup = Setup::new(machine, vec![flow], vec![1]);
    setup.stages = Stages::Two;
    if throttled {
        setup.throttle = Some(THROTTLE);
        setup.when_full = WhenFull::Wait;
    }
    setup.total_kpps()
}

/// Returns the rate at the end of section 4.2, Kpps, and the idle ports' share of the CPU time.
///
/// Two of three ports have no traffic. A packet costs 6 µs in two processes, whose shares are
/// proportional to their costs. An idle poll costs `poll_ns`.
#[allow(clippy::cast_precision_loss)]
pub(super) fn idle_ports(machine: &PaperMachine, poll_ns: u64, estimator: bool) -> (f64, f64) {
    let flow = |offered_pps| Flow {
        offered_pps,
        work: FunctionCost::Fixed(6_000 - machine.costs.output_ns),
        output: OutputId(0),
        input: 1_600,
        forward: 6_000,
        weight: 1,
    };
    let flows = vec![flow(LINE_PPS), flow(0), flow(0)];
    let mut setup = Setup::new(machine, flows, vec![1]);
    setup.costs.poll_ns = poll_ns;
    setup.stages = Stages::Two;
    setup.throttle = estimator.then_some(THROTTLE);
    let outcome = setup.run();
    let busy_ns = |process| outcome.router.used(process).busy_ns as f64;
    let inputs = [0, 1, 2].map(|at| busy_ns(Process::Input(InputId(at))));
    let forward: f64 = (0..3).map(|at| busy_ns(Process::Forward(PathId(at)))).sum();
    let idle = (inputs[1] + inputs[2]) / (inputs.iter().sum::<f64>() + forward);
    (outcome.sent_pps.iter().sum::<u64>() as f64 / 1e3, idle)
}

/// Returns the rates of sections 4.3 and 4.4, Kpps: best effort A, reserved flows B and C.
///
/// A and C share an output port. B and C reserve the cost of 90 Kpps at each stage. A's input
/// process can read its full offered load, so a flood drops no packets at its device. A's function
/// has the remainder.
pub(super) fn mixed(
    machine: &PaperMachine,
    offered_pps: u64,
    work_ns: u64,
    batching: Batching,
) -> Vec<f64> {
    let batch = match batching {
        Batching::Simple => SIXTEEN,
        Batching::None => SINGLE,
        Batching::Throttled => THROTTLED,
    };
    let each = |pps, stage_ns| reservation(pps, with_overhead(stage_ns, batch));
    let reserved = |stage_ns| each(RESERVED_PPS, stage_ns);
    let outputs = vec![reserved(OUTPUT_NS), each(LINE_PPS, OUTPUT_NS)];
    let qos = |output| Flow {
        offered_pps: RESERVED_PPS,
        work: FunctionCost::Fixed(machine.forward_ns),
        output,
        input: reserved(INPUT_NS),
        forward: reserved(FORWARD_NS),
        weight: 90,
    };
    let input = each(offered_pps, INPUT_NS);
    let taken = 2 * (reserved(INPUT_NS) + reserved(FORWARD_NS)) + outputs.iter().sum::<u32>();
    let rest = reservation(1_000_000_000, 1).saturating_sub(taken + input);
    let a = Flow {
        offered_pps,
        work: FunctionCost::Fixed(work_ns),
        output: OutputId(1),
        input,
        forward: rest.max(MIN_BEST_EFFORT),
        weight: 50,
    };
    let mut setup = Setup::new(machine, vec![a, qos(OutputId(0)), qos(OutputId(1))], outputs);
    setup.batch = batch;
    if !matches!(batching, Batching::None) {
        setup.throttle = Some(THROTTLE);
        setup.output_throttle = setup.throttle;
    }
    setup.kpps()
}

/// The batching of Figures 7, 8 and 9.
#[derive(Clone, Copy)]
pub(super) enum Batching {
    Simple,
    None,
    Throttled,
}

/// Returns the rates of section 4.5, Kpps: the reserved flow, then best effort.
///
/// The reserved flow has 50 Kpps and costs 8 µs per packet, or 4 to 12 µs. Best effort sends at
/// full speed, on another link or the same.
pub(super) fn data_dependent(
    seed: u64,
    varying: bool,
    one_link: bool,
    output_queue: u32,
) -> Vec<f64> {
    let machine = &PaperMachine::printed();
    let work =
        if varying { FunctionCost::Uniform(4_000, 12_000) } else { FunctionCost::Fixed(8_000) };
    let each = |pps, stage_ns| reservation(pps, with_overhead(stage_ns, THROTTLED));
    let qos = Flow {
        offered_pps: 50_000,
        work,
        output: OutputId(0),
        input: each(50_000, INPUT_NS),
        forward: each(50_000, 8_000),
        weight: 50,
    };
    let best = Flow {
        offered_pps: LINE_PPS,
        work: FunctionCost::Fixed(machine.forward_ns),
        output: OutputId(usize::from(!one_link)),
        input: each(BEST_EFFORT_PPS, INPUT_NS),
        forward: each(BEST_EFFORT_PPS, FORWARD_NS),
        weight: 90,
    };
    let outputs = if one_link {
        vec![each(LINE_PPS, OUTPUT_NS)]
    } else {
        vec![each(50_000, OUTPUT_NS), each(BEST_EFFORT_PPS, OUTPUT_NS)]
    };
    let mut setup = Setup::new(machine, vec![qos, best], outputs);
    setup.seed = seed;
    setup.batch = THROTTLED;
    setup.throttle = Some(THROTTLE);
    setup.output_queue = output_queue;
    setup.kpps()
}
