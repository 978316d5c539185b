//! Simulates card, bus and the host's transfers, cycle by cycle.
//!
//! The bus serves three masters round-robin: the card's pulls of arrivals, the transmission
//! engine's reads of winners, and the queue manager's writes. Each has at most one transfer in
//! flight. The card is clocked with the data that has arrived. While card and host are idle, time
//! jumps to the next event.
//!
//! The queue manager writes a single arrival to PUSH if SRAM has space; otherwise it offers all to
//! be pulled. The counters are read every 2¹⁰ packets, before 16 bits can wrap.

use std::collections::VecDeque;

use millstream::{Contract, ContractError};
use millstream_sync::blocking::{Disconnected, Receiver, Sender};

use super::clock::{self, Clock, Cycles};
use super::cost::{Cost, Transfers};
use super::engine::{BURST, TimelineEvent};
use super::registers::{
    MISSED, PULL, PULL_COUNT, PULL_STREAM, PUSH, PUSH_ARRIVAL, PUSH_STREAM, SELECT, SELECT_STREAM,
    WINNER, WINNER_DROPPED, WINNER_STREAM, WINNER_TIME, WINNER_VALID,
};
use super::{Arrival, Bus, Options, contracts};
use crate::rtl::card::{Card, Outputs, byte};

/// Selects the counters of a kind of transfer.
type SelectTransfers = fn(&mut Cost) -> &mut Transfers;

/// Packets between two reads of the counters.
const POLL_INTERVAL: u64 = 1 << 10;

/// Maximum wait in ticks; an older packet's stamp would appear to be in the future.
const MAX_AGE: u64 = 1 << 15;

/// Observes the inside of the card, to compare schedules.
pub trait Probe {
    /// Called when an arrival of `stream` with this stamp is written to SRAM.
    fn written(&mut self, stream: usize, stamp: u16) {
        let _ = (stream, stamp);
    }

    /// Called when a decision starts at `now`, over the arrivals of earlier cycles.
    fn started(&mut self, now: u16) {
        let _ = now;
    }
}

/// Ignores all events.
impl Probe for () {}

/// A write in flight.
struct Write {
    at_ns: u64,
    address: u32,
    data: u32,
}

/// A burst of reads of one register or of consecutive registers.
struct Read {
    granted_ns: u64,
    begins_ns: u64,
    /// The stream whose counters are read; `None` reads winners.
    counters: Option<usize>,
    requested: bool,
    words: Vec<u32>,
}

/// Words of a pull in flight, with their arrival times at the card.
struct Pull {
    stream: usize,
    words: VecDeque<(u64, u32)>,
    started: bool,
}

/// Progress of reading the counters.
enum CounterPoll {
    Select(usize),
    Read(usize),
}

/// The host's state of a stream.
#[derive(Default)]
struct Stream {
    limit: Option<u32>,
    /// Packets that arrived and have not left.
    waiting: u64,
    /// Stamps not yet offered to the card.
    unoffered: VecDeque<u64>,
    /// Stamps offered to the card and not yet pulled.
    to_pull: VecDeque<u16>,
    /// Stamps that were offered to the card; their packets have not left.
    offered: VecDeque<u64>,
    /// The last stamp.
    last: u64,
    missed: u16,
    violations: u16,
}

/// Card, bus and transfers.
pub struct Timeline {
    card: Card,
    out: Outputs,
    lanes: u64,
    depth: usize,
    bus: Bus,
    bus_free_ns: u64,
    time: Cycles,
    clock: Clock,
    streams: Vec<Stream>,
    waiting: u64,
    /// Packets offered to the card that have not left.
    on_card: u64,
    /// The next stream to offer, round-robin.
    next_stream: usize,
    /// The last bus master: pulls, reads or writes.
    master: usize,
    write: Option<Write>,
    read: Option<Read>,
    pull: Option<Pull>,
    counter_poll: Option<CounterPoll>,
    polled_packets: u64,
    /// Earliest time of the next read of winners, ns.
    next_read_ns: u64,
    /// Consecutive idle cycles.
    idle_cycles: u64,
    /// Cycles since the last decision, if any.
    since_decision: Option<usize>,
    /// Histogram of cycles between decisions; longer intervals include waits.
    decision_intervals: [u64; 16],
    first_ns: Option<u64>,
    cost: Cost,
}

/// Whether the engine still receives events.
type Delivery = Result<(), Disconnected>;

