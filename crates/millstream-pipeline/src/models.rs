//! Models of what threads share, run by loom through their interleavings (`scripts/concurrency.sh`).
//!
//! A lost wake-up shows as a deadlock, which loom reports; a read of what is not published yet as a
//! failed assertion, or as a race on a slot of the ring's stand-in.

use crossbeam_utils::CachePadded;
use loom::thread;
use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{Contract, Link, Packet, StreamId};

use crate::parker::{Sleeper, Step};
use crate::channel::{End, Received, Receiver, SendError, Sender, channel};
use crate::counters::{Aside, Counters, Counts};
use crate::inputs::{Inputs, Outlook};
use crate::pipeline::{Pipeline, Sizes};
use crate::producer::{Offer, Producer};
use crate::sync::Arc;

/// Runs `model` through its interleavings of at most so many preemptions: unbounded, most models of
/// two threads that may sleep take hours.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A channel whose ends ring once for up to `batch` values.
fn ends(
    capacity: usize,
    batch: usize,
    from: &Sleeper,
    to: &Sleeper,
) -> (Sender<u64>, Receiver<u64>) {
    channel(capacity, End::new(from.bell(), batch), End::new(to.bell(), batch))
}

/// Sleeps until `value` is sent; `false` if nobody receives any more.
fn send(sender: &mut Sender<u64>, sleeper: &mut Sleeper, value: u64) -> bool {
    sleeper.drive(|_| match sender.send(value) {
        Ok(()) => Step::Done(true),
        Err(SendError::Closed) => Step::Done(false),
        Err(SendError::Full) => {
            sender.flush();
            Step::Idle
        }
    })
}

/// Sleeps until there is a value or will be none.
fn receive(receiver: &mut Receiver<u64>, sleeper: &mut Sleeper) -> Option<u64> {
    sleeper.drive(|_| match receiver.receive() {
        Received::Value(value) => Step::Done(Some(value)),
        Received::Ended => Step::Done(None),
        Received::Empty => {
            receiver.flush();
            Step::Idle
        }
    })
}

/// Both ends of a ring sleep, for room and for values, and the sender goes: all values arrive, in
/// order, and then the end.
fn both_ends_sleep(capacity: usize, batch: usize, values: u64) {
    check(3, move || {
        let (mut from, mut to) = (Sleeper::new(), Sleeper::new());
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
fn a_ring_of_one_rung_for_every_value() {
    both_ends_sleep(1, 1, 2);
}

#[test]
fn a_ring_of_two_rung_once_for_two() {
    both_ends_sleep(2, 2, 3);
}

/// The receiver goes while the sender waits for room: the sender hears of it.
#[test]
fn a_sender_outlives_its_receiver() {
    check(3, || {
        let (mut from, to) = (Sleeper::new(), Sleeper::new());
        let (mut sender, receiver) = ends(1, 1, &from, &to);
        let sending = thread::spawn(move || {
            // The second finds the ring full, for nobody takes the first.
            send(&mut sender, &mut from, 0) && send(&mut sender, &mut from, 1)
        });
        drop(receiver);
        assert!(!sending.join().unwrap());
    });
}

/// Two stages ring one bell, as producers do; neither's value is slept over.
#[test]
fn two_ringers_of_one_bell() {
    check(3, || {
        let mut to = Sleeper::new();
        let mut receivers = Vec::new();
        for value in 0..2 {
            let from = Sleeper::new();
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

/// A producer of one-byte packets, and its ring and promise in `inputs`.
fn producer(inputs: &mut Inputs, engine: &Sleeper) -> Producer {
    let own = Sleeper::new();
    let aside = Arc::new(CachePadded::new(Aside::default()));
    let (offers, taken) = channel::<Offer>(2, End::new(own.bell(), 1), End::new(engine.bell(), 1));
    inputs.add(taken, Arc::clone(&aside));
    Producer::new(offers, own, aside, 1)
}

/// A promise never overtakes the packet that was offered before it, and it wakes whoever waits.
#[test]
fn promises_do_not_overtake_packets() {
    check(3, || {
        let mut engine = Sleeper::new();
        let mut inputs = Inputs::default();
        let mut early = producer(&mut inputs, &engine);
        let promising = thread::spawn(move || {
            early.offer_at(5, StreamId(0), Packet::new(1)).unwrap();
            early.promise(10);
            early
        });
        let mut look = |inputs: &mut Inputs| {
            engine.drive(|_| match inputs.look(9) {
                Outlook::Open => Step::Idle,
                outlook => Step::Done(outlook),
            })
        };
        assert_eq!(look(&mut inputs), Outlook::Arrival(0, 5));
        assert!(inputs.take(0).is_some());
        assert_eq!(look(&mut inputs), Outlook::None);
        promising.join().unwrap();
    });
}

/// The merge of two producers is that of their stamps, the lower number first at one instant.
#[test]
fn merged_by_stamps() {
    check(3, || {
        let mut engine = Sleeper::new();
        let mut inputs = Inputs::default();
        for time_ns in [7, 7] {
            let mut producer = producer(&mut inputs, &engine);
            thread::spawn(move || producer.offer_at(time_ns, StreamId(0), Packet::new(1)));
        }
        for expected in [Outlook::Arrival(0, 7), Outlook::Arrival(1, 7), Outlook::None] {
            let outlook = engine.drive(|_| match inputs.look(u64::MAX) {
                Outlook::Open => Step::Idle,
                outlook => Step::Done(outlook),
            });
            assert_eq!(outlook, expected);
            if let Outlook::Arrival(number, _) = outlook {
                inputs.take(number);
            }
        }
    });
}

/// Whoever reads the counts never sees a packet leave before it came.
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

/// All stages at once, with the engine: a packet goes from the producer to the collector, the rest
/// ends.
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
