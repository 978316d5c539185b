//! The choice of a file's optional frames: x of every y, the least important first.
//!
//! A client's contract allows at most x of any y consecutive frames to be late or lost. The blocks
//! of y frames count from the client's first frame. The contract does not name the frames, so the
//! server chooses in advance. The x frames of a block with the cheapest loss are *optional*, all
//! other frames are *mandatory*. Unreferenced B-frames are optional first, then other B-frames, P,
//! I. Among frames of equal importance the later one is optional: fewer frames depend on it.
//!
//! The dispatcher sends an optional frame only while no mandatory frame of any client waits. So
//! earliest deadline first serves mandatory frames as if no optional ones existed, except for one
//! that is already in transmission. While the mandatory frames fit the link, no client loses more
//! than x of y, and the losses hit the least important frames. Among optional frames, the client
//! with the most recent losses goes first ([`sharing`](crate::scheduler::loss_sharing)).
//!
//! Fixing the optional frames in advance follows (m, k)-firm scheduling by patterns (Ramanathan,
//! *Overload management in real-time control applications using (m, k)-firm guarantee*, 1999).

use crate::shared_memory::importance::Importance;

/// The choice for the block of frames in release.
#[derive(Debug)]
pub(crate) struct Choice {
    optional: Vec<bool>,
    /// Importance and position of each frame; kept to allocate only once.
    order: Vec<(Importance, u32)>,
    lost: usize,
}

impl Choice {
    /// Creates the choice for a window of `lost` of every `of` frames.
    pub(crate) fn new(lost: u32, of: u32) -> Self {
        let of = of.max(1) as usize;
        let optional = vec![false; of];
        Self { optional, order: Vec::with_capacity(of), lost: lost as usize }
    }

    /// Returns the block length y, at least 1.
    fn of(&self) -> u64 {
        self.optional.len() as u64
    }

    /// Returns whether frame `number` of the client is optional.
    ///
    /// `importance` returns the importance of each frame. Numbers rise by one from call to call, or
    /// begin a block.
    pub(crate) fn is_optional(
        &mut self,
        number: u64,
        importance: impl Fn(u64) -> Importance,
    ) -> bool {
        let place = number % self.of();
        if place == 0 {
            self.choose(number, importance);
        }
        self.optional[usize::try_from(place).unwrap_or(0)]
    }

    /// Chooses for the block that contains `number`, for a restart inside a block.
    pub(crate) fn resume(&mut self, number: u64, importance: impl Fn(u64) -> Importance) {
        self.choose(number - number % self.of(), importance);
    }

    fn choose(&mut self, first: u64, importance: impl Fn(u64) -> Importance) {
        self.order.clear();
        let places = 0..u32::try_from(self.optional.len()).unwrap_or(u32::MAX);
        self.order.extend(places.map(|place| (importance(first + u64::from(place)), place)));
        self.order.sort_unstable_by_key(|&(importance, place)| (importance, u32::MAX - place));
        self.optional.fill(false);
        for (_, place) in self.order.iter().take(self.lost) {
            self.optional[*place as usize] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Importance::{B, I, P, ReferencedB};

    fn optional(window: (u32, u32), kinds: &[Importance], frames: u64) -> Vec<u64> {
        let mut choice = Choice::new(window.0, window.1);
        let at = |number: u64| kinds[usize::try_from(number).unwrap() % kinds.len()];
        (0..frames).filter(|number| choice.is_optional(*number, at)).collect()
    }

    #[test]
    fn b_frames_are_given_up_before_p_and_p_before_i() {
        let kinds = [I, B, B, P, ReferencedB, B];
        assert_eq!(optional((2, 6), &kinds, 12), [2, 5, 8, 11]);
        assert_eq!(optional((4, 6), &kinds, 6), [1, 2, 4, 5]);
        assert_eq!(optional((5, 6), &kinds, 6), [1, 2, 3, 4, 5]);
        assert_eq!(optional((6, 6), &kinds, 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(optional((0, 0), &kinds, 6), [0; 0]);
    }

    #[test]
    fn among_equals_the_later_frame_is_optional_first() {
        assert_eq!(optional((1, 4), &[I, P, P, P], 8), [3, 7]);
    }

    proptest::proptest! {
        #[test]
        fn every_block_has_exactly_x_optional_frames(
            lost in 0u32..9, more in 0u32..9, kinds in proptest::collection::vec(0u32..4, 1..20),
        ) {
            let of = lost + more;
            let kinds: Vec<_> = kinds.into_iter().map(Importance::from_number).collect();
            let blocks = 5;
            let found = optional((lost, of), &kinds, u64::from(of * blocks));
            for block in 0..blocks {
                let range = u64::from(block * of)..u64::from((block + 1) * of);
                let count = found.iter().filter(|number| range.contains(number)).count();
                proptest::prop_assert_eq!(count, lost as usize);
            }
        }
    }
}
