//! A ring of messages between two processes: one writes, one reads, neither waits.
//!
//! ```text
//! words:  [tail  …] [head …] [slot 0] [slot 1] … [slot n-1]
//!          writer    reader   each of MESSAGE words; n a power of two
//! ```
//! Invariant: the writer alone stores `tail`, the reader alone stores `head`, both only grow, and
//! `tail - head` messages are readable. A slot is written before the release of the tail that makes
//! it readable, and read before the release of the head that makes it writable. Every word is
//! atomic and checked: whatever the other process writes can make messages wrong, but nothing
//! undefined.
//!
//! No kept crate has such a ring for memory that another process may scribble on: theirs hand out
//! references to the slots.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a message.
pub(crate) const MESSAGE: usize = 4;

/// Words before the slots: head and tail, each in a cache line of its own.
const HEADER: usize = 16;

/// Words that a ring of `slots` messages takes.
pub(crate) const fn words(slots: usize) -> usize {
    HEADER + slots * MESSAGE
}

/// One ring; whoever writes it must not read it, and only one of each may exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    words: &'static [AtomicU64],
    slots: u64,
}

impl Ring {
    /// The ring in `words`, of a power of two of slots.
    pub(crate) fn new(words: &'static [AtomicU64]) -> Self {
        let slots = (words.len() - HEADER) / MESSAGE;
        assert!(slots.is_power_of_two(), "a ring of {slots} slots");
        Self { words, slots: slots as u64 }
    }

    fn tail(&self) -> &AtomicU64 {
        &self.words[0]
    }

    fn head(&self) -> &AtomicU64 {
        &self.words[HEADER / 2]
    }

    fn slot(&self, at: u64) -> &[AtomicU64] {
        // Below the number of words, which is a usize.
        let at = usize::try_from(at & (self.slots - 1)).unwrap_or(0);
        &self.words[HEADER + at * MESSAGE..][..MESSAGE]
    }

    /// Writer: appends a message; `false` if there is no room.
    pub(crate) fn push(&self, message: [u64; MESSAGE]) -> bool {
        let tail = self.tail().load(Ordering::Relaxed);
        if tail.wrapping_sub(self.head().load(Ordering::Acquire)) >= self.slots {
            return false;
        }
        for (word, value) in self.slot(tail).iter().zip(message) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail().store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// Reader: the oldest message.
    pub(crate) fn pop(&self) -> Option<[u64; MESSAGE]> {
        let head = self.head().load(Ordering::Relaxed);
        if self.tail().load(Ordering::Acquire) == head {
            return None;
        }
        let mut message = [0; MESSAGE];
        for (value, word) in message.iter_mut().zip(self.slot(head)) {
            *value = word.load(Ordering::Relaxed);
        }
        self.head().store(head.wrapping_add(1), Ordering::Release);
        Some(message)
    }

    /// Reader: forgets what waits, as a process does that takes the place of a dead one.
    pub(crate) fn clear(&self) {
        self.head().store(self.tail().load(Ordering::Acquire), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(slots: usize) -> Ring {
        let words: Vec<AtomicU64> = (0..words(slots)).map(|_| AtomicU64::new(0)).collect();
        Ring::new(words.leak())
    }

    #[test]
    fn messages_come_in_order_and_a_full_ring_says_so() {
        let ring = ring(4);
        for round in 0..10 {
            for number in 0..4 {
                assert!(ring.push([round, number, 0, 9]));
            }
            assert!(!ring.push([0; MESSAGE]));
            for number in 0..4 {
                assert_eq!(ring.pop(), Some([round, number, 0, 9]));
            }
            assert_eq!(ring.pop(), None);
        }
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let ring = ring(8);
        let writer = std::thread::spawn(move || {
            for number in 0..100_000 {
                while !ring.push([number, !number, number, 0]) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..100_000 {
            let message = loop {
                if let Some(message) = ring.pop() {
                    break message;
                }
                std::thread::yield_now();
            };
            assert_eq!(message, [number, !number, number, 0]);
        }
        writer.join().unwrap();
    }

    #[test]
    fn whatever_another_process_writes_nothing_panics() {
        let ring = ring(4);
        for word in ring.words {
            word.store(u64::MAX - 1, Ordering::Relaxed);
        }
        for _ in 0..20 {
            ring.push([1; MESSAGE]);
            ring.pop();
        }
        ring.clear();
        assert_eq!(ring.pop(), None);
    }
}
