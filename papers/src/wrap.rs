//! Wraps the prose of generated pages.

/// Maximum columns of a line of prose.
const COLUMNS: usize = 100;

/// Breaks each line of prose after at most 100 columns. Tables, headings and figures are kept.
pub(crate) fn wrapped(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.starts_with(['|', '#', '!']) || line.chars().count() <= COLUMNS {
            page += line;
        } else {
            wrap_line(line, &mut page);
        }
    }
    page
}

fn wrap_line(line: &str, page: &mut String) {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut column = 0;
    for word in words(line) {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            page.push('\n');
            *page += indent;
            column = indent.len();
        } else if column > 0 {
            page.push(' ');
            column += 1;
        }
        *page += word;
        column += width;
    }
    page.push('\n');
}

/// Returns the words of a line. A word that would start a list or heading is joined to the
/// previous one.
fn words(line: &str) -> Vec<&str> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut from = 0;
    for word in line.split_whitespace() {
        let at = from + line[from..].find(word).unwrap_or(0);
        from = at + word.len();
        let is_marker = matches!(word, "-" | "+" | "*")
            || word.starts_with('#')
            || word.strip_suffix('.').is_some_and(|rest| rest.parse::<u32>().is_ok());
        match spans.last_mut() {
            Some(last) if is_marker => last.1 = from,
            _ => spans.push((at, from)),
        }
    }
    spans.into_iter().map(|(from, to)| &line[from..to]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_tables_are_kept() {
        let prose = "word ".repeat(30);
        let table = format!("| {} |\n", "cell ".repeat(30));
        let page = wrapped(&format!("{}\n{table}", prose.trim_end()));
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].len(), lines[1].len()), (99, 49));
        assert_eq!(format!("{}\n", lines[2]), table);
    }

    #[test]
    fn a_line_never_starts_with_a_marker_of_a_list() {
        let text = format!("{} - x and 2000. More\n", "a".repeat(98));
        assert_eq!(wrapped(&text), format!("{} -\nx and 2000. More\n", "a".repeat(98)));
    }
}
