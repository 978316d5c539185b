//! Transfers that begin at random times, whether or not earlier ones have ended.
//!
//! The load that they offer does not depend on the network. Sizes and times are drawn together when
//! a transfer begins, so a stream's transfers are the same under every discipline. At the limit of
//! connections a transfer waits for the first one that is free, and its duration includes the wait.

use millstream_scenario::Tcp;
use millstream_traffic::Random;
use std::collections::VecDeque;

/// The transfers of one stream.
#[derive(Debug)]
pub(super) struct OpenTransfers<'a> {
    tcp: &'a Tcp,
    interval_ns: u64,
    stop_ns: u64,
    /// The number of connections so far.
    connections: u32,
    /// Connections without a transfer, the one that is idle for the longest time first.
    idle: VecDeque<u32>,
    /// When waiting transfers began to wait, ns, and their sizes, bytes.
    waiting: VecDeque<(u64, u64)>,
}

/// The connection of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// This one, which is idle.
    Idle(u32),
    /// A new one with this number in the stream.
    New(u32),
    /// None yet: the transfer waits.
    Waits,
}

impl<'a> OpenTransfers<'a> {
    /// Returns the transfers of a source that stops at `stop_ns` at the latest; `None` if they do
    /// not begin at random times.
    pub(super) fn new(tcp: &'a Tcp, stop_ns: u64) -> Option<Self> {
        Some(Self {
            tcp,
            interval_ns: tcp.interval_ns?,
            stop_ns: tcp.stop_ns.min(stop_ns),
            connections: 0,
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
        })
    }

    /// Returns the parameters of the connections.
    pub(super) fn tcp(&self) -> &'a Tcp {
        self.tcp
    }

    /// Draws the time to the next transfer, ns.
    pub(super) fn gap_ns(&self, random: &mut Random) -> u64 {
        exponential_ns(self.interval_ns, random)
    }

    /// Draws the size of the transfer that begins at `now_ns`, bytes; `None` after the last.
    pub(super) fn size(&self, now_ns: u64, random: &mut Random) -> Option<u64> {
        let sizes = self.tcp.transfer.as_ref().filter(|_| now_ns < self.stop_ns)?;
        Some(sizes.draw(random))
    }

    /// Returns the connection of a transfer of `bytes` that begins at `now_ns`.
    pub(super) fn admit(&mut self, now_ns: u64, bytes: u64) -> Admission {
        if let Some(connection) = self.idle.pop_front() {
            return Admission::Idle(connection);
        }
        if self.connections < self.tcp.connections {
            self.connections += 1;
            return Admission::New(self.connections - 1);
        }
        self.waiting.push_back((now_ns, bytes));
        Admission::Waits
    }

    /// Returns when the transfer began to wait, ns, that gets a connection which is free at
    /// `now_ns`, and its size, bytes; `None` if none waits.
    pub(super) fn released(&mut self, connection: u32, now_ns: u64) -> Option<(u64, u64)> {
        let next = if now_ns < self.stop_ns { self.waiting.pop_front() } else { None };
        if next.is_none() {
            self.idle.push_back(connection);
        }
        next
    }
}

/// Draws an exponentially distributed time with this mean, ns.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
pub(super) fn exponential_ns(mean_ns: u64, random: &mut Random) -> u64 {
    (random.exponential() * mean_ns as f64).round() as u64
}
