//! The table of the model's constants and their sources.

use std::fmt::Write as _;

use millstream_sim::network_processor::constants::{
    COMPUTE_PER_ACCESS, HANDOVER_SCRATCH, HANDOVER_SRAM, HILQ_ACCESSES, HILQ_SWEEP_ACCESSES,
    INSERTION_ACCESSES, PieceWork, RECEIVE_PIECE, SCRATCH_LATENCY, SDRAM_LATENCY, SDRAM_OCCUPANCY,
    SRAM_LATENCY, SRAM_OCCUPANCY, SWAP_CYCLES, TRANSMIT_PIECE, WIRE_OVERHEAD_BYTES,
};

use super::computes;

/// Returns the table of the model's constants with their sources.
pub(super) fn table() -> String {
    let latency = SRAM_LATENCY
        .map(|(cycles, tenths)| format!("{cycles} ({}.{} %)", tenths / 10, tenths % 10));
    let piece = |work: PieceWork| {
        let PieceWork { compute, sdram, sram, scratch } = work;
        format!("{compute} cycles, {sdram} SDRAM, {sram} SRAM, {scratch} scratchpad commands")
    };
    let rows = [
        (
            "cycles of computation with an access",
            COMPUTE_PER_ACCESS.to_string(),
            "**fitted** to Figure 6; only with Table 3's accesses",
        ),
        (
            "cycles of computation with a counted access",
            computes().map(|cycles| cycles.to_string()).join(", "),
            "none; Spalink and others, 280 cycles for 18 commands; its double",
        ),
        ("SRAM latency, cycles", latency.join(", "), "paper, Table 2"),
        (
            "accesses of HILQ",
            format!("{HILQ_SWEEP_ACCESSES} a sweep, {HILQ_ACCESSES} a packet"),
            "**input**: paper, Table 3",
        ),
        (
            "accesses of the heap",
            "12·log₂ n + 6 a packet, rounded".into(),
            "**input**: paper, Table 3",
        ),
        ("clock", "232 MHz".into(), "paper, section 4.1"),
        ("engines", "2 receive, 1 schedules, 2 transmit".into(), "paper, section 6"),
        (
            "a handover between stages",
            format!("{HANDOVER_SRAM} SRAM and {HANDOVER_SCRATCH} scratchpad commands"),
            "counted: descriptor, link, descriptor; a bit",
        ),
        (
            "an insertion",
            format!("{INSERTION_ACCESSES} accesses, a hash, a scratchpad command"),
            "counted from section 5.4.1; only with Table 3's accesses",
        ),
        (
            "other latencies, cycles",
            format!("SDRAM {SDRAM_LATENCY}, scratchpad and hash {SCRATCH_LATENCY}"),
            "Spalink and others; the hash assumed equal to the scratchpad",
        ),
        ("64 bytes received", piece(RECEIVE_PIECE), "Spalink and others"),
        ("64 bytes sent", piece(TRANSMIT_PIECE), "Spalink and others"),
        (
            "cycles to issue a command",
            SWAP_CYCLES.to_string(),
            "its instruction; the switch is free",
        ),
        (
            "command units busy, cycles a command",
            format!("{SRAM_OCCUPANCY}; SDRAM {SDRAM_OCCUPANCY}"),
            "buses at half the clock",
        ),
        ("bytes on the wire beyond a packet's", WIRE_OVERHEAD_BYTES.to_string(), "IEEE 802.3"),
    ];
    let mut text = String::from("\n### Sources of the model's numbers\n\n| | | |\n|---|---|---|\n");
    for (what, value, source) in rows {
        let _ = writeln!(text, "| {what} | {value} | {source} |");
    }
    text + "\nOf the constants that the paper does not give, only the computation of an access and \
            the handover affect the figures: a test checks that throughput is limited by the wire \
            or by the scheduling context.\n"
}
