//! Parsers of quantities with units, such as `"40 ms"`, `"1.5 Mbps"` and `"1/4"`.
//!
//! Decimal fractions are parsed exactly, in integers: `"1.5 Mbps"` is 1,500,000 bits/s. A value
//! that is not a whole number of the base unit (ns, bits/s), or that exceeds 64 bits, is an error.
//! Values are never rounded.

use millstream::Window;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A unit's spelling and its size in base units.
type Unit = (&'static str, u64);

const TIME_UNITS: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const RATE_UNITS: &[Unit] =
    &[("bps", 1), ("Kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000)];
const FREQUENCY_UNITS: &[Unit] =
    &[("Hz", 1), ("KHz", 1_000), ("MHz", 1_000_000), ("GHz", 1_000_000_000)];
const SIZE_UNITS: &[Unit] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

const RESERVATION_UNITS: &[Unit] = &[
    ("cps", 1),
    ("Kcps", 1_000),
    ("Mcps", 1_000_000),
    ("Gcps", 1_000_000_000),
    ("pps", 1),
    ("Kpps", 1_000),
    ("Mpps", 1_000_000),
];

/// Parses a duration such as `"40 ms"` and returns it in ns.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub fn parse_duration_ns(text: &str) -> Result<u64, String> {
    parse_quantity(text, TIME_UNITS, "a duration", "40 ms")
}

/// Parses a rate such as `"1.5 Mbps"` and returns it in bits/s; 0 is an error.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub fn parse_rate_bps(text: &str) -> Result<u64, String> {
    match parse_quantity(text, RATE_UNITS, "a rate", "100 Mbps")? {
        0 => Err(format!("`{text}` is a rate of 0; a rate must be at least 1 bps")),
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

/// Parses a reservation such as `"12 Mcps"` or `"90 Kpps"`; 0 is an error.
///
/// # Errors
/// Returns a message with the value, the accepted units and an example.
pub fn parse_reservation(text: &str) -> Result<ReservationText, String> {
    match parse_quantity(text, RESERVATION_UNITS, "a reservation", "90 Kpps")? {
        0 => Err(format!("`{text}` is a reservation of 0; leave it out for best effort")),
        value if text.trim_end().ends_with("cps") => Ok(ReservationText::Cycles(value)),
        value => Ok(ReservationText::Packets(value)),
    }
}

fn parse_quantity(text: &str, units: &[Unit], what: &str, example: &str) -> Result<u64, String> {
    let allowed = || units.iter().map(|unit| unit.0).collect::<Vec<_>>().join(", ");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let (number, unit) = split.map_or((trimmed, ""), |at| trimmed.split_at(at));
    let unit = unit.trim_start();
    let expected = || format!("expected {what} such as \"{example}\" (units: {})", allowed());
    if number.is_empty() {
        return Err(format!("`{text}` is not {what}; {}", expected()));
    }
    let Some(&(_, scale)) = units.iter().find(|known| known.0 == unit) else {
        let near = units.iter().find(|known| known.0.eq_ignore_ascii_case(unit));
        let hint = near.map_or(String::new(), |near| format!("; did you mean \"{}\"?", near.0));
        let problem = if unit.is_empty() { "has no unit" } else { "has an unknown unit" };
        return Err(format!("`{text}` {problem}{hint}; {}", expected()));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: String = [whole, fraction].concat().replace('_', "");
    let too_large = || format!("`{text}` is too large; at most 2^64 − 1 {}", units[0].0);
    if digits.is_empty() || fraction.contains('.') || fraction.len() > 18 {
        return Err(format!("`{text}` is not {what}; {}", expected()));
    }
    let mantissa: u128 = digits.parse().map_err(|_| too_large())?;
    let divisor = 10u128.pow(u32::try_from(fraction.replace('_', "").len()).unwrap_or(18));
    let scaled = mantissa.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
    if scaled % divisor != 0 {
        return Err(format!("`{text}` is not a whole number of {}", units[0].0));
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large())
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

macro_rules! quantity {
    (
        $(#[$doc:meta])* $name:ident, $value:ty, $parse:path, $schema_name:literal,
        $pattern:literal, $expecting:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(pub(crate) $value);

        impl_quantity!($name, |text| $parse(text).map($name), $schema_name, $pattern, $expecting);
    };
}

/// Implements `Deserialize` from a string and `JsonSchema` for a quantity.
macro_rules! impl_quantity {
    ($name:ident, $parse:expr, $schema_name:literal, $pattern:literal, $expecting:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
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

quantity!(
    /// A duration in ns.
    Duration, u64, parse_duration_ns, "duration",
    r"^\s*[0-9_.]+\s*(ns|us|µs|ms|s|min|h)\s*$",
    "a duration such as \"40 ms\" (units: ns, us, ms, s, min, h)"
);
quantity!(
    /// A rate in bits/s.
    Rate, u64, parse_rate_bps, "rate",
    r"^\s*[0-9_.]+\s*(bps|Kbps|Mbps|Gbps)\s*$",
    "a rate such as \"100 Mbps\" (units: bps, Kbps, Mbps, Gbps)"
);
quantity!(
    /// A frequency in Hz.
    Frequency, u64, parse_frequency_hz, "frequency",
    r"^\s*[0-9_.]+\s*(Hz|KHz|MHz|GHz)\s*$",
    "a frequency such as \"23 MHz\" (units: Hz, KHz, MHz, GHz)"
);
quantity!(
    /// A size in bytes.
    Size, u64, parse_size_bytes, "size",
    r"^\s*[0-9_.]+\s*(B|KB|MB|GB|KiB|MiB|GiB)\s*$",
    "a size such as \"16 KB\" (units: B, KB, MB, GB, KiB, MiB, GiB)"
);
quantity!(
    /// A window-constraint.
    WindowText, Window, parse_window, "window",
    r"^\s*[0-9]+\s*/\s*[0-9]+\s*$",
    "a window-constraint \"x/y\": at most x of any y consecutive packets late or lost"
);

impl_quantity!(
    ReservationText,
    parse_reservation,
    "reservation",
    r"^\s*[0-9_.]+\s*([KMG]?cps|[KM]?pps)\s*$",
    "a reservation such as \"12 Mcps\" or \"90 Kpps\" (units: cps, Kcps, Mcps, Gcps, pps, Kpps, \
     Mpps)"
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

    /// Editors reject what the schema's pattern omits.
    #[test]
    fn the_schema_names_every_unit() {
        let mut generator = SchemaGenerator::default();
        let mut pattern = |schema: fn(&mut SchemaGenerator) -> Schema| {
            let schema = schema(&mut generator);
            schema.get("pattern").and_then(|text| text.as_str()).unwrap().to_owned()
        };
        for (pattern, units) in [
            (pattern(Duration::json_schema), TIME_UNITS),
            (pattern(Rate::json_schema), RATE_UNITS),
            (pattern(Frequency::json_schema), FREQUENCY_UNITS),
            (pattern(Size::json_schema), SIZE_UNITS),
        ] {
            let (_, listed) = pattern.split_once('(').unwrap();
            let (listed, _) = listed.split_once(')').unwrap();
            let known: Vec<_> = units.iter().map(|unit| unit.0).collect();
            assert_eq!(listed.split('|').collect::<Vec<_>>(), known);
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
            (parse_rate_bps("10 Tbps").unwrap_err(), vec!["`10 Tbps`", "unknown unit", "Gbps"]),
            (parse_rate_bps("10 mbps").unwrap_err(), vec!["did you mean \"Mbps\""]),
            (parse_rate_bps("0 bps").unwrap_err(), vec!["rate of 0", "at least 1 bps"]),
            (parse_frequency_hz("0 Hz").unwrap_err(), vec!["frequency of 0", "at least 1 Hz"]),
            (parse_frequency_hz("23 mhz").unwrap_err(), vec!["did you mean \"MHz\""]),
            (parse_size_bytes("16 kb").unwrap_err(), vec!["did you mean \"KB\""]),
            (parse_size_bytes("0 B").unwrap_err(), vec!["at least 1 B"]),
            (parse_window("5/4").unwrap_err(), vec!["5/4", "x must be at most y"]),
            (parse_window("1/0").unwrap_err(), vec!["1/0"]),
            (parse_reservation("0 pps").unwrap_err(), vec!["reservation of 0"]),
            (parse_reservation("9 kpps").unwrap_err(), vec!["did you mean \"Kpps\""]),
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
