//! The GPS clock: the virtual time of the fluid system.
//!
//! dV/dt' = r / Σφ over B, the set of streams whose last tag is ahead of V. Between two events,
//! streams leave B in groups, so the clock advances from one departure to the next.

use num_rational::BigRational;

use super::model::Spec;
use super::rule::{bytes_per_ns, whole};

/// V, B and the last tag of every stream.
#[derive(Clone, Debug)]
pub struct Clock {
    /// r, bytes/ns.
    rate: BigRational,
    weights: Vec<BigRational>,
    /// V.
    pub virtual_time: BigRational,
    /// t' up to which V is computed, ns.
    time: BigRational,
    /// F of each stream's last stamped packet.
    pub last_finish: Vec<BigRational>,
    fluid_backlogged: Vec<bool>,
    /// Every point (t', V) where the slope changed or an event happened, since the last reset.
    pub history: Vec<(BigRational, BigRational)>,
}

impl Clock {
    /// Returns the initial clock.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        Self {
            rate: bytes_per_ns(spec.rate_bps),
            weights: spec.streams.iter().map(|stream| whole(stream.weight)).collect(),
            virtual_time: whole(0),
            time: whole(0),
            last_finish: vec![whole(0); spec.streams.len()],
            fluid_backlogged: vec![false; spec.streams.len()],
            history: vec![(whole(0), whole(0))],
        }
    }

    /// Returns whether no stream is backlogged in the fluid system.
    #[must_use]
    pub fn empty(&self) -> bool {
        !self.fluid_backlogged.contains(&true)
    }

    fn members(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.fluid_backlogged.len()).filter(|stream| self.fluid_backlogged[*stream])
    }

    /// Advances V to t' = `now`.
    pub fn advance(&mut self, now: u64) {
        let now = whole(now);
        while let Some(first) = self.members().map(|stream| self.last_finish[stream].clone()).min()
        {
            let weights = self.members().fold(whole(0), |sum, stream| sum + &self.weights[stream]);
            let slope = &self.rate / weights;
            let leaving = &self.time + (&first - &self.virtual_time) / &slope;
            if leaving > now {
                self.virtual_time += (&now - &self.time) * slope;
                break;
            }
            self.virtual_time = first.clone();
            self.time = leaving;
            self.history.push((self.time.clone(), self.virtual_time.clone()));
            for stream in 0..self.fluid_backlogged.len() {
                if self.last_finish[stream] == first {
                    self.fluid_backlogged[stream] = false;
                }
            }
        }
        self.time = now;
        self.history.push((self.time.clone(), self.virtual_time.clone()));
    }

    /// Returns S and F of a packet of this length stamped now; the stream joins B.
    pub fn stamp(&mut self, stream: usize, length: u64) -> (BigRational, BigRational) {
        let start = self.last_finish[stream].clone().max(self.virtual_time.clone());
        let finish = &start + whole(length) / &self.weights[stream];
        self.last_finish[stream] = finish.clone();
        self.fluid_backlogged[stream] = finish > self.virtual_time;
        (start, finish)
    }

    /// Removes the stream from B. Its last tag is that of the packet last put in service.
    pub fn remove_stream(&mut self, stream: usize, last_finish: BigRational) {
        self.fluid_backlogged[stream] = false;
        self.last_finish[stream] = last_finish;
    }

    /// Sets V = 0 and all F = 0.
    pub fn reset(&mut self) {
        self.virtual_time = whole(0);
        self.last_finish.fill(whole(0));
        self.fluid_backlogged.fill(false);
        self.history = vec![(self.time.clone(), whole(0))];
    }

    /// Returns t' in ns at which the fluid system finished the tag `finish`; `None` if it has not.
    #[must_use]
    pub fn fluid_departure(&self, finish: &BigRational) -> Option<BigRational> {
        let mut before: Option<&(BigRational, BigRational)> = None;
        for point in &self.history {
            if point.1 >= *finish {
                let Some((time, value)) = before else { return Some(point.0.clone()) };
                let part = (finish - value) / (&point.1 - value);
                return Some(time + part * (&point.0 - time));
            }
            before = Some(point);
        }
        None
    }
}
