//! How the least rank is found, and at what cost.
//!
//! A [`Structure`] holds the rank of every eligible stream. It knows nothing of what a rank means
//! beyond its order and its expiry, so every discipline gives the same schedule on every
//! structure, packet for packet.
//!
//! | structure | place, remove | first | due | for |
//! |---|---|---|---|---|
//! | [`Scan`] | O(1) | O(n) | O(n) | the executable definition; a handful of streams |
//! | [`Heap`] | O(log n) | O(1) | O(1) + O(due) | everything else |
//! | [`Ring`] | O(1) | O(1) | – | disciplines that take turns |
//! | [`DualHeap`] | O(log n) | O(log n) amortised | O(1) + O(due) | the Co-processor paper's form |

mod dual_heap;
mod heap;
mod indexed_heap;
mod ring;
mod scan;

pub use dual_heap::DualHeap;
pub use heap::Heap;
pub use indexed_heap::IndexedHeap;
pub use ring::Ring;
pub use scan::Scan;

use alloc::vec::Vec;

use crate::discipline::Rank;

/// Finds the least of the ranks of all placed streams.
pub trait Structure<R: Rank> {
    /// Places `stream` at `rank`, or moves it there.
    fn place(&mut self, stream: u32, rank: R);

    /// Takes `stream` out; no effect if it is not placed.
    fn remove(&mut self, stream: u32);

    /// The stream of least rank; among equal ranks the lowest.
    fn first(&mut self) -> Option<u32>;

    /// Appends every placed stream whose rank expires at or before `now_ns`, in any order.
    fn due(&self, now_ns: u64, out: &mut Vec<u32>);
}
