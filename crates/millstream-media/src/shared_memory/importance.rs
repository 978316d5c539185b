//! The importance of a frame, as the store and the rings of live frames record it.

use millstream_traffic::mpeg::FrameKind;

/// The importance of a frame; the order is the order in which frames become optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Importance {
    /// A B-frame that no frame refers to.
    B = 0,
    /// A B-frame that other frames refer to.
    ReferencedB = 1,
    /// A P-frame.
    P = 2,
    /// An I-frame.
    I = 3,
}

impl Importance {
    /// Returns the importance of a frame; `reference` marks a frame that other frames refer to.
    pub(crate) fn of(kind: FrameKind, reference: bool) -> Self {
        match (kind, reference) {
            (FrameKind::I, _) => Self::I,
            (FrameKind::P, _) => Self::P,
            (FrameKind::B, true) => Self::ReferencedB,
            (FrameKind::B, false) => Self::B,
        }
    }

    /// Returns the importance of a store's record. An unknown number counts as an I-frame.
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            0 => Self::B,
            1 => Self::ReferencedB,
            2 => Self::P,
            _ => Self::I,
        }
    }

    /// Returns the frame type as an index: I, P, B.
    pub(crate) fn kind(self) -> usize {
        match self {
            Self::I => 0,
            Self::P => 1,
            Self::B | Self::ReferencedB => 2,
        }
    }
}
