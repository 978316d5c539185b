//! Whether window-constraints are kept: unit jobs in slots, and how much of the link they need.
//!
//! Unit jobs are packets of equal length whose periods are multiples of their transmission time, a
//! slot. A stream with window x/y asks for m = y − x of every k = y requests, so the streams need
//! Σ m·C/(k·T) of the slots.
//!
//! A sum of at most 1 is sufficient if a stream with 1 < m < k, *several* of its requests, counts
//! with all of them, C/T. *Proof*, for EDF by the virtual deadlines ts + T·k'/m' of VDS: let no
//! packet with a virtual deadline of at most D wait just before t, and some wait from t to D. What
//! is served in between arrived in periods that begin at t or later, as a request that its period
//! passes over has a virtual deadline that is not earlier in the next one. A virtual deadline is
//! not earlier than the end of its period, so a stream with several has at most ⌊(D − t)/T⌋ of
//! these packets; one with m = k has as many, and one with m = 1 has ⌊(D − t)/(k·T)⌋. Together they
//! fit into D − t, so none is late. A window is violated only if a request with k' = m' is
//! late; its virtual deadline is the end of its period. For PD², let the pseudo-deadlines be the
//! virtual ones: those of a stream are at least T apart.

use core::cmp::Ordering;
use core::fmt;

use super::StreamLimits;
use super::exact::{Sum, sum_fractions};
use crate::link::Link;

/// The verdict on the window-constraints, with the utilisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowVerdict {
    /// The verdict.
    pub windows: Windows,
    /// Σ m·C/(k·T) in 10⁻⁶, rounded up.
    pub utilisation_ppm: u64,
}

/// The verdict on the window-constraints of all streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// All are kept.
    Kept,
    /// Σ m·C/(k·T) > 1: while all streams are backlogged, some must be violated.
    Overloaded,
    /// Σ m·C/(k·T) ≤ 1, which is not sufficient because a stream requires several of its requests
    /// but not all. With all requests of such streams the sum exceeds 1.
    Unproven {
        /// The first such stream.
        stream: usize,
    },
    /// 128 bits cannot compare Σ m·C/(k·T) with 1.
    TooClose,
}

/// A failing premise of window guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Premise {
    /// The stream's packets are not all as long as the first stream's, or are empty.
    UnequalLengths {
        /// The stream.
        stream: usize,
    },
    /// The stream's request period differs from the first stream's (DWCS only).
    UnequalPeriods {
        /// The stream.
        stream: usize,
    },
    /// The stream's request period is 0 or not a multiple of a packet's transmission time.
    PeriodNotMultiple {
        /// The stream.
        stream: usize,
    },
    /// The link has no rate.
    NoRate,
}

impl fmt::Display for Premise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnequalLengths { stream } => {
                write!(f, "packets of stream {stream} are not all as long as those of stream 0")
            }
            Self::UnequalPeriods { stream } => {
                write!(f, "the period of stream {stream} differs from that of stream 0")
            }
            Self::PeriodNotMultiple { stream } => {
                write!(f, "the period of stream {stream} is not a multiple of a transmission time")
            }
            Self::NoRate => f.write_str("the link has no rate"),
        }
    }
}

impl core::error::Error for Premise {}

/// Streams whose packets may be unit jobs of a link's slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitJobs<'a> {
    /// The link.
    pub(super) link: Link,
    /// All streams of the link.
    pub(super) streams: &'a [StreamLimits],
}

