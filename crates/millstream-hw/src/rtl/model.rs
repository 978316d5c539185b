//! Safe bindings of core.cpp: one verilated core. The structs match those in core.cpp.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::Path;

use libloading::Library;

/// The inputs of a cycle.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Inputs {
    /// Streams with an offered packet, one bit each.
    pub packet_valid: u64,
    /// Increment of time, ns.
    pub step: u64,
    /// Arrival stamps of the offered packets, ns.
    pub stamp: [u64; 64],
    /// The load bundle, low word first.
    pub load: [u32; 4],
    /// Reset, active low.
    pub rst_n: u8,
    /// The configuration bundle.
    pub config: u8,
    /// Load request.
    pub load_valid: u8,
    /// Stream of the load.
    pub load_id: u8,
    /// Decision request.
    pub decide: u8,
}

/// The outputs of a cycle.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Outputs {
    /// Packets taken at the end of the cycle, one bit per stream.
    pub take: u64,
    /// Heads dropped in the cycle, one bit per stream.
    pub dropped: u64,
    /// Streams whose deadline left the wrap-around window, one bit each.
    pub range: u64,
    /// The core's time, ns.
    pub now: u64,
    /// Ready for a decision.
    pub ready: u8,
    /// Whether the first stream of the list has a packet; valid from the last pass on.
    pub first_valid: u8,
    /// The first stream of the list.
    pub first: u8,
}

/// The registers of one stream.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Stream {
    /// Deadline of the head, ns; the low 48 bits.
    pub deadline: u64,
    /// Missed deadlines; wraps.
    pub missed: u16,
    /// Misses beyond the window-constraint; wraps.
    pub violations: u16,
    /// x'.
    pub x: u8,
    /// y'.
    pub y: u8,
    /// Whether the stream has a head.
    pub valid: u8,
}

/// A core after reset.
#[derive(Debug)]
pub struct Core {
    /// The inputs of the next cycle.
    pub inputs: Inputs,
    handle: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    settle: unsafe extern "C" fn(*mut c_void, *const Inputs, *mut Outputs),
    clock: unsafe extern "C" fn(*mut c_void),
    stream: unsafe extern "C" fn(*mut c_void, c_int, *mut Stream),
    streams: usize,
    _library: Library,
}

// SAFETY: a model has no thread-local state and is used by one thread at a time.
unsafe impl Send for Core {}

impl Core {
    /// Loads the core from `library`, which was built for `streams` streams.
    ///
    /// # Errors
    /// Fails if the library or a function in it cannot be loaded.
    pub fn load(library: &Path, streams: usize) -> Result<Self, libloading::Error> {
        // SAFETY: this crate built the library from core.cpp. Loading runs only its initialisers,
        // the functions have these types, and it stays loaded as long as `Core`.
        let mut core = unsafe {
            let library = Library::new(library)?;
            let new = *library.get::<unsafe extern "C" fn() -> *mut c_void>(b"core_new")?;
            Self {
                inputs: Inputs {
                    packet_valid: 0,
                    step: 0,
                    stamp: [0; 64],
                    load: [0; 4],
                    rst_n: 0,
                    config: 0,
                    load_valid: 0,
                    load_id: 0,
                    decide: 0,
                },
                free: *library.get(b"core_free")?,
                settle: *library.get(b"core_settle")?,
                clock: *library.get(b"core_clock")?,
                stream: *library.get(b"core_stream")?,
                handle: new(),
                streams,
                _library: library,
            }
        };
        core.settle();
        core.clock();
        core.inputs.rst_n = 1;
        Ok(core)
    }

    /// Returns the number of streams, N.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Evaluates the combinational outputs for the current inputs.
    pub fn settle(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the handle is live until dropped and exclusive; both structs match core.cpp.
        unsafe { (self.settle)(self.handle, &raw const self.inputs, &raw mut outputs) };
        outputs
    }

    /// Applies a rising clock edge.
    pub fn clock(&mut self) {
        // SAFETY: see `settle`.
        unsafe { (self.clock)(self.handle) };
    }

    /// Returns the registers of stream `i`.
    ///
    /// # Panics
    /// Panics if `i` is out of range.
    #[must_use]
    pub fn stream(&self, i: usize) -> Stream {
        assert!(i < self.streams, "the core has {} streams", self.streams);
        let mut stream = Stream::default();
        let i = c_int::try_from(i).expect("below 64");
        // SAFETY: see `settle`; the stream exists.
        unsafe { (self.stream)(self.handle, i, &raw mut stream) };
        stream
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: made by `core_new`, freed once, before the library is unloaded.
        unsafe { (self.free)(self.handle) };
    }
}
