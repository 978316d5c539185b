//! The third stage: packets leave.

use millstream::Departure;

use crate::parker::{Sleeper, Step};
use crate::channel::{Received, Receiver, Sender};

/// What a stage has done without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many packets went through; with 0 there was nothing to do yet.
    Packets(usize),
    /// Nothing is left and nothing will come.
    Ended,
}

impl Progress {
    /// After `count` packets a receiver found this in place of another.
    pub(crate) fn without_more(count: usize, ended: bool) -> Self {
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

/// Takes departures in the order of the decisions, and passes on to the collector what has been
/// transmitted.
///
/// To drop it ends the scheduler's run; what was passed on to it but not taken is lost with it.
// On lines of its own, wherever its owner keeps it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Transmitter {
    rings: Rings,
    sleeper: Sleeper,
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
        sleeper: Sleeper,
        batch: usize,
    ) -> Self {
        Self { rings: Rings { departures, finished, batch }, sleeper }
    }

    /// Transmits up to a batch of packets by `transmit`, without waiting: not for packets, and not
    /// for room in the collector's ring, which it needs unless the collector was dropped.
    pub fn poll(&mut self, mut transmit: impl FnMut(&Departure)) -> Progress {
        self.rings.poll(&mut transmit)
    }

    /// Transmits by `transmit` until the scheduler has ended and all has left; sleeps while there
    /// is nothing to do.
    pub fn run(self, mut transmit: impl FnMut(&Departure)) {
        let Self { mut rings, mut sleeper } = self;
        sleeper.drive(|_| rings.poll(&mut transmit).step());
    }
}

impl Rings {
    fn poll(&mut self, transmit: &mut impl FnMut(&Departure)) -> Progress {
        let progress = self.pass_batch(transmit);
        self.departures.flush();
        self.finished.flush();
        progress
    }

    fn pass_batch(&mut self, transmit: &mut impl FnMut(&Departure)) -> Progress {
        for count in 0..self.batch {
            if self.finished.is_full() && !self.finished.is_closed() {
                return Progress::Packets(count);
            }
            match self.departures.receive() {
                Received::Value(departure) => {
                    transmit(&departure);
                    // There is room; if the collector is gone nobody wants the packet back.
                    let _ = self.finished.send(departure);
                }
                Received::Empty => return Progress::without_more(count, false),
                Received::Ended => return Progress::without_more(count, true),
            }
        }
        Progress::Packets(self.batch)
    }
}
