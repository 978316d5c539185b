//! Parsers of quantities with units, such as `"40 ms"`, `"1.5 Mbit/s"` and `"1/4"`.
//!
//! Decimal fractions are parsed exactly, in integers: `"1.5 Mbit/s"` is 1,500,000 bits/s. A value
//! that is not a whole number of the base unit (ns, bits/s), or that exceeds 64 bits, is an error.
//! Values are never rounded.

use millstream::Window;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A unit's spellings, the displayed one first, and its size in base units. Spellings with `bit`
/// match in any case, as in tc; others match exactly, since case separates bits from bytes.
type Unit = (&'static [&'static str], u64);

const TIME_UNITS: &[Unit] = &[
    (&["ns", "nsec"], 1),
    // The micro sign, and the Greek letter.
    (&["us", "\u{b5}s", "\u{3bc}s", "usec"], 1_000),
    (&["ms", "msec"], 1_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["min"], 60_000_000_000),
    (&["h"], 3_600_000_000_000),
];
const RATE_UNITS: &[Unit] = &[
    (&["bit/s", "bit", "bps", "b/s"], 1),
    (&["kbit/s", "kbit", "kbps", "Kbps", "kb/s", "Kb/s"], 1_000),
    (&["Mbit/s", "Mbit", "Mbps", "Mb/s"], 1_000_000),
    (&["Gbit/s", "Gbit", "Gbps", "Gb/s"], 1_000_000_000),
    (&["Tbit/s", "Tbit", "Tbps", "Tb/s"], 1_000_000_000_000),
    (&["B/s"], 8),
    (&["kB/s", "KB/s"], 8_000),
    (&["MB/s"], 8_000_000),
    (&["GB/s"], 8_000_000_000),
];
const FREQUENCY_UNITS: &[Unit] =
    &[(&["Hz"], 1), (&["kHz", "KHz"], 1_000), (&["MHz"], 1_000_000), (&["GHz"], 1_000_000_000)];
const SIZE_UNITS: &[Unit] = &[
    (&["B"], 1),
    (&["kB", "KB"], 1_000),
    (&["MB"], 1_000_000),
    (&["GB"], 1_000_000_000),
    (&["KiB"], 1 << 10),
    (&["MiB"], 1 << 20),
    (&["GiB"], 1 << 30),
];
const RESERVATION_UNITS: &[Unit] = &[
    (&["cps"], 1),
    (&["kcps", "Kcps"], 1_000),
    (&["Mcps"], 1_000_000),
    (&["Gcps"], 1_000_000_000),
    (&["pps"], 1),
    (&["kpps", "Kpps"], 1_000),
    (&["Mpps"], 1_000_000),
];

/// Parses a duration such as `"40 ms"` and returns it in ns.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub fn parse_duration_ns(text: &str) -> Result<u64, String> {
    parse_quantity(text, TIME_UNITS, "a duration", "40 ms")
}

/// Parses a rate such as `"1.5 Mbit/s"` and returns it in bits/s; 0 is an error.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub fn parse_rate_bps(text: &str) -> Result<u64, String> {
    match parse_quantity(text, RATE_UNITS, "a rate", "100 Mbit/s")? {
        0 => Err(format!("`{text}` is a rate of 0; a rate must be at least 1 bit/s")),
        rate => Ok(rate),
    }
}

/// Parses a frequency such as `"23 MHz"` and returns it in Hz; 0 is an error.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub(crate) fn parse_frequency_hz(text: &str) -> Result<u64, String> {
    match parse_quantity(text, FREQUENCY_UNITS, "a frequency", "23 MHz")? {
        0 => Err(format!("`{text}` is a frequency of 0; it must be at least 1 Hz")),
        frequency => Ok(frequency),
    }
}

/// Parses a size such as `"16 KB"` and returns it in bytes; 0 is an error.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub fn parse_size_bytes(text: &str) -> Result<u64, String> {
    match parse_quantity(text, SIZE_UNITS, "a size", "16 KB")? {
        0 => Err(format!("`{text}` is a size of 0; it must be at least 1 B")),
        bytes => Ok(bytes),
    }
}

/// A CPU reservation in the unit of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationText {
    /// Cycles per second.
    Cycles(u64),
    /// Packets per second.
    Packets(u64),
}

