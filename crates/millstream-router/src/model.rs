//! A router in simulated time: every step has a given cost, and nothing else takes time.
//!
//! [`ModelMachine`] has devices with receive and transmit rings, sources at constant packet rates,
//! and a CPU whose time is the sum of its [`Costs`]. [`run`] drives a [`Router`] on it and returns
//! the rate of each path. It is deterministic: random costs of packets come from a seed.

mod device;

pub use device::{InputDevice, OutputDevice};

use millstream::ContractError;
use millstream_traffic::Random;

use crate::ids::{IdVec, InputId, OutputId, PacketHandle, PathId};
use crate::router::machine::{
    Accounting, Deferral, Flows, Machine, MultiCore, PacedLinks, Verdict,
};
use crate::router::plan::{Plan, ReadMode};
use crate::router::{Router, Step};

/// The costs of the steps of processes, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Switching to a process and back.
    pub dispatch_ns: u64,
    /// Polling a device that has no packets.
    pub poll_ns: u64,
    /// Reading and classifying a packet.
    pub input_ns: u64,
    /// Handing a packet over to another process.
    pub handover_ns: u64,
    /// Selecting and writing a packet.
    pub output_ns: u64,
    /// The interrupt of every arriving packet, which precedes all other work; `None` if devices do
    /// not interrupt.
    pub interrupt_ns: Option<u64>,
}

/// The cost of a path's function, ns per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionCost {
    /// A constant.
    Fixed(u64),
    /// Uniformly distributed between two bounds, both included.
    Uniform(u64, u64),
}

/// Deprecated alias of [`FunctionCost`].
#[deprecated(note = "renamed to `FunctionCost`")]
pub type Work = FunctionCost;

/// A CPU and devices in simulated time.
#[derive(Debug)]
pub struct ModelMachine {
    now_ns: u64,
    end_ns: u64,
    costs: Costs,
    inputs: IdVec<InputId, InputDevice>,
    outputs: IdVec<OutputId, OutputDevice>,
    /// Each path's function and its output.
    functions: IdVec<PathId, (FunctionCost, OutputId)>,
    packet_bytes: u32,
    random: Random,
}

impl ModelMachine {
    /// Creates a machine at time 0 with devices and, for each path, its function and output.
    #[must_use]
    pub fn new(
        costs: Costs,
        inputs: Vec<InputDevice>,
        outputs: Vec<OutputDevice>,
        functions: Vec<(FunctionCost, OutputId)>,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed, 0);
        let (now_ns, end_ns) = (0, u64::MAX);
        let (inputs, outputs, functions) = (inputs.into(), outputs.into(), functions.into());
        Self { now_ns, end_ns, costs, inputs, outputs, functions, packet_bytes: 64, random }
    }

    /// Advances the time by `cost_ns`, and by the interrupts that occur meanwhile.
    fn work(&mut self, cost_ns: u64) {
        self.now_ns += cost_ns;
        let Some(interrupt_ns) = self.costs.interrupt_ns else { return };
        // Interrupts that occur while an interrupt is handled are handled, too: that is livelock.
        while self.now_ns < self.end_ns
            && self.inputs.iter_mut().any(|input| input.interrupt(self.now_ns))
        {
            self.now_ns += interrupt_ns;
        }
    }

    /// Idles until `until_ns`; if `interrupted`, at most until a packet arrives.
    fn wait(&mut self, until_ns: u64, interrupted: bool) {
        let arrival = self.inputs.iter().filter_map(InputDevice::next_ns).min();
        let until_ns = match arrival {
            Some(arrival) if interrupted => until_ns.min(arrival),
            _ => until_ns,
        };
        self.now_ns = self.now_ns.max(until_ns.min(self.end_ns));
        self.work(0);
    }

    /// Returns the device of an input.
    ///
    /// # Panics
    /// Panics if `input` is out of range.
    #[must_use]
    pub fn input(&self, input: InputId) -> &InputDevice {
        &self.inputs[input]
    }
}

