//! Pcap filters of matches: classic BPF programs, which the qdisc interprets.

use millstream_scenario::{Filter, FilterError, FilterInstruction};

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
const MEMORY_MODE: u16 = 0x60;
const ALWAYS: u16 = 0x00;

/// Compiles an expression for the qdisc.
///
/// # Errors
/// See [`FilterError`].
pub fn compile_filter(expression: &str) -> Result<Vec<FilterInstruction>, FilterError> {
    let Filter { instructions, .. } = Filter::compile(expression, MAX_FILTER_INSTRUCTIONS)?;
    let mut places = instructions.iter().enumerate();
    let inside = places.all(|(at, of)| stays_inside(*of, at, instructions.len()));
    if inside { Ok(instructions) } else { Err(FilterError::Unknown) }
}

/// Returns whether the instruction at `at` stays inside the program, of `count` instructions, and
/// its memory: the qdisc does not check that.
fn stays_inside(of: FilterInstruction, at: usize, count: usize) -> bool {
    let class = of.code & CLASS;
    let uses_memory =
        STORE.contains(&class) || LOAD.contains(&class) && of.code & MODE == MEMORY_MODE;
    if uses_memory && of.operand >= MEMORY {
        return false;
    }
    let jumps = match class {
        RETURN => return true,
        JUMP if of.code & OPERATION == ALWAYS => of.operand,
        JUMP => of.jump_true.max(of.jump_false).into(),
        _ => 0,
    };
    // The instruction behind the last one does not exist.
    (jumps as usize).checked_add(at + 1).is_some_and(|next| next < count)
}
