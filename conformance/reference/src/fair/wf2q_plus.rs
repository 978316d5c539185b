//! WF²Q+: serves the least F among heads that have started by its own clock.
//!
//! V advances at r/Σφ over all configured streams. Before every arrival, credit return, release and
//! decision of the discipline's own streams it also advances to the least S of the active heads.
//! While the link is free and every queue is empty it stays 0.

use num_rational::BigRational;

use super::model::Spec;
use super::rule::{
    FairDiscipline, Packet, Queue, Tags, configured_slope, contenders, least, whole,
};

/// The state of WF²Q+.
pub struct Wf2qPlus {
    /// r / Σφ configured: bytes per unit of weight and ns.
    slope: BigRational,
    virtual_time: BigRational,
    /// t' up to which V is computed, ns.
    time: u64,
    /// S and F of each active head.
    heads: Vec<Option<(BigRational, BigRational)>>,
    /// F of each stream's last packet put in service.
    last_finish: Vec<BigRational>,
}

impl Wf2qPlus {
    /// Returns the initial state.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        Self {
            slope: configured_slope(spec),
            virtual_time: whole(0),
            time: 0,
            heads: vec![None; spec.streams.len()],
            last_finish: vec![whole(0); spec.streams.len()],
        }
    }

    fn stamp(&mut self, stream: usize, queue: &Queue, start: BigRational) {
        self.heads[stream] = queue.waiting.front().map(|packet| {
            let finish = &start + whole(packet.length) / whole(queue.weight);
            (start, finish)
        });
    }
}

impl FairDiscipline for Wf2qPlus {
    fn before_event(&mut self, now: u64, queues: &[Queue]) {
        let run = &self.virtual_time + whole(now - self.time) * &self.slope;
        let starts = contenders(queues).filter_map(|stream| self.heads[stream].as_ref());
        let least_start = starts.map(|(start, _)| start.clone()).min();
        self.virtual_time = least_start.map_or(run.clone(), |least| least.max(run));
        self.time = now;
    }

    fn activated(&mut self, stream: usize, queues: &[Queue]) {
        let start = self.last_finish[stream].clone().max(self.virtual_time.clone());
        self.stamp(stream, &queues[stream], start);
    }

    fn choose(&mut self, queues: &[Queue]) -> Option<usize> {
        least(queues, |stream| {
            let (start, finish) = self.heads[stream].as_ref()?;
            (*start <= self.virtual_time).then_some(finish)
        })
    }

    fn service_started(&mut self, stream: usize, _packet: &Packet, queues: &[Queue]) -> Tags {
        let Some((start, finish)) = self.heads[stream].take() else { return Tags::default() };
        self.last_finish[stream] = finish.clone();
        if queues[stream].active {
            self.stamp(stream, &queues[stream], finish.clone());
        }
        Tags { start: Some(start), finish: Some(finish), deficit: None }
    }

    fn idle(&mut self, now: u64) {
        self.virtual_time = whole(0);
        self.time = now;
        self.last_finish.fill(whole(0));
    }

    fn virtual_time(&self) -> BigRational {
        self.virtual_time.clone()
    }
}
