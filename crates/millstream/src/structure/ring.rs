//! A ring: streams in insertion order.
//!
//! If ranks are turns, each later than all earlier ones, insertion order is rank order, and every
//! operation is O(1). The [`catalogue`](crate::catalogue) offers the ring only to such disciplines.
//!
//! ```text
//! front -> [stream] <-> [stream] <-> [stream] <- back      links by stream number
//! ```

use alloc::vec::Vec;

use super::Structure;
use crate::discipline::{Expiry, Rank};

/// No stream.
const NONE: u32 = u32::MAX;

/// One stream's neighbours and rank.
#[derive(Clone, Copy, Debug)]
struct Member<R> {
    before: u32,
    after: u32,
    rank: Option<R>,
}

/// A ring of streams in the order of their turns.
#[derive(Clone, Debug)]
pub struct Ring<R> {
    members: Vec<Member<R>>,
    front: u32,
    back: u32,
}

impl<R> Default for Ring<R> {
    fn default() -> Self {
        Self { members: Vec::new(), front: NONE, back: NONE }
    }
}

impl<R: Rank> Structure<R> for Ring<R> {
    fn reserve(&mut self, streams: usize) {
        self.members.reserve(streams.saturating_sub(self.members.len()));
    }

    #[inline]
    fn insert(&mut self, stream: u32, rank: R) {
        let at = stream as usize;
        if at >= self.members.len() {
            self.members.resize(at + 1, Member { before: NONE, after: NONE, rank: None });
        }
        if self.members[at].rank == Some(rank) {
            return;
        }
        self.remove(stream);
        let back = self.back;
        if back == NONE {
            self.front = stream;
        } else {
            let last = &mut self.members[back as usize];
            debug_assert!(last.rank <= Some(rank), "a ring rank is less than the last one");
            last.after = stream;
        }
        self.members[at] = Member { before: back, after: NONE, rank: Some(rank) };
        self.back = stream;
    }

    #[inline]
    fn remove(&mut self, stream: u32) {
        let Some(member) = self.members.get_mut(stream as usize) else { return };
        if member.rank.take().is_none() {
            return;
        }
        let (before, after) = (member.before, member.after);
        match before {
            NONE => self.front = after,
            before => self.members[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            after => self.members[after as usize].before = before,
        }
    }

    #[inline]
    fn first(&mut self) -> Option<u32> {
        (self.front != NONE).then_some(self.front)
    }

    fn due(&self, _: u64, _: &mut Vec<u32>) {
        debug_assert!(R::EXPIRY == Expiry::Never, "ranks of a ring must not expire");
    }
}
