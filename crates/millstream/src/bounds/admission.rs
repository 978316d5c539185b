//! Admission of streams with deadlines, one at a time: [`EdfAdmission`].
//!
//! Let g be a length of periods, U(g) the sum of C/T of all streams in classes of g and less, B(g)
//! the longest packet of the streams in classes of g and more, and m the least C of all. A class
//! holds the periods from g to less than g·9/8 or so. Every deadline is kept if, for each class,
//!
//! ```text
//! g·U(g) + B(g) − m  ≤  g
//! ```
//!
//! *Proof.* Let x be any time of the demand criterion ([`Bounds::edf`](super::Bounds::edf)), and g
//! the greatest class with g ≤ x. Streams with T ≤ x are in classes of g and less, so they demand
//! at most x·U(g), and a packet of at least m less until the last one starts. Streams with T > x
//! are in classes of g and more, so one of their packets takes at most B(g). As g ≤ x and U(g) ≤ 1,
//! x·U(g) + B(g) − m ≤ x.

use alloc::collections::BTreeMap;
use core::fmt;

use super::StreamLimits;
use super::exact::narrow;
use crate::link::Link;

/// 1 in the unit of shares of the link.
const WHOLE: u128 = 1 << 64;

/// The bits of a period, the first one included, that determine its class.
const CLASS_BITS: u32 = 4;

/// The streams that a link under EDF, or DWCS with `edf-first`, has admitted: no packet of them
/// misses its deadline, however packets arrive.
///
/// Admission is sufficient, not necessary: it refuses some sets that [`Bounds::edf`] proves, since
/// it counts periods as up to an eighth shorter where packets block, and parts of periods as
/// demand. Each call takes O(log n) of n streams and visits at most 496 classes of periods. Windows
/// are not read: where no deadline is missed, every window is kept. Those of VDS and PD² have
/// premises on arrivals ([`Theorem`](super::Theorem)), which no admission can check in advance.
///
/// Reads the largest packet, the period, gates and the first deadline of a stream. A queue must
/// hold the packets that wait for their deadlines.
///
/// ```
/// use millstream::Link;
/// use millstream::bounds::{EdfAdmission, StreamLimits};
///
/// // Packets of 1 ms, one in 4 ms.
/// let stream = StreamLimits { period_ns: 4_000_000, ..StreamLimits::new(1_250, 1_250) };
/// let mut link = EdfAdmission::new(Link::new(10_000_000, 0));
/// assert_eq!((0..10).take_while(|_| link.admit(&stream).is_ok()).count(), 4);
/// link.remove(&stream);
/// assert_eq!(link.admit(&stream), Ok(()));
/// ```
///
/// [`Bounds::edf`]: super::Bounds::edf
#[derive(Clone, Debug)]
pub struct EdfAdmission {
    link: Link,
    /// The time that the link may be taken for in addition to a packet, ns.
    blocked_ns: u64,
    /// The classes of periods with streams, by their least period, ns.
    classes: BTreeMap<u64, PeriodClass>,
}

/// The admitted streams with periods of one class.
#[derive(Clone, Debug, Default)]
struct PeriodClass {
    /// ΣC/T in 1/[`WHOLE`], each term rounded up.
    share: u128,
    /// The number of streams by transmission time of their largest packets, ns.
    costs: BTreeMap<u64, u64>,
}

/// A stream as admission counts it.
#[derive(Clone, Copy)]
struct Counted {
    class: u64,
    cost_ns: u64,
    share: u128,
}

/// The reason why a stream is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdfRefusal {
    /// The stream has no period, or the link no rate.
    NoPeriod,
    /// A rate cap or credits can hold the stream's packets back.
    Gated,
    /// The stream's first deadline is given, so it may be less than a period after an arrival.
    FirstDeadline,
    /// All streams together need more than the link.
    Overload {
        /// ΣC/T in 10⁻⁶, rounded up.
        ppm: u64,
    },
    /// Packets due within this time may miss their deadlines.
    Blocked {
        /// The time from the arrival of the first of them, ns.
        within_ns: u64,
    },
}

impl fmt::Display for EdfRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPeriod => f.write_str("it has no period"),
            Self::Gated => f.write_str("a rate cap or credits can hold its packets back"),
            Self::FirstDeadline => f.write_str("its first deadline is given"),
            Self::Overload { ppm } => {
                let tenths = ppm.div_ceil(1_000);
                let (whole, part) = (tenths / 10, tenths % 10);
                write!(f, "a packet in each period needs {whole}.{part} % of the link")
            }
            Self::Blocked { within_ns } => write!(
                f,
                "packets due within {within_ns} ns may miss their deadlines behind one in service"
            ),
        }
    }
}

impl core::error::Error for EdfRefusal {}

