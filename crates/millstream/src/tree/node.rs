//! The selector of a class, whose streams are the class's children.
//!
//! A tree has classes of different disciplines, so this is a dynamic dispatch boundary: one virtual
//! call per level and operation. One type holds the stamps of all disciplines.

use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Head, Stamp, Waiting};
use crate::packet::StreamId;
use crate::selector::{Backlog, NewHead, Observer, Select};
use crate::virtual_time::Tag;

/// The stamp of a packet under any discipline.
pub(crate) type AnyStamp = Option<Tag>;

/// The packets of a node's children.
pub(crate) trait AnyBacklog {
    /// See [`Backlog::drop_head`].
    fn drop_head(
        &mut self,
        child: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
    ) -> Option<NewHead<AnyStamp>>;
}

/// A selector of any kind. The methods are those of [`Select`].
pub(crate) trait Node: Send {
    fn add_child(&mut self, contract: &Contract) -> Result<StreamId, ContractError>;
    fn has_deadlines(&self) -> bool;
    fn tracks_backlog(&self) -> bool;
    fn advance(&mut self, clock_ns: u64);
    fn idle(&mut self);
    fn any_active(&self) -> bool;
    fn active(&self, child: StreamId) -> bool;
    fn head(&self, child: StreamId) -> Option<Head>;
    fn arrived(&mut self, child: StreamId, bytes: u32, active: bool) -> AnyStamp;
    fn became_backlogged(&mut self, child: StreamId, new: NewHead<AnyStamp>);
    fn backlog_changed(&mut self, child: StreamId, waiting: Waiting);
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
    fn head_departed(&mut self, child: StreamId, next: Option<NewHead<AnyStamp>>);
    fn charge_extra(&mut self, child: StreamId, extra_bytes: i64) -> bool;
}

/// Unpacks the stamps of heads that follow drops.
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

impl<S: Select + Send> Node for S {
    fn add_child(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        self.add_stream(contract)
    }

    fn has_deadlines(&self) -> bool {
        Select::has_deadlines(self)
    }

    fn tracks_backlog(&self) -> bool {
        S::TRACKS_BACKLOG
    }

    fn advance(&mut self, clock_ns: u64) {
        Select::advance(self, clock_ns);
    }

    fn idle(&mut self) {
        Select::idle(self);
    }

    fn any_active(&self) -> bool {
        Select::any_active(self)
    }

    fn active(&self, child: StreamId) -> bool {
        Select::active(self, child)
    }

    fn head(&self, child: StreamId) -> Option<Head> {
        Select::head(self, child)
    }

    fn arrived(&mut self, child: StreamId, bytes: u32, active: bool) -> AnyStamp {
        Select::arrived(self, child, bytes, active).pack()
    }

    fn became_backlogged(&mut self, child: StreamId, new: NewHead<AnyStamp>) {
        Select::became_backlogged(self, child, unpack(new));
    }

    fn backlog_changed(&mut self, child: StreamId, waiting: Waiting) {
        Select::backlog_changed(self, child, waiting);
    }

    fn open(&mut self, child: StreamId, how: Activation) {
        Select::open(self, child, how);
    }

    fn close(&mut self, child: StreamId) {
        Select::close(self, child);
    }

    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut dyn AnyBacklog,
        observer: &mut dyn Observer,
    ) {
        Select::charge_misses(self, now_ns, &mut Unpacking(backlog), observer);
    }

    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut dyn AnyBacklog,
        observer: &mut dyn Observer,
    ) -> Option<StreamId> {
        Select::select(self, now_ns, &mut Unpacking(backlog), observer)
    }

    fn deadline_ns(&self, child: StreamId) -> Option<u64> {
        Select::deadline_ns(self, child)
    }

    fn resize(&mut self, child: StreamId, bytes: u32) {
        Select::resize(self, child, bytes);
    }

    fn served(&mut self, child: StreamId, now_ns: u64) -> bool {
        Select::served(self, child, now_ns)
    }

    fn head_departed(&mut self, child: StreamId, next: Option<NewHead<AnyStamp>>) {
        Select::head_departed(self, child, next.map(unpack));
    }

    fn charge_extra(&mut self, child: StreamId, extra_bytes: i64) -> bool {
        Select::charge_extra(self, child, extra_bytes)
    }
}
