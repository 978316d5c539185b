//! Consistency of the paper's numbers, and their differences from ours.

use millstream_sim::network_processor::constants::{CLOCK_HZ, WIRE_OVERHEAD_BYTES};
use millstream_sim::network_processor::experiment::{Throughput, budget, throughput_at_cost};
use millstream_sim::network_processor::pipeline::handover_cycles;

use super::text::{grouped, megabits, rounded};

/// The paper's numbers: HILQ's cost, Figure 7's budget at 512 bytes, and Figure 8's two results.
pub(super) const PAPER_COST: u64 = 500;
pub(super) const PAPER_BUDGET: u64 = 600;
pub(super) const PAPER_PACKETS_PER_S: u64 = 260_000;
pub(super) const PAPER_256_BITS_PER_S: u64 = 650_000_000;

/// Returns the text on differences between our results and the paper's.
///
/// `small` holds the results for 256 bytes at 10 and at 2,000 streams, `half` that for 512 bytes.
pub(super) fn differences(small: [Throughput; 2], half: Throughput) -> String {
    let at_cost = |cost: u64| megabits(CLOCK_HZ / (PAPER_COST + cost) * 256 * 8);
    format!(
        "\n### What differs\n\n| | paper | ours |\n|---|---|---|\n\
         | Fig 7: budget at 512 bytes | about {PAPER_BUDGET} cycles | {} |\n\
         | Fig 8: 256 bytes | about {} Mb/s | {} at 10 streams, {} at 2,000 |\n\
         | Fig 8: packets/s at 512 bytes | about {} | {}: all that the port carries; with smaller \
         packets the scheduler makes {} at 10 streams, {} at 2,000 |\n\n\
         The first two depend on the time to insert a packet into the output queue, which the \
         paper does not give. Its numbers imply three values (below), and no single value gives \
         all three numbers. With the value of its budget, 256 bytes would reach {} Mb/s, with ours \
         {} at 500 cycles.\n",
        grouped(budget(512).unwrap_or(0)),
        PAPER_256_BITS_PER_S / 1_000_000,
        megabits(small[0].bits_per_s()),
        megabits(small[1].bits_per_s()),
        grouped(PAPER_PACKETS_PER_S),
        grouped(half.packets_per_s),
        grouped(small[0].packets_per_s),
        grouped(small[1].packets_per_s),
        at_cost(packet_cycles(512) - PAPER_BUDGET),
        megabits(throughput_at_cost(PAPER_COST, 256).bits_per_s()),
    )
}

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
