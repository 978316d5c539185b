//! Consistency of the paper's numbers.

use millstream_sim::network_processor::constants::{CLOCK_HZ, WIRE_OVERHEAD_BYTES};
use millstream_sim::network_processor::pipeline::handover_cycles;

use super::text::{grouped, rounded};

/// The paper's numbers: HILQ's cost, Figure 7's budget at 512 bytes, and Figure 8's two results.
pub(super) const PAPER_COST: u64 = 500;
pub(super) const PAPER_BUDGET: u64 = 600;
pub(super) const PAPER_PACKETS_PER_S: u64 = 260_000;
pub(super) const PAPER_256_BITS_PER_S: u64 = 650_000_000;

/// Returns the text on the implications of the paper's numbers.
pub(super) fn consistency() -> String {
    let wire = packet_cycles(512);
    let small = rounded(PAPER_256_BITS_PER_S, 8 * 256);
    let beyond = |packets_per_s: u64| rounded(CLOCK_HZ, packets_per_s) - PAPER_COST;
    let streams = |packets: u64| {
        format!("{} to {}", grouped(rounded(packets, 60)), grouped(rounded(packets, 40)))
    };
    format!(
        "\n### Consistency of the paper's numbers\n\n\
         | the paper's number | implies | for comparison |\n|---|---|---|\n\
         | 260,000 packets/s of 512 bytes | {} Mb/s of packets | a gigabit port carries {}/s, or \
         {} without gaps between packets |\n\
         | 650 Mb/s of 256 bytes | {} packets/s | more than 260,000, although the cost of \
         scheduling does not depend on a packet's size |\n\
         | ≈ 500 cycles a packet | {} packets/s | 256 bytes at line rate are {}/s: with scheduling \
         alone, they would fit |\n\
         | a budget of 600 cycles at 512 bytes | {} packets/s | the port needs one packet in \
         {wire} cycles |\n\
         | 500 to 600 cycles a packet for two gigabit ports | packets of {} to {} bytes | its \
         figures have one port in and one out |\n\
         | 4,000 to 6,000 streams of 40 to 60 packets/s | 260,000 packets/s give {} | line rate \
         gives {} |\n\n\
         Inserting a packet into the output queue must therefore take time beyond scheduling. The \
         paper's numbers imply {} cycles by Figure 7's budget of 600, {} by 260,000 packets/s, {} \
         by 650 Mb/s. The first two agree, the third does not. Ours, from counted operations, is \
         {:.0}.\n",
        grouped(rounded(PAPER_PACKETS_PER_S * 512 * 8, 1_000_000)),
        grouped(line_rate_per_s(512)),
        grouped(rounded(1_000_000_000, 8 * 512)),
        grouped(small),
        grouped(CLOCK_HZ / PAPER_COST),
        grouped(line_rate_per_s(256)),
        grouped(rounded(CLOCK_HZ, PAPER_BUDGET)),
        packet_bytes(500),
        packet_bytes(600),
        streams(PAPER_PACKETS_PER_S),
        streams(line_rate_per_s(512)),
        wire - PAPER_BUDGET,
        beyond(PAPER_PACKETS_PER_S),
        beyond(small),
        handover_cycles(),
    )
}

/// Returns the packets per second of a gigabit port.
fn line_rate_per_s(bytes: u32) -> u64 {
    rounded(1_000_000_000, 8 * u64::from(bytes + WIRE_OVERHEAD_BYTES))
}

/// Returns the whole cycles between packets at line rate.
fn packet_cycles(bytes: u32) -> u64 {
    rounded(CLOCK_HZ, line_rate_per_s(bytes))
}

/// Returns the packet length in bytes at which two gigabit ports carry one packet in `cycles`.
fn packet_bytes(cycles: u64) -> u64 {
    rounded(2 * cycles * 1_000_000_000, 8 * CLOCK_HZ) - u64::from(WIRE_OVERHEAD_BYTES)
}
