//! Errors of ports and paths of a live router.

/// A port that cannot be opened, or fails; or a path whose extension cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of} `{name}`: {message}")]
pub struct PortError {
    /// Of what: "port" or "path".
    pub of: &'static str,
    /// Its name.
    pub name: String,
    /// What happened.
    pub message: String,
    /// What would be right, if that is known.
    pub help: Option<String>,
}

impl PortError {
    /// `message` about the port called `port`.
    pub fn new(port: &str, message: impl Into<String>) -> Self {
        Self { of: "port", name: port.to_owned(), message: message.into(), help: None }
    }

    /// `message` about the path called `path`.
    pub fn of_path(path: &str, message: impl Into<String>) -> Self {
        Self { of: "path", ..Self::new(path, message) }
    }

    /// With what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
