//! Ratios rounded to the safe side, and sums of fractions compared with 1.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// ns in a second × bits in a byte.
pub(super) const BITS_NS: u128 = 8_000_000_000;

pub(super) const SIGNED_BITS_NS: i128 = BITS_NS.cast_signed();

/// Narrows to 64 bits, saturating.
pub(super) fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Returns ⌈`over` / `under`⌉, saturating; `u64::MAX` if `under` is 0.
pub(super) fn ratio_up(over: u128, under: u128) -> u64 {
    if under == 0 { u64::MAX } else { narrow(over.div_ceil(under)) }
}

/// Returns ⌈`over` / `under`⌉, saturating; `u64::MAX` if `over` is a product that overflowed.
pub(super) fn ceil_ns(over: Option<u128>, under: u128) -> u64 {
    over.map_or(u64::MAX, |over| ratio_up(over, under))
}

/// Returns ⌈`over` / `under`⌉ of either sign, saturating; `under` > 0.
pub(super) fn ceil_signed_ns(over: Option<i128>, under: i128) -> i64 {
    let Some(over) = over else { return i64::MAX };
    let quotient = over.div_euclid(under);
    let up = quotient + i128::from(over.rem_euclid(under) > 0);
    // The least number is a safe bound for values below it.
    i64::try_from(up).unwrap_or(if up > 0 { i64::MAX } else { i64::MIN })
}

/// Returns `ns` + `error_ns`, saturating; `i64::MAX` is a saturated `error_ns`.
pub(super) fn plus_error(ns: u64, error_ns: i64) -> u64 {
    if error_ns == i64::MAX { u64::MAX } else { ns.saturating_add_signed(error_ns) }
}

/// Returns a product as a signed number, if it fits.
pub(super) fn signed_product(a: u128, b: u128) -> Option<i128> {
    i128::try_from(a.checked_mul(b)?).ok()
}

pub(super) fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A sum of fractions.
pub(super) struct Sum {
    /// The comparison with 1; `None` if 128 bits cannot decide it.
    pub(super) against_one: Option<Ordering>,
    /// The sum in 10⁻⁶, rounded up.
    pub(super) ppm: u64,
}

/// Returns the sum of fractions `over`/`under`, both below 2⁹⁶ and `under` > 0.
///
/// It is exact while the common denominator fits into 128 bits, otherwise bounded from below and
/// above in units of 2⁻⁹⁶.
pub(super) fn sum_fractions(fractions: impl Iterator<Item = (u128, u128)>) -> Sum {
    const BITS: u32 = 96;
    // Sorted by denominator, so that many equal streams stay exact.
    let mut fractions: Vec<_> = fractions
        .map(|(over, under)| {
            let divisor = greatest_common_divisor(over, under);
            (over / divisor, under / divisor)
        })
        .collect();
    fractions.sort_unstable_by_key(|&(_, under)| under);
    let mut exact = Some((0u128, 1u128));
    let (mut floor_whole, mut floor, mut short) = (0u128, 0u128, 0u128);
    for &(over, under) in &fractions {
        exact = exact.and_then(|sum| add(sum, (over, under)));
        floor_whole = floor_whole.saturating_add(over / under);
        let (mut rest, mut digits) = (over % under, 0u128);
        for _ in 0..BITS / 32 {
            // Below 2¹²⁸, as the rest is below 2⁹⁶.
            rest <<= 32;
            digits = (digits << 32) | (rest / under);
            rest %= under;
        }
        floor += digits;
        floor_whole = floor_whole.saturating_add(floor >> BITS);
        floor &= (1 << BITS) - 1;
        short += u128::from(rest > 0);
    }
    let against_one = match exact {
        Some((over, under)) => Some(over.cmp(&under)),
        // A sum of exactly 1 without remainders has a power of two as its denominator, which fits.
        None if floor_whole > 0 => Some(Ordering::Greater),
        None if floor + short < 1 << BITS => Some(Ordering::Less),
        None => None,
    };
    let exact = exact.and_then(|(over, under)| Some(over.checked_mul(1_000_000)?.div_ceil(under)));
    let ppm = exact.unwrap_or_else(|| {
        let millionths = (floor + short).saturating_mul(1_000_000).div_ceil(1 << BITS);
        floor_whole.saturating_mul(1_000_000).saturating_add(millionths)
    });
    Sum { against_one, ppm: narrow(ppm) }
}

fn add((over, under): (u128, u128), (more, part): (u128, u128)) -> Option<(u128, u128)> {
    let divisor = greatest_common_divisor(under, part);
    let common = under.checked_mul(part / divisor)?;
    let over = over.checked_mul(part / divisor)?.checked_add(more.checked_mul(under / divisor)?)?;
    let divisor = greatest_common_divisor(over, common);
    Some((over / divisor, common / divisor))
}
