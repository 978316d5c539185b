//! How wide a bucket is, and how many there are.
//!
//! n streams whose deadlines are placed D ahead on average are about n/D deadlines a nanosecond, so
//! buckets of about D/n ns hold one each. Placements weigh streams by their rate, and weighed so the mean
//! distance of streams of very different periods is n / (sum of rates): they are served as well.

/// Most buckets, as a power of two.
const MOST: u32 = 24;

/// Fewest, so that a few streams find room for their deadlines.
const FEWEST: usize = 1 << 8;

/// Buckets for each stream: the ring reaches at least twice as far ahead as the average.
const EACH: usize = 4;

/// The width of buckets, and what it follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Width {
    /// The width is 2^shift ns.
    shift: u32,
    /// For how many streams there are buckets.
    room: u32,
    placements: u32,
    /// After how many placements the width is reviewed.
    interval: u32,
    /// Streams that were put aside because the ring did not reach their deadline.
    outside: u32,
    /// Sum of their distances, buckets.
    ahead: u64,
}

impl Width {
    /// The bucket of a deadline, counted from time 0.
    #[inline]
    pub(super) fn bucket(&self, deadline_ns: u64) -> u64 {
        deadline_ns >> self.shift
    }

    /// A stream was placed so many buckets behind the first in use.
    #[inline]
    pub(super) fn note(&mut self, ahead: u64) {
        // Streams so far ahead that the sum wraps are suited by no width.
        self.ahead = self.ahead.wrapping_add(ahead);
        self.placements += 1;
    }

    /// A stream was put aside, though `inside` the ring.
    pub(super) fn note_aside(&mut self, inside: bool) {
        self.outside = self.outside.saturating_add(u32::from(!inside));
    }

    /// Whether it is time to ask what [`suits`](Self::suits) so many streams.
    #[inline]
    pub(super) fn is_to_be_reviewed(&self, placed: u32) -> bool {
        (placed > self.room) | (self.placements >= self.interval)
    }

    /// Whether buckets suit so many streams and what was noted.
    pub(super) fn suits(&self, placed: u32) -> bool {
        let fits = self.shift_for(placed).abs_diff(self.shift) < 2;
        placed <= self.room && fits && self.outside < self.placements / 4
    }

    /// Notes from now on.
    pub(super) fn forget(&mut self) {
        (self.placements, self.outside, self.ahead) = (0, 0, 0);
    }

    /// Takes the width that suits. Returns how many buckets there should be at least.
    pub(super) fn adapt(&mut self, placed: u32) -> usize {
        self.shift = self.shift_for(placed);
        let buckets = (placed as usize * EACH).next_power_of_two().clamp(FEWEST, 1 << MOST);
        let room = if buckets == 1 << MOST { usize::MAX } else { buckets / EACH };
        self.room = u32::try_from(room).unwrap_or(u32::MAX).max(self.room);
        self.interval = self.room.clamp(1024, 1 << 24);
        buckets
    }

    /// The shift for the distances that were noted.
    fn shift_for(&self, placed: u32) -> u32 {
        let mean = (self.ahead / u64::from(self.placements.max(1))).max(1);
        let mean_ns = u128::from(mean) << self.shift;
        (3 * mean_ns / 2 / u128::from(placed.max(1))).checked_ilog2().unwrap_or(0).min(63)
    }
}
