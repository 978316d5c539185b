//! The second stage: the engine's own thread.

use std::time::Duration;

use millstream::catalogue::DynScheduler;
use millstream::{Departure, Link};

use crate::parker::{Sleeper, Step};
use crate::clock::Clock;
use crate::counters::Counts;
use crate::inputs::{Inputs, Outlook};
use crate::packet_sender::{Drops, Outlet};
use crate::producer::Offer;

/// How a scheduler's run ended.
#[derive(Debug)]
pub struct Ended<E: ?Sized> {
    /// What became of the packets. What still [waits](Counts::waiting) lacks leave to go that
    /// never comes, or the transmitter was dropped.
    pub counts: Counts,
    /// The scheduler, with what waits in it.
    pub scheduler: Box<E>,
}

/// Takes packets from the producers, decides, and passes them on to the transmitter; dropped ones
/// to the collector.
///
/// It runs on one thread until every producer is dropped and all packets have left, or until the
/// transmitter is dropped.
#[derive(Debug)]
pub struct Scheduling<E: ?Sized> {
    desk: Desk<E>,
    sleeper: Sleeper,
}

/// The scheduler between its inlet and its outlet.
#[derive(Debug)]
struct Desk<E: ?Sized> {
    inputs: Inputs,
    outlet: Outlet,
    batch: usize,
    /// The latest arrival or turn, ns.
    now_ns: u64,
    scheduler: Box<E>,
}

impl<E: DynScheduler + ?Sized> Scheduling<E> {
    pub(crate) fn new(
        scheduler: Box<E>,
        inputs: Inputs,
        outlet: Outlet,
        sleeper: Sleeper,
        batch: usize,
    ) -> Self {
        Self { desk: Desk { inputs, outlet, batch, now_ns: 0, scheduler }, sleeper }
    }

    /// Runs as packets come: they arrive when they are taken, and go as fast as the transmitter
    /// takes them.
    ///
    /// A turn reads `clock` once, takes up to a batch from every producer in rotation, then decides
    /// up to a batch of departures for which the transmitter's ring has room. At one instant
    /// packets arrive in the order in which they are taken. A stamp refines the time of arrival,
    /// not this order: it counts as far as it lies between the arrival before and now.
    pub fn run(self, clock: &mut impl Clock) -> Ended<E> {
        let Self { mut desk, mut sleeper } = self;
        sleeper.drive(|sleeper| {
            let step = desk.turn(sleeper, clock);
            desk.flush();
            step
        });
        desk.end()
    }

    /// Runs in the packets' own time: they arrive at their stamps and leave over `link`.
    ///
    /// Arrivals of all producers are merged by time; at one instant those of the producer with the
    /// lower number go first, those of one producer in the order of their offers. A decision is
    /// made whenever the link is free and a packet waits, after all arrivals up to that instant.
    /// So the schedule depends on stamps alone: it is that of one thread that enqueues the merged
    /// arrivals.
    ///
    /// It waits for whoever could still be first. A producer that is silent for long has to
    /// [promise](crate::Producer::promise) or be dropped, and no thread may wait for room for one
    /// producer while it is to feed another.
    pub fn run_stamped(self, link: Link) -> Ended<E> {
        let Self { mut desk, mut sleeper } = self;
        desk.follow_stamps(link, &mut sleeper);
        desk.end()
    }
}

impl<E: DynScheduler + ?Sized> Desk<E> {
    /// One turn of [`Scheduling::run`].
    fn turn(&mut self, sleeper: &mut Sleeper, clock: &mut impl Clock) -> Step<()> {
        if self.outlet.is_closed() {
            return Step::Done(());
        }
        let now_ns = clock.now_ns().max(self.now_ns);
        let Self { inputs, outlet, scheduler, now_ns: last_ns, .. } = self;
        let taken = inputs.take_turns(self.batch, |offer| {
            let stamp_ns = if offer.stamped { offer.time_ns } else { now_ns };
            *last_ns = stamp_ns.clamp(*last_ns, now_ns);
            arrive(scheduler.as_mut(), *last_ns, &offer, outlet, sleeper);
        });
        self.now_ns = now_ns;
        let before = self.outlet.counts;
        let room = self.outlet.room();
        for _ in 0..room.min(self.batch) {
            if self.scheduler.total_waiting() == 0 {
                break;
            }
            let Some(departure) = self.decide(now_ns, sleeper) else { break };
            self.outlet.send(departure, sleeper);
        }
        if taken > 0 || self.outlet.counts != before {
            return Step::Progress;
        }
        let ended = self.inputs.have_ended();
        if self.scheduler.total_waiting() == 0 {
            if ended {
                return Step::Done(());
            }
            if self.outlet.is_drained() {
                // The link is free and nothing waits: a busy period is over.
                self.decide(now_ns, sleeper);
            }
            return Step::Idle;
        }
        if room == 0 {
            return Step::Idle;
        }
        match self.scheduler.next_eligible_ns() {
            Some(from_ns) => Step::IdleFor(Duration::from_nanos(from_ns.saturating_sub(now_ns))),
            // Nothing that waits will ever have leave to go.
            None if ended => Step::Done(()),
            None => Step::Idle,
        }
    }