impl EdfAdmission {
    /// Returns a link without streams.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self { link, blocked_ns: 0, classes: BTreeMap::new() }
    }

    /// Returns the link with decisions up to `blocked_ns` ahead of transmissions, as before a
    /// device's ring of packets.
    #[must_use]
    pub fn blocked(self, blocked_ns: u64) -> Self {
        Self { blocked_ns, ..self }
    }

    /// Checks whether a further stream can be admitted.
    ///
    /// # Errors
    /// Returns the reason for the refusal.
    pub fn admits(&self, stream: &StreamLimits) -> Result<(), EdfRefusal> {
        self.fits(self.counted(stream)?)
    }

    /// Admits a further stream.
    ///
    /// # Errors
    /// Returns the reason for the refusal; the admitted streams are then unchanged.
    pub fn admit(&mut self, stream: &StreamLimits) -> Result<(), EdfRefusal> {
        let of = self.counted(stream)?;
        self.fits(of)?;
        let class = self.classes.entry(of.class).or_default();
        class.share += of.share;
        *class.costs.entry(of.cost_ns).or_default() += 1;
        Ok(())
    }

    /// Removes a stream with the packets and the period of an admitted one; `false` if there is
    /// none.
    pub fn remove(&mut self, stream: &StreamLimits) -> bool {
        let Ok(of) = self.counted(stream) else { return false };
        let Some(class) = self.classes.get_mut(&of.class) else { return false };
        let Some(count) = class.costs.get_mut(&of.cost_ns) else { return false };
        let Some(share) = class.share.checked_sub(of.share) else { return false };
        class.share = share;
        *count -= 1;
        if *count == 0 {
            class.costs.remove(&of.cost_ns);
        }
        if class.costs.is_empty() {
            self.classes.remove(&of.class);
        }
        true
    }

    /// Returns ΣC/T of the admitted streams in 10⁻⁶, rounded up.
    #[must_use]
    pub fn utilisation_ppm(&self) -> u64 {
        ppm(self.classes.values().map(|class| class.share).sum())
    }

    fn counted(&self, stream: &StreamLimits) -> Result<Counted, EdfRefusal> {
        if stream.period_ns == 0 || self.link.rate_bps == 0 {
            return Err(EdfRefusal::NoPeriod);
        }
        if stream.gated {
            return Err(EdfRefusal::Gated);
        }
        if stream.first_deadline_ns.is_some() {
            return Err(EdfRefusal::FirstDeadline);
        }
        let cost_ns = self.link.transmission_ns(stream.largest_bytes).max(1);
        let share = (u128::from(cost_ns) * WHOLE).div_ceil(u128::from(stream.period_ns));
        Ok(Counted { class: class(stream.period_ns), cost_ns, share })
    }

    /// Checks the condition of every class with one more stream.
    fn fits(&self, more: Counted) -> Result<(), EdfRefusal> {
        let all: u128 = self.classes.values().map(|class| class.share).sum();
        let mut share = all.saturating_add(more.share);
        if share > WHOLE {
            return Err(EdfRefusal::Overload { ppm: ppm(share) });
        }
        let shortest = self.classes.values().filter_map(|class| class.costs.keys().next());
        let shortest_ns = shortest.copied().fold(more.cost_ns, u64::min);
        let mut longest_ns = shortest_ns;
        let mut check = |least_ns: u64, above: u128, cost_ns: u64| {
            share -= above;
            longest_ns = cost_ns.max(longest_ns);
            let blocking_ns = (longest_ns - shortest_ns).saturating_add(self.blocked_ns);
            let blocking = u128::from(blocking_ns) * WHOLE;
            let free = u128::from(least_ns) * (WHOLE - share);
            let within_ns = least_ns;
            if blocking > free { Err(EdfRefusal::Blocked { within_ns }) } else { Ok(()) }
        };
        // From the longest periods down, with the shares of the class above.
        let mut above = 0;
        let mut pending = Some(more);
        for (least_ns, class) in self.classes.iter().rev() {
            if let Some(of) = pending.filter(|of| of.class > *least_ns) {
                check(of.class, above, of.cost_ns)?;
                above = of.share;
                pending = None;
            }
            let joins = pending.filter(|of| of.class == *least_ns);
            let cost_ns = class.costs.keys().next_back().copied().unwrap_or(0);
            check(*least_ns, above, cost_ns.max(joins.map_or(0, |of| of.cost_ns)))?;
            above = class.share + joins.map_or(0, |of| of.share);
            pending = pending.filter(|_| joins.is_none());
        }
        pending.map_or(Ok(()), |of| check(of.class, above, of.cost_ns))
    }
}

/// Returns the least period of the class of `period_ns`.
fn class(period_ns: u64) -> u64 {
    let shift = (u64::BITS - period_ns.leading_zeros()).saturating_sub(CLASS_BITS);
    (period_ns >> shift) << shift
}

