//! Flows per host, and the choice of the flow to evict for a new one.
//!
//! A flow is *pending* until its other end has answered (`Flow::is_settled`). Only pending flows
//! are evicted. If a host has more than `share` pending flows, its oldest is evicted. Otherwise the
//! oldest pending flow of all hosts is evicted. So a flood from few addresses evicts its own flows
//! first. The age of a flow counts from the last packet of its host.
//!
//! ```text
//!  by_age   a ─ b ─ c ─ d ─ e        all pending flows, the oldest first
//!  pending  host 1: a ─ c ─ d        those of each host
//!           host 2: b ─ e
//!  crowded  host 1                   hosts with more than `share` of them, in turn
//! ```
//!
//! Each operation takes constant time. Nothing allocates after `new`.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// No slot, or no host.
const NONE: u32 = u32::MAX;

/// The neighbours of an entry in a list.
#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

/// A doubly linked list of slots or hosts; its links are in a separate array.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    fn push(&mut self, links: &mut [Links], at: u32) {
        links[at as usize] = Links { before: self.last, after: NONE };
        match self.last {
            NONE => self.first = at,
            last => links[last as usize].after = at,
        }
        self.last = at;
    }

    fn remove(&mut self, links: &mut [Links], at: u32) {
        let Links { before, after } = links[at as usize];
        match before {
            NONE => self.first = after,
            before => links[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => links[after as usize].before = before,
        }
    }
}

/// A host with flows.
#[derive(Clone, Copy, Debug)]
struct Host {
    address: Ipv4Addr,
    flows: u32,
    /// The number of pending flows, and their list, oldest first.
    count: u32,
    pending: List,
}

/// The state of a slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// [`NONE`] if the slot is free.
    host: u32,
    pending: bool,
}

/// Hosts and their flows, by slot.
#[derive(Debug)]
pub(super) struct Hosts {
    numbers: HashMap<Ipv4Addr, u32>,
    hosts: Vec<Host>,
    free: Vec<u32>,
    slots: Vec<Slot>,
    share: u32,
    by_age: List,
    crowded: List,
    age_links: Vec<Links>,
    pending_links: Vec<Links>,
    crowded_links: Vec<Links>,
}

impl Hosts {
    /// Creates a table of `slots` flows. A host with more than `share` pending flows loses them
    /// first.
    pub(super) fn new(slots: u32, share: u32) -> Self {
        let count = slots as usize;
        let links = vec![Links { before: NONE, after: NONE }; count];
        Self {
            // Twice the capacity prevents rehashing.
            numbers: HashMap::with_capacity(2 * count),
            hosts: Vec::with_capacity(count),
            free: Vec::with_capacity(count),
            slots: vec![Slot { host: NONE, pending: false }; count],
            share,
            by_age: List::EMPTY,
            crowded: List::EMPTY,
            age_links: links.clone(),
            pending_links: links.clone(),
            crowded_links: links,
        }
    }

    /// Returns the number of flows of `host`.
    pub(super) fn flows(&self, host: Ipv4Addr) -> u32 {
        self.numbers.get(&host).map_or(0, |number| self.hosts[*number as usize].flows)
    }

    /// Returns the flow to evict for a flow of any host; `None` if no flow is pending.
    pub(super) fn victim(&self) -> Option<u32> {
        let crowded = self.crowded.first().map(|number| self.hosts[number as usize].pending);
        crowded.unwrap_or(self.by_age).first()
    }

    /// Returns the flow to evict for another flow of `host`.
    pub(super) fn victim_of(&self, host: Ipv4Addr) -> Option<u32> {
        let number = self.numbers.get(&host)?;
        self.hosts[*number as usize].pending.first()
    }

    /// Adds a pending flow of `host` in a free slot.
    pub(super) fn begin(&mut self, slot: u32, host: Ipv4Addr) {
        let number = self.numbers.get(&host).copied().unwrap_or_else(|| self.add(host));
        self.hosts[number as usize].flows += 1;
        self.slots[slot as usize] = Slot { host: number, pending: false };
        self.mark_pending(slot);
    }

    fn add(&mut self, address: Ipv4Addr) -> u32 {
        let host = Host { address, flows: 0, count: 0, pending: List::EMPTY };
        let number = match self.free.pop() {
            Some(number) => {
                self.hosts[number as usize] = host;
                number
            }
            None => {
                self.hosts.push(host);
                // Cannot fail: the number of hosts is at most that of slots.
                u32::try_from(self.hosts.len() - 1).unwrap_or(NONE)
            }
        };
        self.numbers.insert(address, number);
        number
    }

    /// Removes the flow of `slot`.
    pub(super) fn end(&mut self, slot: u32) {
        self.mark_settled(slot);
        let Slot { host: number, .. } = self.slots[slot as usize];
        self.slots[slot as usize].host = NONE;
        let host = &mut self.hosts[number as usize];
        host.flows -= 1;
        if host.flows == 0 {
            self.numbers.remove(&host.address);
            self.free.push(number);
        }
    }