/// Parses a reservation such as `"12 Mcps"` or `"90 kpps"`; 0 is an error.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub fn parse_reservation(text: &str) -> Result<ReservationText, String> {
    match parse_quantity(text, RESERVATION_UNITS, "a reservation", "90 kpps")? {
        0 => Err(format!("`{text}` is a reservation of 0; leave it out for best effort")),
        value if text.trim_end().ends_with("cps") => Ok(ReservationText::Cycles(value)),
        value => Ok(ReservationText::Packets(value)),
    }
}

fn parse_quantity(text: &str, units: &[Unit], what: &str, example: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let (number, unit) = split.map_or((trimmed, ""), |at| trimmed.split_at(at));
    let unit = unit.trim_start();
    let expected = || format!("expected {}", expected(what, example, units));
    if number.is_empty() {
        return Err(format!("`{text}` is not {what}; {}", expected()));
    }
    let Some(scale) = scale(unit, units) else {
        let problem = if unit.is_empty() { "has no unit" } else { "has an unknown unit" };
        return Err(match suggestion(unit, units) {
            Some(Suggestion::Unit(unit)) => {
                format!("`{text}` {problem}; did you mean \"{number} {unit}\"? {}", expected())
            }
            Some(Suggestion::BitsOrBytes(bits, bytes)) => format!(
                "`{text}` can mean bits or bytes per second; write \"{number} {bits}\" or \
                 \"{number} {bytes}\""
            ),
            None => format!("`{text}` {problem}; {}", expected()),
        });
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: String = [whole, fraction].concat().replace('_', "");
    let base = units[0].0[0];
    let too_large = || format!("`{text}` is too large; at most 2^64 − 1 {base}");
    if digits.is_empty() || fraction.contains('.') || fraction.len() > 18 {
        return Err(format!("`{text}` is not {what}; {}", expected()));
    }
    let mantissa: u128 = digits.parse().map_err(|_| too_large())?;
    let divisor = 10u128.pow(u32::try_from(fraction.replace('_', "").len()).unwrap_or(18));
    let scaled = mantissa.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
    if scaled % divisor != 0 {
        return Err(format!("`{text}` is not a whole number of {base}"));
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large())
}

/// Returns the size of `unit` in base units.
fn scale(unit: &str, units: &[Unit]) -> Option<u64> {
    let is_unit =
        |known: &&str| **known == *unit || any_case(known) && known.eq_ignore_ascii_case(unit);
    units.iter().find(|(spellings, _)| spellings.iter().any(is_unit)).map(|unit| unit.1)
}

/// Returns whether a spelling matches in any case.
fn any_case(spelling: &str) -> bool {
    spelling.contains("bit")
}

/// What an unknown unit may mean.
enum Suggestion {
    Unit(&'static str),
    /// The unit of bits and the unit of bytes.
    BitsOrBytes(&'static str, &'static str),
}

/// Returns the unit that `unit` spells in the wrong case.
fn suggestion(unit: &str, units: &[Unit]) -> Option<Suggestion> {
    let find = |wanted: &str, ending: &str| {
        let spellings = units.iter().flat_map(|(spellings, _)| *spellings);
        let mut found =
            spellings.filter(|known| known.ends_with(ending) && known.eq_ignore_ascii_case(wanted));
        found.next().copied()
    };
    let lower = unit.to_ascii_lowercase();
    // tc reads "mbps" as bytes, other programs as bits.
    if let Some(prefix) = lower.strip_suffix("bps").or_else(|| lower.strip_suffix("b/s"))
        && let (Some(bits), Some(bytes)) =
            (find(&format!("{prefix}bit/s"), "bit/s"), find(&format!("{prefix}b/s"), "B/s"))
    {
        return Some(Suggestion::BitsOrBytes(bits, bytes));
    }
    find(unit, "").map(Suggestion::Unit)
}

/// Parses a window-constraint `"x/y"`.
fn parse_window(text: &str) -> Result<Window, String> {
    let expected = "expected a window-constraint \"x/y\" with 0 ≤ x ≤ y, such as \"1/4\"";
    let parsed = text.split_once('/').and_then(|(lost, of)| {
        Some((lost.trim().parse::<u32>().ok()?, of.trim().parse::<u32>().ok()?))
    });
    let (lost, of) = parsed.ok_or_else(|| format!("`{text}` is not a window; {expected}"))?;
    Window::new(lost, of).map_err(|error| format!("{error}; {expected}"))
}

/// Returns the description of a quantity, with an example and the displayed units.
fn expected(what: &str, example: &str, units: &[Unit]) -> String {
    let shown: Vec<_> = units.iter().map(|(spellings, _)| spellings[0]).collect();
    format!("{what} such as \"{example}\" (units: {})", shown.join(", "))
}

/// Returns the regular expression of a number and a unit, for the schema.
fn pattern(units: &[Unit]) -> String {
    let spellings = units.iter().flat_map(|(spellings, _)| *spellings);
    let alternatives: Vec<String> = spellings
        .map(|spelling| match any_case(spelling) {
            true => spelling.chars().map(letter_in_any_case).collect(),
            false => (*spelling).to_owned(),
        })
        .collect();
    format!(r"^\s*[0-9_.]+\s*({})\s*$", alternatives.join("|"))
}

/// Returns a character class such as `[mM]` for a letter.
fn letter_in_any_case(letter: char) -> String {
    match letter.is_ascii_alphabetic() {
        true => format!("[{}{}]", letter.to_ascii_lowercase(), letter.to_ascii_uppercase()),
        false => letter.to_string(),
    }
}

/// Implements `Deserialize` from a string and `JsonSchema` for a quantity.
macro_rules! impl_quantity {
    ($name:ident, $parse:expr, $schema_name:literal, $pattern:expr, $expecting:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(&$expecting)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        let parse: fn(&str) -> Result<$name, String> = $parse;
                        parse(text).map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema_name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $expecting })
            }
        }
    };
}

