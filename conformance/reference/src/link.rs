//! The simulated link and the streams' states, processed instant by instant.
//!
//! The order at one instant is: end of transmission, arrivals, decision. A decision charges the
//! misses of every backlogged stream in order, one request period at a time, then serves the first
//! stream.

use std::collections::VecDeque;

use crate::gated::{GatedLink, Gates, Gating, run_gated_link};
use crate::model::{Arrival, Decision, Discipline, Outcome, Row, Spec, StreamSpec};
use crate::mutant::Mutant;
use crate::order::{Candidate, precedes};
use crate::overhead::Overhead;
use crate::window::Window;

/// A waiting packet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: u64,
    bytes: u32,
    arrival_ns: u64,
    /// Its position in the arrivals file, for a mutant.
    file_position: u64,
}

/// The state of a stream.
struct Stream {
    spec: StreamSpec,
    queue: VecDeque<Waiting>,
    arrivals: u64,
    window: Window,
    /// The deadline of the last departure; 0 initially.
    last_deadline_ns: u64,
    /// The head's deadline, valid if there is a head.
    deadline_ns: u64,
    seen_head: bool,
    /// The bytes that waited when the head became the head, for a mutant.
    backlog_at_head: u64,
    /// Bytes on the wire served since the queue was last empty.
    attained: u64,
}

impl Stream {
    /// Returns the bytes waiting, the head included.
    fn backlog(&self) -> u64 {
        self.queue.iter().map(|packet| u64::from(packet.bytes)).sum()
    }
}

struct Link<'a> {
    spec: &'a Spec,
    gates: Gates,
    mutant: Option<Mutant>,
    streams: Vec<Stream>,
    outcome: Outcome,
    in_service: Option<u32>,
    arrived: u64,
}

/// Runs `arrivals` (in time order) through `spec`, with a deliberate fault if `mutant` is given.
///
/// # Panics
/// If arrivals are not in time order, an x is above its y, or a DWCS stream has no period.
#[must_use]
pub fn run(spec: &Spec, arrivals: &[Arrival], mutant: Option<Mutant>) -> Outcome {
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.time_ns), "arrivals in time order");
    let mut link = Link::new(spec, &Gating::default(), mutant);
    let mut arrivals = arrivals.iter().copied().peekable();
    let mut free_ns = 0;
    loop {
        let backlogged = link.streams.iter().any(|stream| !stream.queue.is_empty());
        let now_ns = match arrivals.peek() {
            _ if backlogged => free_ns,
            Some(arrival) => free_ns.max(arrival.time_ns),
            None => break,
        };
        let early = link.is(Mutant::DecisionBeforeArrivals) && backlogged;
        let taken = |arrival: &Arrival| {
            if early { arrival.time_ns < now_ns } else { arrival.time_ns <= now_ns }
        };
        while let Some(arrival) = arrivals.next_if(taken) {
            if arrival.time_ns >= free_ns {
                link.in_service = None;
            }
            link.arrive(arrival);
        }
        link.in_service = None;
        match link.decide(now_ns) {
            Some(bytes) => {
                free_ns = now_ns + link.transmission_ns(bytes);
                link.outcome.end_ns = free_ns;
            }
            // No stream is eligible: decide again at the next eligibility time or arrival.
            None => {
                let arrival_ns = arrivals.peek().map(|a| a.time_ns).filter(|at| *at > now_ns);
                let wake_ns = [link.next_eligible_ns(now_ns), arrival_ns].into_iter().flatten();
                free_ns = wake_ns.min().unwrap_or(now_ns);
            }
        }
    }
    link.outcome
}

/// Runs `arrivals` with streams limited by `gating`.
///
/// At the end, packets may wait for credits that are never returned.
///
/// # Panics
/// If [`run`] does, or a stream is served once a period.
#[must_use]
pub fn run_gated(spec: &Spec, gating: &Gating, arrivals: &[Arrival]) -> Outcome {
    assert!(
        spec.streams.iter().all(|stream| !stream.once_a_period),
        "a stream has `once_a_period`"
    );
    run_gated_link(Link::new(spec, gating, None), &gating.returns, arrivals)
}

