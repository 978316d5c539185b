//! The exit point: error messages and exit statuses.

use miette::Report;
use millstream_scenario::ScenarioError;
use millstream_sim::RunError;
use millstream_traffic::TrafficError;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::terminal::{say, say_rendered};

/// The reason why the command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a file is wrong.
    Input(Report),
    /// The run failed.
    Run(Report),
    /// A contract is infeasible, or a guarantee was required and one is not known.
    Contract(String),
    /// The reader of standard output has closed it.
    ClosedPipe,
    /// Ctrl-C; finished results are written.
    Interrupted(String),
}

impl Failure {
    /// Returns the failure to write the output `name`.
    pub(crate) fn output(name: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Run(miette::miette!("cannot write {name}: {error}"))
        }
    }

    /// Returns the failure to open `path`: status 2, or 1 if the disk is full or broken.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, Other, QuotaExceeded, StorageFull, WriteZero};
        let report = miette::miette!("{}: {error}", path.display());
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge | WriteZero | Other => Self::Run(report),
            _ => Self::Input(report),
        }
    }

    /// Prints the message to standard error and returns the exit status.
    pub(crate) fn exit(self) -> ExitCode {
        match self {
            Self::Input(report) => {
                say_rendered(&format!("{report:?}"));
                ExitCode::from(2)
            }
            Self::Run(report) => {
                say_rendered(&format!("{report:?}"));
                ExitCode::from(1)
            }
            Self::Contract(message) => {
                say(&format!("error: {message}"));
                ExitCode::from(3)
            }
            Self::ClosedPipe => ExitCode::SUCCESS,
            Self::Interrupted(message) => {
                say(&message);
                ExitCode::from(130)
            }
        }
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::Input(Report::new(error))
    }
}

impl From<TrafficError> for Failure {
    fn from(error: TrafficError) -> Self {
        let text = error.to_string();
        Self::Input(match error.help {
            Some(help) => miette::miette!(help = help, "{text}"),
            None => miette::miette!("{text}"),
        })
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Traffic(error) => error.into(),
            RunError::Output(error) => Self::output("an output file", &error),
            error @ RunError::Hardware => Self::Run(miette::miette!("{error}")),
        }
    }
}