/// Defines a quantity: a number with a unit.
macro_rules! quantity {
    (
        $(#[$doc:meta])* $name:ident, $parse:path, $schema_name:literal, $units:ident,
        $what:literal, $example:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(pub(crate) u64);

        impl_quantity!(
            $name, |text| $parse(text).map($name), $schema_name, pattern($units),
            expected($what, $example, $units)
        );
    };
}

quantity!(
    /// A duration in ns.
    Duration, parse_duration_ns, "duration", TIME_UNITS, "a duration", "40 ms"
);
quantity!(
    /// A rate in bits/s.
    Rate, parse_rate_bps, "rate", RATE_UNITS, "a rate", "100 Mbit/s"
);
quantity!(
    /// A frequency in Hz.
    Frequency, parse_frequency_hz, "frequency", FREQUENCY_UNITS, "a frequency", "23 MHz"
);
quantity!(
    /// A size in bytes.
    Size, parse_size_bytes, "size", SIZE_UNITS, "a size", "16 KB"
);

/// A window-constraint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowText(pub(crate) Window);

impl_quantity!(
    WindowText,
    |text| parse_window(text).map(WindowText),
    "window",
    r"^\s*[0-9]+\s*/\s*[0-9]+\s*$",
    "a window-constraint \"x/y\": at most x of any y consecutive packets late or lost"
);

impl_quantity!(
    ReservationText,
    parse_reservation,
    "reservation",
    pattern(RESERVATION_UNITS),
    expected("a reservation", "90 kpps", RESERVATION_UNITS)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_exactly() {
        assert_eq!(parse_duration_ns("40 ms"), Ok(40_000_000));
        assert_eq!(parse_duration_ns("0.000000001 s"), Ok(1));
        assert_eq!(parse_duration_ns("33.333333ms"), Ok(33_333_333));
        assert_eq!(parse_duration_ns("2 µs"), Ok(2_000));
        assert_eq!(parse_rate_bps("1.5 Mbps"), Ok(1_500_000));
        assert_eq!(parse_rate_bps("10_000 Gbps"), Ok(10_000_000_000_000));
        assert_eq!(parse_frequency_hz("33.3 MHz"), Ok(33_300_000));
        assert_eq!(parse_size_bytes("1.5 KB"), Ok(1_500));
        assert_eq!(parse_size_bytes("2 KiB"), Ok(2_048));
        assert_eq!(parse_size_bytes("2 GiB"), Ok(2_147_483_648));
        assert_eq!(parse_reservation("1.5 Mcps"), Ok(ReservationText::Cycles(1_500_000)));
        assert_eq!(parse_reservation("90 Kpps "), Ok(ReservationText::Packets(90_000)));
        assert_eq!(parse_window(" 1 / 4 "), Ok(Window::new(1, 4).unwrap()));
    }

    #[test]
    fn spellings_of_a_rate() {
        let mega = ["10 Mbit/s", "10mbit", "10 MBIT/s", "10 Mbps", "10 Mb/s", "1.25 MB/s"];
        for text in mega {
            assert_eq!(parse_rate_bps(text), Ok(10_000_000), "{text}");
        }
        for text in ["64 kbit/s", "64 Kbit", "64 kbps", "64 Kbps", "64 kb/s", "8 kB/s", "8 KB/s"] {
            assert_eq!(parse_rate_bps(text), Ok(64_000), "{text}");
        }
        assert_eq!(parse_rate_bps("1 Tbit/s"), Ok(1_000_000_000_000));
        assert_eq!(parse_reservation("90 kpps"), Ok(ReservationText::Packets(90_000)));
        assert_eq!(parse_reservation("3 kcps"), Ok(ReservationText::Cycles(3_000)));
        assert_eq!(parse_duration_ns("2 \u{3bc}s"), parse_duration_ns("2 \u{b5}s"));
        assert_eq!(parse_frequency_hz("32 kHz"), Ok(32_000));
        assert_eq!(parse_size_bytes("16 kB"), Ok(16_000));
    }

    /// Editors reject what the schema's pattern omits.
    #[test]
    fn the_schema_accepts_every_spelling() {
        assert_eq!(pattern(FREQUENCY_UNITS), r"^\s*[0-9_.]+\s*(Hz|kHz|KHz|MHz|GHz)\s*$");
        let rates = pattern(RATE_UNITS);
        for part in ["|[mM][bB][iI][tT]/[sS]|[mM][bB][iI][tT]|Mbps|Mb/s|", "|MB/s|", "(["] {
            assert!(rates.contains(part), "{rates} lacks {part}");
        }
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        for (error, parts) in [
            (parse_duration_ns("40").unwrap_err(), vec!["`40`", "no unit", "40 ms"]),
            (parse_duration_ns("0.5 ns").unwrap_err(), vec!["`0.5 ns`", "whole number of ns"]),
            (parse_duration_ns("x ms").unwrap_err(), vec!["`x ms`", "not a duration"]),
            (parse_duration_ns("-4 ms").unwrap_err(), vec!["`-4 ms`"]),
            (parse_duration_ns("999999999999 h").unwrap_err(), vec!["too large"]),
            (parse_duration_ns("1.2.3 s").unwrap_err(), vec!["not a duration"]),
            (parse_rate_bps("10 Pbps").unwrap_err(), vec!["`10 Pbps`", "unknown unit", "Gbit/s"]),
            (parse_rate_bps("10 mbps").unwrap_err(), vec!["\"10 Mbit/s\" or \"10 MB/s\""]),
            (parse_rate_bps("10 MBps").unwrap_err(), vec!["bits or bytes", "\"10 Mbit/s\""]),
            (parse_rate_bps("10 mb/s").unwrap_err(), vec!["bits or bytes", "\"10 MB/s\""]),
            (parse_rate_bps("0 bps").unwrap_err(), vec!["rate of 0", "at least 1 bit/s"]),
            (parse_frequency_hz("0 Hz").unwrap_err(), vec!["frequency of 0", "at least 1 Hz"]),
            (parse_frequency_hz("23 mhz").unwrap_err(), vec!["did you mean \"23 MHz\"?"]),
            (parse_size_bytes("16 kb").unwrap_err(), vec!["did you mean \"16 kB\"?"]),
            (parse_size_bytes("0 B").unwrap_err(), vec!["at least 1 B"]),
            (parse_window("5/4").unwrap_err(), vec!["5/4", "x must be at most y"]),
            (parse_window("1/0").unwrap_err(), vec!["1/0"]),
            (parse_reservation("0 pps").unwrap_err(), vec!["reservation of 0"]),
            (parse_reservation("9 KPPS").unwrap_err(), vec!["did you mean \"9 kpps\"?"]),
            (parse_window("half").unwrap_err(), vec!["`half`", "1/4"]),
        ] {
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn unit_parsers_never_panic(text in "\\PC{0,24}") {
            let _ = (parse_duration_ns(&text), parse_rate_bps(&text));
            let _ = (parse_size_bytes(&text), parse_window(&text));
        }
    }
}
