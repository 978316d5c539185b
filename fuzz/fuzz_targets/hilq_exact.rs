//! Whatever happens to streams, `hilq-exact` does what `scan` does.
#![no_main]

#[path = "../../crates/millstream/tests/support/duel.rs"]
mod duel;

use duel::{Choose, duel};
use libfuzzer_sys::fuzz_target;

/// Choices from bytes; zeros when they are used up.
struct Bytes<'a>(&'a [u8]);

impl Choose for Bytes<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        // As many bytes as the bound needs, so that each steers one choice.
        let needed = (8 - bound.saturating_sub(1).leading_zeros() as usize / 8).min(self.0.len());
        let (taken, rest) = self.0.split_at(needed);
        self.0 = rest;
        taken.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) % bound
    }
}

fuzz_target!(|bytes: &[u8]| {
    duel(&mut Bytes(bytes), bytes.len() as u64 / 2);
});
