//! The last stage: returns buffers to their owner.

use millstream::Departure;
use millstream_sync::channel::{Received, Receiver};
use millstream_sync::waker::park::Parker;

use crate::transmitter::Progress;

/// Collects transmitted and dropped packets, so that the owner of their buffers (found by
/// [`tag`](Departure::tag)) can reclaim them.
///
/// No drop is silent: every packet that the scheduler took and no longer queues is collected once.
/// If the collector falls behind, the other stages wait for it. If the collector is dropped, the
/// other stages continue.
// Aligned to its own cache lines, so it shares none with its owner's other fields.
#[derive(Debug)]
#[repr(align(128))]
pub struct Collector {
    rings: Rings,
    parker: Parker,
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
        parker: Parker,
        batch: usize,
    ) -> Self {
        Self { rings: Rings { dropped, finished, batch }, parker }
    }

    /// Passes up to a batch of dropped and a batch of transmitted packets to `reclaim`, without
    /// blocking.
    pub fn poll(&mut self, mut reclaim: impl FnMut(&Departure)) -> Progress {
        self.rings.poll(&mut reclaim)
    }

    /// Passes packets to `reclaim` until scheduler and transmitter have ended and both rings are
    /// empty. Parks while there is no work.
    pub fn run(self, mut reclaim: impl FnMut(&Departure)) {
        let Self { mut rings, mut parker } = self;
        parker.drive(|_| rings.poll(&mut reclaim).step());
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
        Progress::of_batch(count, ended)
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
