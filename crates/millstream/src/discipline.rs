//! How streams are ordered, and what changes when one is served or misses.
//!
//! A [`Discipline`] keeps a small state for each stream and turns it, with the stream's
//! head-of-line packet, into a [`Rank`]: an order in which the lowest stream number breaks
//! ties. It never sees a queue, another stream's state, or how the least rank is found; that is
//! the [`Structure`](crate::Structure)'s part.
//!
//! | discipline | order | source |
//! |---|---|---|
//! | [`Fifo`] | arrival | – |
//! | [`StaticPriority`] | priority, arrival | – |
//! | [`Edf`] | deadline, arrival | Liu and Layland 1973 |
//! | [`Dwcs`] | deadline and window-constraint | ShareStreams Table 1; West and Schwan 1999 |
//! | [`Vds`] | virtual deadline | Zhang, West and Qi 2004 |
//! | [`Pd2`] | due time of a Pfair task | Anderson and Srinivasan 2001 |
//! | [`Wfq`] | finish tag by the fluid clock | Demers, Keshav, Shenker 1989; Parekh 1993 |
//! | [`Wf2q`] | the same among heads that have started in the fluid | Bennett and Zhang 1996 |
//! | [`Wf2qPlus`] | the same with a simpler clock | Bennett and Zhang 1997; Router paper |
//! | [`Scfq`], [`Sfq`] | finish, start tag by self-clocking | Golestani 1994; Goyal et al. 1996 |
//! | [`VirtualClock`] | finish tag by real time | Zhang 1990 |
//! | [`RoundRobin`] | turns: DRR by bytes, WRR by packets | Shreedhar and Varghese 1995 |
//! | [`Interleaved`] | turns, one packet each | Hahne 1986 |
//! | [`Table`] | a table of turns | Advanced Switching (MinBW paper) |
//!
//! Orders end with the earlier arrival where deadlines or priorities tie, then with the lower
//! stream number; fair queueing has only the latter.

pub mod dwcs;
pub mod edf;
pub mod fifo;
mod gps;
pub mod interleaved;
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

/// What a discipline may know of a head-of-line packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it arrived, ns.
    pub arrival_ns: u64,
    /// Its length, bytes.
    pub bytes: u32,
}

/// How a head became one that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// It arrived at an empty queue.
    Arrived,
    /// The packet before it left.
    Next,
    /// It waited at a closed gate, which opened.
    Opened {
        /// What waits in the stream's queue, the head included.
        waiting: Waiting,
    },
}

/// What waits in one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// What a discipline that visits streams in turn does with the one it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Its head is served.
    Serve,
    /// Its turn is over; its rank has changed.
    Pass,
}

/// How a rank's order relates to the time at which its packet becomes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Ranks never expire.
    Never,
    /// Ranks compare by expiry time first: whoever expires first ranks first.
    Leads,
    /// Ranks expire at times unrelated to their order.
    Apart,
}

/// An order over the heads of backlogged streams; the least is served, among equals that of the
/// lowest stream number.
pub trait Rank: Ord + Copy + core::fmt::Debug {
    /// How the order relates to [`expiry_ns`](Self::expiry_ns).
    const EXPIRY: Expiry = Expiry::Never;

    /// From when on the head counts as late and the discipline must be told, ns;
    /// `u64::MAX` if never.
    #[inline]
    fn expiry_ns(&self) -> u64 {
        u64::MAX
    }
}

/// What a passed deadline did to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Deadlines missed: request periods that ended with the head still waiting.
    pub missed: u64,
    /// Those of them that hit a stream whose current window allowed no more losses.
    pub violations: u64,
    /// The head is to be dropped.
    pub drop_head: bool,
}

/// What a packet carries from its arrival until it is head-of-line: at most a virtual time.
pub trait Stamp: Copy + Default + core::fmt::Debug {
    /// The stamp as every discipline's may be kept.
    fn pack(self) -> Option<Tag>;

