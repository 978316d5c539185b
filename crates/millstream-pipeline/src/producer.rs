//! The first stage: offers packets to the scheduler.

use crossbeam_utils::CachePadded;
use millstream::{Packet, StreamId};
use millstream_sync::atomic::Arc;
use millstream_sync::channel::{SendError, Sender};
use millstream_sync::waker::park::{Parker, Step};

use crate::counters::ProducerStatus;

/// A packet on its way to the scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The stamp; without one, the latest time that the producer has named.
    pub(crate) time_ns: u64,
    pub(crate) stamped: bool,
    pub(crate) stream: StreamId,
    pub(crate) packet: Packet,
}

/// Why a packet was not accepted; the caller keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// Backpressure: the ring is full. Counted in [`Producer::refused`].
    #[error("the ring is full")]
    Full,
    /// The scheduler has ended.
    #[error("the scheduler has ended")]
    Closed,
    /// The scheduler has no such stream.
    #[error("stream {stream} is out of range: the scheduler has {streams} streams")]
    UnknownStream {
        /// The stream of the offer.
        stream: StreamId,
        /// Number of streams; the first is 0.
        streams: usize,
    },
    /// The stamp is before a time that this producer has named or promised.
    #[error("arrival at {time_ns} ns, but this producer's latest time is {named_ns} ns")]
    Backwards {
        /// The stamp, ns.
        time_ns: u64,
        /// The latest time named so far, ns.
        named_ns: u64,
    },
}

/// Offers packets to the scheduler from one thread.
///
/// Dropping a producer ends its input. When all producers are dropped, the pipeline drains and
/// ends.
// Aligned to its own cache lines, so threads that borrow elements of one vector share none.
#[derive(Debug)]
#[repr(align(128))]
pub struct Producer {
    ring: Sender<Offer>,
    parker: Parker,
    status: Arc<CachePadded<ProducerStatus>>,
    streams: usize,
    named_ns: u64,
    accepted: u64,
    refused: u64,
}

impl Producer {
    pub(crate) fn new(
        ring: Sender<Offer>,
        parker: Parker,
        status: Arc<CachePadded<ProducerStatus>>,
        streams: usize,
    ) -> Self {
        Self { ring, parker, status, streams, named_ns: 0, accepted: 0, refused: 0 }
    }

    /// Offers a packet that arrives when the scheduler takes it. If arrivals are merged by stamps,
    /// it arrives at the latest time that this producer has named.
    ///
    /// # Errors
    /// Fails if the packet was not accepted: [`Full`](OfferError::Full),
    /// [`Closed`](OfferError::Closed) or [`UnknownStream`](OfferError::UnknownStream).
    #[inline]
    pub fn offer(&mut self, stream: StreamId, packet: Packet) -> Result<(), OfferError> {
        self.push(Offer { time_ns: self.named_ns, stamped: false, stream, packet })
    }

    /// Offers a packet that arrived at `time_ns`.
    ///
    /// # Errors
    /// See [`offer`](Self::offer); also [`Backwards`](OfferError::Backwards) if this producer has
    /// named a later time.
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
        self.push(Offer { time_ns, stamped: true, stream, packet })?;
        self.named_ns = time_ns;
        Ok(())
    }

    /// Promises that this producer offers no packet that arrives before `time_ns`.
    ///
    /// Packets of other producers then need not wait for it. The promise has an effect only if
    /// arrivals are merged by stamps and `time_ns` is after the latest time named.
    pub fn promise(&mut self, time_ns: u64) {
        if time_ns > self.named_ns {
            self.named_ns = time_ns;
            self.status.promise(time_ns);
            self.ring.wake_peer();
        }
    }

    /// Blocks until the ring has a free slot.
    ///
    /// # Errors
    /// [`Closed`](OfferError::Closed) if the scheduler has ended.
    pub fn wait_for_room(&mut self) -> Result<(), OfferError> {
        let Self { ring, parker, .. } = self;
        parker.drive(|_| {
            if ring.is_closed() {
                Step::Done(Err(OfferError::Closed))
            } else if ring.is_full() {
                Step::Idle
            } else {
                Step::Done(Ok(()))
            }
        })
    }

    /// Returns the number of packets accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the number of offers rejected because the ring was full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    #[inline]
    fn push(&mut self, offer: Offer) -> Result<(), OfferError> {
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
                self.status.refused(self.refused);
                Err(OfferError::Full)
            }
            Err(SendError::Closed) => Err(OfferError::Closed),
        }
    }
}
