//! A model of the paper's machine: the costs of its steps, and the router of its Figure 4.
//!
//! The paper measures 1.6, 0.3 and 1.4 µs per packet for the three stages (section 4.1), and lines
//! of 140,000 packets/s. The other costs of a packet follow from Table 2. Three rows of it give
//! three costs: a dispatch, the handover of a packet to another process, and the remainder. The
//! rows are one process, and three processes with batches of 16 and of 1. The row for two processes
//! is then a prediction.

use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{Contract, Link};
use millstream_router::model::{
    Costs, FunctionCost, InputDevice, ModelMachine, Outcome, OutputDevice, run_with_read_mode,
};
use millstream_router::{
    Batch, InputPlan, OutputId, OutputPlan, PathId, PathPlan, Plan, ReadMode, Stages, ThrottlePlan,
    WhenFull,
};

/// Packets per second of a line, and the maximum of a source.
pub(super) const LINE_PPS: u64 = 140_000;

/// Costs of the paper's stages, ns per packet.
pub(super) const INPUT_NS: u64 = 1_600;
pub(super) const FORWARD_NS: u64 = 300;
pub(super) const OUTPUT_NS: u64 = 1_400;
/// Rates of Table 2 that the other costs follow from, Kpps: one process with batches of 16, three
/// processes with batches of 16, and three with batches of one packet.
const FITTED_KPPS: [f64; 3] = [294.0, 272.0, 227.0];
/// Cost of an idle poll, assumed to be one access to the device; the paper does not give it.
pub(super) const POLL_NS: u64 = 300;
/// Receive and transmit rings, packets; the paper does not give them.
const RING: usize = 32;
const TRANSMIT_RING: u64 = 16;
/// Clock of the paper's CPU, thousands of cycles per second.
const CPU_KCPS: u64 = 450_000;

/// The costs of a machine with the paper's processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PaperMachine {
    pub(super) costs: Costs,
    /// The IP fast path, ns per packet.
    pub(super) forward_ns: u64,
}

/// Returns the three machines that the paper's numbers permit: as printed, and with the least and
/// the most cost outside a function.
///
/// The paper prints the costs of stages to 0.1 µs and the rates of Table 2 to 1 Kpps. The other two
/// machines have these numbers at the ends of their rounding. Table 2 fixes the sum of a packet's
/// costs, so a dearer output leaves less for the input.
pub(super) fn machines() -> [PaperMachine; 3] {
    [
        PaperMachine::derived(0, 0.0),
        PaperMachine::derived(50, 0.5),
        PaperMachine::derived(-50, -0.5),
    ]
}

impl PaperMachine {
    /// Returns the machine of the printed numbers.
    pub(super) fn printed() -> Self {
        machines()[0]
    }

    /// Returns the machine whose forwarding and output cost `stage_ns` more than printed, each, and
    /// whose rates of Table 2 are `kpps` higher.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    fn derived(stage_ns: i64, kpps: f64) -> Self {
        let shifted = |ns: u64| ns.saturating_add_signed(stage_ns);
        let (forward_ns, output_ns) = (shifted(FORWARD_NS), shifted(OUTPUT_NS));
        let [one, three, single] = FITTED_KPPS.map(|rate| 1e6 / (rate + kpps));
        // A packet shares each dispatch of three processes with 15 others, or with none.
        let dispatch = (single - three) / (3.0 - 3.0 / 16.0);
        let handover = (three - one - 2.0 / 16.0 * dispatch) / 2.0;
        let input = one - (forward_ns + output_ns) as f64 - dispatch / 16.0;
        let costs = Costs {
            dispatch_ns: dispatch.round() as u64,
            poll_ns: POLL_NS,
            input_ns: input.round() as u64,
            handover_ns: handover.round() as u64,
            output_ns,
            interrupt_ns: None,
        };
        Self { costs, forward_ns }
    }
}

/// The paper's batches: 16 packets, one, and 16 or 30 µs.
pub(super) const SIXTEEN: Batch = Batch { packets: 16, time_ns: u64::MAX, batch_wait_ns: 0 };
pub(super) const SINGLE: Batch = Batch { packets: 1, time_ns: u64::MAX, batch_wait_ns: 0 };
pub(super) const THROTTLED: Batch = Batch { packets: 16, time_ns: 30_000, batch_wait_ns: 0 };

/// The throttle of input and output processes: the cap prevents ring overflows at line rate.
pub(super) const THROTTLE: ThrottlePlan = ThrottlePlan { least: 4, most: 12, cap_ns: 150_000 };

/// Returns the total cost of a stage, ns per packet: the stage, its handover, its part of a
/// dispatch.
pub(super) fn with_overhead(stage_ns: u64, batch: Batch) -> u64 {
    let costs = PaperMachine::printed().costs;
    stage_ns + costs.handover_ns + costs.dispatch_ns / u64::from(batch.packets)
}

