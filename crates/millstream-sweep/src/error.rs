//! Errors of a sweep.

use millstream_scenario::ScenarioError;
use std::io;
use std::path::Path;

/// The reason a sweep cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// An argument is invalid.
    #[error("{message}")]
    InvalidArgument {
        /// The problem, with the invalid value.
        message: String,
        /// A valid alternative.
        help: Option<String>,
    },
    /// The scenario file is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file of the sweep cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: String,
        /// The I/O error.
        error: io::Error,
    },
}

impl SweepError {
    pub(crate) fn invalid_argument(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::InvalidArgument { message: message.into(), help: Some(help.into()) }
    }

    /// Returns a function that converts an I/O error at `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |error| Self::File { path, error }
    }
}
