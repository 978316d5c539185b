//! Why media cannot be served.

/// What went wrong and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct MediaError {
    /// What is wrong, with place and value.
    pub message: String,
    /// What would be right.
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
