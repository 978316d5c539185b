//! Fuzz targets: one for everything that parses input from outside the process.
//!
//! ```text
//! seeds ─┬─> mutant (target's mutator) ─> run ─> passed the first parser? ─> Depth
//!        └─< inputs that passed           └ panics on a violated invariant
//! ```
//! The same targets run in two drivers. `tests/smoke.rs` runs a fixed number of inputs from a fixed
//! seed on stable Rust, as part of `make test`. `fuzz/` runs them under libFuzzer (`make fuzz`).
//! Both count how many inputs pass the first parser of a target: inputs that a magic number or a
//! checksum refuses test nothing behind it.
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

/// The least share of inputs that must pass the first parser of a target, per cent.
pub const LEAST_SHARE: u64 = 30;

/// One fuzz target.
pub struct Target {
    /// Its name, also that of its binary in `fuzz/fuzz_targets/`.
    pub name: &'static str,
    /// The first parser that an input meets, in words.
    pub first_parser: &'static str,
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Byte strings that mean something to the parser.
    pub words: &'static [&'static [u8]],
    /// Changes an input a little.
    pub mutate: fn(&mut Mutation, &mut Vec<u8>),
    /// Returns whether the first parser accepts an input, if that is cheap to ask. Most mutants
    /// that it refuses are thrown away before they run.
    pub admits: Option<fn(&[u8]) -> bool>,
    /// Runs one input; panics if an invariant is violated. Returns whether the input passed the
    /// first parser.
    pub run: fn(&[u8]) -> bool,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    targets::access_files::TARGET,
    targets::capture::TARGET,
    targets::cluster::TARGET,
    targets::credentials::TARGET,
    targets::csv::TARGET,
    targets::extension::TARGET,
    targets::hilq_exact::TARGET,
    targets::journal::TARGET,
    targets::machine::TARGET,
    targets::mpeg::TARGET,
    targets::orders::TARGET,
    targets::packet::TARGET,
    targets::proxy::TARGET,
    targets::published::TARGET,
    targets::requests::TARGET,
    targets::router::TARGET,
    targets::rtnetlink::TARGET,
    targets::scenario::TARGET,
    targets::segments::TARGET,
    targets::takeover::TARGET,
    targets::transport_stream::TARGET,
];

/// A target with a planted bug, which both drivers must find.
pub const CANARY: Target = targets::canary::TARGET;

/// The target called `name`.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    const PLANTED: &Target = &CANARY;
    let found = TARGETS.iter().find(|target| target.name == name);
    found.or_else(|| (name == PLANTED.name).then_some(PLANTED)).expect("a target of this name")
}
