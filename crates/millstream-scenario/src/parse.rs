//! Parsing of a scenario file in parts: some `[[stream]]` tables at a time, then all other tables.
//!
//! The tokens and the tree of a TOML document take many times the memory of its text. So a file
//! with many streams is parsed in parts, and each part's tokens are dropped before the next.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use std::mem;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::file::{File, StreamTable};

/// The bytes after which the next stream begins another part.
const PART_BYTES: usize = 1 << 16;
/// The key of the tables that parts consist of.
const STREAM: &str = "stream";

/// Parses the text of a scenario file.
///
/// # Errors
/// The first error of the document. A file with an error is parsed again as a whole.
pub(crate) fn parse(text: &str) -> Result<File, toml::de::Error> {
    match parse_in_parts(text, PART_BYTES) {
        Some(file) => Ok(file),
        None => toml::from_str(text),
    }
}

/// Returns whether the text of a scenario or router file is valid TOML with the table `key`. The
/// tables of streams are not checked.
pub(crate) fn has_table(text: &str, key: &str) -> bool {
    let rest = without(text, &parts(text, PART_BYTES));
    DeTable::parse(&rest).is_ok_and(|document| document.get_ref().contains_key(key))
}

/// Parses the text in parts of at least `part_bytes`; `None` if it has an error, or if its parts
/// cannot be parsed on their own.
fn parse_in_parts(text: &str, part_bytes: usize) -> Option<File> {
    let parts = parts(text, part_bytes);
    // A text that is valid in every piece is valid as a whole: each begins outside of strings and
    // arrays.
    let ends = parts.iter().map(|part| part.start).chain([text.len()]);
    let starts = [0].into_iter().chain(parts.iter().map(|part| part.end));
    let mut between = starts.zip(ends);
    if !between.all(|(start, end)| DeTable::parse(&text[start..end]).is_ok()) {
        return None;
    }
    let rest = without(text, &parts);
    let rest = DeTable::parse(&rest).ok()?;
    if rest.get_ref().contains_key(STREAM) {
        return None;
    }
    let mut file = File::deserialize(Deserializer::from(rest)).ok()?;
    for part in parts {
        let mut document = DeTable::parse(&text[part.clone()]).ok()?.into_inner();
        let (_, mut streams) = document.remove_entry(STREAM)?;
        if !document.is_empty() {
            return None;
        }
        shift(&mut streams, part.start);
        let streams: Vec<Spanned<StreamTable>> =
            Vec::deserialize(streams.into_deserializer()).ok()?;
        file.stream.extend(streams);
    }
    Some(file)
}

/// Returns the ranges of `text` that begin with `[[stream]]` and have no other header, each of at
/// least `part_bytes` except the last before another header.
///
/// Any line that begins with a bracket counts as a header. In a string or an array, it leaves a
/// part with an error.
fn parts(text: &str, part_bytes: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut part = None;
    let first = text.starts_with('[').then_some(0);
    for line in first.into_iter().chain(text.match_indices("\n[").map(|(at, _)| at + 1)) {
        let header = &text[line..];
        let is_stream = header.starts_with("[[stream]]");
        if header.starts_with("[stream.") || header.starts_with("[[stream.") {
            continue;
        }
        match part {
            Some(start) if !is_stream || line - start >= part_bytes => {
                parts.push(start..line);
                part = is_stream.then_some(line);
            }
            None if is_stream => part = Some(line),
            _ => {}
        }
    }
    parts.extend(part.map(|start| start..text.len()));
    parts
}

/// Returns the text with spaces in place of the parts: all other spans stay.
fn without(text: &str, parts: &[Range<usize>]) -> String {
    let mut rest = String::with_capacity(text.len());
    for part in parts {
        rest.push_str(&text[rest.len()..part.start]);
        rest.push_str(&" ".repeat(part.len()));
    }
    rest.push_str(&text[rest.len()..]);
    rest
}

