//! Loom models of what threads share (`scripts/concurrency.sh` runs them).
//!
//! A lost wake-up shows as a deadlock, which loom reports. A read before publication shows as a
//! failed assertion, or as a race on a slot of the ring's stand-in.

use loom::cell::Cell;
use loom::thread;

use crate::atomic::{Arc, AtomicU64};
use crate::blocking::with_batch;
use crate::channel::{Peer, Received, channel};
use crate::ring::ring;
use crate::ring::shared::{self, Ring};
use crate::ring::slots::slots;
use crate::waker::eventfd;
use crate::waker::park::{Parker, Step};

/// Runs `model` through its interleavings of at most `preemptions` preemptions. Unbounded, most
/// models of two threads that may park take hours.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // The environment can lower it (LOOM_MAX_PREEMPTIONS).
    let most = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(preemptions.min(most));
    builder.check(model);
}

/// Both ends of a channel block, for slots and for values, and the sender is dropped: all values
/// arrive in order, then the end. The ends wake each other once for up to `batch` values.
fn both_ends_block(capacity: usize, batch: usize, values: u64) {
    check(3, move || {
        let (mut sender, mut receiver) = with_batch(capacity, batch);
        let sending = thread::spawn(move || {
            for value in 0..values {
                sender.send(value).unwrap();
            }
        });
        for value in 0..values {
            assert_eq!(receiver.receive(), Ok(value));
        }
        assert!(receiver.receive().is_err());
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

/// The receiver is dropped while the sender waits for a slot: the sender gets an error.
#[test]
fn a_sender_outlives_its_receiver() {
    check(3, || {
        let (mut sender, receiver) = with_batch(1, 1);
        let sending = thread::spawn(move || {
            // The second finds the ring full: the first is never taken.
            sender.send(0).is_ok() && sender.send(1).is_ok()
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
            let [sends, receives] = [&from, &to].map(|of| Peer::new(of.waker(), 1));
            let (mut sender, receiver) = channel(1, sends, receives);
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

/// A core sleeps on its event whenever its ring is empty: it takes every value and every command.
#[test]
fn an_event_wakes_for_values_and_commands() {
    check(3, || {
        let waker = Arc::new(eventfd::Waker::new().unwrap());
        let (mut producer, mut consumer) = ring(2);
        let other = Arc::clone(&waker);
        thread::spawn(move || {
            for value in 0..2 {
                producer.push(value).unwrap();
                other.wake();
            }
            other.command();
        });
        let (mut taken, mut ordered) = (0, false);
        loop {
            ordered |= waker.command_pending();
            while let Ok(value) = consumer.pop() {
                assert_eq!(value, taken);
                taken += 1;
            }
            if taken == 2 && ordered {
                break;
            }
            if waker.begin_sleep() && consumer.is_empty() {
                waker.wait(u64::MAX);
            }
            waker.end_sleep();
        }
    });
}

/// Yields until `step` returns a value.
fn until_some<T>(mut step: impl FnMut() -> Option<T>) -> T {
    loop {
        match step() {
            Some(value) => return value,
            None => thread::yield_now(),
        }
    }
}

/// The only slot goes to and fro: every value is read whole and in order.
#[test]
fn a_slot_is_filled_again_once_it_was_read() {
    check(3, || {
        let (mut sender, mut receiver) = slots(1, || Cell::new(0));
        thread::spawn(move || {
            for value in 1..=3 {
                until_some(|| sender.send(|slot| slot.set(value)).then_some(()));
            }
        });
        for value in 1..=3 {
            assert_eq!(until_some(|| receiver.receive(Cell::get)), value);
        }
    });
}

/// Messages in memory of two processes are read whole and in order.
#[test]
fn messages_between_processes_are_whole() {
    check(3, || {
        let words: Vec<_> = (0..shared::words(1)).map(|_| AtomicU64::new(0)).collect();
        let ring = Ring::new(words.leak());
        thread::spawn(move || {
            for number in 1..=3 {
                until_some(|| ring.push([number; shared::MESSAGE]).then_some(()));
            }
        });
        for number in 1..=3 {
            assert_eq!(until_some(|| ring.pop()), [number; shared::MESSAGE]);
        }
    });
}
