//! Theorems that guarantee deadlines and windows, and the checks of their premises.
//!
//! | theorem | guarantees | source |
//! |---|---|---|
//! | [`Theorem::EdfDemand`] | no deadline is missed | Jeffay, Stanat and Martel 1991 |
//! | [`Theorem::UnitJobs`] | no window is violated | Horn 1974: EDF of unit jobs is optimal |
//! | [`Theorem::UnitJobsInStep`] | no window is violated, where deadlines lead | Horn 1974 |
//! | [`Theorem::Pfair`] | no window is violated, for any windows | Anderson and Srinivasan 2001 |
//!
//! [`Bounds::prove`] evaluates every premise; the theorem holds if none fails. A failing premise
//! carries the stream and the number from which a caller derives the necessary change.
//!
//! **Reasons for the premises.** *Gates*: a head behind a closed gate keeps its early deadline, so
//! it can go before packets whose guarantee excludes it. *First deadlines*: demand is counted from
//! arrivals, and a first deadline before arrival + T is extra demand. *Slots, phases*: see
//! [`ArrivalPattern`](super::ArrivalPattern). *Pauses*: x'/y' do not change while a stream has no
//! request, so several streams can return together with no loss left. *Queues*: a packet that
//! arrives at a full queue is lost under every schedule.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use super::exact::sum_fractions;
use super::feasible::EdfVerdict;
use super::{ArrivalPattern, Bounds, StreamLimits};
use crate::contract::Late;

/// A theorem about deadlines or windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Theorem {
    /// The demand criterion of non-preemptive EDF. DWCS (EDF first) orders by deadline, so it
    /// misses nothing if EDF misses nothing.
    EdfDemand,
    /// EDF of unit jobs with whole release times, for VDS and PD²: every stream asks for all of its
    /// requests, for one of a window, or for none.
    UnitJobs,
    /// EDF of unit jobs whose periods all begin together, for DWCS (EDF first, standard rules).
    UnitJobsInStep,
    /// PD² of periodic tasks that begin together, for any windows.
    Pfair,
}

impl fmt::Display for Theorem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EdfDemand => "EDF demand criterion (Jeffay, Stanat and Martel 1991)",
            Self::UnitJobs => "EDF of unit jobs (Horn 1974)",
            Self::UnitJobsInStep => "EDF of unit jobs with equal periods (Horn 1974)",
            Self::Pfair => "PD² of periodic tasks (Anderson and Srinivasan 2001)",
        })
    }
}

/// A premise of a [`Theorem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// No stream has a rate cap or credits.
    NoGates,
    /// No first deadline is earlier than the first arrival + T.
    FirstDeadlines,
    /// No queue can overflow.
    Queues,
    /// All packets are equally long.
    EqualLengths,
    /// Every period is a multiple of a packet's transmission time.
    WholeSlots,
    /// All periods are equal.
    EqualPeriods,
    /// Packets arrive at ends of slots.
    Slots,
    /// The periods of all streams begin together.
    Phases,
    /// A stream that asks for some of its requests has a request in every period.
    NoPauses,
    /// Every stream asks for all of its requests, for one of a window, or for none.
    Windows,
    /// The contracts need no more than the link.
    Utilisation,
    /// The demand criterion of EDF.
    Demand,
}

impl Condition {
    /// Every condition, in the order in which theorems check theirs.
    pub const ALL: [Self; 12] = [
        Self::NoGates,
        Self::FirstDeadlines,
        Self::EqualLengths,
        Self::WholeSlots,
        Self::EqualPeriods,
        Self::Slots,
        Self::Phases,
        Self::NoPauses,
        Self::Windows,
        Self::Utilisation,
        Self::Demand,
        Self::Queues,
    ];

    /// Returns its name in output, in kebab case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoGates => "no-gates",
            Self::FirstDeadlines => "first-deadlines",
            Self::Queues => "queues",
            Self::EqualLengths => "equal-lengths",
            Self::WholeSlots => "whole-slots",
            Self::EqualPeriods => "equal-periods",
            Self::Slots => "slots",
            Self::Phases => "phases",
            Self::NoPauses => "no-pauses",
            Self::Windows => "windows",
            Self::Utilisation => "utilisation",
            Self::Demand => "demand",
        }
    }
}

