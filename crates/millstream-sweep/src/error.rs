//! Why a sweep cannot be made.

use millstream_scenario::ScenarioError;
use std::io;
use std::path::Path;

/// Why a sweep cannot be made, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// What was asked for makes no sense.
    #[error("{message}")]
    Asked {
        /// What is wrong, with the value.
        message: String,
        /// What would be right.
        help: Option<String>,
    },
    /// The scenario file itself cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file of the sweep's cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        error: io::Error,
    },
}

impl SweepError {
    pub(crate) fn asked(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Asked { message: message.into(), help: Some(help.into()) }
    }

    /// How an I/O error at `path` becomes one of these.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |error| Self::File { path, error }
    }
}
