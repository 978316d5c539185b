//! One run of each kind of process.

use millstream::{Packet, StreamId};

use super::{Process, Router, Step};
use crate::ids::{InputId, OutputId, PacketHandle, PathId, ProcessId};
use crate::router::machine::{Machine, QueueId, Verdict};
use crate::router::plan::{Stages, WhenFull};

impl<M: Machine> Router<M> {
    /// Runs an input process: READ, CLASSIFY, ENQUEUE. Returns the number of packets read.
    pub(super) fn run_input(&mut self, input: InputId) -> u32 {
        let mut most = self.batch.packets as usize;
        if self.inputs[input].when_full == WhenFull::Wait {
            if self.room < most {
                let room = self.paths.ids().map(|path| self.queue_room(path)).min();
                self.room = room.unwrap_or(usize::MAX);
            }
            most = most.min(self.room);
        }
        if self.stages == Stages::One {
            most = most.min(
                self.direct_room(self.outputs.ids().next(), self.numbers.id(Process::Input(input))),
            );
        }
        let mut read = std::mem::take(&mut self.read);
        let count = self.machine.receive(input, most, &mut read);
        let counters = &mut self.inputs[input].counters;
        counters.read += count as u64;
        counters.unclassified += (count - read.len()) as u64;
        self.room -= read.len().min(self.room);
        if self.stages == Stages::One {
            self.forward_received(input, &read);
            read.clear();
        }
        for (path, packet) in read.drain(..) {
            let of = &mut self.paths[path];
            of.counters.received += 1;
            if of.drops | of.is_remote {
                self.drop_or_hand_over(input, path, packet);
                continue;
            }
            if of.queue.len() >= of.limit {
                of.counters.dropped_full += 1;
                self.machine.discard(packet);
                continue;
            }
            self.machine.handed_over();
            self.put_into_queue(path, packet);
        }
        self.machine.give_back(false, &mut read);
        if !read.is_empty() {
            self.requeue_returned(&mut read);
        }
        self.read = read;
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Forwards received packets in the run of their input process.
    #[inline]
    fn forward_received(&mut self, input: InputId, read: &[(PathId, PacketHandle)]) {
        for alike in read.chunk_by(|a, b| a.0 == b.0) {
            let path = alike[0].0;
            let of = &mut self.paths[path];
            of.counters.received += alike.len() as u64;
            let packets = alike.iter().map(|(_, packet)| *packet);
            if of.drops | of.is_remote {
                packets.for_each(|packet| self.drop_or_hand_over(input, path, packet));
            } else {
                self.forward_direct(path, packets);
            }
        }
    }

    /// Drops a received packet by action, or hands it over to the core of its path.
    fn drop_or_hand_over(&mut self, input: InputId, path: PathId, packet: PacketHandle) {
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
            self.mark_full(path);
        }
    }

