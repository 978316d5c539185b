//! The second stage: the engine's thread.

use std::time::Duration;

use millstream::catalogue::DynScheduler;
use millstream::{Departure, Link};
use millstream_sync::clock::Clock;
use millstream_sync::waker::park::{Parker, Step};

use crate::counters::Counts;
use crate::inputs::{Inputs, NextArrival};
use crate::packet_sender::{DropReporter, PacketSender};
use crate::producer::Offer;

/// The result of a scheduler's run.
#[derive(Debug)]
pub struct Ended<E: ?Sized> {
    /// Packets by outcome. Packets still [waiting](Counts::waiting) can never become eligible, or
    /// the transmitter was dropped.
    pub counts: Counts,
    /// The scheduler, with its queued packets.
    pub scheduler: Box<E>,
}

/// Takes packets from the producers, decides, and sends departures to the transmitter and drops to
/// the collector.
///
/// It runs on one thread until every producer is dropped and all packets have left, or until the
/// transmitter is dropped.
#[derive(Debug)]
pub struct Scheduling<E: ?Sized> {
    stage: SchedulerStage<E>,
    parker: Parker,
}

/// The scheduler with its input and output.
#[derive(Debug)]
struct SchedulerStage<E: ?Sized> {
    inputs: Inputs,
    output: PacketSender,
    batch: usize,
    /// The latest arrival or iteration, ns.
    now_ns: u64,
    scheduler: Box<E>,
}

impl<E: DynScheduler + ?Sized> Scheduling<E> {
    pub(crate) fn new(
        scheduler: Box<E>,
        inputs: Inputs,
        output: PacketSender,
        parker: Parker,
        batch: usize,
    ) -> Self {
        Self { stage: SchedulerStage { inputs, output, batch, now_ns: 0, scheduler }, parker }
    }

    /// Schedules packets in real time: they arrive when they are taken, and depart as fast as the
    /// transmitter takes them.
    ///
    /// An iteration reads `clock` once, then takes up to a batch from every producer in rotation.
    /// It then decides up to a batch of departures, limited by the free slots of the transmitter's
    /// ring. Packets of one instant arrive in the order in which they are taken. A stamp refines
    /// the arrival time, not this order: it is clamped between the previous arrival and now.
    pub fn run(self, clock: &mut impl Clock) -> Ended<E> {
        let Self { mut stage, mut parker } = self;
        parker.drive(|parker| {
            let step = stage.iterate(parker, clock);
            stage.flush();
            step
        });
        stage.end()
    }

    /// Schedules packets in simulated time: they arrive at their stamps and depart over `link`.
    ///
    /// Arrivals of all producers are merged by time. Ties go to the producer with the lower number,
    /// then to the order of offers. A decision is made whenever the link is free and a packet
    /// waits, after all arrivals up to that instant. The schedule depends on the stamps alone: it
    /// equals that of one thread that enqueues the merged arrivals.
    ///
    /// It blocks while a producer could still send an earlier packet. A producer that is silent for
    /// long must [promise](crate::Producer::promise) or be dropped. A thread that feeds several
    /// producers must not block on one of them.
    pub fn run_stamped(self, link: Link) -> Ended<E> {
        let Self { mut stage, mut parker } = self;
        stage.iterate_stamped(link, &mut parker);
        stage.end()
    }
}

impl<E: DynScheduler + ?Sized> SchedulerStage<E> {
    /// Runs one iteration of [`Scheduling::run`].
    fn iterate(&mut self, parker: &mut Parker, clock: &mut impl Clock) -> Step<()> {
        if self.output.is_closed() {
            return Step::Done(());
        }
        let now_ns = clock.now_ns().max(self.now_ns);
        let Self { inputs, output, scheduler, now_ns: last_ns, .. } = self;
        let taken = inputs.take_round_robin(self.batch, |offer| {
            let stamp_ns = if offer.stamped { offer.time_ns } else { now_ns };
            *last_ns = stamp_ns.clamp(*last_ns, now_ns);
            arrive(scheduler.as_mut(), *last_ns, &offer, output, parker);
        });
        self.now_ns = now_ns;
        let before = self.output.counts;
        let free = self.output.free_slots();
        for _ in 0..free.min(self.batch) {
            if self.scheduler.total_waiting() == 0 {
                break;
            }
            let Some(departure) = self.decide(now_ns, parker) else { break };
            self.output.send(departure, parker);
        }
        if taken > 0 || self.output.counts != before {
            return Step::Progress;
        }
        let ended = self.inputs.have_ended();
        if self.scheduler.total_waiting() == 0 {
            if ended {
                return Step::Done(());
            }
            if self.output.is_drained() {
                // The link is free with an empty backlog: this call ends the busy period.
                self.decide(now_ns, parker);
            }
            return Step::Idle;
        }
        if free == 0 {
            return Step::Idle;
        }
        match self.scheduler.next_eligible_ns() {
            Some(from_ns) => Step::IdleFor(Duration::from_nanos(from_ns.saturating_sub(now_ns))),
            // No waiting packet can become eligible.
            None if ended => Step::Done(()),
            None => Step::Idle,
        }
    }

