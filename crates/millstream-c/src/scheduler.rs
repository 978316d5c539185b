//! A scheduler with the records that C needs: counters, and drops until their owner takes them.
//!
//! Invariant: the packets that wait and the drops that were not taken are at most `capacity`, which
//! is the memory of `drops`. So a drop never allocates and never gets lost.

use std::collections::VecDeque;

use millstream::catalogue::DynScheduler;
use millstream::{Departure, Event, Observer, StreamId};

use crate::contract::Contract;
use crate::options::{Failure, MS_MOST_STREAMS, Names, Options};
use crate::packet::{Counters, Decision, Losses, Packet};
use crate::status::{
    MS_DROPPED_AQM, MS_DROPPED_FULL, MS_EMPTY, MS_ERROR_DROPS, MS_ERROR_INTERNAL, MS_ERROR_STREAM,
    MS_ERROR_TIME, MS_ERROR_UNSUPPORTED, MS_OK, Status,
};

/// The largest Ethernet frame without its checksum, bytes, for the default quantum.
const LARGEST_BYTES: u32 = 1514;

/// A stream with flows has its head and the head's successor outside the flows, and one packet more
/// than its limit before it drops some.
const BEYOND_FLOWS: u64 = 3;

/// The most packets that are passed to the engine at once, and the most decisions before their
/// records are written. Without flows.
const BATCH: usize = 64;

/// A scheduler. Only functions of this library use it.
pub struct Scheduler {
    engine: Box<dyn DynScheduler + Send>,
    records: Records,
    /// Scratch: the packets of a burst.
    arrivals: Vec<(StreamId, millstream::Packet)>,
    /// Scratch: the decisions of a burst.
    batch: Vec<Departure>,
    /// The most decisions before their records are written: 1 with flows, as a decision may mark
    /// the packet of the next one.
    batch_limit: usize,
    now_ns: u64,
    capacity: u64,
    /// `true` if a call panicked: the engine's state is unknown.
    broken: bool,
}

/// What the engine reports.
struct Records {
    /// Bytes sent by stream.
    sent_bytes: Box<[u64]>,
    losses: Box<[Losses]>,
    /// The packets of each stream outside its flows that must be marked when they leave; empty if
    /// no stream has flows.
    marked: Box<[[Option<u64>; 2]]>,
    drops: VecDeque<Decision>,
    /// The arriving packet's stream and number, and the reason if it was dropped.
    arriving: Option<(StreamId, u64)>,
    refused: Option<Event>,
}

impl Observer for Records {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        self.losses[stream.index()].miss(missed, violations);
    }

    fn dropped(&mut self, departure: &Departure) {
        self.losses[departure.stream.index()].drop(departure);
        let mut decision = Decision::new(departure);
        self.take_mark(&mut decision);
        if self.arriving == Some((departure.stream, departure.packet)) {
            self.refused = Some(departure.event);
        } else {
            debug_assert!(self.drops.len() < self.drops.capacity(), "a drop allocates");
            self.drops.push_back(decision);
        }
    }

    fn marked(&mut self, stream: StreamId, packet: u64, _: u64) {
        let marked = self.marked.get_mut(stream.index());
        if let Some(free) = marked.and_then(|both| both.iter_mut().find(|one| one.is_none())) {
            *free = Some(packet);
        } else {
            debug_assert!(false, "two packets of a stream at most are outside its flows");
        }
    }
}

impl Records {
    /// Marks the decision if its packet must be marked.
    #[inline]
    fn take_mark(&mut self, decision: &mut Decision) {
        let Some(marked) = self.marked.get_mut(decision.stream as usize) else { return };
        if let Some(found) = marked.iter_mut().find(|one| **one == Some(decision.packet)) {
            *found = None;
            decision.mark = 1;
        }
    }

    /// Returns the decision of a packet that is sent.
    #[inline(always)]
    fn sent(&mut self, departure: &Departure) -> Decision {
        let mut decision = Decision::sent(departure);
        self.sent_bytes[departure.stream.index()] += u64::from(departure.bytes);
        self.take_mark(&mut decision);
        decision
    }
}

