//! A channel whose ends block, for threads that wait at one ring at a time.
//!
//! A thread with several rings uses [`crate::channel`] and parks itself.

use crate::channel::{self, Peer, Received};
use crate::waker::park::{Parker, Step};

/// The other end was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

/// The sending end.
#[derive(Debug)]
pub struct Sender<T> {
    ring: channel::Sender<T>,
    parker: Parker,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: channel::Receiver<T>,
    parker: Parker,
    peeked: Option<T>,
}

/// Creates a channel of `capacity` values (at least one). Each value and each free slot wakes the
/// other end.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    with_batch(capacity, 1)
}

/// Creates a channel. Its ends wake each other after `batch` changes, and before they block.
pub(crate) fn with_batch<T>(capacity: usize, batch: usize) -> (Sender<T>, Receiver<T>) {
    let (from, to) = (Parker::new(), Parker::new());
    let [sends, receives] = [&from, &to].map(|of| Peer::new(of.waker(), batch));
    let (sender, receiver) = channel::channel(capacity, sends, receives);
    (Sender { ring: sender, parker: from }, Receiver { ring: receiver, parker: to, peeked: None })
}

impl<T> Sender<T> {
    /// Sends `value`, blocking while the ring is full.
    ///
    /// # Errors
    /// Fails if the receiver was dropped.
    pub fn send(&mut self, value: T) -> Result<(), Disconnected> {
        let Self { ring, parker } = self;
        let mut value = Some(value);
        parker.drive(|_| {
            if ring.is_closed() {
                return Step::Done(Err(Disconnected));
            }
            if ring.is_full() {
                ring.flush();
                return Step::Idle;
            }
            // There is a slot: only this end fills them.
            let sent = value.take().is_none_or(|value| ring.push(value));
            debug_assert!(sent);
            Step::Done(Ok(()))
        })
    }
}

impl<T> Receiver<T> {
    /// Returns a reference to the next value, blocking while the ring is empty. Its slot is free.
    ///
    /// # Errors
    /// Fails if the sender was dropped and the ring is empty.
    pub fn peek(&mut self) -> Result<&T, Disconnected> {
        let value = self.receive()?;
        Ok(self.peeked.insert(value))
    }

    /// Receives the next value, blocking while the ring is empty.
    ///
    /// # Errors
    /// Fails if the sender was dropped and the ring is empty.
    pub fn receive(&mut self) -> Result<T, Disconnected> {
        if let Some(value) = self.peeked.take() {
            return Ok(value);
        }
        let Self { ring, parker, .. } = self;
        parker.drive(|_| match ring.receive() {
            Received::Value(value) => Step::Done(Ok(value)),
            Received::Ended => Step::Done(Err(Disconnected)),
            Received::Empty => {
                ring.flush();
                Step::Idle
            }
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn values_keep_their_order_in_a_ring_of_one() {
        let (mut sender, mut receiver) = channel(1);
        thread::scope(|threads| {
            threads.spawn(move || (0..10_000).for_each(|k| sender.send(k).expect("taken")));
            for k in 0..10_000 {
                assert_eq!(receiver.receive(), Ok(k));
            }
            assert_eq!(receiver.receive(), Err(Disconnected));
        });
    }

    #[test]
    fn a_peeked_value_is_received_once() {
        let (mut sender, mut receiver) = channel(1);
        sender.send(1).expect("there is room");
        assert_eq!(receiver.peek(), Ok(&1));
        assert_eq!(receiver.peek(), Ok(&1));
        drop(sender);
        assert_eq!(receiver.receive(), Ok(1));
        assert_eq!(receiver.peek(), Err(Disconnected));
    }

    #[test]
    fn a_blocked_sender_sees_the_dropped_receiver() {
        let (mut sender, receiver) = channel(1);
        thread::scope(|threads| {
            let sends = threads.spawn(move || (0..).find(|k| sender.send(*k).is_err()));
            drop(receiver);
            assert!(sends.join().expect("no panic").is_some());
        });
    }
}
