//! Dynamic window-constrained scheduling.
//!
//! A stream has a request period T and a window-constraint x/y; x'/y' are its current values. A
//! decision charges every request period that ended while a head waited to its stream (rule B),
//! then serves the first head (rule A):
//!
//! ```text
//! A  served in time:  y' > x':     y' -= 1
//!                     y' = x' > 0: x' -= 1, y' -= 1
//!                     then, if x' = y' = 0 or tag:  x'/y' = x/y, tag clear
//! B  missed:          x' > 0:      x' -= 1, y' -= 1;  if x' = y' = 0: x'/y' = x/y
//!                     x' = 0 < y:  y' += 1, tag set            (a violation)
//! ```
//!
//! Order, earliest deadline first: deadline; lowest x'/y'; among zeros highest y'; among equal
//! non-zeros lowest x'; arrival; stream. Source: ShareStreams Table 1. [`LossFirst`] is the order
//! of West and Schwan 1999, [`ZeroWindow::LowestDenominator`] that of the HILQ paper.
//! [`Rules::Rtas99`] are the updates of the HILQ paper's Figure 1 with its misprints corrected.
//!
//! x' > 0 implies y' <= y, so only zero fractions grow past 32 bits and the cross products fit 64.

use alloc::boxed::Box;
use core::cmp::Ordering;
use core::hint::select_unpredictable;
use core::marker::PhantomData;

use super::edf::Deadlines;
use super::{ByRank, Discipline, Expiry, Head, Missed, Rank};
use crate::bounds::{DeadlineGuarantee, Guarantee, Theorem, UnprovedSetting};
use crate::catalogue::{Built, DisciplineRow, DwcsOrder, Form, Options, StructureName, Target};
use crate::contract::{Contract, ContractError, Late, Window};
use crate::hilq::{Hilq, Sizes};
use crate::packet::StreamId;
use crate::selector::HilqExact;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "dwcs",
    summary: "dynamic window-constrained scheduling: deadlines and x-of-y loss windows",
    needs: &["period"],
    uses: &["window", "first-deadline", "late"],
    guarantee: Guarantee::Deadlines(DeadlineGuarantee {
        theorems: &[Theorem::EdfDemand, Theorem::UnitJobsInStep],
        every_request: false,
        settings: Some(unproved_setting),
    }),
    approximations: &[StructureName::Hilq],
    deadlines_lead: |options| options.order == DwcsOrder::EdfFirst,
    build,
    ..DisciplineRow::DEFAULT
};

fn build(options: &Options, structure: StructureName, form: Form) -> Built {
    match (options.order, structure) {
        (DwcsOrder::EdfFirst, StructureName::HilqExact) => {
            form.build(options, HilqExact::new(options.dwcs))
        }
        (DwcsOrder::EdfFirst, StructureName::Hilq) => {
            Built::Scheduler(Box::new(Hilq::new(options.dwcs, Sizes::PAPER)))
        }
        (DwcsOrder::EdfFirst, _) => {
            structure.join_expiring(form, options, Dwcs::<EdfFirst>::new(options.dwcs))
        }
        (DwcsOrder::LossFirst, _) => {
            structure.join_expiring(form, options, Dwcs::<LossFirst>::new(options.dwcs))
        }
    }
}

/// Returns the setting that `theorem` does not cover.
fn unproved_setting(
    options: &Options,
    structure: StructureName,
    theorem: Theorem,
) -> Option<UnprovedSetting> {
    let unproved = |detail, change| Some(UnprovedSetting { detail, change });
    if structure == StructureName::Hilq {
        let detail = "structure hilq does not order deadlines within a millisecond";
        return unproved(detail, "structure = \"hilq-exact\"");
    }
    if options.order != DwcsOrder::EdfFirst {
        return unproved("the order is loss-first", "order = \"edf-first\"");
    }
    if options.dwcs.rules != Rules::Standard && theorem != Theorem::EdfDemand {
        return unproved("the rules are those of 1999", "rules = \"standard\"");
    }
    None
}

/// The updates that services and misses make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rules {
    /// Rules A and B as the module states them.
    #[default]
    Standard,
    /// The updates of 1999: a violation raises y' by ceil((y − x)/x), or by y if x = 0, and sets no
    /// tag. They can starve streams under overload; use them only for comparison.
    Rtas99,
}

