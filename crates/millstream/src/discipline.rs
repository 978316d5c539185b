//! How streams are ordered, and what changes when one is served or misses a deadline.
//!
//! A [`Discipline`] keeps a small state for each stream. From it and the stream's head-of-line
//! packet it computes a [`Rank`]; equal ranks are ordered by stream number. It sees no queue and no
//! other stream's state. Finding the least rank is the [`Structure`](crate::Structure)'s part.
//!
//! Each module is one discipline, or two that differ in a parameter: state, rank, events, guarantee
//! and catalogue row. [`DISCIPLINES`] lists the rows.
//!
//! Three parts are optional, and each is a trait of its own. [`Discipline::Selection`] names the
//! one that a discipline has:
//!
//! | selection | trait | disciplines |
//! |---|---|---|
//! | [`ByRank`] | – | most |
//! | [`ByBacklog`] | [`RanksByBacklog`] | longest queue first |
//! | [`ByTurn`] | [`TakesTurns`] | DRR, WRR |
//! | [`ByVirtualStart`] | [`VirtualStart`] | WF²Q, WF²Q+ |
//!
//! Where deadlines or priorities tie, the earlier arrival goes first, then the lower stream number.
//! Fair queueing has only the stream number as its tie-break.

pub mod dwcs;
pub mod edf;
pub mod fifo;
mod gps;
pub mod interleaved;
pub mod las;
pub mod lqf;
pub mod pd2;
pub mod round_robin;
pub mod self_clocked;
pub mod static_priority;
pub mod table;
pub mod vds;
pub mod virtual_clock;
pub mod wf2q_plus;
pub mod wfq;
pub mod windowed;

/// Every discipline of the catalogue.
pub static DISCIPLINES: &[DisciplineRow] = &[
    fifo::ROW,
    static_priority::ROW,
    lqf::ROW,
    las::ROW,
    edf::ROW,
    dwcs::ROW,
    vds::ROW,
    pd2::ROW,
    wfq::WFQ,
    wfq::WF2Q,
    wf2q_plus::ROW,
    self_clocked::SCFQ,
    self_clocked::SFQ,
    virtual_clock::ROW,
    round_robin::DRR,
    round_robin::WRR,
    interleaved::ROW,
    table::ROW,
    crate::selector::MINBW,
];

pub use dwcs::{Dwcs, DwcsOptions, EdfFirst, LossFirst, Order, Rules, ZeroWindow};
pub(crate) use dwcs::{DwcsRank, DwcsState};
pub use edf::Edf;
pub use fifo::Fifo;
pub use interleaved::Interleaved;
pub use pd2::{DueTime, Pd2};
pub use round_robin::{Measure, RoundRobin};
pub use self_clocked::{Scfq, SelfClocked, Sfq};
pub use static_priority::StaticPriority;
pub use table::Table;
pub use vds::{Vds, VirtualDeadline};
pub use virtual_clock::VirtualClock;
pub use wf2q_plus::Wf2qPlus;
pub use wfq::{FluidFair, Wf2q, Wfq};
pub use windowed::{Owed, OwedOrder, Windowed, WindowedRank, WindowedState};

use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};
use crate::packet::StreamId;
use crate::virtual_time::Tag;

/// The part of a head-of-line packet that disciplines see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it arrived, ns.
    pub arrival_ns: u64,
    /// Its length, bytes.
    pub bytes: u32,
}

/// How a head became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// It arrived at an empty queue.
    Arrived,
    /// The packet before it left.
    Next,
    /// Its gate, which was closed, opened.
    Opened {
        /// The stream's backlog, the head included.
        waiting: Waiting,
    },
}

/// The backlog of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// What the stream whose turn it is does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its head is served.
    Serve,
    /// Its turn is over and its rank has changed.
    Pass,
}

/// What the stream whose turn it is does.
#[deprecated(since = "0.2.0", note = "renamed to `Turn`")]
pub type Visit = Turn;

/// How a rank's order relates to the time at which its packet becomes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Ranks never expire.
    Never,
    /// The order compares expiry times first.
    Leads,
    /// Expiry times are unrelated to the order.
    Apart,
}

/// An order over the heads of backlogged streams. The least is served; equal ranks are ordered by
/// stream number.
pub trait Rank: Ord + Copy + core::fmt::Debug {
    /// How the order relates to [`expiry_ns`](Self::expiry_ns).
    const EXPIRY: Expiry = Expiry::Never;

    /// Returns the time, ns, from which the head is late and the discipline must be told;
    /// `u64::MAX` if never.
    #[inline]
    fn expiry_ns(&self) -> u64 {
        u64::MAX
    }
}

/// The effect of a passed deadline on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Deadlines missed: request periods that ended while the head waited.
    pub missed: u64,
    /// Misses of a stream whose current window allowed no more losses.
    pub violations: u64,
    /// The head must be dropped.
    pub drop_head: bool,
}

/// A value that a packet carries from its arrival until it is head-of-line: at most a virtual time.
pub trait Stamp: Copy + Default + core::fmt::Debug {
    /// Returns the stamp in the form that all disciplines share.
    fn pack(self) -> Option<Tag>;

