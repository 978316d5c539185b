//! A simulated link with credits that drives the engine, and random fair-queueing scenarios.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{ClassId, Contract, Departure, Link, MaxRate, Packet, StreamId, Tree};
use millstream_reference::{Arrival, Overhead, fair};
use proptest::prelude::*;
use std::num::NonZeroU64;

use super::{engine_link, overheads};

/// The contract of one stream.
#[derive(Clone, Debug)]
pub struct Limits {
    pub weight: u32,
    pub quantum: u32,
    pub queue: Option<u32>,
    pub credits: Option<u64>,
    /// Rate, bits/s, and burst, bytes.
    pub shaper: Option<(u64, u64)>,
    pub fmc: bool,
}

/// A return of credits: time, stream, number.
pub type CreditReturn = (u64, u32, u64);

/// A scenario.
#[derive(Clone, Debug)]
pub struct Load {
    pub discipline: &'static str,
    pub link: Link,
    pub overhead: Overhead,
    pub streams: Vec<Limits>,
    pub table: Vec<StreamId>,
    pub returns: Vec<CreditReturn>,
    pub arrivals: Vec<Arrival>,
}

/// A row: time, stream, packet, whether it was sent.
pub type Row = (u64, u32, u64, bool);

impl Limits {
    pub fn contract(&self) -> Contract {
        let mut contract =
            Contract::new().weight(self.weight).unwrap().quantum_bytes(self.quantum).unwrap();
        if let Some(limit) = self.queue {
            contract = contract.queue(limit);
        }
        if let Some(credits) = self.credits {
            contract = contract.credits(credits);
        }
        if let Some((rate_bps, burst_bytes)) = self.shaper {
            let rate_bps = NonZeroU64::new(rate_bps).unwrap();
            contract = contract.max_rate(MaxRate { rate_bps, burst_bytes });
        }
        if self.fmc { contract.fmc() } else { contract }
    }
}

impl Load {
    pub fn row(&self) -> &'static DisciplineRow {
        DisciplineRow::parse(self.discipline).unwrap()
    }

    pub fn options(&self) -> Options {
        Options { link: self.link, table: self.table.clone(), ..Options::default() }
    }

    /// Returns a scheduler of these streams: flat, or below a management channel if there is one.
    pub fn scheduler(&self, structure: StructureName, options: &Options) -> Box<dyn DynScheduler> {
        if self.streams.iter().any(|stream| stream.fmc) {
            return Box::new(self.tree(structure, options));
        }
        let mut scheduler = self.row().build(options, structure);
        for stream in &self.streams {
            scheduler.add_stream(stream.contract()).unwrap();
        }
        scheduler
    }

    /// Returns the streams in a class below a root that serves the management channel first.
    pub fn tree(&self, structure: StructureName, options: &Options) -> Tree {
        let root = DisciplineRow::parse("static-priority").unwrap();
        let mut tree = Tree::new(root, StructureName::Scan, options);
        let contract = Contract::new().priority(1);
        let class =
            tree.add_class(ClassId::ROOT, contract, self.row(), structure, options).unwrap();
        for stream in &self.streams {
            let parent = if stream.fmc { ClassId::ROOT } else { class };
            tree.add_stream(parent, stream.contract()).unwrap();
        }
        tree
    }

    /// Returns the rows of the reference.
    pub fn reference(&self) -> Vec<Row> {
        let entries: Vec<u32> = self.table.iter().map(|entry| entry.0).collect();
        let discipline = fair::Discipline::parse(self.discipline, &entries).unwrap();
        let streams = self.streams.iter().map(|stream| fair::StreamSpec {
            queue: stream.queue,
            credits: stream.credits,
            shaper: stream.shaper,
            fmc: stream.fmc,
            ..fair::StreamSpec::new(stream.weight.into(), stream.quantum.into())
        });
        let returns = self.returns.iter().map(|(time_ns, stream, credits)| fair::CreditReturn {
            time_ns: *time_ns,
            stream: *stream,
            credits: *credits,
        });
        let spec = fair::Spec {
            discipline,
            rate_bps: self.link.rate_bps,
            overhead: self.overhead,
            streams: streams.collect(),
            credit_returns: returns.collect(),
        };
        let rows = fair::run(&spec, &self.arrivals).rows;
        let row = |row: &millstream_reference::Row| {
            (row.time_ns, row.stream, row.packet, row.event == "sent")
        };
        rows.iter().map(row).collect()
    }

    /// Runs until no event is left.
    pub fn run(&self, scheduler: &mut dyn DynScheduler) -> Vec<Row> {
        let mut rows = Vec::new();
        let row = |departure: &Departure, sent| {
            (departure.time_ns, departure.stream.0, departure.packet, sent)
        };
        let mut returns = self.returns.iter().peekable();
        let mut arrivals = self.arrivals.iter().peekable();
        let mut free_ns = 0;
        loop {
            loop {
                let return_ns = returns.peek().map_or(u64::MAX, |back| back.0);
                let arrival_ns = arrivals.peek().map_or(u64::MAX, |arrival| arrival.time_ns);
                if return_ns.min(arrival_ns) > free_ns {
                    break;
                }
                if return_ns <= arrival_ns {
                    let (time_ns, stream, credits) = *returns.next().unwrap();
                    scheduler.add_credits(time_ns, StreamId(stream), credits);
                } else {
                    let arrival = arrivals.next().unwrap();
                    let packet = Packet::new(arrival.bytes);
                    let stream = StreamId(arrival.stream);
                    if let Err(full) = scheduler.enqueue(arrival.time_ns, stream, packet) {
                        rows.push(row(&full, false));
                    }
                }
            }
            if let Some(sent) = scheduler.decide(free_ns, &mut ()) {
                rows.push(row(&sent, true));
                free_ns += self.link.transmission_ns(sent.bytes);
                continue;
            }
            let events = [
                returns.peek().map(|back| back.0),
                arrivals.peek().map(|arrival| arrival.time_ns),
                scheduler.next_eligible_ns(),
            ];
            match events.into_iter().flatten().min() {
                Some(event_ns) => free_ns = free_ns.max(event_ns),
                None => return rows,
            }
        }
    }
}