/// The order of streams with x' = 0 and equal deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZeroWindow {
    /// The highest y' first (ShareStreams Table 1).
    #[default]
    HighestDenominator,
    /// The lowest y' first (the HILQ paper's Table 1; contradicts rule B).
    LowestDenominator,
}

/// The settings of DWCS besides the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DwcsOptions {
    /// The updates.
    pub rules: Rules,
    /// The order of zero window-constraints.
    pub zero_window: ZeroWindow,
}

/// A precedence of DWCS: [`EdfFirst`] or [`LossFirst`].
pub trait Order: Copy + core::fmt::Debug {
    /// How the order relates to deadlines.
    const EXPIRY: Expiry;

    /// Compares two streams by all but arrival and stream number.
    fn compare(a: &DwcsRank<Self>, b: &DwcsRank<Self>) -> Ordering;
}

/// Earliest deadline, then lowest window-constraint: the default.
#[derive(Clone, Copy, Debug)]
pub enum EdfFirst {}

/// Lowest window-constraint, then earliest deadline: the order of 1999.
#[derive(Clone, Copy, Debug)]
pub enum LossFirst {}

impl Order for EdfFirst {
    const EXPIRY: Expiry = Expiry::Leads;

    #[inline]
    fn compare(a: &DwcsRank<Self>, b: &DwcsRank<Self>) -> Ordering {
        a.deadline_ns
            .cmp(&b.deadline_ns)
            .then_with(|| a.compare_window(b))
            .then_with(|| if a.lost == 0 { a.zero.cmp(&b.zero) } else { a.lost.cmp(&b.lost) })
    }
}

impl Order for LossFirst {
    const EXPIRY: Expiry = Expiry::Apart;

    #[inline]
    fn compare(a: &DwcsRank<Self>, b: &DwcsRank<Self>) -> Ordering {
        let by_deadline = || a.deadline_ns.cmp(&b.deadline_ns);
        a.compare_window(b).then_with(|| {
            if a.lost == 0 {
                a.zero.cmp(&b.zero).then_with(by_deadline)
            } else {
                by_deadline().then(a.lost.cmp(&b.lost))
            }
        })
    }
}

/// Dynamic window-constrained scheduling in the order `O`.
#[derive(Clone, Copy, Debug)]
pub struct Dwcs<O = EdfFirst> {
    options: DwcsOptions,
    order: PhantomData<O>,
}

impl<O> Dwcs<O> {
    /// Returns DWCS with these settings.
    #[must_use]
    pub fn new(options: DwcsOptions) -> Self {
        Self { options, order: PhantomData }
    }
}

impl<O> Default for Dwcs<O> {
    fn default() -> Self {
        Self::new(DwcsOptions::default())
    }
}

/// A stream's state under DWCS.
#[derive(Clone, Copy, Debug)]
pub struct DwcsState {
    deadlines: Deadlines,
    contract: Window,
    /// x'.
    lost: u32,
    /// `true` if a violation occurred since the window was last restored.
    tag: bool,
    /// y'.
    of: u64,
}

/// A backlogged stream's rank in the order `O`.
#[derive(Clone, Copy, Debug)]
pub struct DwcsRank<O> {
    deadline_ns: u64,
    arrival_ns: u64,
    /// y' if x' > 0; if x' = 0, a key whose least value is first.
    zero: u64,
    /// x'.
    lost: u32,
    order: PhantomData<O>,
}

impl<O> DwcsRank<O> {
    /// Returns the deadline, ns.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Compares x'/y'; a fraction with numerator 0 is 0.
    #[inline]
    fn compare_window(&self, other: &Self) -> Ordering {
        match (self.lost, other.lost) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Less,
            (_, 0) => Ordering::Greater,
            (mine, theirs) => (u64::from(mine) * other.zero).cmp(&(u64::from(theirs) * self.zero)),
        }
    }
}

impl<O: Order> Ord for DwcsRank<O> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        O::compare(self, other).then_with(|| self.arrival_ns.cmp(&other.arrival_ns))
    }
}

impl<O: Order> PartialOrd for DwcsRank<O> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: Order> PartialEq for DwcsRank<O> {
    /// Equal fractions of equal numerator have equal denominators, so equal ranks have equal parts.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        (self.deadline_ns == other.deadline_ns)
            & (self.arrival_ns == other.arrival_ns)
            & (self.zero == other.zero)
            & (self.lost == other.lost)
    }
}

