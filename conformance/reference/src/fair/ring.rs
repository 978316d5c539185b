//! DRR and WRR: a ring of active streams, each with a deficit.
//!
//! The front's turn begins with its quantum and lasts while its head fits the deficit. The *next*
//! decision, not the service, determines whether the turn continues. Hence a stream that becomes
//! active while the last packet of a turn is transmitted precedes the stream of that turn. Golden
//! trace `CA1_drr` shows this. A stream that is empty or inactive after a service leaves the ring
//! at once.

use std::collections::VecDeque;

use super::model::Spec;
use super::rule::{FairDiscipline, Packet, Queue, Tags};

/// The state of DRR or WRR.
pub struct Ring {
    /// Whether every packet has length 1 and the quantum is the weight.
    by_packets: bool,
    order: VecDeque<usize>,
    deficits: Vec<u64>,
    /// Whether the front has received its quantum.
    in_turn: bool,
}

impl Ring {
    /// Returns DRR, or WRR if `by_packets`.
    #[must_use]
    pub fn new(spec: &Spec, by_packets: bool) -> Self {
        let deficits = vec![0; spec.streams.len()];
        Self { by_packets, order: VecDeque::new(), deficits, in_turn: false }
    }

    fn length(&self, packet: &Packet) -> u64 {
        if self.by_packets { 1 } else { packet.length }
    }
}

impl FairDiscipline for Ring {
    fn activated(&mut self, stream: usize, _queues: &[Queue]) {
        assert!(!self.order.contains(&stream), "an inactive stream is in the ring");
        self.deficits[stream] = 0;
        self.order.push_back(stream);
    }

    fn choose(&mut self, queues: &[Queue]) -> Option<usize> {
        loop {
            let front = *self.order.front()?;
            let queue = &queues[front];
            if !self.in_turn {
                self.in_turn = true;
                self.deficits[front] += if self.by_packets { queue.weight } else { queue.quantum };
            }
            let head = queue.waiting.front()?;
            if self.length(head) <= self.deficits[front] {
                return Some(front);
            }
            self.order.rotate_left(1);
            self.in_turn = false;
        }
    }

    fn service_started(&mut self, stream: usize, packet: &Packet, queues: &[Queue]) -> Tags {
        self.deficits[stream] -= self.length(packet);
        let deficit = Some(self.deficits[stream]);
        if !queues[stream].active {
            self.deficits[stream] = 0;
            self.order.pop_front();
            self.in_turn = false;
        }
        Tags { start: None, finish: None, deficit }
    }
}