impl Scheduler {
    /// Returns a scheduler with these streams; allocates all its memory.
    pub(crate) fn new(
        options: &Options,
        names: &Names<'_>,
        contracts: &[Contract],
    ) -> Result<Self, Failure> {
        if contracts.len() > MS_MOST_STREAMS as usize {
            return Err(Failure::range("the number of streams", contracts.len(), "2^20 at most"));
        }
        let choice = options.choose(names, contracts.len())?;
        let mut engine = choice.row.build(&choice.options, choice.structure);
        let smallest = contracts.iter().map(|contract| contract.weight).min().unwrap_or(1).max(1);
        let largest_bytes = choice.options.link.wire_bytes(LARGEST_BYTES);
        let mut capacity = u64::from(options.packet_limit);
        for (number, contract) in contracts.iter().enumerate() {
            let quantum = largest_bytes * u64::from(contract.weight) / u64::from(smallest);
            let quantum = u32::try_from(quantum).unwrap_or(u32::MAX);
            let added = contract
                .parse(quantum)
                .and_then(|parsed| engine.add_stream(parsed).map_err(Failure::contract));
            added.map_err(|failure| failure.of_stream(number))?;
            if contract.flows > 0 {
                capacity += u64::from(contract.flow_packets) + BEYOND_FLOWS;
            }
        }
        if !engine.preallocate(options.packet_limit) {
            return Err(MS_ERROR_UNSUPPORTED.into());
        }
        let has_flows = contracts.iter().any(|contract| contract.flows > 0);
        let records = Records {
            sent_bytes: vec![0; contracts.len()].into(),
            losses: vec![Losses::default(); contracts.len()].into(),
            marked: vec![[None; 2]; if has_flows { contracts.len() } else { 0 }].into(),
            // One more: the arrival that makes a flow too long.
            drops: VecDeque::with_capacity(usize::try_from(capacity + 1).unwrap_or(usize::MAX)),
            arriving: None,
            refused: None,
        };
        Ok(Self {
            engine,
            records,
            arrivals: Vec::with_capacity(BATCH),
            batch: Vec::with_capacity(BATCH),
            batch_limit: if has_flows { 1 } else { BATCH },
            now_ns: 0,
            capacity,
            broken: false,
        })
    }

    /// Runs a call; a panic makes the scheduler unusable.
    pub(crate) fn guard(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<Status, Status>,
    ) -> Status {
        if self.broken {
            return MS_ERROR_INTERNAL;
        }
        // After a panic no call uses the state, so it need not be consistent.
        let call = std::panic::AssertUnwindSafe(|| call(self));
        match std::panic::catch_unwind(call) {
            Ok(Ok(status) | Err(status)) => status,
            Err(_) => {
                self.broken = true;
                MS_ERROR_INTERNAL
            }
        }
    }

    /// Returns the stream of this number.
    pub(crate) fn stream(&self, number: u32) -> Result<StreamId, Status> {
        let stream = StreamId(number);
        if stream.index() < self.streams() { Ok(stream) } else { Err(MS_ERROR_STREAM) }
    }

    /// Advances the time.
    fn advance(&mut self, now_ns: u64) -> Result<(), Status> {
        if now_ns < self.now_ns {
            return Err(MS_ERROR_TIME);
        }
        self.now_ns = now_ns;
        Ok(())
    }

    /// Checks that `more` packets can become drops without allocation.
    fn check_drops(&self, more: usize) -> Result<(), Status> {
        let drops = self.records.drops.len() as u64;
        let kept = self.engine.total_waiting() + drops + more as u64;
        if drops > 0 && kept > self.capacity { Err(MS_ERROR_DROPS) } else { Ok(()) }
    }

    /// Enqueues one packet.
    pub(crate) fn enqueue(&mut self, packet: &Packet, now_ns: u64) -> Result<Status, Status> {
        self.stream(packet.stream)?;
        packet.flow()?;
        self.check_drops(1)?;
        self.advance(now_ns)?;
        self.accept(packet)
    }

    /// Enqueues packets, and moves those that were dropped to the beginning. Returns their number.
    pub(crate) fn enqueue_burst(
        &mut self,
        packets: &mut [Packet],
        now_ns: u64,
    ) -> Result<usize, Status> {
        let streams = self.streams();
        // Packets to streams with flows are passed one by one.
        let batch = if self.records.marked.is_empty() { BATCH } else { 0 };
        let (first, rest) = packets.split_at(packets.len().min(batch));
        let valid =
            self.read_batch(first, streams) & rest.iter().all(|packet| packet.is_valid(streams));
        if !valid {
            for packet in &*packets {
                self.stream(packet.stream)?;
                packet.flow()?;
            }
        }
        self.check_drops(packets.len())?;
        self.advance(now_ns)?;
        if self.records.marked.is_empty() {
            return Ok(self.accept_batches(packets));
        }
        let mut refused = 0;
        for at in 0..packets.len() {
            let packet = packets[at];
            if self.accept(&packet)? != MS_OK {
                packets[refused] = packet;
                refused += 1;
            }
        }
        Ok(refused)
    }

    /// Writes the next packets for the engine to `arrivals`. Returns whether all are valid.
    #[inline]
    fn read_batch(&mut self, packets: &[Packet], streams: usize) -> bool {
        self.arrivals.clear();
        // One result for all packets: no branch each.
        let mut valid = true;
        self.arrivals.extend(packets.iter().map(|packet| {
            valid &= packet.is_valid(streams);
            let arrival = millstream::Packet { bytes: packet.bytes, tag: packet.handle };
            (StreamId(packet.stream), arrival)
        }));
        valid
    }

