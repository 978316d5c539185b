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
//! it can precede packets whose guarantee excludes it. *First deadlines*: demand is counted from
//! arrivals, and a first deadline before arrival + T is extra demand. *Slots, phases*: see
//! [`ArrivalPattern`](super::ArrivalPattern). *Pauses*: x'/y' do not change while a stream has no
//! request, so several streams can return together with no loss left. *Queues*: a packet that
//! arrives at a full queue is lost under every schedule.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use super::edf::{self, EdfVerdict};
use super::windows::UnitJobs;
use super::{ArrivalPattern, Bounds, StreamLimits};
use crate::contract::{Late, Window};

/// A theorem about deadlines or windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Theorem {
    /// The demand criterion of non-preemptive EDF. DWCS (EDF first) orders by deadline, so it
    /// misses no deadline if EDF misses none.
    EdfDemand,
    /// EDF of unit jobs with whole release times, for VDS and PD²: streams that require several of
    /// their requests, but not all, count with all of them.
    UnitJobs,
    /// EDF of unit jobs whose periods all begin together, for DWCS (EDF first, standard rules).
    UnitJobsInStep,
    /// PD² of periodic tasks that begin together, for any windows.
    Pfair,
}

impl Theorem {
    /// Returns its premises, in the order in which they are checked.
    const fn conditions(self) -> &'static [Condition] {
        use Condition as C;
        match self {
            Self::EdfDemand => &[C::NoGates, C::FirstDeadlines, C::Demand, C::Queues],
            Self::UnitJobs => &[
                C::NoGates,
                C::EqualLengths,
                C::WholeSlots,
                C::Slots,
                C::NoPauses,
                C::Windows,
                C::Utilisation,
                C::Queues,
            ],
            Self::UnitJobsInStep => &[
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
            Self::Pfair => &[
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
        }
    }
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
    /// A stream that requires some of its requests has a request in every period.
    NoPauses,
    /// Every stream requires all of its requests, one of a window, or none; or the contracts need
    /// no more than the link if streams that require several of a window require all.
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
        /// The maximum number that can wait; `None` if unbounded.
        packets: Option<u64>,
    },
    /// The stream's packets are not all as long as the first stream's, or are empty.
    Length {
        /// The stream.
        stream: usize,
    },
    /// The stream's period is 0 or not a multiple of a slot.
    BrokenSlots {
        /// The stream.
        stream: usize,
        /// A slot: the transmission time of a packet, ns.
        slot_ns: u64,
    },
    /// The stream's period differs from the first stream's.
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
    /// The stream requires some of its requests, and has periods without one.
    Pause {
        /// The stream.
        stream: usize,
    },
    /// The stream requires several of its requests, but not all, and with all requests of such
    /// streams the contracts need more than the link.
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
        /// The time from the first arrival of a burst, ns; `None` if it was not found.
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

/// Evaluates every premise of `theorem`: see [`Bounds::prove`].
pub(super) fn prove(bounds: &Bounds<'_>, theorem: Theorem) -> Vec<Checked> {
    let premises = Premises { jobs: bounds.unit_jobs(), theorem };
    let check = |&condition: &Condition| Checked { condition, failing: premises.check(condition) };
    theorem.conditions().iter().map(check).collect()
}

/// Returns the window with the fewest losses: see [`Bounds::tightest_window`].
pub(super) fn tightest_window(
    bounds: &Bounds<'_>,
    theorem: Theorem,
    stream: usize,
) -> Option<Window> {
    let of = bounds.streams.get(stream)?.window.of();
    let mut streams = bounds.streams.to_vec();
    let mut holds = |lost: u32| {
        streams[stream].window = Window::new(lost, of).ok()?;
        let all = Bounds { streams: &streams, ..*bounds }.prove(theorem);
        all.iter().all(|checked| checked.failing.is_none()).then_some(streams[stream].window)
    };
    if of == 0 {
        return None;
    }
    if let Some(none_lost) = holds(0) {
        return Some(none_lost);
    }
    // The demand criterion does not read windows.
    let mut found = holds(of).filter(|_| theorem != Theorem::EdfDemand)?;
    let mut fails = 0;
    while found.lost() - fails > 1 {
        let middle = fails + (found.lost() - fails) / 2;
        match holds(middle) {
            Some(window) => found = window,
            None => fails = middle,
        }
    }
    Some(found)
}

/// Returns the most packets that wait: see [`Bounds::most_waiting`].
///
/// A packet served before its deadline has left by then. A late drop leaves at the first decision
/// after the deadline. A late packet that is sent may wait for a whole window.
pub(super) fn most_waiting(theorem: Theorem, of: &StreamLimits) -> Option<u64> {
    let asks_for_all =
        of.window.lost() == 0 && (of.window.of() > 0 || theorem == Theorem::UnitJobsInStep);
    let arrivals = of.arrivals.as_ref()?;
    // VDS and PD² begin periods at arrivals. The pattern's deadlines are then early by a period.
    let least_ns = arrivals.first_ns().saturating_add(of.period_ns);
    let early = of.first_deadline_ns.is_some_and(|given_ns| given_ns < least_ns);
    let waits = arrivals.most_waiting() + u64::from(early);
    match of.late {
        _ if theorem == Theorem::EdfDemand || asks_for_all => Some(waits),
        Late::Drop => Some(waits + 1),
        Late::Send => None,
    }
}

/// A theorem and the streams that are to satisfy its premises.
struct Premises<'a> {
    jobs: UnitJobs<'a>,
    theorem: Theorem,
}

