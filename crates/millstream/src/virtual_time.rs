//! Virtual time: the tags by which fair queueing orders packets.
//!
//! A tag is a 128-bit fixed-point number of bytes per unit of weight, [`UNIT`] to the byte. The
//! unit is divisible by every number up to 36 and by many greater ones (64, 100, 1,000, 1,024,
//! 4,096), so L/φ is exact for such weights. For other weights its relative error is below φ/2⁸⁰.
//!
//! Tags wrap around. Two tags are compared by the sign of their difference. This is correct if they
//! differ by less than half the range, about 10¹⁴ bytes per unit of weight. [`Clock`] ensures this
//! for tags that were kept while their stream was idle.
//!
//! **Error.** Each step of a clock rounds down by less than one unit. After N events of a busy
//! period a tag is at most N units, N·2⁻⁸⁰ bytes, below its exact value. Ranks compare tags
//! [`rounded`](Tag::rounded) to 2⁻⁴⁰ bytes: tags with equal exact values compare equal unless a
//! rounding boundary is within the error of them. Boundaries are far from fractions with small
//! denominators.

use core::cmp::Ordering;

use crate::structure::Cyclic;

/// One byte per unit of weight.
pub(crate) const UNIT: u128 = (1 << 29) * 81 * 625 * 49 * 11 * 13 * 17 * 19 * 23 * 29 * 31;

/// The maximum by which a tag may be ahead of its clock, and a clock may advance in one epoch.
const SPAN: u128 = 1 << 125;

/// Low bits that ranks ignore.
const GRAIN_BITS: u32 = 40;

/// The rounding boundary in a grain: the golden ratio, which is far from simple fractions.
const BOUNDARY: u128 = 0x9E_3779_B97F;

/// A point in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag(u128);

impl Tag {
    /// Returns the tag with this bit pattern.
    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the tag `units` later.
    #[inline]
    pub(crate) fn plus(self, units: u128) -> Self {
        Self(self.0.wrapping_add(units))
    }

    /// Returns the tag `units` later, or earlier if negative.
    #[inline]
    pub(crate) fn shifted(self, units: i128) -> Self {
        Self(self.0.wrapping_add_signed(units))
    }

    /// Returns the number of units by which this is after `other`; 0 if it is not.
    #[inline]
    pub(crate) fn since(self, other: Self) -> u128 {
        u128::try_from(self.difference(other)).unwrap_or(0)
    }

    #[inline]
    fn difference(self, other: Self) -> i128 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// Returns the tag as ranks compare it with near tags.
    #[inline]
    pub(crate) fn near(self) -> NearTag {
        // Truncates to 64 bits.
        #[allow(clippy::cast_possible_truncation)]
        NearTag((self.0.wrapping_add(BOUNDARY << 10) >> (GRAIN_BITS + 10)) as u64)
    }

    /// Returns whether this is not after `other`, at any distance; near tags are compared as
    /// [`near`](Self::near) tags.
    #[inline]
    pub(crate) fn reached_by(self, other: Self) -> bool {
        let difference = other.difference(self);
        // The upper half decides at once, unless they are less than a byte apart.
        #[allow(clippy::cast_possible_truncation)]
        let upper = (difference >> 64) as i64;
        if upper > 0 {
            return true;
        }
        if upper < -1 {
            return false;
        }
        // Near tags wrap, so compare them only within a grain.
        match difference >> (GRAIN_BITS + 10) {
            -1 | 0 => self.near() <= other.near(),
            grains => grains > 0,
        }
    }

    /// Returns the tag as ranks compare it.
    #[inline]
    pub(crate) fn rounded(self) -> Self {
        Self(self.0.wrapping_add(BOUNDARY) >> GRAIN_BITS << GRAIN_BITS)
    }
}

impl Ord for Tag {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.difference(*other).cmp(&0)
    }
}

impl PartialOrd for Tag {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.difference(*other) < 0
    }
}

/// The middle 64 bits of a tag, in grains of 2⁻³⁰ bytes, for comparison with tags less than 8 GB
/// per unit of weight away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NearTag(u64);

