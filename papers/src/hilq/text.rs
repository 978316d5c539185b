//! Formats numbers for the page.

use millstream_sim::network_processor::experiment::Throughput;
use millstream_sim::network_processor::line_rate_bits_per_s;

/// A quotient, rounded to the nearest integer.
pub(super) fn rounded(dividend: u64, divisor: u64) -> u64 {
    (dividend + divisor / 2) / divisor
}

/// A packet size.
pub(super) fn named(bytes: u32) -> String {
    format!("{} bytes", grouped(bytes.into()))
}

/// Throughput and the port's capacity.
pub(super) fn rate(run: Throughput) -> String {
    format!("{} Mb/s of {}", megabits(run.bits_per_s()), megabits(line_rate_bits_per_s(run.bytes)))
}

/// Whole Mb/s.
pub(super) fn megabits(bits_per_s: u64) -> String {
    format!("{:.0}", mega(bits_per_s))
}

/// Mb/s.
pub(super) fn mega(bits_per_s: u64) -> f64 {
    float(bits_per_s) / 1e6
}

/// A number for a chart.
#[allow(clippy::cast_precision_loss)]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

/// A number with commas between its thousands.
pub(super) fn grouped(value: u64) -> String {
    if value < 1000 {
        value.to_string()
    } else {
        format!("{},{:03}", grouped(value / 1000), value % 1000)
    }
}
