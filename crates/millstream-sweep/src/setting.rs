//! A setting of a sweep, `PLACE=VALUE,…`: a location in the scenario file and its values.

use std::fmt;
use std::str::FromStr;
use toml::Value;

use crate::error::SweepError;

const FORM: &str = "PLACE=VALUE,… such as link.rate=\"10 Mbit/s,20 Mbit/s\" or \
                    scheduler.discipline=fifo,drr";

/// A location in the scenario file and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The location: `link.rate`, `stream.NAME.weight`, `stream.*.queue`, `stream.0.source.rate`.
    pub place: String,
    /// The values, in the given order.
    pub values: Vec<Value>,
}

impl FromStr for Setting {
    type Err = SweepError;

    /// Parses `PLACE=VALUE,…` with values separated by commas.
    ///
    /// A TOML number, boolean, quoted string, array or inline table keeps its type. Any other value
    /// is a string, so `20 Mbit/s` and `fifo` need no quotes.
    fn from_str(text: &str) -> Result<Self, SweepError> {
        let wrong = |what: &str| SweepError::invalid_argument(format!("`{text}`: {what}"), FORM);
        let (place, values) = text.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
        let place = place.trim().to_owned();
        if place.is_empty() {
            return Err(wrong("there is no place before the `=`"));
        }
        let values = split_values(values).into_iter().map(|piece| match piece.trim() {
            "" => Err(wrong("a value is empty")),
            piece => value(piece).ok_or_else(|| {
                wrong(&format!("`{piece}` begins like a TOML value but is invalid"))
            }),
        });
        Ok(Self { values: values.collect::<Result<_, _>>()?, place })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().map(display_value).collect();
        write!(f, "{}={}", self.place, values.join(","))
    }
}

/// Formats a value, strings without quotes.
pub(crate) fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Splits at the commas outside quotes, brackets and braces.
fn split_values(text: &str) -> Vec<&str> {
    let (mut quote, mut depth, mut from, mut escaped) = (None, 0u32, 0, false);
    let mut parts = Vec::new();
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some('"'), '\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(mark), _) if mark == letter && !escaped => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            (None, _) => {}
        }
        escaped = false;
    }
    parts.push(&text[from..]);
    parts
}

/// Parses one value; `None` if it starts like a string, an array or a table but is invalid.
fn value(piece: &str) -> Option<Value> {
    let plain = || Value::String(piece.to_owned());
    match piece.parse::<Value>() {
        Ok(Value::Datetime(_)) => Some(plain()),
        Ok(Value::Float(number)) if !number.is_finite() => Some(plain()),
        Ok(value) => Some(value),
        Err(_) if piece.starts_with(['"', '\'', '[', '{']) => None,
        Err(_) => Some(plain()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Value> {
        text.parse::<Setting>().unwrap().values
    }

    #[test]
    fn values_are_toml_or_else_strings() {
        let expected = [Value::Integer(10), Value::Float(0.5), Value::Boolean(true)];
        assert_eq!(values("a.b=10,0.5,true"), expected);
        let strings =
            |some: &[&str]| some.iter().map(|text| Value::from(*text)).collect::<Vec<_>>();
        let texts = "a.b=20 Mbit/s, 1/4,fifo,\"10\",'x,y',inf,2026-01-01";
        let expected = ["20 Mbit/s", "1/4", "fifo", "10", "x,y", "inf", "2026-01-01"];
        assert_eq!(values(texts), strings(&expected));
        assert_eq!(values(r#"a.b="x\",y""#), strings(&["x\",y"]));
    }

    #[test]
    fn arrays_and_tables_keep_their_commas() {
        let found = values(r#"scheduler.table=["a","b"],["b", "a"]"#);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].as_array().unwrap()[0].as_str(), Some("b"));
        let found = values(r#"stream.a.source={ kind = "cbr", bytes = 9 }"#);
        assert_eq!(found[0]["bytes"].as_integer(), Some(9));
    }

    #[test]
    fn invalid_settings_explain_the_error() {
        let why = |text: &str| text.parse::<Setting>().unwrap_err().to_string();
        assert_eq!(why("link.rate"), "`link.rate`: there is no `=`");
        assert_eq!(why("=1"), "`=1`: there is no place before the `=`");
        assert_eq!(why("a.b=1,,2"), "`a.b=1,,2`: a value is empty");
        assert!(why("a.b=[1,2").contains("`[1,2` begins like a TOML value"));
    }
}