impl UnitJobs<'_> {
    /// Returns whether VDS keeps every window-constraint: see [`Bounds::vds`](super::Bounds::vds).
    pub(super) fn vds(self) -> Result<WindowVerdict, Premise> {
        self.verdict(false)
    }

    /// Returns whether DWCS keeps every window-constraint: see
    /// [`Bounds::dwcs`](super::Bounds::dwcs).
    pub(super) fn dwcs(self) -> Result<WindowVerdict, Premise> {
        if let Some(stream) = self.odd_period() {
            return Err(Premise::UnequalPeriods { stream });
        }
        self.verdict(true)
    }

    /// Returns whether PD² keeps every window-constraint: see [`Bounds::pd2`](super::Bounds::pd2).
    pub(super) fn pd2(self) -> Result<WindowVerdict, Premise> {
        let mut verdict = self.verdict(false)?;
        if self.odd_period().is_none() && matches!(verdict.windows, Windows::Unproven { .. }) {
            verdict.windows = Windows::Kept;
        }
        Ok(verdict)
    }

    fn verdict(self, none_asks_for_all: bool) -> Result<WindowVerdict, Premise> {
        if self.streams.is_empty() {
            return Ok(WindowVerdict { windows: Windows::Kept, utilisation_ppm: 0 });
        }
        if self.link.rate_bps == 0 {
            return Err(Premise::NoRate);
        }
        match (self.odd_length(), self.broken_period()) {
            (Some(stream), other) if other.is_none_or(|other| stream <= other) => {
                return Err(Premise::UnequalLengths { stream });
            }
            (_, Some(stream)) => return Err(Premise::PeriodNotMultiple { stream }),
            _ => {}
        }
        let Sum { against_one, ppm } = self.utilisation(none_asks_for_all);
        let windows = match (against_one, self.unproven(none_asks_for_all)) {
            (None, _) => Windows::TooClose,
            (Some(Ordering::Greater), _) => Windows::Overloaded,
            (Some(_), Some(stream)) => Windows::Unproven { stream },
            (Some(_), None) => Windows::Kept,
        };
        Ok(WindowVerdict { windows, utilisation_ppm: ppm })
    }

    /// Returns the length of a slot: the transmission time of the first stream's largest packet,
    /// ns; 0 without streams or rate.
    pub(super) fn slot_ns(self) -> u64 {
        match self.streams.first() {
            Some(first) if self.link.rate_bps > 0 => self.link.transmission_ns(first.largest_bytes),
            _ => 0,
        }
    }

    /// Returns the first stream whose packets are not all as long as the first stream's; the first
    /// stream if they take no time.
    pub(super) fn odd_length(self) -> Option<usize> {
        let bytes = self.streams.first()?.largest_bytes;
        let differs = |s: &StreamLimits| [s.smallest_bytes, s.largest_bytes] != [bytes; 2];
        if self.slot_ns() == 0 { Some(0) } else { self.streams.iter().position(differs) }
    }

    /// Returns the first stream whose period is 0 or no multiple of a slot.
    pub(super) fn broken_period(self) -> Option<usize> {
        let slot_ns = self.slot_ns();
        let broken = |s: &StreamLimits| s.period_ns == 0 || !s.period_ns.is_multiple_of(slot_ns);
        self.streams.iter().position(broken)
    }

    /// Returns the first stream whose period differs from the first stream's.
    pub(super) fn odd_period(self) -> Option<usize> {
        let first = self.streams.first()?;
        self.streams.iter().position(|stream| stream.period_ns != first.period_ns)
    }

    /// Returns the first stream that asks for several of its requests, and not for all.
    pub(super) fn several(self) -> Option<usize> {
        self.streams.iter().position(|stream| {
            let (lost, of) = (stream.window.lost(), stream.window.of());
            lost > 0 && of - lost > 1
        })
    }

    /// Returns the first stream that asks for several of its requests, if with all of them the sum
    /// exceeds 1.
    pub(super) fn unproven(self, none_asks_for_all: bool) -> Option<usize> {
        let several = self.several()?;
        let all = self.sum(none_asks_for_all, true).against_one;
        (all.is_none() || all == Some(Ordering::Greater)).then_some(several)
    }

    /// Returns Σ m·C/(k·T) in whole slots. Streams with window 0/0 ask for every request if
    /// `none_asks_for_all`, otherwise for none.
    pub(super) fn utilisation(self, none_asks_for_all: bool) -> Sum {
        self.sum(none_asks_for_all, false)
    }

    /// Returns [`utilisation`](Self::utilisation); streams that ask for several of their requests
    /// count with all of them if `several_ask_for_all`.
    fn sum(self, none_asks_for_all: bool, several_ask_for_all: bool) -> Sum {
        let slot_ns = self.slot_ns().max(1);
        sum_fractions(self.streams.iter().map(|stream| {
            let slots = u128::from((stream.period_ns / slot_ns).max(1));
            let (lost, of) = (u128::from(stream.window.lost()), u128::from(stream.window.of()));
            match of {
                0 => (u128::from(none_asks_for_all), slots),
                _ if several_ask_for_all && of - lost > 1 => (1, slots),
                _ => (of - lost, of * slots),
            }
        }))
    }
}