    /// Implements [`Scheduling::run_stamped`].
    fn iterate_stamped(&mut self, link: Link, parker: &mut Parker) {
        let mut free_ns = 0;
        loop {
            if self.scheduler.total_waiting() == 0 {
                let Some((_, arrival_ns)) = self.next_arrival(u64::MAX, parker) else { break };
                if arrival_ns > free_ns {
                    // The link is free with an empty backlog: this call ends the busy period.
                    self.decide(free_ns, parker);
                }
                free_ns = free_ns.max(arrival_ns);
            }
            while let Some((producer, arrival_ns)) = self.next_arrival(free_ns, parker) {
                if let Some(offer) = self.inputs.take(producer) {
                    let Self { output, scheduler, .. } = self;
                    arrive(scheduler.as_mut(), arrival_ns, &offer, output, parker);
                }
            }
            if let Some(departure) = self.decide(free_ns, parker) {
                free_ns = free_ns.saturating_add(link.transmission_ns(departure.bytes));
                if !self.output.send(departure, parker) {
                    break;
                }
                self.output.publish();
            } else if self.scheduler.total_waiting() > 0 {
                // No waiting packet is eligible: advance to the next gate opening or arrival.
                let opens_ns = self.scheduler.next_eligible_ns();
                let arrives = self.next_arrival(opens_ns.unwrap_or(u64::MAX), parker);
                match arrives.map(|(_, arrival_ns)| arrival_ns).or(opens_ns) {
                    Some(event_ns) => free_ns = free_ns.max(event_ns),
                    None => break,
                }
            }
        }
    }

    /// Blocks until the next arrival up to `until_ns` is known: its producer and time, or `None`.
    #[inline]
    fn next_arrival(&mut self, until_ns: u64, parker: &mut Parker) -> Option<(usize, u64)> {
        match self.inputs.next_arrival(until_ns) {
            NextArrival::Arrival(producer, time_ns) => Some((producer, time_ns)),
            NextArrival::None => None,
            NextArrival::Unknown => self.await_arrival(until_ns, parker),
        }
    }

    #[cold]
    fn await_arrival(&mut self, until_ns: u64, parker: &mut Parker) -> Option<(usize, u64)> {
        self.flush();
        parker.drive(|_| match self.inputs.next_arrival(until_ns) {
            NextArrival::Arrival(producer, time_ns) => Step::Done(Some((producer, time_ns))),
            NextArrival::None => Step::Done(None),
            NextArrival::Unknown => {
                // The check may have freed a slot that another producer waits for.
                self.inputs.flush();
                Step::Idle
            }
        })
    }

    #[inline]
    fn decide(&mut self, now_ns: u64, parker: &mut Parker) -> Option<Departure> {
        self.scheduler.decide(now_ns, &mut DropReporter { output: &mut self.output, parker })
    }

    #[inline]
    fn flush(&mut self) {
        self.inputs.flush();
        self.output.flush();
    }

    fn end(mut self) -> Ended<E> {
        Ended { counts: self.output.final_counts(), scheduler: self.scheduler }
    }
}

/// Enqueues a packet, or counts it as dropped if its queue is full.
#[inline]
fn arrive<E: DynScheduler + ?Sized>(
    scheduler: &mut E,
    time_ns: u64,
    offer: &Offer,
    output: &mut PacketSender,
    parker: &mut Parker,
) {
    output.counts.taken += 1;
    if let Err(full) = scheduler.enqueue(time_ns, offer.stream, offer.packet) {
        output.drop(full, parker);
    }
}
