//! Tests of single runs: full queues, packet order, packets given back, due functions.

use millstream::aqm::{Aqm, Ecn};
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::flow_queue::{Flow, FlowOptions};
use millstream::{Contract, Link};

use crate::ids::{InputId, OutputId, PacketHandle, PathId};
use crate::router::machine::{
    Accounting, Deferral, Flows, Machine, MultiCore, PacedLinks, QueueId, Verdict,
};
use crate::router::plan::{Batch, InputPlan, OutputPlan, PathPlan, Plan, Stages, WhenFull};
use crate::router::{Process, Router};

const INPUT_QUEUE: u32 = 4;
const OUTPUT_QUEUE: u32 = 2;

/// A machine at time 0. Its output has room for `room` packets and accepts `accepts` packets per
/// call. Each queue of another core has three packets.
struct StoppedMachine {
    room: usize,
    accepts: usize,
    /// The time when the function of the path is due, ns.
    due_ns: u64,
}

impl Machine for StoppedMachine {
    const FREE_CLOCK: bool = false;

    fn now_ns(&mut self) -> u64 {
        0
    }

    fn receive(&mut self, _: InputId, _: usize, _: &mut Vec<(PathId, PacketHandle)>) -> usize {
        0
    }

    fn forward(&mut self, _: PathId, _: &mut PacketHandle) -> Verdict {
        Verdict::Send(OutputId(0))
    }

    fn bytes(&self, _: PacketHandle) -> u32 {
        64
    }

    fn room(&mut self, _: OutputId, _: u64) -> usize {
        self.room
    }

    fn room_at_ns(&mut self, _: OutputId, now_ns: u64) -> u64 {
        now_ns
    }

    fn transmit(&mut self, _: OutputId, packets: &[PacketHandle]) -> usize {
        packets.len().min(self.accepts)
    }

    fn discard(&mut self, _: PacketHandle) {}
}

impl Deferral for StoppedMachine {
    fn due_ns(&self, _: PathId) -> u64 {
        self.due_ns
    }
}

impl Accounting for StoppedMachine {}

impl PacedLinks for StoppedMachine {}

impl MultiCore for StoppedMachine {
    fn waiting_remote(&self, _: QueueId) -> usize {
        3
    }
}

/// The upper half of a handle is the packet's flow.
impl Flows for StoppedMachine {
    fn flow(&self, packet: PacketHandle) -> Flow {
        let hash = u32::try_from(packet.to_bits() >> 32).unwrap();
        let ecn = if hash == 9 { Ecn::Capable } else { Ecn::NotCapable };
        Flow { hash, host: 0, ecn }
    }
}

fn handles(bits: std::ops::Range<u64>) -> impl Iterator<Item = PacketHandle> {
    bits.map(PacketHandle::from_bits)
}

/// Returns a router of one input, one path and one output.
fn router(machine: StoppedMachine) -> Router<StoppedMachine> {
    router_with(machine, Contract::new())
}

/// Returns a router of one input, one path with this contract and one output.
fn router_with(machine: StoppedMachine, contract: Contract) -> Router<StoppedMachine> {
    let link = Link::new(1 << 40, 0);
    let plan = Plan {
        stages: Stages::Three,
        batch: Batch { packets: 8, time_ns: u64::MAX, batch_wait_ns: 0 },
        inputs: vec![InputPlan { reservation: 1, throttle: None, when_full: WhenFull::Wait }],
        paths: vec![PathPlan {
            drops: false,
            reservation: 1,
            input_queue: INPUT_QUEUE,
            output_queue: OUTPUT_QUEUE,
            outputs: vec![(OutputId(0), contract)],
        }],
        outputs: vec![OutputPlan {
            reservation: 1,
            throttle: None,
            discipline: DisciplineRow::parse("wf2q+").expect("in the catalogue"),
            options: Options { link, ..Options::default() },
            structure: StructureName::Scan,
            is_ingress: false,
        }],
    };
    Router::new(&plan, machine).expect("the plan is valid")
}

#[test]
fn an_input_queue_at_its_high_watermark_has_room() {
    let mut router = router(StoppedMachine { room: usize::MAX, accepts: 8, due_ns: u64::MAX });
    assert_eq!(router.paths[PathId(0)].high_watermark, INPUT_QUEUE as usize - 1);
    for packet in 0..u64::from(INPUT_QUEUE) {
        assert!(!router.paths[PathId(0)].full, "{packet} packets");
        router.put_into_queue(PathId(0), PacketHandle::from_bits(packet));
    }
    assert!(router.paths[PathId(0)].full);
}

