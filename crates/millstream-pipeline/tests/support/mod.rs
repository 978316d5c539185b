//! The single-threaded reference schedule, and a driver that runs a pipeline on threads.

#![allow(dead_code, clippy::unwrap_used)]

use std::thread;

use millstream::catalogue::DynScheduler;
use millstream::{Departure, Event, Link, Packet, StreamId, selector::Observer};
use millstream_pipeline::{Ended, OfferError, Pipeline, Producer, Sizes};

pub(crate) type Engine = dyn DynScheduler + Send;

/// A packet with its stamp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) time_ns: u64,
    pub(crate) stream: StreamId,
    pub(crate) packet: Packet,
}

/// The packets that left a scheduler, and the number that still wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) sent: Vec<Departure>,
    pub(crate) dropped: Vec<Departure>,
    pub(crate) waiting: u64,
}

impl Observer for Outcome {
    fn dropped(&mut self, departure: &Departure) {
        self.dropped.push(*departure);
    }
}

/// Returns the reference schedule: one thread, merged arrivals, one link.
pub(crate) fn single_threaded(scheduler: &mut Engine, arrivals: &[Arrival], link: Link) -> Outcome {
    let mut outcome = Outcome::default();
    let mut arrivals = arrivals.iter().copied().peekable();
    let mut now_ns = 0;
    loop {
        if scheduler.total_waiting() == 0 {
            let Some(next) = arrivals.peek() else { break };
            if next.time_ns > now_ns {
                scheduler.decide(now_ns, &mut outcome);
                now_ns = next.time_ns;
            }
        }
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.time_ns <= now_ns) {
            let full = scheduler.enqueue(arrival.time_ns, arrival.stream, arrival.packet);
            outcome.dropped.extend(full.err());
        }
        if let Some(departure) = scheduler.decide(now_ns, &mut outcome) {
            now_ns += link.transmission_ns(departure.bytes);
            outcome.sent.push(departure);
        } else if scheduler.total_waiting() > 0 {
            let arrives = arrivals.peek().map(|next| next.time_ns);
            let Some(event_ns) = arrives.into_iter().chain(scheduler.next_eligible_ns()).min()
            else {
                break;
            };
            now_ns = now_ns.max(event_ns);
        }
    }
    outcome.waiting = scheduler.total_waiting();
    outcome
}

/// Returns all arrivals in the order in which the pipeline must merge them.
pub(crate) fn merged(split: &[Vec<Arrival>]) -> Vec<Arrival> {
    let mut all: Vec<_> = split.concat();
    // A stable sort: at equal times the lower producer is first, then the order of its offers.
    all.sort_by_key(|arrival| arrival.time_ns);
    all
}

/// Offers a packet until it is accepted.
pub(crate) fn offer_until_accepted(producer: &mut Producer, arrival: &Arrival) {
    while producer.offer_at(arrival.time_ns, arrival.stream, arrival.packet)
        == Err(OfferError::Full)
    {
        producer.wait_for_room().unwrap();
    }
}

/// Runs the arrivals through a pipeline, with one thread for each producer and stage.
pub(crate) fn pipelined(
    scheduler: Box<Engine>,
    split: &[Vec<Arrival>],
    link: Link,
    sizes: Sizes,
) -> (Outcome, Ended<Engine>) {
    let pipeline = Pipeline::new(scheduler, split.len(), sizes);
    let Pipeline { producers, scheduling, transmitter, collector, counters } = pipeline;
    thread::scope(|threads| {
        for (mut producer, arrivals) in producers.into_iter().zip(split) {
            threads.spawn(move || {
                for arrival in arrivals {
                    offer_until_accepted(&mut producer, arrival);
                }
            });
        }
        let sent = threads.spawn(|| {
            let mut sent = Vec::new();
            transmitter.run(|departure| sent.push(*departure));
            sent
        });
        let collected = threads.spawn(|| {
            let mut collected = Vec::new();
            collector.run(|departure| collected.push(*departure));
            collected
        });
        let ended = scheduling.run_stamped(link);
        let collected = collected.join().unwrap();
        let by_event = |sent| move |departure: &Departure| (departure.event == Event::Sent) == sent;
        let dropped = collected.iter().copied().filter(by_event(false)).collect();
        let sent = sent.join().unwrap();
        assert!(collected.into_iter().filter(by_event(true)).eq(sent.iter().copied()));
        assert_eq!(counters.read(), ended.counts);
        (Outcome { sent, dropped, waiting: ended.scheduler.total_waiting() }, ended)
    })
}
