//! Disciplines: the order of streams, and the state changes at services and missed deadlines.
//!
//! A [`Discipline`] keeps a small state for each stream. From it and the stream's head-of-line
//! packet it computes a [`Rank`]; equal ranks are ordered by stream number. It sees no queue and no
//! other stream's state. A [`Structure`](crate::Structure) finds the least rank.
//!
//! Each module is one discipline, or two that differ in a parameter: state, rank, events, guarantee
//! and catalogue row. [`DISCIPLINES`] lists the rows.
//!
//! Three extensions are optional, and each is a separate trait. [`Discipline::Selection`] names the
//! one that a discipline implements:
//!
//! | selection | trait | disciplines |
//! |---|---|---|
//! | [`ByRank`] | – | most |
//! | [`ByBacklog`] | [`RanksByBacklog`] | longest queue first |
//! | [`ByTurn`] | [`TakesTurns`] | DRR, WRR |
//! | [`ByVirtualStart`] | [`VirtualStart`] | WF²Q, WF²Q+ |
//!
//! Where deadlines or priorities tie, the earlier arrival is served first, then the lower stream
//! number. Fair queueing breaks ties by stream number only.

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
    /// The arrival time, ns.
    pub arrival_ns: u64,
    /// The length, bytes.
    pub bytes: u32,
}

/// The cause of a head's activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The head arrived at an empty queue.
    Arrived,
    /// The head's predecessor in the queue left.
    Next,
    /// The stream's gate opened.
    Opened {
        /// The stream's backlog, the head included.
        waiting: Waiting,
    },
}

/// The backlog of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The number of packets.
    pub packets: u32,
    /// The sum of the packets' lengths, bytes.
    pub bytes: u64,
    /// The sum of what the link's framing adds to the packets, bytes; 0 without framing.
    pub framing_bytes: u64,
}

/// The outcome of a stream's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The stream's head is served.
    Serve,
    /// The turn ends without a service, and the stream's rank has changed.
    Pass,
}

/// The old name of [`Turn`].
#[deprecated(since = "0.2.0", note = "renamed to `Turn`")]
pub type Visit = Turn;

/// How a rank's order relates to the time at which its packet becomes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Ranks never expire.
    Never,
    /// The order compares expiry times first.
    Leads,
    /// The order does not depend on expiry times.
    Apart,
}

/// An order over the heads of backlogged streams. The least is served; equal ranks are ordered by
/// stream number.
pub trait Rank: Ord + Copy + core::fmt::Debug {
    /// How the order relates to [`expiry_ns`](Self::expiry_ns).
    const EXPIRY: Expiry = Expiry::Never;

    /// Returns the time, ns, from which the head is late and [`Discipline::expired`] must be
    /// called; `u64::MAX` if never.
    #[inline]
    fn expiry_ns(&self) -> u64 {
        u64::MAX
    }
}

/// The effect of a passed deadline on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Missed deadlines: request periods that ended while the head waited.
    pub missed: u64,
    /// Misses of a stream whose current window allowed no more losses.
    pub violations: u64,
    /// `true` if the head must be dropped.
    pub drop_head: bool,
}

/// A value that a packet carries from its arrival until it is head-of-line: at most a virtual time.
pub trait Stamp: Copy + Default + core::fmt::Debug {
    /// Converts the stamp to the representation that all disciplines share.
    fn pack(self) -> Option<Tag>;

    /// Converts back to the stamp.
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
/// follows, [`deactivated`](Self::deactivated) is called. [`rank`](Self::rank) is called after each
/// event.
///
/// Most disciplines need few of these; every event has a default that does nothing.
pub trait Discipline: Sized {
    /// A stream's attributes: its contract, changed by services and misses.
    type State: Copy + core::fmt::Debug;
    /// The order.
    type Rank: Rank;
    /// The value that a packet carries from its arrival until it is head-of-line; `()` for most.
    type Stamp: Stamp;
    /// The rule that selects the stream to serve from the ranks.
    type Selection: Selection<Self>;

    /// Returns the state of a new stream. Called once for each stream number, in order from 0.
    ///
    /// # Errors
    /// [`ContractError::Missing`] if the contract lacks an attribute that the discipline needs.
    fn admit(&mut self, contract: &Contract) -> Result<Self::State, ContractError>;

    /// Allocates memory for the streams that were admitted, so that no later event allocates.
    fn reserve(&mut self) {}

    /// Returns the rank of a stream with an active head.
    fn rank(&self, state: &Self::State, head: Head) -> Self::Rank;

    /// Advances the discipline's clock to `clock_ns`. Called before every other event.
    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        let _ = clock_ns;
    }

    /// Called when a packet of `bytes` arrives; `active` if its stream has an active head. Returns
    /// its stamp. If stamps have no size, it need not be called for a packet behind others.
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

    /// Called when a packet becomes head-of-line, whether or not its gate is open.
    #[inline]
    fn became_head(&mut self, state: &mut Self::State, head: Head) {
        let _ = (state, head);
    }

    /// Called when the head becomes active.
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

    /// Called when the stream has no active head any more; `backlogged` if packets wait behind a
    /// closed gate. Called again if those packets are dropped and the queue empties.
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