    /// The stamp that was packed.
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
/// For one stream the calls are [`admit`](Self::admit) once; [`arrived`](Self::arrived) for every
/// packet; [`became_head`](Self::became_head) when a packet becomes head-of-line. A head is *active*
/// while its gate is open: then it was [`activated`](Self::activated) and may be chosen.
/// [`served`](Self::served) or [`expired`](Self::expired) ends it; if no active head follows, the
/// stream is [`deactivated`](Self::deactivated). [`rank`](Self::rank) is asked after each.
///
/// Most disciplines need few of these; those that do nothing have defaults.
pub trait Discipline {
    /// A stream's attributes: its contract and what service and misses made of it.
    type State: Copy + core::fmt::Debug;
    /// The order.
    type Rank: Rank;
    /// What a packet carries from its arrival until it is head-of-line; `()` for most.
    type Stamp: Stamp;

    /// Heads wait for their virtual start: see [`start`](Self::start).
    const REGULATED: bool = false;

    /// The stream of least rank is visited before it is served: see [`visit`](Self::visit).
    const VISITS: bool = false;

    /// The state of a new stream. Called once for each number, in order from 0.
    ///
    /// # Errors
    /// [`ContractError::Missing`] if the contract lacks an attribute that the discipline needs.
    fn admit(&mut self, contract: &Contract) -> Result<Self::State, ContractError>;

    /// Where a stream with an active head stands.
    fn rank(&self, state: &Self::State, head: Head) -> Self::Rank;

    /// Time passes: the discipline's clock, ns, which never goes back. Called before every event
    /// that follows.
    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        let _ = clock_ns;
    }

    /// A packet of `bytes` arrived; `active` if its stream's head may be chosen.
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

    /// The head may be chosen from now on.
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
    #[inline]
    fn deactivated(&mut self, state: &mut Self::State, stream: StreamId, backlogged: bool) {
        let _ = (state, stream, backlogged);
    }

    /// The head's deadline, ns, if the discipline has deadlines.
    #[inline]
    fn deadline_ns(&self, state: &Self::State) -> Option<u64> {
        let _ = state;
        None
    }

    /// `now_ns` has reached the rank's expiry. Afterwards either the rank expires later than
    /// `now_ns`, or `drop_head` is set.
    fn expired(&mut self, state: &mut Self::State, now_ns: u64) -> Missed {
        let _ = (state, now_ns);
        Missed { missed: 0, violations: 0, drop_head: false }
    }

    /// The head's service starts at `now_ns`. Returns whether that is late without having been
    /// reported by [`expired`](Self::expired).
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

    /// From which virtual time on the head may be chosen, if [`REGULATED`](Self::REGULATED).
    #[inline]
    fn start(&self, state: &Self::State) -> Tag {
        let _ = state;
        Tag::default()
    }

    /// The virtual time that [`start`](Self::start) is compared with.
    #[inline]
    fn reached(&self) -> Tag {
        Tag::default()
    }

    /// No active head has reached its start; the least start is `start`.
    #[inline]
    fn leap(&mut self, start: Tag) {
        let _ = start;
    }

    /// The stream of least rank is looked at, if the discipline [`VISITS`](Self::VISITS).
    #[inline]
    fn visit(&mut self, state: &mut Self::State, head: Head) -> Visit {
        let _ = (state, head);
        Visit::Serve
    }

    /// How many more visits the stream needs until its head is served, at least 1.
    #[inline]
    fn visits_needed(&self, state: &Self::State, head: Head) -> u64 {
        let _ = (state, head);
        1
    }

    /// Does as if `visits` visits had passed.
    #[inline]
    fn skip_visits(&mut self, state: &mut Self::State, visits: u64) {
        let _ = (state, visits);
    }

    /// The head turns out to have another length than it was activated with: a class's head is
    /// known only when the class has chosen it.
    #[inline]
    fn resized(&mut self, state: &mut Self::State, extra_bytes: i64) {
        let _ = (state, extra_bytes);
    }

    /// The packet last served cost `extra_bytes` more than its length (or less, if negative), which
    /// is known only now. Returns whether the discipline can take that into account.
    #[inline]
    fn charge(&mut self, state: &mut Self::State, head: Option<Head>, extra_bytes: i64) -> bool {
        let _ = (state, head, extra_bytes);
        false
    }
}
