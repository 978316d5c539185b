//! A scheduler with the records that C needs: counters, and drops until their owner takes them.
//!
//! Invariant: the packets that wait and the drops that were not taken are at most `capacity`, which
//! is the memory of `drops`. So a drop never allocates and never gets lost.

use std::collections::VecDeque;

use millstream::catalogue::DynScheduler;
use millstream::{Departure, Event, Observer, StreamId};

use crate::contract::Contract;
use crate::options::{Failure, MS_MOST_STREAMS, Names, Options};
use crate::packet::{Counters, Decision, Packet};
use crate::status::{
    MS_DROPPED_AQM, MS_DROPPED_FULL, MS_EMPTY, MS_ERROR_DROPS, MS_ERROR_INTERNAL, MS_ERROR_STREAM,
    MS_ERROR_TIME, MS_ERROR_UNSUPPORTED, MS_OK, Status,
};

/// The largest Ethernet frame without its checksum, bytes, for the default quantum.
const LARGEST_BYTES: u64 = 1514;

/// A stream with flows has its head and the head's successor outside the flows, and one packet more
/// than its limit before it drops some.
const BEYOND_FLOWS: u64 = 3;

/// The most decisions before their records are written, without flows.
const BATCH: usize = 64;

/// A scheduler. Only functions of this library use it.
pub struct Scheduler {
    engine: Box<dyn DynScheduler + Send>,
    records: Records,
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
    streams: Box<[StreamRecord]>,
    drops: VecDeque<Decision>,
    /// The arriving packet's stream and number, and the reason if it was dropped.
    arriving: Option<(StreamId, u64)>,
    refused: Option<Event>,
}

/// The records of one stream.
#[derive(Clone, Default)]
struct StreamRecord {
    counters: Counters,
    /// Packets outside the flows that must be marked when they leave.
    marked: [Option<u64>; 2],
}

impl StreamRecord {
    /// Returns whether the packet must be marked, and forgets it.
    fn take_mark(&mut self, packet: u64) -> bool {
        let found = self.marked.iter_mut().find(|marked| **marked == Some(packet));
        found.and_then(Option::take).is_some()
    }
}

impl Observer for Records {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        let counters = &mut self.streams[stream.index()].counters;
        counters.missed += missed;
        counters.violations += violations;
    }

    fn dropped(&mut self, departure: &Departure) {
        let record = &mut self.streams[departure.stream.index()];
        record.counters.depart(departure);
        let mark = record.take_mark(departure.packet);
        if self.arriving == Some((departure.stream, departure.packet)) {
            self.refused = Some(departure.event);
        } else {
            debug_assert!(self.drops.len() < self.drops.capacity(), "a drop allocates");
            self.drops.push_back(Decision::new(departure, mark));
        }
    }

    fn marked(&mut self, stream: StreamId, packet: u64, _: u64) {
        let marked = &mut self.streams[stream.index()].marked;
        if let Some(free) = marked.iter_mut().find(|marked| marked.is_none()) {
            *free = Some(packet);
        } else {
            debug_assert!(false, "two packets of a stream at most are outside its flows");
        }
    }
}

impl Records {
    fn sent(&mut self, departure: &Departure) -> Decision {
        let record = &mut self.streams[departure.stream.index()];
        record.counters.depart(departure);
        Decision::new(departure, record.take_mark(departure.packet))
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
        let largest_bytes = LARGEST_BYTES + u64::from(options.link_overhead_bytes);
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
        let records = Records {
            streams: vec![StreamRecord::default(); contracts.len()].into(),
            // One more: the arrival that makes a flow too long.
            drops: VecDeque::with_capacity(usize::try_from(capacity + 1).unwrap_or(usize::MAX)),
            arriving: None,
            refused: None,
        };
        let has_flows = contracts.iter().any(|contract| contract.flows > 0);
        Ok(Self {
            engine,
            records,
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
        if stream.index() < self.records.streams.len() { Ok(stream) } else { Err(MS_ERROR_STREAM) }
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
        for packet in &*packets {
            self.stream(packet.stream)?;
            packet.flow()?;
        }
        self.check_drops(packets.len())?;
        self.advance(now_ns)?;
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

    /// Passes a checked packet to the engine at the current time.
    fn accept(&mut self, packet: &Packet) -> Result<Status, Status> {
        let (stream, flow) = (StreamId(packet.stream), packet.flow()?);
        let counters = &mut self.records.streams[stream.index()].counters;
        self.records.arriving = Some((stream, counters.arrived));
        self.records.refused = None;
        counters.arrive(packet.bytes);
        let arrival = millstream::Packet { bytes: packet.bytes, tag: packet.handle };
        let accepted =
            self.engine.enqueue_flow(self.now_ns, stream, arrival, flow, &mut self.records);
        self.records.arriving = None;
        if let Err(full) = accepted {
            self.records.streams[stream.index()].counters.depart(&full);
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
            let (wanted, batch) = (left.min(self.batch_limit), &mut self.batch);
            let made = self.engine.decide_batch(now_ns, wanted, &mut self.records, &mut |sent| {
                batch.push(sent);
            });
            left -= made;
            for departure in self.batch.drain(..) {
                sent(self.records.sent(&departure));
            }
            if made < wanted {
                break;
            }
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
        Ok(self.records.streams[stream.index()].counters)
    }

    pub(crate) fn streams(&self) -> usize {
        self.records.streams.len()
    }

    pub(crate) fn total_waiting(&self) -> u64 {
        self.engine.total_waiting()
    }
}

/// Returns the code for an optional result.
pub(crate) fn found(is_some: bool) -> Status {
    if is_some { MS_OK } else { MS_EMPTY }
}
