//! One verilated core: a safe face on core.cpp, whose structs are repeated here.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::Path;

use libloading::Library;

/// What goes into the core in a cycle.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Inputs {
    /// Streams with a packet offered.
    pub packet_valid: u64,
    /// By how much time moves on, ns.
    pub step: u64,
    /// The stamps of those packets, ns.
    pub stamp: [u64; 64],
    /// The load bundle, low word first.
    pub load: [u32; 4],
    /// No reset.
    pub rst_n: u8,
    /// The configuration bundle.
    pub config: u8,
    /// LOAD.
    pub load_valid: u8,
    /// Which stream.
    pub load_id: u8,
    /// A decision is wanted.
    pub decide: u8,
}

/// What comes out of it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Outputs {
    /// Packets taken at the end of the cycle.
    pub take: u64,
    /// Heads dropped in it.
    pub dropped: u64,
    /// Streams whose deadline left the wrap-around window.
    pub range: u64,
    /// The time, ns.
    pub now: u64,
    /// A decision would start.
    pub ready: u8,
    /// The first of the list is a stream with a packet; holds from the last pass on.
    pub first_valid: u8,
    /// Which.
    pub first: u8,
}

/// One stream's registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Stream {
    /// Its head's deadline, ns; the low 48 bits.
    pub deadline: u64,
    /// Deadlines missed; wraps.
    pub missed: u16,
    /// Misses that the window did not allow; wraps.
    pub violations: u16,
    /// x'.
    pub x: u8,
    /// y'.
    pub y: u8,
    /// It has a head.
    pub valid: u8,
}

/// A core after reset.
#[derive(Debug)]
pub struct Core {
    /// What the next cycle's inputs will be.
    pub inputs: Inputs,
    handle: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    settle: unsafe extern "C" fn(*mut c_void, *const Inputs, *mut Outputs),
    clock: unsafe extern "C" fn(*mut c_void),
    stream: unsafe extern "C" fn(*mut c_void, c_int, *mut Stream),
    streams: usize,
    _library: Library,
}

// SAFETY: a model keeps no state of the thread that made it, and is used by one at a time.
unsafe impl Send for Core {}

impl Core {
    /// The core in `library`, which was built for `streams` streams.
    ///
    /// # Errors
    /// If the library or a function in it cannot be loaded.
    pub fn load(library: &Path, streams: usize) -> Result<Self, libloading::Error> {
        // SAFETY: the library was built by this crate from core.cpp: loading it runs only its own
        // initialisers, its functions have these types, and it stays loaded as long as `Core`.
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

    /// N.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// The outputs that follow the inputs in this cycle.
    pub fn settle(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the handle is live until dropped and ours alone; both structs are as in C++.
        unsafe { (self.settle)(self.handle, &raw const self.inputs, &raw mut outputs) };
        outputs
    }

    /// The rising edge.
    pub fn clock(&mut self) {
        // SAFETY: as above.
        unsafe { (self.clock)(self.handle) };
    }

    /// The registers of stream `i`.
    ///
    /// # Panics
    /// If there is no such stream.
    #[must_use]
    pub fn stream(&self, i: usize) -> Stream {
        assert!(i < self.streams, "the core has {} streams", self.streams);
        let mut stream = Stream::default();
        let i = c_int::try_from(i).expect("below 64");
        // SAFETY: as above; the stream exists.
        unsafe { (self.stream)(self.handle, i, &raw mut stream) };
        stream
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: made by `core_new`, freed once, before the library goes.
        unsafe { (self.free)(self.handle) };
    }
}
