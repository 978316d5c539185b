//! DWCS with floating-point window-constraints, for Tables 1 and 2 only.
//!
//! The engine's [`Dwcs`](millstream::Dwcs) compares fractions by integers. The paper measures a
//! scheduler that divides x' by y', on a processor without a floating-point unit. The arithmetic
//! here is either the machine's or that of compiler runtimes for such processors. Streams send late
//! packets; order and updates are otherwise those of `discipline/dwcs.rs`.

use millstream::{
    ByRank, Contract, ContractError, Discipline, Expiry, Head, Late, Missed, Rank, StreamId,
};
use std::cmp::Ordering;
use std::fmt::Debug;
use std::marker::PhantomData;

/// The arithmetic that the scheduler needs.
pub(super) trait Arithmetic: Copy + Debug {
    fn divide(a: f64, b: f64) -> f64;
    fn add(a: f64, b: f64) -> f64;
    fn compare(a: f64, b: f64) -> Ordering;
}

/// The machine's instructions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hardware {}

impl Arithmetic for Hardware {
    #[inline]
    fn divide(a: f64, b: f64) -> f64 {
        a / b
    }

    #[inline]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }

    #[inline]
    fn compare(a: f64, b: f64) -> Ordering {
        a.total_cmp(&b)
    }
}

/// Integer routines of the compiler runtime.
#[derive(Clone, Copy, Debug)]
pub(super) enum Software {}

/// The routines' names are the compilers' convention.
#[allow(unsafe_code)]
mod runtime {
    unsafe extern "C" {
        pub(super) safe fn __divdf3(a: f64, b: f64) -> f64;
        pub(super) safe fn __adddf3(a: f64, b: f64) -> f64;
        /// Negative, zero or positive as a is below, equal to or above b.
        pub(super) safe fn __ledf2(a: f64, b: f64) -> i32;
    }
}

impl Arithmetic for Software {
    #[inline]
    fn divide(a: f64, b: f64) -> f64 {
        runtime::__divdf3(a, b)
    }

    #[inline]
    fn add(a: f64, b: f64) -> f64 {
        runtime::__adddf3(a, b)
    }

    #[inline]
    fn compare(a: f64, b: f64) -> Ordering {
        runtime::__ledf2(a, b).cmp(&0)
    }
}

/// DWCS, earliest deadline first, with the arithmetic `A`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floating<A>(PhantomData<A>);

impl<A> Default for Floating<A> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// A stream's state: deadline, x', y' and their initial values.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    deadline_ns: u64,
    period_ns: u64,
    lost: f64,
    of: f64,
    contract: (f64, f64),
    tag: bool,
}

/// The rank of a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapRank<A> {
    deadline_ns: u64,
    arrival_ns: u64,
    /// x'/y'.
    tolerance: f64,
    lost: f64,
    of: f64,
    arithmetic: PhantomData<A>,
}

impl<A: Arithmetic> Ord for HeapRank<A> {
    fn cmp(&self, other: &Self) -> Ordering {
        let windows = || {
            A::compare(self.tolerance, other.tolerance).then_with(|| {
                if A::compare(self.lost, 0.0) == Ordering::Equal {
                    A::compare(other.of, self.of)
                } else {
                    A::compare(self.lost, other.lost)
                }
            })
        };
        let deadlines = self.deadline_ns.cmp(&other.deadline_ns);
        deadlines.then_with(windows).then_with(|| self.arrival_ns.cmp(&other.arrival_ns))
    }
}

impl<A: Arithmetic> PartialOrd for HeapRank<A> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<A: Arithmetic> PartialEq for HeapRank<A> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<A: Arithmetic> Eq for HeapRank<A> {}

impl<A: Arithmetic> Rank for HeapRank<A> {
    const EXPIRY: Expiry = Expiry::Leads;

    fn expiry_ns(&self) -> u64 {
        self.deadline_ns
    }
}

impl State {
    fn restore(&mut self) {
        (self.lost, self.of) = self.contract;
        self.tag = false;
    }

    fn both_zero<A: Arithmetic>(&self) -> bool {
        A::compare(A::add(self.lost, self.of), 0.0) == Ordering::Equal
    }
}

impl<A: Arithmetic> Discipline for Floating<A> {
    type State = State;
    type Rank = HeapRank<A>;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<State, ContractError> {
        let terms = contract.terms();
        debug_assert_eq!(terms.late, Late::Send);
        let contract = (f64::from(terms.window.lost()), f64::from(terms.window.of()));
        let mut state = State {
            deadline_ns: 0,
            period_ns: terms.period_ns.unwrap_or(1),
            lost: 0.0,
            of: 0.0,
            contract,
            tag: false,
        };
        state.restore();
        Ok(state)
    }

    fn became_head(&mut self, state: &mut State, head: Head) {
        state.deadline_ns = state.deadline_ns.max(head.arrival_ns) + state.period_ns;
    }

    fn rank(&self, state: &State, head: Head) -> HeapRank<A> {
        HeapRank {
            deadline_ns: state.deadline_ns,
            arrival_ns: head.arrival_ns,
            tolerance: A::divide(state.lost, state.of),
            lost: state.lost,
            of: state.of,
            arithmetic: PhantomData,
        }
    }

    fn deadline_ns(&self, state: &State) -> Option<u64> {
        Some(state.deadline_ns)
    }

    fn expired(&mut self, state: &mut State, now_ns: u64) -> Missed {
        let mut missed = Missed { missed: 0, violations: 0, drop_head: false };
        while state.deadline_ns <= now_ns {
            missed.missed += 1;
            state.deadline_ns += state.period_ns;
            if A::compare(state.lost, 0.0) == Ordering::Greater {
                (state.lost, state.of) = (A::add(state.lost, -1.0), A::add(state.of, -1.0));
                if state.both_zero::<A>() {
                    state.restore();
                }
            } else {
                missed.violations += 1;
                state.of = A::add(state.of, 1.0);
                state.tag = true;
            }
        }
        missed
    }

    fn served(&mut self, state: &mut State, _: StreamId, _: Head, _: u64) -> bool {
        if A::compare(state.of, state.lost) == Ordering::Greater {
            state.of = A::add(state.of, -1.0);
        } else if A::compare(state.lost, 0.0) == Ordering::Greater {
            (state.lost, state.of) = (A::add(state.lost, -1.0), A::add(state.of, -1.0));
        }
        if state.tag || state.both_zero::<A>() {
            state.restore();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{DualHeap, Dwcs, EdfFirst, Packet, Scheduler, Structure, Window};

    /// Returns the service order of a run in which streams miss deadlines.
    fn schedule<D: Discipline>(discipline: D) -> Vec<u32>
    where
        DualHeap<D::Rank>: Structure<D::Rank>,
    {
        let mut scheduler = Scheduler::new(discipline, DualHeap::default());
        for (lost, of) in [(1, 2), (3, 4), (1, 8), (0, 1), (2, 3)] {
            let window = Window::new(lost, of).unwrap();
            let contract = Contract::new().period_ns(4).unwrap().window(window);
            let stream = scheduler.add_stream(contract).unwrap();
            for _ in 0..200 {
                scheduler.enqueue(0, stream, Packet::new(1_000)).unwrap();
            }
        }
        (0..900).map(|now| scheduler.decide(now, &mut ()).unwrap().stream.0).collect()
    }

    #[test]
    fn the_schedule_is_that_of_whole_numbers() {
        let exact = schedule(Dwcs::<EdfFirst>::default());
        assert_eq!(schedule(Floating::<Hardware>::default()), exact);
        assert_eq!(schedule(Floating::<Software>::default()), exact);
    }
}
