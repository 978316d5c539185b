//! Real ports and real time, as the router's processes use them.

use crate::live::classifier::Classifier;
use crate::live::clock::Clock;
use crate::live::function::Forwarder;
use crate::live::header::Header;
use crate::live::pool::Pool;
use crate::live::port::{Port, PortError};
use crate::machine::{Machine, Verdict};

/// How far ahead of time a paced port is given packets, ns.
const AHEAD_NS: u64 = 20_000;
/// After how long a port that took nothing is tried again, ns.
const RETRY_NS: u64 = 10_000;

/// Where a port's packets went, beside what its processes count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Taken from the device.
    pub received: u64,
    /// Of them, dropped for want of a buffer, or because they are longer than one.
    pub unfit: u64,
    /// Given to the device.
    pub transmitted: u64,
}

struct Side<P> {
    port: P,
    mac: [u8; 6],
    rate_bps: u64,
    overhead_bytes: u32,
    /// When the line is done with all that it was given, ns.
    free_ns: u64,
    counters: PortCounters,
}

/// A machine with ports of one kind; `Box<dyn Port>` is any kind.
pub struct LiveMachine<P> {
    clock: Clock,
    pool: Pool,
    sides: Vec<Side<P>>,
    classifier: Classifier,
    function: Forwarder,
    received: Vec<u64>,
    /// No packet is received any more.
    closed: bool,
    failed: Option<PortError>,
}

impl<P: Port> LiveMachine<P> {
    /// A machine without ports.
    #[must_use]
    pub fn new(clock: Clock, pool: Pool, classifier: Classifier, function: Forwarder) -> Self {
        let (sides, received) = (Vec::new(), Vec::new());
        Self { clock, pool, sides, classifier, function, received, closed: false, failed: None }
    }

    /// Adds a port with its hardware address; packets leave at `rate_bps` and take
    /// `overhead_bytes` more than their length. Input and output of its number are this port.
    pub fn add(&mut self, port: P, mac: [u8; 6], rate_bps: u64, overhead_bytes: u32) {
        let counters = PortCounters::default();
        self.sides.push(Side { port, mac, rate_bps, overhead_bytes, free_ns: 0, counters });
    }

    /// Classifies and forwards by other rules and routes from now on; ports keep their own.
    pub fn reconfigure(&mut self, classifier: Classifier, function: Forwarder) {
        self.classifier = classifier;
        self.function = function;
    }

    /// Packets leave by `port` at another rate, and take another part of the wire beyond their length.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn set_rate(&mut self, port: usize, rate_bps: u64, overhead_bytes: u32) {
        let side = &mut self.sides[port];
        side.rate_bps = rate_bps;
        side.overhead_bytes = overhead_bytes;
    }

    /// Receives nothing from now on.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether nothing will come in any more.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.closed || self.sides.iter().all(|side| side.port.ended())
    }

    /// The first failure of a port, once.
    pub fn failure(&mut self) -> Option<PortError> {
        self.failed.take()
    }

    /// What a port's device did.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub fn counters(&self, port: usize) -> PortCounters {
        self.sides[port].counters
    }

    /// A port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn port_mut(&mut self, port: usize) -> &mut P {
        &mut self.sides[port].port
    }

    /// Buffers that are free.
    #[must_use]
    pub fn free_buffers(&self) -> usize {
        self.pool.free()
    }
}

impl<P: Port> Machine for LiveMachine<P> {
    const FREE_CLOCK: bool = false;

    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    #[inline]
    fn receive(&mut self, input: usize, most: usize, into: &mut Vec<(usize, u64)>) -> usize {
        if self.closed {
            return 0;
        }
        let side = &mut self.sides[input];
        let count = match side.port.receive(&mut self.pool, most, &mut self.received) {
            Ok(count) => count,
            Err(error) => {
                self.failed.get_or_insert(error);
                // What was received before it failed.
                self.received.len()
            }
        };
        side.counters.received += count as u64;
        side.counters.unfit += (count - self.received.len()) as u64;
        for packet in self.received.drain(..) {
            let header = Header::parse(self.pool.frame(packet));
            let path = header
                .filter(|header| header.to == side.mac)
                .and_then(|header| self.classifier.path(input, &header));
            match path {
                Some(path) => into.push((path, packet)),
                None => self.pool.release(packet),
            }
        }
        count
    }

    #[inline]
    fn forward(&mut self, _: usize, packet: &mut u64) -> Verdict {
        match self.function.forward(self.pool.frame_mut(*packet)) {
            Some(output) => Verdict::Send(output),
            None => Verdict::Drop,
        }
    }

    #[inline]
    fn bytes(&self, packet: u64) -> u32 {
        Pool::length(packet)
    }

    #[inline]
    fn room(&mut self, output: usize, now_ns: u64) -> usize {
        if self.sides[output].free_ns > now_ns + AHEAD_NS { 0 } else { usize::MAX }
    }

    fn room_at_ns(&mut self, output: usize, now_ns: u64) -> u64 {
        let free_ns = self.sides[output].free_ns.saturating_sub(AHEAD_NS);
        if free_ns > now_ns { free_ns } else { now_ns + RETRY_NS }
    }

    #[inline]
    fn transmit(&mut self, output: usize, packets: &[u64]) -> usize {
        if packets.is_empty() {
            return 0;
        }
        let side = &mut self.sides[output];
        let taken = match side.port.transmit(&mut self.pool, packets) {
            Ok(taken) => taken,
            Err(error) => {
                self.failed.get_or_insert(error);
                0
            }
        };
        side.counters.transmitted += taken as u64;
        let wire = |packet: &u64| u64::from(Pool::length(*packet) + side.overhead_bytes);
        let bits = packets[..taken].iter().map(wire).sum::<u64>() * 8;
        let took_ns = (bits * 1_000_000_000).div_ceil(side.rate_bps.max(1));
        side.free_ns = side.free_ns.max(self.clock.now_ns()) + took_ns;
        taken
    }

    #[inline]
    fn discard(&mut self, packet: u64) {
        self.pool.release(packet);
    }
}
