//! What is wrong with a scenario file, shown where it stands.
//!
//! A [`ScenarioError`] holds every problem found, each with the place in the text; `miette` draws
//! line, caret and help. It needs no terminal and no colours to be read.

use miette::{Diagnostic, NamedSource, SourceSpan};
use std::ops::Range;

/// One thing that is wrong.
#[derive(Clone, Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct Problem {
    /// What is wrong, with the value.
    pub message: String,
    /// Where; `None` for what concerns the whole file.
    #[label("{label}")]
    pub span: Option<SourceSpan>,
    /// What stands under the caret.
    pub label: String,
    /// What would be right.
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
    /// The file's text, for the carets.
    #[source_code]
    pub text: NamedSource<String>,
    /// Everything that was found.
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

/// The nearest of `known` to `word`, if one is near enough to be what was meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// "`a`, `b` or `c`".
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => "none".into(),
    }
}
