//! The third stage: transmits packets.

use millstream::Departure;
use millstream_sync::channel::{Received, Receiver, Sender};
use millstream_sync::waker::park::{Parker, Step};

/// The result of a non-blocking poll of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of packets handled; 0 means that there is no work yet.
    Packets(usize),
    /// All packets are handled, and the input has ended.
    Ended,
}

impl Progress {
    /// Returns the progress after `count` packets; `ended` says whether the input has ended.
    pub(crate) fn of_batch(count: usize, ended: bool) -> Self {
        if ended && count == 0 { Self::Ended } else { Self::Packets(count) }
    }

    pub(crate) fn step(self) -> Step<()> {
        match self {
            Self::Packets(0) => Step::Idle,
            Self::Packets(_) => Step::Progress,
            Self::Ended => Step::Done(()),
        }
    }
}

/// Takes departures in the order of the decisions, and sends them to the collector once
/// transmitted.
///
/// Dropping it ends the scheduler's run; packets in its ring are lost.
// Aligned to its own cache lines, so it shares none with its owner's other fields.
#[derive(Debug)]
#[repr(align(128))]
pub struct Transmitter {
    rings: Rings,
    parker: Parker,
}

#[derive(Debug)]
struct Rings {
    departures: Receiver<Departure>,
    finished: Sender<Departure>,
    batch: usize,
}

impl Transmitter {
    pub(crate) fn new(
        departures: Receiver<Departure>,
        finished: Sender<Departure>,
        parker: Parker,
        batch: usize,
    ) -> Self {
        Self { rings: Rings { departures, finished, batch }, parker }
    }

    /// Transmits up to a batch of packets by `transmit`, without blocking. Stops early if the
    /// collector's ring is full; a dropped collector is ignored.
    pub fn poll(&mut self, mut transmit: impl FnMut(&Departure)) -> Progress {
        self.rings.poll(&mut transmit)
    }

    /// Transmits by `transmit` until the scheduler has ended and all packets have left. Parks while
    /// there is no work.
    pub fn run(self, mut transmit: impl FnMut(&Departure)) {
        let Self { mut rings, mut parker } = self;
        parker.drive(|_| rings.poll(&mut transmit).step());
    }
}

impl Rings {
    fn poll(&mut self, transmit: &mut impl FnMut(&Departure)) -> Progress {
        let progress = self.transmit_batch(transmit);
        self.departures.flush();
        self.finished.flush();
        progress
    }

    fn transmit_batch(&mut self, transmit: &mut impl FnMut(&Departure)) -> Progress {
        for count in 0..self.batch {
            if self.finished.is_full() && !self.finished.is_closed() {
                return Progress::Packets(count);
            }
            match self.departures.receive() {
                Received::Value(departure) => {
                    transmit(&departure);
                    // The ring has a slot, unless the collector was dropped: the packet is
                    // discarded.
                    let _ = self.finished.send(departure);
                }
                Received::Empty => return Progress::of_batch(count, false),
                Received::Ended => return Progress::of_batch(count, true),
            }
        }
        Progress::Packets(self.batch)
    }
}
