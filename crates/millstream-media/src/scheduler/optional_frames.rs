//! Which frames may be lost: x of every y, the least important first.
//!
//! A client's contract says that at most x of any y consecutive frames (blocks of y from where it
//! began to play) may be late or lost; it does not say which. The server chooses before it needs
//! to: of each block, the x frames whose loss costs least are *optional*, the others *mandatory*.
//! B-frames that nothing refers to come first, then other B-frames, P, I; among equals the later,
//! which fewer frames depend on.
//!
//! Optional frames of any client go only where no client's mandatory frame waits. So mandatory
//! frames are served by earliest deadline as if there were no others (but for one frame that has
//! begun), and as long as they fit the link no client loses more than x of y; what is lost is what
//! hurts least. Among optional frames, that of the client that lost most lately goes first
//! ([`sharing`](crate::scheduler::loss_sharing)). The idea of fixing the optional ones beforehand
//! is that of (m, k)-firm scheduling by patterns (Ramanathan, *Overload management in real-time
//! control applications using (m, k)-firm guarantee*, 1999).

use millstream_traffic::mpeg::FrameKind;

/// What the loss of a frame costs; the order is that in which frames are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Importance {
    /// A B-frame; nothing depends on it.
    B = 0,
    /// A B-frame that others refer to.
    ReferencedB = 1,
    /// A P-frame.
    P = 2,
    /// An I-frame.
    I = 3,
}

impl Importance {
    /// That of a frame, another frame being predicted from it if `reference`.
    pub(crate) fn of(kind: FrameKind, reference: bool) -> Self {
        match (kind, reference) {
            (FrameKind::I, _) => Self::I,
            (FrameKind::P, _) => Self::P,
            (FrameKind::B, true) => Self::ReferencedB,
            (FrameKind::B, false) => Self::B,
        }
    }

    /// The importance that a store's record says; what it cannot say is an I-frame.
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            0 => Self::B,
            1 => Self::ReferencedB,
            2 => Self::P,
            _ => Self::I,
        }
    }

    /// Its frame type as an index: I, P, B.
    pub(crate) fn kind(self) -> usize {
        match self {
            Self::I => 0,
            Self::P => 1,
            Self::B | Self::ReferencedB => 2,
        }
    }
}

/// The choice for the block of frames that is being released.
#[derive(Debug)]
pub(crate) struct Choice {
    optional: Vec<bool>,
    /// Importance and place, kept to allocate once.
    order: Vec<(Importance, u32)>,
    lost: usize,
}

impl Choice {
    /// For a window of `lost` of every `of` frames.
    pub(crate) fn new(lost: u32, of: u32) -> Self {
        let of = of.max(1) as usize;
        let optional = vec![false; of];
        Self { optional, order: Vec::with_capacity(of), lost: lost as usize }
    }

    /// y, at least 1.
    fn of(&self) -> u64 {
        self.optional.len() as u64
    }

    /// Whether frame `number` of the client is optional, `importance` being that of each frame.
    /// Numbers rise by one from call to call, or begin a block.
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

    /// Chooses for the block that `number` is in, as after a restart inside one.
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

    fn optional(window: (u32, u32), film: &[Importance], frames: u64) -> Vec<u64> {
        let mut choice = Choice::new(window.0, window.1);
        let at = |number: u64| film[usize::try_from(number).unwrap() % film.len()];
        (0..frames).filter(|number| choice.is_optional(*number, at)).collect()
    }

    #[test]
    fn b_frames_are_given_up_before_p_and_p_before_i() {
        let film = [I, B, B, P, ReferencedB, B];
        assert_eq!(optional((2, 6), &film, 12), [2, 5, 8, 11]);
        assert_eq!(optional((4, 6), &film, 6), [1, 2, 4, 5]);
        assert_eq!(optional((5, 6), &film, 6), [1, 2, 3, 4, 5]);
        assert_eq!(optional((6, 6), &film, 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(optional((0, 0), &film, 6), [0; 0]);
    }

    #[test]
    fn among_equals_the_later_goes_first() {
        assert_eq!(optional((1, 4), &[I, P, P, P], 8), [3, 7]);
    }

    proptest::proptest! {
        #[test]
        fn every_block_has_exactly_x_optional_frames(
            lost in 0u32..9, more in 0u32..9, film in proptest::collection::vec(0u32..4, 1..20),
        ) {
            let of = lost + more;
            let film: Vec<_> = film.into_iter().map(Importance::from_number).collect();
            let blocks = 5;
            let found = optional((lost, of), &film, u64::from(of * blocks));
            for block in 0..blocks {
                let range = u64::from(block * of)..u64::from((block + 1) * of);
                let count = found.iter().filter(|number| range.contains(number)).count();
                proptest::prop_assert_eq!(count, lost as usize);
            }
        }
    }
}
