//! Real threads at full speed: no packet is lost, and streams keep their order.
//!
//! `MILLSTREAM_STRESS_PACKETS` sets the number of packets (default 200,000).

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::thread;

use millstream::{
    Contract, Dwcs, EdfFirst, Event, Heap, Late, Packet, Scheduler, StreamId, Window,
};
use millstream_pipeline::{Monotonic, OfferError, Pipeline, Sizes};

const STREAMS: u32 = 8;
const PRODUCERS: usize = 2;

fn packets() -> u64 {
    std::env::var("MILLSTREAM_STRESS_PACKETS").map_or(200_000, |text| text.parse().unwrap())
}

#[test]
fn nothing_is_lost_and_streams_keep_their_order() {
    let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), Heap::default());
    for number in 0..STREAMS {
        let late = if number % 2 == 0 { Late::Drop } else { Late::Send };
        let contract = Contract::new().period_ns(20_000).unwrap().late(late).queue(300);
        scheduler.add_stream(contract.window(Window::new(1, 3).unwrap())).unwrap();
    }
    let pipeline = Pipeline::new(Box::new(scheduler), PRODUCERS, Sizes::default());
    let Pipeline { producers, scheduling, transmitter, collector, counters } = pipeline;
    let each = packets() / PRODUCERS as u64;
    thread::scope(|threads| {
        let mut offering = Vec::new();
        for (number, mut producer) in producers.into_iter().enumerate() {
            offering.push(threads.spawn(move || {
                for count in 0..each {
                    let tag = count * PRODUCERS as u64 + number as u64;
                    // Each stream has one producer, so its order is known.
                    let kind = u32::try_from(count % u64::from(STREAMS) / 2).unwrap();
                    let stream = StreamId(2 * kind + u32::try_from(number).unwrap());
                    while let Err(error) = producer.offer(stream, Packet { bytes: 100, tag }) {
                        assert_eq!(error, OfferError::Full);
                        producer.wait_for_room().unwrap();
                    }
                }
                (producer.accepted(), producer.refused())
            }));
        }
        let sent = threads.spawn(|| {
            let mut last = [None; STREAMS as usize];
            let mut sent = 0_u64;
            transmitter.run(|departure| {
                let last = &mut last[departure.stream.index()];
                assert!(*last < Some((departure.packet, departure.tag)), "{departure:?}");
                *last = Some((departure.packet, departure.tag));
                sent += 1;
            });
            sent
        });
        let collected = threads.spawn(|| {
            let mut tags = HashSet::new();
            let mut dropped = 0_u64;
            collector.run(|departure| {
                assert!(tags.insert(departure.tag), "collected twice: {departure:?}");
                dropped += u64::from(departure.event != Event::Sent);
            });
            (tags.len() as u64, dropped)
        });
        let reader = threads.spawn(|| {
            for _ in 0..1000 {
                let counts = counters.read();
                assert!(counts.taken >= counts.sent + counts.dropped_late + counts.dropped_full);
                thread::yield_now();
            }
        });
        let counts = scheduling.run(&mut Monotonic::default()).counts;
        let offered: Vec<_> = offering.into_iter().map(|thread| thread.join().unwrap()).collect();
        let (collected, dropped) = collected.join().unwrap();
        reader.join().unwrap();
        assert_eq!(offered.iter().map(|(accepted, _)| accepted).sum::<u64>(), counts.taken);
        assert_eq!(offered.iter().map(|(_, refused)| refused).sum::<u64>(), counts.refused);
        assert_eq!(counts.taken, each * PRODUCERS as u64);
        assert_eq!(sent.join().unwrap(), counts.sent);
        assert_eq!(dropped, counts.dropped_late + counts.dropped_full);
        assert_eq!((collected, counts.waiting()), (counts.taken, 0));
    });
}
