//! The scheduler's input: one ring per producer, and the order in which they are read.
//!
//! Without stamps, the rings are read round-robin, up to a batch each. Every round starts one ring
//! later, so no producer is favoured. A producer waits for at most one batch of each other.
//!
//! With stamps, the earliest stamp is next. Ties go to the lower producer number, then to the order
//! of offers. The merge depends on the stamps alone, so it must wait: a packet is next only if no
//! producer can still send an earlier one. The lower bound of an empty ring is the latest time that
//! its producer has named, by a packet or a promise. A dropped producer no longer counts.

use crossbeam_utils::CachePadded;
use millstream_sync::atomic::Arc;
use millstream_sync::channel::{Received, Receiver};

use crate::counters::ProducerStatus;
use crate::producer::Offer;

/// The scheduler's side of one producer.
#[derive(Debug)]
struct Input {
    ring: Receiver<Offer>,
    status: Arc<CachePadded<ProducerStatus>>,
    /// The offer taken out of the ring that is not yet next in the merge.
    head: Option<Offer>,
    /// Lower bound of the arrivals after the head, ns.
    named_ns: u64,
    ended: bool,
}

impl Input {
    /// Returns the time of the next packet and `true`, or its lower bound and `false`. `None` if
    /// the producer has ended.
    #[inline]
    fn next_or_bound(&mut self) -> Option<(u64, bool)> {
        if let Some(offer) = self.head {
            return Some((offer.time_ns, true));
        }
        if self.ended {
            return None;
        }
        // The promise is read first: packets pushed before it was given are then seen below.
        let promised_ns = self.status.promised_ns();
        match self.ring.receive() {
            Received::Value(offer) => {
                self.named_ns = offer.time_ns;
                self.head = Some(offer);
                Some((offer.time_ns, true))
            }
            Received::Empty => Some((self.named_ns.max(promised_ns), false)),
            Received::Ended => {
                self.ended = true;
                None
            }
        }
    }
}

/// The next arrival up to a given time, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextArrival {
    /// The next arrival: its producer and time, ns.
    Arrival(usize, u64),
    /// No arrival up to that time.
    None,
    /// Unknown until a producer sends a packet, promises or ends.
    Unknown,
}

/// All producers' rings.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    inputs: Vec<Input>,
    /// The first producer of the next round.
    first: usize,
}

impl Inputs {
    pub(crate) fn add(&mut self, ring: Receiver<Offer>, status: Arc<CachePadded<ProducerStatus>>) {
        self.inputs.push(Input { ring, status, head: None, named_ns: 0, ended: false });
    }

    /// Takes up to `batch` packets from every producer and returns their number.
    #[inline]
    pub(crate) fn take_round_robin(&mut self, batch: usize, mut take: impl FnMut(Offer)) -> usize {
        let mut taken = 0;
        let (later, earlier) = self.inputs.split_at_mut(self.first);
        for input in earlier.iter_mut().chain(later) {
            for _ in 0..batch {
                match input.ring.receive() {
                    Received::Value(offer) => take(offer),
                    Received::Empty => break,
                    Received::Ended => {
                        input.ended = true;
                        break;
                    }
                }
                taken += 1;
            }
        }
        self.first = if self.first + 1 < self.inputs.len() { self.first + 1 } else { 0 };
        taken
    }

    /// Returns whether every producer was dropped and its ring is empty.
    pub(crate) fn have_ended(&self) -> bool {
        self.inputs.iter().all(|input| input.ended && input.head.is_none())
    }

    /// Returns the next arrival by stamps, up to `until_ns`.
    #[inline]
    pub(crate) fn next_arrival(&mut self, until_ns: u64) -> NextArrival {
        let mut earliest: Option<(u64, usize, bool)> = None;
        for (number, input) in self.inputs.iter_mut().enumerate() {
            // At equal times the lower number is first, even if it has only a bound so far.
            if let Some((time_ns, has_packet)) = input.next_or_bound()
                && earliest.is_none_or(|(first_ns, ..)| time_ns < first_ns)
            {
                earliest = Some((time_ns, number, has_packet));
            }
        }
        match earliest {
            Some((time_ns, number, true)) if time_ns <= until_ns => {
                NextArrival::Arrival(number, time_ns)
            }
            Some((time_ns, _, false)) if time_ns <= until_ns => NextArrival::Unknown,
            _ => NextArrival::None,
        }
    }

    /// Takes the packet that [`next_arrival`](Self::next_arrival) returned.
    #[inline]
    pub(crate) fn take(&mut self, number: usize) -> Option<Offer> {
        self.inputs[number].head.take()
    }

    /// Wakes the producers whose rings have free slots again.
    pub(crate) fn flush(&mut self) {
        for input in &mut self.inputs {
            input.ring.flush();
        }
    }
}
