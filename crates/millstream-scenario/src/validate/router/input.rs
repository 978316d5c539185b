//! Validation of how a router reads its ports.

use toml::Spanned;

use crate::error::Problem;
use crate::file::router::RouterFile;
use crate::router::InputMode;

/// Returns how ports are read; interrupt mode rejects reservations of input processes.
pub(super) fn input(file: &RouterFile, problems: &mut Vec<Problem>) -> InputMode {
    let mode = file.router.input.unwrap_or_default();
    for port in file.port.iter().map(Spanned::get_ref).filter(|_| mode == InputMode::Interrupt) {
        if let Some(given) = &port.input_reservation {
            let name = port.name.get_ref();
            let message =
                format!("`input-reservation` of port `{name}` with input = \"interrupt\"");
            let help = "take it out, or use input = \"polled\": interrupt mode schedules no input \
             process";
            problems.push(Problem::new(given.span(), message).help(help));
        }
    }
    mode
}
