//! Rejection of contracts that exceed the fields of the hardware; values are never truncated.

use millstream::Contract;
use toml::Spanned;

use super::scheduler::Keys;
use crate::error::Problem;
use crate::file::{File, OrderName, StreamTable};

/// The name of the structure in the scenario file.
pub(super) const NAME: &str = "rtl";

/// The disciplines that the decision block supports.
pub(super) const DISCIPLINES: [&str; 4] = ["dwcs", "edf", "static-priority", "fifo"];

/// The number of streams of the largest core.
const MAX_STREAMS: usize = 64;

/// Returns whether the scheduler of this file is the hardware core.
pub(super) fn is_requested(file: &File) -> bool {
    file.scheduler.structure.as_ref().is_some_and(|name| name.get_ref() == NAME)
}

/// Checks the scheduler's keys and number of streams for the core; returns whether they are valid.
pub(super) fn check_keys(
    keys: &Keys,
    name: &Spanned<String>,
    children: usize,
    problems: &mut Vec<Problem>,
) -> bool {
    let before = problems.len();
    let mut refuse = |message: String, help: &str| {
        problems.push(Problem::new(name.span(), message).help(help));
    };
    if keys.tree {
        refuse(
            "structure `rtl` is not supported in a tree of classes".into(),
            "it schedules the streams of a whole link; use `heap` with classes",
        );
    }
    if matches!(keys.order, Some(OrderName::LossFirst)) {
        refuse(
            "structure `rtl` cannot hold `order = \"loss-first\"`".into(),
            "its decision block compares deadlines first: order = \"edf-first\"",
        );
    }
    if children > MAX_STREAMS {
        refuse(
            format!("structure `rtl` holds at most {MAX_STREAMS} streams; there are {children}"),
            "structure = \"auto\", or fewer streams",
        );
    }
    problems.len() == before
}

/// Checks that a stream's contract fits the registers of the core.
pub(super) fn check(stream: &StreamTable, contract: &Contract, problems: &mut Vec<Problem>) {
    let name = stream.name.get_ref();
    let window = contract.terms().window;
    let span = || stream.name.span();
    if window.of() > 255 {
        let message = format!(
            "stream `{name}`: window {}/{} does not fit structure `rtl`",
            window.lost(),
            window.of()
        );
        problems.push(Problem::new(span(), message).help("x and y have 8 bits: at most 255"));
    }
    if contract.is_limited() {
        let message =
            format!("stream `{name}`: structure `rtl` supports neither rate caps nor credits");
        problems.push(
            Problem::new(span(), message)
                .help("leave out `max-rate` and the link's `credits`, or take another structure"),
        );
    }
}
