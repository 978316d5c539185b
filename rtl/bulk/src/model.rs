//! Safe bindings of the verilated cores in model.cpp; the structs match those in rows.h.

use std::ffi::{c_int, c_void};

use millstream_hw::{Load, Reference, Settings, SortingNetwork};

/// The inputs of a cycle.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Inputs {
    /// The load bundle.
    pub load: u64,
    /// Streams with an offered packet, one bit each.
    pub packet_valid: u64,
    /// Arrival stamps of the offered packets.
    pub stamp: [u16; 64],
    /// Increment of time.
    pub step: u16,
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
    /// Packets taken at the end of the cycle.
    pub take: u64,
    /// Heads dropped.
    pub dropped: u64,
    /// Streams whose last charge was a violation.
    pub violation: u64,
    /// Streams whose deadline left the window.
    pub range: u64,
    /// The core's time.
    pub now: u16,
    /// Ready for a decision.
    pub ready: u8,
    /// A decision ended.
    pub decided: u8,
    /// The decision has a winner.
    pub winner_valid: u8,
    /// The winner.
    pub winner: u8,
    /// Ready for a load.
    pub load_ready: u8,
}

/// The registers of one stream.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Stream {
    /// Deadline of the head.
    pub deadline: u16,
    /// Arrival of the head.
    pub arrival: u16,
    /// Deadlines missed.
    pub missed: u16,
    /// Violations.
    pub violations: u16,
    /// Packets sent.
    pub serviced: u16,
    /// x'.
    pub x: u8,
    /// y'.
    pub y: u8,
    /// Whether the stream has a head.
    pub valid: u8,
    /// The stream's number.
    pub id: u8,
}

/// The configuration of a core, with its functions.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// The name.
    pub name: &'static str,
    /// Number of streams, N.
    pub streams: usize,
    /// Winner-only routing.
    pub winner_only: bool,
    /// Compute-Ahead.
    pub compute_ahead: bool,
    /// Exact list.
    pub sorted: bool,
    /// All passes in one cycle.
    pub tree: bool,
    /// Order keys.
    pub keyed: bool,
    /// Winners of a decision.
    pub block: usize,
    /// The functions of the library.
    pub functions: CoreFunctions,
}

/// The functions of a verilated core; a model is passed as a pointer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CoreFunctions {
    create: unsafe extern "C" fn() -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    settle: unsafe extern "C" fn(*mut c_void, *const Inputs, *mut Outputs),
    clock: unsafe extern "C" fn(*mut c_void),
    stream: unsafe extern "C" fn(*mut c_void, c_int, *mut Stream),
    list: unsafe extern "C" fn(*mut c_void, c_int) -> u64,
}

impl Configuration {
    /// Returns the reference: the engine, or the model of blocks.
    pub fn reference(&self, settings: Settings) -> Reference {
        let network = if self.sorted { SortingNetwork::Bitonic } else { SortingNetwork::Published };
        match self.block {
            1 => Reference::new(settings),
            block => Reference::with_blocks(settings, network, block),
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

    /// Cycles without a decision in which every stream takes its offered packet and the past
    /// periods of a single step are charged; more after a load.
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

/// One instance with its queues' fronts and inputs.
#[derive(Debug)]
pub struct Core {
    /// The configuration.
    pub configuration: Configuration,
    /// The inputs of the next cycle.
    pub inputs: Inputs,
    handle: *mut c_void,
}

impl Core {
    /// Creates a core after reset.
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
        // SAFETY: creates a model without arguments.
        let handle = unsafe { (configuration.functions.create)() };
        let mut core = Self { configuration, inputs, handle };
        core.settle();
        core.clock();
        core.inputs.rst_n = 1;
        core
    }

    /// Evaluates the combinational outputs for the current inputs.
    pub fn settle(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the handle is live until dropped and exclusive; both structs match rows.h.
        unsafe {
            (self.configuration.functions.settle)(
                self.handle,
                &raw const self.inputs,
                &raw mut outputs,
            )
        };
        outputs
    }

    /// Applies a rising clock edge.
    pub fn clock(&mut self) {
        // SAFETY: see `settle`.
        unsafe { (self.configuration.functions.clock)(self.handle) };
    }

    /// Returns the registers of stream `i`.
    pub fn stream(&self, i: usize) -> Stream {
        let mut stream = Stream::default();
        // SAFETY: see `settle`; `i` is below the number of streams, at most 64.
        unsafe { (self.configuration.functions.stream)(self.handle, i as c_int, &raw mut stream) };
        stream
    }

    /// Entry `i` of the list: whether the stream has a packet, and its number.
    pub fn list(&self, i: usize) -> (bool, usize) {
        // SAFETY: see `settle`.
        let entry = unsafe { (self.configuration.functions.list)(self.handle, i as c_int) };
        (entry >> 6 == 1, (entry & 63) as usize)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { (self.configuration.functions.destroy)(self.handle) };
    }
}

/// Returns the configuration bundle, `msr_pkg::config_t`.
pub fn config_bits(settings: Settings) -> u8 {
    (settings.mode as u8) << 2
        | u8::from(settings.lowest_denominator) << 1
        | u8::from(settings.rtas99)
}

/// Returns the load bundle, `msr_pkg::load_t`.
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
