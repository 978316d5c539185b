//! Text tables for terminals, logs and mail.
//!
//! Tables are plain text without colours or lines. Names are left-aligned and numbers are
//! right-aligned. The per-stream table fits [`WIDTH`] columns if its numbers allow: it first
//! reduces the gaps between columns to one space, then shortens names.
//!
//! A caller that knows the width of its terminal gives it. A wider table first breaks the headings
//! between words, then reduces the gaps, and then moves columns into further blocks below. Each
//! block repeats the first columns, which name the row.
//!
//! A table of more than [`LISTED`] rows ends with the number of omitted rows and how to get them.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::human;
use crate::network::network_tables;
use crate::recorder::{DelayBound, Results, StreamResults};

/// The largest number of listed streams.
const LISTED: usize = 40;
/// The largest number of characters of a name.
const NAME: usize = 32;
/// The least number of characters to which a name is shortened, even if the line gets too long:
/// names often differ only at their ends.
const SHORT_NAME: usize = 20;
/// The target width of the per-stream table, columns.
const WIDTH: usize = 100;

/// The column headings of the per-stream table, with a line break in headings of two lines.
const HEADER: [&str; 14] = [
    "stream",
    "arrived",
    "sent",
    "dropped\nlate",
    "dropped\nfull",
    "missed",
    "viola-\ntions",
    "rate",
    "mean\ndelay",
    "p99\ndelay",
    "max\ndelay",
    "max\njitter",
    "delay\nbound",
    "tight-\nness",
];

/// The number of columns of [`HEADER`] that only a run with bounds has.
pub(crate) const OF_BOUNDS: usize = 2;

/// The column of a network's table with the packets that queue management dropped.
const DROPPED_BY_AQM: usize = 5;

/// Returns a table of `rows` under `header`; the first column is left-aligned, the rest
/// right-aligned.
///
/// The table omits rows beyond the first 40, and its last line has their number. A table of more
/// than `width` columns has several blocks, which repeat the first `keys` columns.
#[must_use]
pub fn text_table(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    keys: usize,
    width: Option<usize>,
) -> String {
    let mut rows: Vec<_> = rows.into_iter().collect();
    let left_out = rows.len().saturating_sub(LISTED);
    rows.truncate(LISTED);
    let mut text = fitted(header, &rows, 2, keys, width);
    if left_out > 0 {
        text += &format!("and {left_out} more; --json has all\n");
    }
    text
}

/// Returns the table of [`text_table`] without a limit on rows.
#[must_use]
pub fn whole_table(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    keys: usize,
    width: Option<usize>,
) -> String {
    fitted(header, &rows.into_iter().collect::<Vec<_>>(), 2, keys, width)
}

/// Returns the per-stream table of a run with totals and the utilisation of the link.
///
/// It fits `width` columns as in [`text_table`].
#[must_use]
pub fn table(results: &Results, width: Option<usize>) -> String {
    let count = results.streams.len();
    let listed = results.names.iter().zip(&results.streams).take(LISTED);
    let mut rows: Vec<Vec<String>> =
        listed.map(|(name, stream)| row(&print_safe_line(name), stream, results.end_ns)).collect();
    let total = results.combined(0..count);
    if count > 1 {
        rows.push(row("total", &total, results.end_ns));
    }
    let has_bounds = !results.bounds.is_empty();
    if has_bounds {
        for (at, row) in rows.iter_mut().enumerate() {
            let is_stream = at < count.min(LISTED);
            row.extend(bound_cells(results.bound(at).filter(|_| is_stream)));
        }
    }
    let mut header = HEADER[..HEADER.len() - if has_bounds { 0 } else { OF_BOUNDS }].to_vec();
    if results.network.is_some() {
        header.insert(DROPPED_BY_AQM, "dropped\nby AQM");
        let streams = results.streams.iter().take(LISTED).chain([&total]);
        for (row, stream) in rows.iter_mut().zip(streams) {
            row.insert(DROPPED_BY_AQM, stream.dropped_aqm.to_string());
        }
    }
    let header = header.as_slice();
    let most = width.unwrap_or(WIDTH);
    let widths = widths(header, &rows);
    let numbers: usize = widths[1..].iter().sum();
    let wanted = widths[0].min(NAME);
    let gaps = header.len() - 1;
    let wide = numbers + wanted + 2 * gaps <= most;
    let room = most.saturating_sub(numbers + gaps);
    for row in &mut rows {
        row[0] = shortened_to(&row[0], room.clamp(SHORT_NAME, NAME));
    }
    let mut text = fitted(header, &rows, if wide { 2 } else { 1 }, 1, width);
    if count > LISTED {
        let left_out = count - LISTED;
        text += &format!(
            "and {} in the total; --json or --summary FILE has all\n",
            human::count(left_out as u64, "more stream"),
        );
    }
    if let Some(network) = &results.network {
        text += &format!("\n{}\n", network_tables(network, width));
    }
    text + &format!(
        "{} of {} sent; link busy {:.1} % of {}\n",
        total.sent,
        human::count(total.arrived, "packet"),
        results.utilisation() * 100.0,
        human::time(results.end_ns),
    )
}

