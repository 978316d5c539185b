//! Counts how many inputs pass the first parser of a target.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::MIN_SHARE;

/// Interval between writes of the file.
const WRITE_EVERY: Duration = Duration::from_millis(500);

/// Counts of inputs, and of those that passed the first parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Inputs that ran.
    pub inputs: u64,
    /// Inputs that passed the first parser.
    pub passed: u64,
}

impl Depth {
    /// Counts one input.
    pub fn count(&mut self, passed: bool) {
        self.inputs += 1;
        self.passed += u64::from(passed);
    }

    /// Returns the share of inputs that passed, percent, rounded down; 0 without inputs.
    #[must_use]
    pub fn share(&self) -> u64 {
        (self.passed * 100).checked_div(self.inputs).unwrap_or(0)
    }

    /// Returns whether the share reaches [`MIN_SHARE`].
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.share() >= MIN_SHARE
    }
}

/// A count that is written to a file, since libFuzzer may end the process at any input.
#[derive(Debug)]
pub struct DepthFile {
    depth: Depth,
    path: PathBuf,
    written: Instant,
}

impl DepthFile {
    /// Counts from 0 and writes to `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let written = Instant::now();
        Self { depth: Depth::default(), path: path.to_owned(), written }
    }

    /// Counts one input. The file lags by at most half a second.
    pub fn count(&mut self, passed: bool) {
        self.depth.count(passed);
        if self.depth.inputs == 1 || self.written.elapsed() >= WRITE_EVERY {
            self.written = Instant::now();
            let Depth { inputs, passed } = self.depth;
            // A missing file is reported as a target without counts.
            let _ = fs::write(&self.path, format!("{inputs} {passed}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_all_inputs() {
        let mut depth = Depth::default();
        assert_eq!((depth.share(), depth.is_enough()), (0, false));
        for number in 0..10 {
            depth.count(number < 3);
        }
        assert_eq!((depth.share(), depth.is_enough()), (30, true));
        depth.count(false);
        assert_eq!((depth.share(), depth.is_enough()), (27, false));
    }

    #[test]
    fn the_file_holds_inputs_and_passes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("depth");
        DepthFile::new(&path).count(true);
        assert_eq!(fs::read_to_string(path).expect("written"), "1 1\n");
    }
}