    /// Passes checked packets to the engine at the current time. The first batch is in `arrivals`
    /// already, and no stream has flows. Moves those that were dropped to the beginning. Returns
    /// their number.
    fn accept_batches(&mut self, packets: &mut [Packet]) -> usize {
        let mut refused = 0;
        for first in (0..packets.len()).step_by(BATCH) {
            if first > 0 {
                let last = packets.len().min(first + BATCH);
                self.read_batch(&packets[first..last], self.streams());
            }
            let losses = &mut self.records.losses;
            self.engine.enqueue_batch(self.now_ns, &self.arrivals, &mut |at, full| {
                losses[full.stream.index()].drop(&full);
                packets[refused] = packets[first + at];
                refused += 1;
            });
        }
        refused
    }

    /// Passes a checked packet to the engine at the current time.
    fn accept(&mut self, packet: &Packet) -> Result<Status, Status> {
        let (stream, flow) = (StreamId(packet.stream), packet.flow()?);
        let number = self.engine.counters(stream).ok_or(MS_ERROR_INTERNAL)?.arrived;
        self.records.arriving = Some((stream, number));
        self.records.refused = None;
        let arrival = millstream::Packet { bytes: packet.bytes, tag: packet.handle };
        let accepted =
            self.engine.enqueue_flow(self.now_ns, stream, arrival, flow, &mut self.records);
        self.records.arriving = None;
        if let Err(full) = accepted {
            self.records.losses[stream.index()].drop(&full);
            return Ok(MS_DROPPED_FULL);
        }
        Ok(match self.records.refused {
            None => MS_OK,
            Some(Event::DroppedByAqm) => MS_DROPPED_AQM,
            Some(_) => MS_DROPPED_FULL,
        })
    }

    /// Makes a decision.
    pub(crate) fn dequeue(&mut self, now_ns: u64) -> Result<Option<Decision>, Status> {
        self.advance(now_ns)?;
        let departure = self.engine.decide(now_ns, &mut self.records);
        Ok(departure.map(|departure| self.records.sent(&departure)))
    }

    /// Makes up to `most` decisions at one instant.
    pub(crate) fn dequeue_burst(
        &mut self,
        now_ns: u64,
        most: usize,
        mut sent: impl FnMut(Decision),
    ) -> Result<(), Status> {
        self.advance(now_ns)?;
        let mut left = most;
        while left > 0 {
            let wanted = left.min(self.batch_limit);
            self.engine.decide_batch(now_ns, wanted, &mut self.records, &mut self.batch);
            let made = self.batch.len();
            for departure in &self.batch {
                sent(self.records.sent(departure));
            }
            self.batch.clear();
            if made < wanted {
                break;
            }
            left -= made;
        }
        Ok(())
    }

    /// Returns the drop that happened first, and forgets it.
    pub(crate) fn take_drop(&mut self) -> Option<Decision> {
        self.records.drops.pop_front()
    }

    /// Returns the number of drops that were not taken.
    pub(crate) fn drops(&self) -> usize {
        self.records.drops.len()
    }

    pub(crate) fn next_eligible_ns(&self) -> Option<u64> {
        self.engine.next_eligible_ns()
    }

    pub(crate) fn set_eligible(
        &mut self,
        stream: u32,
        eligible: bool,
        now_ns: u64,
    ) -> Result<Status, Status> {
        let stream = self.stream(stream)?;
        self.advance(now_ns)?;
        self.engine.set_eligible(now_ns, stream, eligible);
        Ok(MS_OK)
    }

    pub(crate) fn add_credits(
        &mut self,
        stream: u32,
        credits: u64,
        now_ns: u64,
    ) -> Result<Status, Status> {
        let stream = self.stream(stream)?;
        self.advance(now_ns)?;
        self.engine.add_credits(now_ns, stream, credits);
        Ok(MS_OK)
    }

    pub(crate) fn charge(
        &mut self,
        stream: u32,
        extra_bytes: i64,
        now_ns: u64,
    ) -> Result<Status, Status> {
        let stream = self.stream(stream)?;
        self.advance(now_ns)?;
        let charged = self.engine.charge(now_ns, stream, extra_bytes);
        if charged { Ok(MS_OK) } else { Err(MS_ERROR_UNSUPPORTED) }
    }

    pub(crate) fn counters(&self, stream: u32) -> Result<Counters, Status> {
        let stream = self.stream(stream)?;
        let Records { sent_bytes, losses, .. } = &self.records;
        let counters = self.engine.counters(stream).ok_or(MS_ERROR_INTERNAL)?;
        Ok(Counters::of(counters, sent_bytes[stream.index()], losses[stream.index()]))
    }

    pub(crate) fn streams(&self) -> usize {
        self.records.sent_bytes.len()
    }

    pub(crate) fn total_waiting(&self) -> u64 {
        self.engine.total_waiting()
    }
}

/// Returns the code for an optional result.
pub(crate) fn found(is_some: bool) -> Status {
    if is_some { MS_OK } else { MS_EMPTY }
}