impl Ord for NearTag {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.wrapping_sub(other.0).cast_signed().cmp(&0)
    }
}

impl PartialOrd for NearTag {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }
}

impl Cyclic for NearTag {
    #[inline]
    fn bits(self) -> u64 {
        self.0
    }
}

/// A tag in halves: a `u128` is aligned to 16 bytes, which would enlarge states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves {
    low: u64,
    high: u64,
}

impl From<Tag> for Halves {
    #[inline(always)]
    fn from(tag: Tag) -> Self {
        // The lower half.
        #[allow(clippy::cast_possible_truncation)]
        let low = tag.0 as u64;
        Self { low, high: (tag.0 >> 64) as u64 }
    }
}

impl From<Halves> for Tag {
    #[inline(always)]
    fn from(halves: Halves) -> Self {
        Self(u128::from(halves.high) << 64 | u128::from(halves.low))
    }
}

/// A tag that is kept while its stream may be idle, with the clock's epoch at its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    tag: Halves,
    epoch: u64,
}

impl Kept {
    #[inline]
    pub(crate) fn tag(self) -> Tag {
        self.tag.into()
    }

    /// Returns the kept tag moved by `units`.
    #[inline]
    pub(crate) fn shifted(self, units: i128) -> Self {
        Self { tag: self.tag().shifted(units).into(), ..self }
    }
}

/// A clock of virtual time.
///
/// An epoch ends when the clock has advanced by [`SPAN`]. A tag two epochs old counts as past, so a
/// tag that was kept for a long time is never in the future after the clock has wrapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now: Tag,
    epoch: u64,
    epoch_began: Tag,
}

impl Clock {
    pub(crate) fn starting_at(origin: Tag) -> Self {
        Self { now: origin, epoch: 2, epoch_began: origin }
    }

    #[inline]
    pub(crate) fn now(&self) -> Tag {
        self.now
    }

    #[inline]
    pub(crate) fn advance(&mut self, units: u128) {
        if units >= SPAN {
            self.forget();
        }
        self.now = self.now.plus(units);
        if self.now.since(self.epoch_began) >= SPAN {
            self.epoch += 1;
            self.epoch_began = self.now;
        }
    }

    /// Advances to `tag` if that is later.
    #[inline]
    pub(crate) fn reach(&mut self, tag: Tag) {
        self.advance(tag.since(self.now));
    }

    /// Makes every kept tag count as past.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.epoch += 2;
        self.epoch_began = self.now;
    }

    /// Returns `tag` for keeping, limited to the span.
    #[inline]
    pub(crate) fn keep(&self, tag: Tag) -> Kept {
        let ahead = tag.since(self.now);
        let tag = if ahead > SPAN { self.now.plus(SPAN) } else { tag };
        Kept { tag: tag.into(), epoch: self.epoch }
    }

    /// Returns a kept tag that counts as past.
    pub(crate) fn past(&self) -> Kept {
        Kept { tag: self.now.into(), epoch: 0 }
    }

    /// Returns the later of `kept` and `floor`, which is not before now.
    #[inline]
    pub(crate) fn later(&self, kept: Kept, floor: Tag) -> Tag {
        if self.epoch - kept.epoch >= 2 { floor } else { kept.tag().max(floor) }
    }
}

/// A rate of virtual time, or of work, per nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerNanosecond {
    units: u128,
    /// The fraction of a unit, in 2⁻⁶⁴ units.
    fraction: u64,
}

impl PerNanosecond {
    /// Returns r/Σφ of a link of `rate_bps` shared by `weight`.
    pub(crate) fn of_link(rate_bps: u64, weight: u64) -> Self {
        // Above 140 Tbit/s the product would overflow.
        let work = UNIT * u128::from(rate_bps.min(1 << 47));
        let divisor = 8_000_000_000 * u128::from(weight.max(1));
        let (units, mut rest) = (work / divisor, work % divisor);
        let mut fraction = 0;
        for _ in 0..4 {
            rest <<= 16;
            // Below 2¹⁶, as the rest was below the divisor.
            #[allow(clippy::cast_possible_truncation)]
            let digits = (rest / divisor) as u64;
            fraction = fraction << 16 | digits;
            rest %= divisor;
        }
        Self { units, fraction }
    }

