//! Loom models of the state that stages share in addition to their rings.
//!
//! A lost wake-up shows as a deadlock, which loom reports. A read before publication shows as a
//! failed assertion.

use crossbeam_utils::CachePadded;
use loom::thread;
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{Contract, Link, Packet, StreamId};
use millstream_sync::atomic::Arc;
use millstream_sync::channel::{Peer, channel};
use millstream_sync::waker::park::{Parker, Step};

use crate::counters::{Counters, Counts, ProducerStatus};
use crate::inputs::{Inputs, NextArrival};
use crate::pipeline::{Pipeline, Sizes};
use crate::producer::{Offer, Producer};

/// Runs `model` through its interleavings of at most `preemptions` preemptions.
///
/// Without the bound, most models of two threads that may park take hours.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // The environment can lower it (LOOM_MAX_PREEMPTIONS).
    let most = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(preemptions.min(most));
    builder.check(model);
}

/// Returns a producer of one-byte packets, with its ring and promise in `inputs`.
fn producer(inputs: &mut Inputs, engine: &Parker) -> Producer {
    let own = Parker::new();
    let status = Arc::new(CachePadded::new(ProducerStatus::default()));
    let (offers, taken) =
        channel::<Offer>(2, Peer::new(own.waker(), 1), Peer::new(engine.waker(), 1));
    inputs.add(taken, Arc::clone(&status));
    Producer::new(offers, own, status, 1)
}

/// A promise never overtakes the packet that was offered before it, and it wakes the scheduler.
#[test]
fn promises_do_not_overtake_packets() {
    check(3, || {
        let mut engine = Parker::new();
        let mut inputs = Inputs::default();
        let mut early = producer(&mut inputs, &engine);
        let promising = thread::spawn(move || {
            early.offer_at(5, StreamId(0), Packet::new(1)).unwrap();
            early.promise(10);
            early
        });
        let mut next = |inputs: &mut Inputs| {
            engine.drive(|_| match inputs.next_arrival(9) {
                NextArrival::Unknown => Step::Idle,
                known => Step::Done(known),
            })
        };
        assert_eq!(next(&mut inputs), NextArrival::Arrival(0, 5));
        assert!(inputs.take(0).is_some());
        assert_eq!(next(&mut inputs), NextArrival::None);
        promising.join().unwrap();
    });
}

/// Two producers are merged by stamps; at equal stamps the lower number is first.
#[test]
fn merged_by_stamps() {
    check(3, || {
        let mut engine = Parker::new();
        let mut inputs = Inputs::default();
        for time_ns in [7, 7] {
            let mut producer = producer(&mut inputs, &engine);
            thread::spawn(move || producer.offer_at(time_ns, StreamId(0), Packet::new(1)));
        }
        for expected in [NextArrival::Arrival(0, 7), NextArrival::Arrival(1, 7), NextArrival::None]
        {
            let next = engine.drive(|_| match inputs.next_arrival(u64::MAX) {
                NextArrival::Unknown => Step::Idle,
                known => Step::Done(known),
            });
            assert_eq!(next, expected);
            if let NextArrival::Arrival(number, _) = next {
                inputs.take(number);
            }
        }
    });
}

/// The counts never show that a packet left before the scheduler took it.
#[test]
fn counts_are_consistent() {
    check(3, || {
        let counters = Counters::new(Vec::new());
        let reader = counters.clone();
        let writing = thread::spawn(move || {
            let mut counts = Counts::default();
            for _ in 0..2 {
                counts.taken += 1;
                counts.sent += 1;
                counters.publish(&counts);
            }
        });
        let counts = reader.read();
        assert!(counts.sent <= counts.taken, "{counts:?}");
        writing.join().unwrap();
    });
}

/// All stages with the engine: a packet goes from the producer to the collector, then all stages
/// end.
#[test]
fn a_packet_through_all_stages() {
    check(1, || {
        let row = DisciplineRow::parse("fifo").unwrap();
        let mut scheduler = row.build(&Options::default(), StructureName::Scan);
        scheduler.add_stream(Contract::new()).unwrap();
        let sizes = Sizes { offers: 1, departures: 1, reclaims: 1, batch: 1 };
        let Pipeline { mut producers, scheduling, transmitter, collector, .. } =
            Pipeline::new(scheduler, 1, sizes);
        let mut producer = producers.pop().unwrap();
        thread::spawn(move || producer.offer_at(1, StreamId(0), Packet { bytes: 1, tag: 9 }));
        thread::spawn(move || transmitter.run(|departure| assert_eq!(departure.tag, 9)));
        let collecting = thread::spawn(move || {
            let mut collected = 0;
            collector.run(|_| collected += 1);
            collected
        });
        let ended = scheduling.run_stamped(Link::default());
        assert_eq!((ended.counts.taken, ended.counts.sent), (1, 1));
        assert_eq!(collecting.join().unwrap(), 1);
    });
}