impl<O: Order> Eq for DwcsRank<O> {}

impl<O: Order> Rank for DwcsRank<O> {
    const EXPIRY: Expiry = O::EXPIRY;

    #[inline]
    fn expiry_ns(&self) -> u64 {
        self.deadline_ns
    }
}

impl DwcsState {
    /// Returns the deadline of the head, ns.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.deadlines.deadline_ns
    }

    /// Returns whether the next head's deadline is computed from the last one, not given by the
    /// contract.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        !self.deadlines.first_given
    }

    /// Returns the next deadline, which is the same after a service and after a miss.
    #[inline]
    pub(crate) fn next_deadline_ns(&self) -> u64 {
        self.deadlines.deadline_ns.saturating_add(self.deadlines.period_ns)
    }

    /// Returns the current x' and y'.
    #[inline]
    #[must_use]
    pub fn window(&self) -> (u32, u64) {
        (self.lost, self.of)
    }

    fn restore(&mut self) {
        self.lost = self.contract.lost();
        self.of = u64::from(self.contract.of());
    }

    /// Restores the window if `condition`, without a branch.
    #[inline(always)]
    fn restore_if(&mut self, condition: bool) {
        let (lost, of) = (self.contract.lost(), u64::from(self.contract.of()));
        self.lost = select_unpredictable(condition, lost, self.lost);
        self.of = select_unpredictable(condition, of, self.of);
    }

    /// Applies rule A. Branchless: the outcome is unpredictable.
    #[inline]
    fn served(&mut self, rules: Rules) {
        let rest = self.of > u64::from(self.lost);
        let all = !rest & (rules == Rules::Standard) & (self.lost > 0);
        let (lost, of) = (self.lost - u32::from(all), self.of - u64::from(rest | all));
        (self.lost, self.of) = (lost, of);
        self.restore_if((u64::from(lost) | of == 0) | self.tag);
        self.tag = false;
    }

    /// Applies rule B once; returns whether it was a violation.
    #[inline]
    fn missed_once(&mut self) -> bool {
        let violation = (self.lost == 0) & (self.contract.of() > 0);
        let within = self.lost > 0;
        self.of = self.of.saturating_add(u64::from(violation)) - u64::from(within);
        self.lost -= u32::from(within);
        self.tag |= violation;
        self.restore_if(within & (self.of == 0));
        violation
    }

    /// Applies rule B `count` times at once; returns the number of violations.
    fn missed(&mut self, count: u64, rules: Rules) -> u64 {
        if self.contract.of() == 0 {
            return 0;
        }
        let mut left = count;
        while left > 0 {
            if self.lost == 0 {
                let growth = match rules {
                    Rules::Standard => 1,
                    Rules::Rtas99 => u64::from(rtas99_growth(self.contract)),
                };
                self.of = self.of.saturating_add(growth.saturating_mul(left));
                self.tag = rules == Rules::Standard;
                return left;
            }
            let step = u64::from(self.lost).min(left);
            // The value is at most `lost`, a u32.
            #[allow(clippy::cast_possible_truncation)]
            let lost_step = step as u32;
            self.lost -= lost_step;
            self.of -= step;
            left -= step;
            if self.lost == 0 && self.of == 0 {
                self.restore();
                if self.contract.lost() == self.contract.of() {
                    // Every packet may be lost: a whole window of misses does not change the state.
                    left %= u64::from(self.contract.lost());
                }
            }
        }
        0
    }
}

/// Returns the increase of y' by a violation under the rules of 1999.
fn rtas99_growth(contract: Window) -> u32 {
    match contract.lost() {
        0 => contract.of(),
        lost => (contract.of() - lost).div_ceil(lost),
    }
}

impl<O: Order> Discipline for Dwcs<O> {
    type State = DwcsState;
    type Rank = DwcsRank<O>;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<DwcsState, ContractError> {
        let mut state = DwcsState {
            deadlines: Deadlines::admit(contract)?,
            contract: contract.window,
            lost: 0,
            tag: false,
            of: 0,
        };
        state.restore();
        Ok(state)
    }

