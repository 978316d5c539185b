//! The second stage's inlet: one ring a producer, and the order in which they are emptied.
//!
//! Where packets arrive as they are taken, every ring gives up to a batch in turn, and each turn
//! begins one ring further on, so no producer is favoured and none waits for more than one batch of
//! each other.
//!
//! Where stamps say when packets arrived, the earliest goes first; at one instant the producer with
//! the lower number, and within a producer the order of its offers. That depends on nothing but the
//! stamps, so it takes waiting: a packet is next only if no producer can still come before it. An
//! empty ring stands for the latest time that its producer has named, by a packet or a promise, and
//! no longer counts once the producer is dropped.

use crossbeam_utils::CachePadded;

use crate::channel::{Received, Receiver};
use crate::counters::Aside;
use crate::producer::Offer;
use crate::sync::Arc;

/// One producer as the scheduler sees it.
#[derive(Debug)]
struct Input {
    ring: Receiver<Offer>,
    aside: Arc<CachePadded<Aside>>,
    /// Taken out of the ring, not yet the earliest of all.
    head: Option<Offer>,
    /// No packet after the head is earlier, ns.
    named_ns: u64,
    ended: bool,
}

impl Input {
    /// The time of its next packet, or the earliest that it could have; and whether it is there.
    /// `None` if none will come.
    #[inline]
    fn front(&mut self) -> Option<(u64, bool)> {
        if let Some(offer) = self.head {
            return Some((offer.time_ns, true));
        }
        if self.ended {
            return None;
        }
        // The promise first: what was put into the ring before it was given is then seen below.
        let promised_ns = self.aside.promised_ns();
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

/// What is known of the arrivals up to some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// The next arrival is that of this producer, at this time, ns.
    Arrival(usize, u64),
    /// There is none.
    None,
    /// Not yet known: a producer has to say more.
    Open,
}

/// All producers' rings.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    inputs: Vec<Input>,
    /// Whose turn it is to be first.
    first: usize,
}

impl Inputs {
    pub(crate) fn add(&mut self, ring: Receiver<Offer>, aside: Arc<CachePadded<Aside>>) {
        self.inputs.push(Input { ring, aside, head: None, named_ns: 0, ended: false });
    }

    /// Takes up to `batch` packets of every producer; returns how many.
    #[inline]
    pub(crate) fn take_turns(&mut self, batch: usize, mut take: impl FnMut(Offer)) -> usize {
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

    /// Whether every producer is gone and its ring empty.
    pub(crate) fn have_ended(&self) -> bool {
        self.inputs.iter().all(|input| input.ended && input.head.is_none())
    }

    /// Looks for the next arrival by stamps, up to `until_ns`.
    #[inline]
    pub(crate) fn look(&mut self, until_ns: u64) -> Outlook {
        let mut earliest: Option<(u64, usize, bool)> = None;
        for (number, input) in self.inputs.iter_mut().enumerate() {
            // At one time the lower number stays ahead, also while it is silent.
            if let Some((time_ns, there)) = input.front()
                && earliest.is_none_or(|(first_ns, ..)| time_ns < first_ns)
            {
                earliest = Some((time_ns, number, there));
            }
        }
        match earliest {
            Some((time_ns, number, true)) if time_ns <= until_ns => {
                Outlook::Arrival(number, time_ns)
            }
            Some((time_ns, _, false)) if time_ns <= until_ns => Outlook::Open,
            _ => Outlook::None,
        }
    }

    /// Takes the packet of which [`look`](Self::look) told.
    #[inline]
    pub(crate) fn take(&mut self, number: usize) -> Option<Offer> {
        self.inputs[number].head.take()
    }

    /// Tells all producers of the room that was made.
    pub(crate) fn flush(&mut self) {
        for input in &mut self.inputs {
            input.ring.flush();
        }
    }
}
