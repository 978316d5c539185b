//! pcap-filter expressions: what a path's `match` says beyond its other keys.
//!
//! libpcap compiles an expression to a program of classic BPF, once, when the file is read; its interpreter
//! then runs the program on each frame that the path's other keys hold of, and takes no memory for it. Jumps
//! lead forward only: a program that goes back, as that of `protochain` does, is refused. So each instruction
//! runs once at most, and a packet costs no more than the lengths of all programs together,
//! [`INSTRUCTIONS_TOGETHER`].
//!
//! Source: McCanne and Jacobson, *The BSD Packet Filter*; pcap-filter(7).

use millstream_scenario::{RouterPath, RouterScenario};
use pcap::{BpfInstruction, BpfProgram, Capture, Linktype};
use std::fmt;

use crate::error::PortError;

/// The longest program of one expression, instructions.
const INSTRUCTIONS: usize = 1_024;
/// The same of all paths together.
const INSTRUCTIONS_TOGETHER: usize = 4_096;
/// As much of an expression is shown where it is wrong, characters.
const SHOWN: usize = 200;

/// Parts of an instruction's code: its class and, of that class, what kind.
const CLASS: u16 = 0x07;
const LOAD: u16 = 0x00;
const LOAD_INDEX: u16 = 0x01;
const JUMP: u16 = 0x05;
const MODE: u16 = 0xe0;
const ABSOLUTE: u16 = 0x20;
const JUMP_KIND: u16 = 0xf0;
const ALWAYS: u16 = 0x00;

/// The filters of all paths, in their order, compiled; none at all if no path has one.
#[derive(Default)]
pub struct Filters(Vec<Option<BpfProgram>>);

impl Filters {
    /// Compiles every expression that the file has. Names of hosts in them are looked up, as the system does.
    ///
    /// # Errors
    /// If an expression is wrong, or would take too long.
    pub fn load(scenario: &RouterScenario) -> Result<Self, PortError> {
        if scenario.paths.iter().all(|path| path.filter.is_none()) {
            return Ok(Self::default());
        }
        let mut left = INSTRUCTIONS_TOGETHER;
        let mut compile = |path: &RouterPath| {
            let expression = path.filter.as_ref()?;
            Some(program(expression, &mut left).map_err(|(message, help)| {
                let shown: String = expression.chars().take(SHOWN).collect();
                let rest = if shown.len() < expression.len() { "…" } else { "" };
                let message = format!("`match`, `filter` = \"{shown}{rest}\": {message}");
                PortError::of_path(&path.name, message).help(help)
            }))
        };
        let programs = scenario.paths.iter().map(|path| compile(path).transpose());
        Ok(Self(programs.collect::<Result<_, _>>()?))
    }

    /// Whether no path has one.
    #[inline]
    pub(crate) fn none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the filter of `path` holds of a frame; it does if there is none.
    #[inline]
    pub(crate) fn hold(&self, path: usize, frame: &[u8]) -> bool {
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

/// The program of an expression, taken from the instructions that are `left`; or what is wrong, and what
/// would be right.
fn program(expression: &str, left: &mut usize) -> Result<BpfProgram, (String, String)> {
    let program = Capture::dead(Linktype::ETHERNET)
        .and_then(|nowhere| nowhere.compile(expression, true))
        .map_err(|error| {
            let error = match error {
                pcap::Error::PcapError(said) => said,
                other => other.to_string(),
            };
            (error, "a pcap-filter expression, as tcpdump takes it: man pcap-filter".to_owned())
        })?;
    let instructions = program.get_instructions();
    if instructions.len() > INSTRUCTIONS.min(*left) {
        let message = format!("it takes {} instructions", instructions.len());
        let help = format!(
            "{INSTRUCTIONS} at most, and {INSTRUCTIONS_TOGETHER} for the filters of all paths together"
        );
        return Err((message, help));
    }
    for instruction in instructions {
        refuse(instruction).map_or(Ok(()), |(message, help)| Err((message.into(), help.into())))?;
    }
    *left -= instructions.len();
    Ok(program)
}

/// What is wrong with an instruction, and what would be right.
fn refuse(instruction: &BpfInstruction) -> Option<(&'static str, &'static str)> {
    // "code jt jf k"
    let text = instruction.to_string();
    let mut parts = text.split(' ').map(|part| part.parse::<u32>().ok());
    let code = parts.next().flatten().and_then(|code| u16::try_from(code).ok());
    let (Some(code), Some(k)) = (code, parts.nth(2).flatten()) else {
        return Some(("libpcap made a program that cannot be read", "another expression"));
    };
    let negative = k > i32::MAX.cast_unsigned();
    if code & CLASS == JUMP && code & JUMP_KIND == ALWAYS && negative {
        let help = "an expression without `protochain`: the time of a filter is bounded";
        return Some(("it would look at headers over and over", help));
    }
    let loads = matches!(code & CLASS, LOAD | LOAD_INDEX);
    if loads && code & MODE == ABSOLUTE && negative {
        let help = "what the frame holds; for the port it came in by there is the key `port`";
        return Some(("it asks for what only the kernel knows of a packet", help));
    }
    None
}
