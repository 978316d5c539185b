//! The simulated link, processed instant by instant.
//!
//! The order at one instant is: end of transmission, credit returns, token-bucket releases,
//! arrivals, decision. A packet leaves its queue when its service starts. The FMC stream has
//! priority and is hidden from the discipline, whose clock t' excludes its transmissions.

use std::collections::VecDeque;

use super::gate::Gate;
use super::model::{CreditReturn, Outcome, Service, Spec};
use super::rule::{FairDiscipline, Packet, Queue, Tags, build, contenders};
use crate::{Arrival, Row};

/// A packet on the wire.
struct Transmission {
    start_ns: u64,
    end_ns: u64,
    fmc: bool,
}

struct Link<'a> {
    spec: &'a Spec,
    rule: Box<dyn FairDiscipline>,
    queues: Vec<Queue>,
    gates: Vec<Gate>,
    /// Arrivals of each stream so far, dropped ones included.
    arrived: Vec<u64>,
    transmission: Option<Transmission>,
    /// The transmission time of FMC packets that have left the wire, ns.
    fmc_ns: u64,
    outcome: Outcome,
}

/// Runs `arrivals` (in time order) through `spec` until no event is left.
///
/// Packets may then still wait for credits that are never returned.
///
/// # Panics
/// If arrivals or credit returns are not in time order, two streams are FMC, or an attribute that
/// the discipline needs is missing.
#[must_use]
pub fn run(spec: &Spec, arrivals: &[Arrival]) -> Outcome {
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.time_ns), "arrivals in time order");
    assert!(spec.credit_returns.is_sorted_by_key(|back| back.time_ns), "returns in time order");
    assert!(spec.streams.iter().filter(|stream| stream.fmc).count() <= 1, "one FMC stream");
    let mut link = Link::new(spec);
    let mut arrivals = arrivals.iter().copied().peekable();
    let mut returns = spec.credit_returns.iter().copied().peekable();
    loop {
        let events = [
            link.transmission.as_ref().map(|transmission| transmission.end_ns),
            returns.peek().map(|back| back.time_ns),
            link.next_release_ns(),
            arrivals.peek().map(|arrival| arrival.time_ns),
        ];
        let Some(now_ns) = events.into_iter().flatten().min() else { break };
        link.report_idle(now_ns);
        link.end_transmission(now_ns);
        while let Some(back) = returns.next_if(|back| back.time_ns == now_ns) {
            link.give_credits(back);
        }
        link.release(now_ns);
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.time_ns == now_ns) {
            link.arrive(arrival);
        }
        link.decide(now_ns);
    }
    link.outcome
}

impl<'a> Link<'a> {
    fn new(spec: &'a Spec) -> Self {
        let queues = spec.streams.iter().map(|stream| Queue {
            weight: stream.weight,
            quantum: stream.quantum,
            fmc: stream.fmc,
            active: false,
            waiting: VecDeque::new(),
        });
        Self {
            spec,
            rule: build(spec),
            queues: queues.collect(),
            gates: spec.streams.iter().map(Gate::new).collect(),
            arrived: vec![0; spec.streams.len()],
            transmission: None,
            fmc_ns: 0,
            outcome: Outcome::default(),
        }
    }

    /// Returns t': real time without the transmissions of FMC packets.
    fn clock_ns(&self, now_ns: u64) -> u64 {
        let fmc = self.transmission.as_ref().filter(|transmission| transmission.fmc);
        fmc.map_or(now_ns, |transmission| transmission.start_ns) - self.fmc_ns
    }

    fn transmission_ns(&self, length: u64) -> u64 {
        let bits = u128::from(length) * 8 * 1_000_000_000;
        u64::try_from(bits.div_ceil(u128::from(self.spec.rate_bps))).unwrap_or(u64::MAX)
    }

    /// Reports to the discipline, at the start of an instant, that link and queues were idle.
    ///
    /// The link was free until now and all queues of the discipline were empty. This holds iff, at
    /// an earlier instant, the link stayed free after the arrivals and no packet waited. That is
    /// the instant of a reset.
    fn report_idle(&mut self, now_ns: u64) {
        let empty = self.queues.iter().all(|queue| queue.fmc || queue.waiting.is_empty());
        if self.transmission.is_none() && empty {
            self.rule.idle(self.clock_ns(now_ns));
        }
    }

    /// Reports an upcoming event of this stream to the discipline.
    fn before_event(&mut self, stream: usize, now_ns: u64) {
        if !self.queues[stream].fmc {
            self.rule.before_event(self.clock_ns(now_ns), &self.queues);
        }
    }

    /// Returns whether the stream is active by definition.
    fn is_active(&self, stream: usize, now_ns: u64) -> bool {
        let head = self.queues[stream].waiting.front();
        head.is_some_and(|head| self.gates[stream].open(head, now_ns))
    }

