//! The interface to the router's environment: ports, forwarding functions and time.

/// A forwarding function's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it to the output of this number in the plan.
    Send(usize),
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
    Path(usize),
    /// The output queue of a path at an output.
    Output {
        /// The path.
        path: usize,
        /// The output.
        output: usize,
    },
}

/// Ports, functions and time of a router's processes.
///
/// A packet is a *handle* of the machine. Each handle from [`receive`](Self::receive) or
/// [`give_back`](Deferral::give_back) ends in [`transmit`](Self::transmit),
/// [`discard`](Self::discard), or with the function. Inputs and outputs are numbered separately,
/// as in the plan. Optional parts have traits of their own, whose methods have defaults.
pub trait Machine: Accounting + Deferral + PacedLinks + MultiCore {
    /// Whether reading the clock costs nothing. If not, the router reads it once per run, and keeps
    /// a batch's time limit by the average time per packet.
    const FREE_CLOCK: bool;

    /// Returns the time since the start, ns; it is monotonic.
    fn now_ns(&mut self) -> u64;

    /// Reads up to `most` packets from input `input` and classifies them: appends each to `into`
    /// with its path. Returns how many it read; it drops packets that no path is for.
    fn receive(&mut self, input: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize;

    /// Returns the packets left at `input` after [`receive`](Self::receive), if the device knows;
    /// saves the throttle a read.
    #[inline]
    fn backlog(&self, _input: usize) -> usize {
        0
    }

    /// Applies the function of `path`.
    fn forward(&mut self, path: usize, packet: &mut u64) -> Verdict;

    /// Applies the function of `path` to packets in order; appends the verdict on each.
    #[inline]
    fn forward_all(&mut self, path: usize, packets: &mut [u64], verdicts: &mut Vec<Verdict>) {
        verdicts.extend(packets.iter_mut().map(|packet| self.forward(path, packet)));
    }

    /// Returns the packet's length, bytes.
    fn bytes(&self, packet: u64) -> u32;

    /// Returns how many packets output `output` accepts at `now_ns`.
    fn room(&mut self, output: usize, now_ns: u64) -> usize;

    /// Returns when to call [`room`](Self::room) again for an output without room, ns.
    fn room_at_ns(&mut self, output: usize, now_ns: u64) -> u64;

    /// Sends packets, in order; returns how many were taken. The rest stay with the router.
    fn transmit(&mut self, output: usize, packets: &[u64]) -> usize;

    /// Drops a packet and frees its handle.
    fn discard(&mut self, packet: u64);
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
    fn give_back(&mut self, _all: bool, _into: &mut Vec<(usize, u64)>) {}

    /// Returns when the function of `path` must run without a packet, ns; the past means now.
    #[inline]
    fn due_ns(&self, _path: usize) -> u64 {
        u64::MAX
    }

    /// Appends up to `most` packets that the function of `path` makes, with verdicts. Called after
    /// each run of the path's process, and when it is [due](Self::due_ns).
    #[inline]
    fn make(&mut self, _path: usize, _most: usize, _into: &mut Vec<(Verdict, u64)>) {}
}

/// Optional: outputs that are paced to a line rate.
pub trait PacedLinks {
    /// Returns how many more packets a run at `now_ns` may pass to output `output`, at most `most`,
    /// after `given` (packets, bytes). No packet is longer than `longest_bytes`. A paced link with
    /// a low rate accepts one packet at a time.
    #[inline]
    fn fits(
        &self,
        _output: usize,
        _now_ns: u64,
        _given: (usize, u64),
        _longest_bytes: u32,
        most: usize,
    ) -> usize {
        most
    }

    /// Returns the total idle time of the link of `output` until `now_ns`, ns; 0 if idle time is
    /// not subtracted.
    #[inline]
    fn idle_ns(&self, _output: usize, _now_ns: u64) -> u64 {
        0
    }
}

/// Optional: queues and outputs that other cores own.
pub trait MultiCore {
    /// Returns the number of packets in a queue of another router, or in flight to it.
    #[inline]
    fn waiting_remote(&self, _place: QueueId) -> usize {
        0
    }

    /// Hands a packet over to the router that owns the queue. Called only if the router is
    /// [parted](crate::Router::part).
    #[inline]
    fn hand_over(&mut self, _place: QueueId, packet: u64)
    where
        Self: Machine,
    {
        self.discard(packet);
    }

    /// Called when packets leave the input queue of `path`; other cores may have sent some.
    #[inline]
    fn left_queue(&mut self, _path: usize, _packets: &mut [u64]) {}

    /// Called when a packet that was handed over leaves the queue of `path` at `output`.
    #[inline]
    fn left_output(&self, _path: usize, _output: usize) {}
}
