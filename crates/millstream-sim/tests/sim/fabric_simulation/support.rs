//! Fabrics for tests.

use millstream::catalogue::{DisciplineRow, Options};
use millstream::{Contract, Link, StreamId};
use millstream_sim::fabric::topology::{Cable, Node, Topology, custom};
use millstream_sim::fabric::traffic::{ClassTraffic, Injection, Kind, end_point_traffic};
use millstream_sim::fabric::{
    Arbiter, Buffering, Crossbar, Delivery, Egress, FabricError, FabricListener, Forwarding,
    LinkParameters, Queueing, Simulation, SwitchParameters,
};

pub(crate) const RATE_BPS: u64 = 2_000_000_000;
pub(crate) const LARGEST_BYTES: u32 = 2_176;

/// The MinBW paper's crossbar, with buffers of four of the largest packets.
pub(crate) const CROSSBAR: Crossbar = Crossbar {
    rate_bps: RATE_BPS * 3 / 2,
    input_credits: 136,
    output_credits: 136,
    queueing: Queueing::VirtualOutput,
    arbiter: Arbiter::RoundRobin,
};

pub(crate) const CUT_THROUGH: SwitchParameters = SwitchParameters {
    latency_ns: 145,
    forwarding: Forwarding::CutThrough,
    buffering: Buffering::Combined(CROSSBAR),
};

pub(crate) const OUTPUT_QUEUED: SwitchParameters = SwitchParameters {
    latency_ns: 145,
    forwarding: Forwarding::StoreAndForward,
    buffering: Buffering::Output,
};

/// The parameters of a fabric, with defaults.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) topology: Topology,
    pub(crate) delay_ns: u64,
    pub(crate) switch: SwitchParameters,
    pub(crate) discipline: &'static str,
    pub(crate) classes: Vec<Contract>,
    /// Turns of the table scheduler, by class.
    pub(crate) table: Vec<StreamId>,
    pub(crate) traffic: Vec<ClassTraffic>,
    pub(crate) seed: u64,
    pub(crate) stop_ns: u64,
}

impl Plan {
    /// Creates a fabric with one class of Poisson packets under FIFO.
    pub(crate) fn poisson(
        topology: Topology,
        switch: SwitchParameters,
        load: f64,
        bytes: u32,
    ) -> Self {
        Self {
            topology,
            delay_ns: 0,
            switch,
            discipline: "fifo",
            classes: vec![Contract::new()],
            table: Vec::new(),
            traffic: vec![ClassTraffic { load, kind: Kind::Poisson { bytes } }],
            seed: 1,
            stop_ns: 10_000_000,
        }
    }

    pub(crate) fn simulation(&self) -> Result<Simulation, FabricError> {
        let Self { topology, traffic, seed, stop_ns, .. } = self;
        let (sources, _) = end_point_traffic(topology, RATE_BPS, 1.0, traffic, *seed, *stop_ns);
        let egress = Egress {
            discipline: DisciplineRow::parse(self.discipline).unwrap(),
            options: Options { table: self.table.clone(), ..Options::default() },
            structure: None,
            classes: self.classes.clone(),
        };
        let link = LinkParameters { wire: Link::new(RATE_BPS, 0), delay_ns: self.delay_ns };
        Simulation::new(topology.clone(), link, self.switch, &egress, sources, LARGEST_BYTES)
    }

    /// Runs until all packets are delivered; returns the sorted events.
    pub(crate) fn deliveries(&self) -> Journal {
        let mut journal = Journal::default();
        let mut simulation = self.simulation().unwrap();
        assert!(!simulation.run(u64::MAX, &mut journal).unwrap());
        assert_eq!(simulation.packets_in_transit(), 0);
        journal.injections.sort_unstable_by_key(|(source, injection)| {
            (*source, injection.time_ns, injection.class, injection.connection)
        });
        journal.deliveries.sort_unstable_by_key(|delivery| {
            (delivery.time_ns, delivery.destination, delivery.source, delivery.injected_ns)
        });
        journal
    }
}

/// A listener that records all injections and deliveries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) injected: u64,
    pub(crate) injections: Vec<(u32, Injection)>,
    pub(crate) deliveries: Vec<Delivery>,
}

impl FabricListener for Journal {
    fn injected(&mut self, source: u32, injection: &Injection) {
        self.injected += 1;
        self.injections.push((source, *injection));
    }

    fn delivered(&mut self, delivery: &Delivery) {
        self.deliveries.push(*delivery);
    }
}

#[allow(clippy::cast_precision_loss)]
impl Journal {
    pub(crate) fn mean_latency_ns(&self) -> f64 {
        let sum: u64 = self.latencies_ns().sum();
        sum as f64 / self.deliveries.len() as f64
    }

    pub(crate) fn latencies_ns(&self) -> impl Iterator<Item = u64> {
        self.deliveries.iter().map(|delivery| delivery.time_ns - delivery.injected_ns)
    }
}

/// Creates one switch with `end_points` end-points.
pub(crate) fn star(end_points: u16) -> Topology {
    let cables: Vec<Cable> = (0..end_points)
        .map(|number| (Node::EndPoint(u32::from(number)), 0, Node::Switch(0), number))
        .collect();
    custom(u32::from(end_points), &[end_points], &cables).unwrap()
}
