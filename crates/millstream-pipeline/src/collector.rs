//! The last stage: buffers come back.

use millstream::Departure;

use crate::parker::Sleeper;
use crate::channel::{Received, Receiver};
use crate::transmitter::Progress;

/// Collects packets that are done with, transmitted or dropped, so that whoever owns their buffers
/// (by [`tag`](Departure::tag)) can reclaim them.
///
/// Nothing is dropped silently: every packet that the scheduler took and that waits no more comes
/// here once. If the collector falls behind, the other stages wait for it; if it is dropped, they
/// go on without.
// On lines of its own, wherever its owner keeps it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Collector {
    rings: Rings,
    sleeper: Sleeper,
}

#[derive(Debug)]
struct Rings {
    dropped: Receiver<Departure>,
    finished: Receiver<Departure>,
    batch: usize,
}

impl Collector {
    pub(crate) fn new(
        dropped: Receiver<Departure>,
        finished: Receiver<Departure>,
        sleeper: Sleeper,
        batch: usize,
    ) -> Self {
        Self { rings: Rings { dropped, finished, batch }, sleeper }
    }

    /// Gives up to a batch of dropped and one of transmitted packets to `reclaim`, without waiting
    /// for any.
    pub fn poll(&mut self, mut reclaim: impl FnMut(&Departure)) -> Progress {
        self.rings.poll(&mut reclaim)
    }

    /// Gives packets to `reclaim` until scheduler and transmitter have ended and everything is
    /// collected; sleeps while there is nothing to do.
    pub fn run(self, mut reclaim: impl FnMut(&Departure)) {
        let Self { mut rings, mut sleeper } = self;
        sleeper.drive(|_| rings.poll(&mut reclaim).step());
    }
}

impl Rings {
    fn poll(&mut self, reclaim: &mut impl FnMut(&Departure)) -> Progress {
        let mut count = 0;
        let mut ended = true;
        for ring in [&mut self.dropped, &mut self.finished] {
            ended &= take_batch(ring, self.batch, |departure| {
                count += 1;
                reclaim(departure);
            });
            ring.flush();
        }
        Progress::without_more(count, ended)
    }
}

/// Takes up to `batch` packets out of `ring`; returns whether it has ended.
fn take_batch(
    ring: &mut Receiver<Departure>,
    batch: usize,
    mut take: impl FnMut(&Departure),
) -> bool {
    for _ in 0..batch {
        match ring.receive() {
            Received::Value(departure) => take(&departure),
            Received::Empty => return false,
            Received::Ended => return true,
        }
    }
    false
}
