//! The width and number of buckets.
//!
//! n streams whose deadlines are inserted D ns ahead on average have about n/D deadlines per
//! nanosecond, so buckets of about D/n ns hold one each. Insertions weight streams by their rates.
//! The weighted mean distance of streams of different periods is n / (sum of rates), so the rule
//! also holds for them.

/// The binary logarithm of the maximum number of buckets.
const MOST: u32 = 24;

/// The minimum number of buckets: the ring of a few streams must reach their deadlines.
const FEWEST: usize = 1 << 8;

/// The number of buckets per stream: the ring reaches at least twice the average distance.
const EACH: usize = 4;

/// The width of buckets and the statistics that determine it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Width {
    /// The width is 2^shift ns. At least 2, so that the number after the last bucket is a u64.
    shift: u32,
    /// The maximum shift.
    most: u32,
    /// The number of streams for which the buckets are sized.
    room: u32,
    placements: u32,
    /// The number of insertions between reviews of the width.
    interval: u32,
    /// Insertions that neither the ring nor the front could hold.
    outside: u32,
    /// The sum of the insertions' distances, buckets.
    ahead: u64,
}

impl Width {
    /// Returns the bucket of a deadline, counted from time 0.
    #[inline]
    pub(super) fn bucket(&self, deadline_ns: u64) -> u64 {
        deadline_ns >> self.shift
    }

    /// Records an insertion `ahead` buckets after the first one of the ring.
    #[inline]
    pub(super) fn record(&mut self, ahead: u64) {
        // If distances are so large that the sum wraps, no width is suitable.
        self.ahead = self.ahead.wrapping_add(ahead);
        self.placements += 1;
    }

    /// Returns the begin of a bucket, ns.
    #[inline]
    pub(super) fn begin_ns(&self, bucket: u64) -> u64 {
        bucket << self.shift
    }

    /// Returns the last deadline of a bucket, ns.
    #[inline]
    pub(super) fn end_ns(&self, bucket: u64) -> u64 {
        self.begin_ns(bucket) | ((1 << self.shift) - 1)
    }

    /// Records that neither the ring nor the front could hold a stream.
    pub(super) fn record_outside(&mut self) {
        self.outside = self.outside.saturating_add(1);
    }

    /// Returns whether the width is due for a review.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.placements >= self.interval
    }

    /// Returns the number of streams for which the buckets are sized.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.room
    }

    /// Returns whether the buckets are suitable for `placed` streams and the recorded insertions.
    pub(super) fn suits(&self, placed: u32) -> bool {
        let fits = self.shift_for(placed).abs_diff(self.shift) < 2;
        placed <= self.room && fits && self.outside < self.placements / 4
    }

    /// Clears the statistics.
    pub(super) fn clear(&mut self) {
        (self.placements, self.outside, self.ahead) = (0, 0, 0);
    }

    /// Returns the minimum suitable number of buckets for `placed` streams.
    pub(super) fn buckets(placed: u32) -> usize {
        (placed as usize * EACH).next_power_of_two().clamp(FEWEST, 1 << MOST)
    }

    /// Limits the shift to `most`.
    pub(super) fn limit(&mut self, most: u32) {
        self.most = most;
        self.shift = self.shift.min(most);
    }

    /// Adopts the suitable width. Returns the minimum suitable number of buckets.
    pub(super) fn adapt(&mut self, placed: u32) -> usize {
        self.shift = self.shift_for(placed);
        let buckets = Self::buckets(placed);
        let room = if buckets == 1 << MOST { usize::MAX } else { buckets / EACH };
        self.room = u32::try_from(room).unwrap_or(u32::MAX).max(self.room);
        self.interval = self.room.clamp(1024, 1 << 24);
        buckets
    }

    /// Returns the shift for the recorded distances.
    fn shift_for(&self, placed: u32) -> u32 {
        let mean = (self.ahead / u64::from(self.placements.max(1))).max(1);
        let mean_ns = u128::from(mean) << self.shift;
        (3 * mean_ns / 2 / u128::from(placed.max(1)))
            .checked_ilog2()
            .unwrap_or(0)
            .clamp(1, self.most)
    }
}