/// Returns the reservation for `pps` packets/s of `cost_ns` each, thousands of cycles per second.
pub(super) fn reservation(pps: u64, cost_ns: u64) -> u32 {
    let kcps = pps * cost_ns * CPU_KCPS / 1_000_000_000;
    u32::try_from(kcps.max(1)).unwrap_or(u32::MAX)
}

/// A flow from its own source, port and path.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub(super) offered_pps: u64,
    pub(super) work: FunctionCost,
    pub(super) output: OutputId,
    /// Reservations of its input and forwarding process, thousands of cycles per second.
    pub(super) input: u32,
    pub(super) forward: u32,
    /// The flow's share of the link.
    pub(super) weight: u32,
}

/// A router's configuration in an experiment.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) stages: Stages,
    pub(super) batch: Batch,
    pub(super) costs: Costs,
    pub(super) read_mode: ReadMode,
    pub(super) flows: Vec<Flow>,
    /// Reservations of the output processes.
    pub(super) outputs: Vec<u32>,
    pub(super) output_queue: u32,
    /// The throttle of input processes.
    pub(super) throttle: Option<ThrottlePlan>,
    /// The throttle of output processes.
    pub(super) output_throttle: Option<ThrottlePlan>,
    pub(super) when_full: WhenFull,
    /// Selects the phases of the sources and the costs of packets that vary.
    pub(super) seed: u64,
}

impl Setup {
    /// Creates a router with three stages, batches of 16 and no throttle.
    pub(super) fn new(machine: &PaperMachine, flows: Vec<Flow>, outputs: Vec<u32>) -> Self {
        Self {
            stages: Stages::Three,
            batch: SIXTEEN,
            costs: machine.costs,
            read_mode: ReadMode::Polled,
            flows,
            outputs,
            output_queue: 128,
            throttle: None,
            output_throttle: None,
            when_full: WhenFull::Drop,
            seed: 1,
        }
    }

    /// Runs for a second and a half of simulated time; the first half second is not counted.
    pub(super) fn run(&self) -> Outcome {
        // Sources are out of phase.
        let shift = 997 * (self.seed - 1);
        let phase = |at: usize| 1_000 + 2_377 * at as u64 + shift * at as u64;
        let inputs = self.flows.iter().enumerate();
        let inputs = inputs
            .map(|(at, flow)| InputDevice::new(RING, flow.offered_pps, phase(at), PathId(at)));
        let outputs = || self.outputs.iter();
        let machine = ModelMachine::new(
            self.costs,
            inputs.collect(),
            outputs().map(|_| OutputDevice::new(TRANSMIT_RING, LINE_PPS)).collect(),
            self.flows.iter().map(|flow| (flow.work, flow.output)).collect(),
            self.seed,
        );
        let link = Link::new(LINE_PPS * 64 * 8, 0);
        let throttle = self.throttle;
        let fair = DisciplineRow::parse("wf2q+").expect("in the catalogue");
        let plan = Plan {
            stages: self.stages,
            batch: self.batch,
            inputs: self
                .flows
                .iter()
                .map(|flow| InputPlan {
                    reservation: flow.input,
                    throttle,
                    when_full: self.when_full,
                })
                .collect(),
            paths: self
                .flows
                .iter()
                .map(|flow| PathPlan {
                    reservation: flow.forward,
                    drops: false,
                    input_queue: 128,
                    output_queue: self.output_queue,
                    outputs: vec![(
                        flow.output,
                        Contract::new().weight(flow.weight).expect("positive"),
                    )],
                })
                .collect(),
            outputs: outputs()
                .map(|reservation| OutputPlan {
                    reservation: *reservation,
                    throttle: self.output_throttle,
                    discipline: fair,
                    options: Options { link, ..Options::default() },
                    structure: StructureName::Scan,
                    is_ingress: false,
                })
                .collect(),
        };
        run_with_read_mode(self.read_mode, &plan, machine, 500_000_000, 1_500_000_000)
            .expect("the contracts are complete")
    }

    /// Returns the rate of each flow, Kpps.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn kpps(&self) -> Vec<f64> {
        self.run().sent_pps.iter().map(|pps| *pps as f64 / 1e3).collect()
    }

    /// Returns the total rate of all flows, Kpps.
    pub(super) fn total_kpps(&self) -> f64 {
        self.kpps().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{PaperMachine, machines};

    #[test]
    fn the_costs_follow_from_table_2_and_the_stages() {
        let PaperMachine { costs, forward_ns } = PaperMachine::printed();
        assert_eq!((costs.input_ns, forward_ns, costs.output_ns), (1_685, 300, 1_400));
        assert_eq!((costs.dispatch_ns, costs.handover_ns), (259, 121));
        // The other machines' sums of a packet's costs differ by Table 2's rounding only.
        let sums = machines().map(|of| of.costs.input_ns + of.forward_ns + of.costs.output_ns);
        assert_eq!(sums, [3_385, 3_379, 3_391]);
        assert_eq!(machines().map(|of| of.costs.input_ns), [1_685, 1_579, 1_791]);
    }
}
