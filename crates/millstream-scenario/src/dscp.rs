//! Differentiated services code points: their names, and sets of them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

use crate::error::nearest;

/// The largest code point.
const MAX: u8 = 63;

/// Names and their code points. Sources: RFC 2474 (CS), 2597 (AF), 3246 (EF), 5865 (VA), 8622 (LE);
/// "AF1x" is an assured forwarding class with its three drop precedences, as in tc-cake(8).
const NAMES: &[(&str, &[u8])] = &[
    ("CS0", &[0]),
    ("LE", &[1]),
    ("CS1", &[8]),
    ("AF1x", &[10, 12, 14]),
    ("AF11", &[10]),
    ("AF12", &[12]),
    ("AF13", &[14]),
    ("CS2", &[16]),
    ("AF2x", &[18, 20, 22]),
    ("AF21", &[18]),
    ("AF22", &[20]),
    ("AF23", &[22]),
    ("CS3", &[24]),
    ("AF3x", &[26, 28, 30]),
    ("AF31", &[26]),
    ("AF32", &[28]),
    ("AF33", &[30]),
    ("CS4", &[32]),
    ("AF4x", &[34, 36, 38]),
    ("AF41", &[34]),
    ("AF42", &[36]),
    ("AF43", &[38]),
    ("CS5", &[40]),
    ("VA", &[44]),
    ("EF", &[46]),
    ("CS6", &[48]),
    ("CS7", &[56]),
];

const EXPECTED: &str =
    "a code point from 0 to 63, a name such as \"EF\" or \"AF4x\", or a list of them";

/// A set of differentiated services code points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePoints(u64);

impl CodePoints {
    /// Returns the set of one code point: the lower six bits of `dscp`.
    #[must_use]
    pub const fn of(dscp: u8) -> Self {
        Self(1 << (dscp & MAX))
    }

    /// Returns whether the set has the code point.
    #[must_use]
    pub const fn contains(self, dscp: u8) -> bool {
        dscp <= MAX && self.0 >> dscp & 1 == 1
    }

    /// Returns the code points in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=MAX).filter(move |dscp| self.contains(*dscp))
    }

    fn of_number(dscp: i64) -> Result<Self, String> {
        let number = u8::try_from(dscp).ok().filter(|dscp| *dscp <= MAX);
        number.map(Self::of).ok_or_else(|| format!("a code point of {dscp}; from 0 to {MAX}"))
    }

    fn of_name(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, points)| points.iter().copied().collect()).ok_or_else(|| {
            let upper = name.to_ascii_uppercase();
            let near = nearest(&upper, NAMES.iter().map(|(known, _)| *known));
            let meant = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
            format!("`{name}` is not the name of a code point; expected {EXPECTED}{meant}")
        })
    }
}

impl From<u8> for CodePoints {
    fn from(dscp: u8) -> Self {
        Self::of(dscp)
    }
}

impl FromIterator<u8> for CodePoints {
    fn from_iter<I: IntoIterator<Item = u8>>(points: I) -> Self {
        Self(points.into_iter().fold(0, |set, dscp| set | Self::of(dscp).0))
    }
}

/// Reads a number or a name, and a list of them if `LIST`.
struct Reader<const LIST: bool>;

impl<'de, const LIST: bool> Visitor<'de> for Reader<LIST> {
    type Value = CodePoints;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_i64<E: de::Error>(self, dscp: i64) -> Result<CodePoints, E> {
        CodePoints::of_number(dscp).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<CodePoints, E> {
        CodePoints::of_name(name).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<CodePoints, A::Error> {
        if !LIST {
            return Err(de::Error::invalid_type(de::Unexpected::Seq, &self));
        }
        let mut points = CodePoints(0);
        while let Some(Item(item)) = items.next_element()? {
            points.0 |= item.0;
        }
        if points.0 == 0 {
            return Err(de::Error::custom(format!("an empty list; expected {EXPECTED}")));
        }
        Ok(points)
    }
}

/// An item of a list.
struct Item(CodePoints);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader::<false>).map(Self)
    }
}

impl<'de> Deserialize<'de> for CodePoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader::<true>)
    }
}

impl JsonSchema for CodePoints {
    fn schema_name() -> Cow<'static, str> {
        "code-points".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let number = json_schema!({ "type": "integer", "minimum": 0, "maximum": MAX });
        json_schema!({
            "description": EXPECTED,
            "anyOf": [
                number,
                { "enum": names },
                {
                    "type": "array",
                    "minItems": 1,
                    "items": { "anyOf": [number, { "enum": names }] },
                },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Table {
        dscp: CodePoints,
    }

    fn parse(value: &str) -> Result<Vec<u8>, String> {
        let table = toml::from_str::<Table>(&format!("dscp = {value}"));
        table.map(|table| table.dscp.iter().collect()).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn numbers_names_and_lists_are_code_points() {
        assert_eq!(parse("46"), Ok(vec![46]));
        assert_eq!(parse("\"ef\""), Ok(vec![46]));
        assert_eq!(parse("[\"CS7\", 0, \"AF41\", 63, \"LE\"]"), Ok(vec![0, 1, 34, 56, 63]));
        assert_eq!(parse("[\"AF4x\", \"af4X\", 2]"), Ok(vec![2, 34, 36, 38]));
        for (name, points) in NAMES {
            let expected = match name.as_bytes() {
                [b'C', b'S', class] => vec![(class - b'0') << 3],
                [b'A', b'F', class, b'x'] => {
                    (1..4).map(|of| (class - b'0') << 3 | of << 1).collect()
                }
                [b'A', b'F', class, of] => vec![(class - b'0') << 3 | (of - b'0') << 1],
                _ => points.to_vec(),
            };
            assert_eq!(
                (parse(&format!("\"{name}\"")), *points),
                (Ok(expected.clone()), &*expected)
            );
        }
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        for (value, parts) in [
            ("64", ["code point of 64", "from 0 to 63"]),
            ("[1, -1]", ["code point of -1", "from 0 to 63"]),
            ("300", ["code point of 300", "from 0 to 63"]),
            ("\"EG\"", ["`EG`", "did you mean \"EF\"?"]),
            ("[]", ["an empty list", "a name such as \"EF\""]),
            ("[[1]]", ["sequence", "from 0 to 63"]),
            ("1.5", ["1.5", "from 0 to 63"]),
        ] {
            let error = parse(value).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{value}: {error}");
        }
    }
}
