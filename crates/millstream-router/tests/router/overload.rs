//! Overload causes no receive livelock: polling keeps the forwarding rate, interrupts do not.
//!
//! The live machine runs the plan of a file on a mock clock. The clock advances by each step's
//! cost, so counts are equal on every machine. Packets that cannot be forwarded must be dropped on
//! the device, where that costs nothing.

use crate::support::Costly;
use etherparse::PacketBuilder;
use millstream_router::live::{
    Classifier, Clock, Forwarder, LiveMachine, NextHop, Pool, Port, PortError, Routes, admitted,
    read_mode,
};
use millstream_router::{OutputId, PacketHandle, PathId, PortId, Router, Step};
use millstream_scenario::{InputMode, RouterScenario};
use std::path::Path;
use std::sync::Arc;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// Capacity of the device's ring, packets.
const RING: u64 = 4_096;
const RUN_NS: u64 = 20_000_000;
/// CPU frequency, Hz.
const FREQUENCY: u64 = 2_000_000_000;

/// Cost of each step, ns.
#[derive(Clone, Copy, Debug)]
struct Costs {
    poll: u64,
    read: u64,
    forward: u64,
    send: u64,
    dispatch: u64,
}

/// A device at which packets arrive by the clock, whether they are read or not.
struct Device {
    clock: Clock,
    mock: Arc<quanta::Mock>,
    costs: Costs,
    frame: Vec<u8>,
    /// Arrival rate, packets/s.
    offered: u64,
    taken: u64,
    lost: u64,
    sent: u64,
}

impl Device {
    fn arrived(&self) -> u64 {
        let packets = u128::from(self.clock.now_ns()) * u128::from(self.offered) / 1_000_000_000;
        u64::try_from(packets).unwrap()
    }
}

impl Port for Device {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        self.mock.increment(self.costs.poll);
        let waiting = self.arrived() - self.taken - self.lost;
        self.lost += waiting.saturating_sub(RING);
        let count = waiting.min(RING).min(most as u64);
        for _ in 0..count {
            into.extend(pool.copy(&self.frame));
        }
        self.mock.increment(count * self.costs.read);
        self.taken += count;
        Ok(usize::try_from(count).unwrap())
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        self.mock.increment(packets.len() as u64 * self.costs.send);
        self.sent += packets.len() as u64;
        packets.iter().for_each(|packet| pool.release(*packet));
        Ok(packets.len())
    }
}

/// Returns a scenario with `inputs` receiving ports and one transmitting port.
fn scenario(inputs: usize, input: InputMode) -> RouterScenario {
    let port = |name: String| {
        format!("[[port]]\nname = \"{name}\"\nkind = \"interface\"\nrate = \"100 Gbps\"\n")
    };
    let ports: String = (0..inputs).map(|at| port(format!("in{at}"))).collect();
    let input = match input {
        InputMode::Polled => "polled",
        InputMode::Interrupt => "interrupt",
    };
    let text = format!(
        "[router]\ninput = \"{input}\"\n{ports}{}[[path]]\nname = \"all\"\n\
         [[route]]\nprefix = \"10.2.0.0/16\"\n\
         port = \"out\"\nneighbour = \"02:00:00:00:00:09\"\n",
        port("out".to_owned())
    );
    RouterScenario::parse("router.toml", &text, Path::new("")).unwrap()
}

/// Forwards for [`RUN_NS`] at `offered` packets/s in all; returns the number of packets sent.
/// Checks that all packets are accounted for.
fn forwarded(input: InputMode, inputs: usize, offered: u64, costs: Costs) -> u64 {
    let scenario = scenario(inputs, input);
    let (clock, mock) = Clock::mock();
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(NEIGHBOUR, ROUTER).ipv4([1; 4], [10, 2, 0, 1], 9);
    builder.udp(1, 2).write(&mut frame, &[0; 18]).unwrap();
    let mut routes = Routes::default();
    let hop = NextHop { output: PortId(inputs), from: ROUTER, to: NEIGHBOUR };
    routes.add(scenario.routes[0].prefix, hop);
    let classifier = Classifier::new(vec![scenario.paths[0].matches]);
    let pool = Pool::new(scenario.buffers);
    let mut machine = LiveMachine::new(clock.clone(), pool, classifier, Forwarder::new(routes));
    for (at, port) in scenario.ports.iter().enumerate() {
        let offered = if at < inputs { offered / inputs as u64 } else { 0 };
        let (clock, mock, frame) = (clock.clone(), Arc::clone(&mock), frame.clone());
        let device = Device { clock, mock, costs, frame, offered, taken: 0, lost: 0, sent: 0 };
        machine.add(device, ROUTER, port.link);
    }
    let (hand_of, forward) = (Arc::clone(&mock), |_: &LiveMachine<Device>, _| costs.forward);
    let machine = Costly { machine, mock: hand_of, dispatch: costs.dispatch, forward };
    let mut router = Router::new(&admitted(&scenario, FREQUENCY).unwrap(), machine).unwrap();
    router.set_read_mode(read_mode(&scenario));
    while clock.now_ns() < RUN_NS {
        if let Step::Idle { until_ns } = router.step() {
            mock.increment(until_ns.min(RUN_NS).saturating_sub(clock.now_ns()).max(1));
            router.resume();
        }
    }
    let path = router.path(PathId(0));
    let (before, after) = router.waiting(PathId(0));
    let staged = router.staged(OutputId(inputs)) as u64;
    let machine = &mut router.machine_mut().machine;
    let mut taken = 0;
    for input in 0..inputs {
        let device = machine.port_mut(PortId(input));
        assert!(device.taken + device.lost <= device.arrived());
        taken += device.taken;
    }
    let sent = machine.port_mut(PortId(inputs)).sent;
    assert_eq!(taken, path.received);
    assert_eq!(path.received, path.departed() + (before + after) as u64);
    assert_eq!(path.sent, sent + staged);
    sent
}

