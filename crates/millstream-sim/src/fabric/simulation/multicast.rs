//! Replication of the packets of multicast channels.
//!
//! A packet for several end-points is sent once while the routes to all of them are equal. Where
//! the routes diverge, the switch makes a copy for each output, for the end-points behind it. The
//! copies cross the switch independently (fan-out splitting). They share the packet's room at the
//! input: its credits return when the last copy has crossed.
//!
//! ```text
//! source ── 1 packet ──> switch ──> copy for {1, 2} ──> switch ──> copy for {1}
//!                           └─────> copy for {3}           └─────> copy for {2}
//! ```
//!
//! A copy waits only for buffers on its own route, never for another copy, so multicast packets
//! cannot deadlock where unicast packets cannot.

use std::collections::HashMap;

use slab::Slab;

use crate::fabric::packets::Packets;
use crate::fabric::topology::{Hop, Topology};

/// Where the packets of multicast classes are replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// In the switches: the source sends each packet once.
    Switches,
    /// At the source, which sends a unicast packet to each end-point: a fabric without multicast
    /// channels.
    Source,
}

/// The multicast classes and the copies in transit.
#[derive(Debug)]
pub(super) struct Multicast {
    replication: Replication,
    /// Whether each class is multicast.
    classes: Vec<bool>,
    /// The end-points of each group.
    groups: Vec<Vec<u32>>,
    /// The end-points that a packet serves, by packet, for packets with more than one.
    targets: HashMap<u32, Vec<u32>>,
    /// The number of copies that still occupy the room of a packet at an input.
    rooms: Slab<u32>,
    /// The room of each waiting copy, by packet.
    room_of_packet: HashMap<u32, usize>,
    /// The room of each copy that crosses a switch, by switch and output.
    room_of_transfer: HashMap<(u32, u8), usize>,
}

impl Multicast {
    pub(super) fn new(replication: Replication, classes: Vec<bool>, groups: Vec<Vec<u32>>) -> Self {
        Self {
            replication,
            classes,
            groups,
            targets: HashMap::new(),
            rooms: Slab::new(),
            room_of_packet: HashMap::new(),
            room_of_transfer: HashMap::new(),
        }
    }

    pub(super) fn is_multicast(&self, class: u8) -> bool {
        self.classes.get(usize::from(class)) == Some(&true)
    }

    /// Returns the end-points of `group` other than `source`.
    fn members(&self, group: u32, source: u32) -> Vec<u32> {
        let members = &self.groups[group as usize];
        members.iter().copied().filter(|member| *member != source).collect()
    }

    /// Addresses a new packet from `source` to `group`; returns the packets that the source sends.
    ///
    /// The result is empty if the group has no other member; the packet then does not exist.
    pub(super) fn address(
        &mut self,
        packet: u32,
        group: u32,
        source: u32,
        packets: &mut Packets,
    ) -> Vec<u32> {
        let members = self.members(group, source);
        let Some(first) = members.first() else {
            packets.remove(packet);
            return Vec::new();
        };
        packets.get_mut(packet).destination = *first;
        match self.replication {
            Replication::Switches => {
                if members.len() > 1 {
                    self.targets.insert(packet, members);
                }
                vec![packet]
            }
            Replication::Source => {
                let others = members[1..].iter().map(|member| packets.copy(packet, *member));
                let mut sent: Vec<u32> = others.collect();
                sent.insert(0, packet);
                sent
            }
        }
    }

    /// Splits a packet that arrived at `switch` by output; returns its copies, itself the first.
    pub(super) fn split(
        &mut self,
        packet: u32,
        switch: u32,
        topology: &Topology,
        packets: &mut Packets,
    ) -> Vec<u32> {
        let Some(targets) = self.targets.remove(&packet) else { return vec![packet] };
        let mut parts: Vec<(Hop, Vec<u32>)> = Vec::new();
        for target in targets {
            let hop = topology.hop(switch, target);
            match parts.iter_mut().find(|(known, _)| *known == hop) {
                Some((_, part)) => part.push(target),
                None => parts.push((hop, vec![target])),
            }
        }
        let mut copies = Vec::with_capacity(parts.len());
        for (_, part) in parts {
            let copy = if copies.is_empty() { packet } else { packets.copy(packet, part[0]) };
            packets.get_mut(copy).destination = part[0];
            if part.len() > 1 {
                self.targets.insert(copy, part);
            }
            copies.push(copy);
        }
        copies
    }

    /// Lets `copies` share the room of one packet at an input.
    pub(super) fn share_room(&mut self, copies: &[u32]) {
        if copies.len() > 1 {
            let count = u32::try_from(copies.len()).unwrap_or(u32::MAX);
            let room = self.rooms.insert(count);
            self.room_of_packet.extend(copies.iter().map(|copy| (*copy, room)));
        }
    }

    /// Notes that `packet` starts to cross `switch` to `output`.
    #[inline]
    pub(super) fn crosses(&mut self, packet: u32, switch: u32, output: u8) {
        if let Some(room) = self.room_of_packet.remove(&packet) {
            self.room_of_transfer.insert((switch, output), room);
        }
    }

    /// Returns whether the transfer that ended at `output` leaves a free room at its input.
    #[inline]
    pub(super) fn frees_room(&mut self, switch: u32, output: u8) -> bool {
        let Some(room) = self.room_of_transfer.remove(&(switch, output)) else { return true };
        self.rooms[room] -= 1;
        if self.rooms[room] > 0 {
            return false;
        }
        self.rooms.remove(room);
        true
    }
}
