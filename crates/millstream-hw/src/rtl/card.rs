//! One verilated card: a safe face on card.cpp, whose structs are repeated here.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::Path;

use libloading::Library;

/// What goes into the card in a cycle.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Inputs {
    /// A beat of the stream that comes in; on the end-system card a word of two arrivals.
    pub data: u64,
    /// What is written to a register.
    pub write_data: u32,
    /// No reset.
    pub rst_n: u8,
    /// A register is to be written.
    pub write: u8,
    /// Its address, bytes.
    pub write_address: u8,
    /// A register is to be read.
    pub read: u8,
    /// Its address, bytes.
    pub read_address: u8,
    /// There is a beat.
    pub data_valid: u8,
    /// It is its packet's last (line card).
    pub data_last: u8,
    /// Its packet's stream (line card).
    pub data_stream: u8,
    /// The pull that is asked for is begun (end-system card).
    pub pull_ready: u8,
}

/// What comes out of it before the rising edge.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Outputs {
    /// Streams whose head's deadline left the wrap-around window, a bit each.
    pub range: u64,
    /// Streams whose y' a violation took to 255, a bit each.
    pub window_full: u64,
    /// What was read.
    pub read_data: u32,
    /// The arrivals that are written to SRAM, 16 bits for each bank.
    pub written_time: u32,
    /// The card's time.
    pub now: u16,
    /// How many arrivals are asked for.
    pub pull_count: u16,
    /// Whose arrivals are written, 6 bits for each bank.
    pub written_stream: u16,
    /// The write is taken.
    pub write_ready: u8,
    /// The read is taken.
    pub read_ready: u8,
    /// What was read is there.
    pub read_valid: u8,
    /// The beat is taken.
    pub data_ready: u8,
    /// A burst of arrivals is asked for.
    pub pull_valid: u8,
    /// Whose.
    pub pull_stream: u8,
    /// A winner waits to be read.
    pub winner_waits: u8,
    /// Nothing changes without the host.
    pub idle: u8,
    /// A decision starts.
    pub started: u8,
    /// Banks that an arrival is written to, a bit each.
    pub written: u8,
    /// A beat leaves (line card).
    pub sent_valid: u8,
    /// Its packet's last.
    pub sent_last: u8,
    /// Its packet's stream.
    pub sent_stream: u8,
}

/// A card after reset.
#[derive(Debug)]
pub struct Card {
    /// What the next cycle's inputs will be.
    pub inputs: Inputs,
    handle: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    cycle: unsafe extern "C" fn(*mut c_void, *const Inputs, *mut Outputs),
    _library: Library,
}

// SAFETY: a model keeps no state of the thread that made it, and is used by one at a time.
unsafe impl Send for Card {}

impl Card {
    /// The card in `library`.
    ///
    /// # Errors
    /// If the library or a function in it cannot be loaded.
    pub fn load(library: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: the library was built by this crate from card.cpp: loading it runs only its own
        // initialisers, its functions have these types, and it stays loaded as long as `Card`.
        let mut card = unsafe {
            let library = Library::new(library)?;
            let new = *library.get::<unsafe extern "C" fn() -> *mut c_void>(b"card_new")?;
            Self {
                inputs: Inputs::default(),
                free: *library.get(b"card_free")?,
                cycle: *library.get(b"card_cycle")?,
                handle: new(),
                _library: library,
            }
        };
        card.cycle();
        card.inputs.rst_n = 1;
        Ok(card)
    }

    /// A clock cycle: the outputs that followed the inputs, and the rising edge after them.
    pub fn cycle(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the handle is live until dropped and ours alone; both structs are as in C++.
        unsafe { (self.cycle)(self.handle, &raw const self.inputs, &raw mut outputs) };
        outputs
    }

    /// Writes a register and waits until the card has taken it. Nothing else may be under way.
    pub fn write(&mut self, address: u32, data: u32) {
        self.inputs.write_address = byte(address);
        self.inputs.write_data = data;
        self.inputs.write = 1;
        while self.cycle().write_ready == 0 {}
        self.inputs.write = 0;
        self.cycle();
    }
}

/// An address of the register map, which has at most 256 bytes.
pub(crate) fn byte(address: u32) -> u8 {
    u8::try_from(address).expect("registers are below 256")
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: made by `card_new`, freed once, before the library goes.
        unsafe { (self.free)(self.handle) };
    }
}
