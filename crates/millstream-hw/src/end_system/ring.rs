//! Blocking single-producer single-consumer rings, on `rtrb`.
//!
//! Each end parks its thread while the ring is full or empty. The other end unparks it after each
//! change and when it is dropped. An unpark before the park makes the park return at once, and the
//! thread checks again: no wake-up is lost.

use crossbeam_utils::sync::{Parker, Unparker};

/// The other end was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

/// The sending end.
#[derive(Debug)]
pub struct Sender<T> {
    // Dropped before `peer`: the woken thread must find the ring abandoned.
    ring: rtrb::Producer<T>,
    parker: Parker,
    peer: Waker,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: rtrb::Consumer<T>,
    parker: Parker,
    peer: Waker,
}

/// Unparks the other end, a last time on drop.
#[derive(Debug)]
struct Waker(Unparker);

impl Drop for Waker {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

/// Creates a ring of `capacity` values.
#[must_use]
pub fn ring<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    let (sends, receives) = (Parker::new(), Parker::new());
    let (sender, receiver) = (sends.unparker().clone(), receives.unparker().clone());
    (
        Sender { ring: producer, parker: sends, peer: Waker(receiver) },
        Receiver { ring: consumer, parker: receives, peer: Waker(sender) },
    )
}

impl<T> Sender<T> {
    /// Sends `value`, blocking while the ring is full.
    ///
    /// # Errors
    /// If the receiver was dropped.
    pub fn send(&mut self, mut value: T) -> Result<(), Disconnected> {
        loop {
            if self.ring.is_abandoned() {
                return Err(Disconnected);
            }
            match self.ring.push(value) {
                Ok(()) => {
                    self.peer.0.unpark();
                    return Ok(());
                }
                Err(rtrb::PushError::Full(back)) => value = back,
            }
            self.parker.park();
        }
    }
}

impl<T> Receiver<T> {
    /// Returns a reference to the next value, blocking while the ring is empty.
    ///
    /// # Errors
    /// If the sender was dropped and the ring is empty.
    pub fn peek(&mut self) -> Result<&T, Disconnected> {
        loop {
            // Read first: everything sent before the drop is then visible below.
            let last = self.ring.is_abandoned();
            if !self.ring.is_empty() {
                return self.ring.peek().map_err(|_| Disconnected);
            }
            if last {
                return Err(Disconnected);
            }
            self.parker.park();
        }
    }

    /// Receives the next value, blocking while the ring is empty.
    ///
    /// # Errors
    /// If the sender was dropped and the ring is empty.
    pub fn receive(&mut self) -> Result<T, Disconnected> {
        self.peek()?;
        let value = self.ring.pop().map_err(|_| Disconnected)?;
        self.peer.0.unpark();
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn values_keep_their_order_in_a_ring_of_one() {
        let (mut sender, mut receiver) = ring(1);
        thread::scope(|threads| {
            threads.spawn(move || (0..10_000).for_each(|k| sender.send(k).expect("taken")));
            for k in 0..10_000 {
                assert_eq!(receiver.receive(), Ok(k));
            }
            assert_eq!(receiver.receive(), Err(Disconnected));
        });
    }

    #[test]
    fn a_blocked_sender_sees_the_dropped_receiver() {
        let (mut sender, receiver) = ring(1);
        thread::scope(|threads| {
            let sends = threads.spawn(move || (0..).find(|k| sender.send(*k).is_err()));
            drop(receiver);
            assert!(sends.join().expect("no panic").is_some());
        });
    }
}
