//! No stage allocates for a packet in the steady state.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

#[path = "../../millstream/tests/support/allocations.rs"]
mod allocations;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use millstream::{Contract, Fifo, Heap, Packet, Scheduler, StreamId};
use millstream_pipeline::{Monotonic, OfferError, Pipeline, Producer, Sizes};

const STREAMS: u32 = 64;
const QUEUE: u32 = 32;

/// Offers `count` packets, then waits until every accepted packet is reclaimed.
fn offer_and_drain(producer: &mut Producer, count: u32, reclaimed: &AtomicU64) {
    for number in 0..count {
        let stream = StreamId(number % STREAMS);
        while producer.offer(stream, Packet::new(100)) == Err(OfferError::Full) {
            producer.wait_for_room().unwrap();
        }
    }
    while reclaimed.load(Ordering::Acquire) < producer.accepted() {
        thread::yield_now();
    }
}

#[test]
fn nothing_is_allocated_once_warm() {
    // The streams have no deadlines: the number of concurrent misses, and so memory, would depend
    // on the threads.
    let mut scheduler = Scheduler::new(Fifo, Heap::default());
    for _ in 0..STREAMS {
        scheduler.add_stream(Contract::new().queue(QUEUE)).unwrap();
    }
    // Fills every queue once, so that its memory is allocated.
    for number in 0..STREAMS * QUEUE {
        scheduler.enqueue(0, StreamId(number % STREAMS), Packet::new(100)).unwrap();
    }
    while scheduler.decide(0, &mut ()).is_some() {}
    let pipeline = Pipeline::new(Box::new(scheduler), 1, Sizes::default());
    let Pipeline { mut producers, scheduling, transmitter, collector, .. } = pipeline;
    let reclaimed = AtomicU64::new(0);
    thread::scope(|threads| {
        threads.spawn(|| transmitter.run(|_| ()));
        threads.spawn(|| {
            collector.run(|_| {
                reclaimed.fetch_add(1, Ordering::Release);
            });
        });
        threads.spawn(|| {
            let mut producer = producers.remove(0);
            offer_and_drain(&mut producer, 20_000, &reclaimed);
            let warm = allocations::all_allocations();
            offer_and_drain(&mut producer, 200_000, &reclaimed);
            assert_eq!(allocations::all_allocations(), warm);
        });
        scheduling.run(&mut Monotonic::default());
    });
    assert_eq!(reclaimed.into_inner(), 220_000);
}
