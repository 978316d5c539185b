//! WFQ and WF²Q by the GPS clock, with or without credits.
//!
//! Packets of active streams are stamped at their arrival. A stream that becomes inactive with
//! packets waiting leaves the fluid system and its packets lose their stamps; they are restamped,
//! head to tail, when it becomes active. WFQ serves the least F; WF²Q the least F among heads with
//! S <= V, or the least (S, F) if there is none.
//!
//! V and all F are reset when no stream is backlogged, neither in the fluid system nor in the
//! queues of the discipline. All F are behind V then, so the exact time does not affect the order.

use std::collections::VecDeque;

use num_rational::BigRational;

use super::gps::Clock;
use super::model::Spec;
use super::rule::{FairDiscipline, Packet, Queue, Tags, least};

/// The state of WFQ or WF²Q.
pub struct Wfq {
    clock: Clock,
    /// S and F of the stamped packets of each stream, head first.
    stamps: Vec<VecDeque<(BigRational, BigRational)>>,
    /// Whether only heads with S <= V are candidates (WF²Q).
    worst_case_fair: bool,
}

impl Wfq {
    /// Returns WFQ, or WF²Q if `worst_case_fair`.
    #[must_use]
    pub fn new(spec: &Spec, worst_case_fair: bool) -> Self {
        let stamps = vec![VecDeque::new(); spec.streams.len()];
        Self { clock: Clock::new(spec), stamps, worst_case_fair }
    }
}

impl FairDiscipline for Wfq {
    fn before_event(&mut self, now: u64, queues: &[Queue]) {
        self.clock.advance(now);
        let mut own = queues.iter().filter(|queue| !queue.fmc);
        if self.clock.empty() && own.all(|queue| queue.waiting.is_empty()) {
            self.clock.reset();
        }
    }

    fn activated(&mut self, stream: usize, queues: &[Queue]) {
        assert!(self.stamps[stream].is_empty(), "an inactive stream has stamps");
        for packet in &queues[stream].waiting {
            let stamp = self.clock.stamp(stream, packet.length);
            self.stamps[stream].push_back(stamp);
        }
    }

    fn packet_queued(&mut self, stream: usize, queues: &[Queue]) {
        if let Some(packet) = queues[stream].waiting.back() {
            let stamp = self.clock.stamp(stream, packet.length);
            self.stamps[stream].push_back(stamp);
        }
    }

    fn choose(&mut self, queues: &[Queue]) -> Option<usize> {
        let head = |stream: usize| self.stamps[stream].front();
        let by_finish = |stream: usize| head(stream).map(|(_, finish)| finish);
        if !self.worst_case_fair {
            return least(queues, by_finish);
        }
        let begun = |stream: usize| {
            head(stream).filter(|(start, _)| *start <= self.clock.virtual_time).map(|tag| &tag.1)
        };
        least(queues, begun).or_else(|| least(queues, head))
    }

    fn service_started(&mut self, stream: usize, _packet: &Packet, queues: &[Queue]) -> Tags {
        let Some((start, finish)) = self.stamps[stream].pop_front() else {
            return Tags::default();
        };
        if !queues[stream].waiting.is_empty() && !queues[stream].active {
            self.stamps[stream].clear();
            self.clock.remove_stream(stream, finish.clone());
        }
        Tags { start: Some(start), finish: Some(finish), deficit: None }
    }

    fn idle(&mut self, now: u64) {
        self.clock.advance(now);
        if self.clock.empty() {
            self.clock.reset();
        }
    }

    fn virtual_time(&self) -> BigRational {
        self.clock.virtual_time.clone()
    }
}
