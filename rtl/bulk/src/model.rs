//! The verilated models: a safe face on model.cpp, whose structs are repeated here.

use std::ffi::{c_int, c_void};

use millstream_hw::{Load, Network, Reference, Settings};

/// What goes into the core in a cycle.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Inputs {
    /// The load bundle.
    pub load: u64,
    /// Streams with a packet offered.
    pub packet_valid: u64,
    /// The stamps of those packets.
    pub stamp: [u16; 64],
    /// By how much time moves on.
    pub step: u16,
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
    /// Heads dropped.
    pub dropped: u64,
    /// Streams whose last charge was a violation.
    pub violation: u64,
    /// Streams whose deadline went out of range.
    pub range: u64,
    /// The time.
    pub now: u16,
    /// A decision would start.
    pub ready: u8,
    /// A decision ended.
    pub decided: u8,
    /// It has a winner.
    pub winner_valid: u8,
    /// Which.
    pub winner: u8,
}

/// One stream's registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Stream {
    /// Deadline.
    pub deadline: u16,
    /// Arrival of the head.
    pub arrival: u16,
    /// Counter.
    pub missed: u16,
    /// Counter.
    pub violations: u16,
    /// Counter.
    pub serviced: u16,
    /// x'.
    pub x: u8,
    /// y'.
    pub y: u8,
    /// It has a head.
    pub valid: u8,
    /// Its number.
    pub id: u8,
}

/// The functions of one configuration.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// Its name.
    pub name: &'static str,
    /// N.
    pub streams: usize,
    /// Winner-only routing.
    pub winner_only: bool,
    /// Compute-Ahead.
    pub compute_ahead: bool,
    /// An exact list.
    pub sorted: bool,
    /// All passes in one cycle.
    pub tree: bool,
    /// Order keys.
    pub keyed: bool,
    /// Winners of a decision.
    pub block: usize,
    new: unsafe extern "C" fn() -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    settle: unsafe extern "C" fn(*mut c_void, *const Inputs, *mut Outputs),
    clock: unsafe extern "C" fn(*mut c_void),
    stream: unsafe extern "C" fn(*mut c_void, c_int, *mut Stream),
    list: unsafe extern "C" fn(*mut c_void, c_int) -> u64,
}

macro_rules! configuration {
    ($name:ident, $streams:literal, $winner_only:literal, $compute_ahead:literal, $sorted:literal, $tree:literal, $keyed:literal, $block:literal) => {{
        unsafe extern "C" {
            #[link_name = concat!(stringify!($name), "_new")]
            fn new() -> *mut c_void;
            #[link_name = concat!(stringify!($name), "_free")]
            fn free(model: *mut c_void);
            #[link_name = concat!(stringify!($name), "_settle")]
            fn settle(model: *mut c_void, inputs: *const Inputs, outputs: *mut Outputs);
            #[link_name = concat!(stringify!($name), "_clock")]
            fn clock(model: *mut c_void);
            #[link_name = concat!(stringify!($name), "_stream")]
            fn stream(model: *mut c_void, i: c_int, stream: *mut Stream);
            #[link_name = concat!(stringify!($name), "_list")]
            fn list(model: *mut c_void, i: c_int) -> u64;
        }
        Configuration {
            name: stringify!($name),
            streams: $streams,
            winner_only: $winner_only,
            compute_ahead: $compute_ahead,
            sorted: $sorted,
            tree: $tree,
            keyed: $keyed,
            block: $block,
            new,
            free,
            settle,
            clock,
            stream,
            list,
        }
    }};
}

/// All that were built.
pub const CONFIGURATIONS: &[Configuration] =
    include!(concat!(env!("OUT_DIR"), "/configurations.rs"));

impl Configuration {
    /// What it is held against: the engine, or the model of blocks.
    pub fn reference(&self, settings: Settings) -> Reference {
        let network = if self.sorted { Network::Sorting } else { Network::Published };
        match self.block {
            1 => Reference::new(settings),
            block => Reference::in_blocks(settings, network, block),
        }
    }

    /// Cycles of a decision.
    pub fn cycles(&self) -> u64 {
        if self.tree {
            return 1;
        }
        let log = u64::from(self.streams.ilog2());
        let passes = if self.sorted { log * log - log + 1 } else { log };
        passes + u64::from(!self.compute_ahead)
    }

    /// Cycles without a decision in which every stream takes what it is offered and past periods of
    /// the last step are charged, if it is one; after a load, more.
    pub fn settling(&self, loaded: bool) -> u32 {
        match (self.keyed, self.tree, loaded) {
            (false, _, _) => 0,
            (true, true, false) => 1,
            (true, false, false) => 3,
            (true, true, true) => 5,
            (true, false, true) => 6,
        }
    }
}

/// One instance, its queues' fronts and its inputs.
#[derive(Debug)]
pub struct Core {
    /// Which.
    pub configuration: Configuration,
    /// What the next cycle's inputs will be.
    pub inputs: Inputs,
    handle: *mut c_void,
}

impl Core {
    /// A core after reset.
    pub fn new(configuration: Configuration) -> Self {
        let inputs = Inputs {
            load: 0,
            packet_valid: 0,
            stamp: [0; 64],
            step: 1,
            rst_n: 0,
            config: 0,
            load_valid: 0,
            load_id: 0,
            decide: 0,
        };
        // SAFETY: it makes a model and takes nothing.
        let handle = unsafe { (configuration.new)() };
        let mut core = Self { configuration, inputs, handle };
        core.settle();
        core.clock();
        core.inputs.rst_n = 1;
        core
    }

    /// The outputs that follow the inputs in this cycle.
    pub fn settle(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the handle is live until dropped and ours alone; both structs are as in C++.
        unsafe {
            (self.configuration.settle)(self.handle, &raw const self.inputs, &raw mut outputs)
        };
        outputs
    }

    /// The rising edge.
    pub fn clock(&mut self) {
        // SAFETY: as above.
        unsafe { (self.configuration.clock)(self.handle) };
    }

    /// The registers of stream `i`.
    pub fn stream(&self, i: usize) -> Stream {
        let mut stream = Stream::default();
        // SAFETY: as above; `i` is below the number of streams, of which there are at most 64.
        unsafe { (self.configuration.stream)(self.handle, i as c_int, &raw mut stream) };
        stream
    }

    /// Entry `i` of the list: whether it has a packet, and its number.
    pub fn list(&self, i: usize) -> (bool, usize) {
        // SAFETY: as above.
        let entry = unsafe { (self.configuration.list)(self.handle, i as c_int) };
        (entry >> 6 == 1, (entry & 63) as usize)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { (self.configuration.free)(self.handle) };
    }
}

/// The configuration bundle, `msr_pkg::config_t`.
pub fn config_bits(settings: Settings) -> u8 {
    (settings.mode as u8) << 2
        | u8::from(settings.lowest_denominator) << 1
        | u8::from(settings.rtas99)
}

/// The load bundle, `msr_pkg::load_t`.
pub fn load_bits(load: &Load, rtas99: bool, deadline: u16, first: bool) -> u64 {
    let fields = [
        (u64::from(load.x), 8),
        (u64::from(load.y), 8),
        (u64::from(load.growth(rtas99)), 8),
        (u64::from(load.period), 16),
        (u64::from(load.drop), 1),
        (u64::from(deadline), 16),
        (u64::from(first), 1),
    ];
    fields.into_iter().fold(0, |bits, (value, width)| bits << width | value)
}
