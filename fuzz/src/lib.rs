//! The driver of `make fuzz`: runs the targets of `crates/millstream-fuzz` under libFuzzer.
//!
//! Mutators are the targets' own; a third of their changes are libFuzzer's. If
//! `MILLSTREAM_FUZZ_DEPTH` names a file, the driver writes the number of inputs, and of those that
//! passed the first parser, to it.

use millstream_fuzz::depth::DepthFile;
use millstream_fuzz::mutation::mutant;
use millstream_fuzz::{Target, target};
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The most bytes that libFuzzer's mutator adds to an input.
const ADDED: usize = 256;

type Known = (&'static Target, Arc<[Vec<u8>]>);

/// Returns the target of this process and its seeds.
fn known(name: &str) -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let target = target(name);
        (target, (target.seeds)().into())
    })
}

thread_local! {
    static DEPTH: RefCell<Option<DepthFile>> = RefCell::new(
        std::env::var_os("MILLSTREAM_FUZZ_DEPTH").map(|path| DepthFile::new(Path::new(&path))),
    );
}

/// Runs one input.
pub fn run(name: &str, input: &[u8]) {
    let passed = (known(name).0.run)(input);
    DEPTH.with_borrow_mut(|depth| {
        if let Some(depth) = depth {
            depth.count(passed);
        }
    });
}

/// Replaces the input in the first `size` bytes of `data` by a mutant; returns its length.
pub fn mutate(name: &str, data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let (target, seeds) = known(name);
    let mut raw = |input: &mut Vec<u8>| {
        let size = input.len();
        let most = size + ADDED;
        input.resize(most, 0);
        let size = libfuzzer_sys::fuzzer_mutate(input, size, most);
        input.truncate(size);
    };
    let most = most.min(data.len());
    let input = mutant(target, seeds, &data[..size], seed.into(), most, Some(&mut raw));
    data[..input.len()].copy_from_slice(&input);
    input.len()
}

/// The binary of a target.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::run($name, input));
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
            $crate::mutate($name, data, size, most, seed)
        });
    };
}