/// Returns a share in 10⁻⁶, rounded up.
fn ppm(share: u128) -> u64 {
    narrow(share.saturating_mul(1_000_000).div_ceil(WHOLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::Random;
    use crate::bounds::{Bounds, EdfVerdict};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    /// A byte takes 8 ns.
    const LINK: Link = Link::new(1_000_000_000, 0);

    fn stream(period_ns: u64, bytes: u32) -> StreamLimits {
        StreamLimits { period_ns, ..StreamLimits::new(bytes, bytes) }
    }

    #[test]
    fn admitted_streams_meet_the_demand_criterion() {
        let mut random = Random::new(5);
        let mut below = |end: u64| random.next_bits() % end;
        let (mut feasible, mut admitted) = (0, 0);
        for round in 0..900 {
            let periods = [20, 1_000, 50_000][round % 3];
            let mut link = EdfAdmission::new(LINK);
            let mut streams = Vec::new();
            for _ in 0..2 + below(30) {
                let period_ns = 100 + below(periods) * 100;
                let longest = if below(3) == 0 { period_ns } else { period_ns / 8 };
                let of = stream(period_ns, 1 + u32::try_from(below(longest) / 8).unwrap());
                let mut all = streams.clone();
                all.push(of);
                let exact = Bounds::new(LINK, &all).edf();
                let proved = matches!(exact, Some(EdfVerdict::Feasible { .. }));
                let may = link.admits(&of);
                assert_eq!(may, link.admit(&of));
                assert!(proved || may.is_err(), "{all:?}");
                feasible += u32::from(proved);
                admitted += u32::from(may.is_ok());
                if may.is_ok() {
                    streams = all;
                }
            }
            // After removals, decisions are those of a link that never had these streams.
            while let Some(of) = streams.pop() {
                assert!(link.remove(&of) && !link.remove(&stream(77, 1)));
                let mut fresh = EdfAdmission::new(LINK);
                assert!(streams.iter().all(|of| fresh.admit(of).is_ok()));
                assert_eq!(link.utilisation_ppm(), fresh.utilisation_ppm());
                let next = stream(100 + below(periods) * 100, 40);
                assert_eq!(link.admits(&next), fresh.admits(&next));
            }
            assert!(link.classes.is_empty());
        }
        // Two of three streams that the criterion allows are admitted.
        assert!(admitted * 3 >= feasible * 2, "{admitted} of {feasible}");
    }

    #[test]
    fn refusals_name_their_reason() {
        let mut link = EdfAdmission::new(LINK);
        // Half of the link. A packet of 2,048 ns makes that of 1,024 ns start just before 2,048 ns.
        assert_eq!(link.admit(&stream(2_048, 128)), Ok(()));
        assert_eq!(link.admits(&stream(1 << 30, 256)), Ok(()));
        let blocked = EdfRefusal::Blocked { within_ns: 2_048 };
        assert_eq!(link.admits(&stream(1 << 30, 257)), Err(blocked));
        assert_eq!(link.clone().blocked(1).admits(&stream(1 << 30, 256)), Err(blocked));
        let overload = link.admits(&stream(2_048, 129)).unwrap_err();
        assert_eq!(overload, EdfRefusal::Overload { ppm: 1_003_907 });
        assert_eq!(overload.to_string(), "a packet in each period needs 100.4 % of the link");
        assert_eq!(link.admits(&stream(0, 1)), Err(EdfRefusal::NoPeriod));
        let gated = StreamLimits { gated: true, ..stream(9_000, 1) };
        assert_eq!(link.admits(&gated), Err(EdfRefusal::Gated));
        let first = StreamLimits { first_deadline_ns: Some(5), ..stream(9_000, 1) };
        assert_eq!(link.admits(&first), Err(EdfRefusal::FirstDeadline));
        assert_eq!(link.utilisation_ppm(), 500_000);
    }

    #[test]
    fn a_class_begins_at_most_an_eighth_below_its_periods() {
        for period_ns in (0..64).flat_map(|bit| [1 << bit, (1 << bit) + 1, u64::MAX >> bit]) {
            let least_ns = class(period_ns);
            assert!(least_ns <= period_ns && period_ns - least_ns <= least_ns / 8, "{period_ns}");
            assert_eq!(class(least_ns), least_ns);
        }
        let mut classes: Vec<_> = (0..64)
            .flat_map(|bit| (0..16).map(move |part| (1u128 << bit) + (part << bit >> 4)))
            .map(|period_ns| class(u64::try_from(period_ns).unwrap()))
            .collect();
        classes.sort_unstable();
        classes.dedup();
        assert!(classes.len() <= 496, "{}", classes.len());
    }
}
