//! An exact simulation of a fabric.
//!
//! Across the whole fabric, the events of one instant are processed in this order: transmissions
//! and transfers end and credits return; packets arrive, by link; end-points inject, by number;
//! crossbars arbitrate, by switch; links decide, by number. Hence the result does not depend on the
//! order in which simultaneous events are found, nor on the number of threads. Every link has the
//! scheduler that also serves a single link.
//!
//! ```text
//! injection ─> scheduler ─link─> input ─crossbar─> scheduler ─link─> … ─link─> destination
//!                  ^               │                   ^
//!                  └── credits ────┘                   └ room of the output's buffer
//! ```
//!
//! Consider a packet with transmission start t on a link of rate r and delay d, into a switch of
//! latency c. With virtual cut-through it may cross that switch from t + d + c on, with store and
//! forward from t + L/r + d + c on. A transfer lasts until the whole packet has passed, at
//! least L over the crossbar's rate. Transmission may start together with the transfer. The end of
//! the transfer frees the packet's room at the input and sends its credits back. The end of the
//! transmission frees its room at the output. A destination accepts every packet.

use std::sync::Arc;

mod assembly;
mod credit_accounts;
mod division;
mod log;
mod multicast;
mod partition;
mod windows;

use super::error::FabricError;
use super::listener::FabricListener;
use super::topology::Topology;
use super::traffic::EndPointTraffic;
use log::{Calls, Direct};
use multicast::Multicast;
use partition::{Fabric, Partition};

pub use multicast::Replication;

/// A running simulation of a fabric.
pub struct Simulation {
    fabric: Arc<Fabric>,
    partitions: Vec<Partition>,
    /// Partition of each link's sender, and the link's index there.
    link_places: Vec<(u16, u32)>,
    /// Partition of each end-point, and its index there.
    source_places: Vec<(u16, u32)>,
    /// Threads of [`run`](Self::run).
    workers: usize,
    /// The length of a time window, ns; see [`Fabric::lookahead_ns`].
    lookahead_ns: u64,
}

impl Simulation {
    /// Makes `classes` multicast: a packet injected to end-point d reaches all of `groups[d]`.
    ///
    /// The source is left out of its group; a packet without another member disappears. Each class
    /// keeps its own virtual channel, contract and credits. A listener hears of one injection and
    /// of a delivery for each end-point. Admission of connections does not count the copies. The
    /// simulation runs on one thread.
    ///
    /// # Panics
    /// Panics after the first [`run`](Self::run), unless there is one group of end-points for each
    /// end-point.
    pub fn set_multicast(
        &mut self,
        classes: &[u8],
        groups: Vec<Vec<u32>>,
        replication: Replication,
    ) {
        assert_eq!(self.now_ns(), 0, "the simulation has started");
        let end_points = self.topology().end_points();
        assert_eq!(groups.len(), end_points as usize, "one group per end-point");
        let exists = |member: &u32| *member < end_points;
        assert!(groups.iter().flatten().all(exists), "a member is not an end-point");
        let is_multicast = (0..=u8::MAX).map(|class| classes.contains(&class)).collect();
        let multicast = Multicast::new(replication, is_multicast, groups);
        self.divide(1);
        self.partitions[0].multicast = Some(Box::new(multicast));
    }

    /// Sets the number of threads of [`run`](Self::run), 1 by default. The results, and the calls
    /// of a listener and their order, do not depend on it.
    ///
    /// A run on several threads divides the fabric by switches into partitions. They advance in
    /// time windows as long as the lookahead, the least time from a link's sender to its receiver
    /// or back. It grows with the links' delay and the length of the smallest packet.
    /// Small networks and short windows run faster on one thread.
    ///
    /// # Panics
    /// Panics after the first [`run`](Self::run), or if `workers` is 0.
    pub fn set_workers(&mut self, workers: usize) {
        assert_eq!(self.now_ns(), 0, "the simulation has started");
        assert!(workers > 0, "at least one thread");
        self.workers = workers;
        if self.partitions[0].multicast.is_none() {
            self.divide(if workers == 1 { 1 } else { workers * PARTITIONS_PER_WORKER });
        }
    }

