//! Who waits for a frame: in the processor, the sessions of each live stream that have been given
//! all there is.

use super::frames::FrameRing;

/// The waiting sessions of every ring.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    rings: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ring: FrameRing,
    /// Frames that there were when it was looked last.
    seen: u64,
    sessions: Vec<usize>,
    /// By session: whether it is among them.
    listed: Vec<bool>,
}

impl Followers {
    /// Of `sessions` sessions at most, none of which waits yet.
    pub(crate) fn new(rings: &[FrameRing], sessions: usize) -> Self {
        let waiting = |ring: &FrameRing| Waiting {
            ring: *ring,
            seen: ring.head(),
            sessions: Vec::with_capacity(sessions),
            listed: vec![false; sessions],
        };
        Self { rings: rings.iter().map(waiting).collect() }
    }

    /// A session waits for the next frame of a ring; it may do so already.
    pub(crate) fn wait(&mut self, ring: usize, session: usize) {
        let Some(of) = self.rings.get_mut(ring) else { return };
        if !std::mem::replace(&mut of.listed[session], true) {
            of.sessions.push(session);
        }
    }

    /// Appends to `to` who waited for frames that are there now; they wait no more.
    pub(crate) fn come(&mut self, to: &mut Vec<usize>) {
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
