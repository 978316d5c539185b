//! Followers: the sessions that have played every frame of a live stream and wait for the next.
//! The data plane keeps these lists.

use crate::shared_memory::live_frames::FrameRing;

/// The waiting sessions of every ring.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    rings: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ring: FrameRing,
    /// The ring's frame count at the last check.
    seen: u64,
    sessions: Vec<usize>,
    /// Whether a session is in `sessions`, by session.
    listed: Vec<bool>,
}

impl Followers {
    /// Creates empty lists for `rings` and up to `sessions` sessions.
    pub(crate) fn new(rings: &[FrameRing], sessions: usize) -> Self {
        let waiting = |ring: &FrameRing| Waiting {
            ring: *ring,
            seen: ring.head(),
            sessions: Vec::with_capacity(sessions),
            listed: vec![false; sessions],
        };
        Self { rings: rings.iter().map(waiting).collect() }
    }

    /// Adds a session to those that wait for a ring's next frame, unless it is listed already.
    pub(crate) fn wait(&mut self, ring: usize, session: usize) {
        let Some(of) = self.rings.get_mut(ring) else { return };
        if !std::mem::replace(&mut of.listed[session], true) {
            of.sessions.push(session);
        }
    }

    /// Moves the sessions of rings with new frames to `to`.
    pub(crate) fn drain_ready(&mut self, to: &mut Vec<usize>) {
        for of in &mut self.rings {
            let head = of.ring.head();
            if of.seen == head {
                continue;
            }
            of.seen = head;
            of.listed.fill(false);
            to.append(&mut of.sessions);
        }
    }
}
