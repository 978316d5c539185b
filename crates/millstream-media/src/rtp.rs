//! Sizes and rates of RTP packets, and the contents of one packet.

use std::ops::Range;

/// The size of an RTP header without lists or extensions, bytes (RFC 3550, 5.1).
pub(crate) const RTP_HEADER: usize = 12;

/// The rate of RTP timestamps of video, Hz.
pub(crate) const CLOCK_RATE: u64 = 90_000;

/// The contents of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The payload format's header, in the first `header_bytes` bytes.
    pub(crate) header: [u8; 4],
    /// The number of used bytes of `header`.
    pub(crate) header_bytes: u8,
    /// The range of the frame's bytes that follows the header.
    pub(crate) range: Range<usize>,
}

/// Truncates to 32 bits, because RTP counts modulo 2³².
pub(crate) fn low_u32(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0)
}
