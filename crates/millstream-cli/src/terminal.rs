//! Text for the user: tables that fit the terminal, and text in which names cannot control it.
//!
//! Names of streams, ports and files may contain control characters, for example to move the
//! cursor or to hide text. All text passes [`print_text`] or [`say`], which replace them.

use console::Term;
use millstream_report::print_safe;
use std::env;

use crate::failure::Failure;
use crate::print;

/// Returns the width of tables: `COLUMNS`, else that of the terminal; `None` for a file or a pipe.
pub(crate) fn width() -> Option<usize> {
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    columns.filter(|columns| *columns > 0).or_else(terminal)
}

/// Returns [`millstream_report::text_table`] in the terminal's width.
pub(crate) fn text_table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    millstream_report::text_table(header, rows, 1, width())
}

/// Returns [`millstream_report::whole_table`] in the terminal's width, with `keys` columns that
/// name a row.
pub(crate) fn whole_table(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    keys: usize,
) -> String {
    millstream_report::whole_table(header, rows, keys, width())
}

/// Writes text that is not a file format to standard output.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print(&print_safe(text))
}

/// Writes a note, a warning or an error to standard error.
pub(crate) fn say(text: &str) {
    eprintln!("{}", print_safe(text));
}

/// Writes a rendered error, which may contain colours, to standard error.
///
/// Keeps the sequences that set a colour, on a terminal only.
pub(crate) fn say_rendered(text: &str) {
    if !Term::stderr().is_term() {
        return say(text);
    }
    let mut safe = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        safe += &print_safe(before);
        let length = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(after.len());
        if after[length..].starts_with('m') {
            safe += "\u{1b}[";
            safe += &after[..=length];
            rest = &after[length + 1..];
        } else {
            safe += &print_safe("\u{1b}[");
            rest = after;
        }
    }
    eprintln!("{safe}{}", print_safe(rest));
}