    #[inline]
    fn became_head(&mut self, state: &mut DwcsState, head: Head) {
        state.deadlines.became_head(head);
    }

    #[inline]
    fn rank(&self, state: &DwcsState, head: Head) -> DwcsRank<O> {
        let zero = match (state.lost, self.options.zero_window) {
            (0, ZeroWindow::HighestDenominator) => u64::MAX - state.of,
            _ => state.of,
        };
        DwcsRank {
            deadline_ns: state.deadlines.deadline_ns,
            arrival_ns: head.arrival_ns,
            zero,
            lost: state.lost,
            order: PhantomData,
        }
    }

    #[inline]
    fn deadline_ns(&self, state: &DwcsState) -> Option<u64> {
        Some(state.deadlines.deadline_ns)
    }

    #[inline]
    fn expired(&mut self, state: &mut DwcsState, now_ns: u64) -> Missed {
        let deadlines = &mut state.deadlines;
        let drop_head = deadlines.late == Late::Drop;
        let missed = if drop_head {
            1
        } else {
            let next_ns = deadlines.deadline_ns.saturating_add(deadlines.period_ns);
            let mut periods = 1;
            deadlines.deadline_ns = if next_ns > now_ns {
                // Usually one period, without a division.
                next_ns
            } else {
                periods += (now_ns - deadlines.deadline_ns) / deadlines.period_ns;
                let advance_ns = periods.saturating_mul(deadlines.period_ns);
                deadlines.deadline_ns.saturating_add(advance_ns)
            };
            periods
        };
        let violations = if missed == 1 && self.options.rules == Rules::Standard {
            u64::from(state.missed_once())
        } else {
            state.missed(missed, self.options.rules)
        };
        Missed { missed, violations, drop_head }
    }

    #[inline]
    fn served(&mut self, state: &mut DwcsState, _: StreamId, _: Head, _: u64) -> bool {
        state.served(self.options.rules);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(lost: u32, of: u32) -> DwcsState {
        let contract = Contract::new().period_ns(1).unwrap().window(Window::new(lost, of).unwrap());
        Dwcs::<EdfFirst>::default().admit(&contract).unwrap()
    }

    /// The exact structure fetches the bucket of the next deadline before the state changes.
    #[test]
    fn the_next_deadline_is_known_before_a_service() {
        let contract = Contract::new().period_ns(7).unwrap().first_deadline_ns(100);
        let mut dwcs = Dwcs::<EdfFirst>::default();
        let mut state = dwcs.admit(&contract).unwrap();
        let head = Head { arrival_ns: 0, bytes: 1 };
        dwcs.became_head(&mut state, head);
        assert_eq!(state.next_deadline_ns(), 107);
        dwcs.served(&mut state, StreamId(0), head, 0);
        dwcs.became_head(&mut state, head);
        assert_eq!(dwcs.deadline_ns(&state), Some(107));
    }

    #[test]
    fn many_misses_at_once_equal_as_many_single_ones() {
        for rules in [Rules::Standard, Rules::Rtas99] {
            for of in 0..7 {
                for lost in 0..=of {
                    for services in 0..5 {
                        for count in 1..25 {
                            let mut start = state(lost, of);
                            (0..services).for_each(|_| start.served(rules));
                            let (mut once, mut singly) = (start, start);
                            let violations = once.missed(count, rules);
                            let singles: u64 = (0..count).map(|_| singly.missed(1, rules)).sum();
                            assert_eq!(violations, singles, "{lost}/{of} {rules:?} {count}");
                            assert_eq!(
                                (once.lost, once.of, once.tag),
                                (singly.lost, singly.of, singly.tag),
                                "{lost}/{of} {rules:?} {count}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ten_seconds_of_missed_nanosecond_periods_are_charged_at_once() {
        let mut dwcs = Dwcs::<EdfFirst>::default();
        for (lost, of) in [(0, 0), (0, 1), (1, 1), (3, 3), (1, 2)] {
            let mut state = state(lost, of);
            dwcs.became_head(&mut state, Head { arrival_ns: 0, bytes: 1 });
            let missed = dwcs.expired(&mut state, 10_000_000_000);
            assert_eq!(missed.missed, 10_000_000_000);
            assert_eq!(state.deadlines.deadline_ns, 10_000_000_001);
        }
    }
}