    /// Returns the units of `elapsed_ns`, saturating.
    #[inline]
    pub(crate) fn times(self, elapsed_ns: u64) -> u128 {
        let elapsed = u128::from(elapsed_ns);
        let fraction = (u128::from(self.fraction) * elapsed) >> 64;
        if elapsed_ns >> 32 == 0 {
            // `units` is at most 2⁸⁰·2⁴⁷/(8·10⁹), below 2⁹⁵, per nanosecond.
            return self.units * elapsed + fraction;
        }
        self.units.saturating_mul(elapsed).saturating_add(fraction)
    }
}

/// The units that one byte on the wire adds to a tag: the inverse of a weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerByte(u128);

impl PerByte {
    pub(crate) fn of_weight(weight: u32) -> Self {
        Self(UNIT / u128::from(weight.max(1)))
    }

    #[inline]
    pub(crate) fn times(self, wire_bytes: u64) -> u128 {
        let wire = u128::from(wire_bytes);
        // A byte is at most the unit, below 2⁸¹.
        if wire_bytes >> 40 == 0 { self.0 * wire } else { self.0.saturating_mul(wire).min(SPAN) }
    }

    /// Returns the units of `wire_bytes`, which may be negative.
    #[inline]
    pub(crate) fn times_signed(self, wire_bytes: i64) -> i128 {
        let units = self.times(wire_bytes.unsigned_abs()).cast_signed();
        if wire_bytes < 0 { -units } else { units }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_weights_divide_the_unit() {
        for weight in (1..=36).chain([64, 100, 250, 1_000, 1_024, 4_096, 10_000]) {
            assert_eq!(UNIT % weight, 0, "{weight}");
        }
    }

    #[test]
    fn order_does_not_depend_on_where_the_wrap_is() {
        for origin in [0, 5, u128::MAX - 3, u128::MAX / 2, u128::MAX / 2 + 9] {
            let origin = Tag::from_bits(origin);
            let later = origin.plus(SPAN * 2 - 1);
            assert_eq!(
                (origin.cmp(&later), later.cmp(&origin)),
                (Ordering::Less, Ordering::Greater)
            );
            assert_eq!(later.since(origin), SPAN * 2 - 1);
            assert_eq!(origin.since(later), 0);
        }
    }

    #[test]
    fn kept_tags_grow_stale_and_never_return() {
        let mut clock = Clock::starting_at(Tag::from_bits(u128::MAX - 77));
        let kept = clock.keep(clock.now().plus(SPAN));
        assert_eq!(clock.later(kept, clock.now()), kept.tag());
        for _ in 0..40 {
            clock.advance(SPAN / 4);
            let expected = if kept.tag().since(clock.now()) > 0 { kept.tag() } else { clock.now() };
            let exact = clock.later(kept, clock.now());
            assert!(exact == expected || exact == clock.now());
        }
        assert_eq!(clock.later(kept, clock.now()), clock.now());
        let kept = clock.keep(clock.now().plus(9));
        clock.forget();
        assert_eq!(clock.later(kept, clock.now()), clock.now());
    }

    #[test]
    fn the_rate_of_a_link_is_exact_to_a_unit() {
        for (rate_bps, weight) in
            [(1_000_000_000, 7), (999_999_937, 41), (3, 1 << 40), (1 << 47, 1)]
        {
            let rate = PerNanosecond::of_link(rate_bps, weight);
            for elapsed_ns in [0u64, 1, 999, 1 << 20] {
                let work = UNIT.checked_mul(u128::from(rate_bps) * u128::from(elapsed_ns));
                let Some(work) = work else { continue };
                let exact = work / (8_000_000_000 * u128::from(weight));
                let found = rate.times(elapsed_ns);
                assert!(found == exact || found + 1 == exact, "{rate_bps} {weight} {elapsed_ns}");
            }
        }
        assert_eq!(PerNanosecond::of_link(u64::MAX, 1).times(u64::MAX), u128::MAX);
    }
}