/// Returns the disciplines of the scenarios: all fair disciplines of the reference.
pub fn names() -> [&'static str; 10] {
    fair::Discipline::all(&[]).map(|(name, _)| name)
}

fn limits() -> impl Strategy<Value = Limits> {
    let weight = prop_oneof![4 => 1u32..9, 1 => 1u32..200];
    let queue = proptest::option::weighted(0.2, 0u32..5);
    let credits = proptest::option::weighted(0.4, 0u64..12);
    let shaper = proptest::option::weighted(
        0.25,
        (prop_oneof![Just(8_000_000u64), 1_000_000u64..400_000_000], 0u64..600),
    );
    (weight, 1u32..700, queue, credits, shaper).prop_map(
        |(weight, quantum, queue, credits, shaper)| Limits {
            weight,
            quantum,
            queue,
            credits,
            shaper,
            fmc: false,
        },
    )
}

/// Generates random scenarios of any discipline.
pub fn loads() -> impl Strategy<Value = Load> {
    loads_of(proptest::sample::select(names().to_vec()))
}

/// Generates random contended scenarios with many ties; some have credits, caps or a management
/// channel.
pub fn loads_of(discipline: impl Strategy<Value = &'static str>) -> impl Strategy<Value = Load> {
    let lengths = prop_oneof![3 => Just(128u32), 2 => 0u32..300, 1 => 1u32..5];
    let arrival = (0u64..16, lengths, any::<u32>());
    let back = (0u64..40_000, any::<u32>(), 0u64..9);
    (
        discipline,
        proptest::collection::vec(limits(), 1..7),
        proptest::collection::vec(arrival, 1..70),
        proptest::collection::vec(back, 0..25),
        proptest::collection::vec(any::<u32>(), 0..12),
        (overheads(0..2), prop_oneof![Just(1_024_000_000u64), 1u64 << 29..1 << 31]),
        (any::<bool>(), any::<bool>(), any::<bool>()),
    )
        .prop_map(|(discipline, mut streams, arrivals, returns, table, link, plain)| {
            let (overhead, rate_bps) = link;
            let (no_credits, no_caps, fmc) = plain;
            for stream in &mut streams {
                stream.credits = stream.credits.filter(|_| !no_credits);
                stream.shaper = stream.shaper.filter(|_| !no_caps);
            }
            let last = streams.len() - 1;
            streams[last].fmc = fmc && last > 0;
            let count = u32::try_from(streams.len()).unwrap();
            let fair = count - u32::from(streams[last].fmc);
            let mut time_ns = 0;
            let arrivals = arrivals
                .into_iter()
                .map(|(gap, bytes, stream)| {
                    time_ns += gap.saturating_sub(11) * 500;
                    Arrival { time_ns, stream: stream % count, bytes }
                })
                .collect();
            let mut returns: Vec<CreditReturn> = returns
                .into_iter()
                .map(|(time_ns, stream, credits)| (time_ns / 250 * 250, stream % count, credits))
                .collect();
            returns.sort_by_key(|back| back.0);
            let entries = table.into_iter().map(|entry| entry % fair).chain(0..fair);
            let table = entries.map(StreamId).collect();
            let link = engine_link(rate_bps, overhead);
            Load { discipline, link, overhead, streams, table, returns, arrivals }
        })
}