#[test]
fn packets_given_back_precede_the_queue_in_their_order() {
    let mut router = router(StoppedMachine { room: usize::MAX, accepts: 8, due_ns: u64::MAX });
    router.put_into_queue(PathId(0), PacketHandle::from_bits(4));
    router.paths[PathId(0)].held = 3;
    router.requeue_returned(&mut handles(1..4).map(|packet| (PathId(0), packet)).collect());
    assert!(router.paths[PathId(0)].queue.iter().copied().eq(handles(1..5)));
}

#[test]
fn packets_that_the_port_refuses_stay_first_in_their_order() {
    let mut router = router(StoppedMachine { room: usize::MAX, accepts: 1, due_ns: u64::MAX });
    router.outputs[OutputId(0)].staged.extend(handles(1..12));
    assert_eq!(router.run_output(OutputId(0)), 1);
    assert!(router.outputs[OutputId(0)].staged.iter().copied().eq(handles(2..12)));
}

#[test]
fn a_port_gets_as_many_staged_packets_as_it_has_room_for() {
    let mut router = router(StoppedMachine { room: 2, accepts: 8, due_ns: u64::MAX });
    router.outputs[OutputId(0)].staged.extend(handles(1..6));
    assert_eq!(router.run_output(OutputId(0)), 2);
    assert!(router.outputs[OutputId(0)].staged.iter().copied().eq(handles(3..6)));
}

#[test]
fn a_path_with_flows_serves_a_sparse_flow_first_and_drops_from_the_longest() {
    let flows = FlowOptions {
        buckets: 8,
        quantum_bytes: 64,
        limit_bytes: u64::MAX,
        limit_packets: 6,
        aqm: Aqm::None,
        ..FlowOptions::default()
    };
    let machine = StoppedMachine { room: usize::MAX, accepts: 1, due_ns: u64::MAX };
    let mut router = router_with(machine, Contract::new().flows(flows));
    let put = |router: &mut Router<StoppedMachine>, bits: std::ops::Range<u64>| {
        let packets: Vec<_> = handles(bits).collect();
        router.put_by_verdict(PathId(0), 0, Verdict::Send(OutputId(0)), &packets);
    };
    put(&mut router, 0..7);
    put(&mut router, 5 << 32..(5 << 32) + 1);
    // The first packet is the head; half of the six behind it leave for the sparse packet.
    assert_eq!(router.waiting(PathId(0)), (0, 5));
    let mut order = Vec::new();
    while router.waiting(PathId(0)).1 > 0 || !router.outputs[OutputId(0)].staged.is_empty() {
        router.run_output(OutputId(0));
        order.extend(router.outputs[OutputId(0)].staged.drain(..));
    }
    assert!(order.iter().any(|packet| packet.to_bits() == 5 << 32), "{order:?}");
    let counters = router.path(PathId(0));
    assert_eq!((counters.sent, counters.dropped_from_longest), (5, 3));
    assert_eq!(counters.departed(), 8);
}

#[test]
fn flows_make_room_at_their_own_core_and_are_limited_on_the_way_to_another() {
    let room = |flows: bool, is_remote: bool| {
        let machine = StoppedMachine { room: usize::MAX, accepts: 8, due_ns: u64::MAX };
        let contract =
            if flows { Contract::new().flows(FlowOptions::default()) } else { Contract::new() };
        let mut router = router_with(machine, contract);
        router.outputs[OutputId(0)].is_remote = is_remote;
        router.output_room(PathId(0))
    };
    assert_eq!(room(false, false), OUTPUT_QUEUE as usize);
    assert_eq!(room(false, true), 0, "three packets are in a queue of two");
    assert_eq!(room(true, false), usize::MAX);
    assert_eq!(room(true, true), 2 * OUTPUT_QUEUE as usize - 3);
}

#[test]
fn room_at_an_output_makes_a_path_eligible_whose_function_is_due() {
    for (due_ns, eligible) in [(0, true), (u64::MAX, false)] {
        let mut router = router(StoppedMachine { room: usize::MAX, accepts: 8, due_ns });
        let process = router.numbers.id(Process::Forward(PathId(0)));
        let packets: Vec<_> = handles(1..3).collect();
        router.put_by_verdict(PathId(0), 0, Verdict::Send(OutputId(0)), &packets);
        router.refresh(process);
        assert!(!router.cpu.eligible(process), "the output queue is full");
        assert_eq!(router.run_output(OutputId(0)), OUTPUT_QUEUE);
        assert_eq!(router.cpu.eligible(process), eligible, "due at {due_ns} ns");
    }
}