/// How a [`Condition`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The stream has a rate cap or credits.
    Gated {
        /// The stream.
        stream: usize,
    },
    /// The stream's first deadline is before its first arrival + T.
    FirstDeadline {
        /// The stream.
        stream: usize,
        /// The earliest sufficient one, ns; `None` if arrivals are unknown.
        least_ns: Option<u64>,
    },
    /// More packets of the stream can wait than its queue holds.
    Queue {
        /// The stream.
        stream: usize,
        /// How many may wait; `None` if unbounded.
        packets: Option<u64>,
    },
    /// The stream's packets are not all as long as the first stream's, or are empty.
    Length {
        /// The stream.
        stream: usize,
    },
    /// The stream's period is 0 or no multiple of a slot.
    BrokenSlots {
        /// The stream.
        stream: usize,
        /// A slot: the transmission time of a packet, ns.
        slot_ns: u64,
    },
    /// The stream's period is not the first stream's.
    Period {
        /// The stream.
        stream: usize,
    },
    /// The stream's packets arrive within slots.
    OffSlot {
        /// The stream.
        stream: usize,
        /// A slot, ns.
        slot_ns: u64,
    },
    /// The stream's periods begin later than those of the first stream.
    Phase {
        /// The stream.
        stream: usize,
        /// The difference, ns; `None` if it varies.
        by_ns: Option<u64>,
    },
    /// The stream asks for some of its requests, and has periods without one.
    Pause {
        /// The stream.
        stream: usize,
    },
    /// The stream asks for several of its requests, and not for all.
    Window {
        /// The stream.
        stream: usize,
    },
    /// The contracts need more than the link.
    Overload {
        /// Σ m·C/(k·T) in 10⁻⁶, rounded up.
        ppm: u64,
    },
    /// The sum is too near to 1, or has too many deadlines, for a decision.
    TooClose,
    /// A deadline can be missed.
    Miss {
        /// The time from the first arrival of a rush, ns; `None` if it was not found.
        at_ns: Option<u64>,
    },
    /// The stream's arrival times are unknown.
    Unknown {
        /// The stream.
        stream: usize,
    },
}

/// A condition of a theorem, evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The condition.
    pub condition: Condition,
    /// How it fails, if it does.
    pub failing: Option<Failing>,
}

