//! Counters of a running pipeline, readable from any thread.

use crossbeam_utils::CachePadded;
use millstream_sync::atomic::{Arc, AtomicU64, Ordering};

/// Packets by outcome, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Taken from the producers' rings into the scheduler.
    pub taken: u64,
    /// Chosen and sent to the transmitter.
    pub sent: u64,
    /// Dropped because their deadline passed while they waited.
    pub dropped_late: u64,
    /// Dropped because their queue was full when they arrived.
    pub dropped_full: u64,
    /// Offers rejected because the producer's ring was full; not part of `taken`.
    pub refused: u64,
}

impl Counts {
    /// Returns the packets in the scheduler's queues: taken, and neither sent nor dropped.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.taken - (self.sent + self.dropped_late + self.dropped_full)
    }
}

/// The shared counters. Only the scheduler's thread writes them; they have their own cache lines.
#[derive(Debug, Default)]
struct SharedCounts {
    taken: AtomicU64,
    sent: AtomicU64,
    dropped_late: AtomicU64,
    dropped_full: AtomicU64,
}

/// The state that one producer publishes outside its ring; only its thread writes it.
#[derive(Debug, Default)]
pub(crate) struct ProducerStatus {
    /// Lower bound of the arrival times of packets not yet in the ring, ns.
    promised_ns: AtomicU64,
    refused: AtomicU64,
}

impl ProducerStatus {
    /// Publishes a promise. A reader that sees it also sees everything pushed into the ring before.
    pub(crate) fn promise(&self, time_ns: u64) {
        self.promised_ns.store(time_ns, Ordering::Release);
    }

    /// Returns the promised time, ns. Callers must read it *before* they check the ring: otherwise
    /// they miss a packet pushed between the two.
    #[inline]
    pub(crate) fn promised_ns(&self) -> u64 {
        self.promised_ns.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn refused(&self, so_far: u64) {
        self.refused.store(so_far, Ordering::Relaxed);
    }
}

/// A handle that reads a pipeline's counts; clones read the same counters.
#[derive(Clone, Debug)]
pub struct Counters {
    shared: Arc<CachePadded<SharedCounts>>,
    statuses: Arc<Vec<Arc<CachePadded<ProducerStatus>>>>,
}

impl Counters {
    pub(crate) fn new(statuses: Vec<Arc<CachePadded<ProducerStatus>>>) -> Self {
        Self { shared: Arc::default(), statuses: Arc::new(statuses) }
    }

    /// Returns the counts as last published: at most a batch old while the scheduler works, exact
    /// while it is parked and after it has ended. A packet is never counted as sent or dropped
    /// before it is counted as taken.
    #[must_use]
    pub fn read(&self) -> Counts {
        let shared = &self.shared;
        let sent = shared.sent.load(Ordering::Acquire);
        let dropped_late = shared.dropped_late.load(Ordering::Acquire);
        let dropped_full = shared.dropped_full.load(Ordering::Acquire);
        let refused =
            self.statuses.iter().map(|status| status.refused.load(Ordering::Relaxed)).sum();
        // Read last: every packet counted above was taken before.
        let taken = shared.taken.load(Ordering::Acquire);
        Counts { taken, sent, dropped_late, dropped_full, refused }
    }

    /// Publishes the scheduler's counts, `taken` first.
    #[inline]
    pub(crate) fn publish(&self, counts: &Counts) {
        let shared = &self.shared;
        shared.taken.store(counts.taken, Ordering::Release);
        shared.sent.store(counts.sent, Ordering::Release);
        shared.dropped_late.store(counts.dropped_late, Ordering::Release);
        shared.dropped_full.store(counts.dropped_full, Ordering::Release);
    }
}
