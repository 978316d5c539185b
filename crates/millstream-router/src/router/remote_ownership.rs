//! One router per core: other cores own some inputs, paths and outputs of the plan.
//!
//! ```text
//!  core 0                core 1                      core 2
//!  input ──classify──> │ path's queue ──function──> │ output queue ──link──> port
//!                      └─ checked: its occupancy     └─ checked: its occupancy
//! ```
//!
//! Every router has the whole plan, and exactly one runs each process. The machine hands packets
//! for remote queues over. The sender checks the occupancy of the remote queue, in-flight packets
//! included, so queues stay bounded and arrivals have room. Traffic to one queue therefore never
//! delays another, and taking arrivals is bounded work.

use millstream::Packet;

use super::Router;
use crate::router::machine::{Machine, QueueId};
use crate::router::plan::WhenFull;

/// The parts of a plan that other routers own, by the plan's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteOwnership {
    /// Whether another router owns each input.
    pub inputs: Vec<bool>,
    /// Whether another router owns each path: its input queue and function.
    pub paths: Vec<bool>,
    /// Whether another router owns each output, with all queues there.
    pub outputs: Vec<bool>,
}

impl<M: Machine> Router<M> {
    /// Leaves the `remote` parts to the other routers of the plan from now on.
    ///
    /// # Panics
    /// If the numbers of inputs, paths or outputs are not the plan's.
    pub fn part(&mut self, remote: &RemoteOwnership) {
        assert_eq!(remote.inputs.len(), self.inputs.len(), "all inputs");
        assert_eq!(remote.paths.len(), self.paths.len(), "all paths");
        assert_eq!(remote.outputs.len(), self.outputs.len(), "all outputs");
        for (input, remote) in self.inputs.iter_mut().zip(&remote.inputs) {
            input.is_remote = *remote;
        }
        for (path, remote) in self.paths.iter_mut().zip(&remote.paths) {
            path.is_remote = *remote;
        }
        for (output, remote) in self.outputs.iter_mut().zip(&remote.outputs) {
            output.is_remote = *remote;
        }
        self.parted = true;
        for number in 0..self.processes.len() {
            self.refresh(number);
        }
    }

    /// Enqueues a packet that another router handed over; `refused`: the output's NAT drops it.
    ///
    /// # Panics
    /// If `queue` does not exist.
    pub fn arrived(&mut self, queue: QueueId, packet: u64, refused: bool) {
        match queue {
            QueueId::Path(path) => {
                // The queue now has less room than the inputs here have computed.
                self.room = 0;
                self.put_into_queue(path, packet);
            }
            QueueId::Output { path, output } => {
                let stream = self.paths[path].streams[output].filter(|_| !refused);
                let Some(stream) = stream else {
                    self.paths[path].counters.dropped_by_function += 1;
                    self.machine.left_output(path, output);
                    return self.machine.discard(packet);
                };
                let link_ns = self.link_time(output, self.now_ns);
                let described = Packet { bytes: self.machine.bytes(packet), tag: packet };
                let of = &mut self.outputs[output];
                of.longest_bytes = of.longest_bytes.max(described.bytes);
                let described = std::iter::once(described);
                let first = of.link.waiting(stream) == 0;
                of.link.enqueue_all(link_ns, stream, described);
                self.may_send(output, first);
            }
        }
    }

    /// Checks remote queues for room. Call it every few steps.
    pub fn look_again(&mut self) {
        for path in 0..self.paths.len() {
            let of = &self.paths[path];
            if !of.is_remote {
                if !of.queue.is_empty() {
                    self.refresh_path(path);
                }
            } else if of.full
                && self.machine.waiting_remote(QueueId::Path(path)) <= of.high_watermark
            {
                self.no_longer_full(path);
            }
        }
    }

    /// Drops a received packet by action, or hands it over to the core of its path.
    pub(super) fn not_queued(&mut self, input: usize, path: usize, packet: u64) {
        let of = &mut self.paths[path];
        if of.drops {
            of.counters.dropped_by_action += 1;
            return self.machine.discard(packet);
        }
        let waiting = self.machine.waiting_remote(QueueId::Path(path));
        // A waiting input has checked for room; inputs of other cores may have used it since.
        if waiting >= of.limit && self.inputs[input].when_full == WhenFull::Drop {
            of.counters.dropped_full += 1;
            return self.machine.discard(packet);
        }
        let high_watermark = of.high_watermark;
        self.machine.hand_over(QueueId::Path(path), packet);
        if waiting + 1 > high_watermark {
            self.filled(path);
        }
    }

    /// Returns the packets in the input queue of `path`.
    ///
    /// # Panics
    /// If there is no such path.
    pub fn queued(&self, path: usize) -> impl Iterator<Item = u64> {
        self.paths[path].queue.iter().copied()
    }
}
