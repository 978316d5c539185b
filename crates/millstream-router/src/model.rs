//! A router in simulated time: what every step costs is given, and nothing else takes time.
//!
//! [`ModelMachine`] has devices with receive and transmit rings, sources at constant packet rates,
//! and a processor whose time is the sum of its [`Costs`]. [`run`] drives a [`Router`] on it and
//! says what each path forwarded. It is deterministic: the only randomness, costs that depend on
//! the packet, comes from a seed.

mod device;

pub use device::{InputDevice, OutputDevice};

use millstream::ContractError;
use millstream_traffic::Random;

use crate::router::machine::{Machine, Verdict};
use crate::router::plan::{Plan, Reading};
use crate::router::{Router, Step};

/// What the steps of processes cost, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Switching to a process and back.
    pub dispatch_ns: u64,
    /// Asking a device that has nothing.
    pub poll_ns: u64,
    /// Reading and classifying a packet.
    pub input_ns: u64,
    /// Handing a packet over to another process.
    pub handover_ns: u64,
    /// Selecting and writing a packet.
    pub output_ns: u64,
    /// An interrupt for every packet that arrives, if devices interrupt; it goes before everything
    /// else.
    pub interrupt_ns: Option<u64>,
}

/// What a path's function costs, ns a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Always this.
    Fixed(u64),
    /// Anything from the first to the second, all alike.
    Uniform(u64, u64),
}

/// A processor and devices in simulated time.
#[derive(Debug)]
pub struct ModelMachine {
    now_ns: u64,
    end_ns: u64,
    costs: Costs,
    inputs: Vec<InputDevice>,
    outputs: Vec<OutputDevice>,
    /// Each path's function and its output.
    functions: Vec<(Work, usize)>,
    packet_bytes: u32,
    random: Random,
}

impl ModelMachine {
    /// A machine at time 0 with devices and, for each path, its function and output.
    #[must_use]
    pub fn new(
        costs: Costs,
        inputs: Vec<InputDevice>,
        outputs: Vec<OutputDevice>,
        functions: Vec<(Work, usize)>,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed, 0);
        let (now_ns, end_ns) = (0, u64::MAX);
        Self { now_ns, end_ns, costs, inputs, outputs, functions, packet_bytes: 64, random }
    }

    /// The processor works for `cost_ns`, and for what interrupts meanwhile.
    fn work(&mut self, cost_ns: u64) {
        self.now_ns += cost_ns;
        let Some(interrupt_ns) = self.costs.interrupt_ns else { return };
        // Interrupts while interrupts are served are served, too: that is livelock.
        while self.now_ns < self.end_ns
            && self.inputs.iter_mut().any(|input| input.interrupt(self.now_ns))
        {
            self.now_ns += interrupt_ns;
        }
    }

    /// Nothing runs until `until_ns`; or, if devices interrupt, until a packet arrives.
    fn wait(&mut self, until_ns: u64, interrupted: bool) {
        let arrival = self.inputs.iter().filter_map(InputDevice::next_ns).min();
        let until_ns = match arrival {
            Some(arrival) if interrupted => until_ns.min(arrival),
            _ => until_ns,
        };
        self.now_ns = self.now_ns.max(until_ns.min(self.end_ns));
        self.work(0);
    }

    /// The device of an input.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn input(&self, input: usize) -> &InputDevice {
        &self.inputs[input]
    }
}

impl Machine for ModelMachine {
    const FREE_CLOCK: bool = true;

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn dispatched(&mut self) {
        self.work(self.costs.dispatch_ns);
    }

    fn handed_over(&mut self) {
        self.work(self.costs.handover_ns);
    }

    fn receive(&mut self, input: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize {
        let mut count = 0;
        while count < most
            && let Some(path) = self.inputs[input].take(self.now_ns)
        {
            into.push((path, path as u64));
            self.work(self.costs.input_ns);
            count += 1;
        }
        if count == 0 {
            self.work(self.costs.poll_ns);
        }
        count
    }

    fn forward(&mut self, path: usize, _: &mut u64) -> Verdict {
        let (work, output) = self.functions[path];
        let cost_ns = match work {
            Work::Fixed(cost_ns) => cost_ns,
            Work::Uniform(least, most) => least + self.random.below(most - least + 1),
        };
        self.work(cost_ns);
        Verdict::Send(output)
    }

    fn bytes(&self, _: u64) -> u32 {
        self.packet_bytes
    }

    fn room(&mut self, output: usize, now_ns: u64) -> usize {
        self.outputs[output].room(now_ns)
    }

    fn room_at_ns(&mut self, output: usize, now_ns: u64) -> u64 {
        self.outputs[output].room_at_ns(now_ns)
    }

    fn transmit(&mut self, output: usize, packets: &[u64]) -> usize {
        let mut taken = 0;
        while taken < packets.len() && self.outputs[output].room(self.now_ns) > 0 {
            self.work(self.costs.output_ns);
            self.outputs[output].put(self.now_ns);
            taken += 1;
        }
        taken
    }

    fn discard(&mut self, _: u64) {}
}

/// What a run came to.
pub struct Outcome {
    /// Packets a second that each path sent after the warm-up.
    pub sent_pps: Vec<u64>,
    /// The router at the end.
    pub router: Router<ModelMachine>,
}

/// Runs the router of `plan` on `machine` to `end_ns`; rates are measured from `warm_up_ns`.
///
/// # Errors
/// If a path's contract lacks what an output's discipline needs.
///
/// # Panics
/// If the warm-up is as long as the run.
pub fn run(
    plan: &Plan,
    machine: ModelMachine,
    warm_up_ns: u64,
    end_ns: u64,
) -> Result<Outcome, ContractError> {
    run_by(Reading::Polled, plan, machine, warm_up_ns, end_ns)
}

/// The same with inputs read in this way.
///
/// # Errors
/// As for [`run`].
///
/// # Panics
/// As for [`run`].
pub fn run_by(
    reading: Reading,
    plan: &Plan,
    mut machine: ModelMachine,
    warm_up_ns: u64,
    end_ns: u64,
) -> Result<Outcome, ContractError> {
    assert!(warm_up_ns < end_ns, "a warm-up as long as the run");
    machine.end_ns = end_ns;
    let mut router = Router::new(plan, machine)?;
    router.read_by(reading);
    let sent = |router: &Router<ModelMachine>| -> Vec<u64> {
        (0..plan.paths.len()).map(|path| router.path(path).sent).collect()
    };
    advance(&mut router, warm_up_ns);
    let (before, began_ns) = (sent(&router), router.machine().now_ns);
    advance(&mut router, end_ns);
    let counted_ns = router.machine().now_ns - began_ns;
    let rate = |(after, before): (u64, u64)| (after - before) * 1_000_000_000 / counted_ns.max(1);
    let sent_pps = sent(&router).into_iter().zip(before).map(rate).collect();
    Ok(Outcome { sent_pps, router })
}

fn advance(router: &mut Router<ModelMachine>, end_ns: u64) {
    while router.machine().now_ns < end_ns {
        if let Step::Idle { until_ns } = router.step() {
            let by_interrupts = router.reading() != Reading::Polled;
            let machine = router.machine_mut();
            let interrupted = by_interrupts || machine.costs.interrupt_ns.is_some();
            machine.wait(until_ns.min(end_ns), interrupted);
            router.resume();
        }
    }
}
