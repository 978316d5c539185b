//! A ring of preallocated slots, for values too large to move.
//!
//! ```text
//! Sender ──fill──> slot ──ring──────────────────> read ──> Receiver
//!                    └<──────ring of empty slots──┘
//! ```
//!
//! The rings move pointers, and no slot is allocated or freed after the start. Values are written
//! and read in place.

use super::{Consumer, Producer, ring};

/// The sending end.
#[derive(Debug)]
pub struct Sender<T> {
    filled: Producer<Box<T>>,
    empty: Consumer<Box<T>>,
    /// Slots that were never sent. Boxes, because the rings move pointers.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<T>>,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    filled: Consumer<Box<T>>,
    empty: Producer<Box<T>>,
}

/// Creates a ring of `count` slots, each made by `make`.
pub fn slots<T>(count: usize, mut make: impl FnMut() -> T) -> (Sender<T>, Receiver<T>) {
    let (to, filled) = ring(count);
    let (back, empty) = ring(count);
    let spare = (0..count).map(|_| Box::new(make())).collect();
    (Sender { filled: to, empty, spare }, Receiver { filled, empty: back })
}

impl<T> Sender<T> {
    /// Sends a slot that `fill` has filled; returns false without an empty slot.
    #[inline]
    pub fn send(&mut self, fill: impl FnOnce(&mut T)) -> bool {
        let Some(mut slot) = self.spare.pop().or_else(|| self.empty.pop().ok()) else {
            return false;
        };
        fill(&mut slot);
        // Cannot fail: the ring has one entry for each slot.
        let sent = self.filled.push(slot);
        debug_assert!(sent.is_ok());
        true
    }
}

impl<T> Receiver<T> {
    /// Passes the oldest filled slot to `read` and returns the slot to the sender; `None` if no
    /// slot is filled.
    #[inline]
    pub fn receive<R>(&mut self, read: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.filled.pop().ok()?;
        let value = read(&slot);
        let back = self.empty.push(slot);
        debug_assert!(back.is_ok());
        Some(value)
    }

    /// Returns whether no slot is filled.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn without_an_empty_slot_nothing_is_sent() {
        let (mut sender, mut receiver) = slots(2, || 0);
        assert!(receiver.is_empty());
        assert!(sender.send(|slot| *slot = 1));
        assert!(sender.send(|slot| *slot = 2));
        assert!(!sender.send(|_| unreachable!()));
        assert_eq!(receiver.receive(|slot| *slot), Some(1));
        assert!(sender.send(|slot| *slot = 3));
        assert_eq!(receiver.receive(|slot| *slot), Some(2));
        assert_eq!(receiver.receive(|slot| *slot), Some(3));
        assert_eq!(receiver.receive(|slot| *slot), None);
        assert!(receiver.is_empty());
    }

    #[test]
    fn slots_are_made_once() {
        let mut made = 0;
        let (mut sender, mut receiver) = slots(4, || made += 1);
        for _ in 0..100 {
            assert!(sender.send(|()| ()));
            assert!(receiver.receive(|()| ()).is_some());
        }
        assert_eq!(made, 4);
    }

    #[test]
    fn values_arrive_whole_and_in_order() {
        const VALUES: usize = 20_000;
        let (mut sender, mut receiver) = slots(8, || [0; 64]);
        thread::scope(|threads| {
            threads.spawn(move || {
                for value in 0..VALUES {
                    while !sender.send(|slot| slot.fill(value)) {
                        thread::yield_now();
                    }
                }
            });
            for value in 0..VALUES {
                while receiver.receive(|slot| assert_eq!(slot, &[value; 64])).is_none() {
                    thread::yield_now();
                }
            }
        });
    }
}
