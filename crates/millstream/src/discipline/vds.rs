//! Virtual deadline scheduling: window guarantees also where request periods differ.
//!
//! A stream must be served in m = y − x of every y request periods, once in each. m' and k' are
//! what is left of the current window: services still owed, periods still to come.
//!
//! ```text
//! virtual deadline  Vd = start of the period + T·k'/m'        least Vd first
//! served:           m' -= 1, done for this period
//! period ends:      k' -= 1; at k' = 0: a violation if m' > 0; then m'/k' = (y − x)/y
//! ```
//!
//! Streams that owe nothing in this window, then those already served in their period, come after
//! all others, by the end of their period: the link does not idle, and what they get so counts for
//! nothing. A period in which a stream has no packet is no request: the next begins with the next
//! arrival. Every window is kept if Σ m·C/(y·T) ≤ 1 for unit jobs. Source: Zhang, West and Qi 2004.

use core::cmp::Ordering;

use super::{Discipline, Expiry, Head, Missed, Rank};
use crate::contract::{Contract, ContractError, Late, Window};
use crate::packet::StreamId;

/// Virtual deadline scheduling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vds;

/// A stream's state under [`Vds`].
#[derive(Clone, Copy, Debug)]
pub struct VdsState {
    /// The current request period ends here.
    end_ns: u64,
    period_ns: u64,
    window: Window,
    late: Late,
    /// m'.
    owed: u32,
    /// k'.
    left: u32,
    /// Served in the current period.
    served: bool,
    /// No packet has come yet.
    unused: bool,
    /// A violation that nobody has been told of: its window ended while the queue was empty.
    unreported: bool,
}

/// Who comes before whom, virtual deadlines aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Services are owed, the one of this period among them.
    Owed,
    /// None is owed in this window.
    Free,
    /// This period's service was given.
    Served,
}

/// A backlogged stream's place.
#[derive(Clone, Copy, Debug)]
pub struct VdsRank {
    tier: Tier,
    end_ns: u64,
    arrival_ns: u64,
    period_ns: u64,
    owed: u32,
    left: u32,
    unreported: bool,
}

impl VdsRank {
    /// Compares virtual deadlines: whole nanoseconds, then the remainders' cross products.
    fn compare_virtual_deadline(&self, other: &Self) -> Ordering {
        let parts = |rank: &Self| {
            let (owed, left) = (i128::from(rank.owed.max(1)), i128::from(rank.left));
            // Vd = end + T·(k' − m')/m', where k' < m' once a violation is certain.
            let offset = i128::from(rank.period_ns) * (left - owed);
            (i128::from(rank.end_ns) + offset.div_euclid(owed), offset.rem_euclid(owed), owed)
        };
        let (whole, rest, owed) = parts(self);
        let (other_whole, other_rest, other_owed) = parts(other);
        whole.cmp(&other_whole).then_with(|| (rest * other_owed).cmp(&(other_rest * owed)))
    }
}

impl Ord for VdsRank {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = || match self.tier {
            Tier::Owed => self.compare_virtual_deadline(other),
            Tier::Free | Tier::Served => self.end_ns.cmp(&other.end_ns),
        };
        self.tier
            .cmp(&other.tier)
            .then_with(by_time)
            .then_with(|| self.arrival_ns.cmp(&other.arrival_ns))
    }
}

impl PartialOrd for VdsRank {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for VdsRank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for VdsRank {}

impl Rank for VdsRank {
    const EXPIRY: Expiry = Expiry::Apart;

    #[inline]
    fn expiry_ns(&self) -> u64 {
        if self.unreported { 0 } else { self.end_ns }
    }
}

impl VdsState {
    fn restore(&mut self) {
        self.left = self.window.of();
        self.owed = self.window.of() - self.window.lost();
    }

    /// `periods` request periods end, no service in any but perhaps the first. Returns the
    /// violations.
    fn end_periods(&mut self, periods: u64) -> u64 {
        let whole = u64::from(self.window.of());
        if whole == 0 {
            return 0;
        }
        let left = u64::from(self.left);
        // At most k' or y, both u32.
        #[allow(clippy::cast_possible_truncation)]
        if periods < left {
            self.left -= periods as u32;
            return 0;
        }
        let first = u64::from(self.owed > 0);
        self.restore();
        let after = periods - left;
        #[allow(clippy::cast_possible_truncation)]
        {
            self.left -= (after % whole) as u32;
        }
        first + if self.owed > 0 { after / whole } else { 0 }
    }
}

impl Discipline for Vds {
    type State = VdsState;
    type Rank = VdsRank;
    type Stamp = ();

    fn admit(&mut self, contract: &Contract) -> Result<VdsState, ContractError> {
        let mut state = VdsState {
            end_ns: 0,
            period_ns: contract.require_period()?,
            window: contract.window,
            late: contract.late,
            owed: 0,
            left: 0,
            served: false,
            unused: true,
            unreported: false,
        };
        state.restore();
        Ok(state)
    }

    #[inline]
    fn became_head(&mut self, state: &mut VdsState, head: Head) {
        if state.unused || head.arrival_ns >= state.end_ns {
            if state.served {
                state.unreported |= state.end_periods(1) > 0;
            }
            state.unused = false;
            state.served = false;
            state.end_ns = head.arrival_ns.saturating_add(state.period_ns);
        }
    }

    #[inline]
    fn rank(&self, state: &VdsState, head: Head) -> VdsRank {
        let tier = match (state.served, state.owed) {
            (true, _) => Tier::Served,
            (false, 0) => Tier::Free,
            (false, _) => Tier::Owed,
        };
        VdsRank {
            tier,
            end_ns: state.end_ns,
            arrival_ns: head.arrival_ns,
            period_ns: state.period_ns,
            owed: state.owed,
            left: state.left,
            unreported: state.unreported,
        }
    }

    #[inline]
    fn deadline_ns(&self, state: &VdsState) -> Option<u64> {
        Some(state.end_ns)
    }

    fn expired(&mut self, state: &mut VdsState, now_ns: u64) -> Missed {
        if core::mem::replace(&mut state.unreported, false) {
            return Missed { missed: 0, violations: 1, drop_head: false };
        }
        let drops = state.late == Late::Drop;
        let periods = match (state.served, drops) {
            (true, _) | (false, true) => 1,
            (false, false) => (now_ns - state.end_ns) / state.period_ns + 1,
        };
        let violations = state.end_periods(periods);
        state.end_ns = state.end_ns.saturating_add(periods.saturating_mul(state.period_ns));
        let served = core::mem::replace(&mut state.served, false);
        Missed { missed: if served { 0 } else { periods }, violations, drop_head: drops && !served }
    }

    #[inline]
    fn served(&mut self, state: &mut VdsState, _: StreamId, _: Head, _: u64) -> bool {
        if !state.served {
            state.served = true;
            state.owed = state.owed.saturating_sub(1);
        }
        false
    }
}
