//! Formatting of quantities for display, such as `1.50 Mbit/s` and `12.3 ms`.
//!
//! Values have three significant digits in the largest unit that keeps them at 1 or above. The
//! summary JSON has the exact values. Prefixes are powers of ten, as in the nominal rates of links.

/// Formats a rate given in bits/s.
#[must_use]
pub fn rate(bits_per_second: u64) -> String {
    let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s"), (1, "bit/s")];
    scaled(bits_per_second, &units)
}

/// Formats a packet rate given in packets/s.
#[must_use]
pub fn packet_rate(packets_per_second: u64) -> String {
    scaled(packets_per_second, &[(1_000_000, "Mpps"), (1_000, "kpps"), (1, "pps")])
}

/// Formats a time given in ns.
#[must_use]
pub fn time(nanoseconds: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    scaled(nanoseconds, &units)
}

/// Formats a number of things, such as `1 packet` and `2 switches`; `thing` is a singular.
#[must_use]
pub fn count(number: u64, thing: &str) -> String {
    let ending = match thing {
        _ if number == 1 => "",
        _ if ["s", "x", "ch", "sh"].iter().any(|end| thing.ends_with(end)) => "es",
        _ => "s",
    };
    format!("{number} {thing}{ending}")
}

/// Formats three significant digits in the largest unit that keeps the value at 1 or above.
#[allow(clippy::cast_precision_loss)]
fn scaled(value: u64, units: &[(u64, &str)]) -> String {
    let &(scale, unit) =
        units.iter().find(|unit| value >= unit.0).unwrap_or(&(1, units[units.len() - 1].1));
    let number = value as f64 / scale as f64;
    let decimals = match number {
        _ if scale == 1 => 0,
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        let found = [(0, "run"), (1, "run"), (2, "run"), (1, "switch"), (3, "switch")];
        let found = found.map(|(number, thing)| count(number, thing));
        assert_eq!(found, ["0 runs", "1 run", "2 runs", "1 switch", "3 switches"]);
    }

    #[test]
    fn three_significant_digits_in_a_fitting_unit() {
        let times = [0, 999, 1_000, 12_345, 99_960_000, 1_500_000_000].map(time);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "100 ms", "1.50 s"]);
        assert_eq!(packet_rate(90_000), "90.0 kpps");
        assert_eq!(rate(1_500_000), "1.50 Mbit/s");
        assert_eq!(rate(40_000_000_000_000), "40000 Gbit/s");
    }
}
