//! Stubs for the live commands in builds without the feature `live`; the error has the build
//! command.

use std::path::Path;

use crate::failure::Failure;

/// Rejects a command or a file that needs the router or the media server.
pub(crate) fn failure() -> Failure {
    Failure::Input(miette::miette!(
        help = "build the whole command: cargo build --release -p millstream-cli",
        "this build has neither the router nor the media server"
    ))
}

pub(crate) mod route {
    use super::{Failure, Path, failure};
    use millstream_scenario::Answer;

    pub(crate) fn check(_: &Path, _: bool) -> Result<Answer, Failure> {
        Err(failure())
    }
}

pub(crate) mod serve {
    use super::{Failure, failure};
    use millstream_scenario::{Answer, Scenario};
    use serde::Serialize;

    /// Has no values: only the media server computes an admission.
    #[derive(Serialize)]
    pub(crate) enum TitleAdmission {}

    pub(crate) fn admission(_: &Scenario) -> Result<Vec<TitleAdmission>, Failure> {
        Err(failure())
    }

    pub(crate) fn answer(_: &[TitleAdmission]) -> Answer {
        Answer::NotKnown
    }

    pub(crate) fn admission_text(_: &[TitleAdmission]) -> String {
        String::new()
    }
}
