//! Selection of the next stream, independent of where packets wait.
//!
//! A selector receives the heads of streams, selects a winner, and receives the head that follows.
//! [`Backlog`] holds the packets: the queues of a [`Scheduler`](crate::Scheduler), the children of
//! a class in a tree, or frames in shared memory.
//!
//! | selector | selects |
//! |---|---|
//! | [`Selector`] | by any discipline, on any structure that supports it |
//! | [`HilqExact`] | by DWCS, earliest deadline first; the fastest |
//! | [`ManagedFirst`] | management channels before the streams of another selector: MinBW |

mod composed;
mod hilq_exact;
mod managed;

pub use composed::Selector;
pub use hilq_exact::HilqExact;
pub(crate) use managed::MINBW;
pub use managed::{ManagedFirst, MinBwAlgorithm};

use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Head, Stamp, Waiting};
use crate::packet::{Departure, StreamId};

/// The last time at which deadlines pass. A deadline of `u64::MAX` never passes: sums saturate
/// there.
const LAST_NS: u64 = u64::MAX - 1;

/// Receives the misses and drops of a decision.
pub trait Observer {
    /// Called when deadlines of `stream` passed or a packet is sent late. The order of streams at
    /// one instant is unspecified.
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        let _ = (stream, now_ns, missed, violations);
    }

    /// Called when a waiting packet was dropped: its deadline passed, queue management dropped it,
    /// or its flow was the longest at a limit.
    fn dropped(&mut self, departure: &Departure) {
        let _ = departure;
    }

    /// Called when queue management marks a packet, before it departs: its number and tag.
    fn marked(&mut self, stream: StreamId, packet: u64, tag: u64) {
        let _ = (stream, packet, tag);
    }
}

/// Ignores every event.
impl Observer for () {}

/// A packet that became head-of-line.
#[derive(Clone, Copy, Debug)]
pub struct NewHead<P> {
    /// The packet.
    pub head: Head,
    /// The stamp of its arrival.
    pub stamp: P,
    /// `true` if its gate is open: the head is active.
    pub open: bool,
}

/// The packets of the selector's streams.
pub trait Backlog<P> {
    /// Drops the head-of-line packet of `stream` and returns the next head.
    fn drop_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<P>>;

    /// Prefetches the queue of `stream`, whose head is likely to leave soon.
    #[inline]
    fn soon(&self, stream: StreamId) {
        let _ = stream;
    }

    /// Prefetches the head of `stream`, which is likely to leave next.
    #[inline]
    fn next(&self, stream: StreamId) {
        let _ = stream;
    }
}

/// Selects the next stream and keeps the streams' attributes.
///
/// Time never goes backwards, and [`advance`](Self::advance) is called before every event.
/// Methods panic on a stream that was not added. A head is *active* while it may be served.
pub trait Select {
    /// The value that a packet carries from its arrival until it is head-of-line.
    type Stamp: Stamp;

    /// `true` if the clock depends on the times at which it is advanced; every event must then
    /// advance it.
    const LEAPS: bool = false;

    /// `true` if [`backlog_changed`](Self::backlog_changed) must be called.
    const TRACKS_BACKLOG: bool = false;

    /// Adds a stream; its number is the count of streams before it.
    ///
    /// # Errors
    /// Fails if the contract lacks an attribute that the discipline needs, or there are 2³² − 1
    /// streams.
    fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError>;

    /// Allocates memory for the streams that were added, so that no later event allocates.
    fn reserve(&mut self) {}

    /// Returns the number of streams.
    fn streams(&self) -> usize;

    /// Returns whether late heads are charged.
    fn has_deadlines(&self) -> bool;

    /// Advances the discipline's clock to `clock_ns`.
    fn advance(&mut self, clock_ns: u64);

    /// Advances the clock as far as [`select`](Self::select) needs. Only that or
    /// [`idle`](Self::idle) may follow.
    #[inline]
    fn advance_to_select(&mut self, clock_ns: u64) {
        self.advance(clock_ns);
    }