    /// Runs until `until_ns`, or until no event is left. Returns whether events are left.
    ///
    /// # Errors
    /// Returns [`Deadlock`](FabricError::Deadlock) if the fabric holds packets that can never move.
    ///
    /// # Panics
    /// Panics if the listener asks for steps and the fabric has multicast classes: steps do not
    /// describe copies.
    pub fn run<L: FabricListener + Send>(
        &mut self,
        until_ns: u64,
        listener: &mut L,
    ) -> Result<bool, FabricError> {
        if L::STEPS {
            self.run_for::<true>(until_ns, listener)
        } else {
            self.run_for::<false>(until_ns, listener)
        }
    }

    /// Runs as [`run`](Self::run) does; the code does not depend on the type of the listener.
    fn run_for<const STEPS: bool>(
        &mut self,
        until_ns: u64,
        listener: &mut (dyn Calls + Send),
    ) -> Result<bool, FabricError> {
        if self.partitions.len() > 1 {
            let Self { partitions, workers, lookahead_ns, .. } = self;
            if windows::run::<STEPS>(partitions, *workers, until_ns, *lookahead_ns, listener) {
                return Err(self.deadlock());
            }
        } else {
            let partition = &mut self.partitions[0];
            let multicast = partition.multicast.is_some();
            assert!(!STEPS || !multicast, "steps do not describe multicast copies");
            let mut sink = Direct::<STEPS>(listener);
            while let Some(time_ns) = partition.event_queue.next_ns()
                && time_ns <= until_ns
            {
                let end_ns = windows::end_ns(time_ns, self.lookahead_ns, until_ns);
                partition.run_until(end_ns, &mut sink);
                if partition.packets_in_switches > 0 && partition.moving() == 0 {
                    return Err(self.deadlock());
                }
            }
        }
        let more = self.partitions.iter().any(|partition| partition.event_queue.len() > 0);
        if !more && self.packets_in_transit() == 0 {
            for partition in &self.partitions {
                partition.credit_accounts.assert_all_returned();
            }
        }
        Ok(more)
    }

    /// Returns the current simulation time, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        let times = self.partitions.iter().map(|partition| partition.event_queue.now_ns());
        times.max().unwrap_or(0)
    }

    /// Deprecated alias of [`packets_in_transit`](Self::packets_in_transit).
    #[deprecated(note = "renamed to `packets_in_transit`")]
    #[must_use]
    pub fn packets_under_way(&self) -> usize {
        self.packets_in_transit()
    }

    /// Returns the number of packets that wait at end-points or are in transit.
    #[must_use]
    pub fn packets_in_transit(&self) -> usize {
        self.partitions.iter().map(|partition| partition.packets.alive()).sum()
    }

    /// Returns the number of transmissions started on all links.
    #[must_use]
    pub fn hops(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.hops).sum()
    }

    /// Returns the total transmission time of each link, ns, in the order of [`Topology::links`].
    /// A transmission in progress counts in full.
    pub fn busy_ns(&self) -> impl Iterator<Item = u64> {
        self.link_places.iter().map(|&(partition, link)| {
            self.partitions[usize::from(partition)].transmitters[link as usize].busy_ns
        })
    }

    /// Returns the topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.fabric.topology
    }

    /// Returns the number of virtual channels per link: one per class and layer, class by class.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.partitions[0].credit_accounts.channels()
    }

    /// Returns whether switches have crossbars and links have credits.
    #[must_use]
    pub fn has_crossbars(&self) -> bool {
        self.partitions.iter().any(|partition| !partition.switches.is_empty())
    }

    /// Returns the traffic of each end-point.
    pub fn sources(&self) -> impl Iterator<Item = &EndPointTraffic> {
        self.source_places.iter().map(|&(partition, source)| {
            &self.partitions[usize::from(partition)].sources[source as usize].traffic
        })
    }

    fn deadlock(&self) -> FabricError {
        let topology = self.topology();
        let cycle = topology.dependency_cycle().map_or_else(
            || String::from("no cycle of links: a scheduler withholds the waiting packets"),
            |cycle| {
                let links = cycle.iter().map(|&(link, layer)| {
                    let link = topology.links()[link];
                    format!("{} to {} (layer {layer})", link.from, link.to)
                });
                links.collect::<Vec<_>>().join(", ")
            },
        );
        FabricError::Deadlock { time_ns: self.now_ns(), cycle }
    }
}

/// More partitions than threads, so that a thread that has finished takes work of the others.
const PARTITIONS_PER_WORKER: usize = 2;
