//! Errors of the ports and paths of a live router.

/// A port that cannot be opened or fails, or a path that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of} `{name}`: {message}")]
pub struct PortError {
    /// The kind of object: "port" or "path".
    pub of: &'static str,
    /// The object's name.
    pub name: String,
    /// What failed.
    pub message: String,
    /// How to correct it, if known.
    pub help: Option<String>,
}

impl PortError {
    /// Creates an error of the port `port`.
    pub fn new(port: &str, message: impl Into<String>) -> Self {
        Self { of: "port", name: port.to_owned(), message: message.into(), help: None }
    }

    /// Creates an error of the path `path`.
    pub fn of_path(path: &str, message: impl Into<String>) -> Self {
        Self { of: "path", ..Self::new(path, message) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
