//! Which sequence of random numbers is whose.

use millstream_traffic::Random;

/// What a connection or a class draws random numbers for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Where packets go.
    Destination = 0,
    /// When they come and, but for video frames, how large they are.
    Times = 1,
    /// How large video frames are.
    Frames = 2,
}

/// The number of a sequence: end-point in the upper 24 bits, class in the next 8, connection within
/// the class in the next 30, purpose in the last 2.
pub(super) fn number(end_point: u32, class: u8, connection: u32, purpose: Purpose) -> u64 {
    u64::from(end_point) << 40
        | u64::from(class) << 32
        | u64::from(connection) << 2
        | purpose as u64
}

/// The sequence of a connection, or of a class without connections (connection 0).
pub(super) fn random(
    seed: u64,
    end_point: u32,
    class: u8,
    connection: u32,
    purpose: Purpose,
) -> Random {
    Random::new(seed, number(end_point, class, connection, purpose))
}

/// An end-point other than `end_point` out of `end_points` (at least 2), all alike.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn other_end_point(random: &mut Random, end_point: u32, end_points: u32) -> u32 {
    skip(random.below(u64::from(end_points - 1)) as u32, end_point)
}

/// The `index`-th end-point when `end_point` is left out.
pub(super) fn skip(index: u32, end_point: u32) -> u32 {
    if index < end_point { index } else { index + 1 }
}