    /// Returns the stamp that was packed.
    fn unpack(packed: Option<Tag>) -> Self;
}

impl Stamp for () {
    #[inline]
    fn pack(self) -> Option<Tag> {
        None
    }

    #[inline]
    fn unpack(_: Option<Tag>) {}
}

/// A scheduling discipline.
///
/// [`admit`](Self::admit) is called once for each stream, [`arrived`](Self::arrived) for every
/// packet, and [`became_head`](Self::became_head) when a packet becomes head-of-line. A head is
/// *active* while its gate is open: [`activated`](Self::activated) is called and the head may be
/// served. [`served`](Self::served) or [`expired`](Self::expired) ends that. If no active head
/// follows, [`deactivated`](Self::deactivated) is called. [`rank`](Self::rank) is read after each.
///
/// Most disciplines need few of these; every event has a default that does nothing.
pub trait Discipline: Sized {
    /// A stream's attributes: its contract, changed by services and misses.
    type State: Copy + core::fmt::Debug;
    /// The order.
    type Rank: Rank;
    /// The value that a packet carries from its arrival until it is head-of-line; `()` for most.
    type Stamp: Stamp;
    /// How the stream to serve follows from the ranks.
    type Selection: Selection<Self>;

    /// Returns the state of a new stream. Called once for each stream number, in order from 0.
    ///
    /// # Errors
    /// [`ContractError::Missing`] if the contract lacks an attribute that the discipline needs.
    fn admit(&mut self, contract: &Contract) -> Result<Self::State, ContractError>;

    /// Returns the rank of a stream with an active head.
    fn rank(&self, state: &Self::State, head: Head) -> Self::Rank;

    /// Sets the discipline's clock, ns, which never goes back. Called before every other event.
    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        let _ = clock_ns;
    }

    /// A packet of `bytes` arrived; `active` if its stream has an active head. Returns its stamp.
    #[inline]
    fn arrived(
        &mut self,
        state: &mut Self::State,
        stream: StreamId,
        bytes: u32,
        active: bool,
    ) -> Self::Stamp {
        let _ = (state, stream, bytes, active);
        Self::Stamp::default()
    }

    /// A packet became head-of-line, whether or not its gate is open.
    #[inline]
    fn became_head(&mut self, state: &mut Self::State, head: Head) {
        let _ = (state, head);
    }

    /// The head became active.
    #[inline]
    fn activated(
        &mut self,
        state: &mut Self::State,
        stream: StreamId,
        head: Head,
        stamp: Self::Stamp,
        how: Activation,
    ) {
        let _ = (state, stream, head, stamp, how);
    }

    /// The stream has no active head any more; `backlogged` if packets wait behind a closed gate.
    /// Called again if those packets are dropped and the queue empties.
    #[inline]
    fn deactivated(&mut self, state: &mut Self::State, stream: StreamId, backlogged: bool) {
        let _ = (state, stream, backlogged);
    }

    /// Returns the head's deadline, ns, if the discipline has deadlines.
    #[inline]
    fn deadline_ns(&self, state: &Self::State) -> Option<u64> {
        let _ = state;
        None
    }

    /// `now_ns` reached the rank's expiry. Afterwards the rank expires later than `now_ns`, or
    /// `drop_head` is set.
    fn expired(&mut self, state: &mut Self::State, now_ns: u64) -> Missed {
        let _ = (state, now_ns);
        Missed { missed: 0, violations: 0, drop_head: false }
    }

    /// The head's service starts at `now_ns`. Returns whether that is a miss which
    /// [`expired`](Self::expired) did not report.
    #[inline]
    fn served(
        &mut self,
        state: &mut Self::State,
        stream: StreamId,
        head: Head,
        now_ns: u64,
    ) -> bool {
        let _ = (state, stream, head, now_ns);
        false
    }

    /// A decision found every queue empty: the busy period is over.
    #[inline]
    fn idle(&mut self) {}

    /// The head's length differs by `extra_bytes` from the one it was activated with. A class's
    /// head is an estimate until the class has chosen it.
    #[inline]
    fn resized(&mut self, state: &mut Self::State, extra_bytes: i64) {
        let _ = (state, extra_bytes);
    }

    /// The packet served last cost `extra_bytes` more than its length (less, if negative). Returns
    /// whether the discipline accounts for that.
    #[inline]
    fn charge(&mut self, state: &mut Self::State, head: Option<Head>, extra_bytes: i64) -> bool {
        let _ = (state, head, extra_bytes);
        false
    }
}

/// A discipline whose ranks depend on backlogs. The stream is reinserted after each change. Its
/// ranks never expire.
pub trait RanksByBacklog: Discipline {
    /// The backlog of a stream changed to `waiting`, the head included. When a packet arrives or is
    /// served, this is called before the stream's next head becomes head-of-line.
    fn backlog_changed(&mut self, state: &mut Self::State, waiting: Waiting);
}

