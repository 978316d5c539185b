//! Errors of a scenario file, with their places in the text.
//!
//! A [`ScenarioError`] holds every problem of the file, each with its span; `miette` renders line,
//! caret and help. The output is readable without a terminal and without colours.

use miette::{Diagnostic, NamedSource, SourceSpan};
use std::ops::Range;
use toml::de::DeTable;

/// One problem of a scenario file.
#[derive(Clone, Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct Problem {
    /// The error message, with the offending value.
    pub message: String,
    /// The place in the text; `None` if the problem concerns the whole file.
    #[label("{label}")]
    pub span: Option<SourceSpan>,
    /// The label under the caret.
    pub label: String,
    /// A suggestion that fixes the problem.
    #[help]
    pub help: Option<String>,
}

impl Problem {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { message: message.into(), span: Some(span.into()), label: "here".into(), help: None }
    }

    pub(crate) fn whole_file(message: impl Into<String>) -> Self {
        Self { message: message.into(), span: None, label: String::new(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
}

/// A scenario file that cannot be run.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{name}: {}", count(problems.len()))]
pub struct ScenarioError {
    /// The file's name.
    pub name: String,
    /// The file's text, from which `miette` renders the lines with carets.
    #[source_code]
    pub text: NamedSource<String>,
    /// All problems of the file.
    #[related]
    pub problems: Vec<Problem>,
}

impl ScenarioError {
    pub(crate) fn new(name: &str, text: &str, problems: Vec<Problem>) -> Self {
        let text = NamedSource::new(name, text.to_owned());
        Self { name: name.to_owned(), text, problems }
    }
}

fn count(problems: usize) -> String {
    match problems {
        1 => "the scenario cannot be run".into(),
        more => format!("the scenario cannot be run: {more} problems"),
    }
}

/// Returns the span of a key's value in the `number`-th table of this name, or of the table's name
/// if it lacks the key.
pub(crate) fn span_of(text: &str, table: &str, number: usize, key: &str) -> Option<Range<usize>> {
    let file = DeTable::parse(text).ok()?;
    let value = file.get_ref().get(table)?.get_ref();
    let table = match value.as_array() {
        Some(tables) => tables.get(number)?.get_ref().as_table()?,
        None => value.as_table()?,
    };
    Some(table.get(key).or_else(|| table.get("name"))?.span())
}

/// Returns the word of `known` nearest to `word`, or `None` if none is close enough to suggest.
///
/// The limit is an edit distance of 1 plus a quarter of the candidate's length.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the words as a list: "`a`, `b` or `c`".
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => "none".into(),
    }
}