impl GatedLink for Link<'_> {
    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
    }

    fn heads(&self) -> Vec<Option<u32>> {
        self.streams.iter().map(|stream| stream.queue.front().map(|head| head.bytes)).collect()
    }

    fn arrive(&mut self, arrival: Arrival) {
        Link::arrive(self, arrival);
    }

    fn decide(&mut self, now_ns: u64) -> Option<u64> {
        let bytes = Link::decide(self, now_ns)?;
        self.outcome.end_ns = now_ns + self.transmission_ns(bytes);
        Some(self.outcome.end_ns)
    }

    fn outcome(self) -> Outcome {
        self.outcome
    }
}

impl<'a> Link<'a> {
    fn new(spec: &'a Spec, gating: &Gating, mutant: Option<Mutant>) -> Self {
        for stream in &spec.streams {
            assert!(stream.window.0 <= stream.window.1, "x is at most y");
            let dwcs = matches!(spec.discipline, Discipline::Dwcs { .. });
            assert!(stream.period_ns > 0 || !dwcs, "DWCS needs a request period");
        }
        let streams = spec.streams.iter().map(|stream| Stream {
            spec: stream.clone(),
            queue: VecDeque::new(),
            arrivals: 0,
            window: Window::new(stream),
            last_deadline_ns: 0,
            deadline_ns: 0,
            seen_head: false,
            backlog_at_head: 0,
            attained: 0,
        });
        let mut link = Link {
            spec,
            gates: Gates::new(gating, spec.overhead),
            mutant,
            streams: streams.collect(),
            outcome: Outcome::default(),
            in_service: None,
            arrived: 0,
        };
        link.outcome.missed = vec![0; spec.streams.len()];
        link.outcome.violations = vec![0; spec.streams.len()];
        link
    }

    fn is(&self, fault: Mutant) -> bool {
        self.mutant == Some(fault)
    }

    fn has_deadlines(&self) -> bool {
        matches!(self.spec.discipline, Discipline::Edf | Discipline::Dwcs { .. })
    }

    fn transmission_ns(&self, bytes: u32) -> u64 {
        let forgotten = self.is(Mutant::OverheadForgotten);
        let overhead = if forgotten { Overhead::default() } else { self.spec.overhead };
        let scaled = u128::from(overhead.length(bytes)) * 8 * 1_000_000_000;
        let rate = u128::from(self.spec.rate_bps);
        let exact = scaled / rate;
        let up = scaled % rate != 0 && !self.is(Mutant::TransmissionRoundedDown);
        let least = u64::from(self.is(Mutant::TransmissionNeverZero));
        (u64::try_from(exact).unwrap_or(u64::MAX) + u64::from(up)).max(least)
    }

    fn arrive(&mut self, arrival: Arrival) {
        let (in_service, mutant, file_position) = (self.in_service, self.mutant, self.arrived);
        self.arrived += 1;
        let stream = &mut self.streams[arrival.stream as usize];
        let packet = stream.arrivals;
        stream.arrivals += 1;
        let mut waiting = stream.queue.len() as u64;
        if mutant == Some(Mutant::QueueCountsPacketInService) && in_service == Some(arrival.stream)
        {
            waiting += 1;
        }
        let longer = u64::from(mutant == Some(Mutant::QueueOneTooLong));
        if stream.spec.queue.is_some_and(|limit| waiting >= u64::from(limit) + longer) {
            self.outcome.rows.push(Row {
                time_ns: arrival.time_ns,
                stream: arrival.stream,
                packet,
                bytes: arrival.bytes,
                arrival_ns: arrival.time_ns,
                deadline_ns: None,
                event: "dropped-full",
            });
            stream.arrivals -= u64::from(mutant == Some(Mutant::FullQueueTakesNoNumber));
            return;
        }
        let (bytes, arrival_ns) = (arrival.bytes, arrival.time_ns);
        stream.queue.push_back(Waiting { packet, bytes, arrival_ns, file_position });
        if stream.queue.len() == 1 {
            self.new_head(arrival.stream as usize);
        }
    }

