//! The scheduler's output: departures to the transmitter, drops to the collector, all counted.

use millstream::{Departure, Event, Observer};
use millstream_sync::channel::{SendError, Sender};
use millstream_sync::waker::park::{Parker, Step};

use crate::counters::{Counters, Counts};

/// Sends scheduled packets to the transmitter and dropped ones to the collector.
#[derive(Debug)]
pub(crate) struct PacketSender {
    departures: Sender<Departure>,
    drops: Sender<Departure>,
    counters: Counters,
    pub(crate) counts: Counts,
}

impl PacketSender {
    pub(crate) fn new(
        departures: Sender<Departure>,
        drops: Sender<Departure>,
        counters: Counters,
    ) -> Self {
        Self { departures, drops, counters, counts: Counts::default() }
    }

    /// Returns the number of free slots of the transmitter's ring.
    #[inline]
    pub(crate) fn free_slots(&self) -> usize {
        self.departures.free_slots()
    }

    /// Returns whether the transmitter has taken all departures, so the link is about to idle.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.departures.is_drained()
    }

    /// Returns whether the transmitter was dropped.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.departures.is_closed()
    }

    /// Counts a departure and sends it, blocking while the ring is full. Returns `false` if the
    /// transmitter was dropped.
    #[inline]
    pub(crate) fn send(&mut self, departure: Departure, parker: &mut Parker) -> bool {
        self.counts.sent += 1;
        self.push(departure, parker)
    }

    /// Counts a drop and sends it to the collector, blocking while the ring is full. Without a
    /// collector the packet is discarded.
    pub(crate) fn drop(&mut self, departure: Departure, parker: &mut Parker) {
        match departure.event {
            Event::DroppedFull | Event::DroppedByAqm => self.counts.dropped_full += 1,
            Event::DroppedLate | Event::Sent => self.counts.dropped_late += 1,
        }
        self.push(departure, parker);
    }

    #[inline]
    fn push(&mut self, departure: Departure, parker: &mut Parker) -> bool {
        let sent = departure.event == Event::Sent;
        let ring = if sent { &mut self.departures } else { &mut self.drops };
        match ring.send(departure) {
            Ok(()) => true,
            Err(SendError::Closed) => false,
            Err(SendError::Full) => self.send_blocking(departure, parker),
        }
    }

    /// Blocks until a slot is free.
    #[cold]
    fn send_blocking(&mut self, departure: Departure, parker: &mut Parker) -> bool {
        self.flush();
        let sent = departure.event == Event::Sent;
        let ring = if sent { &mut self.departures } else { &mut self.drops };
        parker.drive(|_| match ring.send(departure) {
            Ok(()) => Step::Done(true),
            Err(SendError::Closed) => Step::Done(false),
            Err(SendError::Full) => Step::Idle,
        })
    }

    /// Publishes the counts for [`Counters::read`].
    #[inline]
    pub(crate) fn publish(&self) {
        self.counters.publish(&self.counts);
    }

    /// Publishes the counts, and wakes transmitter and collector if packets were sent to them.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.publish();
        self.departures.flush();
        self.drops.flush();
    }

    /// Returns the counts of the scheduler and the producers.
    pub(crate) fn final_counts(&mut self) -> Counts {
        self.flush();
        self.counters.read()
    }
}

/// Sends the packets that a decision drops to the collector.
pub(crate) struct DropReporter<'a> {
    pub(crate) output: &'a mut PacketSender,
    pub(crate) parker: &'a mut Parker,
}

impl Observer for DropReporter<'_> {
    fn dropped(&mut self, departure: &Departure) {
        self.output.drop(*departure, self.parker);
    }
}
