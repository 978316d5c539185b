//! The adaptive links of a core: their rates follow the delay beyond their line.
//!
//! A *line* is a port's device: an outgoing link of the port and an ingress link of its arrivals
//! share it, and its delays.

use crate::ids::{PacketHandle, PathId, PortId};
use crate::io::port::Port;
use crate::live::autorate::{Autorate, Limits, Observed, TICK_NS};
use crate::live::machine::ports::Ports;
use crate::net::pool::Pool;
use crate::net::round_trips::RoundTrips;

/// The most decisions made at once, after a time without any.
const MOST_TICKS: u64 = 64;

/// A link with `autorate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdaptiveLink {
    /// The port with the link.
    pub(crate) port: PortId,
    /// The port of the device that delays are measured at.
    pub(crate) line: PortId,
    pub(crate) limits: Limits,
}

/// A link and its rate.
struct LinkState {
    link: AdaptiveLink,
    law: Autorate,
    /// The bytes that it had sent at the last decision, on the wire.
    sent_bytes: u64,
    /// What it carried since, bits/s.
    carried_bps: u64,
}

/// All adaptive links.
pub(super) struct LineRates {
    links: Vec<LinkState>,
    lines: Vec<(PortId, RoundTrips)>,
    /// The time of the last decision, ns.
    last_ns: u64,
    /// The time of the next one, ns; never without links.
    due_ns: u64,
}

impl Default for LineRates {
    fn default() -> Self {
        Self { links: Vec::new(), lines: Vec::new(), last_ns: 0, due_ns: u64::MAX }
    }
}

impl LineRates {
    /// Sets the links. A link and a line that it had keep their rate and delays.
    pub(super) fn set<P: Port>(&mut self, links: &[AdaptiveLink], ports: &mut Ports<P>) {
        let mut old = std::mem::take(&mut self.links);
        for link in links {
            let at = old.iter().position(|of| of.link.port == link.port);
            let mut state = at.map_or_else(
                || LinkState {
                    link: *link,
                    law: Autorate::new(link.limits),
                    sent_bytes: ports.link(link.port).sent_bytes(),
                    carried_bps: 0,
                },
                |at| old.swap_remove(at),
            );
            state.link = *link;
            state.law.set_limits(link.limits);
            ports.link_mut(link.port).set_rate(state.law.rate_bps());
            self.links.push(state);
        }
        self.lines.retain(|(line, _)| links.iter().any(|link| link.line == *line));
        for link in links {
            if !self.lines.iter().any(|(line, _)| *line == link.line) {
                self.lines.push((link.line, RoundTrips::default()));
            }
        }
        self.due_ns = if links.is_empty() { u64::MAX } else { self.last_ns + TICK_NS };
    }

    /// Notes packets that leave by the device of `port`.
    #[inline]
    pub(super) fn left(
        &mut self,
        port: PortId,
        pool: &Pool,
        packets: &[PacketHandle],
        now_ns: u64,
    ) {
        for (_, trips) in self.lines.iter_mut().filter(|(line, _)| *line == port) {
            packets.iter().for_each(|packet| trips.left(pool.frame(*packet), now_ns));
        }
    }

    /// Notes packets that arrived at the device of `port`.
    #[inline]
    pub(super) fn arrived(
        &mut self,
        port: PortId,
        pool: &Pool,
        packets: &[(PathId, PacketHandle)],
        now_ns: u64,
    ) {
        for (_, trips) in self.lines.iter_mut().filter(|(line, _)| *line == port) {
            packets.iter().for_each(|(_, packet)| trips.arrived(pool.frame(*packet), now_ns));
        }
    }

