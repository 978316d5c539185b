//! Moves packets and counters from the parts of an old plan to those of a new one.

use millstream::Packet;

use super::parts::{LinkEvents, Output, Path};
use crate::ids::{IdVec, OutputId, PacketHandle, PathId, ProcessId};
use crate::router::counters::{PathCounters, ProcessCounters};
use crate::router::machine::Machine;
use crate::router::process::{Process, ProcessNumbers};

/// A switch to a new plan.
pub(super) struct Reload<'a, M> {
    machine: &'a mut M,
    now_ns: u64,
    /// The old path of each new path.
    kept: &'a [Option<PathId>],
    /// The new path of each old path.
    successors: IdVec<PathId, Option<PathId>>,
}

impl<'a, M: Machine> Reload<'a, M> {
    /// Creates the switch at `now_ns` from a plan of `old_paths` paths; `kept` is the old path of
    /// each new one.
    ///
    /// # Panics
    /// Panics if `kept` has a path twice, or one out of range.
    pub(super) fn new(
        machine: &'a mut M,
        now_ns: u64,
        kept: &'a [Option<PathId>],
        old_paths: usize,
    ) -> Self {
        let mut successors = IdVec::repeat(None, old_paths);
        for (new, old) in kept.iter().enumerate() {
            if let Some(old) = old {
                assert!(
                    successors[*old].replace(PathId(new)).is_none(),
                    "a path can be kept only once"
                );
            }
        }
        Self { machine, now_ns, kept, successors }
    }

    /// Returns the counters of processes by their new numbers.
    pub(super) fn processes(
        &self,
        old: &IdVec<ProcessId, ProcessCounters>,
        numbers: ProcessNumbers,
    ) -> IdVec<ProcessId, ProcessCounters> {
        let (inputs, _, outputs) = numbers.sizes();
        let of_path = |path: PathId| old[numbers.id(Process::Forward(path))];
        let mut processes = old.as_slice()[..inputs].to_vec();
        processes.extend(self.kept.iter().map(|path| path.map(of_path).unwrap_or_default()));
        processes.extend_from_slice(&old.as_slice()[old.len() - outputs..]);
        processes.into()
    }

    /// Moves the packets of outputs, in the order of the old discipline. Drops packets of paths
    /// that are removed or have left the output, and counts them in `old_paths`.
    pub(super) fn move_outputs(
        &mut self,
        old: IdVec<OutputId, Output>,
        old_paths: &mut IdVec<PathId, Path>,
        paths: &IdVec<PathId, Path>,
        outputs: &mut IdVec<OutputId, Output>,
    ) {
        for (output, mut old) in outputs.ids().zip(old) {
            let new = &mut outputs[output];
            new.staged = std::mem::take(&mut old.staged);
            new.longest_bytes = old.longest_bytes;
            new.time.idle(self.machine.idle_ns(output, self.now_ns), false);
            let mut waiting = Vec::new();
            let mut events = LinkEvents::default();
            let mut at_ns = self.now_ns - old.time.lost_ns;
            while old.link.total_waiting() > 0 {
                old.link.decide_all(at_ns, usize::MAX, &mut events, |departure| {
                    waiting.push((old.paths[departure.stream.index()], departure));
                });
                // Rate caps hold back the rest: advances the old link's time to the next opening.
                match old.link.next_eligible_ns() {
                    Some(next_ns) => at_ns = at_ns.max(next_ns),
                    None => break,
                }
            }
            for (stream, packet) in events.marked {
                old_paths[old.paths[stream.index()]].counters.marked += 1;
                self.machine.mark(packet);
            }
            for (stream, event, packet) in events.dropped {
                old_paths[old.paths[stream.index()]].counters.count_link_drop(event);
                self.machine.discard(packet);
            }
            let mut moved = LinkEvents::default();
            for (path, departure) in waiting {
                let stream = self.successors[path].and_then(|new| paths[new].streams[output]);
                if let Some(stream) = stream {
                    let packet = Packet { bytes: departure.bytes, tag: departure.tag };
                    let flow = self.machine.flow(PacketHandle::from_bits(departure.tag));
                    let packet = std::iter::once((packet, flow));
                    new.link.enqueue_flows(self.now_ns, stream, packet, &mut moved);
                } else {
                    old_paths[path].counters.dropped_by_reload += 1;
                    self.machine.discard(PacketHandle::from_bits(departure.tag));
                }
            }
            // A reload may shorten the queues: the longest flows lose packets.
            for (stream, event, packet) in moved.dropped {
                let path = new.paths[stream.index()];
                if let Some(old) = self.kept[path.0] {
                    old_paths[old].counters.count_link_drop(event);
                }
                self.machine.discard(packet);
            }
        }
    }

    /// Moves the input queues and counters of paths. Drops packets of paths that are removed or now
    /// drop. Returns the summed counters of removed paths.
    pub(super) fn move_paths(
        self,
        old: IdVec<PathId, Path>,
        paths: &mut IdVec<PathId, Path>,
    ) -> PathCounters {
        let mut removed = PathCounters::default();
        for (mut old, new) in old.into_iter().zip(self.successors) {
            if new.is_none_or(|new| paths[new].drops) {
                for packet in old.queue.drain(..) {
                    old.counters.dropped_by_reload += 1;
                    self.machine.discard(packet);
                }
            }
            if let Some(new) = new {
                let path = &mut paths[new];
                path.limit = path.limit.max(old.queue.len());
                path.queue = old.queue;
                path.packet_ns = old.packet_ns;
                path.counters = old.counters;
                path.full = path.queue.len() > path.high_watermark;
            } else {
                removed.add(&old.counters);
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Costs, ModelMachine};

    fn machine() -> ModelMachine {
        let (dispatch_ns, poll_ns, input_ns, handover_ns, output_ns) = (0, 0, 0, 0, 0);
        let interrupt_ns = None;
        let costs = Costs { dispatch_ns, poll_ns, input_ns, handover_ns, output_ns, interrupt_ns };
        ModelMachine::new(costs, Vec::new(), Vec::new(), Vec::new(), 0)
    }

    #[test]
    fn counters_follow_their_processes_to_the_new_numbers() {
        let runs = |runs| ProcessCounters { runs, ..ProcessCounters::default() };
        let old = IdVec::from_iter([1, 2, 3, 4].map(runs));
        let kept = [None, Some(PathId(1)), Some(PathId(0))];
        let mut machine = machine();
        let reload = Reload::new(&mut machine, 0, &kept, 2);
        let new = reload.processes(&old, ProcessNumbers::of_sizes(1, 2, 1));
        assert_eq!(new.as_slice(), [1, 0, 3, 2, 4].map(runs));
    }

    #[test]
    #[should_panic(expected = "a path can be kept only once")]
    fn a_path_is_not_kept_twice() {
        Reload::new(&mut machine(), 0, &[Some(PathId(0)); 2], 1);
    }
}
