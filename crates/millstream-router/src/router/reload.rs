//! Switches a running router to a new plan.

use millstream::{ContractError, Packet};
use std::mem;

use super::{Late, NEVER, Parts, Router};
use crate::router::counters::PathCounters;
use crate::router::machine::Machine;
use crate::router::plan::Plan;

impl<M: Machine> Router<M> {
    /// Switches to a plan with the same inputs and outputs. Path `n` of the new plan is the old
    /// plan's path `kept[n]`, if any: it keeps its packets and its counters. A kept queue may
    /// exceed its new limit until it drains. Queued output packets are enqueued again in the old
    /// discipline's order.
    ///
    /// Drops packets of paths that are removed or now drop, and those at outputs that their path
    /// has left. Call [`part`](Self::part) again afterwards. Returns the summed counters of removed
    /// paths.
    ///
    /// # Errors
    /// If a path's contract lacks a field that an output's discipline needs. The router is
    /// unchanged then.
    ///
    /// # Panics
    /// If the number of inputs or outputs differs, or `kept` does not fit the plans.
    pub fn reload(
        &mut self,
        plan: &Plan,
        kept: &[Option<usize>],
    ) -> Result<PathCounters, ContractError> {
        assert_eq!(plan.inputs.len(), self.inputs.len(), "inputs stay");
        assert_eq!(plan.outputs.len(), self.outputs.len(), "outputs stay");
        assert_eq!(plan.paths.len(), kept.len(), "one entry a path");
        let parts = Parts::new(plan)?;
        let mut back = Vec::new();
        self.machine.give_back(true, &mut back);
        self.take_back(&mut back);
        self.cpu = parts.cpu;
        self.stages = plan.stages;
        self.batch = plan.batch;
        self.parted = false;
        let mut old_paths = mem::replace(&mut self.paths, parts.paths);
        let old_outputs = mem::replace(&mut self.outputs, parts.outputs);
        for (input, old) in self.inputs.iter_mut().zip(parts.inputs) {
            *input = super::Input { counters: input.counters, ..old };
        }
        let mut now_at = vec![None; old_paths.len()];
        for (new, old) in kept.iter().enumerate() {
            if let Some(old) = old {
                assert!(now_at[*old].replace(new).is_none(), "a path is kept once");
            }
        }
        for (output, mut old) in old_outputs.into_iter().enumerate() {
            self.outputs[output].staged = mem::take(&mut old.staged);
            self.outputs[output].longest_bytes = old.longest_bytes;
            self.outputs[output].time.idle(self.machine.idle_ns(output, self.now_ns), false);
            let mut waiting = Vec::new();
            let mut late = Late::default();
            let mut at_ns = self.now_ns - old.time.lost_ns;
            while old.link.total_waiting() > 0 {
                old.link.decide_all(at_ns, usize::MAX, &mut late, |departure| {
                    waiting.push((old.paths[departure.stream.index()], departure));
                });
                // Rate caps hold back the rest: advances the old link's time to the next opening.
                match old.link.next_eligible_ns() {
                    Some(next_ns) => at_ns = at_ns.max(next_ns),
                    None => break,
                }
            }
            for (stream, packet) in late.0 {
                old_paths[old.paths[stream.index()]].counters.dropped_late += 1;
                self.machine.discard(packet);
            }
            for (path, departure) in waiting {
                let stream = now_at[path].and_then(|new: usize| self.paths[new].streams[output]);
                if let Some(stream) = stream {
                    let packet = Packet { bytes: departure.bytes, tag: departure.tag };
                    let packets = std::iter::once(packet);
                    self.outputs[output].link.enqueue_all(self.now_ns, stream, packets);
                } else {
                    old_paths[path].counters.dropped_by_reload += 1;
                    self.machine.discard(departure.tag);
                }
            }
        }
        let mut gone = PathCounters::default();
        for (mut old, new) in old_paths.into_iter().zip(now_at) {
            if new.is_none_or(|new| self.paths[new].drops) {
                for packet in old.queue.drain(..) {
                    old.counters.dropped_by_reload += 1;
                    self.machine.discard(packet);
                }
            }
            if let Some(new) = new {
                let path = &mut self.paths[new];
                path.limit = path.limit.max(old.queue.len());
                path.queue = old.queue;
                path.packet_ns = old.packet_ns;
                path.counters = old.counters;
            } else {
                gone.add(&old.counters);
            }
        }
        self.renumber_processes(kept);
        self.room = 0;
        self.waiting_for_batch.clear();
        self.batch_wait_ends_ns = NEVER;
        for path in &mut self.paths {
            path.full = path.queue.len() > path.high_watermark;
        }
        self.full = self.paths.iter().filter(|path| path.full).count();
        self.asleep_until_ns = vec![0; self.processes.len()];
        self.sleepers.clear();
        // Functions may have other due times now.
        self.next_wake_ns = 0;
        self.timed.clear();
        (0..self.paths.len()).for_each(|path| self.wants_time(path));
        for number in 0..self.processes.len() {
            self.refresh(number);
        }
        Ok(gone)
    }

    /// Moves the counters of processes to their new numbers.
    fn renumber_processes(&mut self, kept: &[Option<usize>]) {
        let inputs = self.inputs.len();
        let outputs = self.processes.len() - self.outputs.len();
        let mut processes = self.processes[..inputs].to_vec();
        let used = |old: &Option<usize>| old.map(|old| self.processes[inputs + old]);
        processes.extend(kept.iter().map(|old| used(old).unwrap_or_default()));
        processes.extend_from_slice(&self.processes[outputs..]);
        self.processes = processes;
    }
}
