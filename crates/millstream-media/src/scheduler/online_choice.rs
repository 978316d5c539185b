//! The choice of a live stream's optional frames: made frame by frame, without the following ones.
//!
//! In each block of y frames, unreferenced B-frames are optional until x are. If fewer than x are
//! found, the last frames of the block are optional, independent of their type, so that each block
//! has exactly x. The choice for a file knows the whole block
//! ([`Choice`](crate::scheduler::optional_frames::Choice)). For frames of one type, both choices
//! make an equal number optional.

use crate::shared_memory::importance::Importance;

/// The choice for the block of frames in release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnlineChoice {
    lost: u64,
    of: u64,
    /// The number of optional frames in the block so far.
    used: u64,
}

impl OnlineChoice {
    /// Creates the choice for a window of `lost` of every `of` frames.
    pub(crate) fn new(lost: u32, of: u32) -> Self {
        Self { lost: lost.into(), of: u64::from(of.max(1)), used: 0 }
    }

    /// Returns whether frame `number` of the client is optional.
    ///
    /// Numbers rise by one from call to call, unless [`skip`](Self::skip) is called in between.
    pub(crate) fn is_optional(&mut self, number: u64, importance: Importance) -> bool {
        let place = number % self.of;
        if place == 0 {
            self.used = 0;
        }
        let left = self.lost.saturating_sub(self.used);
        let optional = left > 0 && (importance == Importance::B || left >= self.of - place);
        self.used += u64::from(optional);
        optional
    }

    /// Records that unknown frames of the block were lost: the rest of the block is mandatory.
    pub(crate) fn skip(&mut self) {
        self.used = self.lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Importance::{B, I, P};

    fn optional(window: (u32, u32), kinds: &[Importance]) -> Vec<usize> {
        let mut choice = OnlineChoice::new(window.0, window.1);
        let kinds = (0..).zip(kinds);
        let chosen = kinds.filter(|(number, kind)| choice.is_optional(*number, **kind));
        chosen.map(|(number, _)| usize::try_from(number).unwrap()).collect()
    }

    #[test]
    fn b_frames_are_optional_first_then_the_last_of_the_block() {
        assert_eq!(optional((2, 6), &[I, B, B, P, B, B, I, P, P, B, P, P]), [1, 2, 9, 11]);
        assert_eq!(optional((1, 4), &[I, P, P, P, P, P, P, P]), [3, 7]);
        assert_eq!(optional((0, 0), &[B, B]), [0; 0]);
    }

    proptest::proptest! {
        #[test]
        fn every_block_has_exactly_x_optional_frames(
            lost in 0u32..9, more in 0u32..9, kinds in proptest::collection::vec(0u32..4, 60..90),
        ) {
            let of = (lost + more).max(1);
            let kinds: Vec<_> = kinds.into_iter().map(Importance::from_number).collect();
            let found = optional((lost, of), &kinds);
            for block in kinds.chunks_exact(of as usize).enumerate() {
                let range = block.0 * of as usize..(block.0 + 1) * of as usize;
                let count = found.iter().filter(|number| range.contains(number)).count();
                proptest::prop_assert_eq!(count, lost as usize);
            }
        }
    }
}
