//! The order of two backlogged streams.

use num_rational::Ratio;

use crate::model::Discipline;
use crate::mutant::Mutant;

/// The attributes of a backlogged stream that the order uses.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its number.
    pub stream: u32,
    /// Its static priority.
    pub priority: u32,
    /// `lqf`: bytes waiting, the head's included.
    pub backlog: u64,
    /// Bytes on the wire served since the stream became backlogged.
    pub attained: u64,
    /// The head's deadline, ns.
    pub deadline_ns: u64,
    /// x'.
    pub x: u64,
    /// y'.
    pub y: u64,
    /// Arrival time of its head, ns.
    pub arrival_ns: u64,
    /// Its head's position in the arrivals file, for a mutant.
    pub file_position: u64,
}

impl Candidate {
    /// Returns x'/y'; a fraction with numerator 0 is 0.
    fn window(&self) -> Ratio<u128> {
        if self.x == 0 {
            Ratio::from_integer(0)
        } else {
            Ratio::new(u128::from(self.x), u128::from(self.y))
        }
    }
}

/// Returns whether `a` is served before `b`.
#[must_use]
pub fn precedes(
    discipline: Discipline,
    mutant: Option<Mutant>,
    a: &Candidate,
    b: &Candidate,
) -> bool {
    let is = |fault| mutant == Some(fault);
    let discipline = match discipline {
        Discipline::Dwcs { loss_first, rtas99, lowest_denominator }
            if is(Mutant::OrdersExchanged) =>
        {
            Discipline::Dwcs { loss_first: !loss_first, rtas99, lowest_denominator }
        }
        unchanged => unchanged,
    };
    match discipline {
        Discipline::Fifo => {}
        Discipline::StaticPriority => {
            if a.priority != b.priority {
                return (a.priority < b.priority) != is(Mutant::PriorityReversed);
            }
        }
        Discipline::Lqf => {
            if a.backlog != b.backlog {
                return a.backlog > b.backlog;
            }
        }
        Discipline::Las => {
            if a.attained != b.attained {
                return a.attained < b.attained;
            }
        }
        Discipline::Edf => {
            if a.deadline_ns != b.deadline_ns {
                return a.deadline_ns < b.deadline_ns;
            }
        }
        Discipline::Dwcs { loss_first: false, lowest_denominator, .. } => {
            if a.deadline_ns != b.deadline_ns {
                return a.deadline_ns < b.deadline_ns;
            }
            if let Some(first) = by_window(mutant, a, b) {
                return first;
            }
            if let Some(first) = among_equal_windows(mutant, lowest_denominator, a, b) {
                return first;
            }
        }
        Discipline::Dwcs { loss_first: true, lowest_denominator, .. } => {
            if let Some(first) = by_window(mutant, a, b) {
                return first;
            }
            let by_deadline =
                (a.deadline_ns != b.deadline_ns).then_some(a.deadline_ns < b.deadline_ns);
            let by_terms = among_equal_windows(mutant, lowest_denominator, a, b);
            let terms_first = if a.x == 0 && b.x == 0 {
                !is(Mutant::LossFirstDeadlineBeforeDenominator)
            } else {
                is(Mutant::LossFirstNumeratorBeforeDeadline)
            };
            let first =
                if terms_first { by_terms.or(by_deadline) } else { by_deadline.or(by_terms) };
            if let Some(first) = first {
                return first;
            }
        }
    }
    if a.arrival_ns != b.arrival_ns {
        return (a.arrival_ns < b.arrival_ns) != is(Mutant::TieToLaterArrival);
    }
    if is(Mutant::TieByFileOrder) {
        return a.file_position < b.file_position;
    }
    (a.stream < b.stream) != is(Mutant::TieToHigherStream)
}

/// Returns whether the window-constraint of `a` is lower; `None` if they are equal.
fn by_window(mutant: Option<Mutant>, a: &Candidate, b: &Candidate) -> Option<bool> {
    match mutant {
        Some(Mutant::WindowsNotCompared) => None,
        Some(Mutant::WindowsByNumeratorAlone) => (a.x != b.x).then_some(a.x < b.x),
        _ => (a.window() != b.window()).then_some(a.window() < b.window()),
    }
}

/// Returns whether `a` precedes `b`; their window-constraints are equal.
///
/// Zeros are in order of y', highest first (or lowest first); equal non-zeros in order of x',
/// lowest first.
fn among_equal_windows(
    mutant: Option<Mutant>,
    lowest_denominator: bool,
    a: &Candidate,
    b: &Candidate,
) -> Option<bool> {
    if a.x == 0 && b.x == 0 {
        let lowest = lowest_denominator != (mutant == Some(Mutant::ZeroWindowOrderReversed));
        (a.y != b.y).then_some(if lowest { a.y < b.y } else { a.y > b.y })
    } else {
        let highest = mutant == Some(Mutant::EqualWindowsHighestNumerator);
        (a.x != b.x).then_some((a.x < b.x) != highest)
    }
}
