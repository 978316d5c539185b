//! Rejection of attributes that the HILQ scheduler does not support.

use millstream::{Contract, ContractError, Hilq, Sizes};
use toml::Spanned;

use super::scheduler::Keys;
use crate::error::Problem;
use crate::file::{OrderName, StreamTable};

/// Checks the scheduler's keys for HILQ; returns whether they are valid.
pub(super) fn check_keys(keys: &Keys, name: &Spanned<String>, problems: &mut Vec<Problem>) -> bool {
    let before = problems.len();
    let mut refuse = |message: &str, help: &str| {
        problems.push(Problem::new(name.span(), message).help(help));
    };
    if keys.tree {
        refuse(
            "structure `hilq` is not supported in a tree of classes",
            "it schedules the streams of a whole link; use `heap` with classes",
        );
    }
    if matches!(keys.order, Some(OrderName::LossFirst)) {
        refuse(
            "structure `hilq` cannot hold `order = \"loss-first\"`",
            "its calendar orders by deadline: order = \"edf-first\", or another structure",
        );
    }
    if keys.zero_window.is_some() {
        refuse(
            "structure `hilq` has no order among zero window-constraints",
            "leave out `zero-window`, or take another structure",
        );
    }
    problems.len() == before
}

/// The unsupported attributes of contracts, each with its first stream.
#[derive(Default)]
pub(super) struct UnsupportedAttributes<'a>(Vec<(&'static str, UnsupportedAttribute<'a>)>);

struct UnsupportedAttribute<'a> {
    first: &'a StreamTable,
    error: ContractError,
    streams: usize,
}

impl<'a> UnsupportedAttributes<'a> {
    /// Records the unsupported attributes of a stream.
    pub(super) fn check(&mut self, stream: &'a StreamTable, contract: &Contract) {
        for error in Hilq::unfit(contract, &Sizes::PAPER) {
            let ContractError::Unfit { attribute, .. } = error else { continue };
            match self.0.iter_mut().find(|(known, _)| *known == attribute) {
                Some((_, refused)) => refused.streams += 1,
                None => self
                    .0
                    .push((attribute, UnsupportedAttribute { first: stream, error, streams: 1 })),
            }
        }
    }

    pub(super) fn report(self, problems: &mut Vec<Problem>) {
        for (attribute, UnsupportedAttribute { first, error, streams }) in self.0 {
            let name = first.name.get_ref();
            let (span, help) = match attribute {
                "period" => (
                    first.period.as_ref().map(Spanned::span),
                    "the calendar has 100 segments of 1 ms: periods from 1 ms to 99 ms",
                ),
                "late" => (None, "the default is \"send\"; write late = \"drop\" in the stream"),
                "max-rate" => (
                    first.max_rate.as_deref().map(Spanned::span),
                    "leave it out, or take another structure",
                ),
                _ => (None, "leave out the link's `credits`, or take another structure"),
            };
            let others = match streams {
                1 => String::new(),
                more => format!(" (and {} more)", more - 1),
            };
            let message = format!("stream `{name}`{others}: {error}");
            let span = span.unwrap_or_else(|| first.name.span());
            problems.push(Problem::new(span, message).help(help));
        }
    }
}