    /// Called when a decision found every queue empty.
    fn idle(&mut self);

    /// Returns whether any stream has an active head.
    fn any_active(&self) -> bool;

    /// Returns whether `stream` has an active head.
    fn active(&self, stream: StreamId) -> bool;

    /// Returns the head of `stream` if it is backlogged.
    fn head(&self, stream: StreamId) -> Option<Head>;

    /// Called when a packet arrives; `active` if its stream has an active head. Returns its stamp.
    /// If stamps have no size, it need not be called for a packet behind others.
    fn arrived(&mut self, stream: StreamId, bytes: u32, active: bool) -> Self::Stamp;

    /// Called when `stream`, which was idle, gets a head-of-line packet.
    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<Self::Stamp>);

    /// Called when the backlog of `stream` changed to `waiting`; only if
    /// [`TRACKS_BACKLOG`](Self::TRACKS_BACKLOG). Either a packet arrived, and the stream is not yet
    /// backlogged or has another head; or a packet left, and its successor is not yet head-of-line.
    #[inline]
    fn backlog_changed(&mut self, stream: StreamId, waiting: Waiting) {
        let _ = (stream, waiting);
    }

    /// Called when the gate of a backlogged stream opens. `how` holds the stream's backlog.
    fn open(&mut self, stream: StreamId, how: Activation);

    /// Called when the limits of `stream` changed. A call of [`open`](Self::open) or
    /// [`close`](Self::close) follows if it is backlogged and its gate may have changed.
    #[inline]
    fn limits_changed(&mut self, stream: StreamId) {
        let _ = stream;
    }

    /// Called when the gate of `stream` closes.
    fn close(&mut self, stream: StreamId);

    /// Charges every deadline that has passed, and drops late heads in stream order.
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<Self::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    );

    /// Charges every deadline that has passed, then returns the first stream.
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<Self::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId>;

    /// Returns the deadline of the stream's head, ns.
    fn deadline_ns(&self, stream: StreamId) -> Option<u64>;

    /// Corrects the length of the head of `stream`, which is served next, to `bytes`.
    fn resize(&mut self, stream: StreamId, bytes: u32);

    /// Called when service of the head of `stream` starts. Returns whether that is a miss. A call
    /// of [`head_departed`](Self::head_departed) follows.
    fn served(&mut self, stream: StreamId, now_ns: u64) -> bool;

    /// Called when the head of `stream` departed; `next` is its successor.
    fn head_departed(&mut self, stream: StreamId, next: Option<NewHead<Self::Stamp>>);

    /// Calls [`head_departed`](Self::head_departed).
    #[deprecated(since = "0.2.0", note = "renamed to `head_departed`")]
    fn follow(&mut self, stream: StreamId, next: Option<NewHead<Self::Stamp>>) {
        self.head_departed(stream, next);
    }

    /// Returns whether `stream`, which was just served, has the only active head and so wins every
    /// further decision at this instant.
    #[inline]
    fn is_alone(&self, stream: StreamId) -> bool {
        let _ = stream;
        false
    }

    /// Serves the head of a stream that is [alone](Self::is_alone); `next`, which is active, is its
    /// successor. Returns whether that is a miss. A call of [`reinsert`](Self::reinsert) ends a
    /// sequence of these calls.
    #[inline]
    fn serve_alone(&mut self, stream: StreamId, now_ns: u64, next: NewHead<Self::Stamp>) -> bool {
        let late = self.served(stream, now_ns);
        self.head_departed(stream, Some(next));
        late
    }

    /// Reinserts a stream that was served alone among the other streams.
    #[inline]
    fn reinsert(&mut self, stream: StreamId) {
        let _ = stream;
    }

    /// Charges the packet of `stream` that was served last with `extra_bytes` beyond its length.
    /// Returns whether the discipline supports that.
    fn charge_extra(&mut self, stream: StreamId, extra_bytes: i64) -> bool;
}