/// Adds `bytes` to the spans of a value and of all values in it.
fn shift(value: &mut Spanned<DeValue<'_>>, bytes: usize) {
    match value.get_mut() {
        DeValue::Array(values) => values.iter_mut().for_each(|value| shift(value, bytes)),
        DeValue::Table(table) => table.iter_mut().for_each(|(_, value)| shift(value, bytes)),
        _ => {}
    }
    let span = value.span();
    let inner = mem::replace(value.get_mut(), DeValue::Boolean(false));
    *value = Spanned::new(span.start + bytes..span.end + bytes, inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compares the parts with the whole document: the same tables and spans, or an error in both.
    fn check(text: &str) -> bool {
        let whole = toml::from_str::<File>(text).map(|file| format!("{file:?}"));
        let parts = parse_in_parts(text, 1).map(|file| format!("{file:?}"));
        if let Some(parts) = &parts {
            assert_eq!(whole.as_ref(), Ok(parts), "{text}");
        }
        parts.is_some()
    }

    const HEAD: &str = "[link]\nrate = \"1 Mbit/s\"\n[scheduler]\ndiscipline = \"drr\"\n";
    const SOURCE: &str = "source = { kind = \"backlog\", packets = 1, bytes = 100 }\n";

    #[test]
    fn a_file_is_parsed_in_parts() {
        let stream = |name: &str| format!("[[stream]] # {name}\nname = \"{name}\"\n{SOURCE}");
        let class = "[[class]]\nname = \"c\"\ndiscipline = \"drr\"\n";
        let sub = "[[stream]]\nname = \"s\"\n[stream.source]\nkind = \"backlog\"\npackets = 1\n\
                   bytes = 9\n[[stream.match]]\nprotocol = \"tcp\"\n";
        for text in [
            format!("{HEAD}{}{}{}", stream("a"), stream("b"), stream("c")),
            format!("\u{feff}{HEAD}{}{class}{}{class}{}", stream("a"), stream("b"), stream("ç")),
            format!("{HEAD}{sub}{}{sub}", stream("a")).replace('\n', "\r\n"),
            format!("{}{HEAD}", stream("a")),
            HEAD.to_owned(),
        ] {
            assert!(check(&text), "not parsed in parts: {text}");
        }
    }

    #[test]
    fn parts_that_depend_on_one_another_are_not_parsed_alone() {
        let stream = format!("[[stream]]\nname = \"a\"\n{SOURCE}");
        for text in [
            format!("{stream}{HEAD}[stream.flows]\n"),
            format!("stream = []\n{HEAD}{stream}"),
            format!("{HEAD}[[ stream ]]\nname = \"a\"\n{SOURCE}"),
            format!("{HEAD}{stream}[link]\n"),
            format!("{HEAD}{stream}name = [\n[[stream]]\n"),
            format!("]{HEAD}{stream}"),
            format!("[scenario]\nname = '''\n[[stream]]\n'''\n{HEAD}{stream}"),
            format!("[scenario]\nname = '''\n{stream}[link]\n'''\n{HEAD}"),
        ] {
            assert!(!check(&text), "parsed in parts: {text}");
        }
    }

    proptest! {
        #[test]
        fn any_lines_give_what_the_whole_document_gives(
            lines in prop::collection::vec(
                prop::sample::select(vec![
                    "[[stream]]", " [[stream]] # x", "[[ stream ]]", "[stream.source]",
                    "[[stream.match]]", "[stream]", "name = \"a\"", "name = \"\"\"", "\"\"\"",
                    "name = '''a", "'''", "weight = 2", "match = [", "{ protocol = \"tcp\" },", "]",
                    "[[class]]", "discipline = \"drr\"", "[scenario]", "[1]", "}", "\r",
                    "source = { kind = \"backlog\", packets = 1, bytes = 9 }", "source = {",
                    "kind = \"backlog\"", "bytes = 9", "table = [", "[[stream]],", "# [[stream]]",
                    "[[stream]]\nname = \"b\"\nsource = { kind = \"trace\", file = \"a\" }",
                ]),
                0..12,
            ),
            head_at in 0..12_usize,
        ) {
            let mut lines = lines;
            lines.insert(head_at.min(lines.len()), HEAD);
            check(&lines.join("\n"));
        }
    }
}
