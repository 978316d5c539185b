//! The sizes of the calendar and its memory, and the delay of the collector.

use super::index::SLOTS;

/// The sizes of a [`Hilq`](super::Hilq); [`default`](Self::default) is the paper's.
///
/// All memory is allocated when the scheduler is built, so these sizes limit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Segments of the calendar, which is as long as the most distant deadline. 100 (section 5.3).
    pub segments: u32,
    /// Length of a segment, ns, within which deadlines are equal. 1 ms (section 5.3).
    pub segment_ns: u64,
    /// Distinct values of x'/y'. 50 (section 5.3).
    pub levels: u32,
    /// Values of x', from 0; larger ones are clamped. 20 (section 5.3).
    pub numerators: u32,
    /// Values of y', from 0; larger ones are clamped. 30 (section 5.3).
    pub denominators: u32,
    /// Basic element queues: the maximum number of slots that hold packets at a time. 16,384; not
    /// in the paper.
    pub basic_queues: u32,
    /// Packets of a basic element queue. 8; not in the paper.
    pub basic_packets: u32,
    /// Extended element queues. 1,024; not in the paper.
    pub extended_queues: u32,
    /// Packets of an extended element queue. 64; not in the paper.
    pub extended_packets: u32,
    /// The maximum number of waiting packets. 65,536; not in the paper.
    pub packets: u32,
    /// Time from the end of a segment until its late packets are collected, ns. 0: before the next
    /// arrival or decision.
    ///
    /// The paper's collector runs concurrently (section 5.4.3) without a bound of its delay. Late
    /// packets are not sent in this time, but their streams' x'/y' are not updated: arrivals take
    /// slots of old values. [`decide`](crate::catalogue::DynScheduler::decide) may return `None`
    /// while late packets count as waiting.
    pub collect_delay_ns: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self::PAPER
    }
}

impl Sizes {
    /// The paper's sizes. The paper does not give all sizes. With the sizes chosen here, slots,
    /// bitmaps and element queues take less than 2 of the 8 MB of SRAM of its section 6.
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
        collect_delay_ns: 0,
    };

    /// Returns the slots of a segment.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.levels.saturating_mul(self.numerators)
    }

    /// Returns the minimum request period, ns: one segment, so that a stream's packets are in
    /// different segments and keep their order.
    #[must_use]
    pub const fn least_period_ns(&self) -> u64 {
        self.segment_ns
    }

    /// Returns the maximum request period, ns: the calendar less one segment and less the segments
    /// that await their collection. So an arrival at an empty queue is never beyond the calendar's
    /// end.
    #[must_use]
    pub const fn most_period_ns(&self) -> u64 {
        let calendar_ns = self.segment_ns.saturating_mul(self.segments.saturating_sub(1) as u64);
        let delayed_ns = self.collect_delay_ns.next_multiple_of(self.segment_ns);
        calendar_ns.saturating_sub(delayed_ns)
    }

    /// Checks the sizes.
    ///
    /// # Panics
    /// Panics if a calendar cannot have these sizes.
    pub(super) fn check(&self) {
        let smallest = [self.levels, self.numerators, self.denominators, self.packets]
            .into_iter()
            .chain([self.basic_queues, self.basic_packets, self.extended_packets])
            .min();
        assert!(smallest > Some(0) && self.segment_ns > 0, "every size must be at least 1");
        assert!(self.segments > 1, "{} segments; at least 2 are needed", self.segments);
        let delay_ns = self.collect_delay_ns;
        assert!(
            self.most_period_ns() >= self.least_period_ns(),
            "a delay of {delay_ns} ns leaves no segment for packets"
        );
        assert!(self.slots() <= SLOTS, "{} slots; at most {SLOTS} are supported", self.slots());
        let queues = self.basic_queues.checked_add(self.extended_queues);
        assert!(queues.is_some_and(|queues| queues < u32::MAX), "too many element queues");
    }
}
