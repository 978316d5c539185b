//! Feasibility of deadlines and window-constraints.

use core::cmp::Ordering;
use core::fmt;

use super::exact::{Sum, ratio_up, sum_fractions};
use super::proof::asks_for_several;
use super::{Bounds, StreamLimits};

/// The most points of the demand, times streams, that [`Bounds::edf`] evaluates.
const MOST_STEPS: u64 = 1 << 24;

/// Whether EDF keeps every deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdfVerdict {
    /// Every packet's service starts before its deadline.
    Feasible {
        /// ΣC/T in 10⁻⁶, rounded up.
        utilisation_ppm: u64,
    },
    /// Some packet may miss its deadline.
    Infeasible {
        /// ΣC/T in 10⁻⁶, rounded up.
        utilisation_ppm: u64,
        /// The shortest time from the first arrival of a rush to a deadline in it that can be
        /// missed, ns; `None` if the limit of points was reached before (but ΣC/T > 1).
        at_ns: Option<u64>,
    },
    /// There are too many deadlines, or 128 bits cannot compare ΣC/T with 1.
    TooLong {
        /// ΣC/T in 10⁻⁶, rounded up.
        utilisation_ppm: u64,
    },
}

/// Whether every window-constraint is kept.
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
    /// None is violated.
    Kept,
    /// Σ m·C/(k·T) > 1: while all streams are backlogged, some must be violated.
    Overloaded,
    /// Σ m·C/(k·T) ≤ 1, which is not sufficient because a stream asks for several of its requests
    /// but not for all.
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
    /// The stream's request period is not the first stream's (DWCS only).
    UnequalPeriods {
        /// The stream.
        stream: usize,
    },
    /// The stream's request period is 0 or no multiple of a packet's transmission time.
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
                write!(f, "the period of stream {stream} is not that of stream 0")
            }
            Self::PeriodNotMultiple { stream } => {
                write!(f, "the period of stream {stream} is no multiple of a transmission time")
            }
            Self::NoRate => f.write_str("the link has no rate"),
        }
    }
}

impl core::error::Error for Premise {}

