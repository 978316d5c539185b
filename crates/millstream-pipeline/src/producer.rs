//! The first stage: packets are offered.

use crossbeam_utils::CachePadded;
use millstream::{Packet, StreamId};

use crate::parker::{Sleeper, Step};
use crate::channel::{SendError, Sender};
use crate::counters::Aside;
use crate::sync::Arc;

/// A packet on its way to the scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The stamp; without one, the latest time that its producer has named.
    pub(crate) time_ns: u64,
    pub(crate) stamped: bool,
    pub(crate) stream: StreamId,
    pub(crate) packet: Packet,
}

/// Why a packet was not taken; it stays the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// Backpressure: the ring has no room. Counted in [`Producer::refused`].
    #[error("the ring is full")]
    Full,
    /// The scheduler has ended.
    #[error("the scheduler has ended")]
    Closed,
    /// The scheduler has no such stream.
    #[error("stream {stream} is not one of the scheduler's {streams}")]
    UnknownStream {
        /// The stream that was named.
        stream: StreamId,
        /// How many there are; the first is 0.
        streams: usize,
    },
    /// The stamp lies before one that this producer has named or promised.
    #[error("arrival at {time_ns} ns, but this producer has already named {named_ns} ns")]
    Backwards {
        /// The stamp, ns.
        time_ns: u64,
        /// The latest time named so far, ns.
        named_ns: u64,
    },
}

/// Offers packets to the scheduler from one thread.
///
/// To drop it is to say that no more will come: when all producers are dropped, the pipeline drains
/// and ends.
// On lines of its own, also in a vector of producers whose threads borrow one each.
#[derive(Debug)]
#[repr(align(128))]
pub struct Producer {
    ring: Sender<Offer>,
    sleeper: Sleeper,
    aside: Arc<CachePadded<Aside>>,
    streams: usize,
    named_ns: u64,
    accepted: u64,
    refused: u64,
}

impl Producer {
    pub(crate) fn new(
        ring: Sender<Offer>,
        sleeper: Sleeper,
        aside: Arc<CachePadded<Aside>>,
        streams: usize,
    ) -> Self {
        Self { ring, sleeper, aside, streams, named_ns: 0, accepted: 0, refused: 0 }
    }

    /// Offers a packet that arrives when the scheduler takes it; where arrivals are merged by
    /// their stamps, at the latest time that this producer has named.
    ///
    /// # Errors
    /// If the packet was not taken: [`Full`](OfferError::Full), [`Closed`](OfferError::Closed) or
    /// [`UnknownStream`](OfferError::UnknownStream).
    #[inline]
    pub fn offer(&mut self, stream: StreamId, packet: Packet) -> Result<(), OfferError> {
        self.put(Offer { time_ns: self.named_ns, stamped: false, stream, packet })
    }

    /// Offers a packet that arrived at `time_ns`.
    ///
    /// # Errors
    /// As [`offer`](Self::offer), and [`Backwards`](OfferError::Backwards) if it has named a later
    /// time before.
    #[inline]
    pub fn offer_at(
        &mut self,
        time_ns: u64,
        stream: StreamId,
        packet: Packet,
    ) -> Result<(), OfferError> {
        if time_ns < self.named_ns {
            return Err(OfferError::Backwards { time_ns, named_ns: self.named_ns });
        }
        self.put(Offer { time_ns, stamped: true, stream, packet })?;
        self.named_ns = time_ns;
        Ok(())
    }

    /// Promises that no packet of this producer arrives before `time_ns`, so that others' packets
    /// need not wait for one. Only told where arrivals are merged by their stamps. A time before
    /// one already named has no effect.
    pub fn promise(&mut self, time_ns: u64) {
        if time_ns > self.named_ns {
            self.named_ns = time_ns;
            self.aside.promise(time_ns);
            self.ring.ring_peer();
        }
    }

    /// Sleeps until the ring has room.
    ///
    /// # Errors
    /// [`Closed`](OfferError::Closed) if the scheduler has ended.
    pub fn wait_for_room(&mut self) -> Result<(), OfferError> {
        let Self { ring, sleeper, .. } = self;
        sleeper.drive(|_| {
            if ring.is_closed() {
                Step::Done(Err(OfferError::Closed))
            } else if ring.is_full() {
                Step::Idle
            } else {
                Step::Done(Ok(()))
            }
        })
    }

    /// Packets that were taken.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Offers that found the ring full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    #[inline]
    fn put(&mut self, offer: Offer) -> Result<(), OfferError> {
        if offer.stream.index() >= self.streams {
            let (stream, streams) = (offer.stream, self.streams);
            return Err(OfferError::UnknownStream { stream, streams });
        }
        match self.ring.send(offer) {
            Ok(()) => {
                self.accepted += 1;
                Ok(())
            }
            Err(SendError::Full) => {
                self.refused += 1;
                self.aside.refused(self.refused);
                Err(OfferError::Full)
            }
            Err(SendError::Closed) => Err(OfferError::Closed),
        }
    }
}