impl Machine for ModelMachine {
    const FREE_CLOCK: bool = true;

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn receive(
        &mut self,
        input: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize {
        let mut count = 0;
        while count < most
            && let Some(path) = self.inputs[input].take(self.now_ns)
        {
            into.push((path, PacketHandle::from_bits(path.0 as u64)));
            self.work(self.costs.input_ns);
            count += 1;
        }
        if count == 0 {
            self.work(self.costs.poll_ns);
        }
        count
    }

    fn forward(&mut self, path: PathId, _: &mut PacketHandle) -> Verdict {
        let (work, output) = self.functions[path];
        let cost_ns = match work {
            FunctionCost::Fixed(cost_ns) => cost_ns,
            FunctionCost::Uniform(least, most) => least + self.random.below(most - least + 1),
        };
        self.work(cost_ns);
        Verdict::Send(output)
    }

    fn bytes(&self, _: PacketHandle) -> u32 {
        self.packet_bytes
    }

    fn room(&mut self, output: OutputId, now_ns: u64) -> usize {
        self.outputs[output].room(now_ns)
    }

    fn room_at_ns(&mut self, output: OutputId, now_ns: u64) -> u64 {
        self.outputs[output].room_at_ns(now_ns)
    }

    fn transmit(&mut self, output: OutputId, packets: &[PacketHandle]) -> usize {
        let mut taken = 0;
        while taken < packets.len() && self.outputs[output].room(self.now_ns) > 0 {
            self.work(self.costs.output_ns);
            self.outputs[output].put(self.now_ns);
            taken += 1;
        }
        taken
    }

    fn discard(&mut self, _: PacketHandle) {}
}

impl Accounting for ModelMachine {
    fn dispatched(&mut self) {
        self.work(self.costs.dispatch_ns);
    }

    fn handed_over(&mut self) {
        self.work(self.costs.handover_ns);
    }
}

impl Deferral for ModelMachine {}

impl PacedLinks for ModelMachine {}

impl MultiCore for ModelMachine {}

impl Flows for ModelMachine {}

/// The result of a run.
pub struct Outcome {
    /// The rate of each path after the warm-up, packets/s.
    pub sent_pps: Vec<u64>,
    /// The router at the end of the run.
    pub router: Router<ModelMachine>,
}

/// Runs the router of `plan` on `machine` to `end_ns`; rates are measured from `warm_up_ns`.
///
/// # Errors
/// Fails if a path's contract lacks a field that an output's discipline needs.
///
/// # Panics
/// Panics if the warm-up is not shorter than the run.
pub fn run(
    plan: &Plan,
    machine: ModelMachine,
    warm_up_ns: u64,
    end_ns: u64,
) -> Result<Outcome, ContractError> {
    run_with_read_mode(ReadMode::Polled, plan, machine, warm_up_ns, end_ns)
}

/// Runs the router as [`run`] does, with inputs read by `read_mode`.
///
/// # Errors
/// See [`run`].
///
/// # Panics
/// See [`run`].
pub fn run_with_read_mode(
    read_mode: ReadMode,
    plan: &Plan,
    mut machine: ModelMachine,
    warm_up_ns: u64,
    end_ns: u64,
) -> Result<Outcome, ContractError> {
    assert!(warm_up_ns < end_ns, "the warm-up must be shorter than the run");
    machine.end_ns = end_ns;
    let mut router = Router::new(plan, machine)?;
    router.set_read_mode(read_mode);
    let sent = |router: &Router<ModelMachine>| -> Vec<u64> {
        (0..plan.paths.len()).map(|path| router.path(PathId(path)).sent).collect()
    };
    advance(&mut router, warm_up_ns);
    let (before, began_ns) = (sent(&router), router.machine().now_ns);
    advance(&mut router, end_ns);
    let counted_ns = router.machine().now_ns - began_ns;
    let rate = |(after, before): (u64, u64)| (after - before) * 1_000_000_000 / counted_ns.max(1);
    let sent_pps = sent(&router).into_iter().zip(before).map(rate).collect();
    Ok(Outcome { sent_pps, router })
}

/// Deprecated alias of [`run_with_read_mode`].
///
/// # Errors
/// See [`run`].
///
/// # Panics
/// See [`run`].
#[deprecated(note = "renamed to `run_with_read_mode`")]
pub fn run_by(
    read_mode: ReadMode,
    plan: &Plan,
    machine: ModelMachine,
    warm_up_ns: u64,
    end_ns: u64,
) -> Result<Outcome, ContractError> {
    run_with_read_mode(read_mode, plan, machine, warm_up_ns, end_ns)
}

fn advance(router: &mut Router<ModelMachine>, end_ns: u64) {
    while router.machine().now_ns < end_ns {
        if let Step::Idle { until_ns } = router.step() {
            let by_interrupts = router.read_mode() != ReadMode::Polled;
            let machine = router.machine_mut();
            let interrupted = by_interrupts || machine.costs.interrupt_ns.is_some();
            machine.wait(until_ns.min(end_ns), interrupted);
            router.resume();
        }
    }
}
