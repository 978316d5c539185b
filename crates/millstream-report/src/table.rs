//! Text tables for a terminal or a pipe.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::human;
use crate::recorder::{Results, StreamResults};

/// Streams that are listed one by one.
const LISTED: usize = 40;
/// Characters of a name that are shown.
const NAME: usize = 32;

/// A table of `rows` under `header`: the first column to the left, the others to the right.
#[must_use]
pub fn text_table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let cells = |row: Vec<String>| {
        row.into_iter().enumerate().map(|(column, text)| {
            let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(text).set_alignment(alignment)
        })
    };
    table.add_row(cells(header.iter().map(|text| (*text).to_owned()).collect()));
    let rows: Vec<_> = rows.into_iter().collect();
    let left_out = rows.len().saturating_sub(LISTED);
    for row in rows.into_iter().take(LISTED) {
        table.add_row(cells(row));
    }
    let mut text: String = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    if left_out > 0 {
        text += &format!("and {left_out} more; --json or --summary FILE has all\n");
    }
    text
}

/// The per-stream table of a run.
#[must_use]
pub fn table(results: &Results) -> String {
    let header = [
        "stream",
        "arrived",
        "sent",
        "drop late",
        "drop full",
        "missed",
        "violated",
        "rate",
        "delay mean",
        "p99",
        "max",
        "jitter max",
    ];
    let rows = results.names.iter().zip(&results.streams).map(|(name, stream)| {
        // The median is for the page, which has room.
        let shown =
            cells(stream, results.end_ns).into_iter().enumerate().filter(|cell| cell.0 != 8);
        std::iter::once(shortened(name)).chain(shown.map(|cell| cell.1)).collect()
    });
    let sent: u64 = results.streams.iter().map(|stream| stream.sent).sum();
    let arrived: u64 = results.streams.iter().map(|stream| stream.arrived).sum();
    text_table(&header, rows)
        + &format!(
            "{sent} of {arrived} packets sent; link busy {:.1} % of {}\n",
            results.utilisation() * 100.0,
            human::time(results.end_ns),
        )
}

/// A stream's numbers as text: counts, rate, then delay mean, median, p99, max and jitter max.
pub(crate) fn cells(stream: &StreamResults, end_ns: u64) -> [String; 12] {
    let delay = |value_ns: u64| {
        if stream.sent == 0 { "–".to_owned() } else { human::time(value_ns) }
    };
    [
        stream.arrived.to_string(),
        stream.sent.to_string(),
        stream.dropped_late.to_string(),
        stream.dropped_full.to_string(),
        stream.missed.to_string(),
        stream.violations.to_string(),
        human::rate(stream.rate_bps(end_ns)),
        delay(stream.delays.mean_ns()),
        delay(stream.delays.percentile_ns(50)),
        delay(stream.delays.percentile_ns(99)),
        delay(stream.delays.max_ns()),
        delay(stream.jitter_max_ns()),
    ]
}

/// `name` cut to what fits a column, without control characters.
pub(crate) fn shortened(name: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    if name.chars().count() <= NAME {
        name.chars().map(clean).collect()
    } else {
        name.chars().take(NAME - 1).map(clean).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, RecorderOptions};

    #[test]
    fn many_streams_are_cut_and_names_cannot_spoil_the_terminal() {
        let names = (0..50).map(|k| format!("\u{1b}[31m{k}{}", "x".repeat(300))).collect();
        let results = Recorder::new(names, RecorderOptions::default()).finish(0);
        let text = table(&results);
        assert!(text.contains("and 10 more"));
        assert!(!text.contains('\u{1b}'));
        assert!(text.contains("0 of 0 packets sent"));
        assert!(text.lines().all(|line| line.chars().count() < 160));
    }
}