    /// Enqueues a packet that another router handed over; `refused`: the output's NAT drops it.
    ///
    /// # Panics
    /// Panics if `queue` does not exist.
    pub fn arrived(&mut self, queue: QueueId, packet: PacketHandle, refused: bool) {
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
                self.put_into_link(path, self.now_ns, (output, stream), &[packet]);
            }
        }
    }

    /// Reads a batch from the next input that has packets; `None` if none has.
    #[cold]
    pub(super) fn run_interrupted(&mut self) -> Option<Step> {
        for _ in 0..self.inputs.len() {
            let input = self.interrupts.next_input(self.inputs.len());
            let began_ns = self.now_ns;
            let moved = self.run_input(input);
            if moved > 0 {
                self.machine.dispatched();
            }
            self.now_ns = self.machine.now_ns();
            if moved > 0 {
                self.interrupts.found_packets();
                let process = Process::Input(input);
                let counters = &mut self.processes[self.numbers.id(process)];
                counters.runs += 1;
                counters.packets += u64::from(moved);
                counters.busy_ns += self.now_ns - began_ns;
                return Some(Step::Ran(process, moved));
            }
        }
        None
    }

    /// Returns how many more packets the input queue of `path` can hold.
    #[inline]
    fn queue_room(&self, path: PathId) -> usize {
        let of = &self.paths[path];
        let waiting = if of.is_remote {
            self.machine.waiting_remote(QueueId::Path(path))
        } else {
            of.queue.len()
        };
        of.limit.saturating_sub(waiting)
    }

    #[inline]
    pub(super) fn put_into_queue(&mut self, path: PathId, packet: PacketHandle) {
        let of = &mut self.paths[path];
        of.queue.push_back(packet);
        let waiting = of.queue.len();
        if waiting > of.high_watermark {
            self.mark_full(path);
        }
        // A path that waits for output room is refreshed when an output has room again.
        if waiting == 1 {
            self.wait_for_batch(path);
            self.refresh_path(path);
        } else if self.batch_waits.complete(path, waiting) {
            self.refresh_path(path);
        }
    }

    /// Puts packets that the machine held at the head of their path's queue: they arrived first.
    #[cold]
    pub(super) fn requeue_returned(&mut self, back: &mut Vec<(PathId, PacketHandle)>) {
        for (path, packet) in back.drain(..).rev() {
            let of = &mut self.paths[path];
            of.held -= 1;
            if of.queue.len() >= of.limit {
                of.counters.dropped_full += 1;
                self.machine.discard(packet);
                continue;
            }
            of.queue.push_front(packet);
            self.room = 0;
            if of.queue.len() > of.high_watermark {
                self.mark_full(path);
            }
            self.refresh_path(path);
        }
    }

    /// Runs a forwarding process: takes packets from the input queue, applies the function, and
    /// puts them into output queues. Returns the number of packets moved.
    pub(super) fn run_forward(&mut self, path: PathId) -> u32 {
        let of = &self.paths[path];
        let mut most = of.queue.len().min(self.batch.packets as usize);
        if self.stages == Stages::Three {
            most = most.min(self.output_room(path));
        } else {
            let first = self.paths[path].outputs.first().copied();
            most = most.min(self.direct_room(first, self.numbers.id(Process::Forward(path))));
        }
        if M::FREE_CLOCK {
            return self.forward_until(path, most, self.now_ns.saturating_add(self.batch.time_ns));
        }
        if self.batch.time_ns != u64::MAX {
            let fit = self.batch.time_ns / self.paths[path].packet_ns.max(1);
            most = most.min(usize::try_from(fit).unwrap_or(usize::MAX).max(1));
        }
        self.forward_batch(path, most);
        let made = self.make(path);
        u32::try_from(most + made).unwrap_or(u32::MAX)
    }

    /// Forwards up to `most` packets one by one; begins no packet after `until_ns`, but at least
    /// one. Returns the number of packets moved.
    fn forward_until(&mut self, path: PathId, most: usize, until_ns: u64) -> u32 {
        let mut moved = 0;
        while moved < most && (moved == 0 || self.machine.now_ns() < until_ns) {
            let Some(mut packet) = self.paths[path].queue.pop_front() else { break };
            self.left_queue(path);
            if self.is_multi_core {
                self.machine.left_queue(path, std::slice::from_mut(&mut packet));
            }
            if self.stages == Stages::Three {
                let verdict = self.machine.forward(path, &mut packet);
                let now_ns = self.machine.now_ns();
                self.put_by_verdict(path, now_ns, verdict, &[packet]);
            } else {
                self.forward_direct(path, std::iter::once(packet));
            }
            moved += 1;
        }
        u32::try_from(moved).unwrap_or(u32::MAX)
    }

    /// Takes packets that the function of `path` makes, up to the output's room; returns their
    /// number.
    #[inline]
    fn make(&mut self, path: PathId) -> usize {
        let due_ns = self.machine.due_ns(path);
        if due_ns == u64::MAX {
            return 0;
        }
        self.sleepers.watch(path);
        let mut made = std::mem::take(&mut self.made);
        let most = self.output_room(path).min(self.batch.packets as usize);
        self.machine.make(path, most, &mut made);
        let count = made.len();
        self.paths[path].counters.made += count as u64;
        for (verdict, packet) in made.drain(..) {
            self.put_by_verdict(path, self.now_ns, verdict, &[packet]);
        }
        self.made = made;
        // A function that is due already needs no wake-up: the process is eligible, or waits for
        // room.
        let due_ns = self.machine.due_ns(path);
        if due_ns > self.now_ns {
            self.sleepers.wake_by(due_ns);
        }
        count
    }

    /// Forwards `most` packets as one batch.
    #[inline]
    fn forward_batch(&mut self, path: PathId, most: usize) {
        let mut packets = std::mem::take(&mut self.batch_packets);
        let queue = &mut self.paths[path].queue;
        let (front, back) = queue.as_slices();
        let first = most.min(front.len());
        packets.extend_from_slice(&front[..first]);
        packets.extend_from_slice(&back[..most - first]);
        queue.drain(..most);
        self.left_queue(path);
        if self.is_multi_core {
            self.machine.left_queue(path, &mut packets);
        }
        if self.stages == Stages::Three {
            let mut verdicts = std::mem::take(&mut self.verdicts);
            self.machine.forward_all(path, &mut packets, &mut verdicts);
            let mut rest = &packets[..];
            for alike in verdicts.chunk_by(PartialEq::eq) {
                let (now, later) = rest.split_at(alike.len());
                self.put_by_verdict(path, self.now_ns, alike[0], now);
                rest = later;
            }
            verdicts.clear();
            self.verdicts = verdicts;
        } else {
            self.forward_direct(path, packets.iter().copied());
        }
        packets.clear();
        self.batch_packets = packets;
    }

    /// Marks the input queue of `path` as above its high watermark.
    #[inline]
    pub(super) fn mark_full(&mut self, path: PathId) {
        if !std::mem::replace(&mut self.paths[path].full, true) {
            self.full += 1;
            if self.full == 1 {
                self.refresh_inputs();
            }
        }
    }

    /// Updates `full` after packets have left the input queue of `path`.
    #[inline]
    fn left_queue(&mut self, path: PathId) {
        let of = &mut self.paths[path];
        if of.full && of.queue.len() <= of.high_watermark {
            self.clear_full(path);
        }
    }

    #[inline]
    pub(super) fn clear_full(&mut self, path: PathId) {
        self.paths[path].full = false;
        self.full -= 1;
        if self.full == 0 {
            self.refresh_inputs();
        }
    }

    /// Runs an output process: SELECT, DEQUEUE, WRITE. Returns the number of packets sent.
    pub(super) fn run_output(&mut self, output: OutputId) -> u32 {
        let id = self.numbers.id(Process::Output(output));
        let most = self.machine.room(output, self.now_ns).min(self.batch.packets as usize);
        let longest_bytes = self.outputs[output].longest_bytes;
        let fit = match most {
            0 => 0,
            most => self.machine.run_room(output, self.now_ns, (0, 0), longest_bytes, most),
        };
        if fit == 0 {
            let until_ns = self.machine.room_at_ns(output, self.now_ns);
            self.sleepers.sleep(id, until_ns.max(self.now_ns + 1));
            return 0;
        }
        let now_ns = self.clock_ns();
        let link_ns = self.link_time(output, now_ns);
        let mut chosen = std::mem::take(&mut self.chosen);
        while chosen.len() < fit
            && let Some(packet) = self.outputs[output].staged.pop_front()
        {
            chosen.push(packet);
        }
        let (of, paths, cpu) = (&mut self.outputs[output], &mut self.paths, &self.cpu);
        let (freed, numbers, machine) = (&mut self.freed, self.numbers, &self.machine);
        let (is_ingress, passed_by) = (of.is_ingress, &mut self.passed_by);
        let mut fit = fit;
        // First as many packets as fit at the longest length; then more, by their real lengths.
        while chosen.len() < fit {
            of.link.decide_all(link_ns, fit - chosen.len(), &mut self.events, |departure| {
                let id = of.paths[departure.stream.index()];
                let path = &mut paths[id];
                if is_ingress {
                    passed_by.push(id);
                } else {
                    path.counters.sent += 1;
                    path.counters.sent_bytes += u64::from(departure.bytes);
                }
                chosen.push(PacketHandle::from_bits(departure.tag));
                if path.is_remote {
                    machine.left_output(id, output);
                }
                let wants = !path.queue.is_empty() || machine.due_ns(id) <= now_ns;
                let may_run = wants && !cpu.eligible(numbers.id(Process::Forward(id)));
                if may_run && !std::mem::replace(&mut path.freed, true) {
                    freed.push(id);
                }
            });
            if chosen.len() < fit || fit == most {
                break;
            }
            let wire = |packet: &PacketHandle| machine.wire_bytes(output, machine.bytes(*packet));
            let given = (fit, chosen.iter().map(wire).sum());
            fit += machine.run_room(output, self.now_ns, given, longest_bytes, most - fit);
        }
        if of.link.total_waiting() == 0 && of.staged.is_empty() {
            of.longest_bytes = 0;
        }
        of.held_back = chosen.is_empty() && of.link.total_waiting() > 0;
        while let Some(path) = self.freed.pop() {
            self.paths[path].freed = false;
            self.refresh_path(path);
        }
        self.apply_link_events(output);
        let taken = self.machine.transmit(output, &chosen);
        if is_ingress {
            self.pass_on(&chosen[..taken]);
        }
        let idle_ns = self.machine.idle_ns(output, self.now_ns);
        let of = &mut self.outputs[output];
        // The chosen packets waited until now: the thread may have been preempted since.
        of.time.idle(idle_ns, !chosen.is_empty());
        for packet in chosen.drain(..).skip(taken).rev() {
            of.longest_bytes = of.longest_bytes.max(self.machine.bytes(packet));
            of.staged.push_front(packet);
        }
        self.chosen = chosen;
        if taken == 0 {
            // Rate caps hold back every backlogged path, or the port took nothing.
            let of = &self.outputs[output];
            let until_ns = if of.staged.is_empty() {
                of.link.next_eligible_ns().map_or(0, |at_ns| at_ns + of.time.lost_ns)
            } else {
                self.machine.room_at_ns(output, now_ns)
            };
            if until_ns > 0 {
                self.sleepers.sleep(id, until_ns.max(self.now_ns + 1));
            }
        }
        u32::try_from(taken).unwrap_or(u32::MAX)
    }

    /// Puts packets that an ingress link has sent into the queues of the outputs by which they
    /// leave. Each path's process has left room there when it forwarded them.
    fn pass_on(&mut self, packets: &[PacketHandle]) {
        let mut passed_by = std::mem::take(&mut self.passed_by);
        for (path, packet) in passed_by.drain(..).zip(packets) {
            let verdict = Verdict::Send(self.machine.next_output(*packet));
            self.put_by_verdict(path, self.now_ns, verdict, &[*packet]);
        }
        self.passed_by = passed_by;
    }

    /// Marks and drops the packets that the link's scheduler has chosen for it.
    #[inline]
    fn apply_link_events(&mut self, output: OutputId) {
        if !self.events.dropped.is_empty() || !self.events.marked.is_empty() {
            self.apply_some_link_events(output);
        }
    }

    #[cold]
    fn apply_some_link_events(&mut self, output: OutputId) {
        while let Some((stream, packet)) = self.events.marked.pop() {
            let path = self.outputs[output].paths[stream.index()];
            self.paths[path].counters.marked += 1;
            self.machine.mark(packet);
        }
        while let Some((stream, event, packet)) = self.events.dropped.pop() {
            let path = self.outputs[output].paths[stream.index()];
            self.paths[path].counters.count_link_drop(event);
            if self.paths[path].is_remote {
                self.machine.left_output(path, output);
            }
            self.machine.discard(packet);
            self.refresh_path(path);
        }
    }

    #[cold]
    fn refresh_inputs(&mut self) {
        for input in self.inputs.ids() {
            if self.inputs[input].when_full == WhenFull::Wait {
                self.refresh(self.numbers.id(Process::Input(input)));
            }
        }
    }

    /// Returns the time within a run, ns: the start of the run if clock reads are not free.
    #[inline]
    fn clock_ns(&mut self) -> u64 {
        if M::FREE_CLOCK { self.machine.now_ns() } else { self.now_ns }
    }

    /// Applies one verdict to all `packets`: enqueues, hands over, drops or holds them.
    #[inline]
    fn put_by_verdict(
        &mut self,
        path: PathId,
        now_ns: u64,
        verdict: Verdict,
        packets: &[PacketHandle],
    ) {
        let of = &mut self.paths[path];
        let many = packets.len() as u64;
        let stream = match verdict {
            Verdict::Drop => {
                of.counters.dropped_by_function += many;
                None
            }
            Verdict::Consume => {
                of.counters.consumed += many;
                None
            }
            Verdict::Hold => {
                of.held += packets.len();
                return;
            }
            Verdict::Send(output) => {
                let stream = of.streams.get(output).copied().flatten();
                if stream.is_none() {
                    of.counters.dropped_wrong_output += many;
                }
                stream.map(|stream| (output, stream))
            }
        };
        let Some((output, stream)) = stream else {
            return packets.iter().for_each(|packet| self.machine.discard(*packet));
        };
        if self.outputs[output].is_remote {
            let queue = QueueId::Output { path, output };
            return packets.iter().for_each(|packet| self.machine.hand_over(queue, *packet));
        }
        self.put_into_link(path, now_ns, (output, stream), packets);
    }

    /// Enqueues packets of `path` at a local output.
    #[inline]
    fn put_into_link(
        &mut self,
        path: PathId,
        now_ns: u64,
        (output, stream): (OutputId, StreamId),
        packets: &[PacketHandle],
    ) {
        if self.paths[path].has_flows {
            return self.put_into_flows(now_ns, (output, stream), packets);
        }
        let link_ns = self.link_time(output, now_ns);
        let (machine, of) = (&mut self.machine, &mut self.outputs[output]);
        let longest_bytes = &mut of.longest_bytes;
        let described = packets.iter().map(|packet| describe(machine, longest_bytes, *packet));
        let first = of.link.waiting(stream) == 0;
        of.link.enqueue_all(link_ns, stream, described);
        self.refresh_output(output, first);
    }

    /// Enqueues packets of a path with flows at a local output.
    fn put_into_flows(
        &mut self,
        now_ns: u64,
        (output, stream): (OutputId, StreamId),
        packets: &[PacketHandle],
    ) {
        let link_ns = self.link_time(output, now_ns);
        let (machine, of) = (&mut self.machine, &mut self.outputs[output]);
        let longest_bytes = &mut of.longest_bytes;
        let described = packets
            .iter()
            .map(|packet| (describe(machine, longest_bytes, *packet), machine.flow(*packet)));
        let first = of.link.waiting(stream) == 0;
        of.link.enqueue_flows(link_ns, stream, described, &mut self.events);
        self.apply_link_events(output);
        self.refresh_output(output, first);
    }

    /// Updates `output` after packets entered a queue there; `first`: the queue was empty.
    #[inline]
    pub(super) fn refresh_output(&mut self, output: OutputId, first: bool) {
        let id = self.numbers.id(Process::Output(output));
        if first && self.outputs[output].held_back && self.sleepers.is_asleep(id) {
            // The process sleeps until a cap opens; the cap of this queue may be open now.
            self.sleepers.end_sleep(id);
        }
        if !self.cpu.eligible(id) {
            self.refresh(id);
        }
    }

    /// Forwards packets to the port at once, without an output process.
    fn forward_direct(&mut self, path: PathId, packets: impl Iterator<Item = PacketHandle>) {
        // Counts in registers: a counter in memory would delay each packet by a store.
        let (mut sent, mut sent_bytes) = (0, 0);
        for mut packet in packets {
            let verdict = self.machine.forward(path, &mut packet);
            let of = &mut self.paths[path];
            match verdict {
                Verdict::Drop => of.counters.dropped_by_function += 1,
                Verdict::Consume => of.counters.consumed += 1,
                Verdict::Hold => {
                    of.held += 1;
                    continue;
                }
                Verdict::Send(output) => {
                    let bytes = self.machine.bytes(packet);
                    if self.outputs.get(output).is_some()
                        && self.machine.transmit(output, &[packet]) == 1
                    {
                        sent += 1;
                        sent_bytes += u64::from(bytes);
                        continue;
                    }
                    of.counters.dropped_wrong_output += 1;
                }
            }
            self.machine.discard(packet);
        }
        let counters = &mut self.paths[path].counters;
        counters.sent += sent;
        counters.sent_bytes += sent_bytes;
    }

    /// Returns the number of packets that the port accepts from a process that writes to it
    /// directly. Without room, the process sleeps.
    fn direct_room(&mut self, output: Option<OutputId>, id: ProcessId) -> usize {
        let Some(output) = output else { return usize::MAX };
        let room = self.machine.room(output, self.now_ns);
        if room == 0 {
            let until_ns = self.machine.room_at_ns(output, self.now_ns);
            self.sleepers.sleep(id, until_ns.max(self.now_ns + 1));
        }
        room
    }
}

/// Returns a packet as the link's scheduler sees it, and updates the longest length.
#[inline]
fn describe(machine: &mut impl Machine, longest_bytes: &mut u32, packet: PacketHandle) -> Packet {
    machine.handed_over();
    let bytes = machine.bytes(packet);
    *longest_bytes = bytes.max(*longest_bytes);
    Packet { bytes, tag: packet.to_bits() }
}

#[cfg(test)]
mod tests;
