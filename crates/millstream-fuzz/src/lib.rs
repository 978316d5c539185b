//! Fuzz targets for every parser of external input.
//!
//! ```text
//! seeds ─┬─> mutant (target's mutator) ─> run ─> passed the first parser? ─> Depth
//!        └─< inputs that passed           └ panics on a violated invariant
//! ```
//! Two drivers run the targets. `tests/smoke.rs` runs a fixed number of inputs from a fixed seed on
//! stable Rust, as part of `make test`. `fuzz/` runs them under libFuzzer (`make fuzz`). Both count
//! the inputs that pass a target's first parser: an input that a magic number or a checksum rejects
//! tests nothing behind it.
//!
//! A new target is one file in `targets/` and one row in [`TARGETS`].

pub mod depth;
pub mod mutation;
pub mod records;
pub mod seeds;
pub mod smoke;
mod targets;

pub use depth::Depth;
pub use mutation::Mutation;

/// Minimum share of inputs that must pass a target's first parser, percent.
pub const MIN_SHARE: u64 = 30;

/// One fuzz target.
pub struct Target {
    /// The name, also of its binary in `fuzz/fuzz_targets/`.
    pub name: &'static str,
    /// Describes the first parser of an input, for reports.
    pub first_parser: &'static str,
    /// Initial inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Tokens of the parser's grammar, for the mutator.
    pub words: &'static [&'static [u8]],
    /// Makes a small change to an input.
    pub mutate: fn(&mut Mutation, &mut Vec<u8>),
    /// Returns whether the first parser accepts an input, if that check is cheap. Most rejected
    /// mutants are discarded before they run.
    pub admits: Option<fn(&[u8]) -> bool>,
    /// Runs one input; panics if an invariant is violated. Returns whether the input passed the
    /// first parser.
    pub run: fn(&[u8]) -> bool,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    targets::access_files::TARGET,
    targets::audio::TARGET,
    targets::browsers::TARGET,
    targets::c_calls::TARGET,
    targets::capture::TARGET,
    targets::cluster::TARGET,
    targets::codecs::TARGET,
    targets::credentials::TARGET,
    targets::csv::TARGET,
    targets::extension::TARGET,
    targets::fragments::TARGET,
    targets::hilq_exact::TARGET,
    targets::hls::TARGET,
    targets::journal::TARGET,
    targets::machine::TARGET,
    targets::mpeg::TARGET,
    targets::orders::TARGET,
    targets::packet::TARGET,
    targets::proxy::TARGET,
    targets::published::TARGET,
    targets::recorded::TARGET,
    targets::requests::TARGET,
    targets::router::TARGET,
    targets::rtmp::TARGET,
    targets::rtnetlink::TARGET,
    targets::scenario::TARGET,
    targets::segments::TARGET,
    targets::takeover::TARGET,
    targets::transport_receiver::TARGET,
    targets::transport_stream::TARGET,
];

/// A target with a planted bug that both drivers must find.
pub const CANARY: Target = targets::canary::TARGET;

/// Returns the target called `name`.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    const PLANTED: &Target = &CANARY;
    let found = TARGETS.iter().find(|target| target.name == name);
    found.or_else(|| (name == PLANTED.name).then_some(PLANTED)).expect("a target of this name")
}
