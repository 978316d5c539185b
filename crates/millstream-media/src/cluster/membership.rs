//! Membership and failure detection: the SWIM protocol, by the crate `foca`, which uses neither
//! sockets nor clocks.

use foca::{
    AccumulatingRuntime, Config, Foca, NoCustomBroadcast, OwnedNotification, PeriodicParams,
    PostcardCodec, Timer,
};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use super::seal::PAYLOAD;

/// A server's identity: its address and incarnation. A later incarnation replaces one that was
/// declared dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) address: SocketAddr,
    incarnation: u64,
}

impl foca::Identity for Identity {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<Self> {
        Some(Self { incarnation: self.incarnation.wrapping_add(1), ..*self })
    }

    fn addr(&self) -> SocketAddr {
        self.address
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.incarnation > adversary.incarnation
    }
}

/// A change of a member's liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Up(SocketAddr),
    Down(SocketAddr),
}

/// The cluster's members as this server sees them.
pub(super) struct Membership {
    foca: Foca<Identity, PostcardCodec, SmallRng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<Identity>,
    /// The pending timers and when each is due, ns.
    timers: Vec<(u64, Timer<Identity>)>,
}

impl Membership {
    /// Creates a cluster of only this server with this incarnation.
    pub(super) fn new(
        address: SocketAddr,
        incarnation: u64,
        seed: u64,
        dead_after_ns: u64,
    ) -> Self {
        let identity = Identity { address, incarnation };
        let random = SmallRng::seed_from_u64(seed);
        let foca = Foca::new(identity, config(dead_after_ns), random, PostcardCodec);
        Self { foca, runtime: AccumulatingRuntime::new(), timers: Vec::new() }
    }

    /// Asks the server at `to`, which may not run, to let this one join.
    pub(super) fn announce(&mut self, to: SocketAddr, now_ns: u64) {
        // The announcement reaches any incarnation at the address.
        let _ = self.foca.announce(Identity { address: to, incarnation: 0 }, &mut self.runtime);
        self.schedule(now_ns);
    }

    /// Processes another member's message. Returns whether it is well-formed; a malformed one
    /// changes nothing.
    pub(super) fn take(&mut self, payload: &[u8], now_ns: u64) -> bool {
        let taken = self.foca.handle_data(payload, &mut self.runtime).is_ok();
        self.schedule(now_ns);
        taken
    }

    /// Runs the timers that are due. Returns when the next one is due, ns.
    pub(super) fn step(&mut self, now_ns: u64) -> u64 {
        loop {
            let first = (0..self.timers.len()).min_by_key(|at| &self.timers[*at]);
            let Some(first) = first else { return u64::MAX };
            if self.timers[first].0 > now_ns {
                return self.timers[first].0;
            }
            let (_, timer) = self.timers.swap_remove(first);
            let _ = self.foca.handle_timer(timer, &mut self.runtime);
            self.schedule(now_ns);
        }
    }

    fn schedule(&mut self, now_ns: u64) {
        while let Some((after, timer)) = self.runtime.to_schedule() {
            let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            self.timers.push((now_ns.saturating_add(after_ns), timer));
        }
    }

    /// Returns the next message to send.
    pub(super) fn message(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        let (to, payload) = self.runtime.to_send()?;
        Some((to.address, payload.to_vec()))
    }

    /// Returns the next change of a member's liveness.
    pub(super) fn event(&mut self) -> Option<Event> {
        loop {
            match self.runtime.to_notify()? {
                OwnedNotification::MemberUp(member) => return Some(Event::Up(member.address)),
                OwnedNotification::MemberDown(member) => return Some(Event::Down(member.address)),
                _ => {}
            }
        }
    }
}

/// Returns the protocol's parameters. A silent server is suspected after one direct and several
/// indirect probes. It is dead after about `dead_after_ns` in total. A server that returns, or was
/// behind a network partition, joins again.
fn config(dead_after_ns: u64) -> Config {
    let part = |parts: u64| Duration::from_nanos((dead_after_ns / parts).max(1));
    let [one, three, most] = [1, 3, 32].map(|n| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN));
    let often = |frequency, num_members| Some(PeriodicParams { frequency, num_members });
    Config {
        probe_period: part(4),
        probe_rtt: part(10),
        num_indirect_probes: three,
        max_transmissions: NonZeroU8::new(8).unwrap_or(NonZeroU8::MIN),
        suspect_to_down_after: part(2),
        remove_down_after: None,
        max_packet_size: NonZeroUsize::new(PAYLOAD).unwrap_or(most),
        notify_down_members: true,
        periodic_announce: often(Duration::from_secs(5), one),
        periodic_announce_to_down_members: often(part(1), most),
        periodic_gossip: often(part(4), three),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD_AFTER_NS: u64 = 1_000_000_000;
    const STEP_NS: u64 = 5_000_000;

    /// Exchanges messages between the members in `there` for `for_ns`. Returns the events by
    /// member.
    fn talk(
        members: &mut [Membership],
        there: &[bool],
        from_ns: u64,
        for_ns: u64,
    ) -> Vec<Vec<Event>> {
        let mut events = vec![Vec::new(); members.len()];
        let mut now_ns = from_ns;
        while now_ns < from_ns + for_ns {
            for at in (0..members.len()).filter(|at| there[*at]) {
                members[at].step(now_ns);
                while let Some((to, payload)) = members[at].message() {
                    let to = usize::from(to.port());
                    if there[to] {
                        members[to].take(&payload, now_ns);
                    }
                }
                events[at].extend(std::iter::from_fn(|| members[at].event()));
            }
            now_ns += STEP_NS;
        }
        events
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn a_silent_member_is_declared_dead_and_rejoins_after_a_restart() {
        let new = |port, incarnation| {
            Membership::new(address(port), incarnation, 7 + incarnation, DEAD_AFTER_NS)
        };
        let mut members: Vec<Membership> = (0..3).map(|port| new(port, 1)).collect();
        members[1].announce(address(0), 0);
        members[2].announce(address(0), 0);
        let events = talk(&mut members, &[true; 3], 0, 4 * DEAD_AFTER_NS);
        for (at, events) in events.iter().enumerate() {
            let mut up: Vec<Event> = events.clone();
            up.sort_by_key(|event| format!("{event:?}"));
            let others = (0..3).filter(|other| *other != at);
            let others = others.map(|other| Event::Up(address(u16::try_from(other).unwrap())));
            assert_eq!(up, others.collect::<Vec<_>>());
        }
        let mut now_ns = 4 * DEAD_AFTER_NS;
        let events = talk(&mut members, &[true, false, true], now_ns, 2 * DEAD_AFTER_NS);
        assert_eq!(events[0], [Event::Down(address(1))]);
        assert_eq!(events[2], [Event::Down(address(1))]);
        // A restart is a new incarnation.
        now_ns += 2 * DEAD_AFTER_NS;
        members[1] = new(1, 2);
        members[1].announce(address(0), now_ns);
        let events = talk(&mut members, &[true; 3], now_ns, 2 * DEAD_AFTER_NS);
        assert_eq!(events[0], [Event::Up(address(1))]);
        assert_eq!(events[2], [Event::Up(address(1))]);
        assert_eq!(events[1].len(), 2);
    }

    #[test]
    fn malformed_messages_change_nothing() {
        let mut member = Membership::new(address(0), 1, 7, DEAD_AFTER_NS);
        for length in 0..200 {
            member.take(&vec![0xa5; length], 0);
            member.take(&vec![0; length], 0);
        }
        assert_eq!(member.event(), None);
    }
}
