//! PD²: keeps every feasible window where request periods are equal.
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
//! packets and equal periods that begin together every window is kept if Σ m·C/(k·T) ≤ 1; no other
//! discipline of the catalogue guarantees that. Sources: Baruah, Cohen, Plaxton and Varvel 1996;
//! Anderson and Srinivasan 2001 (PD², early release, tasks that pause).

use core::cmp::Reverse;

use super::windowed::{Owed, OwedOrder, Windowed};
use crate::bounds::{DeadlineGuarantee, Guarantee, Theorem};
use crate::catalogue::DisciplineRow;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "pd2",
    summary: "PD²: x-of-y windows, all that can be kept where periods are equal",
    needs: &["period"],
    uses: &["window", "late"],
    guarantee: Guarantee::Deadlines(DeadlineGuarantee {
        theorems: &[Theorem::UnitJobs, Theorem::Pfair],
        every_request: false,
        settings: None,
    }),
    build: |options, structure, form| structure.join(form, options, Pd2::default()),
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
