//! The error type of the media server.

/// An error message with a hint.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct MediaError {
    /// The error, with its location and value.
    pub message: String,
    /// How to correct it, if known.
    pub help: Option<String>,
}

impl MediaError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