    /// Sets the deadline of the new head of the queue.
    fn new_head(&mut self, index: usize) {
        let (mutant, lqf) = (self.mutant, self.spec.discipline == Discipline::Lqf);
        let stream = &mut self.streams[index];
        let Some(head) = stream.queue.front() else { return };
        if lqf {
            stream.backlog_at_head = stream.backlog();
        }
        let first = !stream.seen_head;
        stream.seen_head = true;
        let from = match mutant {
            Some(Mutant::NextDeadlineFromArrivalAlone) => head.arrival_ns,
            Some(Mutant::NextDeadlineFromLastAlone) => stream.last_deadline_ns,
            _ => stream.last_deadline_ns.max(head.arrival_ns),
        };
        let usual_ns = from + stream.spec.period_ns;
        stream.deadline_ns = match (stream.spec.first_deadline_ns, mutant) {
            (Some(_), Some(Mutant::FirstDeadlineIgnored)) => usual_ns,
            (Some(given_ns), Some(Mutant::FirstDeadlineOnlyLater)) if first => {
                given_ns.max(usual_ns)
            }
            (Some(given_ns), _) if first => given_ns,
            _ => usual_ns,
        };
    }

    /// Removes the head.
    fn remove_head(&mut self, index: usize, now_ns: u64, event: &'static str) -> u32 {
        let shown = self.has_deadlines() && !self.gates.is_fmc(index);
        let drop_fault = self.mutant.filter(|_| event == "dropped-late");
        let forgets_window = self.is(Mutant::WindowForgottenWhenIdle);
        let stream = &mut self.streams[index];
        let Some(head) = stream.queue.pop_front() else { return 0 };
        let deadline_ns = stream.deadline_ns;
        stream.last_deadline_ns = match drop_fault {
            Some(Mutant::DropRestartsDeadline) => now_ns,
            Some(Mutant::DropForgetsDeadline) => stream.last_deadline_ns,
            _ => deadline_ns,
        };
        if event == "sent" {
            stream.attained += match self.mutant {
                Some(Mutant::AttainedServiceInPackets) => 1,
                _ => self.spec.overhead.length(head.bytes),
            };
        }
        if stream.queue.is_empty() && self.mutant != Some(Mutant::AttainedServiceForever) {
            stream.attained = 0;
        }
        if forgets_window && stream.queue.is_empty() {
            stream.window.reset();
        }
        let reported_at_deadline = drop_fault == Some(Mutant::DropTimedAtDeadline);
        self.outcome.rows.push(Row {
            time_ns: if reported_at_deadline { deadline_ns } else { now_ns },
            stream: u32::try_from(index).unwrap_or(u32::MAX),
            packet: head.packet,
            bytes: head.bytes,
            arrival_ns: head.arrival_ns,
            deadline_ns: shown.then_some(deadline_ns),
            event,
        });
        self.new_head(index);
        head.bytes
    }

    fn decide(&mut self, now_ns: u64) -> Option<u32> {
        if self.is(Mutant::OnlyWinnerIsCharged) {
            let winner = self.first(now_ns)?;
            self.charge(winner as usize, now_ns);
        } else {
            (0..self.streams.len()).for_each(|index| self.charge(index, now_ns));
        }
        let winner = self.first(now_ns)?;
        let state = |stream: &Stream| (stream.window.x, stream.window.y, stream.deadline_ns);
        let before = self.streams.iter().map(state).collect();
        let (missed, violations) = (self.outcome.missed.clone(), self.outcome.violations.clone());
        let decision = Decision { time_ns: now_ns, winner, before, missed, violations };
        self.outcome.decisions.push(decision);
        let index = winner as usize;
        if let Some(head) = self.streams[index].queue.front() {
            self.gates.charge(index, head.bytes, now_ns);
        }
        match self.spec.discipline {
            _ if self.gates.is_fmc(index) => {}
            Discipline::Dwcs { rtas99, .. } => {
                self.streams[index].window.served(rtas99, self.mutant);
            }
            Discipline::Edf if now_ns >= self.streams[index].deadline_ns => {
                self.outcome.missed[index] += 1;
            }
            _ => {}
        }
        self.in_service = Some(winner);
        Some(self.remove_head(index, now_ns, "sent"))
    }

