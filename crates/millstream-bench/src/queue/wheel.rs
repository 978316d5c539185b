//! A timing wheel (Varghese and Lauck 1987): a slot for each tick, scanned in turn.

use super::Queue;
use super::buckets::Buckets;

/// The timing wheel.
pub(crate) struct Wheel {
    slots: Buckets,
    /// Number of slots − 1; the number is a power of two.
    mask: u64,
    /// The tick of the current slot.
    current_tick: u64,
    shift: u32,
    len: usize,
}

impl Wheel {
    #[inline]
    fn slot(&self, tick: u64) -> usize {
        // Less than the number of slots, which fits in memory.
        #[allow(clippy::cast_possible_truncation)]
        let slot = (tick & self.mask) as usize;
        slot
    }
}

impl Queue for Wheel {
    fn new(streams: usize, horizon_ns: u64, width_ns: u64) -> Self {
        let shift = width_ns.ilog2();
        let slots = ((horizon_ns >> shift) + 2).next_power_of_two();
        let size = usize::try_from(slots).unwrap_or(usize::MAX);
        Self { slots: Buckets::new(size, streams), mask: slots - 1, current_tick: 0, shift, len: 0 }
    }

    #[inline]
    fn push(&mut self, stream: u32, deadline_ns: u64) {
        self.len += 1;
        let tick =
            (deadline_ns >> self.shift).clamp(self.current_tick, self.current_tick + self.mask);
        self.slots.push(self.slot(tick), stream, deadline_ns);
    }

    #[inline]
    fn pop(&mut self) -> Option<(u64, u32)> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        while self.slots.is_empty(self.slot(self.current_tick)) {
            self.current_tick += 1;
        }
        self.slots.pop(self.slot(self.current_tick))
    }
}