impl Timeline {
    /// Creates the timeline at time 0, with the contracts loaded.
    ///
    /// # Errors
    /// Fails if a contract does not fit the card's registers.
    pub fn new(
        options: &Options,
        contracts: &[Contract],
        mut card: Card,
    ) -> Result<Self, ContractError> {
        let longest = contracts::load(&mut card, options, contracts)?;
        let lanes = contracts.len().next_power_of_two().max(2);
        let stream =
            |contract: &Contract| Stream { limit: contract.queue_limit(), ..Stream::default() };
        Ok(Self {
            out: card.cycle(),
            card,
            lanes: lanes as u64,
            depth: super::depth(lanes),
            bus: options.bus,
            bus_free_ns: 0,
            time: Cycles::new(options.clock_hz),
            clock: Clock::new(options.packet_time_ns, longest),
            streams: contracts.iter().map(stream).collect(),
            waiting: 0,
            on_card: 0,
            next_stream: 0,
            master: 0,
            write: None,
            read: None,
            pull: None,
            counter_poll: None,
            polled_packets: 0,
            next_read_ns: 0,
            idle_cycles: 0,
            since_decision: None,
            decision_intervals: [0; 16],
            first_ns: None,
            cost: Cost::new(options.bus, options.clock_hz),
        })
    }