fn row(name: &str, stream: &StreamResults, end_ns: u64) -> Vec<String> {
    // The HTML page shows the median and p99.9; the text table has no space for them.
    let shown = cells(stream, end_ns).into_iter().enumerate();
    let shown = shown.filter(|(at, _)| ![8, 10].contains(at));
    std::iter::once(name.to_owned()).chain(shown.map(|cell| cell.1)).collect()
}

/// Returns a bound on delays and its tightness as text; `–` where there is none.
pub(crate) fn bound_cells(of: Option<DelayBound>) -> [String; OF_BOUNDS] {
    let tightness = of.and_then(|of| of.tightness());
    [
        of.map_or("–".to_owned(), |of| human::time(of.bound_ns)),
        tightness.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0)),
    ]
}

/// Returns a stream's values as text: counts, rate, delay mean, median, p99, p99.9 and
/// max, jitter max.
pub(crate) fn cells(stream: &StreamResults, end_ns: u64) -> [String; 13] {
    // A delay needs one packet, and jitter needs two.
    let after = |packets: u64, value_ns: u64| {
        if stream.sent < packets { "–".to_owned() } else { human::time(value_ns) }
    };
    [
        stream.arrived.to_string(),
        stream.sent.to_string(),
        stream.dropped_late.to_string(),
        stream.dropped_full.to_string(),
        stream.missed.to_string(),
        stream.violations.to_string(),
        human::rate(stream.rate_bps(end_ns)),
        after(1, stream.delays.mean_ns()),
        after(1, stream.delays.percentile_ns(500)),
        after(1, stream.delays.percentile_ns(990)),
        after(1, stream.delays.percentile_ns(999)),
        after(1, stream.delays.max_ns()),
        after(2, stream.jitter_max_ns()),
    ]
}

/// Returns the width of the widest cell of each column, including its heading.
fn widths(header: &[impl AsRef<str>], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |(column, head): (usize, &_)| {
        let head: &str = AsRef::as_ref(head);
        let head = head.lines().map(|line| line.chars().count()).max();
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).chain(head).max().unwrap_or(0)
    };
    header.iter().enumerate().map(width).collect()
}

/// Returns the table in at most `width` columns, if a row's name and one more cell fit in them.
fn fitted(
    header: &[&str],
    rows: &[Vec<String>],
    gap: usize,
    keys: usize,
    width: Option<usize>,
) -> String {
    // Escapes take more columns than the characters that they replace.
    let cells = |row: &Vec<String>| row.iter().map(|cell| print_safe_line(cell)).collect();
    let rows: &[Vec<String>] = &rows.iter().map(cells).collect::<Vec<_>>();
    let Some(width) = width else { return aligned(header, rows, gap) };
    let total = |widths: &[usize], gap: usize| -> usize {
        widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1)
    };
    if total(&widths(header, rows), gap) <= width {
        return aligned(header, rows, gap);
    }
    let broken: Vec<String> =
        header.iter().enumerate().map(|(column, head)| wrapped(head, rows, column)).collect();
    let header: Vec<&str> = broken.iter().map(String::as_str).collect();
    let widths = widths(&header, rows);
    if let Some(gap) = (1..=gap).rev().find(|gap| total(&widths, *gap) <= width) {
        return aligned(&header, rows, gap);
    }
    let keys = keys.clamp(1, header.len());
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for column in keys..header.len() {
        let fits = blocks.last().is_some_and(|block| {
            let block: Vec<usize> =
                block.iter().chain([&column]).map(|column| widths[*column]).collect();
            total(&block, gap) <= width
        });
        match blocks.last_mut() {
            Some(block) if fits => block.push(column),
            _ => blocks.push((0..keys).chain([column]).collect()),
        }
    }
    let block = |columns: &Vec<usize>| {
        let header: Vec<&str> = columns.iter().map(|column| header[*column]).collect();
        let cells = |row: &Vec<String>| {
            columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
        };
        aligned(&header, &rows.iter().map(cells).collect::<Vec<_>>(), gap)
    };
    blocks.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// Breaks a heading at its spaces into lines that are not wider than the column's cells, if its