/// Returns the capacity with polling, packets/s: the offered rate beyond which the forwarded rate
/// stops rising.
fn capacity(inputs: usize, costs: Costs) -> u64 {
    let sent = |offered| forwarded(InputMode::Polled, inputs, offered, costs);
    let mut capacity = sent(20_000_000) * 1_000_000_000 / RUN_NS;
    while sent(capacity * 11 / 10) * 20 >= capacity * 11 / 10 * RUN_NS / 1_000_000_000 * 19 {
        capacity = capacity * 11 / 10;
    }
    capacity
}

/// Checks the rate from 1 to 3 times the capacity.
fn assert_rate_holds(inputs: usize, costs: Costs) {
    let sent = |offered| forwarded(InputMode::Polled, inputs, offered, costs);
    let capacity = capacity(inputs, costs);
    let offered = [80, 90, 100, 125, 150, 200, 250, 300];
    let rates = offered.map(|percent| sent(capacity * percent / 100));
    let peak = *rates.iter().max().unwrap();
    let at_overload = *rates[2..].iter().min().unwrap();
    assert!(
        at_overload * 100 >= peak * 95,
        "{inputs} inputs, {costs:?}: packets forwarded at {offered:?} percent of the capacity: \
         {rates:?}"
    );
}

#[test]
fn the_rate_stays_within_5_percent_of_its_peak_from_1_to_3_times_the_capacity() {
    // Socket costs: reading from memory is cheap, and each transmission is a system call.
    let socket = Costs { poll: 300, read: 150, forward: 100, send: 1_500, dispatch: 100 };
    // User-space driver: all stages cost about the same.
    let even = Costs { poll: 50, read: 60, forward: 70, send: 60, dispatch: 40 };
    // An expensive function.
    let function = Costs { poll: 100, read: 200, forward: 5_000, send: 200, dispatch: 100 };
    for costs in [socket, even, function] {
        for inputs in [1, 3] {
            assert_rate_holds(inputs, costs);
        }
    }
}

/// Reception is a third of a packet's cost: at three times the capacity nothing else runs.
#[test]
fn interrupt_driven_input_collapses_under_an_overload_that_polling_withstands() {
    let costs = Costs { poll: 20, read: 600, forward: 500, send: 600, dispatch: 40 };
    for inputs in [1, 3] {
        let capacity = capacity(inputs, costs);
        let rate = |input, percent| forwarded(input, inputs, capacity * percent / 100, costs);
        let offered = [50, 80, 100, 150, 200, 250, 300];
        let [polled, interrupted] = [InputMode::Polled, InputMode::Interrupt]
            .map(|input| offered.map(|percent| rate(input, percent)));
        let seen = format!("{inputs} inputs, polled {polled:?}, by interrupts {interrupted:?}");
        let peak = *polled.iter().max().unwrap();
        assert!(polled[2..].iter().all(|rate| rate * 100 >= peak * 95), "{seen}");
        // Both are equal without overload; then the interrupt-driven rate falls to nothing.
        assert!(
            interrupted[..2].iter().zip(&polled).all(|(a, b)| a.abs_diff(*b) * 50 <= *b),
            "{seen}"
        );
        assert!(interrupted[3..].is_sorted_by(|a, b| a >= b), "{seen}");
        assert!(interrupted[4] * 100 < peak * 75 && interrupted[6] * 100 < peak * 10, "{seen}");
    }
}
