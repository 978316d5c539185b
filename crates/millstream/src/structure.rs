//! Structures that find the least rank, and their costs.
//!
//! A [`Structure`] holds the rank of every active stream. It uses only a rank's order and expiry,
//! so a discipline has the same schedule on every structure, packet for packet.
//!
//! | structure | insert, remove | first | due | for |
//! |---|---|---|---|---|
//! | [`Scan`] | O(1) | O(n) | O(n) | the reference implementation; up to 16 streams |
//! | [`Heap`] | O(log n) | O(1) | O(1) + O(due) | more streams |
//! | [`WinnerTree`] | O(log n) | O(1) | – | near tags: faster than the heap |
//! | [`Calendar`] | O(1) expected, O(log n) | the same | – | near tags: more than 128 streams |
//! | [`Ring`] | O(1) | O(1) | – | disciplines that take turns |
//! | [`DualHeap`] | O(log n) | O(log n) amortised | O(1) + O(due) | the Co-processor paper's form |

mod bitmap;
mod calendar;
mod dual_heap;
mod front;
mod heap;
mod indexed_heap;
mod ring;
mod scan;
mod winner_tree;

pub(crate) use bitmap::{Bitmap, ring_place};
pub use calendar::Calendar;
pub use dual_heap::DualHeap;
pub(crate) use front::{ENTRY_BITS, Front};
pub use heap::Heap;
pub use indexed_heap::IndexedHeap;
pub use ring::Ring;
pub use scan::Scan;
pub(crate) use winner_tree::Cyclic;
pub use winner_tree::WinnerTree;

use alloc::vec::Vec;

use crate::discipline::Rank;

/// Finds the least of the ranks of all inserted streams.
pub trait Structure<R: Rank> {
    /// Inserts `stream` at `rank`, or moves it there.
    fn insert(&mut self, stream: u32, rank: R);

    /// Calls [`insert`](Self::insert).
    #[deprecated(since = "0.2.0", note = "renamed to `insert`")]
    fn place(&mut self, stream: u32, rank: R) {
        self.insert(stream, rank);
    }

    /// Allocates memory for the streams below `streams`, so that no later call allocates.
    fn reserve(&mut self, streams: usize) {
        let _ = streams;
    }

    /// Removes `stream`; no effect if it is not in the structure.
    fn remove(&mut self, stream: u32);

    /// Returns the stream of least rank, of equal ranks the lowest stream.
    fn first(&mut self) -> Option<u32>;

    /// Returns the stream that is this number of places after the first, if it is known without a
    /// search. For prefetching.
    #[inline(always)]
    fn after_first(&self, places: usize) -> Option<u32> {
        let _ = places;
        None
    }

    /// Appends every stream whose rank expires at or before `now_ns`, in any order.
    fn due(&self, now_ns: u64, out: &mut Vec<u32>);
}
