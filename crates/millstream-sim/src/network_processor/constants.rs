//! Every number that the model takes, and where it comes from.
//!
//! *Paper* is the HILQ paper (MMNS 2002). *Router* is Spalink, Karlin, Peterson and Gottlieb,
//! *Building a robust software-based router using network processors* (SOSP 2001), whose measured
//! latencies and operations per 64-byte piece, as they are commonly quoted, stand in for what the
//! paper leaves out; the receiving and transmitting engines that they describe hold nothing up, so
//! that no figure depends on them. *Calibrated* is one number only: [`COMPUTE_PER_ACCESS`].

/// Microengine cycles a second (paper, sections 1 and 4.1).
pub const CLOCK_HZ: u64 = 232_000_000;

/// Hardware contexts of an engine (paper, section 1).
pub const CONTEXTS: usize = 4;

/// The ports' rate in bits/s (paper, section 6: gigabit Ethernet).
pub const PORT_BITS_PER_S: u64 = 1_000_000_000;

/// Bytes of wire time beyond the packet's own: preamble 8, gap 12 (IEEE 802.3).
pub const WIRE_OVERHEAD_BYTES: u32 = 20;

/// Cycles of the instruction that issues a memory command; the switch to another context is free
/// (Bos and others, OSDI 2004: "zero-cycle context switches").
pub const SWAP_CYCLES: u64 = 1;

/// SRAM latency in cycles and its share in tenths of a per cent (paper, Table 2). The shares sum
/// to 99.4 %; what is missing is left out.
pub const SRAM_LATENCY: [(u64, u32); 8] =
    [(19, 647), (21, 103), (23, 87), (25, 75), (27, 29), (29, 24), (31, 19), (33, 10)];

/// Cycles that an SRAM longword keeps the memory's command unit busy: one cycle of a bus at half
/// the engines' clock, which is also the step of Table 2's latencies.
pub const SRAM_OCCUPANCY: u64 = 2;

/// Latency of 32 bytes of SDRAM in cycles (router; read 52, write 40: the longer).
pub const SDRAM_LATENCY: u64 = 52;

/// Cycles that 32 bytes keep the SDRAM busy: four quadwords of a bus at half the engines' clock.
pub const SDRAM_OCCUPANCY: u64 = 8;

/// Latency of a scratchpad longword in cycles (router; read 16, write 20: the longer).
pub const SCRATCH_LATENCY: u64 = 20;

/// Cycles that a scratchpad longword keeps the scratchpad busy: on chip, as the SRAM's bus.
pub const SCRATCH_OCCUPANCY: u64 = 2;

/// Latency of a hash in cycles: the hash unit sits beside the scratchpad, so as that.
pub const HASH_LATENCY: u64 = SCRATCH_LATENCY;

/// Calibrated: cycles of computation that go with each memory access (address, test, branch). The
/// one free number. With it 13 accesses, of 20.9 cycles in the mean and one to issue, take the
/// ≈ 500 cycles that the paper's Figure 6 gives for many streams.
pub const COMPUTE_PER_ACCESS: u64 = 17;

/// HILQ's memory accesses a packet (paper, Table 3: what 13 + 68/n tends to).
pub const HILQ_ACCESSES: usize = 13;

/// HILQ's memory accesses a sweep, whatever it finds (paper, Table 3: the 68 of 13 + 68/n).
pub const HILQ_SWEEP_ACCESSES: usize = 68;

/// Memory accesses of the heap for each doubling of the streams (paper, section 6: two heaps, six
/// accesses a step).
pub const HEAP_ACCESSES_PER_LEVEL: f64 = 12.0;

/// Memory accesses of the heap whatever the number of streams (paper, Table 3: the 6 of
/// 12·log₂ n + 6).
pub const HEAP_ACCESSES: f64 = 6.0;

/// Longwords of a segment's second-level bit vector (paper, section 5.4.2).
pub const SEGMENT_LONGWORDS: usize = 32;

/// Cycles between two runs of the garbage collector: a millisecond (paper, section 5.4.3).
pub const GARBAGE_PERIOD: u64 = CLOCK_HZ / 1000;

/// Bytes of the pieces in which packets cross the IX bus (router).
pub const PIECE_BYTES: u32 = 64;

/// What receiving one piece takes (router, its input loop).
pub const RECEIVE_PIECE: PieceWork = PieceWork { compute: 171, sdram: 2, sram: 3, scratch: 6 };

/// What sending one piece takes (router, its output loop).
pub const TRANSMIT_PIECE: PieceWork = PieceWork { compute: 109, sdram: 2, sram: 1, scratch: 4 };

/// What moving one piece of a packet takes.
#[derive(Clone, Copy, Debug)]
pub struct PieceWork {
    /// Register operations, a cycle each.
    pub compute: u64,
    /// SDRAM commands of 32 bytes.
    pub sdram: usize,
    /// SRAM commands.
    pub sram: usize,
    /// Scratchpad commands.
    pub scratch: usize,
}

/// SRAM accesses of an insertion into HILQ (counted from the paper, section 5.4.1): the stream, the
/// x/y table, the slot's header, the free list, the element, the header again, the second-level
/// bit.
pub const INSERTION_ACCESSES: usize = 7;

/// SRAM commands with which a packet is put into a queue between stages, or taken out of one: read
/// the queue's descriptor with a lock, the link, write and unlock the descriptor. Counted; the
/// paper does not say, and of what it does not say this alone shows in the figures.
pub const HANDOVER_SRAM: usize = 3;

/// Scratchpad commands of the same: the bit that says that the queue holds something.
pub const HANDOVER_SCRATCH: usize = 1;

/// Packets that the receiving port holds for a context. No figure depends on it.
pub const RECEIVE_BUFFER: usize = 16;

/// Packets that wait between the scheduler and the transmitting engines. No figure depends on it.
pub const OUTPUT_QUEUE: usize = 32;
