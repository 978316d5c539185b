//! Packet filters: pcap-filter expressions in a path's `match`.
//!
//! Each expression is compiled to a classic BPF program when the file is read
//! ([`Filter`]). libpcap's interpreter runs the program on each frame that the path's other keys
//! accept, without allocating. The cost of a packet is at most [`MAX_TOTAL_INSTRUCTIONS`].

use millstream_scenario::{RouterPath, RouterScenario};
use millstream_traffic::{Filter, FilterError};
use pcap::BpfProgram;
use std::fmt;

use crate::error::PortError;
use crate::ids::{IdVec, PathId};

/// Instructions of one program, at most.
const MAX_INSTRUCTIONS: usize = 1_024;
/// Instructions of all programs of a router, at most.
const MAX_TOTAL_INSTRUCTIONS: usize = 4_096;
/// Characters of an expression that an error message shows.
const MAX_SHOWN: usize = 200;

/// The compiled filters in path order; empty if no path has a filter.
#[derive(Default)]
pub struct Filters(IdVec<PathId, Option<BpfProgram>>);

impl Filters {
    /// Compiles the filter of every path. Resolves host names with the system's resolver.
    ///
    /// # Errors
    /// Fails if an expression is invalid or its program is too long.
    pub fn load(scenario: &RouterScenario) -> Result<Self, PortError> {
        if scenario.paths.iter().all(|path| path.filter.is_none()) {
            return Ok(Self::default());
        }
        let mut left = MAX_TOTAL_INSTRUCTIONS;
        let mut compile = |path: &RouterPath| {
            let expression = path.filter.as_ref()?;
            Some(program(expression, &mut left).map_err(|(message, help)| {
                let shown: String = expression.chars().take(MAX_SHOWN).collect();
                let rest = if shown.len() < expression.len() { "…" } else { "" };
                let message = format!("`match`, `filter` = \"{shown}{rest}\": {message}");
                PortError::of_path(&path.name, message).help(help)
            }))
        };
        let programs = scenario.paths.iter().map(|path| compile(path).transpose());
        Ok(Self(programs.collect::<Result<_, _>>()?))
    }

    /// Returns whether no path has a filter.
    #[inline]
    pub(crate) fn none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the filter of `path` accepts `frame`; true without a filter.
    #[inline]
    pub(crate) fn accepts(&self, path: PathId, frame: &[u8]) -> bool {
        match self.0.get(path) {
            Some(Some(program)) => program.filter(frame),
            _ => true,
        }
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = self.0.iter().map(|of| of.as_ref().map(|of| of.get_instructions().len()));
        f.debug_list().entries(lengths).finish()
    }
}

/// Compiles `expression` and subtracts its length from `left`. The error is a message and a hint.
fn program(expression: &str, left: &mut usize) -> Result<BpfProgram, (String, String)> {
    let filter = Filter::compile(expression, MAX_INSTRUCTIONS.min(*left)).map_err(|error| {
        let help = match error {
            FilterError::Expression(_) => {
                "a pcap-filter expression, as for tcpdump: man pcap-filter".to_owned()
            }
            FilterError::Long(_) => {
                format!("at most {MAX_INSTRUCTIONS} per path and {MAX_TOTAL_INSTRUCTIONS} in all")
            }
            FilterError::Loop => {
                "an expression without `protochain`: a filter must run in bounded time".to_owned()
            }
            FilterError::Metadata => {
                "match bytes of the frame; for the input port use the key `port`".to_owned()
            }
            FilterError::Unknown => "another expression".to_owned(),
        };
        (error.to_string(), help)
    })?;
    *left -= filter.instructions.len();
    Ok(filter.program)
}
