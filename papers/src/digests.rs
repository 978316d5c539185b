//! SHA-256 digests of the generated figures, which are not part of the repository.
//!
//! `papers/DIGESTS` has one line per figure, sorted by path, in the format of `sha256sum --check`.
//! `--check` compares a drawn figure with its digest; every other job writes both.

use miette::{IntoDiagnostic, WrapErr};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The file of digests, in the folder of the papers.
const FILE: &str = "DIGESTS";

/// Digests in hexadecimal, by path in the folder of the papers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests(BTreeMap<String, String>);

impl Digests {
    /// Reads `papers/DIGESTS`.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn read(papers: &Path) -> miette::Result<Self> {
        let file = papers.join(FILE);
        let text = fs::read_to_string(&file)
            .into_diagnostic()
            .wrap_err_with(|| format!("{}", file.display()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let row = |line: &str| {
            let (digest, path) = line.split_once("  ")?;
            Some((path.to_owned(), digest.to_owned()))
        };
        Self(text.lines().filter_map(row).collect())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (path, digest) in &self.0 {
            let _ = writeln!(text, "{digest}  {path}");
        }
        text
    }

    /// Writes `papers/DIGESTS`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn write(&self, papers: &Path) -> miette::Result<()> {
        fs::write(papers.join(FILE), self.text()).into_diagnostic()
    }

    /// Records the digest of a figure.
    pub(crate) fn set(&mut self, path: String, contents: &str) {
        self.0.insert(path, digest(contents));
    }

    /// Returns whether `contents` has the recorded digest of `path`.
    pub(crate) fn matches(&self, path: &str, contents: &str) -> bool {
        self.0.get(path).is_some_and(|recorded| *recorded == digest(contents))
    }

    /// Returns the recorded paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn digest(contents: &str) -> String {
    Sha256::digest(contents).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_read_back() {
        let mut digests = Digests::default();
        digests.set("b/2.svg".into(), "");
        digests.set("a/1.svg".into(), "<svg/>");
        let text = digests.text();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(text.ends_with(&format!("\n{empty}  b/2.svg\n")), "{text}");
        assert_eq!(Digests::parse(&text), digests);
    }

    #[test]
    fn a_changed_and_an_unknown_figure_do_not_match() {
        let mut digests = Digests::default();
        digests.set("a.svg".into(), "<svg/>");
        assert!(digests.matches("a.svg", "<svg/>"));
        assert!(!digests.matches("a.svg", "<svg />"));
        assert!(!digests.matches("b.svg", "<svg/>"));
    }
}
