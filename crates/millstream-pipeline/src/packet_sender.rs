//! The second stage's outlet: departures to the transmitter, drops to the collector, all counted.

use millstream::{Departure, Event, Observer};

use crate::parker::{Sleeper, Step};
use crate::channel::{SendError, Sender};
use crate::counters::{Counters, Counts};

/// Where packets leave the scheduler.
#[derive(Debug)]
pub(crate) struct Outlet {
    departures: Sender<Departure>,
    drops: Sender<Departure>,
    counters: Counters,
    pub(crate) counts: Counts,
}

impl Outlet {
    pub(crate) fn new(
        departures: Sender<Departure>,
        drops: Sender<Departure>,
        counters: Counters,
    ) -> Self {
        Self { departures, drops, counters, counts: Counts::default() }
    }

    /// Departures that the transmitter's ring has room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.departures.room()
    }

    /// Whether the transmitter has taken everything: the link is about to be idle.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.departures.is_drained()
    }

    /// Whether the transmitter is gone.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.departures.is_closed()
    }

    /// Counts a packet that was chosen and passes it on, once there is room. `false` if the
    /// transmitter is gone.
    #[inline]
    pub(crate) fn send(&mut self, departure: Departure, sleeper: &mut Sleeper) -> bool {
        self.counts.sent += 1;
        self.pass(departure, sleeper)
    }

    /// Counts a packet that was dropped and passes it on, once there is room. Without a collector
    /// nobody wants it back.
    pub(crate) fn drop(&mut self, departure: Departure, sleeper: &mut Sleeper) {
        match departure.event {
            Event::DroppedFull => self.counts.dropped_full += 1,
            Event::DroppedLate | Event::Sent => self.counts.dropped_late += 1,
        }
        self.pass(departure, sleeper);
    }

    #[inline]
    fn pass(&mut self, departure: Departure, sleeper: &mut Sleeper) -> bool {
        let sent = departure.event == Event::Sent;
        let ring = if sent { &mut self.departures } else { &mut self.drops };
        match ring.send(departure) {
            Ok(()) => true,
            Err(SendError::Closed) => false,
            Err(SendError::Full) => self.pass_later(departure, sleeper),
        }
    }

    /// Sleeps until there is room.
    #[cold]
    fn pass_later(&mut self, departure: Departure, sleeper: &mut Sleeper) -> bool {
        self.flush();
        let sent = departure.event == Event::Sent;
        let ring = if sent { &mut self.departures } else { &mut self.drops };
        sleeper.drive(|_| match ring.send(departure) {
            Ok(()) => Step::Done(true),
            Err(SendError::Closed) => Step::Done(false),
            Err(SendError::Full) => Step::Idle,
        })
    }

    /// Shows the counts to whoever reads them.
    #[inline]
    pub(crate) fn publish(&self) {
        self.counters.publish(&self.counts);
    }

    /// Publishes the counts and tells transmitter and collector of what was passed on.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.publish();
        self.departures.flush();
        self.drops.flush();
    }

    /// The counts, those of the producers included.
    pub(crate) fn final_counts(&mut self) -> Counts {
        self.flush();
        self.counters.read()
    }
}

/// Passes on the packets that a decision drops.
pub(crate) struct Drops<'a> {
    pub(crate) outlet: &'a mut Outlet,
    pub(crate) sleeper: &'a mut Sleeper,
}

impl Observer for Drops<'_> {
    fn dropped(&mut self, departure: &Departure) {
        self.outlet.drop(*departure, self.sleeper);
    }
}