    /// Returns the cost so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let usual = (1..self.decision_intervals.len())
            .rev()
            .max_by_key(|cycles| self.decision_intervals[*cycles]);
        let usual = usual.filter(|cycles| self.decision_intervals[*cycles] > 0).unwrap_or(0);
        Cost { decision_cycles: usual as u64, ..self.cost.clone() }
    }

    /// Runs until all packets of `arrivals` have left or the engine has stopped.
    ///
    /// # Errors
    /// Returns a message, if a time or counter exceeds the card's range.
    pub fn run<T>(
        &mut self,
        mut arrivals: Receiver<Arrival<T>>,
        mut events: Sender<TimelineEvent<T>>,
        mut requests: Receiver<u64>,
        probe: &mut impl Probe,
    ) -> Result<(), String> {
        let mut next_ns = Some(0);
        loop {
            while next_ns.is_some_and(|next_ns| next_ns <= self.time.ns()) {
                match arrivals.peek() {
                    Err(Disconnected) => next_ns = None,
                    Ok(next) if next.time_ns > self.time.ns() => next_ns = Some(next.time_ns),
                    Ok(_) => {
                        let Ok(arrival) = arrivals.receive() else { break };
                        if events.send(self.arrive(arrival)).is_err() {
                            return Ok(());
                        }
                    }
                }
            }
            let finished = next_ns.is_none() && self.waiting == 0;
            if finished
                && self.counter_poll.is_none()
                && self.read.is_none()
                && self.write.is_none()
            {
                if self.polled_packets == self.cost.packets {
                    return Ok(());
                }
                self.counter_poll = Some(CounterPoll::Select(0));
            }
            self.grant();
            if self.cycle(&mut events, &mut requests, probe)?.is_err() {
                return Ok(());
            }
            if self.idle_cycles > 2 * self.lanes {
                self.jump_to_next_event(next_ns)?;
            }
        }
    }

    /// Queues an arriving packet.
    fn arrive<T>(&mut self, arrival: Arrival<T>) -> TimelineEvent<T> {
        let stream = &mut self.streams[arrival.stream as usize];
        if stream.limit.is_some_and(|limit| stream.waiting >= u64::from(limit)) {
            return TimelineEvent::DroppedFull(arrival);
        }
        self.first_ns.get_or_insert(arrival.time_ns);
        stream.waiting += 1;
        let decided = self.on_card.min(super::WINNERS as u64);
        // Stamps of a stream are non-decreasing.
        let stamp = self.clock.stamp(arrival.time_ns, decided).max(stream.last);
        stream.last = stamp;
        stream.unoffered.push_back(stamp);
        self.waiting += 1;
        TimelineEvent::Arrived(arrival)
    }

    /// Grants a free bus to the next master that requests it, round-robin.
    fn grant(&mut self) {
        if self.time.ns() < self.bus_free_ns {
            return;
        }
        for _ in 0..3 {
            self.master = (self.master + 1) % 3;
            let granted = match self.master {
                0 => self.grant_pull(),
                1 => self.grant_read(),
                _ => self.write.is_none() && self.offer(),
            };
            if granted {
                return;
            }
        }
    }

    /// Starts a read of winners, or of the counters after selecting their stream.
    fn grant_read(&mut self) -> bool {
        match self.counter_poll {
            _ if self.read.is_some() => false,
            Some(CounterPoll::Select(stream)) if self.write.is_none() => {
                let data = SELECT_STREAM.put(number(stream));
                self.grant_write(SELECT, data, |cost| &mut cost.counters);
                self.counter_poll = Some(CounterPoll::Read(stream));
                true
            }
            Some(CounterPoll::Read(stream)) if self.write.is_none() => {
                self.begin_read(Some(stream))
            }
            Some(_) => false,
            None => {
                self.out.winner_waits == 1
                    && self.time.ns() >= self.next_read_ns
                    && self.begin_read(None)
            }
        }
    }

    fn grant_pull(&mut self) -> bool {
        if self.out.pull_valid == 0 || self.pull.is_some() {
            return false;
        }
        let at = usize::from(self.out.pull_stream);
        let stream = &mut self.streams[at];
        let count = usize::from(self.out.pull_count);
        let stamps: Vec<u16> = stream.to_pull.drain(..count).collect();
        let bytes = 2 * count as u64;
        let first_ns = self.time.ns() + self.bus.read_ns;
        let word = |(at, pair): (u64, &[u16])| {
            let data = u32::from(pair[0]) | u32::from(*pair.get(1).unwrap_or(&0)) << 16;
            (first_ns + self.bus.bytes_ns(4 * (at + 1)), data)
        };
        let words = (0..).zip(stamps.chunks(2)).map(word).collect();
        self.pull = Some(Pull { stream: at, words, started: false });
        let held_ns = if self.bus.split { 0 } else { self.bus.read_ns };
        let busy_ns = held_ns + self.bus.bytes_ns(bytes);
        self.charge(busy_ns, bytes, |cost| &mut cost.pulls);
        true
    }

    fn grant_write(&mut self, address: u32, data: u32, kind: SelectTransfers) {
        let bytes_ns = self.bus.bytes_ns(4);
        let at_ns = self.time.ns() + self.bus.write_ns + bytes_ns;
        self.write = Some(Write { at_ns, address, data });
        let busy_ns = if self.bus.split { bytes_ns } else { self.bus.write_ns + bytes_ns };
        self.charge(busy_ns, 4, kind);
    }

    fn begin_read(&mut self, counters: Option<usize>) -> bool {
        let granted_ns = self.time.ns();
        let begins_ns = granted_ns + self.bus.write_ns;
        let words = Vec::with_capacity(BURST);
        self.read = Some(Read { granted_ns, begins_ns, counters, requested: false, words });
        if !self.bus.split {
            self.bus_free_ns = u64::MAX;
        }
        true
    }

    fn charge(&mut self, busy_ns: u64, bytes: u64, kind: SelectTransfers) {
        self.bus_free_ns = self.time.ns() + busy_ns;
        let transfers = kind(&mut self.cost);
        transfers.count += 1;
        transfers.bytes += bytes;
        transfers.busy_ns += busy_ns;
    }

    /// Offers the packets of the next stream to the card, round-robin.
    fn offer(&mut self) -> bool {
        for _ in 0..self.streams.len() {
            let at = self.next_stream;
            self.next_stream = (self.next_stream + 1) % self.streams.len();
            let stream = &mut self.streams[at];
            // Offers at most twice the SRAM's depth; refills when a quarter of that is free.
            if stream.unoffered.is_empty() || stream.offered.len() > self.depth * 3 / 2 {
                continue;
            }
            let count = stream.unoffered.len().min(2 * self.depth - stream.offered.len());
            // A push would overtake a pull in progress.
            let pulls = !stream.to_pull.is_empty()
                || self.pull.as_ref().is_some_and(|pull| pull.stream == at);
            let pushed = count == 1 && !pulls && stream.offered.len() < self.depth / 2;
            let stamps = stream.unoffered.drain(..count).map(|stamp| self.clock.clamp(stamp));
            let before = stream.offered.len();
            self.on_card += count as u64;
            stream.offered.extend(stamps);
            let mut stamps = stream.offered.range(before..).map(|stamp| clock::low(*stamp));
            if pushed {
                let stamp = stamps.next().expect("one stamp is offered");
                let data = PUSH_STREAM.put(number(at)) | PUSH_ARRIVAL.put(stamp.into());
                self.grant_write(PUSH, data, |cost| &mut cost.writes);
            } else {
                stream.to_pull.extend(stamps);
                let data = PULL_STREAM.put(number(at)) | PULL_COUNT.put(number(count));
                self.grant_write(PULL, data, |cost| &mut cost.writes);
            }
            return true;
        }
        false
    }

    /// Runs one cycle of the card with the inputs that have arrived.
    fn cycle<T>(
        &mut self,
        events: &mut Sender<TimelineEvent<T>>,
        requests: &mut Receiver<u64>,
        probe: &mut impl Probe,
    ) -> Result<Delivery, String> {
        let now_ns = self.time.ns();
        let inputs = &mut self.card.inputs;
        let write = self.write.as_ref().filter(|write| write.at_ns <= now_ns);
        inputs.write = write.is_some().into();
        if let Some(write) = write {
            (inputs.write_address, inputs.write_data) = (byte(write.address), write.data);
        }
        let read = self.read.as_ref().filter(|read| read.begins_ns <= now_ns && !read.requested);
        inputs.read = read.is_some().into();
        if let Some(read) = read {
            // The two counters have consecutive addresses.
            let place = 4 * u32::try_from(read.words.len()).expect("a burst is short");
            inputs.read_address =
                byte(if read.counters.is_some() { MISSED + place } else { WINNER });
        }
        inputs.pull_ready = self.pull.as_ref().is_some_and(|pull| !pull.started).into();
        let word =
            self.pull.as_ref().filter(|pull| pull.started).and_then(|pull| pull.words.front());
        let word = word.filter(|word| word.0 <= now_ns);
        inputs.data_valid = word.is_some().into();
        inputs.data = word.map_or(0, |word| word.1.into());
        let busy = inputs.write | inputs.read | inputs.pull_ready | inputs.data_valid == 1;
        let out = self.card.cycle();
        self.out = out;
        self.time.tick();
        self.since_decision = self.since_decision.map(|cycles| cycles + 1);
        self.idle_cycles = if busy || out.idle == 0 { 0 } else { self.idle_cycles + 1 };
        if out.range != 0 {
            let stream = out.range.trailing_zeros();
            return Err(format!(
                "the deadline of stream {stream} (from 0) is more than 2^14 packet-times from now, \
                 where the card's 16-bit times wrap: its period is too long for its service rate, \
                 or it is late for too long"
            ));
        }
        if out.window_full != 0 {
            let stream = out.window_full.trailing_zeros();
            return Err(format!(
                "y' of stream {stream} (from 0) reached 255 by violations, where the card's \
                 8 bits end and the schedule may differ"
            ));
        }
        if out.started == 1 {
            self.cost.decisions += 1;
            let between = self.since_decision.replace(0).unwrap_or(0);
            if let Some(count) = self.decision_intervals.get_mut(between) {
                *count += 1;
            }
            probe.started(out.now);
        }
        for bank in 0..2 {
            if out.written >> bank & 1 == 1 {
                let stream = usize::from(out.written_stream >> (6 * bank) & 63);
                probe.written(stream, clock::low(u64::from(out.written_time >> (16 * bank))));
            }
        }
        if self.card.inputs.write & out.write_ready == 1 {
            self.write = None;
        }
        if let Some(pull) = &mut self.pull {
            pull.started |= out.pull_valid == 1;
            if self.card.inputs.data_valid & out.data_ready == 1 {
                pull.words.pop_front();
            }
        }
        self.pull.take_if(|pull| pull.started && pull.words.is_empty());
        if let Some(read) = &mut self.read {
            read.requested |= self.card.inputs.read & out.read_ready == 1;
            if out.read_valid == 1 {
                read.requested = false;
                read.words.push(out.read_data);
                let more = match read.counters {
                    Some(_) => read.words.len() < 2,
                    None => WINNER_VALID.get(out.read_data) == 1 && read.words.len() < BURST,
                };
                if let Some(read) = self.read.take_if(|_| !more) {
                    return self.complete_read(read, events, requests);
                }
            }
        }
        Ok(Ok(()))
    }

    /// Completes a burst of reads.
    fn complete_read<T>(
        &mut self,
        read: Read,
        events: &mut Sender<TimelineEvent<T>>,
        requests: &mut Receiver<u64>,
    ) -> Result<Delivery, String> {
        let bytes = 4 * read.words.len() as u64;
        let bytes_ns = self.bus.bytes_ns(bytes);
        let kind: SelectTransfers = match read.counters {
            Some(_) => |cost| &mut cost.counters,
            None => |cost| &mut cost.winners,
        };
        let known_ns;
        if self.bus.split {
            let begins_ns = self.bus_free_ns.max(self.time.ns());
            self.charge(bytes_ns, bytes, kind);
            self.bus_free_ns = begins_ns + bytes_ns;
            known_ns = self.bus_free_ns + (self.bus.read_ns - self.bus.write_ns);
        } else {
            known_ns = self.time.ns().max(read.granted_ns + self.bus.read_ns + bytes_ns);
            self.charge(known_ns - read.granted_ns, bytes, kind);
            self.bus_free_ns = known_ns;
        }
        if let Some(stream) = read.counters {
            return Ok(self.report_counters(stream, &read.words, known_ns, events));
        }
        for word in read.words.into_iter().filter(|word| WINNER_VALID.get(*word) == 1) {
            let at = WINNER_STREAM.get(word) as usize;
            let now = self.clock.update(clock::low(u64::from(WINNER_TIME.get(word))));
            let Some(stream) = self.streams.get_mut(at).filter(|stream| stream.waiting > 0) else {
                return Err(format!("a packet of stream {at} (from 0) left an empty queue"));
            };
            stream.offered.pop_front();
            stream.waiting -= 1;
            self.on_card -= 1;
            self.waiting -= 1;
            self.cost.packets += 1;
            if stream.offered.front().is_some_and(|stamp| now + 1 - stamp.min(&now) >= MAX_AGE) {
                return Err(format!(
                    "a packet of stream {at} (from 0) waited for 2^15 packet-times on the \
                     card, where its 16-bit times wrap"
                ));
            }
            let dropped = WINNER_DROPPED.get(word) == 1;
            if events
                .send(TimelineEvent::Departed { stream: at, dropped, read_ns: known_ns })
                .is_err()
            {
                return Ok(Err(Disconnected));
            }
        }
        self.cost.span_ns = known_ns - self.first_ns.unwrap_or(0).min(known_ns);
        if self.cost.packets - self.polled_packets >= POLL_INTERVAL && self.counter_poll.is_none() {
            self.counter_poll = Some(CounterPoll::Select(0));
        }
        // Later cycles depend on the time of the engine's next read.
        let wanted = events
            .send(TimelineEvent::Burst { read_ns: known_ns })
            .and_then(|()| requests.receive());
        Ok(wanted.map(|next_read_ns| self.next_read_ns = next_read_ns.max(known_ns)))
    }

    /// Reports the counters of a stream.
    fn report_counters<T>(
        &mut self,
        at: usize,
        words: &[u32],
        time_ns: u64,
        events: &mut Sender<TimelineEvent<T>>,
    ) -> Delivery {
        let last = at + 1 == self.streams.len();
        self.counter_poll = (!last).then_some(CounterPoll::Select(at + 1));
        if last {
            self.polled_packets = self.cost.packets;
        }
        let [missed, violations] = [words[0], words[1]].map(|word| clock::low(word.into()));
        let stream = &mut self.streams[at];
        let more = |now: u16, before: &mut u16| {
            let more = now.wrapping_sub(*before);
            *before = now;
            u64::from(more)
        };
        let missed = more(missed, &mut stream.missed);
        let violations = more(violations, &mut stream.violations);
        if missed == 0 && violations == 0 {
            return Ok(());
        }
        events.send(TimelineEvent::Missed { stream: at, time_ns, missed, violations })
    }

    /// Jumps to the next event of the host.
    fn jump_to_next_event(&mut self, next_ns: Option<u64>) -> Result<(), String> {
        let bus_ns = (self.bus_free_ns > self.time.ns()).then_some(self.bus_free_ns);
        let next_read_ns =
            (self.out.winner_waits == 1 && self.read.is_none()).then_some(self.next_read_ns);
        let word_ns = self.pull.as_ref().and_then(|pull| pull.words.front()).map(|word| word.0);
        let events = [
            next_ns,
            bus_ns.filter(|bus_ns| *bus_ns < u64::MAX),
            next_read_ns,
            word_ns,
            self.write.as_ref().map(|write| write.at_ns),
            self.read.as_ref().map(|read| read.begins_ns),
        ];
        match events.into_iter().flatten().min() {
            // The only state that changes in an idle card has a period of `lanes` cycles.
            Some(event_ns) => self.time.jump(event_ns, self.lanes),
            None if self.waiting > 0 && self.idle_cycles > 1 << 20 => {
                return Err(format!("no progress with {} packets waiting", self.waiting));
            }
            None => {}
        }
        Ok(())
    }
}

/// Converts a count to a register value.
fn number(value: usize) -> u32 {
    u32::try_from(value).expect("stream numbers and arrival counts fit 32 bits")
}
