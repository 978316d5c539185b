//! Inputs, paths and outputs of a router, built from a plan.

use millstream::{ContractError, Departure, Event, Observer, StreamId};
use std::collections::VecDeque;

use super::batch_wait::full_batch;
use super::link::Link;
use super::link_time::LinkTime;
use crate::ids::{IdVec, InputId, OutputId, PacketHandle, PathId};
use crate::router::counters::{InputCounters, PathCounters};
use crate::router::cpu::Cpu;
use crate::router::plan::{Plan, WhenFull};
use crate::router::throttle::Throttle;

/// The time per packet is averaged over about 2^3 batches.
const AVERAGE_SHIFT: u32 = 3;

/// An input.
pub(super) struct Input {
    /// Whether another core's router reads it.
    pub(super) is_remote: bool,
    pub(super) throttle: Option<Throttle>,
    pub(super) when_full: WhenFull,
    pub(super) counters: InputCounters,
}

/// A switching path with its input queue.
pub(super) struct Path {
    pub(super) drops: bool,
    /// Whether another core's router runs its function.
    pub(super) is_remote: bool,
    pub(super) queue: VecDeque<PacketHandle>,
    pub(super) limit: usize,
    /// The number of packets that the machine holds.
    pub(super) held: usize,
    /// The path's stream at each output; `None` where it has no queue.
    pub(super) streams: IdVec<OutputId, Option<StreamId>>,
    /// The outputs at which it has a queue.
    pub(super) outputs: Vec<OutputId>,
    pub(super) output_limit: usize,
    /// Whether its output queues have flows: at the limit, the longest flow loses packets.
    pub(super) has_flows: bool,
    /// The room that each output queue must have before the process runs, packets: one, or a batch.
    pub(super) fit: usize,
    /// Whether `Router::freed` lists the path.
    pub(super) freed: bool,
    /// The recent average time per packet, ns.
    pub(super) packet_ns: u64,
    /// Whether the input queue holds more than `high_watermark` packets: it cannot hold another
    /// packet, or another full batch.
    pub(super) full: bool,
    pub(super) high_watermark: usize,
    pub(super) counters: PathCounters,
}

impl Path {
    /// Updates the average time per packet.
    #[inline]
    pub(super) fn record_packet_ns(&mut self, packet_ns: u64) {
        let (more, less) =
            (packet_ns.saturating_sub(self.packet_ns), self.packet_ns.saturating_sub(packet_ns));
        self.packet_ns += more.div_ceil(1 << AVERAGE_SHIFT);
        self.packet_ns -= less.div_ceil(1 << AVERAGE_SHIFT);
    }
}

/// An output with the queues of its paths.
pub(super) struct Output {
    /// Whether another core's router writes to it.
    pub(super) is_remote: bool,
    /// Whether its packets go on to another output.
    pub(super) is_ingress: bool,
    /// Whether rate caps held back all waiting packets at the last decision.
    pub(super) held_back: bool,
    pub(super) throttle: Option<Throttle>,
    pub(super) link: Link,
    pub(super) time: LinkTime,
    /// The path of each of the link's streams.
    pub(super) paths: Vec<PathId>,
    /// Selected packets that the port has not taken yet.
    pub(super) staged: VecDeque<PacketHandle>,
    /// The length of the longest packet since the queues were last empty, bytes: no waiting packet
    /// is longer.
    pub(super) longest_bytes: u32,
}

/// Packets that the link's scheduler dropped or marked during a decision.
#[derive(Default)]
pub(super) struct LinkEvents {
    pub(super) dropped: Vec<(StreamId, Event, PacketHandle)>,
    pub(super) marked: Vec<(StreamId, PacketHandle)>,
}

impl Observer for LinkEvents {
    fn dropped(&mut self, departure: &Departure) {
        let packet = PacketHandle::from_bits(departure.tag);
        self.dropped.push((departure.stream, departure.event, packet));
    }

    fn marked(&mut self, stream: StreamId, _: u64, tag: u64) {
        self.marked.push((stream, PacketHandle::from_bits(tag)));
    }
}

/// The state that a router builds from a plan.
pub(super) struct Parts {
    pub(super) cpu: Cpu,
    pub(super) inputs: IdVec<InputId, Input>,
    pub(super) paths: IdVec<PathId, Path>,
    pub(super) outputs: IdVec<OutputId, Output>,
}

impl Parts {
    pub(super) fn new(plan: &Plan) -> Result<Self, ContractError> {
        assert!(plan.batch.packets > 0, "a batch must hold at least one packet");
        let mut cpu = Cpu::default();
        let mut outputs = IdVec::<OutputId, _>::new();
        for (number, output) in plan.outputs.iter().enumerate() {
            let leaving = plan.paths.iter().flat_map(|path| &path.outputs);
            let capped = leaving.filter(|of| of.0 == OutputId(number)).any(|of| of.1.is_limited());
            let link = Link::new(output.discipline, &output.options, output.structure);
            let throttle = output.throttle.map(Throttle::new);
            let (time, paths) = (LinkTime::new(output, capped), Vec::new());
            outputs.push(Output {
                is_remote: false,
                is_ingress: output.is_ingress,
                held_back: false,
                throttle,
                link,
                time,
                paths,
                staged: VecDeque::new(),
                longest_bytes: 0,
            });
        }
        for input in &plan.inputs {
            cpu.add(input.reservation)?;
        }
        let mut paths = IdVec::new();
        for (number, path) in plan.paths.iter().enumerate() {
            let full_batch = full_batch(path, plan.batch);
            let waits_for_batch = plan.batch.batch_wait_ns > 0;
            // The queue of a dropping path stays empty: an infinite limit never blocks an input.
            let limit = if path.drops { usize::MAX } else { path.input_queue as usize };
            let queues = path.input_queue > 0 && path.output_queue > 0;
            assert!(path.drops || queues, "a queue must hold at least one packet");
            cpu.add(path.reservation)?;
            let has_flows = path.outputs.iter().any(|(_, of)| of.flow_options().is_some());
            let mut streams = IdVec::repeat(None, outputs.len());
            for (output, contract) in &path.outputs {
                let at = &mut outputs[*output];
                streams[*output] = Some(at.link.add_stream(contract.clone())?);
                at.paths.push(PathId(number));
            }
            paths.push(Path {
                drops: path.drops,
                is_remote: false,
                queue: VecDeque::with_capacity(path.input_queue as usize),
                limit,
                held: 0,
                streams,
                outputs: path.outputs.iter().map(|(output, _)| *output).collect(),
                output_limit: path.output_queue as usize,
                has_flows,
                fit: if waits_for_batch {
                    full_batch.min(path.output_queue.div_ceil(2) as usize)
                } else {
                    1
                },
                freed: false,
                packet_ns: 1,
                full: false,
                high_watermark: limit - if waits_for_batch { full_batch.max(1) } else { 1 },
                counters: PathCounters::default(),
            });
        }
        for output in &plan.outputs {
            cpu.add(output.reservation)?;
        }
        let inputs = plan.inputs.iter().map(|input| Input {
            is_remote: false,
            throttle: input.throttle.map(Throttle::new),
            when_full: input.when_full,
            counters: InputCounters::default(),
        });
        Ok(Self { cpu, inputs: inputs.collect(), paths, outputs })
    }
}
