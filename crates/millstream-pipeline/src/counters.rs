//! What a pipeline has done so far, for any thread to read while it runs.

use crossbeam_utils::CachePadded;

use crate::sync::{Arc, AtomicU64, Ordering};

/// Packets by what became of them, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Taken from the producers' rings into the scheduler.
    pub taken: u64,
    /// Chosen and passed on to the transmitter.
    pub sent: u64,
    /// Dropped because their deadline passed while they waited.
    pub dropped_late: u64,
    /// Dropped because their queue was full when they arrived.
    pub dropped_full: u64,
    /// Offers that producers were refused for lack of room; no part of `taken`.
    pub refused: u64,
}

impl Counts {
    /// Packets in the scheduler's queues: taken, and neither sent nor dropped.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.taken - (self.sent + self.dropped_late + self.dropped_full)
    }
}

/// Written by the scheduler's thread alone, and on lines of their own.
#[derive(Debug, Default)]
struct Written {
    taken: AtomicU64,
    sent: AtomicU64,
    dropped_late: AtomicU64,
    dropped_full: AtomicU64,
}

/// What one producer says beside its ring; written by its thread alone.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// No packet that is not in the ring yet arrives before this time, ns.
    promised_ns: AtomicU64,
    refused: AtomicU64,
}

impl Aside {
    /// Everything put into the ring before is seen by whoever reads this promise.
    pub(crate) fn promise(&self, time_ns: u64) {
        self.promised_ns.store(time_ns, Ordering::Release);
    }

    /// To be read *before* the ring is found empty; the other way round a packet put in between
    /// would be missed.
    #[inline]
    pub(crate) fn promised_ns(&self) -> u64 {
        self.promised_ns.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn refused(&self, so_far: u64) {
        self.refused.store(so_far, Ordering::Relaxed);
    }
}

/// A reader of a pipeline's counts; clones read the same.
#[derive(Clone, Debug)]
pub struct Counters {
    written: Arc<CachePadded<Written>>,
    asides: Arc<Vec<Arc<CachePadded<Aside>>>>,
}

impl Counters {
    pub(crate) fn new(asides: Vec<Arc<CachePadded<Aside>>>) -> Self {
        Self { written: Arc::default(), asides: Arc::new(asides) }
    }

    /// The counts as last published: at most a batch old while the scheduler works, exact while
    /// it sleeps and when it has ended. No packet is counted as sent or dropped before it is counted
    /// as taken.
    #[must_use]
    pub fn read(&self) -> Counts {
        let written = &self.written;
        let sent = written.sent.load(Ordering::Acquire);
        let dropped_late = written.dropped_late.load(Ordering::Acquire);
        let dropped_full = written.dropped_full.load(Ordering::Acquire);
        let refused = self.asides.iter().map(|aside| aside.refused.load(Ordering::Relaxed)).sum();
        // Last: whatever was sent or dropped above had been taken by then.
        let taken = written.taken.load(Ordering::Acquire);
        Counts { taken, sent, dropped_late, dropped_full, refused }
    }

    /// Publishes the scheduler's own counts; what was taken goes first.
    #[inline]
    pub(crate) fn publish(&self, counts: &Counts) {
        let written = &self.written;
        written.taken.store(counts.taken, Ordering::Release);
        written.sent.store(counts.sent, Ordering::Release);
        written.dropped_late.store(counts.dropped_late, Ordering::Release);
        written.dropped_full.store(counts.dropped_full, Ordering::Release);
    }
}
