//! Formats numbers for the page.

/// Returns a quotient, rounded to the nearest integer.
pub(super) fn rounded(dividend: u64, divisor: u64) -> u64 {
    (dividend + divisor / 2) / divisor
}

/// Formats a packet size.
pub(super) fn named(bytes: u32) -> String {
    format!("{} bytes", grouped(bytes.into()))
}

/// Formats a rate in whole Mbit/s.
pub(super) fn megabits(bits_per_s: u64) -> String {
    format!("{:.0}", mega(bits_per_s))
}

/// Converts a rate to Mbit/s.
pub(super) fn mega(bits_per_s: u64) -> f64 {
    float(bits_per_s) / 1e6
}

/// Converts a number for a chart.
#[allow(clippy::cast_precision_loss)]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

/// Formats a number with commas between its thousands.
pub(super) fn grouped(value: u64) -> String {
    if value < 1000 {
        value.to_string()
    } else {
        format!("{},{:03}", grouped(value / 1000), value % 1000)
    }
}
