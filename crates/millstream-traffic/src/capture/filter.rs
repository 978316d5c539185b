//! Pcap-filter expressions for Ethernet frames, compiled to classic BPF by libpcap.
//!
//! Backward jumps, such as those of `protochain`, are refused, so each instruction of a program
//! runs at most once. So are loads of kernel metadata, which a frame does not have. Source: McCanne
//! and Jacobson, *The BSD Packet Filter*; pcap-filter(7).

use pcap::{BpfProgram, Capture, Linktype};
use std::fmt;

/// Fields of an instruction's code, and their values.
const CLASS: u16 = 0x07;
const LOAD: [u16; 2] = [0x00, 0x01];
const JUMP: u16 = 0x05;
const MODE: u16 = 0xe0;
const ABSOLUTE: u16 = 0x20;
const OPERATION: u16 = 0xf0;
const ALWAYS: u16 = 0x00;

/// The reason why an expression is no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// libpcap refuses the expression, with this message.
    Expression(String),
    /// The program has too many instructions: this many.
    Long(usize),
    /// The program loops over headers.
    Loop,
    /// The program reads what a frame does not have.
    Metadata,
    /// The program has an instruction of an unknown format.
    Unknown,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression(message) => f.write_str(message),
            Self::Long(count) => write!(f, "it compiles to {count} instructions"),
            Self::Loop => f.write_str("it loops over headers"),
            Self::Metadata => f.write_str("it reads kernel metadata, not the frame"),
            Self::Unknown => f.write_str("libpcap compiled it to an unknown instruction"),
        }
    }
}

impl std::error::Error for FilterError {}

/// An instruction of a classic BPF program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FilterInstruction {
    /// The operation.
    pub code: u16,
    /// The instructions that a conditional jump skips if its condition holds.
    pub jump_true: u8,
    /// The instructions that it skips otherwise.
    pub jump_false: u8,
    /// The operand, k.
    pub operand: u32,
}

impl FilterInstruction {
    /// Reads an instruction as libpcap's binding prints it: "code jt jf k".
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(' ').map(|field| field.parse::<u32>().ok());
        let mut next = || fields.next().flatten();
        Some(Self {
            code: next()?.try_into().ok()?,
            jump_true: next()?.try_into().ok()?,
            jump_false: next()?.try_into().ok()?,
            operand: next()?,
        })
    }

    /// Checks that the instruction neither jumps backward nor reads metadata.
    fn check(self) -> Result<(), FilterError> {
        let class = self.code & CLASS;
        let negative = self.operand > i32::MAX.cast_unsigned();
        if class == JUMP && self.code & OPERATION == ALWAYS && negative {
            return Err(FilterError::Loop);
        }
        if LOAD.contains(&class) && self.code & MODE == ABSOLUTE && negative {
            return Err(FilterError::Metadata);
        }
        Ok(())
    }
}

/// A compiled filter.
pub struct Filter {
    /// The program, for libpcap's interpreter.
    pub program: BpfProgram,
    /// Its instructions.
    pub instructions: Vec<FilterInstruction>,
}

impl Filter {
    /// Compiles an expression to at most `most` instructions. Resolves host names with the system's
    /// resolver.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub fn compile(expression: &str, most: usize) -> Result<Self, FilterError> {
        let program = program(expression).map_err(FilterError::Expression)?;
        let count = program.get_instructions().len();
        if count > most {
            return Err(FilterError::Long(count));
        }
        let instructions = program.get_instructions().iter().map(|of| {
            let of = FilterInstruction::parse(&of.to_string()).ok_or(FilterError::Unknown)?;
            of.check().map(|()| of)
        });
        let instructions = instructions.collect::<Result<_, _>>()?;
        Ok(Self { program, instructions })
    }
}

/// Checks that `expression` is a valid pcap-filter expression for Ethernet.
///
/// # Errors
/// Returns libpcap's message.
pub fn validate_filter(expression: &str) -> Result<(), String> {
    if expression.contains('\0') {
        return Err("it contains a NUL character".into());
    }
    program(expression).map(drop)
}

/// Compiles an expression; the error is libpcap's message.
fn program(expression: &str) -> Result<BpfProgram, String> {
    let compiled =
        Capture::dead(Linktype::ETHERNET).and_then(|dead| dead.compile(expression, true));
    compiled.map_err(|error| match error {
        pcap::Error::PcapError(message) => message,
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_checked_by_libpcaps_compiler() {
        assert_eq!(validate_filter("udp port 5004 or (tcp and host 10.0.0.1)"), Ok(()));
        assert!(validate_filter("upd port 5004").unwrap_err().contains("syntax error"));
        assert!(validate_filter("tcp\0").is_err());
    }
}