impl Bounds<'_> {
    /// Returns whether EDF on this link keeps every deadline, for any arrivals: an early packet has
    /// its deadline one period after the one before it, so bursts do not harm other streams.
    ///
    /// In Millstream a deadline is kept if service *starts* strictly before it, and a packet in
    /// service is finished. Let a rush begin 1 ns after a packet with a later deadline started, and
    /// let a packet of stream p have its deadline x ns later. The packet in service and all other
    /// packets with deadlines up to then go before it. All deadlines are kept if
    ///
    /// ```text
    /// for every x = n·T_i:  Σ_i ⌊x/T_i⌋·C_i − min{C_p : T_p ≤ x} + max(1, max{C_m : T_m > x}) ≤ x
    /// ```
    ///
    /// where C is the transmission time of the stream's largest packet, whole ns. For x ≥ max T
    /// this is ΣC/T ≤ 1, so only shorter x are evaluated, and none where the slack exceeds max C.
    /// The criterion is also necessary if packets can have their greatest length and arrive at the
    /// worst times. Reads largest packets and periods; [`prove`](Self::prove) also checks first
    /// deadlines and gates. Source: the criterion of Jeffay, Stanat and Martel 1991, for the start
    /// of service instead of its end.
    ///
    /// `None` if a period is 0 or the link has no rate.
    #[must_use]
    pub fn edf(&self) -> Option<EdfVerdict> {
        let cost = |stream: &StreamLimits| self.link.transmission_ns(stream.largest_bytes).max(1);
        if self.link.rate_bps == 0 || self.streams.iter().any(|stream| stream.period_ns == 0) {
            return None;
        }
        let share = |stream: &StreamLimits| (cost(stream).into(), stream.period_ns.into());
        let Sum { against_one, ppm: utilisation_ppm } =
            sum_fractions(self.streams.iter().map(share));
        let overload = against_one == Some(Ordering::Greater);
        let enough_ns = self.edf_enough_ns(utilisation_ppm, cost);
        let mut steps = 0;
        let mut at_ns = 0u64;
        // The next multiple of any period after `at_ns`.
        while let Some(next) = self
            .streams
            .iter()
            .filter_map(|stream| (at_ns / stream.period_ns + 1).checked_mul(stream.period_ns))
            .min()
        {
            at_ns = next;
            if at_ns >= enough_ns && !overload {
                break;
            }
            steps += self.streams.len() as u64;
            if steps > MOST_STEPS {
                if overload {
                    break;
                }
                return Some(EdfVerdict::TooLong { utilisation_ppm });
            }
            if self.edf_demand(at_ns, cost) > u128::from(at_ns) {
                return Some(EdfVerdict::Infeasible { utilisation_ppm, at_ns: Some(at_ns) });
            }
        }
        Some(match against_one {
            Some(Ordering::Greater) => EdfVerdict::Infeasible { utilisation_ppm, at_ns: None },
            Some(_) => EdfVerdict::Feasible { utilisation_ppm },
            None => EdfVerdict::TooLong { utilisation_ppm },
        })
    }

    /// Returns the x from which the criterion holds if ΣC/T ≤ 1: its left side is at most x·ΣC/T +
    /// max C − min C, and at most x·ΣC/T where no period is longer than x.
    fn edf_enough_ns(&self, utilisation_ppm: u64, cost: impl Fn(&StreamLimits) -> u64) -> u64 {
        let longest = self.streams.iter().map(|stream| stream.period_ns).max().unwrap_or(0);
        let most = self.streams.iter().map(&cost).max().unwrap_or(0);
        let least = self.streams.iter().map(&cost).min().unwrap_or(0);
        let free_ppm = 1_000_000u64.saturating_sub(utilisation_ppm);
        longest.min(ratio_up(u128::from(most - least) * 1_000_000, free_ppm.into()))
    }

    /// Returns the left side of the criterion.
    fn edf_demand(&self, at_ns: u64, cost: impl Fn(&StreamLimits) -> u64) -> u128 {
        let (mut demand, mut own, mut blocking) = (0u128, u64::MAX, 1);
        for stream in self.streams {
            let cost_ns = cost(stream);
            if stream.period_ns <= at_ns {
                let packets = u128::from(at_ns / stream.period_ns);
                demand = demand.saturating_add(packets * u128::from(cost_ns));
                own = own.min(cost_ns);
            } else {
                blocking = blocking.max(cost_ns);
            }
        }
        demand.saturating_sub(own.into()).saturating_add(blocking.into())
    }

    /// Returns whether VDS keeps every window-constraint: Σ m·C/(k·T) ≤ 1 with m = y − x, k = y,
    /// and every stream asks for all of its requests (x = 0), for one of y (x = y − 1), or for
    /// none. Streams with window 0/0 ask for nothing.
    ///
    /// This holds for unit jobs whose periods begin together at the end of a transmission: all
    /// packets are equally long, every period is a multiple of their transmission time C. The
    /// virtual deadlines are then those of the windows, and the rule is EDF of unit jobs, which is
    /// optimal. The sum is also necessary while all streams are backlogged. Reads lengths, periods
    /// and windows.
    ///
    /// Zhang, West and Qi 2004 claim it for all windows. 5/6, 5/6 and 5/15 with T = C are a
    /// counterexample: the sum is 1, the third stream's virtual deadlines are first for five slots
    /// although it could wait, and the other two streams then both need the sixth. A sum of 0.57 is
    /// not safe either: 98/99 twice and 450/1000.
    ///
    /// Arrival times are ignored; [`prove`](Self::prove) checks them.
    ///
    /// # Errors
    /// The premise that fails.
    pub fn vds(&self) -> Result<WindowVerdict, Premise> {
        self.windows(false)
    }

    /// Returns whether DWCS (EDF first, standard rules) keeps every window-constraint, windows
    /// being consecutive blocks of y requests. The conditions are those of [`vds`](Self::vds), and
    /// all periods are equal; otherwise windows are violated far below a sum of 1, too. Windows are
    /// also kept if all requests of a period fit into it. Streams with window 0/0 count as asking
    /// for every request, since they may go before streams with the same deadline.
    ///
    /// Lowest x'/y' first is earliest virtual deadline first if periods are equal, so the
    /// counterexample is the same; West and Schwan 1999 claim it for all windows. Arrival times are
    /// ignored; [`prove`](Self::prove) checks them.
    ///
    /// # Errors
    /// The premise that fails.
    pub fn dwcs(&self) -> Result<WindowVerdict, Premise> {
        if let Some(stream) = self.odd_period() {
            return Err(Premise::UnequalPeriods { stream });
        }
        let mut verdict = self.windows(true)?;
        if let Windows::Unproven { .. } = verdict.windows {
            let period_ns = self.streams.first().map_or(0, |first| u128::from(first.period_ns));
            let cost = |stream: &StreamLimits| self.link.transmission_ns(stream.largest_bytes);
            if self.streams.iter().map(|stream| u128::from(cost(stream))).sum::<u128>() <= period_ns
            {
                verdict.windows = Windows::Kept;
            }
        }
        Ok(verdict)
    }

    /// Returns whether PD² keeps every window-constraint: Σ m·C/(k·T) ≤ 1, for any windows if all
    /// periods are equal, otherwise for the windows of [`vds`](Self::vds), whose premises apply.
    /// Source: Anderson and Srinivasan 2001, a period being a slot in which T/C tasks are served.
    /// Arrival times are ignored; [`prove`](Self::prove) checks them.
    ///
    /// # Errors
    /// The premise that fails.
    pub fn pd2(&self) -> Result<WindowVerdict, Premise> {
        let mut verdict = self.windows(false)?;
        if self.odd_period().is_none() && matches!(verdict.windows, Windows::Unproven { .. }) {
            verdict.windows = Windows::Kept;
        }
        Ok(verdict)
    }

    /// Returns the first stream whose period differs from the first stream's.
    pub(super) fn odd_period(&self) -> Option<usize> {
        let first = self.streams.first()?;
        self.streams.iter().position(|stream| stream.period_ns != first.period_ns)
    }

    fn windows(&self, none_asks_for_all: bool) -> Result<WindowVerdict, Premise> {
        let Some(first) = self.streams.first() else {
            return Ok(WindowVerdict { windows: Windows::Kept, utilisation_ppm: 0 });
        };
        if self.link.rate_bps == 0 {
            return Err(Premise::NoRate);
        }
        let cost_ns = self.link.transmission_ns(first.largest_bytes);
        for (at, stream) in self.streams.iter().enumerate() {
            let equal = [stream.smallest_bytes, stream.largest_bytes] == [first.largest_bytes; 2];
            if !equal || cost_ns == 0 {
                return Err(Premise::UnequalLengths { stream: at });
            }
            if stream.period_ns == 0 || !stream.period_ns.is_multiple_of(cost_ns) {
                return Err(Premise::PeriodNotMultiple { stream: at });
            }
        }
        let Sum { against_one, ppm } = self.slot_sum(none_asks_for_all);
        let windows = match (against_one, self.streams.iter().position(asks_for_several)) {
            (None, _) => Windows::TooClose,
            (Some(Ordering::Greater), _) => Windows::Overloaded,
            (Some(_), Some(stream)) => Windows::Unproven { stream },
            (Some(_), None) => Windows::Kept,
        };
        Ok(WindowVerdict { windows, utilisation_ppm: ppm })
    }

    /// Returns Σ m·C/(k·T) of unit jobs, C being the transmission time of the first stream's
    /// largest packet.
    pub(super) fn slot_sum(&self, none_asks_for_all: bool) -> Sum {
        let bytes = self.streams.first().map_or(0, |first| first.largest_bytes);
        let cost_ns = self.link.transmission_ns(bytes);
        sum_fractions(self.streams.iter().map(|stream| {
            let slots = u128::from((stream.period_ns / cost_ns.max(1)).max(1));
            let (lost, of) = (u128::from(stream.window.lost()), u128::from(stream.window.of()));
            match of {
                0 => (u128::from(none_asks_for_all), slots),
                _ => (of - lost, of * slots),
            }
        }))
    }
}