    fn eligible(&self, index: usize, now_ns: u64) -> bool {
        let stream = &self.streams[index];
        let begun = now_ns + stream.spec.period_ns >= stream.deadline_ns;
        let open = |head: &Waiting| self.gates.open(index, head.bytes, now_ns);
        stream.queue.front().is_some_and(open) && (begun || !stream.spec.once_a_period)
    }

    fn next_eligible_ns(&self, now_ns: u64) -> Option<u64> {
        let waiting = self.streams.iter().filter(|stream| !stream.queue.is_empty());
        waiting.map(|s| s.deadline_ns.saturating_sub(s.spec.period_ns).max(now_ns)).min()
    }

    fn first(&self, now_ns: u64) -> Option<u32> {
        let candidate = |index: usize| {
            let stream = &self.streams[index];
            let head = stream.queue.front()?;
            let backlog = match self.mutant {
                _ if self.spec.discipline != Discipline::Lqf => 0,
                Some(Mutant::QueueLengthInPackets) => stream.queue.len() as u64,
                Some(Mutant::QueueLengthAtHead) => stream.backlog_at_head,
                _ => stream.backlog(),
            };
            self.eligible(index, now_ns).then(|| Candidate {
                stream: u32::try_from(index).unwrap_or(u32::MAX),
                priority: stream.spec.priority,
                backlog,
                attained: stream.attained,
                deadline_ns: stream.deadline_ns,
                x: stream.window.x,
                y: stream.window.y,
                arrival_ns: head.arrival_ns,
                file_position: head.file_position,
            })
        };
        let better = |a: Candidate, b: Candidate| {
            if precedes(self.spec.discipline, self.mutant, &b, &a) { b } else { a }
        };
        let fmc = (0..self.streams.len()).find(|stream| self.gates.is_fmc(*stream));
        if let Some(first) = fmc.and_then(candidate) {
            return Some(first.stream);
        }
        (0..self.streams.len()).filter_map(candidate).reduce(better).map(|winner| winner.stream)
    }

    /// Charges every request period of the stream that ended while a head waited.
    fn charge(&mut self, index: usize, now_ns: u64) {
        let late = |link: &Self| {
            let stream = &link.streams[index];
            let passed = if link.is(Mutant::DeadlineInstantIsOnTime) {
                now_ns > stream.deadline_ns
            } else {
                now_ns >= stream.deadline_ns
            };
            !stream.queue.is_empty() && passed
        };
        let drops = self.streams[index].spec.drop_late && !self.is(Mutant::LateNeverDropped);
        if self.gates.is_fmc(index) {
            return;
        }
        match self.spec.discipline {
            Discipline::Fifo | Discipline::StaticPriority | Discipline::Lqf | Discipline::Las => {}
            Discipline::Edf => {
                while drops && late(self) {
                    self.outcome.missed[index] += 1;
                    self.remove_head(index, now_ns, "dropped-late");
                    if self.is(Mutant::OneDropADecision) {
                        break;
                    }
                }
            }
            Discipline::Dwcs { rtas99, .. } => {
                let mut charged = false;
                while late(self) {
                    self.outcome.missed[index] += 1;
                    let not_charged = charged && self.is(Mutant::OneChargeHoweverLate)
                        || drops && self.is(Mutant::DropWithoutRuleB);
                    if !not_charged {
                        let violated = self.streams[index].window.missed(rtas99, self.mutant);
                        self.outcome.violations[index] += u64::from(violated);
                    }
                    charged = true;
                    if drops {
                        self.remove_head(index, now_ns, "dropped-late");
                        if self.is(Mutant::OneDropADecision) {
                            break;
                        }
                    } else if self.is(Mutant::DeadlineStaysOnMiss) {
                        break;
                    } else {
                        self.streams[index].deadline_ns += self.spec.streams[index].period_ns;
                    }
                }
            }
        }
    }
}
