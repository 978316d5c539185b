//! Loom models of what the threads share (`scripts/concurrency.sh` runs them).
//!
//! A lost wake-up shows as a deadlock, which loom reports. A read before publication shows as a
//! failed assertion, or as a race on a slot of the ring's stand-in.

use crossbeam_utils::CachePadded;
use loom::thread;
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{Contract, Link, Packet, StreamId};

use crate::channel::{Peer, Received, Receiver, SendError, Sender, channel};
use crate::counters::{Counters, Counts, ProducerStatus};
use crate::inputs::{Inputs, NextArrival};
use crate::parker::{Parker, Step};
use crate::pipeline::{Pipeline, Sizes};
use crate::producer::{Offer, Producer};
use crate::sync::Arc;

/// Runs `model` through its interleavings of at most `preemptions` preemptions. Unbounded, most
/// models of two threads that may park take hours.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A channel whose ends wake each other once for up to `batch` values.
fn ends(capacity: usize, batch: usize, from: &Parker, to: &Parker) -> (Sender<u64>, Receiver<u64>) {
    channel(capacity, Peer::new(from.waker(), batch), Peer::new(to.waker(), batch))
}

/// Blocks until `value` is sent; `false` if the receiver was dropped.
fn send(sender: &mut Sender<u64>, parker: &mut Parker, value: u64) -> bool {
    parker.drive(|_| match sender.send(value) {
        Ok(()) => Step::Done(true),
        Err(SendError::Closed) => Step::Done(false),
        Err(SendError::Full) => {
            sender.flush();
            Step::Idle
        }
    })
}

/// Blocks until a value arrives or the sender ends.
fn receive(receiver: &mut Receiver<u64>, parker: &mut Parker) -> Option<u64> {
    parker.drive(|_| match receiver.receive() {
        Received::Value(value) => Step::Done(Some(value)),
        Received::Ended => Step::Done(None),
        Received::Empty => {
            receiver.flush();
            Step::Idle
        }
    })
}

/// Both ends of a ring block, for slots and for values, and the sender is dropped: all values
/// arrive in order, then the end.
fn both_ends_block(capacity: usize, batch: usize, values: u64) {
    check(3, move || {
        let (mut from, mut to) = (Parker::new(), Parker::new());
        let (mut sender, mut receiver) = ends(capacity, batch, &from, &to);
        let sending = thread::spawn(move || {
            for value in 0..values {
                assert!(send(&mut sender, &mut from, value));
            }
        });
        for value in 0..values {
            assert_eq!(receive(&mut receiver, &mut to), Some(value));
        }
        assert_eq!(receive(&mut receiver, &mut to), None);
        sending.join().unwrap();
    });
}

#[test]
fn a_ring_of_one_wakes_for_every_value() {
    both_ends_block(1, 1, 2);
}

#[test]
fn a_ring_of_two_wakes_once_for_two() {
    both_ends_block(2, 2, 3);
}

/// The receiver is dropped while the sender waits for a slot: the sender is told.
#[test]
fn a_sender_outlives_its_receiver() {
    check(3, || {
        let (mut from, to) = (Parker::new(), Parker::new());
        let (mut sender, receiver) = ends(1, 1, &from, &to);
        let sending = thread::spawn(move || {
            // The second finds the ring full: the first is never taken.
            send(&mut sender, &mut from, 0) && send(&mut sender, &mut from, 1)
        });
        drop(receiver);
        assert!(!sending.join().unwrap());
    });
}

/// Two stages wake one stage, as producers do; neither value is missed.
#[test]
fn two_stages_wake_one() {
    check(3, || {
        let mut to = Parker::new();
        let mut receivers = Vec::new();
        for value in 0..2 {
            let from = Parker::new();
            let (mut sender, receiver) = ends(1, 1, &from, &to);
            receivers.push(receiver);
            thread::spawn(move || sender.send(value));
        }
        let mut sum = 0;
        let mut ended = [false; 2];
        to.drive(|_| {
            let mut step = Step::Idle;
            for (receiver, ended) in receivers.iter_mut().zip(&mut ended) {
                match receiver.receive() {
                    Received::Value(value) => (sum, step) = (sum + value + 1, Step::Progress),
                    Received::Ended => *ended = true,
                    Received::Empty => {}
                }
            }
            if ended == [true; 2] { Step::Done(()) } else { step }
        });
        assert_eq!(sum, 3);
    });
}

/// A producer of one-byte packets, with its ring and promise in `inputs`.
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
        let mut look = |inputs: &mut Inputs| {
            engine.drive(|_| match inputs.next_arrival(9) {
                NextArrival::Unknown => Step::Idle,
                outlook => Step::Done(outlook),
            })
        };
        assert_eq!(look(&mut inputs), NextArrival::Arrival(0, 5));
        assert!(inputs.take(0).is_some());
        assert_eq!(look(&mut inputs), NextArrival::None);
        promising.join().unwrap();
    });
}

/// Two producers are merged by stamps, the lower number first at one instant.
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
            let outlook = engine.drive(|_| match inputs.next_arrival(u64::MAX) {
                NextArrival::Unknown => Step::Idle,
                outlook => Step::Done(outlook),
            });
            assert_eq!(outlook, expected);
            if let NextArrival::Arrival(number, _) = outlook {
                inputs.take(number);
            }
        }
    });
}

/// A reader of the counts never sees a packet leave before it was taken.
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
