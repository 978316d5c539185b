//! The interface of disciplines.
//!
//! The FMC stream and real time are hidden from a discipline: its clock t' stops while an FMC
//! packet is transmitted. A stream without credits or tokens for its head is treated like an empty
//! one, but keeps its packets.

use std::collections::VecDeque;

use num_rational::BigRational;

use super::head_tags::{SelfClocked, VirtualClock};
use super::model::{Discipline, Spec};
use super::ring::Ring;
use super::slots::{Interleaved, Table};
use super::wf2q_plus::Wf2qPlus;
use super::wfq::Wfq;

/// Returns an exact number.
#[must_use]
pub fn whole(number: u64) -> BigRational {
    BigRational::from_integer(number.into())
}

/// Returns an exact quotient.
#[must_use]
pub fn ratio(numerator: u64, denominator: u64) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

/// Converts a rate from bits/s to bytes/ns.
#[must_use]
pub fn bytes_per_ns(rate_bps: u64) -> BigRational {
    ratio(rate_bps, 8_000_000_000)
}

/// A waiting packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its number among the stream's arrivals.
    pub number: u64,
    /// Its length, bytes.
    pub bytes: u32,
    /// Its length on the wire, bytes: L.
    pub length: u64,
    /// Arrival time, ns.
    pub arrival_ns: u64,
    /// Arrival time by the discipline's clock t', ns.
    pub arrival_clock_ns: u64,
}

/// The state of a stream that is visible to a discipline.
#[derive(Clone, Debug)]
pub struct Queue {
    /// φ.
    pub weight: u64,
    /// DRR's quantum.
    pub quantum: u64,
    /// Whether the stream is hidden from the discipline.
    pub fmc: bool,
    /// Whether the stream is backlogged, with credits and tokens for its head.
    pub active: bool,
    /// Its packets, head first, without the packet in service.
    pub waiting: VecDeque<Packet>,
}

/// The tags of a packet put in service.
#[derive(Clone, Debug, Default)]
pub struct Tags {
    /// S.
    pub start: Option<BigRational>,
    /// F.
    pub finish: Option<BigRational>,
    /// D after the packet.
    pub deficit: Option<u64>,
}

/// A discipline. `now` is t', ns.
pub trait FairDiscipline {
    /// Called before an arrival, credit return, release or decision.
    fn before_event(&mut self, _now: u64, _queues: &[Queue]) {}

    /// Called when a packet, credits or tokens make the stream active.
    fn activated(&mut self, stream: usize, queues: &[Queue]);

    /// Called when a packet arrives behind other packets of an active stream.
    fn packet_queued(&mut self, _stream: usize, _queues: &[Queue]) {}

    /// Returns the first of the active streams.
    fn choose(&mut self, queues: &[Queue]) -> Option<usize>;

    /// Called when `packet` leaves its queue for service. The stream's activity is that of its next
    /// head.
    fn service_started(&mut self, stream: usize, packet: &Packet, queues: &[Queue]) -> Tags;

    /// Called when the link is free and every queue is empty.
    fn idle(&mut self, _now: u64) {}

    /// Returns V.
    fn virtual_time(&self) -> BigRational {
        whole(0)
    }
}

/// Returns the active streams of the discipline, in index order.
pub fn contenders(queues: &[Queue]) -> impl Iterator<Item = usize> + '_ {
    (0..queues.len()).filter(|stream| queues[*stream].active && !queues[*stream].fmc)
}

/// Returns the contender with the least key; ties go to the lower stream.
pub fn least<K: Ord>(queues: &[Queue], key: impl Fn(usize) -> Option<K>) -> Option<usize> {
    let mut best: Option<(K, usize)> = None;
    for stream in contenders(queues) {
        let Some(key) = key(stream) else { continue };
        if best.as_ref().is_none_or(|(least, _)| key < *least) {
            best = Some((key, stream));
        }
    }
    best.map(|(_, stream)| stream)
}

/// Returns r / Σφ over all streams of the discipline, bytes per unit of weight and ns.
#[must_use]
pub fn configured_slope(spec: &Spec) -> BigRational {
    let shared = spec.streams.iter().filter(|stream| !stream.fmc);
    let weights = shared.fold(whole(0), |sum, stream| sum + whole(stream.weight));
    if weights == whole(0) { whole(0) } else { bytes_per_ns(spec.rate_bps) / weights }
}

/// Returns the discipline of a scenario.
///
/// # Panics
/// If a stream lacks a weight or quantum that the discipline needs, or a table names an unknown
/// stream.
#[must_use]
pub fn build(spec: &Spec) -> Box<dyn FairDiscipline> {
    let shared = || spec.streams.iter().filter(|stream| !stream.fmc);
    match &spec.discipline {
        Discipline::Drr => assert!(shared().all(|stream| stream.quantum > 0), "a quantum is 0"),
        Discipline::Table(entries) => {
            let known = |entry: &u32| (*entry as usize) < spec.streams.len();
            assert!(entries.iter().all(known), "a table entry names an unknown stream");
        }
        _ => assert!(shared().all(|stream| stream.weight > 0), "a weight is 0"),
    }
    match &spec.discipline {
        Discipline::Wfq => Box::new(Wfq::new(spec, false)),
        Discipline::Wf2q => Box::new(Wfq::new(spec, true)),
        Discipline::Scfq => Box::new(SelfClocked::new(spec, false)),
        Discipline::Sfq => Box::new(SelfClocked::new(spec, true)),
        Discipline::Wf2qPlus => Box::new(Wf2qPlus::new(spec)),
        Discipline::VirtualClock => Box::new(VirtualClock::new(spec)),
        Discipline::Drr => Box::new(Ring::new(spec, false)),
        Discipline::Wrr => Box::new(Ring::new(spec, true)),
        Discipline::Wirr => Box::new(Interleaved::default()),
        Discipline::Table(entries) => Box::new(Table::new(entries)),
    }
}
