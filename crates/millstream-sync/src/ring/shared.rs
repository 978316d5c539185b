//! A ring of messages between two processes.
//!
//! ```text
//! words:  [tail  …] [head …] [slot 0] [slot 1] … [slot n-1]
//!          writer    reader   each of MESSAGE words; n a power of two
//! ```
//! Invariant: only the writer stores `tail`, only the reader stores `head`, both only grow, and
//! `tail - head` messages are readable. The writer fills a slot before it releases the tail that
//! makes the slot readable. The reader reads a slot before it releases the head that makes it
//! writable. Every word is atomic and checked, so a faulty peer can make messages wrong but never
//! cause undefined behaviour.
//!
//! No crate in use has such a ring for memory that another process may overwrite: existing ones
//! hand out references to the slots.

use crate::atomic::{AtomicU64, Ordering};

/// The number of words of a message.
pub const MESSAGE: usize = 4;

/// The number of words before the slots: head and tail, each in its own cache line.
const HEADER: usize = 16;

/// Returns the number of words that a ring of `slots` messages takes.
pub const fn words(slots: usize) -> usize {
    HEADER + slots * MESSAGE
}

/// A ring. It may have only one writer and one reader, which must differ.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    words: &'static [AtomicU64],
    slots: u64,
}

impl Ring {
    /// Returns the ring in `words`.
    ///
    /// # Panics
    /// Panics if the number of slots is not a power of two.
    pub fn new(words: &'static [AtomicU64]) -> Self {
        let slots = (words.len() - HEADER) / MESSAGE;
        assert!(slots.is_power_of_two(), "a ring of {slots} slots");
        Self { words, slots: slots as u64 }
    }

    #[inline]
    fn tail(&self) -> &AtomicU64 {
        &self.words[0]
    }

    #[inline]
    fn head(&self) -> &AtomicU64 {
        &self.words[HEADER / 2]
    }

    #[inline]
    fn slot(&self, at: u64) -> &[AtomicU64] {
        // The index is below the number of words, which is a usize.
        let at = usize::try_from(at & (self.slots - 1)).unwrap_or(0);
        &self.words[HEADER + at * MESSAGE..][..MESSAGE]
    }

    /// Writer: appends a message. Returns `false` if the ring is full.
    #[inline]
    pub fn push(&self, message: [u64; MESSAGE]) -> bool {
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

    /// Reader: removes and returns the oldest message.
    #[inline]
    pub fn pop(&self) -> Option<[u64; MESSAGE]> {
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

    /// Reader: discards all messages, as a replacement of a dead reader does.
    pub fn clear(&self) {
        self.head().store(self.tail().load(Ordering::Acquire), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ring(slots: usize) -> Ring {
        let words: Vec<AtomicU64> = (0..words(slots)).map(|_| AtomicU64::new(0)).collect();
        Ring::new(words.leak())
    }

    #[test]
    fn messages_arrive_in_order_and_a_full_ring_refuses_more() {
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
    fn no_words_of_another_process_cause_a_panic() {
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