    /// Marks the stream active if it became active; returns whether it did.
    fn activate(&mut self, stream: usize, now_ns: u64) -> bool {
        if self.queues[stream].active || !self.is_active(stream, now_ns) {
            return false;
        }
        self.queues[stream].active = true;
        if !self.queues[stream].fmc {
            self.rule.activated(stream, &self.queues);
        }
        true
    }

    fn end_transmission(&mut self, now_ns: u64) {
        let over = |transmission: &mut Transmission| transmission.end_ns == now_ns;
        if let Some(transmission) = self.transmission.take_if(over)
            && transmission.fmc
        {
            self.fmc_ns += now_ns - transmission.start_ns;
        }
    }

    fn give_credits(&mut self, back: CreditReturn) {
        let stream = back.stream as usize;
        self.before_event(stream, back.time_ns);
        self.gates[stream].add_credits(back.credits);
        self.activate(stream, back.time_ns);
    }

    /// Returns the time at which the stream's head conforms to the bucket; `None` if it is eligible
    /// or not eligible for another reason.
    fn release_ns(&self, stream: usize) -> Option<u64> {
        let (queue, gate) = (&self.queues[stream], &self.gates[stream]);
        let head = queue.waiting.front().filter(|head| !queue.active && gate.has_credits(head))?;
        gate.release_ns(head)
    }

    fn next_release_ns(&self) -> Option<u64> {
        (0..self.queues.len()).filter_map(|stream| self.release_ns(stream)).min()
    }

    fn release(&mut self, now_ns: u64) {
        for stream in 0..self.queues.len() {
            if self.release_ns(stream) == Some(now_ns) {
                self.before_event(stream, now_ns);
                assert!(self.activate(stream, now_ns), "the stream is not eligible at its release");
            }
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let now_ns = arrival.time_ns;
        let stream = arrival.stream as usize;
        let number = self.arrived[stream];
        self.arrived[stream] += 1;
        let packet = Packet {
            number,
            bytes: arrival.bytes,
            length: self.spec.overhead.length(arrival.bytes),
            arrival_ns: now_ns,
            arrival_clock_ns: self.clock_ns(now_ns),
        };
        let limit = self.spec.streams[stream].queue;
        if limit.is_some_and(|limit| self.queues[stream].waiting.len() >= limit as usize) {
            // A dropped arrival changes nothing, not even V.
            self.outcome.rows.push(row(now_ns, arrival.stream, &packet, "dropped-full"));
            return;
        }
        self.before_event(stream, now_ns);
        self.queues[stream].waiting.push_back(packet);
        if self.queues[stream].active && !self.queues[stream].fmc {
            self.rule.packet_queued(stream, &self.queues);
        } else {
            self.activate(stream, now_ns);
        }
    }

    fn decide(&mut self, now_ns: u64) {
        if self.transmission.is_some() {
            return;
        }
        for stream in 0..self.queues.len() {
            let active = self.is_active(stream, now_ns);
            assert_eq!(self.queues[stream].active, active, "the activity is out of date");
        }
        let fmc = self.queues.iter().position(|queue| queue.fmc && queue.active);
        if fmc.is_none() && contenders(&self.queues).next().is_some() {
            self.rule.before_event(self.clock_ns(now_ns), &self.queues);
        }
        let Some(stream) = fmc.or_else(|| self.rule.choose(&self.queues)) else { return };
        assert!(self.queues[stream].active, "an inactive stream is served");
        let Some(packet) = self.queues[stream].waiting.pop_front() else { return };
        self.gates[stream].charge(&packet, now_ns);
        self.queues[stream].active = self.is_active(stream, now_ns);
        let tags = if fmc.is_some() {
            Tags::default()
        } else {
            self.rule.service_started(stream, &packet, &self.queues)
        };
        self.record(now_ns, stream, &packet, tags);
        let end_ns = now_ns + self.transmission_ns(packet.length);
        self.outcome.end_ns = end_ns;
        let fmc = fmc.is_some();
        self.transmission = Some(Transmission { start_ns: now_ns, end_ns, fmc });
    }

    fn record(&mut self, now_ns: u64, stream: usize, packet: &Packet, tags: Tags) {
        let stream = u32::try_from(stream).unwrap_or(u32::MAX);
        self.outcome.rows.push(row(now_ns, stream, packet, "sent"));
        self.outcome.services.push(Service {
            time_ns: now_ns,
            stream,
            packet: packet.number,
            start_tag: tags.start,
            finish_tag: tags.finish,
            virtual_time: self.rule.virtual_time(),
            deficit: tags.deficit,
        });
    }
}

fn row(time_ns: u64, stream: u32, packet: &Packet, event: &'static str) -> Row {
    Row {
        time_ns,
        stream,
        packet: packet.number,
        bytes: packet.bytes,
        arrival_ns: packet.arrival_ns,
        deadline_ns: None,
        event,
    }
}
