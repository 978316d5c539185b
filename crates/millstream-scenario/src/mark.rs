//! Marks of packets (fwmark), with the mask of the compared bits.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

const EXPECTED: &str = "a mark such as 7 or \"0x100/0xff00\" (value and mask)";

/// A match of a packet's mark: `mark & mask == value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The value of the compared bits; no other bit is set.
    pub value: u32,
    /// The compared bits; not 0.
    pub mask: u32,
}

impl Mark {
    fn of_number(number: i64) -> Result<Self, String> {
        let value = u32::try_from(number);
        let value = value.map_err(|_| format!("a mark of {number}; from 0 to {}", u32::MAX))?;
        Ok(Self { value, mask: u32::MAX })
    }

    fn of_text(text: &str) -> Result<Self, String> {
        let number = |digits: &str| {
            let digits = digits.trim();
            let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
            let number = hex.map_or_else(|| digits.parse(), |hex| u32::from_str_radix(hex, 16));
            number.map_err(|_| format!("`{text}` is not a mark; expected {EXPECTED}"))
        };
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (number(value)?, number(mask)?),
            None => (number(text)?, u32::MAX),
        };
        if mask == 0 {
            return Err(format!("the mask of `{text}` is 0, so that all packets match"));
        }
        if value & !mask != 0 {
            let within = value & mask;
            return Err(format!(
                "`{text}` has bits outside its mask, so that no packet matches; did you mean \
                 \"{within:#x}/{mask:#x}\"?"
            ));
        }
        Ok(Self { value, mask })
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Mark;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Mark, E> {
        Mark::of_number(number).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Mark, E> {
        Mark::of_text(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for Mark {
    fn schema_name() -> Cow<'static, str> {
        "mark".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let number = "(0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10})";
        json_schema!({
            "description": EXPECTED,
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": u32::MAX },
                { "type": "string", "pattern": format!("^{number}(/{number})?$") },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_has_a_value_and_a_mask() {
        let mark = |value, mask| Ok(Mark { value, mask });
        assert_eq!(Mark::of_number(7), mark(7, u32::MAX));
        assert_eq!(Mark::of_text("7"), mark(7, u32::MAX));
        assert_eq!(Mark::of_text("0xFFFFFFFF"), mark(u32::MAX, u32::MAX));
        assert_eq!(Mark::of_text("0x100/0xff00"), mark(0x100, 0xff00));
        assert_eq!(Mark::of_text("0 / 1"), mark(0, 1));
    }

    #[test]
    fn a_mark_that_no_packet_or_every_packet_has_is_an_error() {
        let error = |text| Mark::of_text(text).unwrap_err();
        assert_eq!(error("7/0"), "the mask of `7/0` is 0, so that all packets match");
        let outside = error("0x1ff/0xff00");
        assert!(outside.ends_with("did you mean \"0x100/0xff00\"?"), "{outside}");
        for text in ["", "0x", "-1", "1/", "/1", "1/2/3", "0x100000000", "4294967296", "0xg"] {
            assert!(error(text).contains("is not a mark"), "{text}");
        }
        assert_eq!(Mark::of_number(-1).unwrap_err(), "a mark of -1; from 0 to 4294967295");
    }
}
