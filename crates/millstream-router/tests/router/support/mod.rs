//! Plans and machines for tests.

use millstream::Link;
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream_router::live::{LiveMachine, Port};
use millstream_router::model::Costs;
use millstream_router::{
    Accounting, Deferral, InputPlan, Machine, MultiCore, OutputPlan, PacedLinks, Verdict, WhenFull,
};
use std::sync::Arc;

/// The paper's costs, and 0.1 µs for everything else.
pub(crate) const COSTS: Costs = Costs {
    dispatch_ns: 100,
    poll_ns: 100,
    input_ns: 1_600,
    handover_ns: 100,
    output_ns: 1_400,
    interrupt_ns: None,
};

/// An input process that drops packets of full queues.
pub(crate) fn input(reservation: u32) -> InputPlan {
    InputPlan { reservation, throttle: None, when_full: WhenFull::Drop }
}

/// An output process on a link of `rate_pps` 64-byte packets per second.
pub(crate) fn output(reservation: u32, discipline: &str, rate_pps: u64) -> OutputPlan {
    let link = Link { rate_bps: rate_pps * 64 * 8, overhead_bytes: 0 };
    let options = Options { link, ..Options::default() };
    OutputPlan {
        reservation,
        throttle: None,
        discipline: DisciplineRow::parse(discipline).unwrap(),
        options,
        structure: StructureName::Scan,
    }
}

/// A live machine with a manual clock that the costs of dispatches and functions advance.
pub(crate) struct Costly<P, F> {
    pub(crate) machine: LiveMachine<P>,
    pub(crate) hand: Arc<quanta::Mock>,
    /// Cost of a dispatch, ns.
    pub(crate) dispatch: u64,
    /// Cost of the last function call by path, ns.
    pub(crate) forward: F,
}

impl<P: Port, F: FnMut(&LiveMachine<P>, usize) -> u64> Machine for Costly<P, F> {
    const FREE_CLOCK: bool = false;

    fn now_ns(&mut self) -> u64 {
        self.machine.now_ns()
    }

    fn receive(&mut self, input: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize {
        self.machine.receive(input, most, into)
    }

    fn forward(&mut self, path: usize, packet: &mut u64) -> Verdict {
        let verdict = self.machine.forward(path, packet);
        self.hand.increment((self.forward)(&self.machine, path));
        verdict
    }

    fn bytes(&self, packet: u64) -> u32 {
        self.machine.bytes(packet)
    }

    fn room(&mut self, output: usize, now_ns: u64) -> usize {
        self.machine.room(output, now_ns)
    }

    fn room_at_ns(&mut self, output: usize, now_ns: u64) -> u64 {
        self.machine.room_at_ns(output, now_ns)
    }

    fn transmit(&mut self, output: usize, packets: &[u64]) -> usize {
        self.machine.transmit(output, packets)
    }

    fn discard(&mut self, packet: u64) {
        self.machine.discard(packet);
    }
}

impl<P: Port, F: FnMut(&LiveMachine<P>, usize) -> u64> Accounting for Costly<P, F> {
    fn dispatched(&mut self) {
        self.hand.increment(self.dispatch);
    }
}

impl<P: Port, F: FnMut(&LiveMachine<P>, usize) -> u64> Deferral for Costly<P, F> {}

impl<P: Port, F: FnMut(&LiveMachine<P>, usize) -> u64> PacedLinks for Costly<P, F> {}

impl<P: Port, F: FnMut(&LiveMachine<P>, usize) -> u64> MultiCore for Costly<P, F> {}
