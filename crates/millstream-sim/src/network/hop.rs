//! A link of a network with its scheduler.

use millstream::aqm::Ecn;
use millstream::catalogue::DynScheduler;
use millstream::{Departure, Event, Observer, Packet, StreamId};
use millstream_scenario::{Hop, Scenario};
use millstream_traffic::Random;
use slab::Slab;
use std::io;

use super::packets::InFlight;
use super::report::HopCounts;
use crate::link::Listener;

/// The random sequences of links follow those of streams.
const FIRST_SEQUENCE: u64 = 1 << 32;

/// A link.
pub(super) struct HopState<'a> {
    hop: &'a Hop,
    scheduler: Box<dyn DynScheduler + Send>,
    random: Random,
    /// The packet in transmission, and its end, ns.
    in_service: Option<usize>,
    free_ns: u64,
    /// Whether its next decision is due at this instant.
    pub(super) is_ready: bool,
    /// When it decides again although no packet comes, ns; `u64::MAX`: never.
    pub(super) wake_ns: u64,
    pub(super) counts: HopCounts,
}

/// The packets of the network and the listener, which every link informs.
pub(super) struct Shared<'a> {
    pub(super) packets: Slab<InFlight>,
    pub(super) listener: &'a mut dyn Listener,
    pub(super) failed: Option<io::Error>,
    /// For each stream, the last link that its packets pass, and their number so far.
    pub(super) last_hop: Vec<u16>,
}

impl Shared<'_> {
    /// Removes a packet that was dropped, and reports its departure.
    fn depart(&mut self, key: usize, departure: &Departure) {
        self.report(key, departure);
        self.packets.try_remove(key);
    }

    /// Reports the departure of a packet, if it counts as the stream's.
    fn report(&mut self, key: usize, departure: &Departure) {
        let Some(packet) = self.packets.get(key) else { return };
        let Some(number) = packet.number else { return };
        let departure = Departure {
            stream: StreamId(packet.stream),
            packet: number,
            arrival_ns: packet.entered_ns,
            ..*departure
        };
        if let Err(error) = self.listener.departed(&departure, packet.frame.as_deref()) {
            self.failed.get_or_insert(error);
        }
    }
}

/// What a link's scheduler reports.
struct HopObserver<'b, 'a> {
    hop: u16,
    counts: &'b mut HopCounts,
    shared: &'b mut Shared<'a>,
}

impl Observer for HopObserver<'_, '_> {
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        if self.shared.last_hop.get(stream.index()) == Some(&self.hop) {
            self.shared.listener.missed(stream, now_ns, missed, violations);
        }
    }

    fn dropped(&mut self, departure: &Departure) {
        match departure.event {
            Event::DroppedByAqm => self.counts.dropped_by_aqm += 1,
            Event::DroppedFull => self.counts.dropped_full += 1,
            Event::DroppedLate | Event::Sent => self.counts.dropped_late += 1,
        }
        self.shared.depart(key(departure.tag), departure);
    }

    fn marked(&mut self, _: StreamId, _: u64, tag: u64) {
        self.counts.marked += 1;
        if let Some(packet) = self.shared.packets.get_mut(key(tag)) {
            packet.flow.ecn = Ecn::Congested;
        }
    }
}

/// Returns the slab's key of a packet's tag.
fn key(tag: u64) -> usize {
    usize::try_from(tag).unwrap_or(usize::MAX)
}

impl<'a> HopState<'a> {
    pub(super) fn new(scenario: &Scenario, number: u16, hop: &'a Hop) -> Self {
        Self {
            hop,
            scheduler: scenario.scheduler_of(hop),
            random: Random::new(scenario.seed, FIRST_SEQUENCE + u64::from(number)),
            in_service: None,
            free_ns: 0,
            is_ready: false,
            wake_ns: u64::MAX,
            counts: HopCounts::default(),
        }
    }

    /// Returns the packets that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.scheduler.total_waiting()
    }

    /// Returns the propagation delay, ns.
    pub(super) fn delay_ns(&self) -> u64 {
        self.hop.delay_ns
    }

    /// Returns whether it transmits at `now_ns`.
    pub(super) fn is_busy(&self, now_ns: u64) -> bool {
        self.free_ns > now_ns
    }

    /// Queues a packet as one of `stream`.
    pub(super) fn enqueue(
        &mut self,
        number: u16,
        stream: StreamId,
        at: usize,
        now_ns: u64,
        shared: &mut Shared<'_>,
    ) {
        let Some(packet) = shared.packets.get_mut(at) else { return };
        packet.queued_ns = now_ns;
        let (offered, flow) = (Packet { bytes: packet.bytes, tag: at as u64 }, packet.flow);
        if self.hop.queue.is_some_and(|limit| self.scheduler.total_waiting() >= u64::from(limit)) {
            self.counts.dropped_full += 1;
            let departure = Departure {
                time_ns: now_ns,
                stream,
                packet: 0,
                bytes: offered.bytes,
                arrival_ns: now_ns,
                deadline_ns: None,
                event: Event::DroppedFull,
                tag: offered.tag,
            };
            shared.depart(at, &departure);
            return;
        }
        let mut observer = HopObserver { hop: number, counts: &mut self.counts, shared };
        let queued = self.scheduler.enqueue_flow(now_ns, stream, offered, flow, &mut observer);
        if let Err(full) = queued {
            self.counts.dropped_full += 1;
            shared.depart(at, &full);
        }
    }

    /// Decides on the next packet at `now_ns`, when the link is idle. Returns the end of its
    /// transmission, ns.
    pub(super) fn decide(
        &mut self,
        number: u16,
        now_ns: u64,
        shared: &mut Shared<'_>,
    ) -> Option<u64> {
        let mut observer = HopObserver { hop: number, counts: &mut self.counts, shared };
        let Some(departure) = self.scheduler.decide(now_ns, &mut observer) else {
            self.wake_ns = match self.scheduler.total_waiting() {
                0 => u64::MAX,
                _ => self.scheduler.next_eligible_ns().unwrap_or(u64::MAX).max(now_ns + 1),
            };
            return None;
        };
        self.wake_ns = u64::MAX;
        self.free_ns = now_ns.saturating_add(self.hop.link.transmission_ns(departure.bytes));
        let at = key(departure.tag);
        self.in_service = Some(at);
        let counts = &mut self.counts;
        counts.sent_packets += 1;
        counts.sent_bytes += u64::from(departure.bytes);
        counts.busy_ns += self.free_ns - now_ns;
        if number == 0 {
            shared.listener.busy(now_ns, self.free_ns);
        }
        if let Some(packet) = shared.packets.get(at) {
            counts.delay.record(now_ns - packet.queued_ns);
            if shared.last_hop[packet.stream as usize] == number {
                shared.report(at, &departure);
            }
        }
        Some(self.free_ns)
    }

    /// Ends a transmission; returns the packet, unless the link loses it.
    pub(super) fn transmitted(&mut self, shared: &mut Shared<'_>) -> Option<usize> {
        let at = self.in_service.take()?;
        if self.hop.loss > 0 && self.random.below(u64::MAX) < self.hop.loss {
            self.counts.lost += 1;
            shared.packets.try_remove(at);
            return None;
        }
        Some(at)
    }
}
