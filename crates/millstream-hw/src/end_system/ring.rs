//! Single-producer single-consumer rings, `rtrb`'s, that a thread can wait at.
//!
//! Each end has a place where its thread sleeps while there is no room, or no value; the other end
//! wakes it after each change, and when it is dropped. A wake-up before the sleep ends the sleep at
//! once, and the sleeper looks again, so none is lost.

use crossbeam_utils::sync::{Parker, Unparker};

/// The other end is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Where values go in.
#[derive(Debug)]
pub struct Sender<T> {
    // Before `peer`: whoever is woken finds the ring abandoned.
    ring: rtrb::Producer<T>,
    here: Parker,
    peer: Wake,
}

/// Where they come out.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: rtrb::Consumer<T>,
    here: Parker,
    peer: Wake,
}

/// Wakes the other end, for the last time when it is dropped.
#[derive(Debug)]
struct Wake(Unparker);

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

/// A ring of `capacity` values.
#[must_use]
pub fn ring<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    let (sends, receives) = (Parker::new(), Parker::new());
    let (sender, receiver) = (sends.unparker().clone(), receives.unparker().clone());
    (
        Sender { ring: producer, here: sends, peer: Wake(receiver) },
        Receiver { ring: consumer, here: receives, peer: Wake(sender) },
    )
}

impl<T> Sender<T> {
    /// Puts `value` in as soon as there is room.
    ///
    /// # Errors
    /// If nobody will take it.
    pub fn send(&mut self, mut value: T) -> Result<(), Gone> {
        loop {
            if self.ring.is_abandoned() {
                return Err(Gone);
            }
            match self.ring.push(value) {
                Ok(()) => {
                    self.peer.0.unpark();
                    return Ok(());
                }
                Err(rtrb::PushError::Full(back)) => value = back,
            }
            self.here.park();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for the next value and shows it.
    ///
    /// # Errors
    /// If none will come.
    pub fn peek(&mut self) -> Result<&T, Gone> {
        loop {
            // Asked first: what was sent before the sender went is there then.
            let last = self.ring.is_abandoned();
            if !self.ring.is_empty() {
                return self.ring.peek().map_err(|_| Gone);
            }
            if last {
                return Err(Gone);
            }
            self.here.park();
        }
    }

    /// Waits for the next value and takes it.
    ///
    /// # Errors
    /// If none will come.
    pub fn receive(&mut self) -> Result<T, Gone> {
        self.peek()?;
        let value = self.ring.pop().map_err(|_| Gone)?;
        self.peer.0.unpark();
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn values_come_in_order_through_a_ring_that_is_always_full_or_empty() {
        let (mut sender, mut receiver) = ring(1);
        thread::scope(|threads| {
            threads.spawn(move || (0..10_000).for_each(|k| sender.send(k).expect("taken")));
            for k in 0..10_000 {
                assert_eq!(receiver.receive(), Ok(k));
            }
            assert_eq!(receiver.receive(), Err(Gone));
        });
    }

    #[test]
    fn a_sender_that_waits_for_room_is_told_that_the_receiver_is_gone() {
        let (mut sender, receiver) = ring(1);
        thread::scope(|threads| {
            let sends = threads.spawn(move || (0..).find(|k| sender.send(*k).is_err()));
            drop(receiver);
            assert!(sends.join().expect("no panic").is_some());
        });
    }
}