impl Premises<'_> {
    fn check(&self, condition: Condition) -> Option<Failing> {
        match condition {
            Condition::NoGates => self.first(|s| s.gated).map(|stream| Failing::Gated { stream }),
            Condition::FirstDeadlines => self.first_deadlines(),
            Condition::Queues => self.queues(),
            Condition::EqualLengths => {
                self.jobs.odd_length().map(|stream| Failing::Length { stream })
            }
            Condition::WholeSlots => {
                let slot_ns = self.jobs.slot_ns();
                self.jobs.broken_period().map(|stream| Failing::BrokenSlots { stream, slot_ns })
            }
            Condition::EqualPeriods => {
                self.jobs.odd_period().map(|stream| Failing::Period { stream })
            }
            Condition::Slots => self.slots(),
            Condition::Phases => self.phases(),
            Condition::NoPauses => self.pauses(),
            Condition::Windows => {
                let unproven = self.jobs.unproven(self.theorem == Theorem::UnitJobsInStep);
                unproven.map(|stream| Failing::Window { stream })
            }
            Condition::Utilisation => self.utilisation(),
            Condition::Demand => self.demand(),
        }
    }

    fn utilisation(&self) -> Option<Failing> {
        let sum = self.jobs.utilisation(self.theorem == Theorem::UnitJobsInStep);
        match sum.against_one {
            Some(Ordering::Greater) => Some(Failing::Overload { ppm: sum.ppm }),
            None => Some(Failing::TooClose),
            Some(_) => None,
        }
    }

    fn demand(&self) -> Option<Failing> {
        match edf::verdict(self.jobs.link, self.jobs.streams) {
            Some(EdfVerdict::Feasible { .. }) => None,
            Some(EdfVerdict::Infeasible { utilisation_ppm, at_ns }) => {
                Some(if utilisation_ppm > 1_000_000 {
                    Failing::Overload { ppm: utilisation_ppm }
                } else {
                    Failing::Miss { at_ns }
                })
            }
            Some(EdfVerdict::TooLong { .. }) | None => Some(Failing::TooClose),
        }
    }

    fn first(&self, fails: impl Fn(&StreamLimits) -> bool) -> Option<usize> {
        self.jobs.streams.iter().position(fails)
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
        Some(Failing::FirstDeadline { stream, least_ns: least(&self.jobs.streams[stream]) })
    }

    /// Returns the streams that have arrivals, with their patterns.
    fn patterns(&self) -> impl Iterator<Item = (usize, Option<&ArrivalPattern>)> {
        let patterns = self.jobs.streams.iter().map(|stream| stream.arrivals.as_ref());
        patterns.enumerate().filter(|(_, of)| of.is_none_or(|of| of.packets() > 0))
    }

    /// Returns the origin of slots: the first deadline of the first stream with packets. VDS and
    /// PD² begin periods at arrivals.
    fn origin_ns(&self) -> u64 {
        let first = self.patterns().find_map(|(_, pattern)| pattern);
        first.map_or(0, |pattern| match self.theorem {
            Theorem::EdfDemand | Theorem::UnitJobsInStep => pattern.first_deadline_ns(),
            Theorem::UnitJobs | Theorem::Pfair => pattern.first_ns(),
        })
    }

    fn slots(&self) -> Option<Failing> {
        let (origin_ns, slot_ns) = (self.origin_ns(), self.jobs.slot_ns().max(1));
        self.patterns().find_map(|(stream, pattern)| match pattern {
            None => Some(Failing::Unknown { stream }),
            Some(of) if of.is_on_grid(origin_ns, slot_ns) => None,
            Some(_) => Some(Failing::OffSlot { stream, slot_ns }),
        })
    }

    fn phases(&self) -> Option<Failing> {
        let origin_ns = self.origin_ns();
        self.patterns().find_map(|(stream, pattern)| {
            let Some(of) = pattern else { return Some(Failing::Unknown { stream }) };
            // PD²'s grid of period ends is that of arrivals a period before.
            let by_ns = of.phase_ns(origin_ns);
            (by_ns != Some(0)).then_some(Failing::Phase { stream, by_ns })
        })
    }

    fn pauses(&self) -> Option<Failing> {
        let all_or_none =
            |s: &StreamLimits| s.window.lost() == 0 || s.window.lost() == s.window.of();
        self.patterns().filter(|(stream, _)| !all_or_none(&self.jobs.streams[*stream])).find_map(
            |(stream, pattern)| {
                let Some(of) = pattern else { return Some(Failing::Unknown { stream }) };
                let pauses = match self.theorem {
                    Theorem::EdfDemand | Theorem::UnitJobsInStep => of.pauses(),
                    Theorem::UnitJobs | Theorem::Pfair => of.skips_period(),
                };
                pauses.then_some(Failing::Pause { stream })
            },
        )
    }

    fn queues(&self) -> Option<Failing> {
        self.jobs.streams.iter().enumerate().find_map(|(stream, of)| {
            let limit = of.queue?;
            let packets = most_waiting(self.theorem, of);
            let fits = packets.is_some_and(|packets| packets <= u64::from(limit));
            (!fits).then_some(Failing::Queue { stream, packets })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use alloc::string::ToString;
    use core::num::NonZeroU64;

    /// A slot, ns: 125 bytes at 1 Gbit/s.
    const SLOT_NS: u64 = 1000;

    const THEOREMS: [Theorem; 4] =
        [Theorem::EdfDemand, Theorem::UnitJobs, Theorem::UnitJobsInStep, Theorem::Pfair];

    /// Returns a stream with a period of `slots`, a window and arrivals at these slots.
    fn stream(slots: u64, (lost, of): (u32, u32), arrivals: &[u64]) -> StreamLimits {
        let arrivals: Vec<_> = arrivals.iter().map(|slot| slot * SLOT_NS).collect();
        StreamLimits {
            period_ns: slots * SLOT_NS,
            window: Window::new(lost, of).unwrap(),
            arrivals: Some(pattern(slots * SLOT_NS, None, &arrivals)),
            ..StreamLimits::new(125, 125)
        }
    }

    fn pattern(period_ns: u64, first_ns: Option<u64>, arrivals: &[u64]) -> ArrivalPattern {
        let mut pattern = ArrivalPattern::new(NonZeroU64::new(period_ns), first_ns);
        arrivals.iter().for_each(|time_ns| pattern.record(*time_ns));
        pattern
    }

    fn failing_at(rate_bps: u64, streams: &[StreamLimits], theorem: Theorem) -> Vec<Failing> {
        let bounds = Bounds::new(Link::new(rate_bps, 0), streams);
        bounds.prove(theorem).into_iter().filter_map(|checked| checked.failing).collect()
    }

    fn failing(streams: &[StreamLimits], theorem: Theorem) -> Vec<Failing> {
        failing_at(1_000_000_000, streams, theorem)
    }

    /// Returns two streams that satisfy every premise of every theorem.
    fn pair() -> [StreamLimits; 2] {
        [stream(2, (1, 2), &[0, 2, 4]), stream(2, (0, 1), &[0, 2, 4])]
    }

    /// Returns the reason why `theorem` fails for the pair with a changed second stream.
    fn changed(change: impl Fn(&mut StreamLimits), theorem: Theorem) -> Vec<Failing> {
        let mut streams = pair();
        change(&mut streams[1]);
        failing(&streams, theorem)
    }

    #[test]
    fn each_theorem_checks_its_premises_in_the_order_of_all_of_them() {
        let names = |theorem: Theorem| -> Vec<_> {
            let checked = Bounds::new(Link::default(), &[]).prove(theorem);
            checked.iter().map(|checked| checked.condition.name()).collect()
        };
        assert_eq!(names(Theorem::EdfDemand), ["no-gates", "first-deadlines", "demand", "queues"]);
        assert_eq!(
            names(Theorem::UnitJobs),
            [
                "no-gates",
                "equal-lengths",
                "whole-slots",
                "slots",
                "no-pauses",
                "windows",
                "utilisation",
                "queues"
            ]
        );
        let mut all: Vec<_> = Condition::ALL.map(Condition::name).to_vec();
        all.retain(|name| *name != "demand");
        assert_eq!(names(Theorem::UnitJobsInStep), all);
        all.retain(|name| !["first-deadlines", "windows"].contains(name));
        assert_eq!(names(Theorem::Pfair), all);
    }

    #[test]
    fn streams_in_step_satisfy_every_premise() {
        for theorem in THEOREMS {
            assert_eq!(failing(&pair(), theorem), [], "{theorem}");
            assert_eq!(failing(&[], theorem), [], "{theorem} without streams");
        }
    }

    #[test]
    fn a_gated_stream_fails_every_theorem() {
        for theorem in THEOREMS {
            assert_eq!(changed(|s| s.gated = true, theorem), [Failing::Gated { stream: 1 }]);
        }
    }

    #[test]
    fn a_first_deadline_is_no_earlier_than_the_first_arrival_and_a_period() {
        let of = |first_ns, arrivals: &[u64]| {
            let change = |s: &mut StreamLimits| {
                s.first_deadline_ns = Some(first_ns);
                s.arrivals = Some(pattern(2000, None, arrivals));
            };
            changed(change, Theorem::EdfDemand)
        };
        let least_ns = Some(2500);
        assert_eq!(of(2499, &[500]), [Failing::FirstDeadline { stream: 1, least_ns }]);
        assert_eq!(of(2500, &[500]), []);
        assert_eq!(of(0, &[]), [], "it has no packets");
        let unknown = |s: &mut StreamLimits| {
            s.first_deadline_ns = Some(u64::MAX);
            s.arrivals = None;
        };
        let expected = [Failing::FirstDeadline { stream: 1, least_ns: None }];
        assert_eq!(changed(unknown, Theorem::EdfDemand), expected);
        assert_eq!(changed(|s| s.arrivals = None, Theorem::EdfDemand), []);
    }

    #[test]
    fn packets_are_equally_long_and_take_time() {
        let length = |stream| Failing::Length { stream };
        assert_eq!(changed(|s| s.smallest_bytes = 124, Theorem::UnitJobs), [length(1)]);
        assert_eq!(changed(|s| s.largest_bytes = 126, Theorem::UnitJobs), [length(1)]);
        let empty = [StreamLimits { smallest_bytes: 0, largest_bytes: 0, ..pair()[0] }; 2];
        let broken = |slot_ns| Failing::BrokenSlots { stream: 0, slot_ns };
        let overload = |ppm| Failing::Overload { ppm };
        assert_eq!(failing(&empty, Theorem::UnitJobs), [length(0), broken(0)]);
        assert_eq!(failing_at(0, &pair(), Theorem::UnitJobs), [length(0), broken(0)]);
        let window = Window::new(0, 1).unwrap();
        let idle = [StreamLimits { period_ns: 0, window, ..empty[0] }; 2];
        assert_eq!(failing(&idle, Theorem::UnitJobs), [length(0), broken(0), overload(2_000_000)]);
        assert_eq!(failing_at(0, &pair(), Theorem::EdfDemand), [Failing::TooClose]);
        assert_eq!(failing_at(0, &[], Theorem::UnitJobs), []);
    }

    #[test]
    fn periods_are_whole_slots_and_equal() {
        let broken = Failing::BrokenSlots { stream: 1, slot_ns: SLOT_NS };
        let period = |period_ns, theorem| changed(|s| s.period_ns = period_ns, theorem);
        // Half a slot is lost, so its packet needs every slot.
        let overload = Failing::Overload { ppm: 1_250_000 };
        assert_eq!(period(1500, Theorem::UnitJobs), [broken, overload]);
        assert_eq!(period(1500, Theorem::Pfair)[..2], [broken, Failing::Period { stream: 1 }]);
        assert_eq!(period(0, Theorem::UnitJobs)[0], broken);
        assert_eq!(period(3000, Theorem::UnitJobs), []);
        assert_eq!(period(3000, Theorem::UnitJobsInStep)[0], Failing::Period { stream: 1 });
    }

    #[test]
    fn arrivals_are_at_ends_of_slots() {
        let off = |stream| Failing::OffSlot { stream, slot_ns: SLOT_NS };
        let at = |first_ns, arrivals: &[u64], theorem| {
            changed(|s| s.arrivals = Some(pattern(2000, first_ns, arrivals)), theorem)
        };
        assert_eq!(at(None, &[0, 2500], Theorem::UnitJobs), [off(1)]);
        assert_eq!(at(None, &[1000, 4000], Theorem::UnitJobs), []);
        assert_eq!(at(None, &[], Theorem::UnitJobs), []);
        // The grid begins at the first stream's first arrival, or its first deadline.
        let mut streams = pair();
        streams[0].arrivals = Some(pattern(2000, None, &[300, 2300]));
        assert_eq!(failing(&streams, Theorem::UnitJobs), [off(1)]);
        streams[1].arrivals = Some(pattern(2000, None, &[1300, 3300]));
        assert_eq!(failing(&streams, Theorem::UnitJobs), []);
        streams[0].arrivals = Some(pattern(2000, Some(2500), &[300, 2300]));
        assert_eq!(failing(&streams, Theorem::UnitJobs), []);
        assert_eq!(failing(&streams, Theorem::UnitJobsInStep)[0], off(0));
        streams[0].arrivals = Some(pattern(2000, None, &[]));
        assert_eq!(failing(&streams, Theorem::UnitJobs), [], "the second stream's");
        // Stream 1 asks for all of its requests, so its pauses do not matter.
        let unknown = Failing::Unknown { stream: 1 };
        assert_eq!(changed(|s| s.arrivals = None, Theorem::UnitJobs), [unknown]);
        assert_eq!(changed(|s| s.arrivals = None, Theorem::Pfair), [unknown; 2]);
    }

    #[test]
    fn periods_begin_together() {
        let phase = |by_ns| Failing::Phase { stream: 1, by_ns };
        for theorem in [Theorem::UnitJobsInStep, Theorem::Pfair] {
            let at = |arrivals: &[u64]| {
                let arrivals: Vec<_> = arrivals.iter().map(|slot| slot * SLOT_NS).collect();
                changed(|s| s.arrivals = Some(pattern(2000, None, &arrivals)), theorem)
            };
            assert_eq!(at(&[2, 4]), []);
            assert_eq!(at(&[1, 3]), [phase(Some(1000))]);
            assert_eq!(at(&[0, 5]), [phase(None)], "its periods begin anew at 5");
        }
        // PD² begins periods at arrivals, DWCS at deadlines.
        let given = |s: &mut StreamLimits| s.arrivals = Some(pattern(2000, Some(3000), &[0]));
        assert_eq!(changed(given, Theorem::UnitJobsInStep), [phase(Some(1000))]);
        let streams = pair()
            .map(|of| StreamLimits { arrivals: Some(pattern(2000, Some(3000), &[0, 2000])), ..of });
        assert_eq!(failing(&streams, Theorem::UnitJobsInStep), []);
        let expected = [0, 1].map(|stream| Failing::Phase { stream, by_ns: Some(1000) });
        assert_eq!(failing(&streams, Theorem::Pfair), expected[..1]);
    }

    #[test]
    fn a_stream_that_asks_for_some_requests_has_one_in_every_period() {
        let pause = Failing::Pause { stream: 1 };
        let at = |(lost, of), arrivals: &[u64], theorem| {
            changed(|s| *s = stream(2, (lost, of), arrivals), theorem)
        };
        // Two requests of the first period: no pause, but the second period is skipped.
        assert_eq!(at((1, 2), &[0, 0, 4], Theorem::UnitJobs), [pause]);
        assert_eq!(at((1, 2), &[0, 0, 4], Theorem::Pfair), [pause]);
        assert_eq!(at((1, 2), &[0, 0, 4], Theorem::UnitJobsInStep), []);
        assert_eq!(at((1, 2), &[0, 6], Theorem::UnitJobsInStep), [pause]);
        for all_or_none in [(0, 0), (0, 3), (3, 3)] {
            assert_eq!(at(all_or_none, &[0, 6], Theorem::UnitJobs), [], "{all_or_none:?}");
        }
        let unknown = |s: &mut StreamLimits| {
            (s.arrivals, s.window) = (None, Window::new(1, 2).unwrap());
        };
        assert_eq!(changed(unknown, Theorem::UnitJobs), [Failing::Unknown { stream: 1 }; 2]);
    }

    #[test]
    fn windows_ask_for_all_one_or_none_unless_all_requests_fit() {
        let window =
            |lost, of| changed(|s| s.window = Window::new(lost, of).unwrap(), Theorem::UnitJobs);
        for (lost, of) in [(0, 0), (0, 2), (1, 2), (2, 3), (3, 3)] {
            assert_eq!(window(lost, of), [], "{lost}/{of}");
        }
        assert_eq!(window(1, 3), [], "all requests of both streams fit");
        let mut streams = [stream(1, (1, 2), &[0, 1]), stream(2, (1, 3), &[0, 2])];
        assert_eq!(failing(&streams, Theorem::UnitJobs), [], "1/2 + 1/2");
        streams[0] = stream(1, (2, 5), &[0, 1]);
        // 3/5 + 2/6 with the requests that the windows ask for, 1 + 1/2 with all.
        assert_eq!(failing(&streams, Theorem::UnitJobs), [Failing::Window { stream: 0 }]);
        assert_eq!(changed(|s| s.window = Window::new(1, 3).unwrap(), Theorem::Pfair), []);
    }

    #[test]
    fn the_tightest_window_loses_no_more_than_it_has_to() {
        let tightest = |streams: &[StreamLimits], theorem| -> Vec<_> {
            let bounds = Bounds::new(Link::new(1_000_000_000, 0), streams);
            let of = |stream| {
                let window = bounds.tightest_window(theorem, stream)?;
                // No window with fewer losses suffices.
                for lost in 0..window.lost() {
                    let mut streams = streams.to_vec();
                    streams[stream].window = Window::new(lost, window.of()).unwrap();
                    assert_ne!(failing(&streams, theorem), [], "{lost} of {stream}");
                }
                Some((window.lost(), window.of()))
            };
            (0..streams.len()).map(of).collect()
        };
        // Periods of one and of two slots: 1 − 1/2 = 1/2 of the first, all of the second.
        let streams = [stream(1, (1, 12), &[0, 1]), stream(2, (0, 3), &[0, 2])];
        // Beside 11 of 12 requests, which count with all, nothing is left.
        assert_eq!(tightest(&streams, Theorem::UnitJobs), [Some((11, 12)), Some((3, 3))]);
        let streams = [stream(1, (11, 12), &[0, 1]), stream(2, (3, 3), &[0, 2])];
        assert_eq!(tightest(&streams, Theorem::UnitJobs), [Some((0, 12)), Some((0, 3))]);
        // With equal periods, PD² has any windows: 1 − 1/3 = 8/12.
        let streams = [stream(1, (1, 12), &[0, 1]), stream(1, (2, 3), &[0, 1])];
        assert_eq!(tightest(&streams, Theorem::Pfair), [Some((4, 12)), Some((3, 3))]);
        assert_eq!(tightest(&streams, Theorem::UnitJobs), [Some((11, 12)), Some((3, 3))]);
        assert_eq!(tightest(&streams, Theorem::EdfDemand), [None, None]);
        assert_eq!(tightest(&pair(), Theorem::EdfDemand), [Some((0, 2)), Some((0, 1))]);
        let none = [stream(1, (0, 0), &[0])];
        assert_eq!(tightest(&none, Theorem::UnitJobs), [None]);
    }

    #[test]
    fn the_contracts_need_no_more_than_the_link() {
        let free = stream(2, (0, 0), &[0, 2]);
        let full = stream(1, (0, 1), &[0, 1]);
        let overload = |ppm| Failing::Overload { ppm };
        assert_eq!(failing(&[full, free], Theorem::UnitJobs), [], "0/0 asks for nothing");
        let streams = [stream(2, (0, 1), &[0, 2]), stream(2, (0, 1), &[0, 2]), free];
        assert_eq!(failing(&streams, Theorem::Pfair), []);
        let expected = [overload(1_500_000)];
        assert_eq!(failing(&streams, Theorem::UnitJobsInStep), expected, "0/0 may go first");
        let streams = [full, stream(1, (1, 2), &[0, 1])];
        assert_eq!(failing(&streams, Theorem::Pfair), [overload(1_500_000)]);
        assert_eq!(failing(&streams, Theorem::EdfDemand), [overload(2_000_000)]);
        let miss = Failing::Miss { at_ns: Some(1000) };
        let long = StreamLimits { period_ns: 9000, ..StreamLimits::new(250, 250) };
        assert_eq!(
            failing(&[stream(1, (0, 1), &[]), long], Theorem::EdfDemand),
            [overload(1_222_223)]
        );
        let short = StreamLimits { period_ns: 1000, ..StreamLimits::new(25, 25) };
        assert_eq!(failing(&[short, long], Theorem::EdfDemand), [miss]);
        // Each stream has half of the link.
        let short = StreamLimits { period_ns: 400, ..short };
        let long = StreamLimits { period_ns: 4000, ..long };
        let miss = Failing::Miss { at_ns: Some(400) };
        assert_eq!(failing(&[short, long], Theorem::EdfDemand), [miss]);
    }

    #[test]
    fn queues_hold_what_can_wait() {
        let of = |queue, late, (lost, of), arrivals: Option<&[u64]>, theorem| {
            let change = |s: &mut StreamLimits| {
                *s = stream(2, (lost, of), arrivals.unwrap_or_default());
                s.arrivals = s.arrivals.filter(|_| arrivals.is_some());
                (s.queue, s.late) = (Some(queue), late);
            };
            changed(change, theorem).into_iter().rfind(|of| matches!(of, Failing::Queue { .. }))
        };
        let full = |packets| Some(Failing::Queue { stream: 1, packets });
        let two: Option<&[u64]> = Some(&[0, 0, 2]);
        // At most two packets wait.
        for late in [Late::Send, Late::Drop] {
            assert_eq!(of(2, late, (1, 2), two, Theorem::EdfDemand), None);
            assert_eq!(of(1, late, (1, 2), two, Theorem::EdfDemand), full(Some(2)));
            assert_eq!(of(2, late, (0, 3), two, Theorem::UnitJobs), None);
            assert_eq!(of(1, late, (0, 3), two, Theorem::UnitJobs), full(Some(2)));
            assert_eq!(of(2, late, (0, 1), two, Theorem::UnitJobs), None);
            assert_eq!(of(2, late, (0, 0), two, Theorem::UnitJobsInStep), None);
        }
        // A late packet leaves at the decision after its deadline, or may wait for a window.
        assert_eq!(of(3, Late::Drop, (1, 2), two, Theorem::UnitJobs), None);
        assert_eq!(of(2, Late::Drop, (1, 2), two, Theorem::UnitJobs), full(Some(3)));
        assert_eq!(of(2, Late::Drop, (0, 0), two, Theorem::UnitJobs), full(Some(3)));
        assert_eq!(of(u32::MAX, Late::Send, (1, 2), two, Theorem::UnitJobs), full(None));
        assert_eq!(of(9, Late::Drop, (0, 1), None, Theorem::EdfDemand), full(None));
    }

    #[test]
    fn theorems_have_their_sources() {
        let sources = ["Jeffay", "Horn", "Horn", "Anderson"];
        for (theorem, source) in THEOREMS.into_iter().zip(sources) {
            assert!(theorem.to_string().contains(source), "{theorem}");
        }
    }
}