/// words allow.
fn wrapped(head: &str, rows: &[Vec<String>], column: usize) -> String {
    let count = |text: &str| text.chars().count();
    let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| count(cell));
    // Keeps words together that a no-break space joins.
    let words = || head.split(['\n', ' ']).filter(|word| !word.is_empty());
    let widest = cells.chain(words().map(count)).max().unwrap_or(0);
    let mut lines: Vec<String> = Vec::new();
    for word in words() {
        match lines.last_mut() {
            Some(line) if count(line) + 1 + count(word) <= widest => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

fn aligned(header: &[&str], rows: &[Vec<String>], gap: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let cell = |column: usize, text: String| {
        let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    };
    // The last lines of all headings are aligned.
    let tallest = header.iter().map(|text| text.lines().count()).max().unwrap_or(0);
    let heads = header.iter().enumerate().map(|(column, text)| {
        let above = " \n".repeat(tallest - text.lines().count().max(1).min(tallest));
        cell(column, above + &print_safe(text))
    });
    table.add_row(heads);
    for row in rows {
        let cells = row.iter().enumerate();
        table.add_row(cells.map(|(column, text)| cell(column, text.clone())));
    }
    let gap = u16::try_from(gap).unwrap_or(u16::MAX);
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { gap }, 0));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Returns `name` shortened to fit a column, with escapes as in [`print_safe`].
pub(crate) fn shortened(name: &str) -> String {
    shortened_to(name, NAME)
}

fn shortened_to(name: &str, longest: usize) -> String {
    let name = print_safe_line(name);
    if name.chars().count() <= longest {
        name
    } else {
        name.chars().take(longest - 1).chain(['…']).collect()
    }
}

/// Returns `text` with escapes such as `\u{1b}` for control characters and for characters that
/// change the writing direction: names in it cannot control a terminal. Line feeds are kept.
#[must_use]
pub fn print_safe(text: &str) -> String {
    text.split('\n').map(print_safe_line).collect::<Vec<_>>().join("\n")
}

/// Returns `text` as in [`print_safe`], with escapes for line feeds as well.
pub(crate) fn print_safe_line(text: &str) -> String {
    text.chars().flat_map(printable).collect()
}

/// Returns the escape of a control character or of a character that changes the writing direction,
/// in the form of [`char::escape_default`], and every other character unchanged.
fn printable(c: char) -> impl Iterator<Item = char> {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let escape = (c.is_control() || turns).then(|| c.escape_default());
    let unchanged = if escape.is_none() { Some(c) } else { None };
    escape.into_iter().flatten().chain(unchanged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, RecorderOptions};
    use millstream::{Departure, Event, StreamId};

    fn run(names: Vec<String>, packets: u32) -> Results {
        let streams = names.len();
        let mut recorder = Recorder::new(names, RecorderOptions::default());
        for k in 0..packets {
            let stream = StreamId(k % u32::try_from(streams).unwrap());
            recorder.arrived(stream, 0, 1000);
            recorder.departed(&Departure {
                time_ns: u64::from(k) * 1_000_000,
                stream,
                packet: u64::from(k),
                bytes: 1000,
                arrival_ns: 0,
                deadline_ns: None,
                event: if k % 5 == 4 { Event::DroppedFull } else { Event::Sent },
                tag: 0,
            });
        }
        recorder.busy(0, 500_000_000);
        recorder.finish(1_000_000_000)
    }

    #[test]
    fn table_has_units_totals_and_the_link() {
        let expected = "\
                         dropped  dropped          viola-              mean    p99    max  max
stream  arrived  sent     late     full  missed   tions       rate   delay  delay  delay jitter
";
        let text = table(&run(vec!["video".into(), "voice".into()], 10), None);
        let squeezed = |text: &str| -> Vec<String> {
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let lines = squeezed(&text);
        assert_eq!(lines[..2], squeezed(expected)[..2], "{text}");
        assert_eq!(
            lines[2..],
            [
                "video 5 4 0 1 0 0 32.0 kbit/s 4.00 ms 8.00 ms 8.00 ms 4.00 ms",
                "voice 5 4 0 1 0 0 32.0 kbit/s 4.00 ms 7.00 ms 7.00 ms 2.00 ms",
                "total 10 8 0 2 0 0 64.0 kbit/s 4.00 ms 8.00 ms 8.00 ms 4.00 ms",
                "8 of 10 packets sent; link busy 50.0 % of 1.00 s",
            ]
        );
    }

    #[test]
    fn typical_table_fits_the_width() {
        let name = "camera-9-of-hall".to_owned();
        let text = table(&run(vec![name, "größe".into()], 90_000), None);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {text}", line.chars().count());
        }
    }

    /// Returns the words of a table's lines.
    fn words(text: &str) -> Vec<&str> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn table_fits_the_terminal_and_drops_nothing() {
        let mut results = run(vec!["camera-9-of-hall".into(), "größe".into()], 90_000);
        results.bounds = vec![Some(DelayBound { bound_ns: 1_500_000, longest_ns: 600_000 }), None];
        let whole = table(&results, None);
        for width in [50, 60, 80, 100, 120] {
            let text = table(&results, Some(width));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width.max(55), "{widest} columns: {text}");
            let mut found = words(&text);
            let mut wanted = words(&whole);
            found.dedup();
            wanted.dedup();
            assert_eq!(found, wanted, "{text}");
        }
        let blocks = table(&results, Some(80));
        assert_eq!(blocks.matches("camera-9-of-hall").count(), 2, "{blocks}");
    }

    #[test]
    fn bounds_have_their_tightness_and_totals_none() {
        let names = (0..LISTED + 2).map(|at| format!("s{at}")).collect();
        let mut results = run(names, 100);
        let bound = |longest_ns| Some(DelayBound { bound_ns: 1_500_000, longest_ns });
        results.bounds = vec![bound(0); LISTED + 2];
        (results.bounds[1], results.bounds[2]) = (bound(600_001), None);
        let text = table(&results, None);
        let ends = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            words[words.len() - 4..].join(" ")
        };
        assert!(ends("s0 ").ends_with("1.50 ms –"), "{text}");
        assert!(ends("s1 ").ends_with("1.50 ms 40.0 %"), "{text}");
        assert!(ends("s2 ").ends_with("– –") && ends("total ").ends_with("– –"), "{text}");
        let summary = serde_json::to_value(results.summary("n")).unwrap();
        let of = |at: usize, key: &str| summary["streams"][at][key].clone();
        assert_eq!(
            (of(1, "delay_bound_ns"), of(1, "tightness")),
            (1_500_000.into(), 0.400_001.into())
        );
        assert!(of(0, "tightness").is_null() && of(2, "delay_bound_ns").is_null());
    }

    #[test]
    fn headings_break_between_words_before_columns_move() {
        let rows = || [vec!["a".to_owned(), "1".to_owned(), "2".to_owned()]];
        let header = ["path", "lost by device", "output port"];
        let of = |width| text_table(&header, rows(), 1, width);
        assert_eq!(
            of(None),
            "path  lost by device  output port\na                  1            2\n"
        );
        assert_eq!(
            of(Some(20)),
            "        lost\n          by  output\npath  device    port\na          1       2\n"
        );
        let first = "        lost\n          by\npath  device\na          1\n";
        let second = "      output\npath    port\na          2\n";
        assert_eq!(of(Some(15)), format!("{first}\n{second}"));
    }

    #[test]
    fn many_streams_are_omitted_and_names_have_no_control_characters() {
        let names = (0..50).map(|k| format!("\u{1b}[31m{k}\u{202e}{}", "x".repeat(300))).collect();
        let text = table(&run(names, 50), None);
        assert!(text.contains(r"\u{1b}[31m0\u{202e}…"), "{text}");
        assert!(text.contains("and 10 more"));
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        assert!(text.contains("40 of 50 packets sent"), "{text}");
        assert_eq!(text.lines().count(), 2 + LISTED + 3);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 8), "{text}");
    }

    #[test]
    fn table_without_streams_has_no_rows() {
        let results = Recorder::new(Vec::new(), RecorderOptions::default()).finish(0);
        assert!(table(&results, None).contains("0 of 0 packets sent"));
    }
}
