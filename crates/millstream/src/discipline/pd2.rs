//! PD²: keeps all feasible windows if request periods are equal.
//!
//! A period T in which q unit packets can be sent is a slot of q processors. A stream that must be
//! served in m of every k periods, once in each, is a Pfair task of weight m/k. Its j-th service of
//! a window is due at the end of the window's period ⌈j·k/m⌉.
//!
//! ```text
//! d   the due time                                            least first
//! b   j·k mod m ≠ 0: the next service could be given before d     true first
//! D   the group deadline of a stream with m/k ≥ 1/2:          greatest first
//!     until then a late service makes all the next ones urgent
//!     D = period ⌈⌈d·(k − m)/k⌉·k/(k − m)⌉ of the window
//! ```
//!
//! with m' and k' of [`Windowed`]. Early services are allowed, so the link does not idle. For unit
//! packets and equal periods that begin together, every window is kept if Σ m·C/(k·T) ≤ 1. No other
//! discipline of the catalogue guarantees that. Sources: Baruah, Cohen, Plaxton and Varvel 1996;
//! Anderson and Srinivasan 2001 (PD², early release, tasks that pause).

use core::cmp::Reverse;

use super::windowed::{Owed, OwedOrder, Windowed};
use crate::bounds::{DeadlineGuarantee, Guarantee, Theorem};
use crate::catalogue::DisciplineRow;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "pd2",
    summary: "PD²: x-of-y windows; keeps all feasible windows if periods are equal",
    needs: &["period"],
    uses: &["window", "late"],
    guarantee: Guarantee::Deadlines(DeadlineGuarantee {
        theorems: &[Theorem::UnitJobs, Theorem::Pfair],
        every_request: false,
        settings: None,
    }),
    build: |options, structure, form| structure.join_expiring(form, options, Pd2::default()),
    ..DisciplineRow::DEFAULT
};

/// PD².
pub type Pd2 = Windowed<DueTime>;

/// The due time, then PD²'s tie-breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueTime {
    due_ns: i128,
    /// b, true first.
    overlaps: Reverse<bool>,
    /// D, ns; least for a light stream.
    group_ns: Reverse<i128>,
}

impl OwedOrder for DueTime {
    #[inline]
    fn of(owed: &Owed) -> Self {
        let (of, lost) = (u64::from(owed.window.of()), u64::from(owed.window.lost()));
        let kept = of - lost;
        let service = kept - u64::from(owed.services) + 1;
        let due = (service * of).div_ceil(kept);
        let overlaps = !(service * of).is_multiple_of(kept);
        // The end of a period of the window, counted from 1; k' includes the current one.
        let end_ns = |period: u64| {
            let ahead = i128::from(period) - i128::from(of - u64::from(owed.periods) + 1);
            i128::from(owed.end_ns) + ahead * i128::from(owed.period_ns)
        };
        let group_ns = if overlaps && 2 * kept >= of {
            end_ns(((due * lost).div_ceil(of) * of).div_ceil(lost))
        } else {
            i128::MIN
        };
        Self { due_ns: end_ns(due), overlaps: Reverse(overlaps), group_ns: Reverse(group_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Window;

    /// Returns the rank in the first period, which ends at 100, with m' services left.
    fn rank((lost, of): (u32, u32), services: u32) -> (i128, bool, i128) {
        let window = Window::new(lost, of).unwrap();
        let owed = Owed { end_ns: 100, period_ns: 100, window, services, periods: of };
        let DueTime { due_ns, overlaps, group_ns } = DueTime::of(&owed);
        (due_ns, overlaps.0, group_ns.0)
    }

    #[test]
    fn due_times_overlaps_and_group_deadlines() {
        // 3 of 4: due at the ends of periods 2, 3 and 4; all late ones together at 4.
        let of = |window, services: [u32; 3]| services.map(|services| rank(window, services));
        assert_eq!(of((1, 4), [3, 2, 1]), [(200, true, 400), (300, true, 400), (400, false, MIN)]);
        // 5 of 8: due at 2, 4, 5, 7, 8; groups end at 3, 6 and 8.
        assert_eq!(of((3, 8), [5, 4, 3]), [(200, true, 300), (400, true, 600), (500, true, 600)]);
        assert_eq!(of((3, 8), [2, 1, 1])[..2], [(700, true, 800), (800, false, MIN)]);
        // Below one half there are no groups.
        assert_eq!(of((3, 5), [2, 1, 1])[..2], [(300, true, MIN), (500, false, MIN)]);
        assert_eq!(of((0, 3), [3, 2, 1]).map(|of| of.0), [100, 200, 300]);
    }

    const MIN: i128 = i128::MIN;

    #[test]
    fn a_later_period_of_the_window_is_nearer_to_its_end() {
        let window = Window::new(1, 4).unwrap();
        // The third period ends at 1,000; two services are left.
        let owed = Owed { end_ns: 1_000, period_ns: 100, window, services: 2, periods: 2 };
        let DueTime { due_ns, group_ns, .. } = DueTime::of(&owed);
        assert_eq!((due_ns, group_ns.0), (1_000, 1_100));
    }

    #[test]
    fn ties_go_to_the_overlap_and_then_to_the_later_group() {
        let rank = |due_ns, overlaps, group_ns| DueTime {
            due_ns,
            overlaps: Reverse(overlaps),
            group_ns: Reverse(group_ns),
        };
        assert!(rank(1, false, 0) < rank(2, true, 9));
        assert!(rank(1, true, 0) < rank(1, false, 9));
        assert!(rank(1, true, 9) < rank(1, true, 8));
    }
}
