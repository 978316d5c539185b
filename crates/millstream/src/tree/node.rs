//! A class at work: a selector whose streams are the class's children.
//!
//! Classes of different disciplines stand in one tree, so this is a dynamic border: one virtual
//! call for each level and operation. Packets' stamps are kept in one type for all.

use alloc::boxed::Box;

use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Discipline, Expiry, Head, Rank, Stamp};
use crate::packet::StreamId;
use crate::selector::{Backlog, NewHead, Observer, Selector};
use crate::structure::Structure;
use crate::virtual_time::Tag;

/// A packet's stamp, whatever discipline gave it.
pub(crate) type AnyStamp = Option<Tag>;

/// Where a node's children keep their packets.
pub(crate) trait AnyBacklog {
    /// See [`Backlog::drop_head`].
    fn drop_head(
        &mut self,
        child: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
    ) -> Option<NewHead<AnyStamp>>;
}

/// A selector of any discipline on any structure; the methods are [`Selector`]'s.
pub(crate) trait Node: Send {
    fn add_child(&mut self, contract: &Contract) -> Result<StreamId, ContractError>;
    fn has_deadlines(&self) -> bool;
    fn advance(&mut self, clock_ns: u64);
    fn idle(&mut self);
    fn any_active(&self) -> bool;
    fn active(&self, child: StreamId) -> bool;
    fn head(&self, child: StreamId) -> Option<Head>;
    fn arrived(&mut self, child: StreamId, bytes: u32, active: bool) -> AnyStamp;
    fn became_backlogged(&mut self, child: StreamId, new: NewHead<AnyStamp>);
    fn open(&mut self, child: StreamId, how: Activation);
    fn close(&mut self, child: StreamId);
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut dyn AnyBacklog,
        observer: &mut dyn Observer,
    );
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut dyn AnyBacklog,
        observer: &mut dyn Observer,
    ) -> Option<StreamId>;
    fn deadline_ns(&self, child: StreamId) -> Option<u64>;
    fn resize(&mut self, child: StreamId, bytes: u32);
    fn served(&mut self, child: StreamId, now_ns: u64) -> bool;
    fn follow(&mut self, child: StreamId, next: Option<NewHead<AnyStamp>>);
    fn charge_extra(&mut self, child: StreamId, extra_bytes: i64) -> bool;
}

/// A node of discipline `D` on structure `S`.
pub(crate) fn node<D, S>(discipline: D, structure: S) -> Box<dyn Node>
where
    D: Discipline + Send + 'static,
    S: Structure<D::Rank> + Send + 'static,
    D::State: Send,
    D::Rank: Send,
{
    Box::new(Selector::new(discipline, structure))
}

/// Unpacks the stamps of what is dropped.
struct Unpacking<'a>(&'a mut dyn AnyBacklog);

impl<P: Stamp> Backlog<P> for Unpacking<'_> {
    fn drop_head(
        &mut self,
        child: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        _: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<P>> {
        self.0.drop_head(child, now_ns, deadline_ns).map(unpack)
    }
}

fn unpack<P: Stamp>(new: NewHead<AnyStamp>) -> NewHead<P> {
    NewHead { head: new.head, stamp: P::unpack(new.stamp), open: new.open }
}

impl<D, S> Node for Selector<D, S>
where
    D: Discipline + Send,
    S: Structure<D::Rank> + Send,
    D::State: Send,
    D::Rank: Send,
{
    fn add_child(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        self.add_stream(contract)
    }

    fn has_deadlines(&self) -> bool {
        D::Rank::EXPIRY != Expiry::Never
    }

    fn advance(&mut self, clock_ns: u64) {
        Selector::advance(self, clock_ns);
    }

    fn idle(&mut self) {
        Selector::idle(self);
    }

    fn any_active(&self) -> bool {
        Selector::any_active(self)
    }

    fn active(&self, child: StreamId) -> bool {
        Selector::active(self, child)
    }

    fn head(&self, child: StreamId) -> Option<Head> {
        Selector::head(self, child)
    }

    fn arrived(&mut self, child: StreamId, bytes: u32, active: bool) -> AnyStamp {
        Selector::arrived(self, child, bytes, active).pack()
    }

    fn became_backlogged(&mut self, child: StreamId, new: NewHead<AnyStamp>) {
        Selector::became_backlogged(self, child, unpack(new));
    }

    fn open(&mut self, child: StreamId, how: Activation) {
        Selector::open(self, child, how);
    }

    fn close(&mut self, child: StreamId) {
        Selector::close(self, child);
    }

    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut dyn AnyBacklog,
        observer: &mut dyn Observer,
    ) {
        Selector::charge_misses(self, now_ns, &mut Unpacking(backlog), observer);
    }

    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut dyn AnyBacklog,
        observer: &mut dyn Observer,
    ) -> Option<StreamId> {
        Selector::select(self, now_ns, &mut Unpacking(backlog), observer)
    }

    fn deadline_ns(&self, child: StreamId) -> Option<u64> {
        Selector::deadline_ns(self, child)
    }

    fn resize(&mut self, child: StreamId, bytes: u32) {
        Selector::resize(self, child, bytes);
    }

    fn served(&mut self, child: StreamId, now_ns: u64) -> bool {
        Selector::served(self, child, now_ns)
    }

    fn follow(&mut self, child: StreamId, next: Option<NewHead<AnyStamp>>) {
        Selector::follow(self, child, next.map(unpack));
    }

    fn charge_extra(&mut self, child: StreamId, extra_bytes: i64) -> bool {
        Selector::charge_extra(self, child, extra_bytes)
    }
}
