//! Packet filters: pcap-filter expressions in a path's `match`.
//!
//! libpcap compiles each expression to a classic BPF program when the file is read. Its interpreter
//! runs the program on each frame that the path's other keys accept, without allocating. Backward
//! jumps, such as those of `protochain`, are refused, so each instruction runs at most once. The
//! cost of a packet is at most [`MAX_TOTAL_INSTRUCTIONS`].
//!
//! Source: McCanne and Jacobson, *The BSD Packet Filter*; pcap-filter(7).

use millstream_scenario::{RouterPath, RouterScenario};
use pcap::{BpfInstruction, BpfProgram, Capture, Linktype};
use std::fmt;

use crate::error::PortError;
use crate::ids::{IdVec, PathId};

/// Instructions of one program, at most.
const MAX_INSTRUCTIONS: usize = 1_024;
/// Instructions of all programs of a router, at most.
const MAX_TOTAL_INSTRUCTIONS: usize = 4_096;
/// Characters of an expression that an error message shows.
const MAX_SHOWN: usize = 200;

/// Fields of a BPF instruction code, and their values.
const CLASS: u16 = 0x07;
const LOAD: u16 = 0x00;
const LOAD_INDEX: u16 = 0x01;
const JUMP: u16 = 0x05;
const MODE: u16 = 0xe0;
const ABSOLUTE: u16 = 0x20;
const JUMP_KIND: u16 = 0xf0;
const ALWAYS: u16 = 0x00;

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
    let program = Capture::dead(Linktype::ETHERNET)
        .and_then(|dead| dead.compile(expression, true))
        .map_err(|error| {
            let error = match error {
                pcap::Error::PcapError(message) => message,
                other => other.to_string(),
            };
            (error, "a pcap-filter expression, as for tcpdump: man pcap-filter".to_owned())
        })?;
    let instructions = program.get_instructions();
    if instructions.len() > MAX_INSTRUCTIONS.min(*left) {
        let message = format!("it compiles to {} instructions", instructions.len());
        let help =
            format!("at most {MAX_INSTRUCTIONS} per path and {MAX_TOTAL_INSTRUCTIONS} in all");
        return Err((message, help));
    }
    for instruction in instructions {
        refuse(instruction).map_or(Ok(()), |(message, help)| Err((message.into(), help.into())))?;
    }
    *left -= instructions.len();
    Ok(program)
}

/// Returns why an instruction is refused, and a hint; `None` if it is accepted.
fn refuse(instruction: &BpfInstruction) -> Option<(&'static str, &'static str)> {
    // Format: "code jt jf k".
    let text = instruction.to_string();
    let mut parts = text.split(' ').map(|part| part.parse::<u32>().ok());
    let code = parts.next().flatten().and_then(|code| u16::try_from(code).ok());
    let (Some(code), Some(k)) = (code, parts.nth(2).flatten()) else {
        return Some(("libpcap compiled it to an unknown instruction", "another expression"));
    };
    let negative = k > i32::MAX.cast_unsigned();
    if code & CLASS == JUMP && code & JUMP_KIND == ALWAYS && negative {
        let help = "an expression without `protochain`: a filter must run in bounded time";
        return Some(("it loops over headers", help));
    }
    let loads = matches!(code & CLASS, LOAD | LOAD_INDEX);
    if loads && code & MODE == ABSOLUTE && negative {
        let help = "match bytes of the frame; for the input port use the key `port`";
        return Some(("it reads kernel metadata, not the frame", help));
    }
    None
}
