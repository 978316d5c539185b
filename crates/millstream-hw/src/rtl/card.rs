//! Safe bindings of card.cpp: one verilated card. The structs match those in card.cpp.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::Path;

use libloading::Library;

/// The inputs of a cycle.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Inputs {
    /// Input beat; on the end-system card a word of two arrivals.
    pub data: u64,
    /// Register write data.
    pub write_data: u32,
    /// Reset, active low.
    pub rst_n: u8,
    /// Register write request.
    pub write: u8,
    /// Write address, bytes.
    pub write_address: u8,
    /// Register read request.
    pub read: u8,
    /// Read address, bytes.
    pub read_address: u8,
    /// Input beat valid.
    pub data_valid: u8,
    /// Last beat of a packet (line card).
    pub data_last: u8,
    /// Stream of the packet (line card).
    pub data_stream: u8,
    /// Accepts the requested pull (end-system card).
    pub pull_ready: u8,
}

/// The outputs before the rising edge.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Outputs {
    /// Streams whose head deadline left the wrap-around window, one bit each.
    pub range: u64,
    /// Streams whose y' reached 255 by a violation, one bit each.
    pub window_full: u64,
    /// Register read data.
    pub read_data: u32,
    /// Arrivals written to SRAM, 16 bits for each bank.
    pub written_time: u32,
    /// The card's time.
    pub now: u16,
    /// Number of arrivals of the requested pull.
    pub pull_count: u16,
    /// Streams of the written arrivals, 6 bits for each bank.
    pub written_stream: u16,
    /// Write accepted.
    pub write_ready: u8,
    /// Read accepted.
    pub read_ready: u8,
    /// Read data valid.
    pub read_valid: u8,
    /// Input beat accepted.
    pub data_ready: u8,
    /// Pull request.
    pub pull_valid: u8,
    /// Stream of the pull.
    pub pull_stream: u8,
    /// A winner is ready to be read.
    pub winner_waits: u8,
    /// No state changes without the host.
    pub idle: u8,
    /// A decision starts.
    pub started: u8,
    /// Banks written in this cycle, one bit each.
    pub written: u8,
    /// Output beat valid (line card).
    pub sent_valid: u8,
    /// Last beat of the packet.
    pub sent_last: u8,
    /// Stream of the packet.
    pub sent_stream: u8,
}

/// A card after reset.
#[derive(Debug)]
pub struct Card {
    /// The inputs of the next cycle.
    pub inputs: Inputs,
    handle: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    cycle: unsafe extern "C" fn(*mut c_void, *const Inputs, *mut Outputs),
    _library: Library,
}

// SAFETY: a model has no thread-local state and is used by one thread at a time.
unsafe impl Send for Card {}

impl Card {
    /// Loads the card from `library`.
    ///
    /// # Errors
    /// Fails if the library or a function in it cannot be loaded.
    pub fn load(library: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: this crate built the library from card.cpp. Loading runs only its initialisers,
        // the functions have these types, and it stays loaded as long as `Card`.
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

    /// Runs a clock cycle; returns the outputs before its rising edge.
    pub fn cycle(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the handle is live until dropped and exclusive; both structs match card.cpp.
        unsafe { (self.cycle)(self.handle, &raw const self.inputs, &raw mut outputs) };
        outputs
    }

    /// Writes a register and waits until the card accepts it. No other access may be pending.
    pub fn write(&mut self, address: u32, data: u32) {
        self.inputs.write_address = byte(address);
        self.inputs.write_data = data;
        self.inputs.write = 1;
        while self.cycle().write_ready == 0 {}
        self.inputs.write = 0;
        self.cycle();
    }
}

/// Converts an address of the register map, which has at most 256 bytes.
pub(crate) fn byte(address: u32) -> u8 {
    u8::try_from(address).expect("registers are below 256")
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: made by `card_new`, freed once, before the library is unloaded.
        unsafe { (self.free)(self.handle) };
    }
}
