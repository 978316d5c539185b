//! A ring between two stages. Each end wakes the other's stage after changes.
//!
//! Wake-ups are sent once per batch and before a stage parks, not for every value. A dropped end
//! wakes its peer a last time.

use crate::ring::{self, Consumer, Producer};
use crate::waker::park::Waker;

/// Why a value was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The ring is full.
    Full,
    /// The receiver was dropped.
    Closed,
}

/// The stage at the other end of a ring: its waker, called once for up to `batch` changes.
#[derive(Debug)]
pub struct Peer {
    waker: Waker,
    batch: usize,
    pending: usize,
}

impl Peer {
    /// Creates the peer that `waker` wakes.
    #[must_use]
    pub fn new(waker: Waker, batch: usize) -> Self {
        Self { waker, batch, pending: 0 }
    }

    #[inline]
    fn changed(&mut self) {
        self.pending += 1;
        if self.pending >= self.batch {
            self.flush();
        }
    }

    #[inline]
    fn flush(&mut self) {
        if self.pending > 0 {
            self.pending = 0;
            self.waker.wake();
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.waker.wake();
    }
}

/// The sending end. Fields drop in order: the ring is closed before the peer is woken.
#[derive(Debug)]
pub struct Sender<T> {
    ring: Producer<T>,
    capacity: usize,
    peer: Peer,
}

/// The receiving end. Fields drop in order: the ring is closed before the peer is woken.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: Consumer<T>,
    peer: Peer,
}

/// Returns a ring of `capacity` values (at least one) between two stages.
pub fn channel<T>(capacity: usize, from: Peer, to: Peer) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(1);
    let (producer, consumer) = ring::ring(capacity);
    (Sender { ring: producer, capacity, peer: to }, Receiver { ring: consumer, peer: from })
}

impl<T: Copy> Sender<T> {
    /// Sends `value` unless the ring is full or closed.
    #[inline]
    pub fn send(&mut self, value: T) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        if self.push(value) { Ok(()) } else { Err(SendError::Full) }
    }
}

impl<T> Sender<T> {
    /// Sends `value`, or drops it and returns false if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> bool {
        let sent = self.ring.push(value).is_ok();
        if sent {
            self.peer.changed();
        }
        sent
    }

    /// Returns the number of free slots.
    #[inline]
    pub fn free_slots(&self) -> usize {
        self.ring.slots()
    }

    /// Returns whether no slot is free.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Returns whether the receiver has taken all values.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.free_slots() == self.capacity
    }

    /// Returns whether the receiver was dropped.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Wakes the receiver although nothing was sent.
    pub fn wake_peer(&mut self) {
        self.peer.waker.wake();
    }

    /// Wakes the receiver if values were sent since the last wake-up.
    #[inline]
    pub fn flush(&mut self) {
        self.peer.flush();
    }
}

/// The result of [`Receiver::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// The oldest value.
    Value(T),
    /// The ring is empty.
    Empty,
    /// The ring is empty and the sender was dropped.
    Ended,
}

impl<T> Receiver<T> {
    /// Takes the oldest value.
    #[inline]
    pub fn receive(&mut self) -> Received<T> {
        if let Ok(value) = self.ring.pop() {
            self.peer.changed();
            return Received::Value(value);
        }
        if !self.ring.is_abandoned() {
            return Received::Empty;
        }
        // The sender may have pushed a value and been dropped between the two checks above.
        match self.ring.pop() {
            Ok(value) => Received::Value(value),
            Err(_) => Received::Ended,
        }
    }

    /// Wakes the sender if slots were freed since the last wake-up.
    #[inline]
    pub fn flush(&mut self) {
        self.peer.flush();
    }
}
