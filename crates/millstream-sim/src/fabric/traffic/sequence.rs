//! Assignment of random-number sequences to connections and classes.

use millstream_traffic::Random;

/// The use of a random sequence by a connection or a class.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Destinations of packets.
    Destination = 0,
    /// Times of packets and, except for video frames, their lengths.
    Times = 1,
    /// Lengths of video frames.
    Frames = 2,
}

/// Returns the number of a sequence.
///
/// From the most significant bit: end-point (24 bits), class (8), connection within the class (30),
/// purpose (2).
pub(super) fn sequence_number(end_point: u32, class: u8, connection: u32, purpose: Purpose) -> u64 {
    u64::from(end_point) << 40
        | u64::from(class) << 32
        | u64::from(connection) << 2
        | purpose as u64
}

/// Returns the sequence of a connection, or of a class without connections (connection 0).
pub(super) fn random(
    seed: u64,
    end_point: u32,
    class: u8,
    connection: u32,
    purpose: Purpose,
) -> Random {
    Random::new(seed, sequence_number(end_point, class, connection, purpose))
}

/// Draws an end-point other than `end_point` uniformly out of `end_points` (at least 2).
#[allow(clippy::cast_possible_truncation)]
pub(super) fn other_end_point(random: &mut Random, end_point: u32, end_points: u32) -> u32 {
    nth_other(random.below(u64::from(end_points - 1)) as u32, end_point)
}

/// Returns the `index`-th end-point, not counting `end_point`.
pub(super) fn nth_other(index: u32, end_point: u32) -> u32 {
    if index < end_point { index } else { index + 1 }
}
