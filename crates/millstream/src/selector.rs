//! Whose head goes next, with no queues in sight.
//!
//! A selector is told when a stream gets a head, is asked for a winner, and is told what follows.
//! Where packets wait is behind [`Backlog`]: the queues of a [`Scheduler`](crate::Scheduler), the
//! children of a class in a tree, or frames in somebody else's memory.
//!
//! | selector | what |
//! |---|---|
//! | [`Selector`] | any discipline over any structure that can hold it |
//! | [`HilqExact`] | DWCS, earliest deadline first, as fast as it can be |
//! | [`ManagedFirst`] | management channels before the streams of another selector: MinBW |

mod hilq_exact;
mod joined;
mod managed;

pub use hilq_exact::HilqExact;
pub use joined::Selector;
pub(crate) use managed::MINBW;
pub use managed::{ManagedFirst, MinBwAlgorithm};

use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Head, Stamp, Waiting};
use crate::packet::{Departure, StreamId};

/// The last time at which deadlines pass: one at the end of time, where sums stop, never does.
const LAST_NS: u64 = u64::MAX - 1;

/// Is told what happens to packets that are not sent, while a decision is made.
pub trait Observer {
    /// Deadlines of `stream` passed, or a packet is sent late. At one instant streams come in any
    /// order.
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        let _ = (stream, now_ns, missed, violations);
    }

    /// A packet was dropped because its deadline passed.
    fn dropped(&mut self, departure: &Departure) {
        let _ = departure;
    }
}

/// Nobody listens.
impl Observer for () {}

/// A packet that became head-of-line.
#[derive(Clone, Copy, Debug)]
pub struct NewHead<P> {
    /// It.
    pub head: Head,
    /// What it was stamped with when it arrived.
    pub stamp: P,
    /// Its gate is open.
    pub open: bool,
}

/// Where the selector's streams keep their packets.
pub trait Backlog<P> {
    /// Drops the head-of-line packet of `stream` and returns the next head.
    fn drop_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<P>>;

    /// The head of `stream` is likely to leave before long: what is known of its packets may be
    /// fetched.
    #[inline]
    fn soon(&self, stream: StreamId) {
        let _ = stream;
    }

    /// The same, shortly.
    #[inline]
    fn next(&self, stream: StreamId) {
        let _ = stream;
    }
}

/// Finds whose head goes next and keeps the streams' attributes.
///
/// Time never goes backwards, and [`advance`](Self::advance) is called before every event.
/// Methods panic on a stream that was not added.
pub trait Select {
    /// What a packet carries from its arrival until it is head-of-line.
    type Stamp: Stamp;

    /// Where the clock goes depends on when it is looked at, so it is to be at every event.
    const LEAPS: bool = false;

    /// [`backlog_changed`](Self::backlog_changed) must be called.
    const TRACKS_BACKLOG: bool = false;

    /// Adds a stream; its number is the count of streams before it.
    ///
    /// # Errors
    /// If the contract lacks an attribute that the discipline needs, or there are 2³² − 1 streams.
    fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError>;

    /// How many streams there are.
    fn streams(&self) -> usize;

    /// Whether late heads are charged.
    fn has_deadlines(&self) -> bool;

    /// The discipline's clock reaches `clock_ns`.
    fn advance(&mut self, clock_ns: u64);

    /// Every queue is empty at a decision.
    fn idle(&mut self);

    /// Whether any stream has a head that may be chosen.
    fn any_active(&self) -> bool;

    /// Whether `stream` has a head that may be chosen.
    fn active(&self, stream: StreamId) -> bool;

    /// The head of a backlogged stream.
    fn head(&self, stream: StreamId) -> Option<Head>;

    /// A packet arrived; `active` if its stream's head may be chosen. Returns its stamp.
    fn arrived(&mut self, stream: StreamId, bytes: u32, active: bool) -> Self::Stamp;

    /// `stream`, idle until now, got a head-of-line packet.
    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<Self::Stamp>);

    /// The backlog of `stream` changed to `waiting`: a packet arrived, and the stream is not yet
    /// backlogged or has another head, or a packet left, and its successor is not yet head-of-line.
    /// Called only if [`TRACKS_BACKLOG`](Self::TRACKS_BACKLOG).
    #[inline]
    fn backlog_changed(&mut self, stream: StreamId, waiting: Waiting) {
        let _ = (stream, waiting);
    }

    /// The gate of a backlogged stream opens; what waits there is told for `how`.
    fn open(&mut self, stream: StreamId, how: Activation);

    /// What limits `stream` has changed. Whether its gate opens or closes is told next.
    #[inline]
    fn limits_changed(&mut self, stream: StreamId) {
        let _ = stream;
    }

    /// The gate of `stream` closes.
    fn close(&mut self, stream: StreamId);

    /// Charges every deadline that has passed; drops are made in stream order.
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<Self::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    );

    /// Charges every deadline that has passed, then finds the first stream.
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<Self::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId>;

    /// The deadline of the stream's head, ns.
    fn deadline_ns(&self, stream: StreamId) -> Option<u64>;

    /// The head of `stream`, which is about to be served, has `bytes` rather than what was said.
    fn resize(&mut self, stream: StreamId, bytes: u32);

    /// The head of `stream` starts to be served. Returns whether that is a miss. A call of
    /// [`head_departed`](Self::head_departed) follows.
    fn served(&mut self, stream: StreamId, now_ns: u64) -> bool;

    /// The head of `stream` departed; `next` is the one after it.
    fn head_departed(&mut self, stream: StreamId, next: Option<NewHead<Self::Stamp>>);

    /// The head of `stream` departed; `next` is the one after it.
    #[deprecated(since = "0.2.0", note = "renamed to `head_departed`")]
    fn follow(&mut self, stream: StreamId, next: Option<NewHead<Self::Stamp>>) {
        self.head_departed(stream, next);
    }

    /// Whether `stream`, which was just served, has the only active head and so wins every further
    /// decision at this instant.
    #[inline]
    fn is_alone(&self, stream: StreamId) -> bool {
        let _ = stream;
        false
    }

    /// The head of a stream that is [alone](Self::is_alone) is served and departs; `next`, which is
    /// active, follows. Returns whether that is a miss. A call of [`reinsert`](Self::reinsert)
    /// ends a sequence of these.
    #[inline]
    fn serve_alone(&mut self, stream: StreamId, now_ns: u64, next: NewHead<Self::Stamp>) -> bool {
        let late = self.served(stream, now_ns);
        self.head_departed(stream, Some(next));
        late
    }

    /// Gives a stream that was served alone its place among the other streams.
    #[inline]
    fn reinsert(&mut self, stream: StreamId) {
        let _ = stream;
    }

    /// The packet of `stream` that was served last cost `extra_bytes` more than its length. Returns
    /// whether the discipline can take that into account.
    fn charge_extra(&mut self, stream: StreamId, extra_bytes: i64) -> bool;
}
