//! Plans and machines for tests.

use millstream::Link;
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream_router::live::{LiveMachine, Port};
use millstream_router::model::Costs;
use millstream_router::{
    Accounting, Deferral, Flows, InputId, InputPlan, Machine, MultiCore, OutputId, OutputPlan,
    PacedLinks, PacketHandle, PathId, Verdict, WhenFull,
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

/// Returns an input process that drops packets of full queues.
pub(crate) fn input(reservation: u32) -> InputPlan {
    InputPlan { reservation, throttle: None, when_full: WhenFull::Drop }
}

/// Returns an output process on a link of `rate_pps` 64-byte packets per second.
pub(crate) fn output(reservation: u32, discipline: &str, rate_pps: u64) -> OutputPlan {
    let link = Link::new(rate_pps * 64 * 8, 0);
    let options = Options { link, ..Options::default() };
    OutputPlan {
        reservation,
        throttle: None,
        discipline: DisciplineRow::parse(discipline).unwrap(),
        options,
        structure: StructureName::Scan,
        is_ingress: false,
    }
}

/// A live machine with a mock clock that the costs of dispatches and functions advance.
pub(crate) struct Costly<P, F> {
    pub(crate) machine: LiveMachine<P>,
    pub(crate) mock: Arc<quanta::Mock>,
    /// Cost of a dispatch, ns.
    pub(crate) dispatch: u64,
    /// Cost of the last function call by path, ns.
    pub(crate) forward: F,
}

impl<P: Port, F: FnMut(&LiveMachine<P>, PathId) -> u64> Machine for Costly<P, F> {
    const FREE_CLOCK: bool = false;

    fn now_ns(&mut self) -> u64 {
        self.machine.now_ns()
    }

    fn receive(
        &mut self,
        input: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize {
        self.machine.receive(input, most, into)
    }

    fn forward(&mut self, path: PathId, packet: &mut PacketHandle) -> Verdict {
        let verdict = self.machine.forward(path, packet);
        self.mock.increment((self.forward)(&self.machine, path));
        verdict
    }

    fn bytes(&self, packet: PacketHandle) -> u32 {
        self.machine.bytes(packet)
    }

    fn room(&mut self, output: OutputId, now_ns: u64) -> usize {
        self.machine.room(output, now_ns)
    }

    fn room_at_ns(&mut self, output: OutputId, now_ns: u64) -> u64 {
        self.machine.room_at_ns(output, now_ns)
    }

    fn transmit(&mut self, output: OutputId, packets: &[PacketHandle]) -> usize {
        self.machine.transmit(output, packets)
    }

    fn discard(&mut self, packet: PacketHandle) {
        self.machine.discard(packet);
    }
}

impl<P: Port, F: FnMut(&LiveMachine<P>, PathId) -> u64> Accounting for Costly<P, F> {
    fn dispatched(&mut self) {
        self.mock.increment(self.dispatch);
    }
}

impl<P: Port, F: FnMut(&LiveMachine<P>, PathId) -> u64> Deferral for Costly<P, F> {}

impl<P: Port, F: FnMut(&LiveMachine<P>, PathId) -> u64> PacedLinks for Costly<P, F> {}

impl<P: Port, F: FnMut(&LiveMachine<P>, PathId) -> u64> MultiCore for Costly<P, F> {}

impl<P: Port, F: FnMut(&LiveMachine<P>, PathId) -> u64> Flows for Costly<P, F> {}