impl Bounds<'_> {
    /// Evaluates every premise of `theorem` for these streams; the theorem holds if none fails.
    ///
    /// Reads lengths, periods, windows, first deadlines, queues, gates and arrival patterns.
    /// Without a pattern ([`StreamLimits::arrivals`]) packets may arrive at any time.
    #[must_use]
    pub fn prove(&self, theorem: Theorem) -> Vec<Checked> {
        use Condition as C;
        let conditions: &[Condition] = match theorem {
            Theorem::EdfDemand => &[C::NoGates, C::FirstDeadlines, C::Demand, C::Queues],
            Theorem::UnitJobs => &[
                C::NoGates,
                C::EqualLengths,
                C::WholeSlots,
                C::Slots,
                C::NoPauses,
                C::Windows,
                C::Utilisation,
                C::Queues,
            ],
            Theorem::UnitJobsInStep => &[
                C::NoGates,
                C::FirstDeadlines,
                C::EqualLengths,
                C::WholeSlots,
                C::EqualPeriods,
                C::Slots,
                C::Phases,
                C::NoPauses,
                C::Windows,
                C::Utilisation,
                C::Queues,
            ],
            Theorem::Pfair => &[
                C::NoGates,
                C::EqualLengths,
                C::WholeSlots,
                C::EqualPeriods,
                C::Slots,
                C::Phases,
                C::NoPauses,
                C::Utilisation,
                C::Queues,
            ],
        };
        let check = |&condition: &Condition| {
            let failing = self.check(theorem, condition);
            Checked { condition, failing }
        };
        conditions.iter().map(check).collect()
    }

    /// Returns Σ m·C/(k·T) of streams that ask for m = y − x of every y requests, in 10⁻⁶ rounded
    /// up, and whether it is more than 1.
    ///
    /// C is the transmission time of the smallest packet if `smallest`, otherwise of the largest.
    /// With the smallest, a sum of more than 1 proves that no scheduler keeps all contracts while
    /// every stream is backlogged. If `every_request`, windows are ignored (EDF). Reads lengths,
    /// periods and windows; streams without a period ask for nothing.
    #[must_use]
    pub fn need(&self, every_request: bool, smallest: bool) -> (u64, bool) {
        let asks = |stream: &&StreamLimits| stream.period_ns > 0 && self.link.rate_bps > 0;
        let sum = sum_fractions(self.streams.iter().filter(asks).map(|stream| {
            let bytes = if smallest { stream.smallest_bytes } else { stream.largest_bytes };
            // Below 2⁶⁴, so products with a window's numbers are below 2⁹⁶.
            let cost_ns = u128::from(self.link.transmission_ns(bytes));
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

    fn check(&self, theorem: Theorem, condition: Condition) -> Option<Failing> {
        match condition {
            Condition::NoGates => self.first(|s| s.gated).map(|stream| Failing::Gated { stream }),
            Condition::FirstDeadlines => self.first_deadlines(),
            Condition::Queues => self.queues(theorem),
            Condition::EqualLengths => self.lengths(),
            Condition::WholeSlots => {
                let slot_ns = self.slot_ns();
                let broken = |s: &StreamLimits| {
                    s.period_ns == 0 || slot_ns == 0 || !s.period_ns.is_multiple_of(slot_ns)
                };
                self.first(broken).map(|stream| Failing::BrokenSlots { stream, slot_ns })
            }
            Condition::EqualPeriods => self.odd_period().map(|stream| Failing::Period { stream }),
            Condition::Slots => self.check_slots(theorem),
            Condition::Phases => self.check_phases(theorem),
            Condition::NoPauses => self.pause(theorem),
            Condition::Windows => {
                self.first(asks_for_several).map(|stream| Failing::Window { stream })
            }
            Condition::Utilisation => {
                let sum = self.slot_sum(theorem == Theorem::UnitJobsInStep);
                match sum.against_one {
                    Some(Ordering::Greater) => Some(Failing::Overload { ppm: sum.ppm }),
                    None => Some(Failing::TooClose),
                    Some(_) => None,
                }
            }
            Condition::Demand => match self.edf() {
                Some(EdfVerdict::Feasible { .. }) => None,
                Some(EdfVerdict::Infeasible { utilisation_ppm, at_ns }) => {
                    Some(if utilisation_ppm > 1_000_000 {
                        Failing::Overload { ppm: utilisation_ppm }
                    } else {
                        Failing::Miss { at_ns }
                    })
                }
                Some(EdfVerdict::TooLong { .. }) | None => Some(Failing::TooClose),
            },
        }
    }

    fn first(&self, fails: impl Fn(&StreamLimits) -> bool) -> Option<usize> {
        self.streams.iter().position(fails)
    }

    /// Returns the length of a slot: the transmission time of the first stream's largest packet,
    /// ns.
    fn slot_ns(&self) -> u64 {
        match self.streams.first() {
            Some(first) if self.link.rate_bps > 0 => self.link.transmission_ns(first.largest_bytes),
            _ => 0,
        }
    }

    fn lengths(&self) -> Option<Failing> {
        let bytes = self.streams.first().map_or(0, |first| first.largest_bytes);
        let differs = |s: &StreamLimits| [s.smallest_bytes, s.largest_bytes] != [bytes; 2];
        let stream = if self.slot_ns() == 0 { Some(0) } else { self.first(differs) };
        stream.filter(|_| !self.streams.is_empty()).map(|stream| Failing::Length { stream })
    }

    fn first_deadlines(&self) -> Option<Failing> {
        let least = |stream: &StreamLimits| {
            stream.arrivals.as_ref().map(|of| of.first_ns().saturating_add(stream.period_ns))
        };
        let stream = self.first(|stream| {
            let arrives = stream.arrivals.as_ref().is_none_or(|of| of.packets() > 0);
            let given = stream.first_deadline_ns.filter(|_| arrives);
            given.is_some_and(|given_ns| least(stream).is_none_or(|least_ns| given_ns < least_ns))
        })?;
        Some(Failing::FirstDeadline { stream, least_ns: least(&self.streams[stream]) })
    }

    /// Returns the streams that have arrivals, with their patterns.
    fn patterns(&self) -> impl Iterator<Item = (usize, Option<&ArrivalPattern>)> {
        let patterns = self.streams.iter().map(|stream| stream.arrivals.as_ref());
        patterns.enumerate().filter(|(_, of)| of.is_none_or(|of| of.packets() > 0))
    }

    /// Returns the origin of slots: the first deadline of the first stream with packets. VDS and
    /// PD² begin periods at arrivals.
    fn origin_ns(&self, theorem: Theorem) -> u64 {
        let first = self.patterns().find_map(|(_, pattern)| pattern);
        first.map_or(0, |pattern| match theorem {
            Theorem::EdfDemand | Theorem::UnitJobsInStep => pattern.first_deadline_ns(),
            Theorem::UnitJobs | Theorem::Pfair => pattern.first_ns(),
        })
    }

    fn check_slots(&self, theorem: Theorem) -> Option<Failing> {
        let (origin_ns, slot_ns) = (self.origin_ns(theorem), self.slot_ns().max(1));
        self.patterns().find_map(|(stream, pattern)| match pattern {
            None => Some(Failing::Unknown { stream }),
            Some(of) if of.is_on_grid(origin_ns, slot_ns) => None,
            Some(_) => Some(Failing::OffSlot { stream, slot_ns }),
        })
    }

    fn check_phases(&self, theorem: Theorem) -> Option<Failing> {
        let origin_ns = self.origin_ns(theorem);
        self.patterns().find_map(|(stream, pattern)| {
            let Some(of) = pattern else { return Some(Failing::Unknown { stream }) };
            let by_ns = match theorem {
                Theorem::EdfDemand | Theorem::UnitJobsInStep => of.phase_ns(origin_ns),
                Theorem::UnitJobs | Theorem::Pfair => {
                    of.phase_ns(origin_ns.saturating_add(self.streams[stream].period_ns))
                }
            };
            (by_ns != Some(0)).then_some(Failing::Phase { stream, by_ns })
        })
    }

    fn pause(&self, theorem: Theorem) -> Option<Failing> {
        let all_or_none =
            |s: &StreamLimits| s.window.lost() == 0 || s.window.lost() == s.window.of();
        self.patterns().filter(|(stream, _)| !all_or_none(&self.streams[*stream])).find_map(
            |(stream, pattern)| {
                let Some(of) = pattern else { return Some(Failing::Unknown { stream }) };
                let pauses = match theorem {
                    Theorem::EdfDemand | Theorem::UnitJobsInStep => of.pauses(),
                    Theorem::UnitJobs | Theorem::Pfair => of.skips_period(),
                };
                pauses.then_some(Failing::Pause { stream })
            },
        )
    }

    /// Checks the queue limits. A packet served before its deadline has left by then, a late drop
    /// leaves at the first decision after it, and a late packet that is sent may wait for a whole
    /// window.
    fn queues(&self, theorem: Theorem) -> Option<Failing> {
        self.streams.iter().enumerate().find_map(|(stream, of)| {
            let limit = of.queue?;
            let asks_for_all =
                of.window.lost() == 0 && (of.window.of() > 0 || theorem == Theorem::UnitJobsInStep);
            let waits = of.arrivals.as_ref().map(ArrivalPattern::most_waiting);
            let packets = match of.late {
                _ if theorem == Theorem::EdfDemand || asks_for_all => waits,
                Late::Drop => waits.map(|waits| waits + 1),
                Late::Send => None,
            };
            let fits = packets.is_some_and(|packets| packets <= u64::from(limit));
            (!fits).then_some(Failing::Queue { stream, packets })
        })
    }
}

/// Whether `stream` asks for several of its requests, and not for all.
pub(super) fn asks_for_several(stream: &StreamLimits) -> bool {
    let (lost, of) = (stream.window.lost(), stream.window.of());
    lost > 0 && of - lost > 1
}
