//! The interface to the router's environment: ports, forwarding functions and time.

use millstream::flow_queue::Flow;

use crate::ids::{InputId, OutputId, PacketHandle, PathId};

/// A forwarding function's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it to the output of this number in the plan.
    Send(OutputId),
    /// Drop it.
    Drop,
    /// Consumed by the function, which may [make](Deferral::make) other packets.
    Consume,
    /// Deferred: the machine keeps the packet until it [returns it](Deferral::give_back).
    Hold,
}

/// A queue of another core's router: the destination of a packet that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueId {
    /// The input queue of a path.
    Path(PathId),
    /// The output queue of a path at an output.
    Output {
        /// The path.
        path: PathId,
        /// The output.
        output: OutputId,
    },
}

/// Ports, functions and time of a router's processes.
///
/// A packet is a [`PacketHandle`] of the machine. Each handle from [`receive`](Self::receive) or
/// [`give_back`](Deferral::give_back) ends in [`transmit`](Self::transmit),
/// [`discard`](Self::discard), or with the function. Inputs and outputs are numbered separately,
/// as in the plan. Optional parts are separate traits with default methods.
pub trait Machine: Accounting + Deferral + PacedLinks + MultiCore + Flows {
    /// Whether reading the clock costs nothing. If not, the router reads it once per run, and keeps
    /// a batch's time limit by the average time per packet.
    const FREE_CLOCK: bool;

    /// Returns the time since the start, ns; it is monotonic.
    fn now_ns(&mut self) -> u64;

    /// Reads up to `most` packets from input `input` and classifies them: appends each to `into`
    /// with its path. Returns how many it read; it drops packets that no path is for.
    fn receive(
        &mut self,
        input: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize;

    /// Returns the packets left at `input` after [`receive`](Self::receive), if the device knows;
    /// saves the throttle a read.
    #[inline]
    fn backlog(&self, _input: InputId) -> usize {
        0
    }

    /// Applies the function of `path`.
    fn forward(&mut self, path: PathId, packet: &mut PacketHandle) -> Verdict;

    /// Applies the function of `path` to packets in order; appends the verdict on each.
    #[inline]
    fn forward_all(
        &mut self,
        path: PathId,
        packets: &mut [PacketHandle],
        verdicts: &mut Vec<Verdict>,
    ) {
        verdicts.extend(packets.iter_mut().map(|packet| self.forward(path, packet)));
    }

    /// Returns the packet's length, bytes.
    fn bytes(&self, packet: PacketHandle) -> u32;

    /// Returns how many packets output `output` accepts at `now_ns`.
    fn room(&mut self, output: OutputId, now_ns: u64) -> usize;

    /// Returns when to call [`room`](Self::room) again for an output without room, ns.
    fn room_at_ns(&mut self, output: OutputId, now_ns: u64) -> u64;

    /// Sends packets, in order; returns how many were taken. The rest stay with the router.
    fn transmit(&mut self, output: OutputId, packets: &[PacketHandle]) -> usize;

    /// Drops a packet and frees its handle.
    fn discard(&mut self, packet: PacketHandle);
}

/// Optional: what a machine counts and charges besides packets.
pub trait Accounting {
    /// Returns the steal time of a run of `took_ns`, ns, which is not charged. Called for long runs
    /// only.
    #[inline]
    fn steal_ns(&mut self, _took_ns: u64) -> u64 {
        0
    }

    /// Called when the router switches to a process.
    #[inline]
    fn dispatched(&mut self) {}

    /// Called when a packet enters a queue between two processes.
    #[inline]
    fn handed_over(&mut self) {}
}

/// Optional: functions that hold packets back, or that make packets.
pub trait Deferral {
    /// Returns held packets to forward now, oldest first, with their paths; `all` returns every
    /// one. Called after each run of an input process.
    #[inline]
    fn give_back(&mut self, _all: bool, _into: &mut Vec<(PathId, PacketHandle)>) {}

    /// Returns when the function of `path` must run without a packet, ns; the past means now.
    #[inline]
    fn due_ns(&self, _path: PathId) -> u64 {
        u64::MAX
    }

    /// Appends up to `most` packets that the function of `path` makes, with verdicts. Called after
    /// each run of the path's process, and when it is [due](Self::due_ns).
    #[inline]
    fn make(&mut self, _path: PathId, _most: usize, _into: &mut Vec<(Verdict, PacketHandle)>) {}
}

/// Optional: outputs that are paced to a line rate.
pub trait PacedLinks {
    /// Returns how many more packets a run at `now_ns` may pass to output `output`, at most `most`,
    /// after `given` (packets, bytes on the wire). No packet is longer than `longest_bytes`. A
    /// paced link with a low rate accepts one packet at a time.
    #[inline]
    fn run_room(
        &self,
        _output: OutputId,
        _now_ns: u64,
        _given: (usize, u64),
        _longest_bytes: u32,
        most: usize,
    ) -> usize {
        most
    }

    /// Returns the length of a packet of `bytes` on the wire of output `output`, bytes.
    #[inline]
    fn wire_bytes(&self, _output: OutputId, bytes: u32) -> u64 {
        bytes.into()
    }

    /// Returns the total idle time of the link of `output` until `now_ns`, ns; 0 if idle time is
    /// not subtracted.
    #[inline]
    fn idle_ns(&self, _output: OutputId, _now_ns: u64) -> u64 {
        0
    }

    /// Returns the output of a packet that has passed an
    /// [ingress link](crate::OutputPlan::is_ingress).
    ///
    /// # Panics
    /// The default panics: a machine with ingress links implements it.
    #[inline]
    fn next_output(&self, _packet: PacketHandle) -> OutputId {
        unimplemented!("the machine has no ingress links")
    }
}

/// Optional: the flows of packets, for output queues by flow.
pub trait Flows {
    /// Returns the packet's flow.
    #[inline]
    fn flow(&self, _packet: PacketHandle) -> Flow {
        Flow::default()
    }

    /// Sets the ECN field of a packet to "congestion experienced".
    #[inline]
    fn mark(&mut self, _packet: PacketHandle) {}
}

/// Optional: queues and outputs that other cores own.
pub trait MultiCore {
    /// Returns the number of packets in a queue of another router, or in flight to it.
    #[inline]
    fn waiting_remote(&self, _queue: QueueId) -> usize {
        0
    }

    /// Hands a packet over to the router that owns the queue. Called only if the router is
    /// [one of several](crate::Router::set_remote_parts).
    #[inline]
    fn hand_over(&mut self, _queue: QueueId, packet: PacketHandle)
    where
        Self: Machine,
    {
        self.discard(packet);
    }

    /// Called when packets leave the input queue of `path`; other cores may have sent some.
    #[inline]
    fn left_queue(&mut self, _path: PathId, _packets: &mut [PacketHandle]) {}

    /// Called when a packet that was handed over leaves the queue of `path` at `output`.
    #[inline]
    fn left_output(&self, _path: PathId, _output: OutputId) {}
}