/// Returns Σ m·C/(k·T) in 10⁻⁶ and whether it is more than 1: see
/// [`Bounds::need`](super::Bounds::need).
pub(super) fn need(
    link: Link,
    streams: &[StreamLimits],
    every_request: bool,
    smallest: bool,
) -> (u64, bool) {
    let asks = |stream: &&StreamLimits| stream.period_ns > 0 && link.rate_bps > 0;
    let sum = sum_fractions(streams.iter().filter(asks).map(|stream| {
        let bytes = if smallest { stream.smallest_bytes } else { stream.largest_bytes };
        // Below 2⁶⁴, so products with a window's numbers are below 2⁹⁶.
        let cost_ns = u128::from(link.transmission_ns(bytes));
        let (lost, of) = (u128::from(stream.window.lost()), u128::from(stream.window.of()));
        let period_ns = u128::from(stream.period_ns);
        match of {
            _ if every_request => (cost_ns, period_ns),
            0 => (0, 1),
            _ => (cost_ns * (of - lost), period_ns * of),
        }
    }));
    (sum.ppm, sum.against_one == Some(Ordering::Greater))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;
    use crate::contract::Window;
    use alloc::string::ToString;

    /// Packets of 25 to 125 bytes: 200 to 1,000 ns at 1 Gbit/s.
    fn stream(period_ns: u64, lost: u32, of: u32) -> StreamLimits {
        let window = Window::new(lost, of).unwrap();
        StreamLimits { period_ns, window, ..StreamLimits::new(25, 125) }
    }

    #[test]
    fn contracts_need_their_requests_of_their_periods() {
        let link = Link::new(1_000_000_000, 0);
        let need = |streams: &[StreamLimits], every_request, smallest| {
            Bounds::new(link, streams).need(every_request, smallest)
        };
        // Of 1/4 in 2 µs, 3/4 are needed; 0/0 and no period need nothing.
        let streams = [stream(2000, 1, 4), stream(3000, 0, 0), stream(0, 0, 1)];
        assert_eq!(need(&streams, false, false), (375_000, false));
        assert_eq!(need(&streams, false, true), (75_000, false));
        assert_eq!(need(&streams, true, false), (833_334, false));
        assert_eq!(need(&streams, true, true), (166_667, false));
        assert_eq!(need(&[stream(2000, 0, 1); 2], false, false), (1_000_000, false));
        assert_eq!(need(&[stream(1999, 0, 1); 2], false, false), (1_000_501, true));
        let stopped = Link { rate_bps: 0, ..link };
        assert_eq!(Bounds::new(stopped, &streams).need(true, false), (0, false));
    }

    #[test]
    fn the_first_stream_with_a_failing_premise_is_named() {
        let unit = |period_ns, bytes| StreamLimits { period_ns, ..StreamLimits::new(bytes, bytes) };
        let vds = |rate_bps, streams: &[StreamLimits]| {
            Bounds::new(Link::new(rate_bps, 0), streams).vds().unwrap_err()
        };
        let giga = 1_000_000_000;
        let streams = [unit(1000, 125), unit(1500, 125), unit(1000, 126)];
        assert_eq!(vds(giga, &streams), Premise::PeriodNotMultiple { stream: 1 });
        let streams = [unit(1000, 125), unit(1000, 126), unit(1500, 125)];
        assert_eq!(vds(giga, &streams), Premise::UnequalLengths { stream: 1 });
        let streams = [unit(1000, 125), unit(1500, 126)];
        assert_eq!(vds(giga, &streams), Premise::UnequalLengths { stream: 1 });
        assert_eq!(vds(giga, &[unit(0, 125)]), Premise::PeriodNotMultiple { stream: 0 });
        assert_eq!(vds(giga, &[unit(0, 0)]), Premise::UnequalLengths { stream: 0 });
        assert_eq!(vds(0, &[unit(1000, 125)]), Premise::NoRate);
    }

    #[test]
    fn premises_name_their_stream() {
        let text = Premise::UnequalLengths { stream: 3 }.to_string();
        assert_eq!(text, "packets of stream 3 are not all as long as those of stream 0");
        let text = Premise::UnequalPeriods { stream: 3 }.to_string();
        assert_eq!(text, "the period of stream 3 differs from that of stream 0");
        let text = Premise::PeriodNotMultiple { stream: 3 }.to_string();
        assert_eq!(text, "the period of stream 3 is not a multiple of a transmission time");
        assert_eq!(Premise::NoRate.to_string(), "the link has no rate");
    }
}
