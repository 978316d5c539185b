//! What the router runs on: ports, forwarding functions and time.

/// What a forwarding function says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To the output of this number in the plan.
    Send(usize),
    /// Nowhere.
    Drop,
    /// Nowhere: it was for the function itself, which may [make](Machine::make) others in its stead.
    Consume,
    /// Nowhere yet: the machine keeps the packet until it [gives it back](Machine::give_back).
    Hold,
}

/// A queue of another core's router, that a packet goes on to.
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

/// Ports, functions and time, as the router's processes use them.
///
/// A packet is the machine's own number, its *handle*: what it stands for the machine knows. Every
/// handle that [`receive`](Self::receive) or [`give_back`](Self::give_back) gives out comes back once, by
/// [`transmit`](Self::transmit), [`discard`](Self::discard) or as held by the function. Ports are numbered as in the plan,
/// inputs and outputs apart.
pub trait Machine {
    /// Whether asking for the time costs nothing. If not, it is asked once a run, and a batch's
    /// limit in time is kept by what packets took before.
    const FREE_CLOCK: bool;

    /// Nanoseconds since the start; never goes back.
    fn now_ns(&mut self) -> u64;

    /// Of a run that has just taken `took_ns`, the time in which the processor worked for others, ns; such a
    /// run is not charged for it. Only long runs are asked about.
    #[inline]
    fn steal_ns(&mut self, _took_ns: u64) -> u64 {
        0
    }

    /// A process is switched to.
    #[inline]
    fn dispatched(&mut self) {}

    /// A packet enters a queue between two processes.
    #[inline]
    fn handed_over(&mut self) {}

    /// Reads up to `most` packets from input `input` and classifies them: each goes to `into` with
    /// its path. Returns how many were read; those that no path is for are dropped by the machine.
    fn receive(&mut self, input: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize;

    /// Packets that waited at input `input` after the last [`receive`](Self::receive) beyond those it took, as far as
    /// its device tells; the throttle then need not find out by reading.
    #[inline]
    fn backlog(&self, _input: usize) -> usize {
        0
    }

    /// Applies the function of `path`.
    fn forward(&mut self, path: usize, packet: &mut u64) -> Verdict;

    /// Applies the function of `path` to packets in order; appends what it says of each.
    #[inline]
    fn forward_all(&mut self, path: usize, packets: &mut [u64], verdicts: &mut Vec<Verdict>) {
        verdicts.extend(packets.iter_mut().map(|packet| self.forward(path, packet)));
    }

    /// Packets that were held and are to be forwarded now, each with its path, the oldest first; with
    /// `all` every one that is held. It is asked after each run of an input process.
    #[inline]
    fn give_back(&mut self, _all: bool, _into: &mut Vec<(usize, u64)>) {}

    /// When the function of `path` wants to run though no packet has come for it, ns; a time that has passed: now.
    #[inline]
    fn due_ns(&self, _path: usize) -> u64 {
        u64::MAX
    }

    /// Packets that the function of `path` makes itself, `most` at most, and what it says of each. It is asked after
    /// each run of the path's process, and when one is [due](Self::due_ns).
    #[inline]
    fn make(&mut self, _path: usize, _most: usize, _into: &mut Vec<(Verdict, u64)>) {}

    /// The packet's length, bytes.
    fn bytes(&self, packet: u64) -> u32;

    /// How many packets output `output` would take at `now_ns`.
    fn room(&mut self, output: usize, now_ns: u64) -> usize;

    /// How many more packets a run at `now_ns` may give to output `output`, `most` at most, after
    /// `given`: so many packets, of so many bytes in all. No packet is longer than
    /// `longest_bytes`. A slow line takes one at a time.
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

    /// How long the line of output `output` has had nothing to carry until `now_ns`, ns in all; 0 if its time
    /// passes whatever it carries.
    #[inline]
    fn idle_ns(&self, _output: usize, _now_ns: u64) -> u64 {
        0
    }

    /// When an output without room is worth asking again, ns.
    fn room_at_ns(&mut self, output: usize, now_ns: u64) -> u64;

    /// Sends packets, in order; returns how many were taken. The others stay the router's.
    fn transmit(&mut self, output: usize, packets: &[u64]) -> usize;

    /// Packets that wait at `queue`, or are on their way to it.
    #[inline]
    fn waiting_remote(&self, _place: QueueId) -> usize {
        0
    }

    /// Gives a packet to the router that `queue` belongs to. Only asked where a router is
    /// [parted](crate::Router::part).
    #[inline]
    fn hand_over(&mut self, _place: QueueId, packet: u64) {
        self.discard(packet);
    }

    /// Packets have left the input queue of `path`; some may have been handed over by other routers.
    #[inline]
    fn left_queue(&mut self, _path: usize, _packets: &mut [u64]) {}

    /// A packet that was handed over has left the queue of `path` at `output`.
    #[inline]
    fn left_output(&self, _path: usize, _output: usize) {}

    /// A packet is dropped.
    fn discard(&mut self, packet: u64);
}