    /// Returns whether a decision is due.
    #[inline]
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Decides the rates of all links.
    #[cold]
    pub(super) fn decide<P: Port>(&mut self, now_ns: u64, ports: &mut Ports<P>) {
        let elapsed_ns = now_ns - self.last_ns;
        for state in &mut self.links {
            let sent_bytes = ports.link(state.link.port).sent_bytes();
            let bits = u128::from(sent_bytes - state.sent_bytes) * 8_000_000_000;
            state.carried_bps = u64::try_from(bits / u128::from(elapsed_ns)).unwrap_or(u64::MAX);
            state.sent_bytes = sent_bytes;
        }
        let load = |of: &LinkState| of.law.load(of.carried_bps);
        for (line, trips) in &mut self.lines {
            let delay_ns = trips.take_delay_ns();
            let of_line = |of: &&LinkState| of.link.line == *line;
            let highest = self.links.iter().filter(of_line).map(load).max().unwrap_or(0);
            for state in self.links.iter_mut().filter(|of| of.link.line == *line) {
                let most_loaded = load(state) == highest;
                let carried_bps = state.carried_bps;
                state.law.tick(Observed { carried_bps, delay_ns, most_loaded });
                // The core slept, or had no time.
                for _ in 1..(elapsed_ns / TICK_NS).min(MOST_TICKS) {
                    state.law.tick(Observed { carried_bps, delay_ns: None, most_loaded });
                }
                ports.link_mut(state.link.port).set_rate(state.law.rate_bps());
            }
        }
        (self.last_ns, self.due_ns) = (now_ns, now_ns + TICK_NS);
    }

    /// Returns the rate of the link of `port`, bits/s, and the delay beyond its line, ns; `None` if
    /// the rate does not adapt.
    pub(super) fn of(&self, port: PortId) -> Option<(u64, Option<u64>)> {
        let state = self.links.iter().find(|of| of.link.port == port)?;
        Some((state.law.rate_bps(), state.law.delay_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::PortError;
    use millstream::Link;

    struct Device;

    impl Port for Device {
        fn receive(
            &mut self,
            _: &mut Pool,
            _: usize,
            _: &mut Vec<PacketHandle>,
        ) -> Result<usize, PortError> {
            Ok(0)
        }

        fn transmit(&mut self, _: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
            Ok(packets.len())
        }
    }

    const MBPS: u64 = 1_000_000;
    const MS: u64 = 1_000_000;

    /// Returns the adaptive link of `port`, which shares the line of port 0.
    fn adaptive(port: usize) -> AdaptiveLink {
        let (min_bps, base_bps, max_bps) = (5 * MBPS, 20 * MBPS, 50 * MBPS);
        let limits = Limits { min_bps, base_bps, max_bps, delay_ns: 30 * MS };
        AdaptiveLink { port: PortId(port), line: PortId(0), limits }
    }

    #[test]
    fn the_loaded_link_of_a_line_falls_and_an_idle_one_returns() {
        let mut ports = Ports::default();
        for _ in 0..2 {
            ports.add(Device, Link::new(50 * MBPS, 0));
        }
        let mut rates = LineRates::default();
        assert!(!rates.is_due(u64::MAX - 1));
        rates.set(&[adaptive(0), adaptive(1)], &mut ports);
        assert_eq!(rates.of(PortId(0)), Some((20 * MBPS, None)));
        // 20 and 2 Mbit/s for 100 ms; the link of 50 Mbit/s would take 40 of them.
        ports.link_mut(PortId(0)).record_sent(0, [1_000; 250].into_iter());
        ports.link_mut(PortId(1)).record_sent(0, [1_000; 25].into_iter());
        assert_eq!(ports.link(PortId(0)).idle_ns(100 * MS), 60 * MS);
        rates.lines[0].1.add_delay(40 * MS);
        assert!(!rates.is_due(TICK_NS - 1) && rates.is_due(TICK_NS));
        rates.decide(TICK_NS, &mut ports);
        assert_eq!(rates.of(PortId(0)), Some((15 * MBPS, Some(40 * MS))));
        assert_eq!(rates.of(PortId(1)), Some((20 * MBPS, Some(40 * MS))));
        // A reload keeps the rate. The core sleeps for a second: five ticks keep the last delay.
        rates.set(&[adaptive(0)], &mut ports);
        rates.decide(11 * TICK_NS, &mut ports);
        assert_eq!(rates.of(PortId(0)), Some((15_765_150, None)));
        assert_eq!(rates.of(PortId(1)), None);
        rates.set(&[], &mut ports);
        assert!(!rates.is_due(u64::MAX - 1) && rates.lines.is_empty());
    }
}
