//! How streams are ordered, and what changes when one is served or misses.
//!
//! A [`Discipline`] keeps a small state for each stream and turns it, with the stream's
//! head-of-line packet, into a [`Rank`]: a total order whose last tie-break is the stream's
//! number. It never sees a queue, another stream's state, or how the least rank is found; that is
//! the [`Structure`](crate::Structure)'s part.
//!
//! | discipline | order | source |
//! |---|---|---|
//! | [`Fifo`] | arrival | – |
//! | [`StaticPriority`] | priority, arrival | – |
//! | [`Edf`] | deadline, arrival | Liu and Layland 1973 |
//! | [`Dwcs`] | deadline and window-constraint | ShareStreams Table 1; West and Schwan 1999 |
//!
//! What every order ends with: earlier arrival, then lower stream number.

mod dwcs;
mod edf;
mod fifo;
mod static_priority;

pub use dwcs::{Dwcs, DwcsOptions, EdfFirst, LossFirst, Order, Rules, ZeroWindow};
pub use edf::Edf;
pub use fifo::Fifo;
pub use static_priority::StaticPriority;

use crate::contract::{Contract, ContractError};
use crate::packet::StreamId;

/// What a discipline may know of a head-of-line packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it arrived, ns.
    pub arrival_ns: u64,
    /// Its length, bytes.
    pub bytes: u32,
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

/// A total order over the heads of backlogged streams; the least is served.
pub trait Rank: Ord + Copy {
    /// How the order relates to [`expiry_ns`](Self::expiry_ns).
    const EXPIRY: Expiry;

    /// From when on the head counts as late and the discipline must be told, ns;
    /// `u64::MAX` if never.
    fn expiry_ns(&self) -> u64;
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

/// A scheduling discipline.
///
/// The calls for one stream are: [`admit`](Self::admit) once; then, for each packet,
/// [`became_head`](Self::became_head), any number of [`expired`](Self::expired), and
/// [`served`](Self::served) unless it was dropped. [`rank`](Self::rank) is asked again after each.
pub trait Discipline {
    /// A stream's attributes: its contract and what service and misses made of it.
    type State: Copy + core::fmt::Debug;
    /// The order.
    type Rank: Rank;

    /// The state of a new stream.
    ///
    /// # Errors
    /// [`ContractError::Missing`] if the contract lacks an attribute that the discipline needs.
    fn admit(&mut self, contract: &Contract) -> Result<Self::State, ContractError>;

    /// A packet became head-of-line: it arrived at an empty queue, or the one before it left.
    fn became_head(&mut self, state: &mut Self::State, head: Head);

    /// Where the stream stands.
    fn rank(&self, state: &Self::State, head: Head, stream: StreamId) -> Self::Rank;

    /// The head's deadline, ns, if the discipline has deadlines.
    fn deadline_ns(&self, state: &Self::State) -> Option<u64>;

    /// `now_ns` has reached the rank's expiry. Afterwards either the rank expires later than
    /// `now_ns`, or `drop_head` is set.
    fn expired(&mut self, state: &mut Self::State, now_ns: u64) -> Missed;

    /// The head's service starts at `now_ns`. Returns whether that is late without having been
    /// reported by [`expired`](Self::expired).
    fn served(&mut self, state: &mut Self::State, head: Head, now_ns: u64) -> bool;
}