    /// Marks a flow pending and youngest: its host has just sent.
    #[inline]
    pub(super) fn mark_pending(&mut self, slot: u32) {
        self.mark_settled(slot);
        self.slots[slot as usize].pending = true;
        self.by_age.push(&mut self.age_links, slot);
        let number = self.slots[slot as usize].host;
        let host = &mut self.hosts[number as usize];
        host.pending.push(&mut self.pending_links, slot);
        host.count += 1;
        if host.count == self.share + 1 {
            self.crowded.push(&mut self.crowded_links, number);
        }
    }

    /// Marks a flow as answered.
    #[inline]
    pub(super) fn mark_settled(&mut self, slot: u32) {
        let of = &mut self.slots[slot as usize];
        if !std::mem::replace(&mut of.pending, false) {
            return;
        }
        let number = of.host;
        self.by_age.remove(&mut self.age_links, slot);
        let host = &mut self.hosts[number as usize];
        host.pending.remove(&mut self.pending_links, slot);
        host.count -= 1;
        if host.count == self.share {
            self.crowded.remove(&mut self.crowded_links, number);
        }
    }

    /// Returns whether the flow of `slot` is pending.
    #[inline]
    pub(super) fn is_pending(&self, slot: u32) -> bool {
        self.slots[slot as usize].pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const SLOTS: u32 = 24;
    const SHARE: u32 = 3;

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Begin(u8),
        Send(u32),
        Settle(u32),
        Reset(u32),
        End(u32),
        Evict,
        EvictOf(u8),
    }

    fn address(host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, host)
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let slot = || 0..SLOTS;
        let event = prop_oneof![
            6 => (0..6u8).prop_map(Event::Begin),
            2 => slot().prop_map(Event::Send),
            2 => slot().prop_map(Event::Settle),
            1 => slot().prop_map(Event::Reset),
            1 => slot().prop_map(Event::End),
            3 => Just(Event::Evict),
            1 => (0..6u8).prop_map(Event::EvictOf),
        ];
        vec(event, 0..300)
    }

    proptest! {
        /// Compares with a linear list. Either of several crowded hosts may lose a flow.
        #[test]
        fn victims_are_those_of_a_list(events in events()) {
            let mut hosts = Hosts::new(SLOTS, SHARE);
            // Slot, host, pending; oldest first.
            let mut list: Vec<(u32, u8, bool)> = Vec::new();
            for event in events {
                let at = |slot: u32| list.iter().position(|of| of.0 == slot);
                match event {
                    Event::Begin(host) => {
                        let free = (0..SLOTS).find(|slot| at(*slot).is_none());
                        if let Some(slot) = free {
                            hosts.begin(slot, address(host));
                            list.push((slot, host, true));
                        }
                    }
                    Event::Send(slot) | Event::Reset(slot) => {
                        let again = matches!(event, Event::Reset(_));
                        if let Some(at) = at(slot).filter(|at| again || list[*at].2) {
                            hosts.mark_pending(slot);
                            let of = list.remove(at);
                            list.push((of.0, of.1, true));
                        }
                    }
                    Event::Settle(slot) => {
                        if let Some(at) = at(slot) {
                            hosts.mark_settled(slot);
                            list[at].2 = false;
                        }
                    }
                    Event::End(slot) => {
                        if let Some(at) = at(slot) {
                            hosts.end(slot);
                            list.remove(at);
                        }
                    }
                    Event::Evict | Event::EvictOf(_) => {
                        let of_one = match event {
                            Event::EvictOf(host) => Some(host),
                            _ => None,
                        };
                        let pending = |host: u8| {
                            list.iter().filter(move |of| of.1 == host && of.2)
                        };
                        let crowded = |host: &u8| pending(*host).count() > SHARE as usize;
                        let any_crowded = (0..6).any(|host| crowded(&host));
                        let victim = match of_one {
                            Some(host) => hosts.victim_of(address(host)),
                            None => hosts.victim(),
                        };
                        let Some(victim) = victim else {
                            let none = (0..6).all(|host| {
                                of_one.is_some_and(|of| of != host) || pending(host).count() == 0
                            });
                            prop_assert!(none);
                            continue;
                        };
                        let at = at(victim).unwrap();
                        let host = list[at].1;
                        prop_assert!(list[at].2, "a settled flow was evicted");
                        prop_assert_eq!(pending(host).next().unwrap().0, victim);
                        if let Some(of) = of_one {
                            prop_assert_eq!(of, host);
                        } else if any_crowded {
                            prop_assert!(crowded(&host));
                        } else {
                            prop_assert_eq!(list.iter().find(|of| of.2).unwrap().0, victim);
                        }
                        hosts.end(victim);
                        list.remove(at);
                    }
                }
                for host in 0..6 {
                    let flows = list.iter().filter(|of| of.1 == host).count();
                    prop_assert_eq!(hosts.flows(address(host)) as usize, flows);
                }
                for (slot, _, pending) in &list {
                    prop_assert_eq!(hosts.is_pending(*slot), *pending);
                }
                prop_assert!(hosts.hosts.len() <= 6 && hosts.numbers.len() <= 6);
            }
        }
    }
}
