//! Overflow of buckets: chains of blocks of unordered streams.
//!
//! A bucket overflows when many deadlines coincide. Its chain costs one write per stream until the
//! bucket is first; its streams are ordered only then. Blocks are cache lines and are reused.

use alloc::vec::Vec;

/// The capacity of a block in streams. With the count and the next block they fill a cache line.
const ROOM: usize = 14;

/// Bits of a position that hold the slot in the block; the rest is the block.
const SLOT_BITS: u32 = 4;

/// The number of positions.
const PLACES: u32 = 1 << 31;

/// The identity of an empty chain: no block.
pub(super) const NO_CHAIN: u32 = 0;

/// A block of a chain's streams.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block {
    len: u32,
    next: u32,
    streams: [u32; ROOM],
}

/// All chains. A chain is identified by its first block, the only one that may not be full.
#[derive(Clone, Debug)]
pub(super) struct Chains {
    /// Block 0 is unused.
    blocks: Vec<Block>,
    /// The first free block; `next` links the others.
    free: u32,
}

impl Block {
    const EMPTY: Self = Self { len: 0, next: NO_CHAIN, streams: [0; ROOM] };
}

impl Chains {
    pub(super) fn new() -> Self {
        Self { blocks: alloc::vec![Block::EMPTY], free: NO_CHAIN }
    }

    /// Allocates memory for `streams` streams: at worst each has a block of its own.
    pub(super) fn reserve(&mut self, streams: usize) {
        self.blocks.reserve((streams + 1).saturating_sub(self.blocks.len()));
    }

    /// Adds a stream to a chain. Returns the chain's new identity and the stream's position; `None`
    /// if all positions are taken.
    #[inline]
    pub(super) fn push(&mut self, mut chain: u32, stream: u32) -> Option<(u32, u32)> {
        if chain == NO_CHAIN || self.blocks[chain as usize].len as usize == ROOM {
            let block = self.take_block()?;
            self.blocks[block as usize] = Block { next: chain, ..Block::EMPTY };
            chain = block;
        }
        let block = &mut self.blocks[chain as usize];
        let slot = block.len;
        block.streams[slot as usize % ROOM] = stream;
        block.len += 1;
        Some((chain, chain << SLOT_BITS | slot))
    }

    fn take_block(&mut self) -> Option<u32> {
        if self.free == NO_CHAIN {
            let block = u32::try_from(self.blocks.len()).ok();
            let block = block.filter(|block| *block < PLACES >> SLOT_BITS)?;
            self.blocks.push(Block::EMPTY);
            return Some(block);
        }
        let block = self.free;
        self.free = self.blocks[block as usize].next;
        Some(block)
    }

    fn give_back(&mut self, block: u32) {
        self.blocks[block as usize].next = self.free;
        self.free = block;
    }

    /// Removes the stream at position `place` of a chain. Returns the chain's new identity and the
    /// stream that moved to the position.
    pub(super) fn remove(&mut self, chain: u32, place: u32) -> (u32, u32) {
        let first = &mut self.blocks[chain as usize];
        first.len -= 1;
        let (left, next) = (first.len, first.next);
        let moved = first.streams[left as usize];
        self.blocks[(place >> SLOT_BITS) as usize].streams[(place % (1 << SLOT_BITS)) as usize] =
            moved;
        if left > 0 {
            return (chain, moved);
        }
        self.give_back(chain);
        (next, moved)
    }

    /// Removes the first block of a chain. Returns its streams and the rest of the chain.
    #[inline]
    pub(super) fn pop_block(
        &mut self,
        chain: u32,
    ) -> (impl Iterator<Item = u32> + Clone + use<>, u32) {
        let block = self.blocks[chain as usize];
        self.give_back(chain);
        (block.streams.into_iter().take(block.len as usize), block.next)
    }

    /// Returns the streams of a chain.
    #[inline]
    pub(super) fn streams(&self, chain: u32) -> impl Iterator<Item = u32> {
        let next = |block: &&Block| self.block(block.next);
        let blocks = core::iter::successors(self.block(chain), next);
        blocks.flat_map(|block| block.streams.iter().copied().take(block.len as usize))
    }

    #[inline]
    fn block(&self, block: u32) -> Option<&Block> {
        (block != NO_CHAIN).then(|| &self.blocks[block as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_hold_their_streams_and_reuse_blocks() {
        let mut random = 1u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % bound
        };
        let mut chains = Chains::new();
        let mut heads = [NO_CHAIN; 3];
        // The chain of each stream and its position there.
        let mut at = [None; 90];
        for step in 0..20_000 {
            let stream = below(90);
            match at[stream] {
                None => {
                    let chain = below(3);
                    let number = u32::try_from(stream).unwrap();
                    let (head, place) = chains.push(heads[chain], number).unwrap();
                    heads[chain] = head;
                    at[stream] = Some((chain, place));
                }
                Some((chain, place)) => {
                    let (head, moved) = chains.remove(heads[chain], place);
                    heads[chain] = head;
                    at[moved as usize] = Some((chain, place));
                    at[stream] = None;
                }
            }
            if step % 500 == 0 {
                let chain = below(3);
                while heads[chain] != NO_CHAIN {
                    let (streams, rest) = chains.pop_block(heads[chain]);
                    streams.for_each(|stream| at[stream as usize] = None);
                    heads[chain] = rest;
                }
            }
            for (chain, head) in heads.iter().enumerate() {
                let mut held: Vec<_> = chains.streams(*head).collect();
                held.sort_unstable();
                let placed = (0u32..).zip(&at).filter(|(_, at)| at.is_some_and(|at| at.0 == chain));
                assert!(held.into_iter().eq(placed.map(|(stream, _)| stream)));
            }
        }
        assert!(chains.blocks.len() < 24, "{} blocks", chains.blocks.len());
    }
}
