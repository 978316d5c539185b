//! Disciplines that serve a stream in m = y − x of every y request periods, once in each.
//!
//! m' and k' are the remaining services and periods of the current window.
//!
//! ```text
//! served:       m' -= 1, done for this period
//! period ends:  k' -= 1; at k' = 0: a violation if m' > 0; then m'/k' = (y − x)/y
//! ```
//!
//! [`OwedOrder`] orders the streams that are owed a service. They precede the streams that are owed
//! none in this window. The streams already served in their period come last. Within both groups,
//! the order is by the end of the period. Services of the last two groups keep the link busy and do
//! not count. A period in which a stream has no packet is not a request: the next period begins
//! with the next arrival.

use core::cmp::Ordering;
use core::marker::PhantomData;

use super::{ByRank, Discipline, Expiry, Head, Missed, Rank};
use crate::contract::{Contract, ContractError, Late, Window};
use crate::packet::StreamId;

/// An order of streams that are owed a service; the least is first.
pub trait OwedOrder: Copy + Ord + core::fmt::Debug + Send {
    /// Returns the rank of a stream that is owed a service in its current period.
    fn of(owed: &Owed) -> Self;
}

/// The attributes of a stream that is owed a service.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// The end of the current request period, ns.
    pub end_ns: u64,
    /// T, ns.
    pub period_ns: u64,
    /// y − x of y.
    pub window: Window,
    /// m', at least 1.
    pub services: u32,
    /// k', the current period included.
    pub periods: u32,
}

/// A discipline of windows that orders owed services by `O`.
#[derive(Clone, Copy, Debug)]
pub struct Windowed<O>(PhantomData<O>);

impl<O> Default for Windowed<O> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// A stream's state under [`Windowed`].
#[derive(Clone, Copy, Debug)]
pub struct WindowedState {
    /// The end of the current request period.
    end_ns: u64,
    period_ns: u64,
    window: Window,
    late: Late,
    /// m'.
    owed: u32,
    /// k'.
    left: u32,
    /// `true` if the stream was served in the current period.
    served: bool,
    /// `true` until the first packet arrives.
    unused: bool,
    /// `true` if a violation is not yet reported: its window ended while the queue was empty.
    unreported: bool,
}

/// The group of a stream: the first criterion of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// A service is owed in this period.
    Owed,
    /// None is owed in this window.
    Free,
    /// The stream was served in this period.
    Served,
}

/// A backlogged stream's rank.
#[derive(Clone, Copy, Debug)]
pub struct WindowedRank<O> {
    tier: Tier,
    /// The rank among streams of [`Tier::Owed`].
    order: Option<O>,
    end_ns: u64,
    arrival_ns: u64,
    unreported: bool,
}

impl<O: OwedOrder> Ord for WindowedRank<O> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = || match (&self.order, &other.order) {
            (Some(own), Some(theirs)) => own.cmp(theirs),
            _ => self.end_ns.cmp(&other.end_ns),
        };
        self.tier
            .cmp(&other.tier)
            .then_with(by_time)
            .then_with(|| self.arrival_ns.cmp(&other.arrival_ns))
    }
}

impl<O: OwedOrder> PartialOrd for WindowedRank<O> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: OwedOrder> PartialEq for WindowedRank<O> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<O: OwedOrder> Eq for WindowedRank<O> {}

impl<O: OwedOrder> Rank for WindowedRank<O> {
    const EXPIRY: Expiry = Expiry::Apart;

    #[inline]
    fn expiry_ns(&self) -> u64 {
        if self.unreported { 0 } else { self.end_ns }
    }
}

impl WindowedState {
    fn restore(&mut self) {
        self.left = self.window.of();
        self.owed = self.window.of() - self.window.lost();
    }

    /// Ends `periods` request periods. Only the first may have had a service. Returns the number of
    /// violations.
    fn end_periods(&mut self, periods: u64) -> u64 {
        let whole = u64::from(self.window.of());
        if whole == 0 {
            return 0;
        }
        let left = u64::from(self.left);
        // The value is at most k' or y, both u32.
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

impl<O: OwedOrder> Discipline for Windowed<O> {
    type State = WindowedState;
    type Rank = WindowedRank<O>;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<WindowedState, ContractError> {
        let mut state = WindowedState {
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
    fn became_head(&mut self, state: &mut WindowedState, head: Head) {
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
    fn rank(&self, state: &WindowedState, head: Head) -> WindowedRank<O> {
        let tier = match (state.served, state.owed) {
            (true, _) => Tier::Served,
            (false, 0) => Tier::Free,
            (false, _) => Tier::Owed,
        };
        let owed = || Owed {
            end_ns: state.end_ns,
            period_ns: state.period_ns,
            window: state.window,
            services: state.owed,
            periods: state.left,
        };
        WindowedRank {
            tier,
            order: (tier == Tier::Owed).then(|| O::of(&owed())),
            end_ns: state.end_ns,
            arrival_ns: head.arrival_ns,
            unreported: state.unreported,
        }
    }

    #[inline]
    fn deadline_ns(&self, state: &WindowedState) -> Option<u64> {
        Some(state.end_ns)
    }

    fn expired(&mut self, state: &mut WindowedState, now_ns: u64) -> Missed {
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
    fn served(&mut self, state: &mut WindowedState, _: StreamId, _: Head, _: u64) -> bool {
        if !state.served {
            state.served = true;
            state.owed = state.owed.saturating_sub(1);
        }
        false
    }
}
