//! Paths in a scenario file: `link.rate`, `stream.video.weight`, `stream.*.queue`,
//! `stream.0.queue`.
//!
//! Python's `Scenario.replace` uses these names too.

use toml::{Table, Value};

use crate::error::SweepError;

const HEADS: [&str; 4] = ["scenario", "link", "scheduler", "fabric"];

/// The maximum number of row names that an error lists.
const MAX_LISTED: usize = 20;

/// Sets every location that `place` denotes to `value`.
///
/// # Errors
/// Fails if there is no such location.
pub(crate) fn set(table: &mut Table, place: &str, value: &Value) -> Result<(), SweepError> {
    let steps: Vec<&str> = place.split('.').collect();
    match steps.as_slice() {
        [head @ ("stream" | "class" | "hop"), wanted, inner @ .., key] => {
            for row in rows(table, head, wanted, place)? {
                set_key(row, inner, key, value, place)?;
            }
            Ok(())
        }
        ["scenario", "seed"] => Err(SweepError::invalid_argument(
            format!("`{place}` cannot be set"),
            "use --seeds for the seeds",
        )),
        [head, inner @ .., key] if HEADS.contains(head) => {
            let holder = table.entry(*head).or_insert_with(|| Value::Table(Table::new()));
            match holder.as_table_mut() {
                Some(holder) => set_key(holder, inner, key, value, place),
                None => Err(not_a_table(head, place)),
            }
        }
        _ => Err(SweepError::invalid_argument(
            format!("`{place}` is not a place in a scenario file"),
            "a place is scenario.KEY, link.KEY, scheduler.KEY, fabric.KEY, stream.NAME.KEY, \
             class.NAME.KEY or hop.NAME.KEY; NAME can also be `*` for all, or a number from 0",
        )),
    }
}

/// Returns the streams, classes or hops that `wanted` selects: all (`*`), one by name, or one by
/// number.
fn rows<'a>(
    table: &'a mut Table,
    head: &str,
    wanted: &str,
    place: &str,
) -> Result<Vec<&'a mut Table>, SweepError> {
    let rows = table.get_mut(head).and_then(Value::as_array_mut);
    let rows: Vec<&mut Table> = rows
        .map(|rows| rows.iter_mut().filter_map(Value::as_table_mut).collect())
        .unwrap_or_default();
    let name = |row: &Table| row.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    let number = wanted.parse::<usize>().ok().filter(|_| !names.iter().any(|name| name == wanted));
    let found: Vec<&mut Table> = rows
        .into_iter()
        .zip(&names)
        .enumerate()
        .filter(|(at, (_, name))| wanted == "*" || wanted == *name || number == Some(*at))
        .map(|(_, (row, _))| row)
        .collect();
    if found.is_empty() {
        let mut list: Vec<String> =
            names.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
        if names.len() > MAX_LISTED {
            list.push(format!("{} more", names.len() - MAX_LISTED));
        }
        let there = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        return Err(SweepError::invalid_argument(
            format!("`{place}`: there is no {head} called `{wanted}`"),
            format!("the file has {there}; `*` means all, a number counts from 0"),
        ));
    }
    Ok(found)
}

fn set_key(
    mut holder: &mut Table,
    inner: &[&str],
    key: &str,
    value: &Value,
    place: &str,
) -> Result<(), SweepError> {
    for step in inner {
        let next = holder.entry(*step).or_insert_with(|| Value::Table(Table::new()));
        holder = next.as_table_mut().ok_or_else(|| not_a_table(step, place))?;
    }
    holder.insert(key.to_owned(), value.clone());
    Ok(())
}

fn not_a_table(step: &str, place: &str) -> SweepError {
    let message = format!("`{place}`: `{step}` is not a table");
    SweepError::InvalidArgument { message, help: None }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        link = { rate = "1 Mbit/s" }
        stream = [
            { name = "a", weight = 1, source = { kind = "cbr" } },
            { name = "0", weight = 1, source = { kind = "cbr" } },
        ]
    "#;

    fn changed(place: &str) -> Result<Table, String> {
        let mut table: Table = toml::from_str(TEXT).unwrap();
        match set(&mut table, place, &Value::Integer(9)) {
            Ok(()) => Ok(table),
            Err(SweepError::InvalidArgument { message, help }) => {
                Err(format!("{message}; {}", help.unwrap_or_default()))
            }
            Err(other) => Err(other.to_string()),
        }
    }

    fn weights(place: &str) -> Vec<i64> {
        let table = changed(place).unwrap();
        let rows = table["stream"].as_array().unwrap();
        rows.iter().map(|row| row["weight"].as_integer().unwrap()).collect()
    }

    #[test]
    fn rows_are_selected_by_name_number_or_wildcard() {
        assert_eq!(weights("stream.a.weight"), [9, 1]);
        assert_eq!(weights("stream.0.weight"), [1, 9], "a name precedes a number");
        assert_eq!(weights("stream.1.weight"), [1, 9]);
        assert_eq!(weights("stream.*.weight"), [9, 9]);
    }

    #[test]
    fn missing_tables_are_created() {
        assert_eq!(changed("scheduler.quantum").unwrap()["scheduler"]["quantum"], 9.into());
        assert_eq!(
            changed("stream.a.source.bytes").unwrap()["stream"][0]["source"]["bytes"],
            9.into()
        );
    }

    #[test]
    fn a_wrong_place_lists_the_valid_ones() {
        assert_eq!(
            changed("stream.b.weight").unwrap_err(),
            "`stream.b.weight`: there is no stream called `b`; the file has `a`, `0`; `*` means \
             all, a number counts from 0"
        );
        assert!(changed("class.b.weight").unwrap_err().contains("the file has none;"));
        assert!(changed("links.rate").unwrap_err().contains("a place is scenario.KEY, link.KEY"));
        assert!(changed("stream.weight").unwrap_err().contains("is not a place"));
        assert!(changed("link.rate.max").unwrap_err().contains("`rate` is not a table"));
        assert!(changed("scenario.seed").unwrap_err().contains("use --seeds"));
    }
}