    /// [`Scheduling::run_stamped`].
    fn follow_stamps(&mut self, link: Link, sleeper: &mut Sleeper) {
        let mut free_ns = 0;
        loop {
            if self.scheduler.total_waiting() == 0 {
                let Some((_, arrival_ns)) = self.next(u64::MAX, sleeper) else { break };
                if arrival_ns > free_ns {
                    // The link is free and nothing waits: a busy period is over.
                    self.decide(free_ns, sleeper);
                }
                free_ns = free_ns.max(arrival_ns);
            }
            while let Some((producer, arrival_ns)) = self.next(free_ns, sleeper) {
                if let Some(offer) = self.inputs.take(producer) {
                    let Self { outlet, scheduler, .. } = self;
                    arrive(scheduler.as_mut(), arrival_ns, &offer, outlet, sleeper);
                }
            }
            if let Some(departure) = self.decide(free_ns, sleeper) {
                free_ns = free_ns.saturating_add(link.transmission_ns(departure.bytes));
                if !self.outlet.send(departure, sleeper) {
                    break;
                }
                self.outlet.publish();
            } else if self.scheduler.total_waiting() > 0 {
                // All that waits is held back, until a gate opens or a packet comes.
                let opens_ns = self.scheduler.next_eligible_ns();
                let arrives = self.next(opens_ns.unwrap_or(u64::MAX), sleeper);
                match arrives.map(|(_, arrival_ns)| arrival_ns).or(opens_ns) {
                    Some(event_ns) => free_ns = free_ns.max(event_ns),
                    None => break,
                }
            }
        }
    }

    /// Waits until the next arrival up to `until_ns` is certain: whose it is and when, or that
    /// there is none.
    #[inline]
    fn next(&mut self, until_ns: u64, sleeper: &mut Sleeper) -> Option<(usize, u64)> {
        match self.inputs.look(until_ns) {
            Outlook::Arrival(producer, time_ns) => Some((producer, time_ns)),
            Outlook::None => None,
            Outlook::Open => self.await_next(until_ns, sleeper),
        }
    }

    #[cold]
    fn await_next(&mut self, until_ns: u64, sleeper: &mut Sleeper) -> Option<(usize, u64)> {
        self.flush();
        sleeper.drive(|_| match self.inputs.look(until_ns) {
            Outlook::Arrival(producer, time_ns) => Step::Done(Some((producer, time_ns))),
            Outlook::None => Step::Done(None),
            Outlook::Open => {
                // A look may take a packet from another producer, who may wait for the room.
                self.inputs.flush();
                Step::Idle
            }
        })
    }

    #[inline]
    fn decide(&mut self, now_ns: u64, sleeper: &mut Sleeper) -> Option<Departure> {
        self.scheduler.decide(now_ns, &mut Drops { outlet: &mut self.outlet, sleeper })
    }

    #[inline]
    fn flush(&mut self) {
        self.inputs.flush();
        self.outlet.flush();
    }

    fn end(mut self) -> Ended<E> {
        Ended { counts: self.outlet.final_counts(), scheduler: self.scheduler }
    }
}

/// A packet arrives at the scheduler, or at a full queue.
#[inline]
fn arrive<E: DynScheduler + ?Sized>(
    scheduler: &mut E,
    time_ns: u64,
    offer: &Offer,
    outlet: &mut Outlet,
    sleeper: &mut Sleeper,
) {
    outlet.counts.taken += 1;
    if let Err(full) = scheduler.enqueue(time_ns, offer.stream, offer.packet) {
        outlet.drop(full, sleeper);
    }
}
