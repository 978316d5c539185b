//! Converts errors to Python exceptions, with the text that the command prints.
//!
//! The command prints a `miette` report to standard error. The same report is the exception's
//! message, without colours and 80 columns wide, as in a pipe.

use miette::{Diagnostic, MietteHandler, MietteHandlerOpts, ReportHandler};
use millstream_sim::RunError;
use millstream_sweep::RunFailure;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::{PyErr, create_exception, exceptions::PyException};
use std::fmt;

create_exception!(
    millstream,
    MillstreamError,
    PyException,
    "Base class of Millstream's exceptions."
);
create_exception!(
    millstream,
    ScenarioError,
    MillstreamError,
    "A scenario cannot be run; lists every problem with its line and the allowed values."
);
create_exception!(
    millstream,
    TrafficError,
    MillstreamError,
    "An input file is unreadable or malformed; gives the position and the expected format."
);
create_exception!(
    millstream,
    ContractError,
    MillstreamError,
    "A stream's contract cannot be scheduled."
);

/// A diagnostic formatted as the command prints it.
struct FormattedReport<'a>(MietteHandler, &'a dyn Diagnostic);

impl fmt::Display for FormattedReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug(self.1, f)
    }
}

fn format_report(diagnostic: &dyn Diagnostic) -> String {
    let options = MietteHandlerOpts::new();
    let handler = options.color(false).unicode(true).terminal_links(false).width(80).build();
    FormattedReport(handler, diagnostic).to_string()
}

/// Converts the error of an invalid scenario.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn scenario(error: millstream_scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(format_report(&error))
}

/// Converts the error of an unreadable input.
pub(crate) fn traffic(error: millstream_traffic::TrafficError) -> PyErr {
    let text = error.to_string();
    let report = match error.help {
        Some(help) => miette::miette!(help = help, "{text}"),
        None => miette::miette!("{text}"),
    };
    TrafficError::new_err(format_report(report.as_ref()))
}

/// Converts the error of an invalid contract.
pub(crate) fn contract(error: millstream::ContractError) -> PyErr {
    ContractError::new_err(error.to_string())
}

/// Converts the error of a fabric's run.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn fabric(error: RunFailure) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// Converts the error of a run.
pub(crate) fn run(error: RunError) -> PyErr {
    match error {
        RunError::Traffic(error) => traffic(error),
        RunError::Output(error) => PyOSError::new_err(error.to_string()),
        RunError::Hardware => PyValueError::new_err(error.to_string()),
    }
}
