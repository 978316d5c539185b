//! One run of each kind of process.

use millstream::Packet;

use super::{Process, Router};
use crate::machine::{Machine, Verdict};
use crate::plan::{Stages, WhenFull};

/// What a packet took is averaged over about 2^3 batches.
const AVERAGE_SHIFT: u32 = 3;

impl<M: Machine> Router<M> {
    /// READ, CLASSIFY, ENQUEUE.
    pub(super) fn run_input(&mut self, input: usize) -> u32 {
        let mut most = self.batch.packets as usize;
        if self.inputs[input].when_full == WhenFull::Wait {
            let room = self.paths.iter().map(|path| path.limit - path.queue.len()).min();
            most = most.min(room.unwrap_or(most));
        }
        if self.stages == Stages::One {
            most = most.min(self.direct_room((0..self.outputs.len()).min(), input));
        }
        let mut read = std::mem::take(&mut self.read);
        let count = self.machine.receive(input, most, &mut read);
        let counters = &mut self.inputs[input].counters;
        counters.read += count as u64;
        counters.unclassified += (count - read.len()) as u64;
        for (path, packet) in read.drain(..) {
            let of = &mut self.paths[path];
            of.counters.received += 1;
            if self.stages == Stages::One {
                self.forward_direct(path, packet);
                continue;
            }
            if of.queue.len() >= of.limit {
                of.counters.dropped_full += 1;
                self.machine.discard(packet);
                continue;
            }
            self.machine.handed_over();
            of.queue.push_back(packet);
            if of.queue.len() == of.limit {
                self.full += 1;
                if self.full == 1 {
                    self.refresh_inputs();
                }
            }
            let number = self.inputs.len() + path;
            if !self.cpu.eligible(number) {
                self.refresh(number);
            }
        }
        self.read = read;
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Takes packets from the input queue, applies the function, puts them into an output queue.
    pub(super) fn run_forward(&mut self, path: usize) -> u32 {
        let of = &self.paths[path];
        let mut most = of.queue.len().min(self.batch.packets as usize);
        if self.stages == Stages::Three {
            most = most.min(self.output_room(path));
        } else {
            let first = self.paths[path].outputs.first().copied();
            most = most.min(self.direct_room(first, self.number(Process::Forward(path))));
        }
        let began_ns = self.now_ns;
        let until_ns = began_ns.saturating_add(self.batch.time_ns);
        if !M::FREE_CLOCK && self.batch.time_ns != u64::MAX {
            let fit = self.batch.time_ns / self.paths[path].packet_ns.max(1);
            most = most.min(usize::try_from(fit).unwrap_or(usize::MAX).max(1));
        }
        let mut moved = 0;
        while moved < most && (!M::FREE_CLOCK || moved == 0 || self.machine.now_ns() < until_ns) {
            let of = &mut self.paths[path];
            let Some(packet) = of.queue.pop_front() else { break };
            if of.queue.len() + 1 == of.limit {
                self.full -= 1;
                if self.full == 0 {
                    self.refresh_inputs();
                }
            }
            if self.stages == Stages::Three {
                self.forward_queued(path, packet);
            } else {
                self.forward_direct(path, packet);
            }
            moved += 1;
        }
        if !M::FREE_CLOCK && self.batch.time_ns != u64::MAX && moved > 0 {
            let took_ns = (self.machine.now_ns() - began_ns) / moved as u64;
            let average = &mut self.paths[path].packet_ns;
            *average = (*average + took_ns.saturating_sub(*average).div_ceil(1 << AVERAGE_SHIFT))
                .saturating_sub(average.saturating_sub(took_ns).div_ceil(1 << AVERAGE_SHIFT));
        }
        u32::try_from(moved).unwrap_or(u32::MAX)
    }

    /// SELECT, DEQUEUE, WRITE.
    pub(super) fn run_output(&mut self, output: usize) -> u32 {
        let number = self.number(Process::Output(output));
        let room = self.machine.room(output, self.now_ns);
        if room == 0 {
            let until_ns = self.machine.room_at_ns(output, self.now_ns);
            self.sleep(number, until_ns.max(self.now_ns + 1));
            return 0;
        }
        let most = room.min(self.batch.packets as usize);
        let now_ns = self.clock_ns();
        let mut chosen = std::mem::take(&mut self.chosen);
        let retried = self.outputs[output].staged.len().min(most);
        chosen.extend(self.outputs[output].staged.drain(..retried));
        while chosen.len() < most {
            let of = &mut self.outputs[output];
            let Some(departure) = of.link.decide(now_ns, &mut self.late) else { break };
            let path = of.paths[departure.stream.index()];
            let counters = &mut self.paths[path].counters;
            counters.sent += 1;
            counters.sent_bytes += u64::from(departure.bytes);
            chosen.push(departure.tag);
            self.refresh_path(path);
        }
        self.forget_late(output);
        let taken = self.machine.transmit(output, &chosen);
        let of = &mut self.outputs[output];
        for packet in chosen.drain(..).skip(taken).rev() {
            of.staged.push_front(packet);
        }
        self.chosen = chosen;
        if taken == 0 {
            // Every path that waits is held back by its rate cap, or the port took nothing.
            let of = &self.outputs[output];
            let until_ns = if of.staged.is_empty() {
                of.link.next_eligible_ns().unwrap_or(0)
            } else {
                self.machine.room_at_ns(output, now_ns)
            };
            if until_ns > 0 {
                self.sleep(number, until_ns.max(self.now_ns + 1));
            }
        }
        u32::try_from(taken).unwrap_or(u32::MAX)
    }

    fn forget_late(&mut self, output: usize) {
        while let Some((stream, packet)) = self.late.0.pop() {
            let path = self.outputs[output].paths[stream.index()];
            self.paths[path].counters.dropped_late += 1;
            self.machine.discard(packet);
            self.refresh_path(path);
        }
    }

    #[inline]
    fn refresh_path(&mut self, path: usize) {
        let number = self.inputs.len() + path;
        if !self.cpu.eligible(number) {
            self.refresh(number);
        }
    }

    #[cold]
    fn refresh_inputs(&mut self) {
        for input in 0..self.inputs.len() {
            if self.inputs[input].when_full == WhenFull::Wait {
                self.refresh(input);
            }
        }
    }

    /// The time of what happens within a run.
    #[inline]
    fn clock_ns(&mut self) -> u64 {
        if M::FREE_CLOCK { self.machine.now_ns() } else { self.now_ns }
    }

    #[inline]
    fn forward_queued(&mut self, path: usize, mut packet: u64) {
        let verdict = self.machine.forward(path, &mut packet);
        let now_ns = self.clock_ns();
        let of = &mut self.paths[path];
        let Verdict::Send(output) = verdict else {
            of.counters.dropped_by_function += 1;
            return self.machine.discard(packet);
        };
        let Some(stream) = of.streams.get(output).copied().flatten() else {
            of.counters.dropped_elsewhere += 1;
            return self.machine.discard(packet);
        };
        self.machine.handed_over();
        let described = Packet { bytes: self.machine.bytes(packet), tag: packet };
        let queued = self.outputs[output].link.enqueue(now_ns, stream, described);
        debug_assert!(queued.is_ok(), "the router's limit is the only one");
        let number = self.number(Process::Output(output));
        if !self.cpu.eligible(number) {
            self.refresh(number);
        }
    }

    /// Without an output process: to the port at once.
    fn forward_direct(&mut self, path: usize, mut packet: u64) {
        let verdict = self.machine.forward(path, &mut packet);
        let counters = &mut self.paths[path].counters;
        match verdict {
            Verdict::Drop => counters.dropped_by_function += 1,
            Verdict::Send(output) => {
                let bytes = self.machine.bytes(packet);
                if output < self.outputs.len() && self.machine.transmit(output, &[packet]) == 1 {
                    counters.sent += 1;
                    counters.sent_bytes += u64::from(bytes);
                    return;
                }
                counters.dropped_elsewhere += 1;
            }
        }
        self.machine.discard(packet);
    }

    /// What the port takes of a process that writes to it itself; without room, the process sleeps.
    fn direct_room(&mut self, output: Option<usize>, number: usize) -> usize {
        let Some(output) = output else { return usize::MAX };
        let room = self.machine.room(output, self.now_ns);
        if room == 0 {
            let until_ns = self.machine.room_at_ns(output, self.now_ns);
            self.sleep(number, until_ns.max(self.now_ns + 1));
        }
        room
    }
}
