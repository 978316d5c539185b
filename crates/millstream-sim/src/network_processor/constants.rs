//! The numbers of the model and their sources.
//!
//! *Paper* is the HILQ paper (MMNS 2002). *Router* is Spalink, Karlin, Peterson and Gottlieb,
//! *Building a robust software-based router using network processors* (SOSP 2001). Its measured
//! latencies and operations per 64-byte piece, as commonly quoted, fill in for values that the
//! paper omits. Its receiving and transmitting engines are never the bottleneck, so no figure
//! depends on them. *Calibrated* is one number only: [`COMPUTE_PER_ACCESS`].

/// Microengine clock, cycles per second (paper, sections 1 and 4.1).
pub const CLOCK_HZ: u64 = 232_000_000;

/// Hardware contexts per engine (paper, section 1).
pub const CONTEXTS: usize = 4;

/// Rate of the ports, bits/s (paper, section 6: gigabit Ethernet).
pub const PORT_BITS_PER_S: u64 = 1_000_000_000;

/// Wire time in addition to the packet's own bytes: preamble 8, gap 12 (IEEE 802.3).
pub const WIRE_OVERHEAD_BYTES: u32 = 20;

/// Cycles of the instruction that issues a memory command. The context switch itself is free (Bos
/// and others, OSDI 2004: "zero-cycle context switches").
pub const SWAP_CYCLES: u64 = 1;

/// SRAM latencies in cycles, each with its share in tenths of a per cent (paper, Table 2). The
/// shares add up to 99.4 %; the model ignores the rest.
pub const SRAM_LATENCY: [(u64, u32); 8] =
    [(19, 647), (21, 103), (23, 87), (25, 75), (27, 29), (29, 24), (31, 19), (33, 10)];

/// Cycles for which an SRAM longword occupies the memory's command unit: one cycle of a bus at half
/// the engines' clock. It also equals the step between the latencies of Table 2.
pub const SRAM_OCCUPANCY: u64 = 2;

/// Latency of 32 bytes of SDRAM, cycles (router; the longer of read 52, write 40).
pub const SDRAM_LATENCY: u64 = 52;

/// Cycles for which 32 bytes occupy the SDRAM: four quadwords of a bus at half the engines' clock.
pub const SDRAM_OCCUPANCY: u64 = 8;

/// Latency of a scratchpad longword, cycles (router; the longer of read 16, write 20).
pub const SCRATCH_LATENCY: u64 = 20;

/// Cycles for which a longword occupies the scratchpad; on chip, assumed equal to the SRAM's bus.
pub const SCRATCH_OCCUPANCY: u64 = 2;

/// Latency of a hash, cycles; the hash unit is next to the scratchpad, so its latency is assumed.
pub const HASH_LATENCY: u64 = SCRATCH_LATENCY;

/// Cycles of computation per memory access (address, test, branch). Calibrated.
///
/// This is the only free number. The paper's Figure 6 gives ≈ 500 cycles for many streams; with
/// this number, 13 accesses take them. An access has a mean latency of 20.9 cycles and takes one
/// cycle to issue.
pub const COMPUTE_PER_ACCESS: u64 = 17;

/// HILQ's memory accesses per packet (paper, Table 3: the limit of 13 + 68/n).
pub const HILQ_ACCESSES: usize = 13;

/// HILQ's memory accesses per sweep, independent of its result (paper, Table 3: 68 in 13 + 68/n).
pub const HILQ_SWEEP_ACCESSES: usize = 68;

/// Memory accesses of the heap for each doubling of the number of streams (paper, section 6: two
/// heaps, six accesses per step).
pub const HEAP_ACCESSES_PER_LEVEL: f64 = 12.0;

/// Memory accesses of the heap independent of the number of streams (paper, Table 3: 6 in
/// 12·log₂ n + 6).
pub const HEAP_ACCESSES: f64 = 6.0;

/// Longwords of a segment's second-level bit vector (paper, section 5.4.2).
pub const SEGMENT_LONGWORDS: usize = 32;

/// Cycles between two runs of the garbage collector: one millisecond (paper, section 5.4.3).
pub const GARBAGE_PERIOD: u64 = CLOCK_HZ / 1000;

/// Bytes of the pieces in which packets cross the IX bus (router).
pub const PIECE_BYTES: u32 = 64;

/// Work to receive one piece (router, its input loop).
pub const RECEIVE_PIECE: PieceWork = PieceWork { compute: 171, sdram: 2, sram: 3, scratch: 6 };

/// Work to send one piece (router, its output loop).
pub const TRANSMIT_PIECE: PieceWork = PieceWork { compute: 109, sdram: 2, sram: 1, scratch: 4 };

/// The work to move one piece of a packet.
#[derive(Clone, Copy, Debug)]
pub struct PieceWork {
    /// Register operations, one cycle each.
    pub compute: u64,
    /// SDRAM commands of 32 bytes.
    pub sdram: usize,
    /// SRAM commands.
    pub sram: usize,
    /// Scratchpad commands.
    pub scratch: usize,
}

/// SRAM accesses of an insertion into HILQ, counted from section 5.4.1 of the paper.
///
/// They are the stream, the x/y table, the slot's header, the free list, the element, the header
/// again, and the second-level bit.
pub const INSERTION_ACCESSES: usize = 7;

/// SRAM commands to put a packet into a queue between stages, or to take one out of it.
///
/// They read the queue's descriptor with a lock, access the link, and write and unlock the
/// descriptor. The number is counted, not from the paper. Of all assumptions that the paper does
/// not cover, only this one affects the figures.
pub const HANDOVER_SRAM: usize = 3;

/// Scratchpad commands of a queue operation: the bit that marks the queue as non-empty.
pub const HANDOVER_SCRATCH: usize = 1;

/// Packets that the receiving port buffers for a context. No figure depends on it.
pub const RECEIVE_BUFFER: usize = 16;

/// Capacity of the queue between scheduler and transmitting engines. No figure depends on it.
pub const OUTPUT_QUEUE: usize = 32;
