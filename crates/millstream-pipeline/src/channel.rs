//! A ring between two stages: at either end, who changes it rings the other's bell.
//!
//! Bells are rung once a batch and before a stage sleeps, not for every value; an end that is
//! dropped rings for the last time.

use crate::parker::Bell;
use crate::ring::{self, Consumer, Producer};

/// Why a value was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// There is no room.
    Full,
    /// The receiver is gone.
    Closed,
}

/// The stage at one end of a ring: its bell, rung once for up to `batch` changes.
#[derive(Debug)]
pub(crate) struct End {
    bell: Bell,
    batch: usize,
    unannounced: usize,
}

impl End {
    pub(crate) fn new(bell: Bell, batch: usize) -> Self {
        Self { bell, batch, unannounced: 0 }
    }

    #[inline]
    fn changed(&mut self) {
        self.unannounced += 1;
        if self.unannounced >= self.batch {
            self.flush();
        }
    }

    #[inline]
    fn flush(&mut self) {
        if self.unannounced > 0 {
            self.unannounced = 0;
            self.bell.ring();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.bell.ring();
    }
}

/// The end that sends. The ring is dropped before the peer is told, in this order of fields.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    ring: Producer<T>,
    capacity: usize,
    peer: End,
}

/// The end that receives; the same order of fields.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    ring: Consumer<T>,
    peer: End,
}

/// A ring of `capacity` values (at least one) between two stages.
pub(crate) fn channel<T>(capacity: usize, from: End, to: End) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(1);
    let (producer, consumer) = ring::ring(capacity);
    (Sender { ring: producer, capacity, peer: to }, Receiver { ring: consumer, peer: from })
}

impl<T: Copy> Sender<T> {
    /// Sends `value` if there is room and a receiver.
    #[inline]
    pub(crate) fn send(&mut self, value: T) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        self.ring.push(value).map_err(|_| SendError::Full)?;
        self.peer.changed();
        Ok(())
    }

    /// Values for which there is room.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.ring.slots()
    }

    /// Whether there is no room for a value.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Whether the receiver has taken everything.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.room() == self.capacity
    }

    /// Whether the receiver is gone.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Rings although nothing was sent.
    pub(crate) fn ring_peer(&mut self) {
        self.peer.bell.ring();
    }

    /// Rings for what was sent since the last ring.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.peer.flush();
    }
}

/// What a receiver finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received<T> {
    /// The oldest value.
    Value(T),
    /// Nothing yet.
    Empty,
    /// Nothing, and nothing will come.
    Ended,
}

impl<T> Receiver<T> {
    /// Takes the oldest value.
    #[inline]
    pub(crate) fn receive(&mut self) -> Received<T> {
        if let Ok(value) = self.ring.pop() {
            self.peer.changed();
            return Received::Value(value);
        }
        if !self.ring.is_abandoned() {
            return Received::Empty;
        }
        // What was sent before the sender went is there by now, but may not have been above.
        match self.ring.pop() {
            Ok(value) => Received::Value(value),
            Err(_) => Received::Ended,
        }
    }

    /// Rings for the room that was made since the last ring.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.peer.flush();
    }
}