/// A discipline whose streams take turns: the stream of least rank is served or passes.
pub trait TakesTurns: Discipline {
    /// The turn comes to a stream. Returns whether it is served.
    fn turn(&mut self, state: &mut Self::State, head: Head) -> Turn;

    /// Returns how many more turns the stream needs until its head is served, at least 1.
    fn turns_needed(&self, state: &Self::State, head: Head) -> u64;

    /// Changes the state as `turns` turns that pass do.
    fn skip_turns(&mut self, state: &mut Self::State, turns: u64);
}

/// A discipline whose heads are not served before their virtual start.
pub trait VirtualStart: Discipline {
    /// Heads wait for their start. A family of disciplines may turn that off for one of them.
    const REGULATED: bool = true;

    /// Returns the virtual time from which the head may be served.
    fn virtual_start(&self, state: &Self::State) -> Tag;

    /// Returns the virtual time that has been reached.
    fn virtual_time(&self) -> Tag;

    /// No active head has reached its start; the least start is `start`.
    #[inline]
    fn leap(&mut self, start: Tag) {
        let _ = start;
    }
}

/// How the stream to serve follows from the ranks: [`ByRank`], [`ByBacklog`], [`ByTurn`] or
/// [`ByVirtualStart`].
///
/// A [`Selector`](crate::selector::Selector) calls the optional parts of a discipline through this
/// trait, and compiles out the parts that the discipline does not have.
pub trait Selection<D: Discipline> {
    /// The discipline is a [`RanksByBacklog`].
    const RANKS_BY_BACKLOG: bool = false;

    /// The discipline is a [`TakesTurns`].
    const TAKES_TURNS: bool = false;

    /// The discipline is a [`VirtualStart`] whose heads wait.
    const REGULATED: bool = false;

    /// See [`RanksByBacklog::backlog_changed`].
    #[inline]
    fn backlog_changed(discipline: &mut D, state: &mut D::State, waiting: Waiting) {
        let _ = (discipline, state, waiting);
    }

    /// See [`TakesTurns::turn`].
    #[inline]
    fn turn(discipline: &mut D, state: &mut D::State, head: Head) -> Turn {
        let _ = (discipline, state, head);
        Turn::Serve
    }

    /// See [`TakesTurns::turns_needed`].
    #[inline]
    fn turns_needed(discipline: &D, state: &D::State, head: Head) -> u64 {
        let _ = (discipline, state, head);
        1
    }

    /// See [`TakesTurns::skip_turns`].
    #[inline]
    fn skip_turns(discipline: &mut D, state: &mut D::State, turns: u64) {
        let _ = (discipline, state, turns);
    }

    /// See [`VirtualStart::virtual_start`].
    #[inline]
    fn virtual_start(discipline: &D, state: &D::State) -> Tag {
        let _ = (discipline, state);
        Tag::default()
    }

    /// See [`VirtualStart::virtual_time`].
    #[inline]
    fn virtual_time(discipline: &D) -> Tag {
        let _ = discipline;
        Tag::default()
    }

    /// See [`VirtualStart::leap`].
    #[inline]
    fn leap(discipline: &mut D, start: Tag) {
        let _ = (discipline, start);
    }
}

/// The stream of least rank is served.
#[derive(Clone, Copy, Debug)]
pub enum ByRank {}

/// The stream of least rank is served, and ranks change with backlogs.
#[derive(Clone, Copy, Debug)]
pub enum ByBacklog {}

/// The stream of least rank has the turn.
#[derive(Clone, Copy, Debug)]
pub enum ByTurn {}

/// The stream of least rank among those that have started is served.
#[derive(Clone, Copy, Debug)]
pub enum ByVirtualStart {}

impl<D: Discipline> Selection<D> for ByRank {}

impl<D: RanksByBacklog> Selection<D> for ByBacklog {
    const RANKS_BY_BACKLOG: bool = true;

    #[inline]
    fn backlog_changed(discipline: &mut D, state: &mut D::State, waiting: Waiting) {
        discipline.backlog_changed(state, waiting);
    }
}

impl<D: TakesTurns> Selection<D> for ByTurn {
    const TAKES_TURNS: bool = true;

    #[inline]
    fn turn(discipline: &mut D, state: &mut D::State, head: Head) -> Turn {
        discipline.turn(state, head)
    }

    #[inline]
    fn turns_needed(discipline: &D, state: &D::State, head: Head) -> u64 {
        discipline.turns_needed(state, head)
    }

    #[inline]
    fn skip_turns(discipline: &mut D, state: &mut D::State, turns: u64) {
        discipline.skip_turns(state, turns);
    }
}

impl<D: VirtualStart> Selection<D> for ByVirtualStart {
    const REGULATED: bool = D::REGULATED;

    #[inline]
    fn virtual_start(discipline: &D, state: &D::State) -> Tag {
        discipline.virtual_start(state)
    }

    #[inline]
    fn virtual_time(discipline: &D) -> Tag {
        discipline.virtual_time()
    }

    #[inline]
    fn leap(discipline: &mut D, start: Tag) {
        discipline.leap(start);
    }
}
