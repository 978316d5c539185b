//! How large the calendar and its memory are.

use super::index::SLOTS;

/// The sizes of a [`Hilq`](super::Hilq); [`default`](Self::default) is the paper's.
///
/// Everything is allocated when the scheduler is made, so these bound its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Segments of the calendar: how many segment lengths ahead deadlines may lie. 100 (section
    /// 5.3).
    pub segments: u32,
    /// Length of a segment, ns: deadlines within it are not told apart. 1 ms (section 5.3).
    pub segment_ns: u64,
    /// Values of x'/y' that are told apart. 50 (section 5.3).
    pub levels: u32,
    /// Values of x', from 0; larger ones count as the largest. 20 (section 5.3).
    pub numerators: u32,
    /// Values of y', from 0; larger ones count as the largest. 30 (section 5.3).
    pub denominators: u32,
    /// Basic element queues: how many slots may hold packets at a time. The paper gives no number;
    /// 16,384.
    pub basic_queues: u32,
    /// Packets that a basic element queue holds. The paper gives no number; 8.
    pub basic_packets: u32,
    /// Extended element queues. The paper gives no number; 1,024.
    pub extended_queues: u32,
    /// Packets that an extended element queue holds. The paper gives no number; 64.
    pub extended_packets: u32,
    /// Packets that may wait. The paper gives no number; 65,536.
    pub packets: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self::PAPER
    }
}

impl Sizes {
    /// The paper's sizes, and where it gives none, such that slots, bitmaps and element queues take
    /// less than 2 of the 8 MB of SRAM of its section 6.
    pub const PAPER: Self = Self {
        segments: 100,
        segment_ns: 1_000_000,
        levels: 50,
        numerators: 20,
        denominators: 30,
        basic_queues: 16_384,
        basic_packets: 8,
        extended_queues: 1_024,
        extended_packets: 64,
        packets: 65_536,
    };

    /// Slots of a segment.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.levels.saturating_mul(self.numerators)
    }

    /// The shortest request period, ns: a segment, so that a stream's packets lie in different
    /// segments and keep their order.
    #[must_use]
    pub const fn least_period_ns(&self) -> u64 {
        self.segment_ns
    }

    /// The longest request period, ns: all segments but one, so that a packet that finds its
    /// stream's queue empty is never beyond the horizon.
    #[must_use]
    pub const fn most_period_ns(&self) -> u64 {
        self.segment_ns.saturating_mul(self.segments.saturating_sub(1) as u64)
    }

    /// Stops whoever gives sizes that no calendar can have.
    pub(super) fn check(&self) {
        let smallest = [self.levels, self.numerators, self.denominators, self.packets]
            .into_iter()
            .chain([self.basic_queues, self.basic_packets, self.extended_packets])
            .min();
        assert!(smallest > Some(0) && self.segment_ns > 0, "a size is 0");
        assert!(self.segments > 1, "a calendar of {} segments", self.segments);
        assert!(self.slots() <= SLOTS, "{} slots; the bitmaps have {SLOTS}", self.slots());
        let queues = self.basic_queues.checked_add(self.extended_queues);
        assert!(queues.is_some_and(|queues| queues < u32::MAX), "too many element queues");
    }
}
