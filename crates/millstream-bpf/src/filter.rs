//! Pcap filters of matches: classic BPF programs, which the qdisc interprets.
//!
//! The layout of [`Instruction`] is that of `struct ms_instruction` in `src/c/filter.h`.

use pcap::{Capture, Linktype};

/// The maximum number of instructions of a filter: `MS_FILTER_STEPS`.
pub const MAX_FILTER_INSTRUCTIONS: usize = 256;

/// The maximum number of instructions of all filters: `MS_INSTRUCTIONS`.
pub const MAX_INSTRUCTIONS: usize = 1_024;

/// The number of words of memory of a program.
const MEMORY: u32 = 16;

/// Fields of a code, and their values.
const CLASS: u16 = 0x07;
const MODE: u16 = 0xe0;
const OPERATION: u16 = 0xf0;
const LOAD: [u16; 2] = [0x00, 0x01];
const STORE: [u16; 2] = [0x02, 0x03];
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
const ABSOLUTE: u16 = 0x20;
const MEMORY_MODE: u16 = 0x60;
const ALWAYS: u16 = 0x00;

/// The reason why an expression is no filter of the qdisc.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// libpcap refuses the expression.
    #[error("{0}")]
    Expression(String),
    /// The program is too long.
    #[error("it compiles to {0} instructions; the qdisc has at most {MAX_FILTER_INSTRUCTIONS}")]
    Long(usize),
    /// It loops over headers.
    #[error("it loops over headers; a filter must run in bounded time")]
    Loop,
    /// It reads what a frame does not have.
    #[error("it reads kernel metadata, not the frame")]
    Metadata,
    /// An instruction that the qdisc does not know.
    #[error("libpcap compiled it to an unknown instruction")]
    Unknown,
}

/// An instruction of a classic BPF program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    operand: u32,
}

impl Instruction {
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

    /// Checks the instruction at `at` of a program of `count`: it stays inside the program, its
    /// memory and the frame.
    fn check(self, at: usize, count: usize) -> Result<(), FilterError> {
        let class = self.code & CLASS;
        let negative = self.operand > i32::MAX.cast_unsigned();
        let uses_memory =
            STORE.contains(&class) || LOAD.contains(&class) && self.code & MODE == MEMORY_MODE;
        if uses_memory && self.operand >= MEMORY {
            return Err(FilterError::Unknown);
        }
        if LOAD.contains(&class) && self.code & MODE == ABSOLUTE && negative {
            return Err(FilterError::Metadata);
        }
        let jumps = match class {
            RETURN => return Ok(()),
            JUMP if self.code & OPERATION == ALWAYS && negative => return Err(FilterError::Loop),
            JUMP if self.code & OPERATION == ALWAYS => self.operand,
            JUMP => self.jump_true.max(self.jump_false).into(),
            _ => 0,
        };
        // The instruction behind the last one does not exist.
        let inside = (jumps as usize).checked_add(at + 1).is_some_and(|next| next < count);
        if inside { Ok(()) } else { Err(FilterError::Unknown) }
    }
}

/// Compiles an expression for Ethernet frames. Resolves host names with the system's resolver.
///
/// # Errors
/// See [`FilterError`].
pub fn compile(expression: &str) -> Result<Vec<Instruction>, FilterError> {
    let program = Capture::dead(Linktype::ETHERNET)
        .and_then(|dead| dead.compile(expression, true))
        .map_err(|error| match error {
            pcap::Error::PcapError(message) => FilterError::Expression(message),
            other => FilterError::Expression(other.to_string()),
        })?;
    let instructions = program.get_instructions();
    let count = instructions.len();
    if count > MAX_FILTER_INSTRUCTIONS {
        return Err(FilterError::Long(count));
    }
    let parsed = instructions.iter().enumerate().map(|(at, of)| {
        let of = Instruction::parse(&of.to_string()).ok_or(FilterError::Unknown)?;
        of.check(at, count).map(|()| of)
    });
    parsed.collect()
}