    /// Called when `now_ns` has reached the rank's expiry. Afterwards the rank expires later than
    /// `now_ns`, or `drop_head` is set.
    fn expired(&mut self, state: &mut Self::State, now_ns: u64) -> Missed {
        let _ = (state, now_ns);
        Missed { missed: 0, violations: 0, drop_head: false }
    }

    /// Called when the head's service starts at `now_ns`. Returns whether that is a miss which
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

    /// Called when a decision found every queue empty: the busy period is over.
    #[inline]
    fn idle(&mut self) {}

    /// Called when the head has `bytes` bytes and not `estimate`, its length at activation. A
    /// class's head is an estimate until the class has chosen it.
    #[inline]
    fn resized(&mut self, state: &mut Self::State, estimate: u32, bytes: u32) {
        let _ = (state, estimate, bytes);
    }

    /// Charges the packet served last with `extra_bytes` beyond its length; a negative value is a
    /// refund. Returns whether the discipline supports that.
    #[inline]
    fn charge(&mut self, state: &mut Self::State, head: Option<Head>, extra_bytes: i64) -> bool {
        let _ = (state, head, extra_bytes);
        false
    }
}

/// A discipline whose ranks depend on backlogs. The stream is reinserted after each change. Its
/// ranks never expire.
pub trait RanksByBacklog: Discipline {
    /// Called when the backlog of a stream changed to `waiting`, the head included. When a packet
    /// arrives or is served, this is called before the stream's next head becomes head-of-line.
    fn backlog_changed(&mut self, state: &mut Self::State, waiting: Waiting);
}

/// A discipline whose streams take turns: the stream of least rank is served or passes.
pub trait TakesTurns: Discipline {
    /// Called when a stream's turn begins or continues. Returns whether the stream is served.
    fn turn(&mut self, state: &mut Self::State, head: Head) -> Turn;

    /// Returns the number of turns until the stream's head is served, at least 1.
    fn turns_needed(&self, state: &Self::State, head: Head) -> u64;

    /// Changes the state as `turns` turns that return [`Turn::Pass`] would.
    fn skip_turns(&mut self, state: &mut Self::State, turns: u64);
}

/// A discipline whose heads are not served before their virtual start.
pub trait VirtualStart: Discipline {
    /// `true` if heads wait for their virtual start. A discipline with two variants may disable
    /// this for one of them.
    const REGULATED: bool = true;

    /// Returns the virtual time from which the head may be served.
    fn virtual_start(&self, state: &Self::State) -> Tag;

    /// Returns the current virtual time.
    fn virtual_time(&self) -> Tag;

    /// Called when no active head has reached its virtual start; `start` is the least of them.
    #[inline]
    fn leap(&mut self, start: Tag) {
        let _ = start;
    }
}

/// The rule that selects the stream to serve from the ranks: [`ByRank`], [`ByBacklog`], [`ByTurn`]
/// or [`ByVirtualStart`].
///
/// A [`Selector`](crate::selector::Selector) calls the optional parts of a discipline through this
/// trait, and compiles out the parts that the discipline does not have.
pub trait Selection<D: Discipline> {
    /// `true` if the discipline implements [`RanksByBacklog`].
    const RANKS_BY_BACKLOG: bool = false;

    /// `true` if the discipline implements [`TakesTurns`].
    const TAKES_TURNS: bool = false;

    /// `true` if the discipline implements [`VirtualStart`] and its heads wait for their start.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;

    /// Returns the ranks of two heads of `bytes` bytes; the first was estimated to have `estimate`.
    fn ranks<D: Discipline>(mut discipline: D, estimate: u32, bytes: u32) -> [D::Rank; 2] {
        let stream = StreamId(0);
        let mut state = discipline.admit(&Contract::new().weight(3).unwrap()).unwrap();
        discipline.advance(5);
        let mut rank = |state: &mut D::State, estimate: u32, how| {
            let stamp = discipline.arrived(state, stream, bytes, true);
            let head = Head { arrival_ns: 5, bytes: estimate };
            discipline.became_head(state, head);
            discipline.activated(state, stream, head, stamp, how);
            discipline.resized(state, estimate, bytes);
            let head = Head { bytes, ..head };
            let rank = discipline.rank(state, head);
            discipline.served(state, stream, head, 5);
            rank
        };
        [rank(&mut state, estimate, Activation::Arrived), rank(&mut state, bytes, Activation::Next)]
    }

    #[test]
    fn a_corrected_length_counts_as_if_it_had_been_right() {
        fn check<D: Discipline>(make: impl Fn() -> D) {
            let expected = ranks(make(), 1_000, 1_000);
            for estimate in [10, 5_000] {
                assert_eq!(ranks(make(), estimate, 1_000), expected, "{estimate}");
            }
        }
        let link = Link::default();
        check(|| Scfq::new(link, 0));
        check(|| Sfq::new(link, 0));
        check(|| VirtualClock::new(link, 0));
        check(|| Wf2qPlus::new(link, 0));
        check(|| Wfq::new(link, 0));
        check(|| Wf2q::new(link, 0));
    }
}
