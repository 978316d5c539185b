//! Rings: one thread writes, one reads, and neither waits.
//!
//! | ring | when |
//! |---|---|
//! | [`ring`] | values that move, between threads; [`channel`](crate::channel) adds wake-ups |
//! | [`slots`] | values too large to move, between threads |
//! | [`shared`] | messages of a few words, between processes that do not trust each other |
//!
//! [`ring`] is the ring of `rtrb`. Loom cannot explore `rtrb`, so a stand-in replaces it under
//! `cfg(loom)`. The stand-in publishes by the same accesses and no stronger ones: release stores of
//! tail, head and flag, acquire loads of them. A protocol that needs a stronger order from the ring
//! fails under loom.

pub mod shared;
pub mod slots;

#[cfg(not(loom))]
pub use rtrb::{Consumer, Producer};

/// Creates a ring of `capacity` slots.
#[cfg(not(loom))]
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    rtrb::RingBuffer::new(capacity)
}

#[cfg(loom)]
pub use stand_in::{Consumer, Producer, ring};

// Its items have the docs of rtrb's.
#[allow(missing_docs)]
#[cfg(loom)]
mod stand_in {
    use loom::cell::Cell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// Positions are not wrapped: a model ends long before they overflow.
    #[derive(Debug)]
    struct Shared<T> {
        slots: Vec<Cell<Option<T>>>,
        head: AtomicUsize,
        tail: AtomicUsize,
        abandoned: AtomicBool,
    }

    /// Stands in for `rtrb::Producer`.
    #[derive(Debug)]
    pub struct Producer<T> {
        shared: Arc<Shared<T>>,
        tail: usize,
    }

    /// Stands in for `rtrb::Consumer`.
    #[derive(Debug)]
    pub struct Consumer<T> {
        shared: Arc<Shared<T>>,
        head: usize,
    }

    pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let shared = Arc::new(Shared {
            slots: (0..capacity).map(|_| Cell::new(None)).collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            abandoned: AtomicBool::new(false),
        });
        (Producer { shared: Arc::clone(&shared), tail: 0 }, Consumer { shared, head: 0 })
    }

    impl<T> Producer<T> {
        pub fn push(&mut self, value: T) -> Result<(), T> {
            if self.slots() == 0 {
                return Err(value);
            }
            self.shared.slots[self.tail % self.shared.slots.len()].set(Some(value));
            self.tail += 1;
            self.shared.tail.store(self.tail, Ordering::Release);
            Ok(())
        }

        pub fn slots(&self) -> usize {
            let head = self.shared.head.load(Ordering::Acquire);
            self.shared.slots.len() - (self.tail - head)
        }

        pub fn is_full(&self) -> bool {
            self.slots() == 0
        }

        pub fn is_abandoned(&self) -> bool {
            self.shared.abandoned.load(Ordering::Acquire)
        }
    }

    impl<T> Drop for Producer<T> {
        fn drop(&mut self) {
            self.shared.abandoned.store(true, Ordering::Release);
        }
    }

    impl<T> Consumer<T> {
        pub fn pop(&mut self) -> Result<T, ()> {
            if self.slots() == 0 {
                return Err(());
            }
            let value = self.shared.slots[self.head % self.shared.slots.len()].replace(None);
            self.head += 1;
            self.shared.head.store(self.head, Ordering::Release);
            value.ok_or(())
        }

        pub fn slots(&self) -> usize {
            self.shared.tail.load(Ordering::Acquire) - self.head
        }

        pub fn is_empty(&self) -> bool {
            self.slots() == 0
        }

        pub fn is_abandoned(&self) -> bool {
            self.shared.abandoned.load(Ordering::Acquire)
        }
    }

    impl<T> Drop for Consumer<T> {
        fn drop(&mut self) {
            self.shared.abandoned.store(true, Ordering::Release);
        }
    }
}
